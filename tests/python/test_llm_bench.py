"""`musacoder-train bench`: the loss of its made-up tokens is transformers', and training lowers it. And the scripts that
compare a GPU with transformers, run on the CPU: both engines hold there too.
"""

import json
import os
import subprocess
import sys

import pytest
from llm_support import ROOT, TRAIN, require_train

require_train("transformers", "safetensors", "torch")

import torch  # noqa: E402
from test_llm_decoder import make  # noqa: E402

BENCH = os.path.join(ROOT, "bench", "llm")


def test_loss_is_that_of_transformers(tmp_path):
    reference = make("qwen3", tmp_path / "model")
    path = tmp_path / "model"
    arguments = ["--type", "f32", "--batch", 3, "--length", 17, "--steps", 3, "--warm-up", 0, "--lr", 0.01]
    command = [TRAIN, "bench", "--model", path, *arguments]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    vocab = reference.config.vocab_size
    ids = torch.tensor([[(1000003 * b + 7919 * t + t * t % 97) % vocab for t in range(17)] for b in range(3)])
    with torch.no_grad():
        want = reference(input_ids=ids, labels=ids).loss.item()
    assert line["first_loss"] == pytest.approx(want, rel=1e-5)
    assert line["last_loss"] < line["first_loss"] - 0.01
    assert line["parameters"] == sum(p.numel() for p in reference.parameters())
    assert line["peak_bytes"] == 0 and not line["fused"]


@pytest.mark.parametrize("device, says", [("gpu", "give cpu, cuda or cuda:N"), ("cuda:63", "CUDA")])
def test_devices_that_are_not_there(tmp_path, device, says):
    make("qwen3", tmp_path / "model")
    for command in ("bench", "generate"):
        more = ["--ids", "1 2"] if command == "generate" else []
        call = [TRAIN, command, "--model", tmp_path / "model", "--device", device, *more]
        done = subprocess.run([str(one) for one in call], capture_output=True, text=True)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_parity_script_on_the_cpu(tmp_path):
    script = [sys.executable, os.path.join(BENCH, "h200_parity.py"), "--device", "cpu", "--models", tmp_path]
    done = subprocess.run(
        [str(one) for one in [*script, "--shapes", "tiny-qwen3"]], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["type"], line["good"]) for line in lines] == [("f32", True), ("bf16", True)]

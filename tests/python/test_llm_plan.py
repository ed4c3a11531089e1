"""`musacoder-train plan`: parameters as transformers counts them without memory, bytes by hand calculation."""

import json
import subprocess

import pytest
from llm_support import require_train

require_train("transformers", "torch")

import torch  # noqa: E402
import transformers  # noqa: E402
from llm_support import TRAIN  # noqa: E402

COMMON = dict(head_dim=256, num_key_value_heads=4, vocab_size=248320, linear_num_key_heads=16)
QWEN35 = {
    "0.8B": dict(
        hidden_size=1024, num_hidden_layers=24, intermediate_size=3584, num_attention_heads=8,
        num_key_value_heads=2, linear_num_value_heads=16, tie_word_embeddings=True,
    ),
    "9B": dict(
        hidden_size=4096, num_hidden_layers=32, intermediate_size=12288, num_attention_heads=16,
        linear_num_value_heads=32, tie_word_embeddings=False,
    ),
    "27B": dict(
        hidden_size=5120, num_hidden_layers=64, intermediate_size=17408, num_attention_heads=24,
        linear_num_value_heads=48, tie_word_embeddings=False,
    ),
}  # fmt: skip


def plan(folder, *arguments, code=0):
    command = [TRAIN, "plan", "--model", folder, "--json", *arguments]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def write(folder, config, model):
    config.save_pretrained(folder)
    with torch.device("meta"):
        return sum(p.numel() for p in getattr(transformers, model)(config).parameters())


@pytest.mark.parametrize("size", QWEN35)
def test_parameters_of_real_sizes(size, tmp_path):
    config = transformers.Qwen3_5TextConfig(**(COMMON | QWEN35[size]))
    count = write(tmp_path, config, "Qwen3_5ForCausalLM")
    got = plan(tmp_path)
    assert got["parameters"]["total"] == got["parameters"]["trained"] == count
    assert sum(v for k, v in got["parameters"].items() if k not in ("total", "trained")) == count


def test_bytes_of_the_27b(tmp_path):
    count = write(tmp_path, transformers.Qwen3_5TextConfig(**(COMMON | QWEN35["27B"])), "Qwen3_5ForCausalLM")
    got = plan(tmp_path, "--samples", 8, "--context", 1000, "--processes", 8, "--recompute", "--tokens", 4096)
    assert got["layers"] == {"attention": 16, "delta": 48}
    generation, training = got["generation_bytes"], got["training_bytes"]
    assert generation["kv_per_token"] == 16 * 2 * 4 * 256 * 2  # layers, k and v, heads, dims, bf16
    # For each DeltaNet layer 48 heads' 128 x 128 states and three rows of 2 * 16 * 128 + 48 * 128 channels.
    assert generation["state_per_sample"] == 48 * 4 * (48 * 128 * 128 + 3 * 10240)
    assert generation["cache"] == 8 * (1000 * generation["kv_per_token"] + generation["state_per_sample"])
    assert training["weights"] == 2 * count
    assert training["masters"] == count * 4 / 8 and training["moments"] == count * 8 / 8
    assert training["activations"] == 4096 * training["activations_per_token"]
    assert training["activations_per_token"] > 64 * 5120 * 2
    whole = plan(tmp_path, "--tokens", 4096)["training_bytes"]
    assert whole["activations"] > 10 * training["activations"]
    assert training["total"] == sum(
        training[k] for k in training if k not in ("total", "activations_per_token")
    )


def test_adapters_and_other_families(tmp_path):
    config = transformers.Qwen3Config(
        hidden_size=64, num_hidden_layers=2, intermediate_size=96, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, vocab_size=100, tie_word_embeddings=True,
    )  # fmt: skip
    count = write(tmp_path, config, "Qwen3ForCausalLM")
    got = plan(tmp_path, "--lora-rank", 4, "--type", "f32")
    # Each of 2 layers: q, k, v, o; gate, up, down.
    sides = 2 * (64 + 128 + 2 * (64 + 64) + 128 + 64 + 3 * (64 + 96))
    assert got["parameters"]["total"] == count and got["parameters"]["trained"] == 4 * sides
    assert got["training_bytes"]["weights"] == 4 * count
    assert got["training_bytes"]["moments"] == 8 * 4 * sides
    assert got["generation_bytes"]["state_per_sample"] == 0
    text = subprocess.run([TRAIN, "plan", "--model", tmp_path], capture_output=True, text=True, check=True)
    assert "Training, one of 1 process, 8192 tokens a pass" in text.stdout
    assert "DeltaNet  " not in text.stdout


def test_what_cannot_be_planned(tmp_path):
    write(tmp_path, transformers.GPT2Config(n_layer=1), "GPT2LMHeadModel")
    assert "'gpt2' is not known" in plan(tmp_path, code=2)
    assert "cannot read" in plan(tmp_path / "none", code=2)
    write(tmp_path, transformers.Qwen3Config(num_hidden_layers=1), "Qwen3ForCausalLM")
    assert "1 or more" in plan(tmp_path, "--tokens", 0, code=2)

"""`musacoder-train sft` against transformers and torch, killed at any moment, on a full disk, and read by others."""

import json
import os
import random
import resource
import signal
import struct
import subprocess
import time

import pytest
from llm_support import require_train

require_train("transformers", "tokenizers", "safetensors", "torch")

import torch  # noqa: E402
import transformers  # noqa: E402
from llm_support import TRAIN  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from sft_support import ROWS, command, final, make_model, metrics, train, write_config  # noqa: E402


def examples_of(tokenizer, rows=ROWS):
    """Ids and labels by transformers' own template and tokenizer; the loss is on the last answer."""
    out = []
    for row in rows:
        prompt = tokenizer.apply_chat_template(
            row["messages"][:-1], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(prompt)["input_ids"]
        answer = tokenizer(row["messages"][-1]["content"] + "<|end|>")["input_ids"]
        out.append((ids + answer, [-100] * len(ids) + answer))
    return out


def reference_losses(model, tokenizer, steps, lr, warmup, clip, decay):
    """Full-batch AdamW by torch, with a linear schedule written down anew."""
    model.train()
    plain = [p for p in model.parameters() if p.dim() < 2]
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}], lr=lr
    )
    examples, losses, norms = examples_of(tokenizer), [], []
    count = sum(label != -100 for _, labels in examples for label in labels[1:])
    for step in range(steps):
        optimizer.zero_grad()
        total = 0
        for ids, labels in examples:
            logits = model(torch.tensor([ids])).logits[0, :-1]
            total = total + torch.nn.functional.cross_entropy(
                logits, torch.tensor(labels[1:]), ignore_index=-100, reduction="sum"
            )
        loss = total / count
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        rate = (step + 1) / warmup if step < warmup else 1 - (step - warmup) / (steps - warmup)
        for group in optimizer.param_groups:
            group["lr"] = lr * rate
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def test_losses_and_weights_are_those_of_torch(tmp_path):
    model, tokenizer = make_model(tmp_path / "model")
    config = write_config(
        tmp_path,
        tmp_path / "model",
        train__steps=6,
        train__batch_rows=100,
        optimizer__lr=0.01,
        optimizer__clip=1.5,
        optimizer__weight_decay=0.1,
        schedule__kind="linear",
        schedule__warmup=2,
    )
    train(config)
    losses, norms = reference_losses(model, tokenizer, 6, 0.01, 2, 1.5, 0.1)
    lines = metrics(tmp_path / "run")
    for line, loss, norm in zip(lines, losses, norms, strict=True):
        assert line["train/loss"] == pytest.approx(loss, rel=2e-5)
        assert line["train/grad_norm"] == pytest.approx(norm, rel=1e-4)
    saved = load_file(final(tmp_path / "run") / "model" / "model.safetensors")
    for name, parameter in model.named_parameters():
        off = (saved[name] - parameter).norm() / parameter.norm()
        assert off < 1e-4, f"{name}: {off:.1e}"


def test_the_saved_folder_loads_in_transformers_with_the_same_logits(tmp_path):
    make_model(tmp_path / "model")
    train(write_config(tmp_path, tmp_path / "model", train__steps=3, optimizer__lr=0.01))
    folder = final(tmp_path / "run") / "model"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template(ROWS[3]["messages"], tokenize=True, return_dict=False)
    given, out = tmp_path / "in.json", tmp_path / "out.safetensors"
    given.write_text(json.dumps({"sequences": [list(ids)]}))
    subprocess.run([TRAIN, "parity", "--model", folder, "--input", given, "--out", out], check=True)
    want = model(torch.tensor([ids])).logits[0].detach()
    assert (load_file(out)["logits"] - want).norm() / want.norm() < 1e-5


def folders_equal(one, two):
    names = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(two) for p in two.rglob("*") if p.is_file())
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in names)


def wait_for(process, condition, limit_s):
    """True when the condition came true while the process ran."""
    end = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < end:
        if condition():
            return True
    return False


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    """At random moments, and as soon as a checkpoint is being written."""
    # Large enough that a checkpoint takes a while to write.
    make_model(tmp_path / "model", hidden_size=256, intermediate_size=512)
    keys = dict(train__steps=12, train__batch_rows=2, optimizer__lr=0.003, checkpoint__every=2)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    began = time.monotonic()
    train(write_config(tmp_path / "a", tmp_path / "model", **keys))
    whole_s = time.monotonic() - began
    config = write_config(tmp_path / "b", tmp_path / "model", **keys)
    checkpoints, rng, kills, writing_kills = tmp_path / "b/run/checkpoints", random.Random(3), 0, 0

    def writing():
        return checkpoints.exists() and any(".tmp-" in name for name in os.listdir(checkpoints))

    for attempt in range(40):
        process = subprocess.Popen(command(config), stderr=subprocess.DEVNULL)
        if attempt % 2 == 0:
            if wait_for(process, writing, 60):
                time.sleep(rng.random() * 0.02)
                writing_kills += writing()
        else:
            wait_for(
                process,
                lambda began=time.monotonic(), s=rng.uniform(0.05, 0.3) * whole_s: time.monotonic() - began > s,
                60,
            )
        if attempt < 8 and process.poll() is None:
            kills += 1
            process.kill()
        process.wait(240)
        if process.returncode == 0:
            break
    assert process.returncode == 0 and kills >= 3 and writing_kills >= 1
    assert folders_equal(
        final(tmp_path / "a/run").resolve() / "model", final(tmp_path / "b/run").resolve() / "model"
    )
    assert folders_equal(
        final(tmp_path / "a/run").resolve() / "optimizer", final(tmp_path / "b/run").resolve() / "optimizer"
    )
    assert [line["step"] for line in metrics(tmp_path / "b/run")] == list(range(1, 13))
    assert [line["train/loss"] for line in metrics(tmp_path / "b/run")] == [
        line["train/loss"] for line in metrics(tmp_path / "a/run")
    ]
    assert not writing(), "what killed processes left is removed"
    assert sorted(p.name for p in checkpoints.iterdir()) == ["latest", "step-00000010", "step-00000012"]


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path):
    make_model(tmp_path / "model")
    config = write_config(tmp_path, tmp_path / "model", train__steps=100000, checkpoint__every=3)
    process = subprocess.Popen(
        command(config),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    latest = tmp_path / "run/checkpoints/latest"
    assert wait_for(process, latest.exists, 60)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 3, error
    assert "cannot write" in error and "File too large" in error
    assert "first.model.norm.weight" in load_file(latest / "optimizer/model.safetensors")
    assert [p.name for p in (tmp_path / "run/checkpoints").iterdir() if ".tmp-" in p.name] == []


def test_a_full_disk_is_said_before_anything_is_written(tmp_path):
    make_model(tmp_path / "model", hidden_size=256, intermediate_size=512)
    disk = tmp_path / "disk"
    disk.mkdir()
    config = write_config(tmp_path, tmp_path / "model", train__steps=2, run__dir=str(disk / "run"))
    script = f"mount -t tmpfs -o size=4m none {disk} && exec {TRAIN} sft {config}"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 3 and "MiB free" in done.stderr, done.stderr


def crc32c(data):
    """Bit by bit, from the polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmasked(data):
    crc = (struct.unpack("<I", data)[0] - 0xA282EAD8) & 0xFFFFFFFF
    return (crc >> 17 | crc << 15) & 0xFFFFFFFF


def fields(data):
    """A Protocol Buffers message as (field, value) pairs."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        if size is None:
            size = varint()
        yield key >> 3, data[at : at + size]
        at += size


def test_event_files_are_tensorboards(tmp_path):
    make_model(tmp_path / "model")
    train(write_config(tmp_path, tmp_path / "model", train__steps=4))
    (path,) = (tmp_path / "run/tensorboard").iterdir()
    data, events = path.read_bytes(), []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        assert unmasked(data[8:12]) == crc32c(data[:8])
        event, data = data[12 : 12 + length], data[12 + length :]
        assert unmasked(data[:4]) == crc32c(event)
        data = data[4:]
        events.append(dict(fields(event)))
    assert events[0][3] == b"brain.Event:2"
    assert abs(struct.unpack("<d", events[1][1])[0] - time.time()) < 600
    for line, event in zip(metrics(tmp_path / "run"), events[1:], strict=True):
        values = {}
        for _, value in fields(event[5]):
            parts = dict(fields(value))
            values[parts[1].decode()] = struct.unpack("<f", parts[2])[0]
        assert event[2] == line["step"]
        assert values["train/loss"] == pytest.approx(line["train/loss"], rel=1e-6)


def test_tensorboards_own_reader_reads_them(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    make_model(tmp_path / "model")
    train(write_config(tmp_path, tmp_path / "model", train__steps=4))
    events = reader.EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    assert [e.step for e in events.Scalars("train/loss")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "more, code, message",
    [
        (["--set", "optimizer.lrr=1"], 2, "did you mean 'optimizer.lr'?"),
        (["--set", 'data.train=["nowhere.jsonl"]'], 2, "nowhere.jsonl"),
        (["--set", "train.batch_rows=0"], 2, "train.batch_rows is too small"),
        (["--set", "model.path=nowhere"], 2, "nowhere"),
    ],
)
def test_wrong_configurations_say_what_is_wrong(more, code, message, tmp_path):
    make_model(tmp_path / "model")
    done = train(write_config(tmp_path, tmp_path / "model"), *more, check=False)
    assert done.returncode == code and message in done.stderr


def test_a_dry_run_writes_nothing(tmp_path):
    make_model(tmp_path / "model")
    done = train(write_config(tmp_path, tmp_path / "model", train__batch_rows=1), "--dry-run")
    assert "7 examples in 1 rows" in done.stderr and not (tmp_path / "run").exists()

"""Recurrent networks over sequences and multi-head attention: the teacher's answers to drawn tasks, before the real judge.

Run: pytest tests/python/test_sequence_tasks.py
What the tasks mean is tests/synth/graph_test.cpp's matter.
"""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MUSACODER", ROOT / "build" / "musacoder"))
ROWS = pathlib.Path(os.environ.get("MUSACODER_TEACHER_ROWS", ROOT / "build" / "teacher_rows"))
MODULES = ("nn.GRU(", "nn.LSTM(", "nn.MultiheadAttention(")
# What is wrong with each: the update gate's sides exchanged, the forget gate left out, scores scaled by another size.
FAULTS = (
    ("(1.0f - update) * cand + update *", "update * cand + (1.0f - update) *"),
    ("const float c_new = forget *", "const float c_new ="),
    ("rsqrtf(static_cast<float>(", "rsqrtf(2.0f * static_cast<float>("),
)


def with_biases(code):
    """Attention whose biases are not zero, as a new module's are."""
    lines = []
    for line in code.splitlines():
        lines.append(line)
        if "= nn.MultiheadAttention(" in line:
            indent, member = line[: len(line) - len(line.lstrip())], line.split("=")[0].strip()
            lines += [f"{indent}if {member}.in_proj_bias is not None:", f"{indent}    nn.init.normal_({member}.in_proj_bias)"]
            lines += [f"{indent}if {member}.out_proj.bias is not None:", f"{indent}    nn.init.normal_({member}.out_proj.bias)"]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def rows():
    if not ROWS.exists():
        pytest.skip(f"{ROWS} is not built; run: ninja -C build teacher_rows")
    made = []
    for archetype in ("network.sequence", "network.self_attention"):
        command = [ROWS, "--only", archetype, "--seed", "300", "--tasks", "25", "--answers", "2", "--derive"]
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        assert "derivation:" not in out.stderr, out.stderr
        made += [json.loads(line) for line in out.stdout.splitlines()]
    return [{**row, "reference": with_biases(row["reference"]), "candidate": with_biases(row["candidate"])} for row in made]


def first(rows, *words):
    return next(row for row in rows if all(word in row["reference"] + row["schedule"] for word in words))


@pytest.fixture(scope="module")
def chosen(rows):
    """Few rows that together have every module, both layouts, one and two layers, a given state, and every schedule of a recurrence."""
    wanted = [(module, layout) for module in MODULES for layout in ("batch_first", "recurrent.step", "recurrent.warps") if "Attention" not in module or "recurrent" not in layout]
    wanted += [("nn.GRU(", "recurrent.block"), ("nn.LSTM(", "(h0, c0)", "num_layers = 2"), ("nn.MultiheadAttention(", "in_proj_bias", "nn.LayerNorm(")]
    found = {row["id"]: row for row in (first(rows, *words) for words in wanted)}
    return list(found.values())


@pytest.fixture(scope="module")
def verdicts(chosen, tmp_path_factory):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built; run: ninja -C build musacoder")
    batch = list(chosen)
    for module, (right, wrong) in zip(MODULES, FAULTS, strict=True):
        row = next(row for row in chosen if module in row["reference"])
        assert right in row["candidate"], f"the kernels of {row['id']} do not say {right}"
        batch.append({**row, "id": f"fault of {module}", "candidate": row["candidate"].replace(right, wrong)})
    folder = tmp_path_factory.mktemp("sequence")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in batch), encoding="utf-8")
    command = [PROGRAM, "verify", "--backend", "vgpu", "--batch", folder / "rows.jsonl", "--out", folder / "verdicts.jsonl", "--lanes", "1"]
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=600)
    lines = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return {verdict["id"]: verdict for verdict in map(json.loads, lines)}


def test_every_form_is_drawn(rows):
    text = "".join(row["reference"] for row in rows)
    for word in (*MODULES, "num_layers = 2", "(h0, c0)", "bias=False", "nn.LayerNorm(", "self.fc("):
        assert word in text, word


@pytest.mark.parametrize("module", MODULES)
def test_answers_are_verified(module, chosen, verdicts):
    own = [row for row in chosen if module in row["reference"]]
    assert len(own) >= 2
    for row in own:
        verdict = verdicts[row["id"]]
        assert verdict["status"] == "ok", (row["id"], row["schedule"], verdict.get("cause"))


@pytest.mark.parametrize("module", MODULES)
def test_a_wrong_gate_is_not(module, verdicts):
    status = verdicts[f"fault of {module}"]["status"]
    assert status.startswith("correctness_error"), status

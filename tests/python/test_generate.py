"""`musacoder generate`, `repair`, `review`, `sample`, `evaluate` and `rft` against a scripted model, with the real verifier."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from scripted_model import ScriptedModel

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MUSACODER_PROGRAM", ROOT / "build" / "musacoder"))
RELU = ROOT / "tasks" / "activation" / "1_relu.py"
RIGHT = (ROOT / "corpus" / "quickstart" / "right_relu" / "candidate.py").read_text(encoding="utf-8")
BROKEN = RIGHT.replace("int count = x.numel();", "int count = x.numel() oops;")
NOTHING = "I would rather not write a kernel."

built = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def fenced(code):
    return f"Here it is:\n```python\n{code}```\n"


def run(*arguments, env=None, code=0):
    done = subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "OPENAI_API_KEY": "", **(env or {})},
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@built
def test_failures_go_back_and_the_verified_kernel_is_written(tmp_path):
    def answer(messages, body):
        return fenced(BROKEN if len(messages) == 1 else RIGHT)

    out = tmp_path / "out"
    with ScriptedModel(answer) as model:
        done = run(
            "generate",
            RELU,
            "--endpoint",
            model.url,
            "--samples",
            1,
            "--turns",
            3,
            "-o",
            out,
            "--trials",
            5,
            "--backend",
            "vgpu",
            "--api-key-env",
            "MODEL_KEY",
            env={"MODEL_KEY": "s3cret-key"},
        )
    assert model.keys == ["Bearer s3cret-key"] * 2
    first, second = (request["messages"] for request in model.requests)
    assert "ModelNew" in first[0]["content"] and RELU.read_text().strip() in first[0]["content"]
    assert second[1] == {"role": "assistant", "content": fenced(BROKEN)}
    assert "compile_error" in second[2]["content"] and "oops" in second[2]["content"]
    assert "verified" in done.stdout and "estimated" in done.stdout
    assert "__global__ void relu_kernel" in (out / "kernel.cu").read_text()
    assert (out / "model_new.py").read_text() == RIGHT
    assert json.loads((out / "verdict.json").read_text())["status"] == "ok"
    assert [row["status"] for row in lines(out / "attempts.jsonl")] == ["compile_error:syntax", "ok"]
    assert "<html" in (out / "report.html").read_text()
    assert json.loads((out / "report.json").read_text())["best"]["measured"] is False
    for file in out.iterdir():
        assert "s3cret" not in file.read_text(), file
    assert "s3cret" not in done.stdout + done.stderr


@built
def test_plain_words_when_nothing_is_verified(tmp_path):
    with ScriptedModel(lambda messages, body: NOTHING) as model:
        done = run(
            "generate",
            RELU,
            "--endpoint",
            model.url,
            "--samples",
            3,
            "--turns",
            2,
            "-o",
            tmp_path / "out",
            "--backend",
            "vgpu",
            code=1,
        )
    assert "None of 6 answers was verified" in done.stdout
    assert "compile_error:extract" in done.stdout
    assert "Try:" in done.stdout
    assert not (tmp_path / "out" / "model_new.py").exists()
    assert len(lines(tmp_path / "out" / "attempts.jsonl")) == 6


@built
def test_wrong_use_is_said(tmp_path):
    bare = tmp_path / "net.py"
    bare.write_text(
        "import torch.nn as nn\nclass Net(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n    def forward(self, x, y):\n        return x + y\n"
    )
    said = run("generate", bare, "--endpoint", "http://127.0.0.1:9", code=2).stderr
    assert "forward(x, y)" in said and "--inputs" in said
    said = run("generate", bare, "--inputs", "2xf32,2xf32", "--endpoint", "http://127.0.0.1:9", code=2).stderr
    assert "width" in said and "--init" in said
    said = run(
        "generate", RELU, "--endpoint", "http://127.0.0.1:9", "--api-key-env", "NOT_SET_ANYWHERE", code=2
    ).stderr
    assert "NOT_SET_ANYWHERE" in said
    with ScriptedModel(lambda messages, body: (404, "no such model")) as model:
        said = run(
            "generate",
            RELU,
            "--endpoint",
            model.url,
            "--model",
            "x",
            "--backend",
            "vgpu",
            "-o",
            tmp_path / "o",
            code=3,
        )
    assert "no such model" in said.stderr and "is 'x' the model's name" in said.stderr


@built
def test_sampling_goes_on_where_it_stopped(tmp_path):
    out = tmp_path / "answers.jsonl"
    count = 0

    def answer(messages, body):
        nonlocal count
        count += 1
        return (400, "that is all for today") if count == 4 else f"answer {body['seed']}"

    ids = (
        ["--id", "activation/1_relu", "--id", "reduction/1_row_sum"]
        if (ROOT / "tasks/reduction/1_row_sum.py").exists()
        else ["--limit", 2]
    )
    with ScriptedModel(answer) as model:
        arguments = [
            "sample",
            "--tasks",
            ROOT / "tasks",
            *ids,
            "-n",
            3,
            "--endpoint",
            model.url,
            "--asking",
            1,
            "-o",
            out,
            "--quiet",
        ]
        assert "that is all" in run(*arguments, code=3).stderr
        assert sum("error" not in row for row in lines(out)) == 3
        run(*arguments)
        rows = lines(out)
        assert len(rows) == 6 and len(model.requests) == 7
        assert len({(row["task"], row["sample"]) for row in rows}) == 6
        assert all(row["candidate"] == f"answer {row['seed']}" and row["tokens"] == 7 for row in rows)
        run(*arguments)
        assert len(model.requests) == 7
    assert all(
        len(request["messages"][0]["content"]) < 2000 for request in model.requests
    )  # the compact prompt


@built
def test_evaluation_and_data_from_it(tmp_path):
    """Two samples of one task, one of them right; then pools of what was right."""
    renamed = RIGHT.replace("relu_kernel", "clamp_at_zero").replace("256", "128")

    def answer(messages, body):
        n = len(model.requests)
        return fenced(RIGHT) if n == 1 else fenced(renamed) if n == 2 else NOTHING

    out = tmp_path / "eval"
    with ScriptedModel(answer) as model:
        done = run(
            "evaluate",
            "--tasks",
            RELU.parent,
            "--id",
            "1_relu",
            "-n",
            4,
            "--endpoint",
            model.url,
            "--asking",
            1,
            "-o",
            out,
            "--trials",
            5,
            "--backend",
            "vgpu",
            "--lanes",
            1,
        )
    assert "overall" in done.stdout
    summary = json.loads((out / "summary.json").read_text())
    overall = summary["overall"]
    assert overall["verified"] == 2 and overall["samples"] == 4
    assert overall["pass_at"]["1"]["value"] == pytest.approx(0.5)
    assert overall["pass_at"]["4"]["value"] == 1
    assert overall["faster"] is None  # nothing was measured
    assert summary["complete"] and summary["shown"]["pass@4"] == 1
    # Sampled apart, then judged without the model: the same answers, the same numbers.
    chosen = ["--tasks", RELU.parent, "--id", "1_relu"]
    answers = tmp_path / "answers.jsonl"
    count = len(model.requests)
    with ScriptedModel(lambda messages, body: fenced(RIGHT) if body["seed"] % 2 else NOTHING) as apart:
        run("sample", *chosen, "-n", 4, "--endpoint", apart.url, "-o", answers)
    judged = tmp_path / "judged"
    options = ["--trials", 5, "--backend", "vgpu", "--lanes", 1]
    run("evaluate", *chosen, "-n", 4, "--answers", answers, "-o", judged, *options)
    of_answers = json.loads((judged / "summary.json").read_text())["overall"]
    assert of_answers["samples"] == 4 and len(model.requests) == count
    assert of_answers["verified"] == sum(row["seed"] % 2 for row in lines(answers))
    more = ["evaluate", *chosen, "-n", 5, "--answers", answers, "-o", judged, *options]
    assert "fewer samples" in run(*more, code=3).stderr
    refused = run("evaluate", *chosen, "--answers", answers, "--model", "x", "-o", judged, code=2)
    assert "in place of" in refused.stderr
    data = tmp_path / "rft"
    run("rft", out / "verdicts.jsonl", "-o", data)
    rows, best = lines(data / "rft.jsonl"), lines(data / "rft_best.jsonl")
    assert len(rows) == 2 and len(best) == 1
    assert {row["group"] for row in rows} == {rows[0]["group"]}
    assert rows[0]["messages"][0]["content"] == model.requests[0]["messages"][0]["content"]
    assert rows[0]["messages"][-1]["content"] in (fenced(RIGHT), fenced(renamed))
    empty = tmp_path / "nothing.jsonl"
    empty.write_text(
        "".join(json.dumps(row) + "\n" for row in lines(out / "verdicts.jsonl") if row["status"] != "ok")
    )
    assert "nothing to learn from" in run("rft", empty, "-o", tmp_path / "none", code=1).stderr


@built
def test_repair_and_review_look_at_the_given_file(tmp_path):
    given = tmp_path / "given.txt"
    given.write_text(NOTHING)
    with ScriptedModel(lambda messages, body: "Line 1 does nothing.\nVERDICT: INCORRECT") as model:
        done = run("review", given, "--task", RELU, "--endpoint", model.url, "--backend", "vgpu")
    assert "they agree" in done.stdout and "compile_error:extract" in done.stdout
    assert NOTHING in model.requests[0]["messages"][0]["content"]
    with ScriptedModel(lambda messages, body: NOTHING + "!") as model:
        run(
            "repair",
            given,
            "--task",
            RELU,
            "--endpoint",
            model.url,
            "--samples",
            1,
            "--turns",
            1,
            "-o",
            tmp_path / "out",
            "--backend",
            "vgpu",
            code=1,
        )
    messages = model.requests[0]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert NOTHING in messages[1]["content"] and "compile_error:extract" in messages[2]["content"]
    with ScriptedModel(lambda messages, body: NOTHING) as model:
        assert (
            "repair it first"
            in run(
                "optimize", given, "--task", RELU, "--endpoint", model.url, "--backend", "vgpu", code=1
            ).stderr
        )
    assert not model.requests


# The module file alone, in this process' Python.


def task_of(tmp_path, code, *arguments):
    path = tmp_path / "module.py"
    path.write_text(code)
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "runtime/python/module_task.py"), str(path), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


NET = """
from torch import nn
import torch

class Part(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x):
        return self.linear(x)

class Net(nn.Module):
    def __init__(self, width, *, bias=True):
        super().__init__()
        self.part = Part(width)
        self.bias = bias
    def forward(self, x, index, scale=1.0):
        return self.part(x)[index] * scale
"""


def test_a_module_becomes_a_task(tmp_path):
    torch = pytest.importorskip("torch")
    made = task_of(tmp_path, NET, "--inputs", "8x4xf32,3xi64<8,0.5", "--init", "4, bias=False")
    assert made["class"] == "Net" and made["made"]
    module = {"__name__": "module"}
    exec(compile(made["code"], "task", "exec"), module)
    (args, named), inputs = module["get_init_inputs"](), module["get_inputs"]()
    assert (args, named) == ([4], {"bias": False})
    assert [tuple(value.shape) for value in inputs[:2]] == [(8, 4), (3,)] and inputs[2] == 0.5
    assert inputs[1].dtype == torch.int64 and inputs[1].max() < 8
    assert module["Model"](*args, **named)(*inputs).shape == (3, 4)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64", "bool"])
def test_every_type_of_input(tmp_path, kind):
    torch = pytest.importorskip("torch")
    made = task_of(
        tmp_path,
        "import torch\nclass M(torch.nn.Module):\n    def forward(self, x): return x\n",
        "--inputs",
        f"2x3x{kind},{kind}",
    )
    module = {}
    exec(compile(made["code"], "task", "exec"), module)
    inputs = module["get_inputs"]()
    assert [tuple(value.shape) for value in inputs] == [(2, 3), ()]
    assert kind.lstrip("bfiu") in str(inputs[0].dtype) or kind == "bool"
    assert isinstance(inputs[0], torch.Tensor)


def test_what_a_module_file_lacks_is_named(tmp_path):
    cases = [
        ("x = (", [], "not Python"),
        ("x = 1", [], "no class"),
        (NET, [], "Net.forward(x, index)"),
        (NET, ["--inputs", "8xf32,1xi64"], "width"),
        (NET, ["--class", "None"], "Part, Net"),
        (NET, ["--inputs", "8xf3,2xi64", "--init", "4"], "'8xf3'"),
        (NET, ["--inputs", "8xf32<3,2xi64", "--init", "4"], "bound"),
        (NET, ["--inputs", "8xf32,2xi64", "--init", "open('x')"], "plain values"),
        (NET.replace("Part(width)", "None"), ["--inputs", "1xf32"], "several modules"),
    ]
    for code, arguments, message in cases:
        assert message in task_of(tmp_path, code, *arguments)["error"], message
    whole = "class Model:\n    pass\ndef get_inputs(): return []\n"
    assert task_of(tmp_path, whole) == {"code": whole, "class": "Model", "made": False}


def test_prompts_ask_for_no_copied_words():
    """Templates are filled from names that the program gives."""
    for path in (ROOT / "runtime/prompts/templates").glob("*.md"):
        assert set(re.findall(r"{{(\w+)}}", path.read_text())) <= {
            "platform",
            "reference",
            "answer",
            "findings",
            "counters",
        }
    assert ast.parse((ROOT / "runtime/python/module_task.py").read_text())

"""`musacoder bench` with the real program: three tasks, two samples each, on the virtual GPU."""

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUSACODER = ROOT / "build" / "musacoder"
TASKS = ROOT / "tasks"

pytestmark = pytest.mark.skipif(not MUSACODER.exists(), reason="the program is not built")


def answer(case):
    return (ROOT / "corpus" / "quickstart" / case / "candidate.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """One task solved twice, one once, one not at all; the last answer of all cannot be decided here."""
    triton = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef k(x):\n    pass\n\n" + answer("right_softmax")
    rows = [
        {"task": "activation/1_relu", "samples": [answer("right_relu"), answer("right_relu")]},
        {"task": "reduction/1_sum_rows", "candidate": answer("right_row_sum")},
        {"task": "activation/no_such_task", "candidate": "x"},
        {"task": "reduction/1_sum_rows", "answer": "I cannot help with that."},
        {"task": "activation/1_softmax_rows", "samples": ["def (:", triton]},
    ]
    file = tmp_path_factory.mktemp("bench") / "samples.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"task": \n', encoding="utf-8")
    return file


def musacoder(*arguments):
    return subprocess.run([MUSACODER, *map(str, arguments)], capture_output=True, text=True, timeout=500, check=False)


def bench(samples, *arguments):
    return musacoder("bench", "--tasks", TASKS, "--samples", samples, "--backend", "vgpu", "--k", "1,2", *arguments)


def test_table_resumption_and_metrics(samples):
    verdicts = samples.with_name("samples.verdicts.jsonl")
    done = bench(samples, "--only-sampled", "--json")
    assert done.returncode == 3, done.stderr   # one sample was not decided
    result = json.loads(done.stdout)
    overall = result["overall"]
    assert (result["samples"], result["judged"], result["all_decided"]) == (6, 6, False)
    assert overall["statuses"] == {"ok": 3, "compile_error:extract": 1, "compile_error:syntax": 1, "unsupported:dsl:triton": 1}
    assert [(one["task"], one["sample"], one["status"]) for one in result["undecided"]] == [
        ("activation/1_softmax_rows", 1, "unsupported:dsl:triton")]
    assert [one["source"].rsplit(":", 1)[1] for one in result["refused"]] == ["3", "6"]
    assert overall["pass_at"]["1"]["value"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert overall["pass_at"]["1"]["lower"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert overall["pass_at"]["1"]["upper"] == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert overall["pass_at"]["2"]["value"] == 1   # over the two tasks with two decided samples
    assert overall["faster"] == {"eager": None, "compile": None}
    assert len(verdicts.read_text(encoding="utf-8").splitlines()) == 6

    # A run that was cut short: the same command judges what is missing and nothing else.
    lines = verdicts.read_text(encoding="utf-8").splitlines(keepends=True)
    verdicts.write_text("".join(lines[:5]) + lines[5][:40], encoding="utf-8")
    again = bench(samples, "--only-sampled")
    assert again.returncode == 3
    assert "5 of them with a verdict" in again.stderr
    assert "1 judged" in again.stderr
    assert "the virtual GPU measures none" in again.stdout
    after = verdicts.read_text(encoding="utf-8").splitlines(keepends=True)
    assert after[:5] == lines[:5] and len(after) == 6

    # The same numbers from the verdicts alone, over the sampled tasks and over the whole suite.
    from_verdicts = json.loads(musacoder("metrics", verdicts, "--k", "1,2", "--json").stdout)
    assert from_verdicts["overall"] == overall
    suite = json.loads(bench(samples, "--json").stdout)
    count = suite["overall"]["tasks"]
    assert suite["overall"]["unsampled"] == len(suite["unsampled_tasks"]) == count - 3 > 50
    assert suite["overall"]["pass_at"]["1"]["value"] == pytest.approx(1.5 / count)
    assert json.loads(musacoder("metrics", verdicts, "--tasks", TASKS, "--k", "1,2", "--json").stdout)["overall"] == suite["overall"]

    # One table does not mix what was judged under two policies.
    mixed = bench(samples, "--policy", "report")
    assert mixed.returncode == 2
    assert "give another --out" in mixed.stderr


def test_wrong_usage(samples, tmp_path):
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text('{"task": "activation/no_such_task", "candidate": "x"}\n', encoding="utf-8")
    for arguments, message in (
        (("--samples", tmp_path / "none.jsonl"), "none.jsonl"),
        (("--samples", tmp_path), "give the folder of one run"),
        (("--samples", nothing), "no sample that can be used"),
        (("--samples", samples, "--level", "9"), "no task of level 9"),
        (("--samples", samples, "--k", "0"), "--k"),
        ((), "--samples"),
    ):
        done = musacoder("bench", "--tasks", TASKS, *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert message in done.stderr
    assert not (tmp_path / "nothing.verdicts.jsonl").exists()

"""The programs of bench/cuda without a GPU: stand-ins for musacoder, ncu and nvidia-smi, made-up verdicts."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "bench" / "cuda"
sys.path.insert(0, str(FOLDER))

import agreement  # noqa: E402
import faults  # noqa: E402
import timing_truth  # noqa: E402
import verification_cost  # noqa: E402

# Judges nothing: the status of a row's kind, or of its name, comes from a file beside it; ok where there is none.
PROGRAM = r'''#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys
arguments = sys.argv[1:]
value = lambda name: arguments[arguments.index(name) + 1]
statuses = json.loads(pathlib.Path(os.environ["STATUSES"]).read_text())
if statuses.get("leave"):
    subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.mkdir(os.environ["MUSACODER_TMPDIR"] + "/left")
timed = "--no-timing" not in arguments
with open(value("--out"), "w") as out:
    for line in open(value("--batch")):
        row = json.loads(line)
        status = statuses.get(row.get("kind", ""), statuses.get(row["name"], "ok"))
        ms = statuses.get("ms", {}).get(row["task_id"], 1.0)
        samples = {"ms": [ms], "median": ms, "mean": ms, "min": ms, "p10": ms, "p90": ms}
        timing = {"measured": status == "ok", "candidate": samples, "ledger_ms": ms / 1.01, "outer_ms": 2 * ms, "verify_ms": ms / 2,
                  "verified_calls": 50, "remarks": []} if timed else None
        row.update(status=status, cause="made up", timing=timing, seconds={"total": 1.0, "wait": 0.5, "build": 0.1}, backend="cuda", notes=[])
        for key in ("reference", "candidate"):
            row.pop(key)
        out.write(json.dumps(row) + "\n")
print(json.dumps({"judged": 1}))
'''


@pytest.fixture
def stand_ins(tmp_path):
    def script(name, text):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    program = script("musacoder", PROGRAM)
    script("nvidia-smi", "#!/bin/sh\necho 3\n")
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "STATUSES": str(tmp_path / "statuses.json")}

    def run(name, statuses, *arguments):
        (tmp_path / "statuses.json").write_text(json.dumps(statuses))
        out = tmp_path / "out.json"
        done = subprocess.run([sys.executable, FOLDER / name, "--musacoder", program, "--out", out, *map(str, arguments)],
                              env=env, capture_output=True, text=True, timeout=100)
        return done, json.loads(out.read_text()) if out.exists() else None

    run.script = script
    return run


EXPECTED = {kind.name: min(kind.expect) for kind in faults.fault_kinds()}


def test_faults_with_nothing_off(stand_ins):
    done, result = stand_ins("faults.py", EXPECTED, "--repeats", 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result["off"] == []
    kinds = {line["kind"]: line for line in result["untimed"]["kinds"]}
    assert set(EXPECTED) < set(kinds) and all(kinds[name]["judged"] == 3 for name in EXPECTED)
    assert any(line["kind"].startswith("honest") for line in result["timed"]["kinds"])


@pytest.mark.parametrize(("statuses", "word"), [({"trap": "ok"}, "trap"), ({"honest_scalar": "infra:device"}, "honest_scalar"),
                                                ({"side_stream": "ok"}, "side_stream"), ({"sleeps": "cheating:replay"}, "sleeps")])
def test_faults_tells_what_is_off(stand_ins, statuses, word):
    done, result = stand_ins("faults.py", {**EXPECTED, **statuses}, "--repeats", 2)
    assert done.returncode == 1
    assert result["off"] and all(word in line for line in result["off"])


def test_faults_tells_what_is_left(stand_ins):
    done, result = stand_ins("faults.py", {**EXPECTED, "leave": True}, "--repeats", 1, "--timed-repeats", 0, "--settle", 1)
    for pid in result["left_over"]["processes"]:
        os.kill(int(pid), 9)
    assert done.returncode == 1
    assert any("sleep 30" in line for line in result["off"]) and any(line.startswith("left ") for line in result["off"])


def test_fault_rows_are_a_seeded_sequence_with_honest_ones_between():
    kinds, honest = faults.fault_kinds(), faults.honest_kinds()
    counts = dict.fromkeys(EXPECTED, 2)
    rows = faults.make_rows(kinds, honest, counts, 2, 12, 7, "a")
    assert rows == faults.make_rows(kinds, honest, counts, 2, 12, 7, "a") != faults.make_rows(kinds, honest, counts, 2, 12, 8, "a")
    run = longest = 0
    for row in rows:
        run = 0 if row["kind"].startswith("honest") else run + 1
        longest = max(longest, run)
    assert longest == 2 and len({row["name"] for row in rows}) == len(rows)


def ncu_raw(cases, rounds, unit="ns"):
    lines = ['==PROF== Connected to process 1', '"ID","Kernel Name","Stream","gpu__time_duration.sum"', f'"","","","{unit}"']
    lines += [f'"{i}","{case.family}(const float *, float *)","7","{1000 * (i % len(cases) + 1):,}"' for i, case in enumerate(cases * rounds)]
    return "\n".join(lines)


def test_ncu_output_of_both_kinds():
    cases = timing_truth.all_cases()
    found = timing_truth.assign(timing_truth.parse_ncu(ncu_raw(cases, 2)), cases)
    assert len(found) == len(cases) and found[cases[4].name] == [5.0, 5.0]
    rows = ['"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"', '"0","axpb","gpu__time_duration.sum","us","4.50"',
            '"0","axpb","other","us","1"', '"1","axpb","gpu__time_duration.sum","ms","1,000.5"']
    assert timing_truth.parse_ncu("\n".join(rows)) == [("axpb", 4.5), ("axpb", 1000500.0)]
    assert timing_truth.parse_ncu("==ERROR== no permission") == []
    with pytest.raises(RuntimeError, match="left something out"):
        timing_truth.assign([("row_sum", 1.0)], cases)


def test_timing_truth_from_end_to_end(stand_ins):
    cases = timing_truth.all_cases()
    text = ncu_raw(cases, 2)
    ncu = stand_ins.script("ncu", f"#!{sys.executable}\nimport sys\nopen(sys.argv[sys.argv.index('--log-file') + 1], 'w').write({text!r})\n")
    nvcc = stand_ins.script("nvcc", "#!/bin/sh\nexit 0\n")
    statuses = {"ms": {case.name: 1.01e-3 * (i + 1) for i, case in enumerate(cases)}, f"{cases[0].name}#0": "infra:device"}
    done, result = stand_ins("timing_truth.py", statuses, "--ncu", ncu, "--nvcc", nvcc, "--repeats", 2)
    assert done.returncode == 1 and [line.split(":")[0] for line in result["failures"]] == [cases[0].name]
    kernels = {line["kernel"]: line for line in result["kernels"]}
    assert kernels[cases[3].name]["against_ncu"] == pytest.approx(0.01)
    assert kernels[cases[0].name]["ours_us"] is None and kernels[cases[0].name]["ncu_us"] == 1.0
    assert sum(entry["kernels"] for entry in result["summary"]) == len(cases) - 1
    assert len(result["spread"]) == len(timing_truth.REPEATED) and all(line["spread"] == 0 for line in result["spread"])


def test_every_truth_kernel_is_generated():
    cases = timing_truth.all_cases()
    assert len(cases) >= 32 and {case.name for case in cases} >= set(timing_truth.REPEATED)
    for case in cases:
        compile(case.task(), case.name, "exec")
        compile(case.candidate(), case.name, "exec")
    source = timing_truth.probe_source(cases)
    assert source.count("    case ") == len(cases) and "{" not in source.split("switch")[1].split("}")[0].split("{", 1)[1]


def verdict(task, status, **more):
    return {"task_id": task, "name": "a", "status": status, "cause": "", **more}


def test_agreement_counts_and_order():
    left = {agreement.key_of(v): v for v in [verdict("1", "ok"), verdict("2", "ok"), verdict("3", "cheating:replay"), verdict("4", "ok"), verdict("5", "ok")]}
    right = {agreement.key_of(v): v for v in [verdict("1", "ok"), verdict("2", "infra:device"), verdict("3", "cheating:no_kernel"),
                                              verdict("4", "correctness_error:values")]}
    matrix, differing = agreement.compare(left, right)
    assert agreement.counts(matrix) == {"both": 4, "same_class": 2, "decided": 3, "decided_same_class": 2, "decided_same_side": 2}
    assert [d["key"] for d in differing] == ["4 a", "2 a"]
    assert [d["key"] for d in agreement.compare(left, right, strict=True)[1]] == ["3 a", "4 a", "2 a"]


def test_cost_of_verifying():
    timing = {"measured": True, "candidate": {"median": 0.5}, "outer_ms": 2.0, "verify_ms": 0.5, "verified_calls": 40}
    cost = verification_cost.cost_of(verdict("1", "ok", timing=timing, seconds={"time": 0.2, "build": 9}))
    assert cost["share"] == 0.25 and cost["lane_share"] == pytest.approx(0.1)
    assert verification_cost.cost_of(verdict("1", "ok", timing=None)) is None
    assert verification_cost.cost_of(verdict("1", "ok", timing={"measured": False})) is None
    assert [line["candidate"] for line in verification_cost.summarize([cost])] == ["all", "100 µs – 1 ms"]


def test_side_by_side_reads_rows_and_finishes(stand_ins, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"key": "one", "reference": "x = 1", "candidate": "y = 1"}) + "\n")
    done, result = stand_ins("kernelbench_side_by_side.py", {}, rows, "--skip-kernelbench", "--copies", 2)
    assert done.returncode == 0, done.stderr
    assert [(phase["phase"], phase["verdicts"], phase["median_s"]) for phase in result["ours"]] == [("cold", 1, 0.5), ("warm", 2, 0.5), ("rebuilt", 1, 0.5)]
    rows.write_text('{"key": "one"}\n')
    assert stand_ins("kernelbench_side_by_side.py", {}, rows, "--dry-run")[0].returncode == 2

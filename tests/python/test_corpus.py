"""The corpus: its form always, its verdicts where the program is built.

Run: pytest tests/python/test_corpus.py                             # the quickstart set
     MUSACODER_FULL_CORPUS=1 pytest tests/python/test_corpus.py     # honest, cheats, musa and cases as well
"""

import ast
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import corpus  # noqa: E402

CASES = corpus.load_cases()
CLASSES = {
    "compile_error",
    "runtime_error",
    "correctness_error",
    "cheating",
    "unsupported",
    "inconclusive",
}
SETS_RUN = corpus.SETS if os.environ.get("MUSACODER_FULL_CORPUS") == "1" else ("quickstart",)


@pytest.fixture(params=CASES, ids=lambda case: case["name"])
def case(request):
    return request.param


def test_form(case):
    assert case["task_path"].is_file(), f"no task {case['task']}"
    assert case["candidate_path"].is_file()
    assert case["policy"] in ("strict", "report")
    assert len(case["why"]) > 10
    for status in case["expect"]:
        assert status == "ok" or status.split(":")[0] in CLASSES, status
    if case["set"] == "honest":
        assert case["expect"] == ["ok"], "an honest candidate must be verified"
    if case["set"] == "cheats":
        assert "ok" not in case["expect"]
    if case["candidate_path"].suffix == ".py" and "compile_error:syntax" not in case["expect"]:
        ast.parse(case["candidate_path"].read_text(encoding="utf-8"))


def test_sets_are_large_enough():
    count = {name: sum(case["set"] == name for case in CASES) for name in corpus.SETS}
    assert count["quickstart"] >= 12
    assert count["honest"] >= 25
    assert count["cheats"] >= 30
    quick = [case for case in CASES if case["set"] == "quickstart"]
    assert len({case["task"] for case in quick}) >= 12
    assert count["musa"] >= 20
    assert count["cases"] >= 6


def test_nothing_else_lies_in_the_folders():
    for name in corpus.SETS:
        for folder in (ROOT / "corpus" / name).iterdir():
            if folder.is_dir():
                assert (folder / "case.toml").is_file(), f"{folder} has no case.toml"


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    if not corpus.musacoder().exists():
        pytest.skip(f"{corpus.musacoder()} is not built")
    cases = [case for case in CASES if case["set"] in SETS_RUN]
    return corpus.run_sets(cases, tmp_path_factory.mktemp("corpus"), lanes=2)


def test_status(case, verdicts):
    if case["set"] not in SETS_RUN:
        pytest.skip("set MUSACODER_FULL_CORPUS=1 to judge this set")
    verdict = verdicts.get(case["name"])
    assert verdict is not None, "no verdict"
    assert corpus.matches(verdict["status"], case["expect"]), (
        f"{verdict['status']}, expected {case['expect']}: {verdict.get('cause')}"
    )
    assert not corpus.misses(case, verdict)
    assert verdict["dialect"] == ("musa" if case["set"] == "musa" else "cuda")

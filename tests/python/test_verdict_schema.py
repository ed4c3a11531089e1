"""Verdicts that the C++ side writes fit docs/schemas/verdict.schema.json, and the schema is no laxer than the reader."""

import copy
import json
import os
import pathlib
import subprocess

import pytest

jsonschema = pytest.importorskip("jsonschema")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MUSACODER_VERDICT_ROWS", ROOT / "build" / "musacoder_verdict_rows"))


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((ROOT / "docs/schemas/verdict.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def verdicts():
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built; run: ninja -C build musacoder_verdict_rows")
    out = subprocess.run([PROGRAM], check=True, capture_output=True, timeout=60, text=True).stdout
    return [json.loads(line) for line in out.split("\n") if line]


def of_status(verdicts, status):
    return next(copy.deepcopy(v) for v in verdicts if v["status"] == status)


def test_every_verdict_is_valid(validator, verdicts):
    assert len(verdicts) > 100
    for verdict in verdicts:
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(verdict)]
        assert not errors, (verdict["status"], errors)


def test_batch_keys_beside_the_verdict_are_allowed(validator, verdicts):
    validator.validate({**verdicts[0], "row_key": "ab", "candidate": "code", "run": 3})


def test_every_key_of_the_record_is_described(validator, verdicts):
    described = set(validator.schema["properties"])
    assert set(verdicts[0]) == described
    assert set(validator.schema["required"]) == described


@pytest.mark.parametrize("spoil", [
    lambda v: v.pop("status"),
    lambda v: v.update(status="wrong"),
    lambda v: v.update(status="compile_error:"),
    lambda v: v.update(version=2),
    lambda v: v.update(q="much"),
    lambda v: v.update(reward=[]),
    lambda v: v["fault"].update(kind="surprise"),
    lambda v: v["fault"].update(block=[1, 2]),
    lambda v: v["fault"].update(address="here"),
    lambda v: v["ledger"].pop("launches"),
    lambda v: v["ledger"].update(extra=1),
    lambda v: v["levels"][0].update(state="maybe"),
    lambda v: v["seconds"].update(total=None),
])
def test_what_is_no_verdict_is_refused(validator, verdicts, spoil):
    verdict = of_status(verdicts, "runtime_error:illegal_access")
    validator.validate(verdict)
    spoil(verdict)
    assert not validator.is_valid(verdict)

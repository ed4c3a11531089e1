"""The CUDA kernels of src/llm/kernels/cuda, judged by MooreEval on the virtual GPU.

Each module of llm_kernels names kernel sources, a binding to torch and references; here a task and a candidate are made
of them, in bf16 and one size (MUSACODER_FULL_KERNELS=1: in every type and size). The verdict must be `ok`: right on several seeds and distributions, no access out of
bounds, no race, no memory read that nobody wrote. No GPU is needed.

Run: pytest tests/python/test_llm_cuda_kernels.py
"""

import importlib
import json
import os
import pathlib
import re
import subprocess

import pytest
import toolchain

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
MUSACODER = pathlib.Path(os.environ.get("MUSACODER_PROGRAM", ROOT / "build" / "musacoder"))
FULL = os.environ.get("MUSACODER_FULL_KERNELS") == "1"
MODULES = (
    "rms_norm",
    "split_rotate",
    "swiglu",
    "logprob",
    "adamw",
    "row_linear",
    "paged_attention",
    "part_rotate",
    "delta",
    "pick",
)

TASK = """
import torch
{constants}

def normal(*shape):
    return torch.randn(*shape).to(torch.{dtype})

{reference}

class Model(torch.nn.Module):
    def forward(self, *inputs):
        out = tuple(run(*inputs))
        return out[0] if len(out) == 1 else out

def get_inputs():
    return {inputs}

def get_init_inputs():
    return []
"""

CANDIDATE = """
import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r'''
#include <torch/extension.h>
#include <cmath>
#include <cstring>
#include <vector>
{constants}
{kernels}
{binding}
'''
extension = load_inline(name="{name}", cpp_sources=r'''{declaration}''', cuda_sources=cuda_source, functions=["{case}"])

class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        out = tuple(extension.{case}(*inputs))
        return out[0] if len(out) == 1 else out
"""


def inlined(path, seen):
    """A source with our own headers in place of their #include lines, each once."""
    if path in seen:
        return ""
    seen.add(path)
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        include = re.match(r'#include "(llm/[^"]+)"', line)
        if include:
            lines.append(inlined(SOURCES / include[1], seen))
        elif line != "#pragma once":
            lines.append(line)
    return "\n".join(lines)


def separated(source, name):
    """Names that several sources give to their own things, apart where sources are joined to one."""
    body = source.replace("namespace musacoder::kernels {", f"namespace musacoder::kernels::{name} {{")
    return body.replace(
        "}  // namespace musacoder::kernels\n", f"}}  // namespace musacoder::kernels::{name}\n"
    )


def candidate_source(module, case, constants):
    seen = set()
    headers = ["common.cuh", getattr(module, "HEADER", "kernels.h")]
    parts = [inlined(SOURCES / "llm/kernels/cuda" / name, seen) for name in headers]
    for name in module.KERNELS:
        stem = name.removesuffix(".cu") + "_source"
        source = separated(inlined(SOURCES / "llm/kernels/cuda" / name, seen), stem)
        parts.append(
            source.replace(
                "using namespace musacoder::kernels;",
                f"namespace {stem}_all {{\nusing namespace musacoder::kernels; using namespace musacoder::kernels::{stem};",
            )
            + "\n}"
        )
    declaration = re.search(rf"^std::vector<torch::Tensor> {case}\([^)]*\)", module.BINDING, re.M)[0] + ";"
    return CANDIDATE.format(
        name=module.__name__.replace(".", "_") + "_" + case,
        case=case,
        constants="\n".join(f"#define {key} {json.dumps(value)}" for key, value in constants.items()),
        kernels="\n".join(parts),
        binding=module.BINDING,
        declaration="#include <vector>\n" + declaration,
    )


def explained(verdict):
    logs = [build["log"] for build in verdict.get("builds", []) if not build["ok"]]
    kept = {key: verdict[key] for key in ("status", "message", "trials") if key in verdict}
    return "\n".join([*logs, json.dumps(kept)])[:3000]


def all_cases():
    """Of each name: module, case, sizes and type."""
    out = {}
    for name in MODULES:
        module = importlib.import_module(f"llm_kernels.{name}")
        types = getattr(module, "TYPES", ("bfloat16", "float32"))
        for case in module.CASES:
            for number, sizes in enumerate(module.SIZES if FULL else module.SIZES[:1]):
                for dtype in types if FULL else types[:1]:
                    out[f"{name}-{case}-{number}-{dtype}"] = (module, case, sizes, dtype)
    return out


CASES = all_cases()


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory, request):
    """All chosen cases in one batch: starting a judge for each would take most of the time."""
    if not MUSACODER.exists():
        pytest.skip("musacoder is not built")
    if not os.path.exists(toolchain.find_nvcc()):
        pytest.skip("there is no nvcc")
    folder = tmp_path_factory.mktemp("kernels")
    chosen = {item.callspec.params["name"] for item in request.session.items if item.module is request.module}
    rows = []
    for name in sorted(chosen):
        module, case, sizes, dtype = CASES[name]
        reference, inputs = module.CASES[case]
        task = TASK.format(
            constants="\n".join(f"{key} = {value!r}" for key, value in sizes.items()),
            dtype=dtype,
            reference=reference,
            inputs=inputs,
        )
        constants = sizes | {"TYPE": 1 if dtype == "bfloat16" else 0}
        rows.append({"id": name, "reference": task, "candidate": candidate_source(module, case, constants)})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        MUSACODER,
        "verify",
        "--batch",
        folder / "rows.jsonl",
        "--out",
        folder / "out.jsonl",
        "--quiet",
    ]
    done = subprocess.run(
        [*command, "--backend", "vgpu", "--full-size", "--trials", "5", "--no-audit"],
        capture_output=True,
        text=True,
    )
    assert (folder / "out.jsonl").exists(), done.stderr
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    by_name = {line["id"]: line for line in lines}
    assert set(by_name) == chosen, done.stderr
    return by_name


@pytest.mark.parametrize("name", list(CASES))
def test_kernel_is_verified(name, verdicts):
    verdict = verdicts[name]
    assert verdict["status"] == "ok", explained(verdict)

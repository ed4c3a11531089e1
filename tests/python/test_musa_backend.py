"""The backend "musa" from the command line to a verdict, over a stand-in tool chain (tests/musa/standin): mcc, torch_musa, the
runtime, MUPTI, the driver and MTML are ours and run on the virtual GPU. It shows that the parts fit together and that the judge
asks them for what the vendor documents; it shows nothing about the vendor's own software or hardware.
"""

import json
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest
from toolchain import find_nvcc

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MUSACODER", ROOT / "build" / "musacoder")).parent
GPU = BUILD / "standin_gpu"
LIBRARY = BUILD / "tests" / "musa" / "home" / "libstandin_torch_musa.so"
NVCC = find_nvcc()

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not (GPU.exists() and LIBRARY.exists() and NVCC and (BUILD / "musacoder").exists()),
                                reason="the stand-in tool chain is not built, or there is no nvcc")


def include_folder():
    folders = [pathlib.Path(os.path.realpath(NVCC)).parent.parent / "include"]
    import torch
    folders += pathlib.Path(torch.__file__).parents[1].glob("nvidia/cu*/include")
    return next((folder for folder in folders if (folder / "cuda_fp16.h").exists()), None)


@pytest.fixture(scope="module")
def standin(tmp_path_factory):
    """Below the build folder: a sandboxed process has a /tmp of its own."""
    home = BUILD / "standin"
    include = include_folder()
    if include is None:
        pytest.skip("no cuda_fp16.h was found")
    subprocess.run([sys.executable, ROOT / "tests" / "musa" / "standin" / "make_home.py", home, "--build", BUILD, "--python", sys.executable,
                    "--nvcc", NVCC, "--include", include], check=True)
    gpu = subprocess.Popen([GPU, home / "musa" / "gpu.sock"], stdout=subprocess.PIPE, text=True)
    assert gpu.stdout.readline() == "ready\n"
    yield {**os.environ, "MUSA_HOME": str(home / "musa"), "MUSACODER_PYTHON": str(home / "venv" / "bin" / "python"),
           "MUSACODER_CACHE": str(tmp_path_factory.mktemp("cache")), "MUSACODER_MTML": str(home / "musa" / "lib" / "libmtml.so"),
           "MUSACODER_MUPTI": str(home / "musa" / "lib" / "libmupti.so"), "CC": "/usr/bin/gcc"}
    gpu.kill()
    gpu.wait()


def judge(environment, name, *options, candidate=None):
    folder = ROOT / "corpus" / "musa" / name
    case = tomllib.loads((folder / "case.toml").read_text())
    done = subprocess.run([BUILD / "musacoder", "verify", "--backend", "musa", "--json", *options, ROOT / "tasks" / f"{case['task']}.py",
                           candidate or folder / case["candidate"]], capture_output=True, text=True, timeout=400, env=environment)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["relu_load_inline", "guard_and_stream", "half_vectors", "bfloat16", "bare_mu", "files_with_setup"])
def test_honest_candidates_verify(standin, name):
    verdict = judge(standin, name, "--no-timing")
    assert verdict["status"] == "ok", verdict["cause"]
    assert (verdict["backend"], verdict["dialect"], verdict["gpu"]) == ("musa", "musa", "MTT S5000")
    # MUPTI's stand-in told of the launches, and they are the candidate's.
    assert verdict["ledger"]["launches"] and all(launch["origin"] == "own" for launch in verdict["ledger"]["launches"])


def test_times_against_eager_alone(standin):
    verdict = judge(standin, "relu_load_inline")
    assert verdict["status"] == "ok", verdict["cause"]
    timing = verdict["timing"]
    assert timing["measured"] and set(timing["baselines"]) == {"eager", "eager_tf32"}
    assert "torch.compile on MUSA" in timing["unavailable"]["compile"]
    assert verdict["speedup_eager"] > 0 and verdict["speedup_compile"] is None


def test_few_timed_calls_are_watched_too(standin):
    verdict = judge(standin, "relu_load_inline", "--timed-calls", "2", "--baselines", "none")
    assert verdict["status"] == "ok", verdict["cause"]
    assert len(verdict["timing"]["candidate"]["ms"]) >= 2 and verdict["timing"]["verified_calls"] > len(verdict["timing"]["candidate"]["ms"])


def test_the_virtual_gpu_looks_where_no_sanitizer_can(standin):
    verdict = judge(standin, "relu_load_inline", "--no-timing", "--sanitize")
    assert verdict["status"] == "ok", verdict["cause"]
    assert [(one["tool"], one["ran"], one["findings"]) for one in verdict["sanitized"]] == [("vgpu", True, 0)]


@pytest.mark.parametrize("name,status", [("torch_fallback", "cheating:disallowed_aten"), ("syntax_error", "compile_error:syntax"),
                                         ("wrong_tail", "correctness_error:values")])
def test_others_do_not(standin, name, status):
    verdict = judge(standin, name, "--no-timing")
    assert verdict["status"] == status, verdict["cause"]


def test_errors_of_mcc_are_the_candidates_lines(standin):
    verdict = judge(standin, "cuda_name", "--no-timing")
    assert verdict["status"] == "compile_error:nvcc"
    assert "cudaDeviceSynchronize is CUDA's; MUSA has musaDeviceSynchronize" in verdict["cause"]
    assert verdict["builds"][0]["diagnostics"][0]["file"] == "musa_sources[0]"


def test_a_cuda_candidate_is_not_this_gpus(standin):
    verdict = judge(standin, "relu_load_inline", "--no-timing", candidate=ROOT / "corpus" / "quickstart" / "right_relu" / "candidate.py")
    assert verdict["status"] == "unsupported:dialect" and verdict["reward"] is None


@pytest.mark.parametrize("gpu,words", [("none", "no GPU answers"), ("unknown", "TORCH_MUSA_ARCH_LIST"), ("down", "driver failure (MTML 4)")])
def test_what_is_missing_is_said(standin, gpu, words):
    done = subprocess.run([BUILD / "musacoder", "verify", "--backend", "musa", ROOT / "tasks" / "activation" / "1_relu.py",
                           ROOT / "corpus" / "musa" / "relu_load_inline" / "candidate.py"], capture_output=True, text=True, timeout=60,
                          env={**standin, "STANDIN_MTML": gpu})
    assert done.returncode == 3 and words in done.stderr, done.stderr


def mcc(standin, tmp_path, *arguments, **environment):
    source = tmp_path / "k.mu"
    source.write_text("#include <musa_runtime.h>\n__global__ void k(float* x) { x[0] = 1; }\nmusaError_t f() { return musaGetLastError(); }\n")
    clean = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run([pathlib.Path(standin["MUSA_HOME"]) / "bin" / "mcc", *[str(source) if a == "SOURCE" else a for a in arguments]],
                          capture_output=True, text=True, cwd=tmp_path, env=clean, timeout=200)


def test_the_standin_mcc_is_strict(standin, tmp_path):
    good = ("-x", "musa", "-c", "SOURCE", "-o", "k.o", "--offload-arch=mp_31", "-I", f"{standin['MUSA_HOME']}/include")
    assert mcc(standin, tmp_path, *good).returncode == 0
    for bad, words in ((("-arch=sm_90",), "unknown argument: '-arch=sm_90'"), (("-ccbin", "g++"), "unknown argument: '-ccbin'"),
                       (("--offload-arch=mp_99",), "unsupported MUSA gpu architecture"), (("-Xcompiler", "-fPIC"), "unknown argument: '-Xcompiler'")):
        done = mcc(standin, tmp_path, *good, *bad)
        assert done.returncode == 1 and words in done.stderr, done.stderr
    assert "no --offload-arch" in mcc(standin, tmp_path, "-c", "SOURCE", "-o", "k.o").stderr
    assert "CC is set" in mcc(standin, tmp_path, *good, CC="gcc").stderr

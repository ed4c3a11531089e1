"""The slim torch headers accept and refuse what torch 2.11's own do: tests/torch_abi/{accept,reject}.cpp.

All cases of a file are compiled at once, each in its namespace and under its own #line name, so that an error names its case.
MUSACODER_SLOW=1 compiles the same cases against torch's own headers too.
"""

import os
import re
import subprocess

import pytest
from toolchain import find_nvcc

ROOT = os.environ.get("MUSACODER_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = os.path.join(ROOT, "tests", "torch_abi")
NVCC = find_nvcc()
CUDA_INCLUDE = os.path.join(os.path.dirname(os.path.dirname(NVCC)), "include")


def read_cases(name):
    with open(os.path.join(CASES, name + ".cpp"), encoding="utf-8") as file:
        parts = re.split(r"^//// (\w+)\n", file.read(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


ACCEPT, REJECT = read_cases("accept"), read_cases("reject")


def slim_flags():
    include = os.path.join(ROOT, "runtime", "include")
    return ["-I", include, "-I", os.path.join(include, "vendor")]


def full_flags():
    torch = pytest.importorskip("torch")
    import sysconfig
    root = os.path.dirname(torch.__file__)
    python = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        pytest.skip("Python's headers are not installed (python3-dev)")
    return ["-isystem", root + "/include", "-isystem", root + "/include/torch/csrc/api/include", "-isystem", python]


def complaints(cases, flags, folder):
    """{case: first error line} of one compilation of all cases; "" collects errors outside of them."""
    source = "#include <torch/extension.h>\n"
    for name, code in cases.items():
        source += f"#line 1 \"case_{name}\"\nnamespace case_{name} {{ namespace {{\n{code}}} }}\n"
    path = os.path.join(str(folder), "cases.cpp")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", "-fmax-errors=0", "-fno-diagnostics-show-caret",
               "-DTORCH_EXTENSION_NAME=cases", *flags, "-isystem", CUDA_INCLUDE, path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found, context = {}, None
    for line in run.stderr.splitlines():
        mention = re.search(r"case_(\w+?)[:,]", line)
        if mention:
            context = mention.group(1)
        if "error:" in line:
            own = re.match(r"case_(\w+):", line)
            found.setdefault(own.group(1) if own else "", line)
            if not own and context:
                found.setdefault(context, line)
        elif "required from" in line and mention:
            found.setdefault(mention.group(1), line)
    return found


def check(flags, folder):
    errors = complaints(ACCEPT, flags, folder)
    assert not errors, "refused although torch accepts it:\n" + "\n".join(f"{k}: {v}" for k, v in errors.items())
    errors = complaints(REJECT, flags, folder)
    missing = [name for name in REJECT if name not in errors]
    assert not missing, f"accepted although torch refuses it: {missing}"


QUIET = """#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { return torch::empty_like(x).view({-1, 2}).sum({0}); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }
"""


def output_of(command):
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


def test_a_plain_candidate_builds_in_silence(tmp_path):
    flags = ["-std=c++17", "-DTORCH_EXTENSION_NAME=quiet", "-isystem", CUDA_INCLUDE]
    header, source, folder = tmp_path / "torch" / "extension.h", tmp_path / "quiet.cpp", os.path.join(ROOT, "runtime", "include")
    header.parent.mkdir()
    header.write_text(f'#ifndef QUIET\n#define QUIET\n#include "{folder}/torch/extension.h"\n#endif\n')
    source.write_text(QUIET)
    system = ["-isystem", folder, "-isystem", os.path.join(folder, "vendor")]
    # As the builder does it, where GCC forgets what pragmas said about the headers.
    assert output_of(["g++", "-x", "c++-header", str(header), "-o", f"{header}.gch", *flags, *system]) == ""
    assert output_of(["g++", "-c", str(source), "-o", str(tmp_path / "quiet.o"), "-Winvalid-pch", "-I", str(tmp_path), *flags, *system]) == ""
    if not os.path.exists(NVCC):
        pytest.skip("nvcc is not installed")
    kernel = tmp_path / "quiet.cu"
    kernel.write_text(QUIET + "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n")
    assert output_of([NVCC, "-c", str(kernel), "-o", str(tmp_path / "k.o"), "-arch=compute_90", "-code=compute_90",
                      "--expt-relaxed-constexpr", *flags, *slim_flags()]) == ""


def test_slim_headers(tmp_path):
    check(slim_flags(), tmp_path)


def test_torch_headers_agree(tmp_path):
    if not os.environ.get("MUSACODER_SLOW"):
        pytest.skip("slow: torch's own headers take minutes; set MUSACODER_SLOW=1")
    check(full_flags(), tmp_path)


HEADERS = ["torch/extension.h", "torch/torch.h", "torch/all.h", "torch/types.h", "torch/library.h", "ATen/ATen.h",
           "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAStream.h", "c10/cuda/CUDAException.h",
           "c10/util/Half.h", "c10/util/Exception.h", "c10/core/ScalarType.h", "c10/macros/Macros.h"]


def test_headers_stand_together_in_any_order(tmp_path):
    path = tmp_path / "all.cpp"
    path.write_text("".join(f"#include <{name}>\n" for name in HEADERS[::-1] + HEADERS))
    run = subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *slim_flags(), "-isystem",
                          CUDA_INCLUDE, str(path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[:3000]


GUARDED = """
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>
template <class T>
__global__ void scale(torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits> x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i / x.size(1)][i % x.size(1)] * static_cast<T>(2.0f) + T(1);
}
torch::Tensor run(torch::Tensor x) {
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<1, 64, 0, stream>>>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), y.data_ptr<scalar_t>(), x.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""


def test_device_code(tmp_path):
    if not os.path.exists(NVCC):
        pytest.skip("nvcc is not installed")
    path = tmp_path / "guarded.cu"
    path.write_text(GUARDED)
    run = subprocess.run([NVCC, "-arch=compute_90", "-code=compute_90", "-std=c++17", "-c", "-Xcompiler", "-fPIC", "-DTORCH_EXTENSION_NAME=x",
                          *slim_flags(), str(path), "-o", str(tmp_path / "guarded.o")], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[:3000]

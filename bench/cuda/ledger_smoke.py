#!/usr/bin/env python3
"""The ledger on a real GPU: does CUPTI tell what the judge relies on?

    python3 bench/cuda/ledger_smoke.py --library build/runtime/lib/libmusacoder_ledger.so

A plain torch process loads the library as the candidate's runner does, speaks protocol C to it (runtime/cuda/service.h), and does
one thing a window: cuBLAS by torch.mm, an operator of torch, kernels of its own in every way of launching, a CUDA graph, copies,
work marked internal, a launch that fails, a kernel compiled at run time, a second thread, quiet. Child processes fault. Every
report is printed as one JSON line, every expectation as PASS, FAIL or SKIP; FAIL makes the exit code 1. No time is asserted;
what launches and windows cost is printed as INFO.

Needs torch with CUDA and a GPU; own kernels need nvcc (--nvcc, $MUSACODER_NVCC, PATH, /usr/local/cuda*, the pip wheels).
"""

import argparse
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

OWN_SOURCE = r"""
#include <cassert>
#include <cuda_runtime.h>
#include <dlfcn.h>
template <typename T>
__global__ void scale(T* x, int n, T by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
__global__ void poke(int* p, int bytes) { *reinterpret_cast<int*>(reinterpret_cast<char*>(p) + bytes) = 1; }
__global__ void insist(int zero) { assert(zero != 0); }
__global__ void stop() { asm("trap;"); }
extern "C" {
int own_launch(float* x, int n, void* stream) {
  scale<float><<<(n + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, n, 2.0f);
  return cudaPeekAtLastError();
}
int own_many(float* x, int n, void* stream, int count) {
  for (int i = 0; i < count; ++i) scale<float><<<(n + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, n, 1.0f);
  return cudaPeekAtLastError();
}
int own_by_function(float* x, int n, int how) {
  float by = 2.0f;
  void* args[] = {&x, &n, &by};
  const void* kernel = reinterpret_cast<const void*>(&scale<float>);
  if (how == 0) return cudaLaunchKernel(kernel, dim3((n + 255) / 256), dim3(256), args, 0, nullptr);
  if (how == 1) return cudaLaunchCooperativeKernel(kernel, dim3(1), dim3(256), args, 0, nullptr);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((n + 255) / 256);
  config.blockDim = dim3(256);
  return cudaLaunchKernelExC(&config, kernel, args);
}
int own_wrong(float* x, int n) {   // nobody asks for the error
  scale<float><<<1, 4096>>>(x, n, 2.0f);
  return 0;
}
int own_last_error() { return cudaGetLastError(); }
int own_poke(int* p, int bytes) { poke<<<1, 1>>>(p, bytes); return 0; }
int own_insist() { insist<<<1, 1>>>(0); return 0; }
int own_stop() { stop<<<1, 1>>>(); return 0; }
// cuBLAS, called by this object itself: C = A B of n by n floats.
int own_gemm(const char* library, const float* a, const float* b, float* c, int n) {
  void* cublas = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (!cublas) return -1;
  using Create = int (*)(void**);
  using Gemm = int (*)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int);
  const auto create = reinterpret_cast<Create>(dlsym(cublas, "cublasCreate_v2"));
  const auto gemm = reinterpret_cast<Gemm>(dlsym(cublas, "cublasSgemm_v2"));
  static void* handle = nullptr;
  if (!create || !gemm || (!handle && create(&handle) != 0)) return -2;
  const float one = 1, zero = 0;
  return gemm(handle, 0, 0, n, n, n, &one, a, n, b, n, &zero, c, n);
}
int own_take(void** out, int bytes) { return cudaMalloc(out, bytes); }
int own_give(void* p) { return cudaFree(p); }
int own_synchronize() { return cudaDeviceSynchronize(); }
}
"""

failures = 0
prefix = ""  # of lines: the child's name


def say(word, name, detail=""):
    global failures
    failures += word == "FAIL"
    print(f"{word:4} {prefix}{name}" + (f": {detail}" if detail else ""), flush=True)


def check(name, good, detail=""):
    say("PASS" if good else "FAIL", name, "" if good else detail)
    return good


class Ledger:
    """The library and the judge's end of its socket, in one process."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(str(library))
        self.lib.mcl_note.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self.lib.mcl_note.restype = None
        self.lib.mcl_internal.argtypes = [ctypes.c_int]
        self.lib.mcl_internal.restype = None
        self.lib.mcl_start.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
        self.judge, mine = socket.socketpair()
        self.judge.settimeout(60)
        self.lines = self.judge.makefile("rb")
        error = ctypes.create_string_buffer(512)
        if self.lib.mcl_start(mine.detach(), error, len(error)) != 0:
            raise RuntimeError(error.value.decode())

    def ask(self, op, **more):
        self.judge.sendall(json.dumps({"op": op, **more}).encode() + b"\n")
        line = self.lines.readline()
        if not line:
            raise RuntimeError("the ledger closed its socket")
        return json.loads(line)

    def report(self, op, label):
        reply = self.ask(op)
        print(json.dumps({"step": label, "op": op, **reply}), flush=True)
        return reply["report"]

    def window(self, label, work, synchronize):
        self.ask("begin", trial=0, flags=["kernels"])
        try:
            work()
        finally:
            synchronize()
            code = self.lib.mcl_synchronized()
            report = self.report("end", label)
        check(
            f"{label}: flush and canary",
            code == 0 and report["canary"] and report["dropped"] == 0,
            f"mcl_synchronized {code}, canary {report['canary']}, dropped {report['dropped']}",
        )
        return report


def kernels(report, origin, **wanted):
    """Number of launches of that origin whose fields are as wanted."""
    return sum(
        row["count"]
        for row in report["launches"]
        if row["origin"] == origin and all(row[key] == value for key, value in wanted.items())
    )


def rows(report):
    return [(row["origin"], row["module"], row["kernel"][:60], row["count"]) for row in report["launches"]]


def find_nvcc(given):
    places = [
        given,
        os.environ.get("MUSACODER_NVCC"),
        shutil.which("nvcc"),
        *sorted(glob.glob("/usr/local/cuda*/bin/nvcc"), reverse=True),
    ]
    for folder in sys.path:
        places += sorted(glob.glob(os.path.join(folder, "nvidia/cu*/bin/nvcc")), reverse=True)
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def shared_cudart():
    """The CUDA runtime that torch has loaded: own kernels must share it, as a candidate's do."""
    found = set(re.findall(r"\S*/libcudart\.so\S*", pathlib.Path("/proc/self/maps").read_text()))
    return sorted(found)[0] if found else None


def build_own(folder, nvcc, capability):
    source = pathlib.Path(folder) / "own.cu"
    source.write_text(OWN_SOURCE)
    target = pathlib.Path(folder) / "own_kernels.so"
    cudart = shared_cudart()
    if not cudart:
        return None, "torch has loaded no shared libcudart"
    done = subprocess.run(
        [
            nvcc,
            "-shared",
            "-Xcompiler",
            "-fPIC",
            f"-arch=sm_{capability}",
            "-cudart",
            "none",
            "-o",
            target,
            source,
            "-Xlinker",
            cudart,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        return None, "nvcc failed: " + (done.stderr or done.stdout)[-1500:]
    return target, ""


def load_own(path):
    own = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    own.own_launch.argtypes = [pointer, number, pointer]
    own.own_many.argtypes = [pointer, number, pointer, number]
    own.own_by_function.argtypes = [pointer, number, number]
    own.own_gemm.argtypes = [ctypes.c_char_p, pointer, pointer, pointer, number]
    own.own_take.argtypes = [ctypes.POINTER(pointer), number]
    own.own_give.argtypes = [pointer]
    own.own_wrong.argtypes = [pointer, number]
    own.own_poke.argtypes = [pointer, number]
    return own


def loaded_libraries():
    with open("/proc/self/maps") as file:
        return sorted({line.split()[-1] for line in file if line.rstrip().endswith(tuple(f".so{tail}" for tail in ("", ".12", ".13")))})


# ---- steps of the main process; each gets the ledger, torch and the own kernels (None without nvcc) ----


def step_vendor(ledger, torch, own):
    a = torch.randn(1024, 1024, device="cuda")
    torch.mm(a, a)
    report = ledger.window("mm", lambda: torch.mm(a, a), torch.cuda.synchronize)
    check("mm: a vendor's kernel, called by torch", kernels(report, "torch_vendor") >= 1 and kernels(report, "vendor") == 0, rows(report))
    check("mm: no kernel is the candidate's", kernels(report, "own") == 0, rows(report))
    check(
        "mm: GPU time",
        all(row["ns"] > 0 for row in report["launches"]) and report["last_ns"] > report["first_ns"] > 0,
        report,
    )
    check("mm: one thread", report["threads"] == 1, report["threads"])
    check("mm: as many records as launches", report["missing"] == 0, report["missing"])


def step_own_gemm(ledger, torch, own):
    library = next((path for path in loaded_libraries() if "libcublas.so" in path), None)
    if own is None or library is None:
        return say("SKIP", "own gemm", "no own kernels or no cuBLAS")
    a, c = torch.randn(1024, 1024, device="cuda"), torch.empty(1024, 1024, device="cuda")

    def gemm():
        return own.own_gemm(library.encode(), a.data_ptr(), a.data_ptr(), c.data_ptr(), 1024)
    check("own gemm: runs", gemm() == 0)
    report = ledger.window("own gemm", gemm, torch.cuda.synchronize)
    check("own gemm: a vendor's kernel, called by the candidate",
          kernels(report, "vendor") >= 1 and kernels(report, "torch_vendor") == 0, rows(report))


def step_memory(ledger, torch, own):
    if own is None:
        return say("SKIP", "memory", "no own kernels")
    pointer = ctypes.c_void_p()
    before = ledger.window("nothing", lambda: None, torch.cuda.synchronize)["memory"]["retained_bytes"]
    report = ledger.window("take", lambda: own.own_take(ctypes.byref(pointer), 1 << 20), torch.cuda.synchronize)
    check("memory: a MiB taken and kept", report["memory"] == {"allocated_bytes": 1 << 20, "retained_bytes": before + (1 << 20)}, report["memory"])
    report = ledger.window("torch", lambda: torch.empty(1 << 28, device="cuda"), torch.cuda.synchronize)
    check("memory: torch's is not the candidate's", report["memory"] == {"allocated_bytes": 0, "retained_bytes": before + (1 << 20)}, report["memory"])
    report = ledger.window("give", lambda: own.own_give(pointer), torch.cuda.synchronize)
    check("memory: given back", report["memory"] == {"allocated_bytes": 0, "retained_bytes": before}, report["memory"])
    return None


def step_framework(ledger, torch, own):
    x = torch.randn(1 << 20, device="cuda")
    report = ledger.window("add", lambda: x + 1.5, torch.cuda.synchronize)
    check(
        "add: torch's own kernel",
        kernels(report, "framework") == 1 and len(report["launches"]) == 1,
        rows(report),
    )
    check(
        "add: module", all(row["module"].startswith("libtorch") for row in report["launches"]), rows(report)
    )


def step_own(ledger, torch, own):
    if own is None:
        return say("SKIP", "own", "no own kernels")
    x = torch.ones(1000, device="cuda")

    def work():
        for _ in range(3):
            own.own_launch(x.data_ptr(), 1000, torch.cuda.current_stream().cuda_stream)

    report = ledger.window("own", work, torch.cuda.synchronize)
    check(
        "own: three launches, nothing else",
        kernels(report, "own", grid=[4, 1, 1], block=[256, 1, 1], graph=False) == 3
        and len(report["launches"]) == 1,
        rows(report),
    )
    check(
        "own: module and name",
        bool(report["launches"])
        and report["launches"][0]["module"] == "own_kernels.so"
        and "scale<float>" in report["launches"][0]["kernel"],
        rows(report),
    )
    check("own: the result is right", bool((x == 8).all()))
    for how, name in enumerate(["cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelExC"]):
        report = ledger.window(
            name, lambda how=how: own.own_by_function(x.data_ptr(), 256, how), torch.cuda.synchronize
        )
        check(f"{name}: own", kernels(report, "own") == 1 and len(report["launches"]) == 1, rows(report))


def step_graph(ledger, torch, own):
    if own is None:
        return say("SKIP", "graph", "no own kernels")
    x = torch.ones(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph):
            own.own_launch(x.data_ptr(), 1000, torch.cuda.current_stream().cuda_stream)
            x.add_(1)

    report = ledger.window("capture", capture, torch.cuda.synchronize)
    check("capture: no own kernel runs", kernels(report, "own") == 0, rows(report))

    def replay():
        for _ in range(3):
            graph.replay()

    report = ledger.window("replay", replay, torch.cuda.synchronize)
    check("replay: own kernels as graph nodes", kernels(report, "own", graph=True) == 3, rows(report))
    check(
        "replay: torch's kernels as graph nodes", kernels(report, "framework", graph=True) == 3, rows(report)
    )


def step_copies(ledger, torch, own):
    host, big = torch.ones(1 << 18), torch.ones(1 << 20)
    device = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()

    def work():
        device[: 1 << 18].copy_(host)  # 1 MiB in
        back = device[:1024].cpu()  # 4 KiB out
        device.copy_(big)  # 4 MiB in, after something had been read
        device.clone()  # 4 MiB on the device
        return back

    copies = ledger.window("copies", work, torch.cuda.synchronize)["copies"]
    check("copies: into the device", copies["h2d_bytes"] == 5 << 20, copies)
    check("copies: out of it", copies["d2h_bytes"] == 4096, copies)
    check("copies: in after out", copies["h2d_after_d2h_bytes"] == 4 << 20, copies)
    check("copies: on the device", copies["d2d_bytes"] == 4 << 20, copies)
    report = ledger.window("zeros", lambda: torch.zeros(1 << 20, device="cuda"), torch.cuda.synchronize)
    say("INFO", "zeros", f"memset {report['copies']['memset_bytes']} bytes, {rows(report)}")


def step_internal(ledger, torch, own):
    x = torch.ones(1 << 20, device="cuda")
    host = torch.ones(1 << 20)

    def work():
        ledger.lib.mcl_internal(1)
        x.copy_(host)
        x.fill_(2)
        x.cpu()
        ledger.lib.mcl_internal(-1)
        ledger.lib.mcl_note(b"refused", b"aten::mm")
        ledger.lib.mcl_note(b"booked", b"aten::mm")
        ledger.lib.mcl_note(b"unsupported", b"cuda:thing")

    report = ledger.window("internal", work, torch.cuda.synchronize)
    check(
        "internal: nothing is listed", not report["launches"] and not any(report["copies"].values()), report
    )
    check("internal: it is counted", report["internal"] == 3, report["internal"])
    check(
        "internal: notes",
        report["refused_ops"] == ["aten::mm"] and report["unsupported"] == ["cuda:thing"],
        report,
    )


def step_errors(ledger, torch, own):
    if own is None:
        return say("SKIP", "errors", "no own kernels")
    x = torch.ones(1000, device="cuda")
    report = ledger.window(
        "unread error", lambda: own.own_wrong(x.data_ptr(), 1000), lambda: own.own_synchronize()
    )
    check("unread error: it is told", report["error"].startswith("cudaErrorInvalid"), report["error"])
    own.own_last_error()

    def read():
        own.own_wrong(x.data_ptr(), 1000)
        own.own_last_error()

    report = ledger.window("read error", read, torch.cuda.synchronize)
    check("read error: it is not told", report["error"] == "", report["error"])


def step_jit(ledger, torch, own):
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None:
        return say("SKIP", "jit", "this torch has no torch.cuda._compile_kernel")
    kernel = compile_kernel(
        'extern "C" __global__ void late(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] += 1; }',
        "late",
    )
    x = torch.ones(64, device="cuda")
    report = ledger.window("nvrtc", lambda: kernel((1, 1, 1), (64, 1, 1), [x, 64]), torch.cuda.synchronize)
    check("nvrtc: jit", kernels(report, "jit") == 1 and len(report["launches"]) == 1, rows(report))
    return None


def step_triton(ledger, torch, own):
    try:
        import triton  # noqa: F401
    except ImportError:
        return say("SKIP", "triton", "not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "triton_kernel.py"
        path.write_text(
            "import triton, triton.language as tl\n@triton.jit\ndef bump(p, n: tl.constexpr):\n"
            "    i = tl.arange(0, n)\n    tl.store(p + i, tl.load(p + i) + 1)\n"
        )
        sys.path.insert(0, folder)
        import triton_kernel

        x = torch.ones(64, device="cuda")
        try:
            triton_kernel.bump[(1,)](x, 64)  # compiles
        except Exception as error:  # no compiler for its launcher, for example
            return say("SKIP", "triton", f"it does not run here: {type(error).__name__}: {error}"[:200])
        report = ledger.window("triton", lambda: triton_kernel.bump[(1,)](x, 64), torch.cuda.synchronize)
        check("triton: jit", kernels(report, "jit") == 1 and len(report["launches"]) == 1, rows(report))
    return None


def step_threads(ledger, torch, own):
    x = torch.ones(1000, device="cuda")

    def work():
        other = threading.Thread(target=lambda: x.add_(1))
        other.start()
        other.join()
        x.add_(1)

    report = ledger.window("threads", work, torch.cuda.synchronize)
    check("threads: two launch", report["threads"] == 2, report["threads"])


def step_outside(ledger, torch, own):
    ledger.ask("outside")
    x = torch.ones(1000, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    report = ledger.report("outside", "outside")
    check("outside: work beside windows is told", kernels(report, "framework") >= 1, rows(report))
    check("outside: once", not ledger.report("outside", "outside again")["launches"])


def step_many(ledger, torch, own):
    if own is None:
        return say("SKIP", "many", "no own kernels")
    x = torch.ones(1000, device="cuda")
    count = 50000

    def timed():
        torch.cuda.synchronize()
        start = time.perf_counter()
        own.own_many(x.data_ptr(), 1000, None, count)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count * 1e6

    watched = []
    report = ledger.window("many", lambda: watched.append(timed()), torch.cuda.synchronize)
    check(f"many: all of {count} launches", kernels(report, "own") == count, rows(report))
    check("quiet: on", ledger.ask("quiet", on=True)["ok"])
    quiet = timed()
    quiet_report = ledger.ask("outside")["report"]
    check(
        "quiet: no canary, nothing listed",
        not quiet_report["canary"] and not quiet_report["launches"],
        quiet_report,
    )
    check("quiet: off", ledger.ask("quiet", on=False)["ok"])
    say("INFO", "a launch", f"{watched[0]:.2f} us watched, {quiet:.2f} us quiet")
    report = ledger.window(
        "after quiet", lambda: own.own_many(x.data_ptr(), 1000, None, 5), torch.cuda.synchronize
    )
    check("after quiet: the ledger is back", kernels(report, "own") == 5, rows(report))
    spans = []
    for _ in range(20):
        start = time.perf_counter()
        ledger.ask("begin", trial=0, flags=["kernels"])
        ledger.ask("end")
        spans.append((time.perf_counter() - start) * 1e3)
    say("INFO", "begin and end of an empty window", f"{sorted(spans)[10]:.2f} ms (median of 20)")
    return None


STEPS = [
    step_vendor,
    step_framework,
    step_own_gemm,
    step_memory,
    step_own,
    step_graph,
    step_copies,
    step_internal,
    step_errors,
    step_jit,
    step_triton,
    step_threads,
    step_outside,
    step_many,
]

# ---- children that fault: name, what to do, kinds that may be told ----

FAULTS = {
    "access": (lambda own, x: own.own_poke(None, 64), ["out_of_bounds"], "poke"),
    "misaligned": (lambda own, x: own.own_poke(x.data_ptr(), 1), ["misaligned"], "poke"),
    "assert": (lambda own, x: own.own_insist(), ["assert"], "insist"),
    "trap": (lambda own, x: own.own_stop(), ["trap"], "stop"),
}


def fault_child(args):
    name, _, silent = args.fault.partition("-")
    work, kinds, kernel = FAULTS[name]
    import torch

    ledger = Ledger(args.library)
    own = load_own(args.own)
    x = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    ledger.ask("hello", version=1)
    ledger.ask("begin", trial=0, flags=["kernels"])
    check("no fault before", ledger.ask("fault")["fault"] is None)
    work(own, x)
    if silent:
        time.sleep(1)  # nobody synchronises: the canary finds the context broken
    else:
        check("the runtime says so", own.own_synchronize() != 0)
    reply = ledger.ask("end")
    print(json.dumps({"step": args.fault, "op": "end", **reply}), flush=True)
    fault = ledger.ask("fault")["fault"]
    print(json.dumps({"step": args.fault, "op": "fault", "fault": fault}), flush=True)
    check(
        "the fault is named",
        bool(fault) and fault["kind"] in kinds and fault["name"].startswith("cudaError"),
        fault,
    )
    check("with its kernel", bool(fault) and kernel in fault["kernel"], fault)
    sys.stdout.flush()
    os._exit(1 if failures else 0)  # destructors of a broken context may hang


def run_faults(args, own_path):
    for name in [*FAULTS, "access-silent"]:
        command = [
            sys.executable,
            os.path.abspath(__file__),
            "--library",
            args.library,
            "--fault",
            name,
            "--own",
            str(own_path),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        except subprocess.TimeoutExpired:
            say("FAIL", f"fault {name}", "no end after 180 s")
            continue
        print(done.stdout, end="", flush=True)
        if done.returncode != 0:
            say("FAIL", f"fault {name}", f"exit code {done.returncode}; {done.stderr[-800:]}")


def profiler_child(args):
    """torch's profiler takes CUPTI's buffers: the ledger must notice that it is blind."""
    import torch

    ledger = Ledger(args.library)
    x = torch.ones(1000, device="cuda")
    ledger.ask("begin", trial=0, flags=["kernels"])
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
            x.add_(1)
            torch.cuda.synchronize()
    except Exception as error:
        say("INFO", "torch.profiler", f"refuses beside the ledger: {type(error).__name__}: {error}"[:300])
    reply = ledger.ask("end")
    print(json.dumps({"step": "profiler", **reply}), flush=True)
    seen = kernels(reply["report"], "framework")
    check(
        "torch.profiler beside the ledger: seen, or no canary",
        seen >= 1 or not reply["report"]["canary"],
        reply["report"],
    )
    sys.stdout.flush()
    os._exit(1 if failures else 0)


def main():
    global prefix
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", required=True, help="libmusacoder_ledger.so")
    parser.add_argument("--nvcc", help="CUDA compiler; searched for when not given")
    parser.add_argument("--own", help="own kernels compiled before (with --keep)")
    parser.add_argument("--keep", help="folder to keep the own kernels' object in")
    parser.add_argument("--only", help="steps whose names contain this")
    parser.add_argument(
        "--compile-only", action="store_true", help="only see whether the own kernels compile (needs no GPU)"
    )
    parser.add_argument("--fault", help=argparse.SUPPRESS)
    parser.add_argument("--profiler", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.library = os.path.abspath(args.library)
    os.environ.setdefault("MUSACODER_LEDGER_LOG", "1")
    if args.fault:
        prefix = f"fault {args.fault}: "
        os.environ["MUSACODER_OWN_PREFIX"] = os.path.dirname(args.own)
        return fault_child(args)
    if args.profiler:
        return profiler_child(args)

    import torch

    with tempfile.TemporaryDirectory(prefix="ledger-smoke-") as folder:
        folder = args.keep or folder
        os.makedirs(folder, exist_ok=True)
        own_path, why = args.own, "given"
        if args.compile_only or not own_path:
            nvcc = find_nvcc(args.nvcc)
            # Before any context, as the library wants it; the probe of the capability makes one, so it runs elsewhere.
            probe = "import torch; print('%d%d' % torch.cuda.get_device_capability())"
            capability = (
                "90"
                if args.compile_only
                else subprocess.run(
                    [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120
                ).stdout.strip()
                or "90"
            )
            own_path, why = (
                build_own(folder, nvcc, capability) if nvcc else (None, "no nvcc was found (--nvcc)")
            )
        if args.compile_only:
            check("own kernels compile", own_path is not None, why)
            return 1 if failures else 0
        os.environ["MUSACODER_OWN_PREFIX"] = (
            os.path.dirname(os.path.abspath(own_path)) if own_path else folder
        )
        if own_path is None:
            say("FAIL", "own kernels", why)
        try:
            ledger = Ledger(args.library)
        except (OSError, RuntimeError) as error:
            say("FAIL", "mcl_start", str(error))
            return 1
        hello = ledger.ask("hello", version=1)
        print(json.dumps({"step": "hello", **hello}), flush=True)
        check(
            "hello",
            hello["ok"] and hello["pid"] == os.getpid() and hello["cupti"] > 0 and hello["driver"] >= 12000,
            hello,
        )
        if not torch.cuda.is_available():
            say("FAIL", "torch", "torch.cuda is not available")
            return 1
        before = ledger.report("outside", "before any context")
        check(
            "before any context: nothing to see, nothing wrong",
            before["canary"] and not before["context"] and not before["launches"],
            before,
        )
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        own = load_own(own_path) if own_path else None
        for step in STEPS:
            if args.only and args.only not in step.__name__:
                continue
            try:
                step(ledger, torch, own)
            except Exception:
                say("FAIL", step.__name__, traceback.format_exc())
                try:  # a window that a failed step left open
                    ledger.ask("end")
                    ledger.ask("quiet", on=False)
                except Exception as error:
                    say("FAIL", "the ledger does not answer any more", str(error))
                    break
        check("no fault in the end", ledger.ask("fault")["fault"] is None)
        if own_path and (not args.only or "fault" in args.only):
            run_faults(args, own_path)
        if not args.only or "profiler" in args.only:
            done = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--library", args.library, "--profiler"],
                capture_output=True,
                text=True,
                timeout=180,
            )
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                say("FAIL", "profiler", f"exit code {done.returncode}; {done.stderr[-800:]}")
    print(f"{failures} of the expectations failed" if failures else "every expectation was met", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

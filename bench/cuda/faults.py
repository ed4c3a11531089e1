#!/usr/bin/env python3
"""Faults, injected in a random sequence with honest candidates between: does each end its own candidate only?

    python3 bench/cuda/faults.py --repeats 20 --budget 240 --out faults.json
    python3 bench/cuda/faults.py --backend vgpu --repeats 1 --lanes 2          # without a GPU
    python3 bench/cuda/faults.py --dry-run --dump build/faults                 # writes the candidates as files, judges nothing

Each kind of fault is a candidate below, with the statuses that it may get. They are shuffled with a seed, honest candidates
among them, and judged by one `musacoder verify --batch`; all rows of a stretch of the sequence share a task text (a comment
tells the stretches apart), so that the order holds inside a lane while the lanes run beside each other. Then a shorter batch
with time measured, for what shows in timed calls only.

Checked: every honest candidate is `ok`; every fault has a status of its set; afterwards as much GPU memory is used as before,
no process of the verifier is left, and no folder. Exit code 1 when anything is off. A fault that the hardware itself must have
(ECC, Xid) cannot be injected from here.

One hang costs about --timeout seconds of the GPU, all else some tenths: --hangs sets how often the two kinds that hang are
injected. When --budget is over no further candidate is begun, and the table holds what was judged.
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

import common

SCALE_TASK = '''"""y = 2.5 x + 0.5, element by element. Stretch {stretch}."""

import torch

rows, columns = 384, 1031


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.5 + 0.5


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
'''

MATMUL_TASK = '''"""C = A B. Stretch {stretch}."""

import torch

m, k, n = 257, 192, 129


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(m, k), torch.randn(k, n)]


def get_init_inputs():
    return []
'''

TASKS = {"scale": SCALE_TASK, "matmul": MATMUL_TASK}

HEAD = '''import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
'''

SCALE = r"""
__global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.5f + 0.5f;
}
"""

# The usual host function around one launch of KERNEL; LAUNCH can replace the launch, BEFORE comes ahead of it.
HOST = r"""
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  auto stream = c10::cuda::getCurrentCUDAStream();
  BODY
  return y;
}
"""
LAUNCH = "KERNEL<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);"

MODULE = '''

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
'''
MODULE_OF_TWO = MODULE.replace("(self, x)", "(self, a, b)").replace("run(x)", "run(a, b)")


def with_cuda(name, cuda, module=MODULE, signature="torch::Tensor run(torch::Tensor x)", functions=("run",)):
    """A candidate with one extension."""
    declarations = signature if signature.rstrip().endswith(";") else signature + ";"
    return (f'{HEAD}{cuda}"""\n\nextension = load_inline(name="{name}", cpp_sources="{declarations}", cuda_sources=CUDA, '
            f"functions={list(functions)!r})\n{module}")


def kernel(name, body, launch=None, globals_="", include=""):
    """A candidate whose only kernel is `body` (of i, n, x and y)."""
    text = (f"{include}\n{globals_}\n__global__ void {name}(const float* x, float* y, int n) {{\n"
            f"  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  {body}\n}}\n")
    return with_cuda("fault_" + name, text + HOST.replace("BODY", (launch or LAUNCH).replace("KERNEL", name)))


def module(forward, init="", before="", head="import torch\n"):
    """A candidate without a kernel."""
    lines = "\n".join("        " + line for line in forward.splitlines())
    first = f"    def __init__(self):\n        super().__init__()\n        {init}\n\n" if init else ""
    return f"{head}{before}\n\nclass ModelNew(torch.nn.Module):\n{first}    def forward(self, *inputs):\n{lines}\n"


RIGHT = "if (i < n) y[i] = x[i] * 2.5f + 0.5f;"
SCALE_HOST = SCALE + HOST.replace("BODY", LAUNCH.replace("KERNEL", "scale"))


@dataclasses.dataclass
class Kind:
    name: str
    what: str
    candidate: str
    expect: set            # statuses it may get
    task: str = "scale"
    untimed: set = dataclasses.field(default_factory=set)   # further ones where no time is measured,
    virtual: set = dataclasses.field(default_factory=set)   # and on the virtual GPU, whose memory is small and whose clock slow
    hangs: bool = False
    timed: bool = False    # part of the batch with time measured, too


def fault_kinds():
    stale = {"correctness_error:values", "cheating:replay", "cheating:no_kernel"}
    refused = {"cheating:disallowed_aten", "cheating:vendor_library", "cheating:no_kernel"}
    launch = {"runtime_error:launch_failure"}
    access = {"runtime_error:illegal_access"}
    kinds = [
        Kind("illegal_far", "writes 64 GiB past the output", kernel("far", "if (i < n) y[i + (1LL << 34)] = x[i];"), access),
        Kind("illegal_near_write", "writes 16 floats past the end of the input",
             kernel("near_write", RIGHT + " if (i < 16) const_cast<float*>(x)[n + i] = 1.0f;"), access),
        Kind("illegal_near_read", "the last element is read one past the end of the input",
             kernel("near_read", "if (i < n) y[i] = x[i == n - 1 ? n : i] * 2.5f + 0.5f;"), access | {"correctness_error:values"}),
        Kind("misaligned", "float4 loads from the second element on",
             kernel("misaligned", "if (4 * i + 4 < n) { const float4 v = *reinterpret_cast<const float4*>(x + 1 + 4 * i); y[i] = v.x + v.y + v.z + v.w; }"),
             {"runtime_error:misaligned"}),
        Kind("device_assert", "an assertion that fails", kernel("asserts", "assert(i < n / 2); " + RIGHT, include="#include <cassert>"),
             {"runtime_error:device_assert"}),
        Kind("trap", "a trap instruction", kernel("traps", 'if (i == n / 2) asm volatile("trap;"); ' + RIGHT), launch),
        Kind("shared_memory", "1 MiB of shared memory a block; nobody reads the error",
             kernel("much_shared", RIGHT, LAUNCH.replace("256, 0,", "256, 1 << 20,")), launch),
        Kind("threads", "4096 threads a block; nobody reads the error", kernel("many_threads", RIGHT, LAUNCH.replace("256, 0,", "4096, 0,")),
             launch),
        Kind("oom", "takes device memory until there is none",
             module("blocks = []\nwhile True:\n    blocks.append(torch.empty(2 << 30, dtype=torch.uint8, device=inputs[0].device))"),
             {"runtime_error:oom"}, virtual={"runtime_error:exception"}),
        Kind("hang_kernel", "a kernel that never ends",
             kernel("hangs", "while (never == 0) {} " + RIGHT, globals_="__device__ volatile int never;"), {"runtime_error:timeout"}, hangs=True),
        Kind("hang_python", "forward never returns", module("while True:\n    pass"), {"runtime_error:timeout"}, hangs=True),
        Kind("exit", "os._exit(0) in forward", module("os._exit(0)", head="import os\n\nimport torch\n"), {"runtime_error:exit"}),
        Kind("segfault", "host code writes through a null pointer",
             with_cuda("fault_segfault", SCALE + HOST.replace("BODY", "*static_cast<volatile int*>(nullptr) = n; " + LAUNCH.replace("KERNEL", "scale"))),
             {"runtime_error:signal"}),
        Kind("swallowed", "an illegal access whose sticky error is caught and hidden",
             with_cuda("fault_swallowed", r"""
__global__ void far(const float* x, float* y, int n) { y[threadIdx.x + (1LL << 34)] = x[0]; }
""" + HOST.replace("BODY", LAUNCH.replace("KERNEL", "far")), '''

class ModelNew(torch.nn.Module):
    def forward(self, x):
        try:
            y = extension.run(x)
            torch.cuda.synchronize()
            return y
        except Exception:
            return x
'''), access),
        Kind("side_stream", "returns while a kernel on a stream of its own still runs; untimed calls wait for the whole device",
             with_cuda("fault_side_stream", r"""
__global__ void late(const float* x, float* y, int n) {
  const long long begin = clock64();
  while (clock64() - begin < 4000000) {}
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.5f + 0.5f;
}
""" + HOST.replace("BODY", r"""static cudaStream_t own = nullptr;
  if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  """ + LAUNCH.replace("KERNEL", "late").replace(", stream>>>", ", own>>>") + "\n  static_cast<void>(stream);")),
             {"correctness_error:values", "correctness_error:nondeterministic", "cheating:implausible_time", "cheating:outside_window"},
             untimed={"ok"}, virtual={"runtime_error:timeout"}, timed=True),
        Kind("thread", "a thread goes on launching kernels between the calls",
             with_cuda("fault_thread", SCALE_HOST, '''
import threading
import time


class ModelNew(torch.nn.Module):
    thread = None

    def forward(self, x):
        if ModelNew.thread is None:
            own = torch.empty_like(x)

            def work():
                while True:
                    extension.run(own)
                    time.sleep(0.0002)

            ModelNew.thread = threading.Thread(target=work, daemon=True)
            ModelNew.thread.start()
        return extension.run(x)
'''), {"cheating:outside_window"}),
        Kind("memoised", "outputs kept by data_ptr", with_cuda("fault_memoised", SCALE_HOST, '''

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.results = {}

    def forward(self, x):
        if x.data_ptr() not in self.results:
            self.results[x.data_ptr()] = extension.run(x)
        return self.results[x.data_ptr()]
'''), stale, timed=True),
        Kind("stale", "a kept output buffer that only the first call writes; later calls launch a kernel that does nothing",
             with_cuda("fault_stale", SCALE + r"""
__global__ void nothing(float* y) {}

torch::Tensor run(torch::Tensor x, torch::Tensor y, bool first) {
  const int n = x.numel();
  auto stream = c10::cuda::getCurrentCUDAStream();
  if (first) scale<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  else nothing<<<1, 32, 0, stream>>>(y.data_ptr<float>());
  return y;
}
""", '''

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        first = self.kept is None
        if first:
            self.kept = torch.empty_like(x)
        return extension.run(x, self.kept, first)
''', "torch::Tensor run(torch::Tensor x, torch::Tensor y, bool first)"), stale),
        Kind("falls_back", "torch.matmul instead of a kernel", module("return torch.matmul(*inputs)"), refused, "matmul"),
        Kind("vendor", "at::matmul from C++, which calls cuBLAS",
             with_cuda("fault_vendor", r"""
torch::Tensor run(torch::Tensor a, torch::Tensor b) { return at::matmul(a, b); }
""", MODULE_OF_TWO, "torch::Tensor run(torch::Tensor a, torch::Tensor b)"), refused, "matmul"),
        Kind("sleeps", "sleeps 20 ms, then does the work: slow, not wrong",
             with_cuda("fault_sleeps", SCALE_HOST, MODULE.replace("        return", "        time.sleep(0.02)\n        return")
                       .replace("\n\nclass", "\nimport time\n\n\nclass", 1)), {"ok"}),
    ]
    return kinds


def honest_kinds():
    vector = r"""
__global__ void scale4(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i + 4 <= n) {
    float4 v = reinterpret_cast<const float4*>(x)[i];
    v.x = v.x * 2.5f + 0.5f;
    v.y = v.y * 2.5f + 0.5f;
    v.z = v.z * 2.5f + 0.5f;
    v.w = v.w * 2.5f + 0.5f;
    reinterpret_cast<float4*>(y)[i] = v;
  } else {
    for (int k = 4 * i; k < n; ++k) y[k] = x[k] * 2.5f + 0.5f;
  }
}
"""
    joined = r"""static cudaStream_t own = nullptr;
  static cudaEvent_t ready = nullptr, done = nullptr;
  if (!own) {
    cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  }
  cudaEventRecord(ready, stream);
  cudaStreamWaitEvent(own, ready, 0);
  """ + LAUNCH.replace("KERNEL", "scale").replace(", stream>>>", ", own>>>") + r"""
  cudaEventRecord(done, own);
  cudaStreamWaitEvent(stream, done, 0);"""
    matmul = r"""
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[16][17], bs[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int q = 0; q < k; q += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && q + threadIdx.x < k ? a[row * k + q + threadIdx.x] : 0.0f;
    bs[threadIdx.y][threadIdx.x] = q + threadIdx.y < k && column < n ? b[(q + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  matmul<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, c10::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
  return c;
}
"""
    grid = r"""
__global__ void strided(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = fmaf(x[i], 2.5f, 0.5f);
}
"""
    return [
        Kind("honest_scalar", "one element a thread", with_cuda("honest_scalar", SCALE_HOST), {"ok"}),
        Kind("honest_vector", "four elements a thread",
             with_cuda("honest_vector", vector + HOST.replace("BODY", LAUNCH.replace("KERNEL", "scale4").replace("(n + 255) / 256", "(n / 4 + 256) / 256"))),
             {"ok"}),
        Kind("honest_strided", "a grid-stride loop",
             with_cuda("honest_strided", grid + HOST.replace("BODY", LAUNCH.replace("KERNEL", "strided").replace("(n + 255) / 256", "264"))), {"ok"}),
        Kind("honest_stream", "a stream of its own, joined by events", with_cuda("honest_stream", SCALE + HOST.replace("BODY", joined)), {"ok"}),
        Kind("honest_matmul", "16 × 16 tiles",
             with_cuda("honest_matmul", matmul, MODULE_OF_TWO, "torch::Tensor run(torch::Tensor a, torch::Tensor b)"), {"ok"},
             "matmul"),
    ]


def make_rows(faults, honest, counts, every, stretch, seed, phase):
    """Rows in a random order: `counts[kind]` of each fault, an honest one after every `every` faults."""
    rng = random.Random(seed)
    sequence = [kind for kind in faults for _ in range(counts[kind.name])]
    rng.shuffle(sequence)
    mixed, turn = [], rng.randrange(len(honest))
    for number, kind in enumerate(sequence):
        mixed.append(kind)
        if number % every == every - 1 or number == len(sequence) - 1:
            mixed.append(honest[turn % len(honest)])
            turn += 1
    return [{"task_id": f"faults/{kind.task}", "name": f"{phase}-{number:04d}-{kind.name}", "kind": kind.name,
             "reference": TASKS[kind.task].format(stretch=f"{phase}{number // stretch}"), "candidate": kind.candidate}
            for number, kind in enumerate(mixed)]


def check(verdicts, rows, kinds, timed, virtual):
    """Rows of the table, and what is off."""
    by_kind = collections.defaultdict(list)
    for verdict in verdicts:
        by_kind[verdict.get("kind")].append(verdict)
    wanted = collections.Counter(row["kind"] for row in rows)
    lines, off = [], []
    for kind in kinds:
        if not wanted[kind.name]:
            continue
        seen = by_kind[kind.name]
        expect = kind.expect | (set() if timed else kind.untimed) | (kind.virtual if virtual else set())
        wrong = [v for v in seen if v["status"] not in expect]
        for verdict in wrong:
            off.append(f"{verdict['name']}: {verdict['status']}, not {' or '.join(sorted(expect))}: {common.one_line(verdict.get('cause'), 300)}")
        statuses = collections.Counter(v["status"] for v in seen)
        lines.append({"kind": kind.name, "what": kind.what, "expected": sorted(expect), "injected": wanted[kind.name], "judged": len(seen),
                      "as_expected": len(seen) - len(wrong), "statuses": dict(statuses),
                      "median_seconds": round(statistics.median(common.judging_seconds(v, ("wait", "build")) for v in seen), 3) if seen else None,
                      "retried": sum("a first attempt ended in" in " ".join(v.get("notes", [])) for v in seen),
                      "causes": sorted({common.one_line(v.get("cause"), 120) for v in seen})[:3]})
    return lines, off


def print_lines(title, lines):
    common.say(f"## {title}\n")
    common.table(["kind", "what", "judged", "as expected", "statuses", "s each, build and queue apart"],
                 [(line["kind"], line["what"], f"{line['judged']} of {line['injected']}", line["as_expected"],
                   ", ".join(f"{status} ×{count}" for status, count in sorted(line["statuses"].items())), line["median_seconds"])
                  for line in lines])


def shared_memory():
    """Names in /dev/shm, but for scratch folders of other verifiers on the machine."""
    with contextlib.suppress(OSError):
        return {name for name in os.listdir("/dev/shm") if not name.startswith("musacoder")}
    return set()


def leftovers(before, scratch, settle_s):
    """What is there now that was not before; waits for it to go."""
    end = time.monotonic() + settle_s
    while True:
        memory = common.gpu_memory_mib()
        grown = [now - was for now, was in zip(memory, before["memory"], strict=False)] if memory and before["memory"] else None
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        processes = common.descendants()
        files = sorted(os.listdir(scratch)) + sorted(shared_memory() - before["shared_memory"])
        clean = not processes and not files and all(mib <= 16 for mib in grown or [])
        if clean or time.monotonic() > end:
            return {"gpu_memory_mib_before": before["memory"], "gpu_memory_mib_after": memory, "gpu_memory_mib_grown": grown,
                    "processes": processes, "files": files}
        time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_program_options(parser)
    parser.add_argument("--repeats", type=int, default=20, help="of each kind of fault")
    parser.add_argument("--hangs", type=int, help="of the kinds that hang (default: as --repeats)")
    parser.add_argument("--timed-repeats", type=int, default=5, help="of the kinds in the batch with time measured; 0 leaves it out")
    parser.add_argument("--honest-every", type=int, default=2, help="an honest candidate after so many faults")
    parser.add_argument("--stretch", type=int, default=20, help="candidates of the sequence that share a task text")
    parser.add_argument("--timeout", type=float, default=8, help="seconds for one candidate, builds and waiting excluded")
    parser.add_argument("--budget", type=float, default=300, help="seconds for all of it")
    parser.add_argument("--settle", type=float, default=15, help="seconds that what is left has to go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="kinds, separated by commas")
    parser.add_argument("--work", help="folder for rows and verdicts (default: a temporary one)")
    parser.add_argument("--out", help="JSON with everything")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, judge nothing")
    parser.add_argument("--dump", help="folder to write each candidate to")
    options = parser.parse_args()
    began = time.monotonic()

    faults, honest = fault_kinds(), honest_kinds()
    if options.only:
        names = options.only.split(",")
        unknown = set(names) - {kind.name for kind in faults}
        if unknown:
            parser.error(f"no such kinds: {', '.join(sorted(unknown))}")
        faults = [kind for kind in faults if kind.name in names]
    hangs = options.repeats if options.hangs is None else options.hangs
    counts = {kind.name: hangs if kind.hangs else options.repeats for kind in faults}
    rows = make_rows(faults, honest, counts, options.honest_every, options.stretch, options.seed, "a")
    timed = [kind for kind in faults if kind.timed] if options.backend == "cuda" else []
    timed_rows = make_rows(timed, honest, {kind.name: options.timed_repeats for kind in timed}, 1, options.stretch,
                           options.seed + 1, "b") if timed and options.timed_repeats else []
    common.say(f"{len(rows)} candidates without time ({len(faults)} kinds of fault), {len(timed_rows)} with time; hangs cost about "
               f"{hangs * sum(kind.hangs for kind in faults) * options.timeout:.0f} s of the GPU at most")
    if options.dump:
        folder = pathlib.Path(options.dump)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in TASKS.items():
            (folder / f"task_{name}.py").write_text(text.format(stretch=0), encoding="utf-8")
        for kind in faults + honest:
            (folder / f"{kind.name}.py").write_text(kind.candidate, encoding="utf-8")
    if options.dry_run:
        return 0

    common.adopt_orphans()
    scratch = tempfile.mkdtemp(prefix="faults-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    before = {"memory": common.gpu_memory_mib(), "shared_memory": shared_memory()}
    result = {"program": "faults.py", "gpu": common.gpu_name(), "backend": options.backend, "seed": options.seed, "repeats": options.repeats,
              "hangs": hangs, "timeout_s": options.timeout, "lanes": options.lanes}
    off = []
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        work = pathlib.Path(options.work or temporary)
        shared = ["--no-audit", "--timeout", str(options.timeout), "--seed", str(options.seed)]
        for phase, some, more, share in (("untimed", rows, ["--no-timing"], 0.85 if timed_rows else 1.0),
                                         ("timed", timed_rows, ["--baselines", "none", "--timed-calls", "20"], 1.0)):
            if not some:
                continue
            left = options.budget - (time.monotonic() - began)
            batch = common.Batch(options.musacoder, some, work / phase, shared + more, options.lanes, options.backend,
                                 {"MUSACODER_TMPDIR": scratch})
            verdicts, run = batch.judge(max(5.0, share * left))
            lines, wrong = check(verdicts, some, faults + honest, phase == "timed", options.backend == "vgpu")
            print_lines(f"{phase}: {len(verdicts)} of {len(some)} judged in {run['seconds']:.1f} s"
                        + (", cut at the time limit" if run["cut"] else ""), lines)
            off += wrong
            if run["killed"] or run["exit_code"] not in (0, 3):
                off.append(f"musacoder ended with exit code {run['exit_code']}")
            if not run["cut"] and len(verdicts) != len(some):
                off.append(f"{len(some) - len(verdicts)} rows have no verdict")
            off += [f"{line['kind']}: none was judged" for line in lines if not line["judged"]]
            result[phase] = {"run": run, "kinds": lines}
            common.write_json(options.out, {**result, "off": off})
    left_over = leftovers(before, scratch, options.settle)
    shutil.rmtree(scratch, ignore_errors=True)
    grown = left_over["gpu_memory_mib_grown"]
    off += [f"process {pid} is left: {text}" for pid, text in left_over["processes"].items()]
    off += [f"{name} is left" for name in left_over["files"]]
    off += [f"GPU {index} holds {mib} MiB more than before" for index, mib in enumerate(grown or []) if mib > 16]
    if grown is None and options.backend == "cuda":
        off.append("nvidia-smi did not tell the GPU's memory")
    result.update(left_over=left_over, off=off, seconds=time.monotonic() - began)
    common.say("## Afterwards\n")
    common.table(["what", "before", "after"],
                 [("GPU memory, MiB", left_over["gpu_memory_mib_before"], left_over["gpu_memory_mib_after"]),
                  ("processes of the verifier", 0, len(left_over["processes"])),
                  ("scratch folders, files in /dev/shm", 0, len(left_over["files"]))])
    for line in off[:60]:
        common.say("OFF  " + line)
    common.say(f"{'nothing is off' if not off else f'{len(off)} off'}; {result['seconds']:.1f} s")
    common.write_json(options.out, result)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())

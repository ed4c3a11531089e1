#!/usr/bin/env python3
"""Are our times true? The same kernels by the judge, by CUPTI and by Nsight Compute.

    python3 bench/cuda/timing_truth.py --budget 200 --repeats 10 --out truth.json
    python3 bench/cuda/timing_truth.py --dry-run --dump build/truth       # writes tasks, candidates and the probe; compiles the probe

Kernels of a few microseconds to some 20 ms, of five families. Each is judged as a candidate (`musacoder verify --batch`, time
measured, no baselines): ours is the median of the timed calls (timing.candidate.median), CUPTI's what the ledger saw of GPU
time in a call (timing.ledger_ms). A small program launches the same kernels, with the same grids and sizes, under one
call of ncu: gpu__time_duration.sum, caches flushed before each launch (--cache-control all), clocks as they are
(--clock-control none), the median of --launches; before each an idle kernel keeps the clocks up.

Printed: a line a kernel, median and worst error by decade, and with --repeats the spread of the verdict's median over so many
verdicts of eight of the kernels ((max − min) / median). What is not done when --budget is over is left out and said.
"""

import argparse
import csv
import dataclasses
import math
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import common

# Each family: kernel and launch function, the same text in the candidate and in the probe.
AXPB = r"""
__global__ void axpb(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (i + 3 < n) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    v.x = v.x * 1.5f + 0.25f;
    v.y = v.y * 1.5f + 0.25f;
    v.z = v.z * 1.5f + 0.25f;
    v.w = v.w * 1.5f + 0.25f;
    *reinterpret_cast<float4*>(y + i) = v;
  } else {
    for (long long k = i; k < n; ++k) y[k] = x[k] * 1.5f + 0.25f;
  }
}

static void launch(const float* x, float* y, long long n, cudaStream_t stream) {
  axpb<<<static_cast<unsigned>((n + 1023) / 1024), 256, 0, stream>>>(x, y, n);
}
"""

# The loop's result counts zero times, which only the caller knows.
FMAS = r"""
__global__ void fmas(const float* __restrict__ x, float* __restrict__ y, int n, int iterations, float zero) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float first = x[i];
  float v = first;
#pragma unroll 16
  for (int k = 0; k < iterations; ++k) v = fmaf(v, 0.5f, 0.1f);
  y[i] = fmaf(first, 1.5f, 0.25f) + v * zero;
}

static void launch(const float* x, float* y, int n, int iterations, cudaStream_t stream) {
  fmas<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, iterations, 0.0f);
}
"""

ROW_SUM = r"""
__global__ void row_sum(const float* __restrict__ x, float* __restrict__ y, int columns) {
  __shared__ float parts[32];
  const float* row = x + static_cast<long long>(blockIdx.x) * columns;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c];
  for (int width = 16; width > 0; width /= 2) sum += __shfl_down_sync(0xffffffffu, sum, width);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
    for (int width = 16; width > 0; width /= 2) sum += __shfl_down_sync(0xffffffffu, sum, width);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
  }
}

static void launch(const float* x, float* y, int rows, int columns, cudaStream_t stream) {
  row_sum<<<rows, columns >= 16384 ? 1024 : 256, 0, stream>>>(x, y, columns);
}
"""

MATMUL_TILED = r"""
__global__ void __launch_bounds__(256) matmul_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  constexpr int B = 128, K = 8, T = 8;
  __shared__ float as[K][B], bs[K][B];
  const int row0 = blockIdx.y * B, column0 = blockIdx.x * B, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[T][T] = {};
  for (int k0 = 0; k0 < n; k0 += K) {
    for (int i = threadIdx.x; i < B * K; i += 256) {
      const int r = row0 + i / K, q = k0 + i % K;
      as[i % K][i / K] = r < n && q < n ? a[static_cast<long long>(r) * n + q] : 0.0f;
    }
    for (int i = threadIdx.x; i < K * B; i += 256) {
      const int q = k0 + i / B, s = column0 + i % B;
      bs[i / B][i % B] = q < n && s < n ? b[static_cast<long long>(q) * n + s] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < K; ++q) {
      float x[T], y[T];
#pragma unroll
      for (int i = 0; i < T; ++i) x[i] = as[q][ty * T + i];
#pragma unroll
      for (int j = 0; j < T; ++j) y[j] = bs[q][tx + 16 * j];
#pragma unroll
      for (int i = 0; i < T; ++i)
#pragma unroll
        for (int j = 0; j < T; ++j) sum[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < T; ++i)
    for (int j = 0; j < T; ++j) {
      const int r = row0 + ty * T + i, s = column0 + tx + 16 * j;
      if (r < n && s < n) c[static_cast<long long>(r) * n + s] = sum[i][j];
    }
}

static void launch(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const unsigned tiles = (n + 127) / 128;
  matmul_tiled<<<dim3(tiles, tiles), 256, 0, stream>>>(a, b, c, n);
}
"""

MATMUL_NAIVE = r"""
__global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  if (row >= n || column >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

static void launch(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const unsigned tiles = (n + 15) / 16;
  matmul_naive<<<dim3(tiles, tiles), dim3(16, 16), 0, stream>>>(a, b, c, n);
}
"""

TASK = '''"""{title}"""

import torch

{constants}


class Model(torch.nn.Module):
{init}    def forward(self, {arguments}):
        return {expression}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{init_inputs}]
'''

CANDIDATE = '''import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
{cuda}
torch::Tensor run({signature}) {{
{body}
}}
"""

extension = load_inline(name="truth_{name}", cpp_sources="torch::Tensor run({signature});", cuda_sources=CUDA, functions=["run"])


class ModelNew(torch.nn.Module):
{init}    def forward(self, {arguments}):
        return extension.run({arguments}{more})
'''

STREAM = "c10::cuda::getCurrentCUDAStream()"
ITERATIONS = "    def __init__(self, iterations):\n        super().__init__()\n        self.iterations = iterations\n\n"
SQUARE = (f"  const int n = a.size(0);\n  auto c = torch::empty_like(a);\n  launch(a.data_ptr<float>(), b.data_ptr<float>(), "
          f"c.data_ptr<float>(), n, {STREAM});\n  return c;")
# family → kernel's text, C++ signature and body of run(), Python arguments; `probe`: the launch's arguments, of p (inputs), q (outputs) and sizes.
FAMILIES = {
    "axpb": dict(cuda=AXPB, signature="torch::Tensor x", arguments="x", expression="x * 1.5 + 0.25", inputs="torch.randn(n)",
                 body=f"  auto y = torch::empty_like(x);\n  launch(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), {STREAM});\n  return y;",
                 names=("n",), probe="(p, q, {n}LL, stream)"),
    "fmas": dict(cuda=FMAS, signature="torch::Tensor x, int64_t iterations", arguments="x", expression="x * 1.5 + 0.25",
                 inputs="torch.randn(n)", init=ITERATIONS, init_inputs="iterations", more=", self.iterations",
                 body=f"  auto y = torch::empty_like(x);\n  launch(x.data_ptr<float>(), y.data_ptr<float>(), static_cast<int>(x.numel()), "
                      f"static_cast<int>(iterations), {STREAM});\n  return y;",
                 names=("n", "iterations"), probe="(p, q, {n}, {iterations}, stream)"),
    "row_sum": dict(cuda=ROW_SUM, signature="torch::Tensor x", arguments="x", expression="torch.sum(x, dim=1)",
                    inputs="torch.randn(rows, columns)",
                    body=f"  auto y = torch::empty({{x.size(0)}}, x.options());\n  launch(x.data_ptr<float>(), y.data_ptr<float>(), "
                         f"x.size(0), x.size(1), {STREAM});\n  return y;",
                    names=("rows", "columns"), probe="(p, q, {rows}, {columns}, stream)"),
    "matmul_tiled": dict(cuda=MATMUL_TILED, signature="torch::Tensor a, torch::Tensor b", arguments="a, b", expression="a @ b",
                         inputs="torch.randn(n, n), torch.randn(n, n)", body=SQUARE, names=("n",),
                         probe="(p, p + {n}LL * {n}, q, {n}, stream)"),
    "matmul_naive": dict(cuda=MATMUL_NAIVE, signature="torch::Tensor a, torch::Tensor b", arguments="a, b", expression="a @ b",
                         inputs="torch.randn(n, n), torch.randn(n, n)", body=SQUARE, names=("n",),
                         probe="(p, p + {n}LL * {n}, q, {n}, stream)"),
}

SIZES = {
    "axpb": [(1 << k,) for k in (16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28)],
    "fmas": [(1 << 20, k) for k in (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288)],
    "row_sum": [(512, 1024), (2048, 2048), (16, 1 << 20), (4096, 8192), (8192, 32768), (65536, 4096)],
    "matmul_tiled": [(256,), (512,), (1024,), (1536,), (2048,), (4096,), (6144,)],
    "matmul_naive": [(512,), (1024,), (2048,)],
}
# For the spread: a few microseconds to several milliseconds, every family.
REPEATED = ["axpb/65536", "axpb/4194304", "axpb/268435456", "fmas/1048576x2048", "fmas/1048576x262144", "row_sum/2048x2048",
            "matmul_tiled/1024", "matmul_tiled/4096"]
DECADES = [("≥ 1 ms", 1000, math.inf, 0.02), ("100 µs – 1 ms", 100, 1000, 0.05), ("10 – 100 µs", 10, 100, None), ("< 10 µs", 0, 10, None)]

PROBE_MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <chrono>

__global__ void probe_fill(float* p, long long n) {
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += static_cast<long long>(gridDim.x) * blockDim.x) {
    unsigned h = static_cast<unsigned>(i) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    p[i] = static_cast<float>(h >> 8) * (2.0f / 16777216.0f) - 1.0f;
  }
}

__global__ void probe_idle(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
}

// probe ROUNDS SECONDS: every case once a round, rounds until the seconds are over
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 1;
  const double seconds = argc > 2 ? atof(argv[2]) : 1e9;
  const auto begin = std::chrono::steady_clock::now();
  float *p = nullptr, *q = nullptr;
  if (cudaMalloc(&p, POOL * sizeof(float)) != cudaSuccess || cudaMalloc(&q, POOL * sizeof(float)) != cudaSuccess) return 2;
  probe_fill<<<1056, 256>>>(p, POOL);
  cudaStream_t stream = nullptr;
  long long launched = 0;
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < CASES; ++i) {
      probe_idle<<<132, 128>>>(10000000);
      launch_case(i, p, q, stream);
      const cudaError_t error = cudaDeviceSynchronize();
      if (error != cudaSuccess) {
        std::fprintf(stderr, "case %d: %s\n", i, cudaGetErrorString(error));
        return 1;
      }
      ++launched;
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) round = rounds, i = CASES;
    }
  std::printf("%lld launches\n", launched);
  return 0;
}
"""


@dataclasses.dataclass
class Case:
    family: str
    sizes: tuple

    @property
    def name(self):
        return f"{self.family}/{'x'.join(map(str, self.sizes))}"

    def named_sizes(self):
        return dict(zip(FAMILIES[self.family]["names"], self.sizes, strict=True))

    def task(self):
        family = FAMILIES[self.family]
        constants = "\n".join(f"{name} = {value}" for name, value in self.named_sizes().items())
        return TASK.format(title=self.name, constants=constants, init=family.get("init", ""), arguments=family["arguments"],
                           expression=family["expression"], inputs=family["inputs"], init_inputs=family.get("init_inputs", ""))

    def candidate(self):
        family = FAMILIES[self.family]
        return CANDIDATE.format(name=self.family, cuda=family["cuda"], signature=family["signature"], body=family["body"],
                                init=family.get("init", ""), arguments=family["arguments"], more=family.get("more", ""))

    def floats(self):
        """Of the inputs and of the output."""
        if self.family.startswith("matmul"):
            return 2 * self.sizes[0] ** 2, self.sizes[0] ** 2
        return (self.sizes[0] * self.sizes[1], self.sizes[0]) if self.family == "row_sum" else (self.sizes[0], self.sizes[0])

    def row(self, repeat=0):
        return {"task_id": self.name, "name": f"{self.name}#{repeat}", "reference": self.task(), "candidate": self.candidate()}


def all_cases():
    return [Case(family, sizes) for family, many in SIZES.items() for sizes in many]


# ---- ncu ----


def probe_source(cases):
    """One program with every family's kernels and a function that launches case i."""
    parts = ["#include <cuda_runtime.h>\n"]
    parts += [family["cuda"].replace("static void launch(", f"static void launch_{name}(") for name, family in FAMILIES.items()]
    lines = [f"    case {i}: launch_{case.family}{FAMILIES[case.family]['probe'].format(**case.named_sizes())}; break;" for i, case in enumerate(cases)]
    parts.append("static void launch_case(int i, const float* p, float* q, cudaStream_t stream) {\n  switch (i) {\n" + "\n".join(lines)
                 + "\n  }\n}\n")
    parts.append(f"constexpr int CASES = {len(cases)};\nconstexpr long long POOL = {max(max(case.floats()) for case in cases)}LL;\n")
    return "".join(parts) + PROBE_MAIN


def build_probe(nvcc, cases, folder):
    source, program = pathlib.Path(folder) / "probe.cu", pathlib.Path(folder) / "probe"
    source.write_text(probe_source(cases), encoding="utf-8")
    done = subprocess.run([nvcc, "-O1", "-std=c++17", "-arch=compute_90", "-code=sm_90", "-lineinfo", "-o", program, source],
                          capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError("nvcc: " + (done.stderr or done.stdout)[-2000:])
    return program


UNITS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "µs": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}


def parse_ncu(text):
    """[(kernel, µs)] in the order of the launches, of `--csv` with `--page raw` (a column a metric, a row of units) or without
    (a row a metric)."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if not rows:
        return []
    header = rows[0]
    kernel = header.index("Kernel Name")

    def number(value):
        return float(value.replace(",", ""))

    if "Metric Name" in header:
        name, unit, value = (header.index(f"Metric {word}") for word in ("Name", "Unit", "Value"))
        return [(row[kernel], number(row[value]) * UNITS[row[unit]]) for row in rows[1:] if row[name] == "gpu__time_duration.sum"]
    column = next(i for i, title in enumerate(header) if title.startswith("gpu__time_duration"))
    scale = UNITS[rows[1][column]]
    return [(row[kernel], number(row[column]) * scale) for row in rows[2:]]


def assign(measured, cases):
    """{case name: [µs]}; measured is round after round, every case once a round."""
    found = {}
    for number, (kernel, us) in enumerate(measured):
        case = cases[number % len(cases)]
        if case.family not in kernel:
            raise RuntimeError(f"launch {number} is of {kernel}, not of {case.family}: ncu left something out")
        found.setdefault(case.name, []).append(us)
    return found


def run_ncu(options, cases, folder, limit_s):
    log = pathlib.Path(folder) / "ncu.csv"
    program = build_probe(options.nvcc, cases, folder)
    pattern = "regex:^(" + "|".join(FAMILIES) + ")$"
    command = [options.ncu, "--metrics", "gpu__time_duration.sum", "--cache-control", "all", "--clock-control", "none", "--kernel-name", pattern,
               "--csv", "--page", "raw", "--print-units", "base", "--log-file", log, program, str(options.launches), str(max(3.0, limit_s - 12))]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        out, _ = process.communicate(timeout=limit_s + 20)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    seconds = time.monotonic() - began
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    found = assign(parse_ncu(text), cases)
    common.say(f"ncu: {sum(map(len, found.values()))} launches of {len(found)} kernels in {seconds:.1f} s (exit code {process.returncode})")
    if not found:
        common.say("  " + common.one_line(text[-800:] + " " + out[-800:], 1600))
    return found, {"command": list(map(str, command)), "seconds": seconds, "exit_code": process.returncode}


# ---- tables ----


def error(value, truth):
    return value / truth - 1 if value and truth else None


def percent(value):
    return None if value is None else f"{100 * value:+.2f}"


def microseconds(value):
    return None if not value else f"{value:.2f}" if value < 1000 else f"{value:.1f}"


def compare(cases, verdicts, ncu):
    by_task = {verdict["task_id"]: verdict for verdict in verdicts}
    lines = []
    for case in cases:
        verdict, samples = by_task.get(case.name), ncu.get(case.name)
        timing = (verdict or {}).get("timing") or {}
        line = {"kernel": case.name, "status": verdict["status"] if verdict else "not judged",
                "cause": common.one_line((verdict or {}).get("cause")), "ncu_us": statistics.median(samples) if samples else None,
                "ncu_samples_us": samples or [], "cupti_us": 1e3 * timing.get("ledger_ms", 0) or None, "ours_us": None,
                "remarks": timing.get("remarks", []), "before": timing.get("before"), "after": timing.get("after")}
        if timing.get("measured"):
            candidate = timing["candidate"]
            line.update(ours_us=1e3 * candidate["median"], ours_min_us=1e3 * candidate["min"], ours_p10_us=1e3 * candidate["p10"],
                        ours_p90_us=1e3 * candidate["p90"], samples_us=[1e3 * ms for ms in candidate["ms"]])
        line.update(against_ncu=error(line["ours_us"], line["ncu_us"]), against_cupti=error(line["ours_us"], line["cupti_us"]),
                    cupti_against_ncu=error(line["cupti_us"], line["ncu_us"]))
        lines.append(line)
    return lines


def by_decade(lines):
    summary = []
    for name, low, high, aim in DECADES:
        some = [line for line in lines if line["ours_us"] and low <= (line["ncu_us"] or line["cupti_us"] or line["ours_us"]) < high]
        entry = {"decade": name, "kernels": len(some), "aim": aim}
        for key in ("against_ncu", "against_cupti", "cupti_against_ncu"):
            errors = [line[key] for line in some if line[key] is not None]
            entry[key] = {"median": statistics.median(map(abs, errors)), "worst": max(errors, key=abs),
                          "within_aim": sum(abs(value) <= aim for value in errors) if aim else None, "of": len(errors)} if errors else None
        summary.append(entry)
    return summary


def print_truth(lines, summary):
    common.table(["kernel", "ncu µs", "CUPTI µs", "ours µs", "ours against ncu, %", "ours against CUPTI, %", "CUPTI against ncu, %", "status"],
                 [(line["kernel"], microseconds(line["ncu_us"]), microseconds(line["cupti_us"]), microseconds(line["ours_us"]),
                   percent(line["against_ncu"]), percent(line["against_cupti"]), percent(line["cupti_against_ncu"]),
                   line["status"] if line["status"] in ("ok", "not judged") else f"{line['status']}: {line['cause']}")
                  for line in sorted(lines, key=lambda line: line["ncu_us"] or line["cupti_us"] or line["ours_us"] or 0)])

    def cells(entry, key):
        found = entry[key]
        if not found:
            return (None, None, None)
        met = f"{found['within_aim']} of {found['of']} within {100 * entry['aim']:.0f} %" if entry["aim"] else None
        return f"{100 * found['median']:.2f}", percent(found["worst"]), met

    for key, title in (("against_ncu", "ours against ncu"), ("against_cupti", "ours against CUPTI"), ("cupti_against_ncu", "CUPTI against ncu")):
        common.say(f"{title}:\n")
        common.table(["GPU time", "kernels", "median error, %", "worst, %", "aim"],
                     [(entry["decade"], entry["kernels"], *cells(entry, key)) for entry in summary])


def spread(verdicts):
    medians = {}
    for verdict in verdicts:
        timing = verdict.get("timing") or {}
        if timing.get("measured"):
            medians.setdefault(verdict["task_id"], []).append(1e3 * timing["candidate"]["median"])
    return [{"kernel": name, "verdicts": len(values), "median_us": statistics.median(values),
             "spread": (max(values) - min(values)) / statistics.median(values), "medians_us": values}
            for name, values in sorted(medians.items(), key=lambda item: statistics.median(item[1]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_program_options(parser)
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--launches", type=int, default=5, help="of each kernel under ncu")
    parser.add_argument("--timed-calls", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=10, help="verdicts of each of the eight repeated kernels; 0 leaves them out")
    parser.add_argument("--only", help="kernels whose name contains this")
    parser.add_argument("--skip-ncu", action="store_true")
    parser.add_argument("--ncu-limit", type=float, default=60, help="seconds")
    parser.add_argument("--budget", type=float, default=240, help="seconds for all of it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", help="folder for rows, verdicts and the probe (default: a temporary one)")
    parser.add_argument("--out", help="JSON with everything")
    parser.add_argument("--dry-run", action="store_true", help="generate and compile the probe, measure nothing")
    parser.add_argument("--dump", help="folder to write tasks and candidates to")
    options = parser.parse_args()
    began = time.monotonic()

    def left():
        return options.budget - (time.monotonic() - began)

    cases = [case for case in all_cases() if not options.only or options.only in case.name]
    common.say(f"{len(cases)} kernels of {len({case.family for case in cases})} families")
    if options.dump:
        folder = pathlib.Path(options.dump)
        folder.mkdir(parents=True, exist_ok=True)
        for case in cases:
            (folder / f"task_{case.name.replace('/', '_')}.py").write_text(case.task(), encoding="utf-8")
            (folder / f"{case.family}.py").write_text(case.candidate(), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="truth-") as temporary:
        work = pathlib.Path(options.work or temporary)
        work.mkdir(parents=True, exist_ok=True)
        if options.dry_run:
            common.say(f"the probe compiles: {build_probe(options.nvcc, cases, work)}")
            return 0
        result = {"program": "timing_truth.py", "gpu": common.gpu_name(), "backend": options.backend, "timed_calls": options.timed_calls,
                  "seed": options.seed}
        ncu, failures = {}, []
        if not options.skip_ncu and options.backend == "cuda":
            try:
                ncu, result["ncu"] = run_ncu(options, cases, work, min(options.ncu_limit, 0.4 * options.budget))
            except (RuntimeError, OSError, ValueError, KeyError, StopIteration, subprocess.SubprocessError) as trouble:
                failures.append(f"ncu: {common.one_line(trouble, 2000)}")
                common.say("FAIL  " + failures[-1])
        shared = ["--no-audit", "--baselines", "none", "--timed-calls", str(options.timed_calls), "--timeout", "60"]
        batch = common.Batch(options.musacoder, [case.row() for case in cases], work / "once", [*shared, "--seed", str(options.seed)],
                             options.lanes, options.backend)
        verdicts, run = batch.judge(max(5.0, left() if not options.repeats else 0.6 * left()))
        lines = compare(cases, verdicts, ncu)
        summary = by_decade(lines)
        common.say(f"\n## Each kernel ({len(verdicts)} verdicts in {run['seconds']:.1f} s{', cut at the time limit' if run['cut'] else ''})\n")
        print_truth(lines, summary)
        failures += [f"{line['kernel']}: {line['status']}: {line['cause']}" for line in lines if line["status"] not in ("ok", "not judged")]
        result.update(run=run, kernels=lines, summary=summary, failures=failures)
        common.write_json(options.out, result)

        repeated = [case for case in cases if case.name in REPEATED]
        if options.repeats and repeated and left() > 5:
            rows = [case.row(repeat + 1) for repeat in range(options.repeats) for case in repeated]
            batch = common.Batch(options.musacoder, rows, work / "repeats", shared, options.lanes, options.backend)
            more, run = batch.judge(left())
            result.update(repeats_run=run, spread=spread(more))
            common.say(f"\n## Spread of a verdict's median over verdicts ({len(more)} of {len(rows)} in {run['seconds']:.1f} s)\n")
            common.table(["kernel", "verdicts", "median µs", "(max − min) / median, %"],
                         [(line["kernel"], line["verdicts"], microseconds(line["median_us"]), f"{100 * line['spread']:.2f}")
                          for line in result["spread"]])
            failures += [f"{v['name']}: {v['status']}" for v in more if v["status"] != "ok"]
        for line in failures:
            common.say("FAIL  " + line)
        result.update(failures=failures, seconds=time.monotonic() - began)
        common.write_json(options.out, result)
        common.say(f"{result['seconds']:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

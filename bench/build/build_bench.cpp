// Seconds from sources to a loadable artefact, with nvcc run anew and with warm compilers, in one run.
//
//   build/bench_build [SOURCES] [THREADS]      default 16 sources, 1 thread
//
// Each source is a small kernel with a binding, different in a constant, so that nothing comes from the artefact cache.
// MUSACODER_RUNTIME and MUSACODER_PYTHON name another runtime folder (a bundle's) and Python.
// CPU seconds are those of all compilers, of the machine's whole load where other programs run (from /proc/stat).
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "build/build.h"

namespace {

using namespace musacoder;

build::Extension extension(int constant) {
  build::Extension e;
  e.name = "bench_" + std::to_string(constant);
  e.cpp_sources = {"torch::Tensor scale(torch::Tensor x);"};
  e.cuda_sources = {"#include <torch/extension.h>\n#include <cuda_runtime.h>\n"
                    "__global__ void scale_kernel(const float* x, float* y, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                    "  if (i < n) y[i] = x[i] * " + std::to_string(constant) + ".0f;\n}\n"
                    "torch::Tensor scale(torch::Tensor x) {\n  auto y = torch::empty_like(x);\n  int n = x.numel();\n"
                    "  scale_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);\n  return y;\n}\n"};
  e.functions = {{{"scale", "scale"}}};
  return e;
}

// Seconds that all processors spent working.
double busy_seconds() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0;
  file >> cpu >> user >> nice >> system;
  return (user + nice + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double load_average() {
  double load[1] = {0};
  return ::getloadavg(load, 1) == 1 ? load[0] : 0;
}

bool measure(const char* name, int warm_after, int count, int threads, const std::string& cache) {
  const char* python = std::getenv("MUSACODER_PYTHON");
  const char* runtime = std::getenv("MUSACODER_RUNTIME");
  build::BuildOptions options{.runtime_dir = runtime ? runtime : MC_RUNTIME_DIR, .cache_dir = cache, .python = python ? python : ".venv/bin/python", .nvcc = {}};
  options.warm_after = warm_after;
  build::Builder builder(options);
  // Precompiled header, toolchain, and for the warm case the servers: not part of a warm build.
  for (int i = 0; i < 3; ++i) {
    auto ready = builder.build(extension(100000 + i));
    if (!ready.ok) return std::fprintf(stderr, "%s: %s\n", ready.status.c_str(), ready.message.c_str()), false;
  }
  if (warm_after > 0) {
    for (int i = 0; i < 60; ++i) {
      ::sleep(1);
      if (builder.build(extension(200000 + i)).warm) break;
    }
  }
  std::vector<double> seconds(static_cast<std::size_t>(count));
  std::atomic<int> next{0}, warm{0}, failed{0};
  double before = busy_seconds();
  base::Stopwatch all;
  {
    std::vector<std::jthread> lanes;
    for (int t = 0; t < threads; ++t)
      lanes.emplace_back([&] {
        for (int i; (i = next++) < count;) {
          auto result = builder.build(extension(i));
          seconds[static_cast<std::size_t>(i)] = result.seconds;
          warm += result.warm;
          failed += !result.ok;
        }
      });
  }
  double wall = all.seconds(), cpu = busy_seconds() - before;
  std::sort(seconds.begin(), seconds.end());
  std::printf("| %s | %d | %.2f | %.2f | %.2f | %.1f | %d | %d |\n", name, count, seconds[seconds.size() / 2], seconds[seconds.size() * 95 / 100],
              cpu / count, 60 * count / wall, warm.load(), failed.load());
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 16, threads = argc > 2 ? std::atoi(argv[2]) : 1;
  if (count < 1 || threads < 1) return std::fprintf(stderr, "usage: bench_build [SOURCES] [THREADS]\n"), 1;
  auto cache = base::TempDir::create("bench-build", 512u << 20);
  if (!cache) return std::fprintf(stderr, "%s\n", cache.error().message.c_str()), 1;
  std::printf("%u processors, load average %.1f, %d at a time, empty artefact cache\n\n", std::thread::hardware_concurrency(), load_average(), threads);
  std::printf("| compilers | sources | p50 s | p95 s | CPU s a source | a minute | warm | failed |\n|---|---|---|---|---|---|---|---|\n");
  bool good = measure("nvcc anew", 0, count, threads, cache->file("cold")) && measure("warm", 2, count, threads, cache->file("warm"));
  return good ? 0 : 1;
}

// How fast the virtual GPU executes: two kernels every reader knows, bounds checks on, one host thread.
//   bench_vgpu                                   # needs nvcc (MUSACODER_NVCC or /usr/local/cuda/bin/nvcc)
//   MUSACODER_VGPU_ISA=v3 bench_vgpu             # the engine for processors without AVX-512
// `warp_instr/s` counts PTX instructions executed by warps; `ns/warp_instr` is its inverse.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include "vgpu/device.h"

namespace {

using namespace musacoder::vgpu;

const char* const kSource = R"(
extern "C" __global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.f;
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
extern "C" __global__ void softmax(const float* x, float* y, int n) {
  __shared__ float part[8];
  const float* row = x + blockIdx.x * n;
  float m = -1e30f, s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
  __syncthreads();
  for (int i = 0; i < 8; ++i) m = fmaxf(m, part[i]);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(row[i] - m);
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  s = 0;
  for (int i = 0; i < 8; ++i) s += part[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(row[i] - m) / s;
}
)";

const std::string& ptx() {
  static const std::string text = [] {
    namespace fs = std::filesystem;
    const char* given = std::getenv("MUSACODER_NVCC");
    std::string nvcc = given ? given : "/usr/local/cuda/bin/nvcc";
    fs::path dir = fs::temp_directory_path() / ("musacoder-bench-" + std::to_string(::getpid()));
    fs::create_directories(dir);
    { std::ofstream(dir / "k.cu") << kSource; }
    std::string command = nvcc + " -ptx -arch=compute_90 -lineinfo -O3 -o " + (dir / "k.ptx").string() + " " + (dir / "k.cu").string();
    int rc = std::system(command.c_str());
    std::ifstream in(dir / "k.ptx");
    std::string out(std::istreambuf_iterator<char>(in), {});
    fs::remove_all(dir);
    if (rc != 0) std::fprintf(stderr, "bench_vgpu: nvcc failed; set MUSACODER_NVCC\n");
    return out;
  }();
  return text;
}

void run(benchmark::State& state, const char* name, Dim3 grid, Dim3 block, std::size_t elements, int n, bool two_inputs) {
  Device device({});
  auto module = device.load_module(ptx());
  if (!module || ptx().empty()) {
    state.SkipWithError("no PTX");
    return;
  }
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = float(i % 17) * 0.1f - 0.8f;
  std::vector<std::byte> params;
  auto add = [&](const void* p, std::size_t bytes) {
    params.resize((params.size() + bytes - 1) / bytes * bytes + bytes);
    std::memcpy(params.data() + params.size() - bytes, p, bytes);
  };
  for (int k = 0; k < (two_inputs ? 3 : 2); ++k) {
    auto p = device.allocate(elements * 4, "tensor");
    if (!p || !device.write(*p, std::as_bytes(std::span<const float>(values)))) return state.SkipWithError("out of memory");
    add(&*p, 8);
  }
  add(&n, 4);
  double instructions = 0;
  for (auto _ : state) {
    LaunchConfig config;
    config.module = *module;
    config.kernel = name;
    config.grid = grid;
    config.block = block;
    config.params = params;
    LaunchOutcome out = device.launch(config);
    if (out.fault) {
      state.SkipWithError(out.fault->message.c_str());
      return;
    }
    instructions += double(out.counters.warp_instructions);
  }
  state.counters["warp_instr/s"] = benchmark::Counter(instructions, benchmark::Counter::kIsRate);
  state.counters["s/warp_instr"] = benchmark::Counter(instructions, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void relu_1m(benchmark::State& s) { run(s, "relu", {4096}, {256}, 1 << 20, 1 << 20, false); }
void matmul_256(benchmark::State& s) { run(s, "matmul", {16, 16}, {16, 16}, 256 * 256, 256, true); }
void softmax_256x4096(benchmark::State& s) { run(s, "softmax", {256}, {256}, 256 * 4096, 4096, false); }
BENCHMARK(relu_1m)->Unit(benchmark::kMillisecond);
BENCHMARK(matmul_256)->Unit(benchmark::kMillisecond);
BENCHMARK(softmax_256x4096)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

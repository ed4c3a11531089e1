// Test support: compiles CUDA text to PTX with the machine's nvcc and runs kernels on a Device.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include <unistd.h>

#include "vgpu/device.h"

namespace musacoder::vgpu::test {

inline std::string nvcc_path() {
  static const std::string path = [] {
    std::vector<std::string> candidates;
    if (const char* given = std::getenv("MUSACODER_NVCC")) candidates.push_back(given);
    if (const char* home = std::getenv("CUDA_HOME")) candidates.push_back(std::string(home) + "/bin/nvcc");
    candidates.push_back("/usr/local/cuda/bin/nvcc");
    for (const auto& c : candidates)
      if (std::filesystem::exists(c)) return c;
    return std::string();
  }();
  return path;
}

// PTX of a CUDA source, named candidate.cu, with the flags of production; an empty string when nvcc fails.
inline std::string compile(const std::string& cuda, const std::string& extra = "") {
  namespace fs = std::filesystem;
  static int counter = 0;
  fs::path dir = fs::temp_directory_path() / ("musacoder-vgpu-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
  fs::create_directories(dir);
  { std::ofstream(dir / "candidate.cu") << cuda; }
  std::string command = nvcc_path() + " -ptx -arch=compute_90 -lineinfo -O3 -std=c++17 " + extra + " -o " +
                        (dir / "out.ptx").string() + " " + (dir / "candidate.cu").string() + " 2>" + (dir / "log").string();
  int rc = std::system(command.c_str());
  auto slurp = [](const fs::path& p) {
    std::ifstream in(p);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string ptx = rc == 0 ? slurp(dir / "out.ptx") : "";
  if (rc != 0) ADD_FAILURE() << "nvcc failed:\n" << slurp(dir / "log");
  fs::remove_all(dir);
  return ptx;
}

// Packs arguments as a kernel's parameter space: each at its natural alignment.
class Params {
 public:
  template <typename... A>
  explicit Params(const A&... args) { (add(args), ...); }
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::size_t at = (bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  operator std::vector<std::byte>() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// A device with one module and typed helpers.
class Kernel {
 public:
  explicit Kernel(const std::string& ptx, DeviceOptions options = small()) : device(options) {
    auto loaded = device.load_module(ptx);
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    else module = *loaded;
  }
  static DeviceOptions small() {
    DeviceOptions o;
    o.memory_bytes = 1ull << 30;
    o.max_seconds = 20;
    return o;
  }
  template <typename T>
  DevicePtr put(const std::vector<T>& values, std::string label = "input") {
    auto p = device.allocate(values.size() * sizeof(T), std::move(label));
    EXPECT_TRUE(p);
    EXPECT_TRUE(device.write(*p, std::as_bytes(std::span<const T>(values))));
    return *p;
  }
  template <typename T>
  DevicePtr make(std::size_t n, std::string label = "output") {
    auto p = device.allocate(n * sizeof(T), std::move(label));
    EXPECT_TRUE(p);
    return *p;
  }
  template <typename T>
  std::vector<T> get(DevicePtr p, std::size_t n) {
    std::vector<T> out(n);
    EXPECT_TRUE(device.read(p, std::as_writable_bytes(std::span<T>(out))));
    return out;
  }
  template <typename... A>
  LaunchOutcome run(const std::string& name, Dim3 grid, Dim3 block, const A&... args) {
    return run_with(name, grid, block, 0, args...);
  }
  template <typename... A>
  LaunchOutcome run_with(const std::string& name, Dim3 grid, Dim3 block, std::uint32_t shared, const A&... args) {
    LaunchConfig c;
    c.module = module;
    c.kernel = name;
    c.grid = grid;
    c.block = block;
    c.dynamic_shared_bytes = shared;
    c.params = Params(args...);
    c.reverse_blocks = reverse;
    c.cooperative = cooperative;
    return device.launch(c);
  }
  Device device;
  ModuleId module = 0;
  bool reverse = false, cooperative = false;
};

#define MC_NEED_NVCC() \
  if (::musacoder::vgpu::test::nvcc_path().empty()) GTEST_SKIP() << "nvcc is not installed; set MUSACODER_NVCC or CUDA_HOME"
#define EXPECT_RUNS(outcome)                                                         \
  do {                                                                               \
    const auto& mc_outcome = (outcome);                                              \
    EXPECT_FALSE(mc_outcome.fault) << mc_outcome.fault->message;                     \
  } while (false)

}  // namespace musacoder::vgpu::test

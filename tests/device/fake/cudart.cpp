// The CUDA runtime as CUPTI sees it: a call of its own, and the driver's inside.
#include <cstddef>

#include "fake.h"

namespace {

constexpr unsigned kDriverLaunch = 307;

struct Params {
  const void* first;
  unsigned rest[16];
};

template <typename Inside>
int call(unsigned id, const char* name, const void* first, const char* symbol, int result, Inside inside) {
  const Params params{first, {}};
  const FakeCall outer{2, id, name, &params, symbol, fake_correlation()};
  fake_enter(&outer);
  inside(outer.correlation);
  fake_exit(&outer, result);
  return result;
}
template <typename Inside>
void driver_launch(const char* symbol, unsigned correlation, Inside inside) {
  const Params params{&params, {}};
  const FakeCall inner{1, kDriverLaunch, "cuLaunchKernel", &params, symbol, correlation};
  fake_enter(&inner);
  inside();
  fake_exit(&inner, 0);
}

}  // namespace

extern "C" {
int fake_launch(const void* stub, const char* name, int result) {
  return call(211, "cudaLaunchKernel", stub, name, result, [&](unsigned id) {
    if (result != 0) return;
    driver_launch(name, id, [&] { fake_kernel(name, id, 0, 4); });
  });
}
int fake_launch_handle(void* handle, const char* name) {
  return call(505, "__cudaLaunchKernel", handle, nullptr, 0,
              [&](unsigned id) { driver_launch(name, id, [&] { fake_kernel(name, id, 0, 4); }); });
}
int fake_capture(const void* stub, const char* name, std::uint64_t node) {
  return call(211, "cudaLaunchKernel", stub, name, 0,
              [&](unsigned id) { driver_launch(name, id, [&] { fake_node_created(node); }); });
}
int fake_instantiate(std::uint64_t node, std::uint64_t clone) {
  return call(418, "cudaGraphInstantiateWithFlags", nullptr, nullptr, 0,
              [&](unsigned) { fake_node_cloned(clone, node); });
}
int fake_graph_launch(const char* name, std::uint64_t node) {
  return call(311, "cudaGraphLaunch", nullptr, nullptr, 0,
              [&](unsigned id) { fake_kernel(name, id, node, 4); });
}
int fake_memcpy(int kind, std::uint64_t bytes) {
  return call(31, "cudaMemcpy", nullptr, nullptr, 0, [&](unsigned id) { fake_copy(kind, bytes, id); });
}
int fake_get_last_error() {
  return call(10, "cudaGetLastError", nullptr, nullptr, 0, [](unsigned) {});
}
int fake_synchronize(int result) {
  return call(165, "cudaDeviceSynchronize", nullptr, nullptr, result, [](unsigned) {});
}
}

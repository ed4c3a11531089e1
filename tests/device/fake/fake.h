// What the fake libraries of this folder tell one another. A fake CUPTI keeps records until it is flushed;
// the fake runtime and driver call it back as the real ones do, from inside their functions, so that the
// stack looks as it does on hardware.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// ---- libcupti.so.13 ----
struct FakeCall {
  int domain;  // 1 driver, 2 runtime
  unsigned id;
  const char* function;
  const void* params;
  const char* symbol;
  unsigned correlation;
};
void fake_enter(const FakeCall* call);
void fake_exit(const FakeCall* call, int result);
void fake_node_created(std::uint64_t node);
void fake_node_cloned(std::uint64_t node, std::uint64_t original);
void fake_kernel(const char* name, unsigned correlation, std::uint64_t node, unsigned grid_x);
void fake_copy(int kind, std::uint64_t bytes, unsigned correlation);
void fake_set(std::uint64_t bytes, unsigned correlation);
void fake_lose_records(int lose);  // as when somebody has taken the buffers away
unsigned fake_correlation();
// ---- libcudart.so.13 ----
int fake_launch(const void* stub, const char* name, int result);  // cudaLaunchKernel
int fake_launch_handle(void* handle, const char* name);           // __cudaLaunchKernel: <<<>>> of CUDA 13
int fake_capture(const void* stub, const char* name,
                 std::uint64_t node);  // cudaLaunchKernel while a stream is captured
int fake_instantiate(std::uint64_t node, std::uint64_t clone);
int fake_graph_launch(const char* name, std::uint64_t node);
int fake_memcpy(int kind, std::uint64_t bytes);
int fake_get_last_error();
int fake_synchronize(int result);
// ---- libcuda.so.1 ----
int fake_module_function(void* module, void* function);    // cuModuleLoadData, cuModuleGetFunction
int fake_launch_driver(void* function, const char* name);  // cuLaunchKernel
int fake_take(unsigned long long address, std::size_t bytes);  // cuMemAlloc_v2
int fake_give(unsigned long long address);                     // cuMemFree_v2
void fake_context(int active);
}

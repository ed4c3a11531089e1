// The driver: calls of its own, and what the ledger's canary needs.
#include <cstddef>

#include "fake.h"

namespace {

bool active = false;
template <typename Inside>
int call(unsigned id, const char* name, const void* params, const char* symbol, Inside inside) {
  const FakeCall one{1, id, name, params, symbol, fake_correlation()};
  fake_enter(&one);
  inside(one.correlation);
  fake_exit(&one, 0);
  return 0;
}

}  // namespace

extern "C" {
void fake_context(int on) { active = on; }
int fake_module_function(void* module, void* function) {
  const struct {
    void* result;
    const void* from;
  } load{&module, nullptr}, get{&function, module};
  call(19, "cuModuleLoadData", &load, nullptr, [](unsigned) {});
  return call(23, "cuModuleGetFunction", &get, nullptr, [](unsigned) {});
}
int fake_launch_driver(void* function, const char* name) {
  const struct {
    void* f;
    unsigned rest[16];
  } params{function, {}};
  return call(307, "cuLaunchKernel", &params, name, [&](unsigned id) { fake_kernel(name, id, 0, 4); });
}
int fake_take(unsigned long long address, std::size_t bytes) {
  const struct {
    unsigned long long* result;
    std::size_t bytes;
  } params{&address, bytes};
  return call(243, "cuMemAlloc_v2", &params, nullptr, [](unsigned) {});
}
int fake_give(unsigned long long address) {
  return call(245, "cuMemFree_v2", &address, nullptr, [](unsigned) {});
}

int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* on) { return *flags = 0, *on = active, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &active, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuMemAlloc_v2(unsigned long long* out, std::size_t) { return *out = 0x1000, 0; }
int cuMemsetD8Async(unsigned long long, unsigned char, std::size_t n, void*) {
  return call(400, "cuMemsetD8Async", nullptr, nullptr, [&](unsigned id) { fake_set(n, id); });
}
int cuStreamCreate(void** stream, unsigned) { return *stream = &active, 0; }
int cuStreamQuery(void*) { return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) { return *mode = 0, 0; }
}

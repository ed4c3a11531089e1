// A libnvidia-ml with two GPUs. $FAKE_NVML: "down" no driver answers, "empty" no GPU, "old" an old GPU,
// "crowded" 200 processes.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is(const char* mode) {
  const char* now = std::getenv("FAKE_NVML");
  return now && std::strcmp(now, mode) == 0;
}
int text(char* out, unsigned n, const char* words) {
  std::snprintf(out, n, "%s", words);
  return 0;
}
unsigned index_of(void* device) { return static_cast<unsigned>(reinterpret_cast<unsigned long>(device)) - 1; }

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {
int nvmlInit_v2() { return is("down") ? 9 : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char* out, unsigned n) { return text(out, n, "580.95.05"); }
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13000, 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = is("empty") ? 0 : 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 2;
  *device = reinterpret_cast<void*>(static_cast<unsigned long>(index) + 1);
  return 0;
}
int nvmlDeviceGetName(void*, char* out, unsigned n) { return text(out, n, "NVIDIA H200"); }
int nvmlDeviceGetUUID(void* device, char* out, unsigned n) {
  return text(out, n, index_of(device) ? "GPU-bbbb" : "GPU-aaaa");
}
int nvmlDeviceGetMemoryInfo(void*, Memory* out) { return *out = {151ull << 30, 150ull << 30, 1ull << 30}, 0; }
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  return *major = is("old") ? 6 : 9, *minor = 0, 0;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* out) { return *out = type == 1 ? 1980 : 3201, 0; }
int nvmlDeviceGetTemperature(void*, int, unsigned* out) { return *out = 41, 0; }
int nvmlDeviceGetPowerUsage(void*, unsigned* out) { return *out = 123456, 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* out) { return *out = 0x45, 0; }
int nvmlDeviceGetUtilizationRates(void*, Utilization* out) { return *out = {73, 12}, 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* out) {
  const unsigned here = is("crowded") ? 200 : 2;
  if (*count < here) return *count = here, 7;
  *count = here;
  for (unsigned i = 0; i < here; ++i) out[i] = {1000 + i, i == 0 ? 512ull << 20 : ~0ull, 0, 0};
  return 0;
}
}

// The stand-in libmtml: one MTT S5000, or what $STANDIN_MTML names ("S4000", "none", "unknown", "down").
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
const char* mode() {
  const char* given = std::getenv("STANDIN_MTML");
  return given ? given : "S5000";
}
bool is(const char* name) { return std::strcmp(mode(), name) == 0; }
int text(char* out, unsigned n, const char* words) { return std::snprintf(out, n, "%s", words), 0; }
int object = 0;
int give(void** out) { return *out = &object, 0; }
int number(unsigned* out, unsigned value) { return *out = value, 0; }
}  // namespace

extern "C" {
int mtmlLibraryInit(void** library) { return is("down") ? 4 : give(library); }
int mtmlLibraryShutDown(void*) { return 0; }
const char* mtmlErrorString(int) { return "driver failure"; }
int mtmlLibraryInitSystem(void*, void** system) { return give(system); }
int mtmlSystemGetDriverVersion(void*, char* out, unsigned n) { return text(out, n, "3.3.5-server"); }
int mtmlLibraryCountDevice(void*, unsigned* count) { return number(count, is("none") ? 0 : 1); }
int mtmlLibraryInitDeviceByIndex(void*, unsigned, void** device) { return give(device); }
int mtmlDeviceGetName(void*, char* out, unsigned n) {
  char name[64];
  std::snprintf(name, sizeof name, "MTT %s", is("unknown") ? "X1" : mode());
  return text(out, n, name);
}
int mtmlDeviceGetUUID(void*, char* out, unsigned n) { return text(out, n, "standin-0001"); }
int mtmlDeviceGetPowerUsage(void*, unsigned* out) { return number(out, 234500); }
int mtmlDeviceInitGpu(void*, void** gpu) { return give(gpu); }
int mtmlGpuGetClock(void*, unsigned* out) { return number(out, 1500); }
int mtmlGpuGetTemperature(void*, unsigned* out) { return number(out, 52); }
int mtmlGpuGetUtilization(void*, unsigned* out) { return number(out, 3); }
int mtmlDeviceInitMemory(void*, void** memory) { return give(memory); }
int mtmlMemoryGetTotal(void*, unsigned long long* out) { return *out = 85802709647ull, 0; }
int mtmlMemoryGetClock(void*, unsigned* out) { return number(out, 20000); }
}

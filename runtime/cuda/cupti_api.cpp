#include "cupti_api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "vendor.h"

namespace musacoder::ledger {
namespace {

template <typename F>
bool find(void* library, const char* name, F& out, std::string* error) {
  const std::string own = vendor().name_of(name);
  out = reinterpret_cast<F>(::dlsym(library, own.c_str()));
  if (!out && vendor().musa && own.ends_with("_v2"))   // not every driver has the versions that CUDA's names have
    out = reinterpret_cast<F>(::dlsym(library, own.substr(0, own.size() - 3).c_str()));
  if (!out && error->empty()) *error = own + " is missing in the library";
  return out != nullptr;
}

}  // namespace

Cupti& cupti() {
  static Cupti* const table = new Cupti;  // never destroyed: callbacks may come until the process is gone
  return *table;
}

Driver& driver() {
  static Driver* const table = new Driver;
  return *table;
}

bool Cupti::load(std::string* error) {
  void* library = nullptr;
  std::string tried;
  const auto attempt = [&](const char* name, int flags) {
    if (library) return;
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
    if (library || (flags & RTLD_NOLOAD)) return;
    const char* why = ::dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : name);
  };
  if (const char* path = std::getenv(vendor().cupti_variable); path && *path) attempt(path, 0);
  for (const char* name : vendor().cupti) attempt(name, RTLD_NOLOAD);
  for (const char* name : vendor().cupti) attempt(name, 0);
  if (!library) {
    *error = std::string(vendor().title) + " cannot be loaded (set " + vendor().cupti_variable + " to its library): " + tried;
    return false;
  }
  std::string missing;
  const bool complete = find(library, "cuptiSubscribe", Subscribe, &missing) &&
                        find(library, "cuptiUnsubscribe", Unsubscribe, &missing) &&
                        find(library, "cuptiEnableCallback", EnableCallback, &missing) &&
                        find(library, "cuptiEnableDomain", EnableDomain, &missing) &&
                        find(library, "cuptiActivityEnable", ActivityEnable, &missing) &&
                        find(library, "cuptiActivityDisable", ActivityDisable, &missing) &&
                        find(library, "cuptiActivityRegisterCallbacks", RegisterCallbacks, &missing) &&
                        find(library, "cuptiActivityFlushAll", FlushAll, &missing) &&
                        find(library, "cuptiActivityGetNextRecord", GetNextRecord, &missing) &&
                        find(library, "cuptiActivityGetNumDroppedRecords", GetNumDroppedRecords, &missing) &&
                        find(library, "cuptiGetGraphNodeId", GetGraphNodeId, &missing) &&
                        find(library, "cuptiGetResultString", GetResultString, &missing) &&
                        find(library, "cuptiGetVersion", GetVersion, &missing);
  if (!complete) *error = std::string(vendor().title) + " is too old or broken: " + missing;
  return complete;
}

std::string Cupti::text(CUptiResult code) const {
  const char* name = nullptr;
  if (!GetResultString || GetResultString(code, &name) != CUPTI_SUCCESS || !name) name = "CUPTI error";
  return std::string(name) + " (" + std::to_string(static_cast<int>(code)) + ")";
}

bool Driver::load(std::string* error) {
  void* library = nullptr;
  for (const char* name : vendor().driver)
    if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    *error = std::string("no ") + vendor().driver_title + ": " + (why ? why : "its library does not load");
    return false;
  }
  // The names with a version are the ones that cuda.h's macros stand for.
  std::string missing;
  const bool complete =
      find(library, "cuDriverGetVersion", DriverGetVersion, &missing) &&
      find(library, "cuDeviceGet", DeviceGet, &missing) &&
      find(library, "cuDevicePrimaryCtxGetState", PrimaryCtxGetState, &missing) &&
      find(library, "cuDevicePrimaryCtxRetain", PrimaryCtxRetain, &missing) &&
      find(library, "cuCtxSetCurrent", CtxSetCurrent, &missing) &&
      find(library, "cuMemAlloc_v2", MemAlloc, &missing) &&
      find(library, "cuMemsetD8Async", MemsetD8Async, &missing) &&
      find(library, "cuStreamCreate", StreamCreate, &missing) &&
      find(library, "cuStreamQuery", StreamQuery, &missing) &&
      find(library, "cuThreadExchangeStreamCaptureMode", ThreadExchangeStreamCaptureMode, &missing);
  if (!complete) *error = std::string("the ") + vendor().driver_title + " is too old: " + missing;
  return complete;
}

void remark(const std::string& text, bool important) {
  static const bool wanted = std::getenv("MUSACODER_LEDGER_LOG") != nullptr;
  if (!wanted && !important) return;
  const std::string line = "musacoder ledger: " + text + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace musacoder::ledger

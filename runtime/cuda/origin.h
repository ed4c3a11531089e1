// Whose kernel is it? Decided from the shared objects on the host stack of a launch. Pure logic; no CUPTI, no
// unwinding.
//
//   DsoTable table({"/cache/artefacts"});
//   std::uint32_t id = table.of_path("/cache/artefacts/ab12/relu.so");     // DsoKind::kOwn
//   Attribution a = decide(table, {.frames = ids_from_the_launch_outwards, .stub = id_of_the_host_stub});
//   // a.origin == Origin::kOwn, table.module(a.dso) == "relu.so"
//
// Rules, in this order:
//   1. A launch through the CUDA runtime names a host stub; where the stub lies in the candidate's object or
//   in a vendor's
//      library, that decides.
//   2. Else the first frame that belongs to neither CUDA, this library nor the C and C++ libraries
//   (pthread_once stands
//      between the runtime's own frames) decides: vendor, framework, own.
//   3. A framework's launch is the vendor's where a vendor's library called the framework (before any frame
//   of the candidate).
//   4. A vendor's launch is `torch_vendor` where the next frame outwards that is neither the vendor's nor
//   CUDA's is a framework's.
//   5. A launch by handle (driver API, or a kernel taken from a library by name) is `jit` where the module
//   was loaded
//      explicitly, or where an unknown object launches it: Triton, CuPy, ctypes. Vendor and framework stay
//      what they are.
//   6. Everything else is unknown.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace musacoder::ledger {

// kTorchVendor: a vendor's kernel, and a framework called the vendor's library.
enum class Origin : std::uint8_t { kUnknown, kOwn, kFramework, kVendor, kJit, kTorchVendor };
const char* origin_name(Origin origin);  // "own"

// kCuda: what is looked through on the way out.
enum class DsoKind : std::uint8_t { kNone, kCuda, kOwn, kFramework, kVendor, kOther };

// Kind by path. Below one of `own_prefixes` (absolute, no slash at the end) everything is kOwn, whatever its
// name says.
DsoKind classify(std::string_view path, std::span<const std::string> own_prefixes);

// Shared objects by number, so that a launch is described by a few integers. Id 0 is "none" (kNone). Thread
// safe.
class DsoTable {
 public:
  // Prefixes are resolved (symbolic links); relative and empty ones are ignored. `self` is the path of this
  // library.
  explicit DsoTable(std::vector<std::string> own_prefixes, std::string self = {});
  // Paths are resolved and remembered; beyond kMaxObjects the answer is 0.
  std::uint32_t of_path(const std::string& path);
  DsoKind kind(std::uint32_t id) const;
  std::string module(std::uint32_t id) const;  // file name: "relu.so"; "" for 0
  static constexpr std::uint32_t kMaxObjects = 1 << 16;

 private:
  struct Object {
    std::string module;
    DsoKind kind = DsoKind::kNone;
  };
  mutable std::mutex mutex_;
  std::vector<std::string> prefixes_;
  std::string self_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<Object> objects_;
};

std::vector<std::string> split_prefixes(std::string_view colon_separated);

struct LaunchSite {
  std::span<const std::uint32_t> frames;  // objects from the launch outwards, 0 where no object is known
  std::uint32_t stub = 0;                 // object of the host stub; 0 where the launch has none
  bool by_handle = false;  // driver API outside of the runtime, or a runtime launch of a library's kernel
  bool explicit_module = false;  // the handle comes from a module that was loaded explicitly
};
struct Attribution {
  Origin origin = Origin::kUnknown;
  std::uint32_t dso = 0;
};
Attribution decide(const DsoTable& table, const LaunchSite& site);

}  // namespace musacoder::ledger

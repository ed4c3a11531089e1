// Adds up what the GPU did, and makes reports of it. No CUPTI here: records come in as plain values, so that
// grouping and bounds are tested without hardware.
//
//   Book book;
//   book.kernel({.name = "_Z4reluPf", .module = "relu.so", .origin = Origin::kOwn, .grid = {4, 1, 1}, .block
//   = {256, 1, 1},
//                .start_ns = 10, .end_ns = 25, .stream = 7});
//   book.copy({.kind = CopyKind::kHostToDevice, .bytes = 4096, .start_ns = 30, .end_ns = 40});
//   nlohmann::json report = book.take();        // and starts anew
//
// Everything is bounded: kMaxGroups groups of kernels (what is beyond is summed under the name "…" by
// origin), kMaxNotes operators of a kind, kMaxCopies copies whose order is known, names of kMaxName bytes. A
// report stays below 4 MiB. Thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "origin.h"

namespace musacoder::ledger {

inline constexpr std::size_t kMaxGroups = 2048, kMaxNotes = 256, kMaxCopies = 65536, kMaxName = 512,
                             kMaxStreams = 64, kMaxAllocations = 65536;
inline constexpr std::uint64_t kFreeReadBackBytes = 16;  // a scalar or two may be read back without suspicion

struct KernelRecord {
  std::string_view name;    // mangled
  std::string_view module;  // file name of the shared object; "" unknown
  Origin origin = Origin::kUnknown;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::uint64_t start_ns = 0, end_ns = 0;  // GPU time; 0 where CUPTI had none
  std::uint32_t stream = 0;
  bool graph = false;
};

enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kSet, kOther };
struct CopyRecord {
  CopyKind kind = CopyKind::kOther;
  std::uint64_t bytes = 0, start_ns = 0, end_ns = 0;
};

class Book {
 public:
  void kernel(const KernelRecord& record);
  void copy(const CopyRecord& record);
  void internal(std::uint64_t count = 1);  // a launch, copy or fill of the runner itself
  void dropped(std::uint64_t count);
  // Device memory that the candidate's own code takes and gives back; what was not seen to be taken is not
  // missed. Beyond kMaxAllocations only the sum of what was taken is right.
  void allocation(std::uint64_t address, std::uint64_t bytes);
  void release(std::uint64_t address);
  void thread();  // a host thread launched for the first time since the last take()
  void note(std::string_view kind, std::string_view name);
  void launch_error(std::string name);  // a launch failed; "" takes it back: it was read
  // The report of protocol C without "canary". Keys: launches, copies, refused_ops, unsupported, threads,
  // first_ns, last_ns, dropped, internal, error, memory (what is still taken stays booked).
  nlohmann::json take();

 private:
  struct Group {
    std::uint64_t count = 0, nanoseconds = 0;
    std::set<std::uint32_t> streams;
  };
  using Key = std::tuple<std::string, std::string, Origin, std::array<std::uint32_t, 3>,
                         std::array<std::uint32_t, 3>, bool>;
  struct State {
    std::map<Key, Group> groups;
    std::vector<CopyRecord> order;  // copies between host and device
    std::uint64_t h2d_bytes = 0, d2h_bytes = 0, d2d_bytes = 0, memset_bytes = 0, late_h2d_bytes = 0;
    std::set<std::string> refused, unsupported;
    std::uint64_t threads = 0, dropped = 0, internal = 0, first_ns = 0, last_ns = 0, allocated = 0;
    std::string error;
  };
  void span(std::uint64_t start_ns, std::uint64_t end_ns);
  static std::uint64_t after_read_back(const State& state);

  std::mutex mutex_;
  State state_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // address → bytes
  std::uint64_t retained_ = 0;
};

// Bytes outside of printable ASCII, quotes and backslashes become '?'; cut at kMaxName.
std::string clean(std::string_view text);
// "relu(float*)" of "_Z4reluPf"; what is no mangled name stays as it is. Cleaned.
std::string demangled(const std::string& name);

// What a device fault is called. Empty kind: the code is none that a kernel of the candidate causes.
struct FaultName {
  const char* kind = "";  // "out_of_bounds", as fault_kind_name
  const char* name = "";  // "cudaErrorIllegalAddress"
};
FaultName device_fault(int code);
// "cudaErrorInvalidConfiguration"; "error 1234" for what is not in the table.
std::string error_name(int code);

}  // namespace musacoder::ledger

// The CUPTI side: callbacks at every CUDA call say who launches, activity records say what the GPU did; both
// meet by correlation number and go into the Book.
//
//   Watch& watch = Watch::instance();
//   if (!watch.start(&error)) …
//   watch.flush(false);  nlohmann::json report = watch.take();
//
// Cost: a launch of the candidate's 0.2 µs (its stub or its handle is known), one by torch about 3 µs
// (unwinding), any other CUDA call 0.1 µs.
// Memory: 8 MiB for correlations (the last million calls), CUPTI's buffers of 1 MiB (at most kMaxBuffers),
// the Book.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "book.h"
#include "cupti_api.h"
#include "origin.h"

namespace musacoder::ledger {

struct SeenFault {
  int code = 0;
  std::string kernel;  // demangled name of the last kernel launched before it was seen
};

class Watch {
 public:
  static Watch& instance();  // never destroyed
  bool start(std::string* error);
  Book& book() { return book_; }

  // Has CUPTI hand over complete buffers; with `forced`, incomplete ones too (unfinished records are lost and
  // counted).
  CUptiResult flush(bool forced);
  nlohmann::json take();  // the report; host threads are counted anew from here
  std::optional<SeenFault> fault();
  // Records and callbacks off (all but those of synchronising calls, where faults show) or on again. False:
  // CUPTI refused.
  bool quiet(bool on);
  bool is_quiet() const { return quiet_; }
  // Marks this thread's driver calls as the canary's between on and off; counts fills of 8 bytes that came
  // back as records.
  void canary(bool on);
  std::uint64_t canaries() const { return canaries_; }
  bool broken() const { return broken_; }  // CUPTI reported an error that it does not recover from
  // Launches whose records have not come yet (launches into a graph that is being captured have none).
  std::int64_t missing() const { return std::max<std::int64_t>(launched_ - arrived_, 0); }
  void forgive() { arrived_ = launched_.load(); }

  static void internal(int delta);

 private:
  Watch();
  struct PerThread;
  static PerThread& self();
  static void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
  static void CUPTIAPI on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* records);
  static void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t size,
                                   std::size_t valid);

  void api_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& call);
  void enter(bool runtime, CUpti_CallbackId id, const CUpti_CallbackData& call, PerThread& thread);
  void leave(bool runtime, CUpti_CallbackId id, const CUpti_CallbackData& call, PerThread& thread);
  void resource(CUpti_CallbackId id, const CUpti_ResourceData& data);
  void note_memory(CUpti_CallbackId id, const CUpti_CallbackData& call, PerThread& thread);
  bool called_by_candidate();
  void note_handles(bool runtime, CUpti_CallbackId id, const CUpti_CallbackData& call, bool nested);
  std::uint32_t site_of(const void* stub, bool by_handle, bool explicit_module, bool* lost);
  std::uint32_t site_by_name(const char* kernel);
  std::uint32_t object_at(const void* address);
  std::size_t walk(std::uint32_t* frames, std::size_t limit);
  void launched(const char* kernel, std::uint32_t site, PerThread& thread);
  void put(std::uint32_t correlation, std::uint32_t entry);
  std::uint32_t get(std::uint32_t correlation) const;
  void read(const CUpti_Activity& record);
  bool enable_calls(bool on, std::string* error);

  DsoTable objects_;
  Book book_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::atomic<bool> quiet_{false}, broken_{false};
  // Changes when callbacks are switched, so that a missed exit does no harm.
  std::atomic<std::uint32_t> epoch_{1};
  // Changes when code leaves: a handle may then mean another kernel.
  std::atomic<std::uint32_t> unloads_{0};
  std::atomic<std::uint64_t> window_{1}, canaries_{0};
  std::atomic<std::int64_t> launched_{0}, arrived_{0};
  std::atomic<int> fault_code_{0};
  std::atomic<std::uint64_t> unread_thread_{0};
  std::atomic<bool> any_explicit_{false};

  std::mutex names_mutex_;
  char last_kernel_[kMaxName + 1] = {};
  std::string fault_kernel_;
  std::unordered_map<std::string, std::uint32_t>
      site_of_name_;  // of launches; conflicting ones become unknown
  std::unordered_map<std::string, std::uint32_t>
      site_of_text_;  // found by the kernel's name in the candidate's objects
  std::unordered_map<std::uint64_t, std::uint32_t> site_of_node_;  // graph nodes
  std::unordered_set<const void*> explicit_, runtime_kernels_;     // modules and functions loaded explicitly

  std::mutex buffers_mutex_;
  std::vector<std::uint8_t*> free_buffers_;
  std::size_t buffers_out_ = 0;
};

}  // namespace musacoder::ledger

// Device memory: one reserved range of host addresses, allocations inside it with unmapped-looking room on both sides.
//
// A device address is the host address of the same byte, so that translation costs nothing; every access is checked
// against the table of live allocations first. Freed ranges keep their labels and are reused as late as possible, so that
// use after free is told from out of bounds.
// Thread safety: look-ups may run beside allocate and free (device-side malloc does that); writers exclude each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::vgpu::exec {

struct MemoryRange {
  std::uint64_t address = 0, bytes = 0;
  std::string label;
  std::atomic<std::uint64_t> kernel_written{0};
  bool from_device = false;                   // device-side malloc
  std::uint64_t end() const { return address + bytes; }
};

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> create(std::uint64_t memory_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Result<MemoryRange*> allocate(std::uint64_t bytes, std::string label, std::uint64_t align = 512);
  // False when address is not the start of a live allocation.
  bool free(std::uint64_t address);
  // The live allocation with address <= x < end (or x == address for one of length 0).
  MemoryRange* find(std::uint64_t address) const;
  // The live allocation whose bytes are nearest to address, for messages; nullptr if there is none within 1 GiB.
  MemoryRange* nearest(std::uint64_t address) const;
  struct Freed {
    std::uint64_t address, bytes;
    std::string label;
  };
  std::optional<Freed> find_freed(std::uint64_t address) const;
  bool contains(std::uint64_t address) const { return address >= base_ && address < base_ + size_; }

  std::uint64_t bytes_in_use() const { return in_use_; }
  std::uint8_t poison = 0xff;
  template <typename F>
  void for_each(F&& f) const {
    std::shared_lock lock(mutex_);
    for (const auto& [address, range] : live_) f(*range);
  }

 private:
  Arena() = default;
  std::uint64_t take_span(std::uint64_t span);

  mutable std::shared_mutex mutex_;
  std::uint64_t base_ = 0, size_ = 0, bump_ = 0, limit_ = 0, in_use_ = 0;
  std::map<std::uint64_t, std::unique_ptr<MemoryRange>> live_;
  std::map<std::uint64_t, Freed> freed_;      // by address; spans are derived from bytes
  std::vector<std::uint64_t> freed_order_;    // addresses in order of freeing
  std::size_t freed_next_ = 0;
  std::map<std::uint64_t, std::uint64_t> spans_;  // start of span → length, for live and freed ranges
};

}  // namespace musacoder::vgpu::exec

#include "vgpu/memory/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <mutex>

namespace musacoder::vgpu::exec {
namespace {

constexpr std::uint64_t kRedZone = 8192;
constexpr std::uint64_t kPage = 4096;
// Neither program images (0x55…), libraries and stacks (0x7f…) nor sanitizer shadows lie here on x86-64 Linux.
constexpr std::uint64_t kBase = 0x2000'0000'0000ull;
constexpr std::uint64_t kStep = 0x0100'0000'0000ull;

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(std::uint64_t memory_bytes) {
  std::unique_ptr<Arena> arena(new Arena);
  arena->limit_ = memory_bytes;
  // Room to leave freed ranges alone for a while.
  std::uint64_t size = round_up(memory_bytes, kPage) * 4 + (1ull << 30);
  void* got = MAP_FAILED;
  for (unsigned attempt = 0; attempt < 64 && got == MAP_FAILED; ++attempt) {
    got = ::mmap(reinterpret_cast<void*>(kBase + attempt * kStep), size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  }
  if (got == MAP_FAILED)
    got = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED)
    return fail(Code::kResourceExhausted, "cannot reserve {} bytes of address space for device memory: {}; "
                "lower the device's memory or the address-space limit", size, std::strerror(errno));
  ::madvise(got, size, MADV_DONTDUMP);
  arena->base_ = reinterpret_cast<std::uint64_t>(got);
  arena->size_ = size;
  arena->bump_ = arena->base_;
  return arena;
}

Arena::~Arena() {
  if (size_) ::munmap(reinterpret_cast<void*>(base_), size_);
}

std::uint64_t Arena::take_span(std::uint64_t span) {
  if (bump_ + span <= base_ + size_) {
    std::uint64_t start = bump_;
    bump_ += span;
    return start;
  }
  // The address space is used up: reuse the freed range that has rested longest and is large enough.
  for (std::size_t i = freed_next_; i < freed_order_.size(); ++i) {
    std::uint64_t address = freed_order_[i];
    auto it = freed_.find(address);
    if (it == freed_.end()) continue;
    auto at = spans_.find(address - kRedZone);
    if (at == spans_.end() || at->second < span) continue;
    freed_.erase(it);
    freed_order_[i] = 0;
    while (freed_next_ < freed_order_.size() && freed_order_[freed_next_] == 0) ++freed_next_;
    return at->first;
  }
  return 0;
}

Result<MemoryRange*> Arena::allocate(std::uint64_t bytes, std::string label, std::uint64_t align) {
  std::unique_lock lock(mutex_);
  if (bytes > limit_ || in_use_ + bytes > limit_)
    return fail(Code::kResourceExhausted, "out of device memory: {} bytes asked for, {} of {} in use", bytes, in_use_, limit_);
  align = std::max<std::uint64_t>(align, 512);
  std::uint64_t span = round_up(bytes, kPage) + 2 * kRedZone + (align > kPage ? align : 0);
  std::uint64_t start = take_span(span);
  if (!start)
    return fail(Code::kResourceExhausted, "out of device addresses: {} bytes asked for, {} of {} in use", bytes, in_use_, limit_);
  std::uint64_t& recorded = spans_[start];
  recorded = std::max(recorded, span);
  auto range = std::make_unique<MemoryRange>();
  range->address = round_up(start + kRedZone, align);
  range->bytes = bytes;
  range->label = std::move(label);
  if (bytes) std::memset(reinterpret_cast<void*>(range->address), poison, bytes);
  in_use_ += bytes;
  MemoryRange* out = range.get();
  live_[range->address] = std::move(range);
  return out;
}

bool Arena::free(std::uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end()) return false;
  in_use_ -= it->second->bytes;
  std::uint64_t bytes = it->second->bytes;
  if (bytes) ::madvise(reinterpret_cast<void*>(address), round_up(bytes, kPage), MADV_DONTNEED);
  freed_[address] = {address, bytes, std::move(it->second->label)};
  freed_order_.push_back(address);
  live_.erase(it);
  return true;
}

MemoryRange* Arena::find(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin()) return nullptr;
  MemoryRange* range = std::prev(it)->second.get();
  if (address < range->end() || address == range->address) return range;
  return nullptr;
}

MemoryRange* Arena::nearest(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  MemoryRange* best = nullptr;
  std::uint64_t best_distance = 1ull << 30;
  if (it != live_.end() && it->first - address < best_distance) {
    best = it->second.get();
    best_distance = it->first - address;
  }
  if (it != live_.begin()) {
    MemoryRange* before = std::prev(it)->second.get();
    std::uint64_t distance = address < before->end() ? 0 : address - before->end();
    if (distance <= best_distance) best = before;
  }
  return best;
}

std::optional<Arena::Freed> Arena::find_freed(std::uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto it = freed_.upper_bound(address);
  if (it == freed_.begin()) return std::nullopt;
  const Freed& f = std::prev(it)->second;
  if (address < f.address + f.bytes) return f;
  return std::nullopt;
}

}  // namespace musacoder::vgpu::exec

// A device session in host memory, for tests of what the judge does with a device.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"

namespace musacoder::judge {

class MemorySession : public device::Session {
 public:
  int take_client_fd() override { return -1; }
  Result<device::Address> allocate(std::uint64_t bytes, std::string label) override {
    const device::Address address = next_;
    next_ += bytes + 4096;
    blocks_[address] = {std::vector<std::byte>(bytes), std::move(label)};
    return address;
  }
  Status free(device::Address address) override {
    if (!blocks_.erase(address)) return fail(Code::kInvalidArgument, "not an allocation");
    return ok();
  }
  Status write(device::Address to, std::span<const std::byte> bytes) override {
    auto* block = containing(to, bytes.size());
    if (!block) return fail(Code::kInvalidArgument, "outside");
    std::memcpy(block->second.bytes.data() + (to - block->first), bytes.data(), bytes.size());
    return ok();
  }
  Status read(device::Address from, std::span<std::byte> bytes) override {
    auto* block = containing(from, bytes.size());
    if (!block) return fail(Code::kInvalidArgument, "outside");
    std::memcpy(bytes.data(), block->second.bytes.data() + (from - block->first), bytes.size());
    return ok();
  }
  Result<vgpu::AllocationInfo> find(device::Address address) override {
    auto* block = containing(address, 1);
    if (!block) return fail(Code::kNotFound, "no allocation at {:#x}", address);
    return vgpu::AllocationInfo{block->first, block->second.bytes.size(), block->second.label, 0};
  }
  Result<device::WindowReport> begin_window(const device::WindowOptions&) override { return device::WindowReport{}; }
  Result<device::WindowReport> end_window() override { return device::WindowReport{}; }
  Result<device::WindowReport> outside() override { return device::WindowReport{}; }
  Result<std::optional<device::Fault>> last_fault() override { return std::optional<device::Fault>{}; }
  void kill() override {}
  std::size_t live() const { return blocks_.size(); }

 private:
  struct Block {
    std::vector<std::byte> bytes;
    std::string label;
  };
  std::pair<const device::Address, Block>* containing(device::Address address, std::uint64_t bytes) {
    auto it = blocks_.upper_bound(address);
    if (it == blocks_.begin()) return nullptr;
    --it;
    return address - it->first + bytes <= it->second.bytes.size() ? &*it : nullptr;
  }
  std::map<device::Address, Block> blocks_;
  device::Address next_ = 0x7000'0000'0000;
};

}  // namespace musacoder::judge

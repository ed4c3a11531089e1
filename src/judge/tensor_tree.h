// Trees of tensors on their way to and from the device (docs/protocols.md §1).
//
// The reference runner writes a trial's inputs to a file of the run folder; InputPlacer puts the bytes into device memory
// and gives the candidate a tree with addresses instead. What the candidate returns is a tree of claims; OutputFetcher
// checks each claim (types, ranges, live allocation), reads the bytes from the device itself, and writes a file for the
// comparison. The candidate's process never touches either file.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace musacoder::judge {

// Bytes of one element of a torch dtype name; 0 for an unknown name.
std::uint64_t dtype_bytes(const std::string& dtype);

// "float32[2,3]", for labels and messages.
std::string describe_tensor(const nlohmann::json& node);

// Bytes from the first to one past the last element that shape and strides (in elements) reach.
// Errors: kInvalidArgument for negative sizes or strides, more than 16 dimensions, lengths that differ, overflow.
Result<std::uint64_t> storage_extent_bytes(const nlohmann::json& tensor_node);

class InputPlacer {
 public:
  // `session` must outlive the placer.
  explicit InputPlacer(device::Session& session) : session_(session) {}

  // Puts every tensor of `inputs` (places: file, offset, nbytes; files under run_dir) on the device and returns the
  // tree with device addresses. The n-th tensor keeps its address from call to call while its size stays the same, so that
  // a cache keyed on addresses meets fresh values; with `move` every tensor gets a new address.
  Result<nlohmann::json> place(const nlohmann::json& inputs, const std::string& run_dir, bool move);

  // Reads the tensors of the last placed tree back and returns the tree with places in `file` (run_dir/name).
  Result<nlohmann::json> read_back(const std::string& run_dir, const std::string& name);

 private:
  struct Slot {
    device::Address address = 0;
    std::uint64_t bytes = 0;
  };
  Result<nlohmann::json> place_node(const nlohmann::json& node, const std::string& run_dir, bool move,
                                    std::size_t& next);
  device::Session& session_;
  std::vector<Slot> slots_;
  std::string last_;  // the last placed tree, as JSON text
};

struct FetchLimits {
  std::size_t max_nodes = 4096;
  std::uint64_t max_bytes = 2ull << 30;
};

struct FetchedOutputs {
  std::string tree;                             // JSON text: the claims, with places in the file
  std::uint64_t digest = 0;                     // of all bytes and shapes; equal digests mean equal outputs
  std::uint64_t bytes = 0;
  std::vector<vgpu::AllocationInfo> allocations;  // that hold the outputs
  std::vector<std::string> cpu_outputs;         // descriptions of tensors that were not on the device
};

// Errors: kInvalidArgument when a claim is malformed or points outside live memory (the candidate's fault);
// other codes are the device's or the file system's.
Result<FetchedOutputs> fetch_outputs(const nlohmann::json& claims, device::Session& session, const std::string& run_dir,
                                     const std::string& name, const FetchLimits& limits = {});

}  // namespace musacoder::judge

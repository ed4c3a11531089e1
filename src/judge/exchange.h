// How the tensors of a call reach the candidate, and how its outputs reach the comparison. One implementation a kind of device:
//
//   files  the virtual GPU: the reference runner writes inputs to a file, the judge puts them into device memory, reads outputs
//          and inputs back from there, and writes a file for the comparison (tensor_tree.h)
//   arena  real hardware: both sides map the same device memory; only offsets travel. The candidate's runner copies outputs into
//          slots of the arena, and whatever lies there is compared.
//
// What a candidate says of its outputs is a claim and is checked here for form; the comparison judges its content.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace musacoder::judge {

struct PlacedInputs {
  nlohmann::json inputs;   // tree for the candidate: tensors with "addr"
  nlohmann::json extra;    // further keys of the forward request: "arena", "slots"
};

struct CollectedOutputs {
  nlohmann::json outputs, inputs_after;           // for the reference runner's `compare`
  std::string digest;                             // of all output bytes, "" where the comparison tells it
  std::vector<vgpu::AllocationInfo> allocations;  // that hold the outputs, where the device knows
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  // `prepared`: the reply to `trial`. `move`: every tensor at a new address (the arena's places come from the reply itself).
  virtual Result<PlacedInputs> place(const nlohmann::json& prepared, bool move) = 0;
  // Errors: kInvalidArgument when a claim is malformed or points outside live memory (the candidate's fault).
  virtual Result<CollectedOutputs> collect(const nlohmann::json& claims) = 0;
};

std::unique_ptr<Exchange> make_file_exchange(device::Session& session, const std::string& run_dir);
std::unique_ptr<Exchange> make_arena_exchange();

// A tree of the reference runner with arena offsets as a tree with addresses, which count from the arena's begin.
nlohmann::json arena_addresses(const nlohmann::json& tree);
// A candidate's claims about outputs in arena slots, with nothing in them but the known fields.
// Errors: kInvalidArgument.
Result<nlohmann::json> arena_claims(const nlohmann::json& claims);

}  // namespace musacoder::judge

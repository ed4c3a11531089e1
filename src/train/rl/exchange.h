// Texts of all processes of a run, to all of them.
//
//   const std::vector<std::string> theirs = exchange(all, device, mine);     // theirs[rank]
//
// All processes call it. Errors: those of the communicator (std::runtime_error: another process is gone).
#pragma once

#include <string>
#include <vector>

#include "llm/torch.h"
#include "train/parallel/communicator.h"

namespace musacoder::train {

std::vector<std::string> exchange(Communicator& all, const at::Device& device, const std::string& mine);

}  // namespace musacoder::train

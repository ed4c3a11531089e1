// Commands of the training half, which a program of its own has: musacoder-train, beside this one.
//
//   return hand_over("serve-model", {"--model", "smollm2"});      // becomes it; returns only when it cannot
#pragma once

#include <string>
#include <vector>

namespace musacoder::cli {

// The exit code where there is none beside: 2, and stderr says so.
int hand_over(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace musacoder::cli

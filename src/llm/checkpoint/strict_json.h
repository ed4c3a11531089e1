// JSON from files that nobody vouches for: order kept, a key given twice refused, nesting bounded, UTF-8 checked.
//
//   MC_ASSIGN_OR_RETURN(auto index, parse_strict_json(text, "model.safetensors.index.json"));
//
// Errors: kInvalidArgument with `where`, the byte and what is wrong. Never throws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/status.h"

namespace musacoder::llm {

Result<nlohmann::ordered_json> parse_strict_json(std::string_view text, std::string_view where, int max_depth = 64);

}  // namespace musacoder::llm

// What the state of a run holds besides its counts: the configuration that it hangs on and libtorch's
// generator.
//
//   state["config"] = config_json(keys);
//   MC_RETURN_IF_ERROR(check_fixed(now, then, {"run.seed", "lora.rank"}, "run/checkpoints/step-00000100"));
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "base/status.h"

namespace musacoder::train {

// kInvalidArgument that names the first of `keys` whose values differ; both are what config_json() gave.
Status check_fixed(const nlohmann::ordered_json& now, const nlohmann::ordered_json& then,
                   std::span<const char* const> keys, const std::string& where);

// libtorch's CPU generator, in hexadecimal. A state of another libtorch is left alone.
std::string random_state();
void set_random_state(const std::string& hex);

// "42 s", "3:07 min", "1:05 h".
std::string short_duration(double seconds);

}  // namespace musacoder::train

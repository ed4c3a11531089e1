// The parts of src/rl that a run's configuration describes.
//
//   MC_ASSIGN_OR_RETURN(rl::ObjectiveConfig objective, objective_of(config));
#pragma once

#include "rl/advantage.h"
#include "rl/objective.h"
#include "rl/prime_echo.h"
#include "rl/retry_buffer.h"
#include "train/config/rl_config.h"

namespace musacoder::train {

// The preset with what is set beside it. kInvalidArgument: no such preset.
Result<rl::ObjectiveConfig> objective_of(const RlConfig& config);
rl::AdvantageConfig advantage_of(const RlConfig& config);
rl::EchoConfig echo_of(const RlConfig& config);
rl::RetryConfig retry_of(const RlConfig& config);

}  // namespace musacoder::train

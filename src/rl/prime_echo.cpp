#include "rl/prime_echo.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace musacoder::rl {
namespace {

std::vector<double> counted(const std::vector<double>& scores) {
  return {scores.begin(), std::find_if(scores.begin(), scores.end(), [](double s) { return std::isnan(s); })};
}

}  // namespace

Status check(const EchoConfig& c) {
  if (!(c.alpha >= 0 && c.alpha <= 1)) return fail(Code::kInvalidArgument, "PrimeEcho: alpha must be in [0, 1], not {}", c.alpha);
  const bool off = c.first_bonus == 0 && c.second_bonus == 0;
  if (!off && !(c.first_bonus > c.second_bonus && c.second_bonus >= 0))
    return fail(Code::kInvalidArgument, "PrimeEcho: the bonus of the first turn ({}) must be above that of the second ({}), which must not be negative",
                c.first_bonus, c.second_bonus);
  return ok();
}

Echo prime_echo(const std::vector<double>& given, const EchoConfig& config) {
  const std::vector<double> scores = counted(given);
  Echo out;
  if (scores.empty()) {
    out.reward = out.best = std::numeric_limits<double>::quiet_NaN();
    return out;
  }
  out.best = *std::max_element(scores.begin(), scores.end());
  for (std::size_t k = 0; k < scores.size() && out.success_turn == 0; ++k)
    if (scores[k] >= config.success) out.success_turn = static_cast<int>(k) + 1;
  out.bonus = out.success_turn == 1 ? config.first_bonus : out.success_turn == 2 ? config.second_bonus : 0;
  out.reward = config.alpha * scores[0] + (1 - config.alpha) * out.best + out.bonus;
  return out;
}

at::Tensor first_turn_mask(const at::Tensor& turn) { return (turn == 1).to(at::kFloat); }

TurnMetrics turn_metrics(const std::vector<std::vector<double>>& trajectories, const EchoConfig& config) {
  TurnMetrics m;
  std::int64_t solved = 0;
  for (const auto& given : trajectories) {
    const std::vector<double> scores = counted(given);
    if (scores.empty()) continue;
    const Echo echo = prime_echo(scores, config);
    ++m.trajectories;
    m.first_accuracy += echo.success_turn == 1;
    m.best_accuracy += echo.success_turn > 0;
    m.first_score += scores[0];
    m.best_score += echo.best;
    m.turns += static_cast<double>(scores.size());
    if (echo.success_turn > 0) {
      ++solved;
      m.turn_to_success += echo.success_turn;
    }
  }
  if (m.trajectories > 0)
    for (double* x : {&m.first_accuracy, &m.best_accuracy, &m.first_score, &m.best_score, &m.turns}) *x /= static_cast<double>(m.trajectories);
  if (solved > 0) m.turn_to_success /= static_cast<double>(solved);
  return m;
}

}  // namespace musacoder::rl

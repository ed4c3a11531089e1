#include "train/run/run_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <nlohmann/json.hpp>

#include "llm/torch.h"

namespace musacoder::train {

Status check_fixed(const nlohmann::ordered_json& now, const nlohmann::ordered_json& then,
                   std::span<const char* const> keys, const std::string& where) {
  const nlohmann::ordered_json none;
  for (const char* key : keys) {
    const auto mine = now.value(key, none), theirs = then.value(key, none);
    if (mine != theirs)
      return fail(
          Code::kInvalidArgument,
          "{} was written with {} = {}, and now it is {}: the run could not go on as it began; set it back, "
          "or name another run.dir",
          where, key, theirs.dump(), mine.dump());
  }
  return ok();
}

std::string random_state() {
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state().contiguous();
  const auto* bytes = state.const_data_ptr<std::uint8_t>();
  std::string out;
  for (std::int64_t i = 0; i < state.numel(); ++i) out += fmt::format("{:02x}", bytes[i]);
  return out;
}

void set_random_state(const std::string& hex) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor state = generator.get_state().clone();
  if (hex.size() != static_cast<std::size_t>(state.numel()) * 2) return;  // another libtorch's
  auto* bytes = state.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < state.numel(); ++i)
    bytes[i] =
        static_cast<std::uint8_t>(std::stoi(hex.substr(static_cast<std::size_t>(2 * i), 2), nullptr, 16));
  generator.set_state(state);
}

std::string short_duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s % 3600 / 60);
}

}  // namespace musacoder::train

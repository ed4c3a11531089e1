#include "base/event_log.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace musacoder::base {

void log_event(LogLevel level, const char* event, LogFields fields) {
  if (level > log_level()) return;
  static constexpr const char* kLevels[] = {"error", "warning", "info", "debug"};
  nlohmann::ordered_json line = {{"at", iso_time(real_clock().unix_time())},
                                 {"level", kLevels[static_cast<int>(level)]},
                                 {"event", event}};
  for (const auto& [key, value] : fields)
    std::visit(
        [&, name = key](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>)
            line[name] = v.substr(0, 512);
          else
            line[name] = v;
        },
        value);
  const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const ssize_t n = ::write(2, text.data(), text.size());
}

}  // namespace musacoder::base

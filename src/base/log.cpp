#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "base/clock.h"

namespace musacoder::base {
namespace {

LogLevel level_from_env() {
  const char* value = std::getenv("MUSACODER_LOG");
  std::string_view name = value ? value : "";
  if (name == "error") return LogLevel::kError;
  if (name == "info") return LogLevel::kInfo;
  if (name == "debug") return LogLevel::kDebug;
  return LogLevel::kWarning;
}

std::atomic<LogLevel>& level() {
  static std::atomic<LogLevel> value{level_from_env()};
  return value;
}

}  // namespace

void set_log_level(LogLevel value) { level() = value; }
LogLevel log_level() { return level(); }

void log_line(LogLevel at, const std::string& message) {
  static const char* const kNames[] = {"error", "warning", "info", "debug"};
  std::string stamp = iso_time(real_clock().unix_time());
  std::string line = fmt::format("{} {:7} {}\n", stamp.substr(11, 8), kNames[static_cast<int>(at)], message);
  [[maybe_unused]] ssize_t n = ::write(2, line.data(), line.size());
}

}  // namespace musacoder::base

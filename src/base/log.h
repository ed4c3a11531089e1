// Log lines on stderr: time, level, message. Quiet by default (warnings and errors).
//
//   log_info("runner {} started in {:.2f} s", pid, seconds);
//
// Level: $MUSACODER_LOG (error, warning, info, debug) or set_log_level. Each line is one write(2). Thread safe.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace musacoder::base {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

void set_log_level(LogLevel level);
LogLevel log_level();
// A line as it is, without the level filter.
void log_line(LogLevel level, const std::string& message);

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level <= log_level()) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kError, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kDebug, format, std::forward<Args>(args)...);
}

}  // namespace musacoder::base

// Structured log lines on stderr: one JSON object each, with time, level, event and whatever identifies what
// it is about.
//
//   log_event(LogLevel::kInfo, "job_done", {{"job", id}, {"status", "ok"}, {"run_s", 4.7}});
//   {"at":"2026-11-30T10:02:11Z","level":"info","event":"job_done","job":"j-…","status":"ok","run_s":4.7}
//
// Level: as base/log.h. One write(2) a line, thread safe. Values come from outside: they are JSON-escaped,
// texts cut to 512 bytes.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <variant>

#include "base/log.h"

namespace musacoder::base {

using LogValue = std::variant<std::string, double, std::int64_t, bool>;
using LogFields = std::initializer_list<std::pair<const char*, LogValue>>;

void log_event(LogLevel level, const char* event, LogFields fields);

}  // namespace musacoder::base

// TensorBoard's event files: a record for each set of numbers.
//
//   MC_ASSIGN_OR_RETURN(EventFile events, EventFile::create("run/tensorboard", clock, /*restart_step=*/-1));
//   events.write(12, {{"train/loss", 2.5}});
//
// A record is the length (8 bytes, little endian), its masked CRC-32C, the data, and its masked CRC-32C
// (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/io/record_writer.h); the data is
// an Event (tensorflow/core/util/event.proto): wall_time = 1, step = 2, file_version = 3, summary = 5 { value
// = 1 { tag = 1, simple_value = 2 } }, session_log = 7 { status = 1 }. Each record is written at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/status.h"

namespace musacoder::train {

class EventFile {
 public:
  // `restart_step` >= 0: what an earlier file of the folder has from this step on is outdated.
  static Result<EventFile> create(const std::string& folder, base::Clock& clock, std::int64_t restart_step);
  Status write(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);

 private:
  EventFile(base::Fd fd, std::string path, base::Clock& clock)
      : fd_(std::move(fd)), path_(std::move(path)), clock_(&clock) {}
  Status put(std::string_view event);
  base::Fd fd_;
  std::string path_;
  base::Clock* clock_;
};

// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace musacoder::train

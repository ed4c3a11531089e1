#include "cli/read_verdicts.h"

#include <fmt/format.h>

#include "base/terminal.h"

namespace musacoder::cli {

int read_verdicts(const char* command, const std::string& path, const std::function<void(judge::VerdictRow)>& use) {
  auto read = judge::read_rows(path, use);
  if (!read) {
    fmt::print(stderr, "musacoder {}: {}\n", command, base::printable(read.error().message));
    return 2;
  }
  if (read->malformed)
    fmt::print(stderr, "musacoder {}: {} lines of {} are no verdicts and were skipped; the first: {}\n", command, read->malformed,
               path, base::printable(read->first_error));
  if (read->torn_last_line) fmt::print(stderr, "musacoder {}: the last line of {} was cut short and was skipped\n", command, path);
  if (read->duplicates) fmt::print(stderr, "musacoder {}: {} repeated lines were skipped\n", command, read->duplicates);
  if (read->rows > 0) return 0;
  fmt::print(stderr, "musacoder {}: {} holds no verdicts; write some with: musacoder verify --batch ROWS.jsonl --out {}\n", command,
             path, path == "-" ? "VERDICTS.jsonl" : path);
  return 2;
}

}  // namespace musacoder::cli

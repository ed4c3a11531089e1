#include <fmt/format.h>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/read_verdicts.h"
#include "cli/report_html.h"

namespace musacoder::cli {

int run_report(const ReportOptions& options) {
  std::string title = options.title;
  if (title.empty())
    title = options.verdicts == "-" ? "MooreEval report" : "MooreEval report: " + options.verdicts.substr(options.verdicts.find_last_of('/') + 1);
  HtmlReport report(title);
  std::size_t count = 0;
  const int code = read_verdicts("report", options.verdicts, [&](judge::VerdictRow row) {
    report.add(std::move(row));
    ++count;
  });
  if (code != 0) return code;
  const std::string page = report.page();
  if (auto written = base::write_file_atomic(options.out, page); !written) {
    fmt::print(stderr, "musacoder report: {}\n", base::printable(written.error().message));
    return written.error().code == Code::kResourceExhausted ? 3 : 2;
  }
  fmt::print("{}: {} verdicts, {}\n", options.out, count, base::human_bytes(page.size()));
  return 0;
}

}  // namespace musacoder::cli

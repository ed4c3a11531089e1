// One self-contained HTML page of many verdicts: tiles, charts, a table that searches, filters and sorts, and each
// verdict's evidence on demand. No network, no external file; light and dark; usable by keyboard and in print.
//
//   HtmlReport report("verdicts.jsonl");
//   read_rows(path, [&](VerdictRow row) { report.add(std::move(row)); });
//   MC_RETURN_IF_ERROR(base::write_file_atomic("report.html", report.page()));
//
// Every string is untrusted: the C++ side escapes it, the page's script only ever sets text, and a content security policy
// forbids everything else. Long texts are cut (and say so), and when all sources together pass kSourceBudget bytes, later
// ones are left out, so that 5,000 verdicts stay usable.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "judge/rows.h"

namespace musacoder::cli {

inline constexpr std::size_t kSourceBudget = 48u << 20;

class HtmlReport {
 public:
  explicit HtmlReport(std::string title);
  ~HtmlReport();
  void add(judge::VerdictRow row);
  std::string page() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// & < > " ' as entities; invalid UTF-8 replaced; for text and quoted attributes.
std::string escape_html(std::string_view text);
// JSON text that is safe inside <script>: '<', '>' and '&' as \u escapes.
std::string escape_script_json(std::string_view json);

}  // namespace musacoder::cli

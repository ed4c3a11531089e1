#include "build/diagnostics.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

namespace musacoder::build {
namespace {

constexpr std::size_t kMaxDiagnostics = 200;
constexpr std::size_t kMaxMessage = 1000;

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string kind_of(std::string_view m) {
  if (has(m, "No such file or directory") || has(m, "cannot open source file") || has(m, "could not open source file")) return "missing_header";
  if (has(m, "undefined reference") || has(m, "undefined symbol") || has(m, "multiple definition") || has(m, "duplicate symbol")) return "link";
  // "expected a declaration", "expected ';' before": the words that both front ends use for grammar.
  if (has(m, "has no member") || has(m, "has no member named") || has(m, "is not a member of")) return "no_member";
  if (has(m, "is undefined") || has(m, "was not declared") || has(m, "has not been declared") || has(m, "does not name a type") ||
      has(m, "there are no arguments to"))
    return "undefined_identifier";
  if (m.starts_with("expected ") || has(m, "unterminated") || has(m, "missing terminating") || has(m, "stray ") ||
      has(m, "unrecognized token") || has(m, "missing closing quote") || has(m, "expected primary-expression") || has(m, "extra text after expected") ||
      has(m, "this declaration has no storage class or type specifier") || has(m, "parse error") || has(m, "unbalanced") ||
      has(m, "at end of input") || has(m, "#endif") || has(m, "missing ')'"))
    return "syntax";
  if (has(m, "no instance of") || has(m, "no matching function") || has(m, "cannot be used to initialize") || has(m, "cannot convert") ||
      has(m, "no suitable") || has(m, "incompatible with") || has(m, "could not convert") || has(m, "no operator") || has(m, "too few arguments") ||
      has(m, "too many arguments") || has(m, "invalid conversion") || has(m, "invalid operands") || has(m, "no match for"))
    return "type_mismatch";
  return "other";
}

std::optional<Severity> severity_of(std::string_view word) {
  if (has(word, "error")) return Severity::kError;  // "error", "fatal error", "catastrophic error", "internal error"
  if (has(word, "warning")) return Severity::kWarning;
  if (word == "note" || word == "remark") return Severity::kNote;
  return std::nullopt;
}

std::string base_name(std::string_view path) {
  // Names that the candidate knows are kept whole; folders of this machine are not its business.
  if (path.starts_with("cuda_sources[") || path.starts_with("musa_sources[") || path.starts_with("cpp_sources[") || path == "functions") return std::string(path);
  std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos || path.front() != '/' ? path : path.substr(slash + 1));
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text.substr(0, kMaxMessage));
}

int to_int(std::string_view digits) {
  if (digits.empty() || digits.size() > 9 || !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); })) return -1;
  return std::stoi(std::string(digits));
}

// "error: text", "warning #177-D: text", "fatal error: text" → severity and text.
std::optional<Diagnostic> severity_and_message(std::string_view rest) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos || colon > 40) return std::nullopt;
  std::string_view word = rest.substr(0, colon);
  if (std::size_t number = word.find(" #"); number != std::string_view::npos) word = word.substr(0, number);
  auto severity = severity_of(word);
  if (!severity) return std::nullopt;
  Diagnostic d;
  d.severity = *severity;
  d.message = trimmed(rest.substr(colon + 1));
  return d;
}

// cudafe++: file(line): error: text
std::optional<Diagnostic> parse_edg(std::string_view line) {
  std::size_t close = line.find("): ");
  if (close == std::string_view::npos) return std::nullopt;
  std::size_t open = line.rfind('(', close);
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  int number = to_int(line.substr(open + 1, close - open - 1));
  if (number < 0) return std::nullopt;
  auto d = severity_and_message(line.substr(close + 2));
  if (!d) return std::nullopt;
  d->file = base_name(line.substr(0, open));
  d->line = number;
  return d;
}

// g++: file:line:col: error: text, file:line: error: text
std::optional<Diagnostic> parse_gnu(std::string_view line) {
  for (std::size_t colon = line.find(':'); colon != std::string_view::npos; colon = line.find(':', colon + 1)) {
    std::size_t next = line.find(':', colon + 1);
    if (next == std::string_view::npos) return std::nullopt;
    int number = to_int(line.substr(colon + 1, next - colon - 1));
    if (number < 0) continue;
    std::string_view rest = line.substr(next + 1);
    std::size_t third = rest.find(':');
    if (third != std::string_view::npos && to_int(rest.substr(0, third)) >= 0) rest = rest.substr(third + 1);
    auto d = severity_and_message(rest);
    if (!d) return std::nullopt;
    d->file = base_name(line.substr(0, colon));
    d->line = number;
    return d;
  }
  return std::nullopt;
}

// ptxas file.ptx, line 12; error   : text   |   ptxas error   : text   |   ptxas fatal   : text
std::optional<Diagnostic> parse_ptxas(std::string_view line) {
  if (!line.starts_with("ptxas ")) return std::nullopt;
  for (auto [word, severity] : {std::pair{"error", Severity::kError}, {"fatal", Severity::kError}, {"warning", Severity::kWarning}}) {
    std::size_t at = line.find(word);
    std::size_t colon = at == std::string_view::npos ? at : line.find(':', at);
    if (colon == std::string_view::npos) continue;
    Diagnostic d;
    d.severity = severity;
    d.message = trimmed(line.substr(colon + 1));
    d.file = "ptx";
    if (std::size_t number = line.find("line "); number < at) {
      std::size_t end = line.find(';', number);
      if (end != std::string_view::npos) d.line = std::max(0, to_int(line.substr(number + 5, end - number - 5)));
    }
    d.kind = "ptxas";
    return d;
  }
  return std::nullopt;
}

// ld: …: undefined reference to `f()'    mold: error: undefined symbol: f()    collect2: error: ld returned 1 exit status
std::optional<Diagnostic> parse_link(std::string_view line) {
  Diagnostic d;
  d.kind = "link";
  for (std::string_view mark : {"undefined reference to", "undefined symbol:", "multiple definition of", "duplicate symbol:",
                                "cannot find -l", "library not found:", "unable to find library"}) {
    if (std::size_t at = line.find(mark); at != std::string_view::npos) {
      d.message = trimmed(line.substr(at));
      return d;
    }
  }
  if (line.starts_with("collect2: error") || line.starts_with("mold: error") || line.starts_with("mold: fatal")) {
    d.message = trimmed(line);
    return d;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Diagnostic> parse_diagnostics(const std::string& log) {
  std::vector<Diagnostic> list;
  for (std::size_t from = 0; from < log.size() && list.size() < kMaxDiagnostics;) {
    std::size_t to = std::min(log.find('\n', from), log.size());
    std::string_view line = std::string_view(log).substr(from, to - from);
    from = to + 1;
    if (line.size() > 8192 || line.empty()) continue;
    std::optional<Diagnostic> d = parse_ptxas(line);
    if (!d) d = parse_link(line);
    if (!d) d = parse_edg(line);
    if (!d) d = parse_gnu(line);
    if (!d && (line.starts_with("nvcc fatal") || line.starts_with("nvcc error") || line.starts_with("cc1plus: fatal error") || line.starts_with("g++: error"))) {
      d.emplace();
      d->message = trimmed(line.substr(std::min(line.find(':') + 1, line.size())));
    }
    if (!d) continue;
    if (d->kind.empty()) d->kind = kind_of(d->message);
    // The linker's closing line says nothing when the symbols before it are named.
    if (d->kind == "link" && d->message.starts_with("collect2") &&
        std::any_of(list.begin(), list.end(), [](const auto& o) { return o.kind == "link"; }))
      continue;
    list.push_back(std::move(*d));
  }
  return list;
}

std::string classify(const std::vector<Diagnostic>& diagnostics) {
  for (const auto& d : diagnostics) {
    if (d.severity != Severity::kError) continue;
    if (d.kind == "missing_header") return "compile_error:missing_header";
    if (d.kind == "link") return "compile_error:link";
    if (d.kind == "syntax") return "compile_error:syntax";
    return "compile_error:nvcc";
  }
  return "";
}

}  // namespace musacoder::build

#include "task/essential.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "port/tokens.h"

namespace musacoder::task {
namespace {

using port::Kind;
using port::Token;

// A logical line: tokens without its comments, and where its first one stands in its line.
struct Line {
  std::vector<const Token*> tokens;
  std::size_t indent = 0;
};

std::size_t line_begin(const std::string& code, std::size_t at) {
  const std::size_t end = at == 0 ? std::string::npos : code.rfind('\n', at - 1);
  return end == std::string::npos ? 0 : end + 1;
}

bool ends(const std::string& code, const Token& string) {
  const std::size_t quotes = string.end - string.body_end;
  return quotes != 0 && quotes == (code.compare(string.body_begin - quotes, quotes, code, string.body_end, quotes) == 0 ? quotes : 0);
}

// Lines of only white space outside strings: none at the start and behind a line that opens a block, at most two elsewhere.
std::string without_gaps(const std::string& code) {
  const std::vector<Token> tokens = port::python_tokens(code);
  const auto in_string = [&](std::size_t begin) {
    return std::any_of(tokens.begin(), tokens.end(), [&](const Token& t) { return t.kind == Kind::kString && t.begin < begin && begin < t.end; });
  };
  std::string out;
  int blank = 0;
  bool opened = true;
  for (std::size_t at = 0; at < code.size();) {
    const std::size_t end = std::min(code.find('\n', at), code.size() - 1) + 1;
    std::string_view line(code.data() + at, end - at);
    const bool text = in_string(at);
    at = end;
    const std::size_t last = line.find_last_not_of(" \t\r\n");
    if (text) {
      out += line;
      continue;
    }
    if (last == std::string_view::npos) {
      ++blank;
      continue;
    }
    if (!opened) out.append(static_cast<std::size_t>(std::min(blank, 2)), '\n');
    blank = 0;
    opened = line[last] == ':';
    out += line;
  }
  return out;
}

}  // namespace

std::string essential_python(const std::string& code) {
  const std::vector<Token> tokens = port::python_tokens(code);
  std::vector<Line> lines(1);
  std::vector<std::pair<std::size_t, std::size_t>> cuts;
  for (const Token& token : tokens) {
    if (token.kind == Kind::kString && !ends(code, token)) return code;
    if (token.kind == Kind::kComment) cuts.emplace_back(token.begin, token.end);
    else if (token.kind == Kind::kNewline) {
      if (!lines.back().tokens.empty()) lines.emplace_back();
    } else {
      if (lines.back().tokens.empty()) lines.back().indent = token.begin - line_begin(code, token.begin);
      lines.back().tokens.push_back(&token);
    }
  }
  if (lines.back().tokens.empty()) lines.pop_back();
  for (std::size_t k = 0; k < lines.size(); ++k) {
    const Line& line = lines[k];
    if (line.tokens.size() != 1 || line.tokens[0]->kind != Kind::kString) continue;
    const bool opens = k > 0 && lines[k - 1].tokens.back()->text(code) == ":";
    const bool alone = opens && (k + 1 == lines.size() || lines[k + 1].indent < line.indent);
    if (!alone) cuts.emplace_back(line.tokens[0]->begin, line.tokens[0]->end);
  }
  std::sort(cuts.begin(), cuts.end());
  std::string kept;
  std::size_t at = 0;
  for (const auto& [begin, end] : cuts) {
    std::size_t from = begin;
    while (from > at && (code[from - 1] == ' ' || code[from - 1] == '\t')) --from;
    kept += code.substr(at, from - at);
    at = end;
  }
  kept = without_gaps(kept + code.substr(at));
  return kept.empty() ? code : kept;
}

}  // namespace musacoder::task

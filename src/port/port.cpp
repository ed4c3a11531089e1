#include "port/port.h"

#include <algorithm>

#include "port/sheet.h"

namespace musacoder::port {

Language language_of(std::string_view file_name) {
  const std::size_t slash = file_name.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? file_name : file_name.substr(slash + 1);
  static constexpr std::string_view kCpp[] = {".cu", ".cuh", ".mu",  ".muh", ".cpp", ".cc",  ".cxx", ".c",
                                              ".h",  ".hh",  ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp"};
  auto ends = [&](std::string_view end) { return name.size() > end.size() && name.ends_with(end); };
  if (ends(".md")) return Language::kAnswer;
  if (ends(".py") || ends(".pyi")) return Language::kPython;
  if (name == "CMakeLists.txt" || ends(".cmake") || name == "Makefile" || ends(".mk"))
    return Language::kBuild;
  if (std::any_of(std::begin(kCpp), std::end(kCpp), ends)) return Language::kCpp;
  return Language::kText;
}

Language language_of_text(std::string_view text) {
  // Directives are comments to Python: where a text begins with some, it is C++. Else the first token tells.
  const std::vector<Token> tokens = python_tokens(text);
  // A fence is no Python outside of strings and comments.
  for (std::size_t k = 0; k + 2 < tokens.size(); ++k)
    if (tokens[k].text(text) == "`" && tokens[k + 2].end == tokens[k].begin + 3 &&
        tokens[k + 2].text(text) == "`" && (tokens[k].begin == 0 || text[tokens[k].begin - 1] == '\n'))
      return Language::kAnswer;
  std::size_t i = 0;
  for (; i < tokens.size() && (tokens[i].kind == Kind::kComment || tokens[i].kind == Kind::kNewline); ++i)
    for (const std::string_view directive : {"#include", "#pragma", "#define", "#ifdef", "#ifndef", "#if "})
      if (tokens[i].text(text).starts_with(directive)) return Language::kCpp;
  if (i == tokens.size()) return Language::kPython;
  const std::string_view first = tokens[i].text(text);
  static constexpr std::string_view kCpp[] = {
      "/",          "#",          "template", "namespace",       "using",        "extern", "static",
      "inline",     "constexpr",  "typedef",  "struct",          "enum",         "void",   "const",
      "__global__", "__device__", "__host__", "__forceinline__", "__constant__", "torch",  "at"};
  if (std::find(std::begin(kCpp), std::end(kCpp), first) != std::end(kCpp)) return Language::kCpp;
  if (first != "class") return Language::kPython;
  while (i < tokens.size() && tokens[i].kind != Kind::kNewline) ++i;
  return i > 0 && tokens[i - 1].text(text) == ":" ? Language::kPython : Language::kCpp;
}

std::map<std::string, std::size_t> Ported::by_group() const {
  std::map<std::string, std::size_t> count;
  for (const Rename& rename : renames) ++count[rename.group];
  return count;
}

bool Ported::reversible() const {
  return std::none_of(attention.begin(), attention.end(), [](const Attention& a) {
    return a.kind == "ambiguous" || a.kind == "one_way" || a.kind == "already_ported";
  });
}

namespace {

Ported port_checked(const RenameTable& table, std::string_view text, Language language, Dialect to,
                    const PortOptions& options) {
  Sheet sheet(table, text, to, options);
  switch (language) {
    case Language::kCpp:
      port_cpp(sheet, text, 0);
      break;
    case Language::kPython:
      port_python(sheet, text, 0);
      break;
    case Language::kBuild:
      port_build(sheet, text, 0);
      break;
    case Language::kText:
      port_prose(sheet, text, 0);
      break;
    case Language::kAnswer:
      port_answer(sheet, text, 0);
      break;
  }
  return sheet.finish();
}

// The way back is walked, so that what the report says about it is true even where no rule foresaw the
// reason.
void check_way_back(const RenameTable& table, std::string_view text, Language language, Dialect to,
                    PortOptions options, Ported& there) {
  options.attention = false;
  const std::string back = port_checked(table, there.text, language, other(to), options).text;
  if (back == text) return;
  const auto differ = std::mismatch(text.begin(), text.end(), back.begin(), back.end()).first;
  const std::size_t offset = static_cast<std::size_t>(differ - text.begin());
  const std::size_t line = static_cast<std::size_t>(std::count(text.begin(), differ, '\n')) + 1;
  const std::size_t start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;  // npos + 1 is 0
  there.attention.push_back({line, offset - start + 1, "one_way", "", "the way back differs from here on"});
  std::stable_sort(there.attention.begin(), there.attention.end(),
                   [](const Attention& a, const Attention& b) { return a.line < b.line; });
}

}  // namespace

Result<Ported> port_text(const RenameTable& table, std::string_view text, Language language, Dialect to,
                         const PortOptions& options) {
  if (text.size() > kMaxTextBytes)
    return fail(Code::kInvalidArgument, "the text has {} bytes; {} are taken", text.size(), kMaxTextBytes);
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    return fail(Code::kInvalidArgument, "byte {} is zero; this is no text", zero);
  Ported there = port_checked(table, text, language, to, options);
  if (options.attention && there.reversible()) check_way_back(table, text, language, to, options, there);
  return there;
}

std::string rename_words(const RenameTable& table, std::string_view prose, Dialect to) {
  Sheet sheet(table, prose, to, {.attention = false});
  port_prose(sheet, prose, 0);
  return sheet.finish().text;
}

}  // namespace musacoder::port

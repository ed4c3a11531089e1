// Python: its own names, the strings that are devices, flags and file names, and the C++ that it keeps in
// strings.
#include <algorithm>
#include <optional>
#include <set>

#include "port/sheet.h"

namespace musacoder::port {
namespace {

// Bounds on the search for C++ in variables, so that a text made to be slow is not: passes over assignments,
// tokens of an annotation, and tokens looked at for each token of the text.
constexpr int kPasses = 8;
constexpr std::size_t kAnnotation = 64, kScans = 64;

constexpr std::string_view kMusaImport = "import torch_musa";

// A string's body as the C++ compiler will see it, byte for byte at the same places: escapes are blanked out,
// replacement fields become part of the word they stand in.
std::string as_cpp(std::string_view code, const Token& token) {
  std::string body(token.body(code));
  auto hole = [&](std::size_t begin, std::size_t end) {
    std::fill(body.begin() + static_cast<std::ptrdiff_t>(begin),
              body.begin() + static_cast<std::ptrdiff_t>(end), '$');
  };
  if (!token.raw) {
    for (std::size_t i = 0; i + 1 < body.size(); ++i) {
      if (body[i] != '\\') continue;
      const char c = body[i + 1];
      body[i] = ' ';
      if (c == 'n' || c == 'r')
        body[i + 1] = '\n';
      else if (c == 't' || c == 'f' || c == 'v' || c == '\n')
        body[i + 1] = ' ';
      else if (c != '\\' && c != '"' && c != '\'')
        hole(i, i + 2);  // \x41, \N{…}: some character
      ++i;
    }
  }
  for (const Field& field : token.fields) hole(field.begin - token.body_begin, field.end - token.body_begin);
  if (token.formatted)  // "{{" is one brace
    for (std::size_t i = 0; i + 1 < body.size(); ++i)
      if ((body[i] == '{' || body[i] == '}') && body[i + 1] == body[i]) body[++i] = ' ';
  return body;
}

class PythonPorter {
 public:
  // `file`: a whole file, with imports; not an expression within a string.
  PythonPorter(Sheet& sheet, std::string_view code, std::size_t offset, bool file)
      : sheet_(sheet),
        code_(code),
        offset_(offset),
        file_(file),
        tokens_(python_tokens(code)),
        scans_(kScans * tokens_.size()) {}

  void run() {
    find_sources();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Kind::kWord) {
        if (!import_statement(i)) word(i);
      } else if (token.kind == Kind::kString) {
        const std::size_t end = group_end(i);
        strings(i, end);
        i = end - 1;
      } else if (token.kind == Kind::kComment && sheet_.options().in_comments) {
        port_prose(sheet_, token.text(code_), offset_ + token.begin);
      }
    }
    if (file_) sheet_.to() == Dialect::kMusa ? add_import() : check_imports();
    if (sheet_.options().attention && sheet_.to() == Dialect::kMusa)
      attend_python(sheet_, code_, offset_, tokens_);
  }

 private:
  std::string_view text(std::size_t i) const {
    return i >= tokens_.size() ? std::string_view() : tokens_[i].text(code_);
  }
  Kind kind(std::size_t i) const { return i >= tokens_.size() ? Kind::kNewline : tokens_[i].kind; }
  bool is_newline(std::size_t i) const { return kind(i) == Kind::kNewline; }

  // Past the strings that Python joins to one: "a" "b".
  std::size_t group_end(std::size_t i) const {
    std::size_t end = i + 1;
    for (std::size_t k = end; k < tokens_.size() && (kind(k) == Kind::kString || kind(k) == Kind::kComment);
         ++k)
      if (kind(k) == Kind::kString) end = k + 1;
    return end;
  }

  // ---- Which strings are C++
  // -----------------------------------------------------------------------------------------

  // Past the argument or right-hand side that begins at i: to a "," or closing bracket of its own depth, or a
  // line's end.
  std::size_t expression_end(std::size_t i, bool at_comma) {
    int depth = 0;
    for (; i < tokens_.size() && scans_ > 0; ++i, --scans_) {
      if (is_newline(i) && depth == 0) return i;
      const std::string_view t = kind(i) == Kind::kPunct ? text(i) : std::string_view();
      if (t == "(" || t == "[" || t == "{") ++depth;
      if ((t == ")" || t == "]" || t == "}") && depth-- == 0) return i;
      if ((t == "," && at_comma && depth == 0) || (t == ";" && depth == 0)) return i;
    }
    return i;
  }

  // The strings and names of an expression hold C++.
  void take_sources(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (kind(i) == Kind::kString) sources_.insert(i);
      const bool keyword = i + 1 < end && text(i + 1) == "=" && text(i + 2) != "=";
      if (kind(i) == Kind::kWord && !keyword && (i == 0 || text(i - 1) != ".") && text(i + 1) != "(")
        source_names_.insert(text(i));
    }
  }

  void find_sources() {
    const RenameTable& table = sheet_.table();
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (kind(i) != Kind::kWord) continue;
      const auto& keywords = table.source_keywords();
      if (text(i + 1) == "=" && text(i + 2) != "=" &&
          std::find(keywords.begin(), keywords.end(), text(i)) != keywords.end()) {
        const std::size_t before = i == 0 ? kNone : i - 1;
        const bool argument = before != kNone && (text(before) == "(" || text(before) == ",");
        take_sources(i + 2, expression_end(i + 2, argument));
      }
      for (const auto& call : table.source_calls())
        if (text(i) == call.name && text(i + 1) == "(") take_places(i + 2, call.places);
    }
    // What those names are given: NAME = …, NAME += …, NAME: str = …
    std::size_t known = 0;
    for (int pass = 0; pass < kPasses && known != source_names_.size(); ++pass) {
      known = source_names_.size();
      for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
        if (kind(i) != Kind::kWord || !source_names_.count(text(i)) || (i > 0 && text(i - 1) == "."))
          continue;
        std::size_t k = i + 1;
        if (text(k) == ":")
          while (k < std::min(tokens_.size(), i + kAnnotation) && text(k) != "=" && !is_newline(k)) ++k;
        if (text(k) == "+" || text(k) == "%") ++k;
        if (text(k) != "=" || text(k + 1) == "=") continue;
        const bool argument = i > 0 && (text(i - 1) == "(" || text(i - 1) == ",");
        if (!argument) take_sources(k + 1, expression_end(k + 1, false));
      }
    }
  }

  void take_places(std::size_t begin, const std::vector<int>& places) {
    std::size_t i = begin;
    for (int place = 0; i < tokens_.size() && scans_ > 0; ++place) {
      const std::size_t end = expression_end(i, true);
      const bool keyword = kind(i) == Kind::kWord && text(i + 1) == "=";
      if (!keyword && std::find(places.begin(), places.end(), place) != places.end()) take_sources(i, end);
      if (text(end) != ",") return;
      i = end + 1;
    }
  }

  bool is_docstring(std::size_t begin, std::size_t end) const {
    const std::size_t before = token_before(tokens_, begin), after = token_after(tokens_, end - 1);
    const bool starts = before == kNone || is_newline(before);
    return starts && (after == kNone || is_newline(after));
  }

  bool is_cpp(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i)
      if (sources_.count(i)) return true;
    if (is_docstring(begin, end)) return false;
    const auto& marks = sheet_.table().source_marks();
    for (std::size_t i = begin; i < end; ++i)
      if (kind(i) == Kind::kString)
        for (const std::string& mark : marks)
          if (tokens_[i].body(code_).find(mark) != std::string_view::npos) return true;
    return false;
  }

  // ---- Strings
  // -------------------------------------------------------------------------------------------------------

  void strings(std::size_t begin, std::size_t end) {
    const bool single = end == begin + 1;
    const bool cpp = is_cpp(begin, end);
    for (std::size_t i = begin; i < end; ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Kind::kComment && sheet_.options().in_comments)
        port_prose(sheet_, token.text(code_), offset_ + token.begin);
      if (token.kind != Kind::kString) continue;
      for (const Field& field : token.fields) {
        PythonPorter inner(sheet_, code_.substr(field.begin + 1, field.end - field.begin - 2),
                           offset_ + field.begin + 1, false);
        inner.run();
        renamed_ |= inner.renamed_;
      }
      if (single && whole(i)) continue;
      if (cpp) {
        port_cpp(sheet_, as_cpp(code_, token), offset_ + token.body_begin);
      } else if (sheet_.options().in_strings) {
        port_prose(sheet_, as_cpp(code_, token), offset_ + token.body_begin);
      }
    }
  }

  // A string that is, whole, a device, a flag, a key, or a file's name.
  bool whole(std::size_t i) {
    const Token& token = tokens_[i];
    const std::string_view body = token.body(code_);
    const std::size_t begin = offset_ + token.body_begin;
    auto find = [&](Dialect to) { return whole_of(body, token, to); };
    if (const auto hit = find(sheet_.to())) {
      if (sheet_.rename(begin, begin + hit->first, hit->second)) renamed_ |= hit->second.group == "device";
      return true;
    }
    if (const auto back = find(other(sheet_.to()))) {
      sheet_.ambiguous(begin, body, back->second.to);
      return true;
    }
    return false;
  }

  // The renamed part, from the body's beginning, and what it becomes.
  std::optional<std::pair<std::size_t, Renamed>> whole_of(std::string_view body, const Token& token,
                                                          Dialect to) const {
    const RenameTable& table = sheet_.table();
    if (!token.fields.empty()) {
      // f"cuda:{rank}"
      const std::size_t first = token.fields[0].begin - token.body_begin;
      if (first < 2 || body[first - 1] != ':') return std::nullopt;
      const auto hit = table.device(body.substr(0, first - 1), to);
      return hit ? std::optional(std::pair(first - 1, *hit)) : std::nullopt;
    }
    if (auto hit = table.device(body, to)) return std::pair(body.size(), *hit);
    if (auto hit = table.python_string(body, to)) return std::pair(body.size(), *hit);
    const bool is_path =
        body.size() < 4096 &&
        std::all_of(
            body.begin(), body.end(),
            [](char c) { return is_word_char(c) || c == '/' || c == '.' || c == '-' || c == '*'; });
    if (is_path)
      if (auto hit = table.file_name(body, to)) return std::pair(body.size(), *hit);
    return std::nullopt;
  }

  // ---- Words
  // ---------------------------------------------------------------------------------------------------------

  std::optional<Renamed> lookup(std::size_t i, Dialect to) const {
    const std::string_view word = text(i);
    if (const auto* contexts = sheet_.table().python_contexts(word, to))
      for (const Context& context : *contexts)
        if (fits(context, code_, tokens_, i)) return Renamed{context.to, context.group};
    return sheet_.table().python_word(word, to);
  }

  void word(std::size_t i) {
    const std::size_t begin = offset_ + tokens_[i].begin, end = offset_ + tokens_[i].end;
    if (text(i) == "torch_musa") musa_import_ = true;
    if (const auto hit = lookup(i, sheet_.to())) {
      if (!sheet_.rename(begin, end, *hit)) return;
      renamed_ = true;
      if (hit->to == "torch_musa") musa_import_ = true;
    } else if (const auto back = lookup(i, other(sheet_.to()))) {
      sheet_.ambiguous(begin, text(i), back->to);
    }
  }

  // ---- import torch
  // --------------------------------------------------------------------------------------------------

  // At the first word of a statement: the statement's end when its text is exactly `what`.
  std::optional<std::size_t> statement(std::size_t i, std::string_view what) const {
    if (!file_ || (i > 0 && !is_newline(i - 1) && text(i - 1) != ";") ||
        code_.substr(tokens_[i].begin, what.size()) != what)
      return std::nullopt;
    const std::size_t end = tokens_[i].begin + what.size();
    std::size_t last = i;
    while (last + 1 < tokens_.size() && tokens_[last + 1].begin < end) ++last;
    const std::size_t after = token_after(tokens_, last);
    if (tokens_[last].end != end || (after != kNone && !is_newline(after) && text(after) != ";"))
      return std::nullopt;
    return end;
  }

  // `import torch` is remembered, and gets torch_musa if the file turns out to need it; on the way back
  // torch_musa goes.
  bool import_statement(std::size_t& i) {
    if (text(i) != "import") return false;
    const std::string& plain = sheet_.table().import_of(Dialect::kCuda);
    const std::string& both = sheet_.table().import_of(Dialect::kMusa);
    const std::size_t begin = offset_ + tokens_[i].begin;
    if (sheet_.to() == Dialect::kMusa) {
      if (!import_at_ && statement(i, plain)) import_at_ = begin;
      for (const std::string_view musa : {std::string_view(both), kMusaImport})
        if (statement(i, musa)) sheet_.ambiguous(begin, musa, plain);
      return false;
    }
    std::optional<std::size_t> end = statement(i, both);
    const bool own = end.has_value();
    if (!end) end = statement(i, kMusaImport);
    if (!end) {
      if (!import_at_ && statement(i, plain)) import_at_ = begin;
      return false;
    }
    // The way back puts one import in, into the first statement, and only where a file needs it.
    if (!own || import_at_)
      lost_import_ = begin;
    else
      import_at_ = added_import_ = begin;
    sheet_.rename(begin, offset_ + *end, {plain, "import"});
    while (i + 1 < tokens_.size() && tokens_[i + 1].begin < *end) ++i;
    return true;
  }

  bool needs_import() const { return !musa_import_ && renamed_; }

  void check_imports() {
    if (added_import_ && !needs_import()) lost_import_ = added_import_;
    if (import_at_ && !added_import_ && needs_import())
      sheet_.attend(*import_at_, "one_way", "import torch",
                    "nothing loads torch_musa here; the way back makes this import load it");
    if (lost_import_)
      sheet_.attend(*lost_import_, "one_way", "torch_musa",
                    "the import is gone, and the way back does not bring it again");
  }

  void add_import() {
    if (!import_at_ || !needs_import()) return;
    const std::string& plain = sheet_.table().import_of(Dialect::kCuda);
    sheet_.rename(*import_at_, *import_at_ + plain.size(),
                  {sheet_.table().import_of(Dialect::kMusa), "import"});
  }

  Sheet& sheet_;
  std::string_view code_;
  std::size_t offset_;
  bool file_;
  std::vector<Token> tokens_;
  std::size_t scans_;
  std::set<std::size_t> sources_;            // tokens that hold C++
  std::set<std::string_view> source_names_;  // variables that hold C++
  std::optional<std::size_t> import_at_, added_import_, lost_import_;
  bool musa_import_ = false, renamed_ = false;
};

}  // namespace

void port_python(Sheet& sheet, std::string_view code, std::size_t offset) {
  PythonPorter(sheet, code, offset, true).run();
}

}  // namespace musacoder::port

#include "port/sheet.h"

#include <algorithm>

namespace musacoder::port {
namespace {

// Whole lines that are left alone, by the marks on them.
std::vector<bool> excluded_lines(std::string_view text, const std::vector<std::size_t>& lines) {
  std::vector<bool> excluded(lines.size());
  if (text.find("MUSIFY_EXCL_") == std::string_view::npos &&
      text.find("MUSACODER_PORT_") == std::string_view::npos)
    return excluded;
  bool off = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t end = i + 1 < lines.size() ? lines[i + 1] : text.size();
    const std::string_view line = text.substr(lines[i], end - lines[i]);
    auto has = [&](std::string_view mark) {
      for (std::size_t at = line.find(mark); at != std::string_view::npos; at = line.find(mark, at + 1)) {
        const std::size_t after = at + mark.size();
        if ((at == 0 || !is_word_char(line[at - 1])) && (after == line.size() || !is_word_char(line[after])))
          return true;
      }
      return false;
    };
    if (has("MUSIFY_EXCL_START") || has("MUSACODER_PORT_OFF")) off = true;
    excluded[i] = off || has("MUSIFY_EXCL_LINE") || has("MUSACODER_PORT_LINE");
    if (has("MUSIFY_EXCL_STOP") || has("MUSACODER_PORT_ON")) off = false;
  }
  return excluded;
}

bool matches(const Context::Pattern& pattern, std::string_view code, const std::vector<Token>& tokens,
             std::size_t at, bool before) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    at = before ? token_before(tokens, at) : token_after(tokens, at);
    if (at == kNone) return false;
    const std::string& want = pattern[before ? pattern.size() - 1 - i : i];
    if (want != "*" && tokens[at].text(code) != want) return false;
  }
  return true;
}

}  // namespace

std::size_t token_before(const std::vector<Token>& tokens, std::size_t at) {
  while (at-- > 0)
    if (tokens[at].kind != Kind::kComment) return at;
  return kNone;
}

std::size_t token_after(const std::vector<Token>& tokens, std::size_t at) {
  while (++at < tokens.size())
    if (tokens[at].kind != Kind::kComment) return at;
  return kNone;
}

bool fits(const Context& context, std::string_view code, const std::vector<Token>& tokens, std::size_t at) {
  auto any = [&](const std::vector<Context::Pattern>& patterns, bool before) {
    return patterns.empty() ||
           std::any_of(patterns.begin(), patterns.end(), [&](const Context::Pattern& pattern) {
             return matches(pattern, code, tokens, at, before);
           });
  };
  return any(context.before, true) && any(context.after, false);
}

Sheet::Sheet(const RenameTable& table, std::string_view text, Dialect to, const PortOptions& options)
    : table_(table), text_(text), to_(to), options_(options) {
  lines_.push_back(0);
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    lines_.push_back(at + 1);
  excluded_ = excluded_lines(text, lines_);
}

std::size_t Sheet::line_of(std::size_t offset) const {
  return static_cast<std::size_t>(std::upper_bound(lines_.begin(), lines_.end(), offset) - lines_.begin()) -
         1;
}

bool Sheet::rename(std::size_t begin, std::size_t end, const Renamed& renamed) {
  if (excluded(begin)) return false;
  if (to_ == Dialect::kMusa && table_.is_one_way(text_.substr(begin, end - begin)))
    attend(begin, "one_way", std::string(text_.substr(begin, end - begin)),
           fmt::format("becomes {}, which goes back to another name", renamed.to));
  edits_.push_back({begin, end, renamed.to, renamed.group});
  return true;
}

void Sheet::insert(std::size_t at, std::string_view what) {
  if (!excluded(at)) edits_.push_back({at, at, std::string(what), {}});
}

void Sheet::remove(std::size_t begin, std::size_t end) {
  if (!excluded(begin)) edits_.push_back({begin, end, "", {}});
}

void Sheet::attend(std::size_t offset, std::string kind, std::string what, std::string why) {
  if (!options_.attention || excluded(offset)) return;
  const std::size_t line = line_of(offset);
  attention_.emplace_back(offset, Attention{line + 1, offset - lines_[line] + 1, std::move(kind),
                                            std::move(what), std::move(why)});
}

void Sheet::ambiguous(std::size_t offset, std::string_view name, std::string_view back) {
  attend(offset, "ambiguous", std::string(name),
         fmt::format("is a name of {} already; the way back would make it {}. Mark the line with "
                     "MUSACODER_PORT_LINE to keep it",
                     to_ == Dialect::kMusa ? "MUSA" : "CUDA", back));
}

// Nothing to rename: names of the target's are no mixture then, but a text that was ported before.
void Sheet::already_there() {
  const auto ambiguous_item = [](const auto& item) { return item.second.kind == "ambiguous"; };
  const auto first = std::find_if(attention_.begin(), attention_.end(), ambiguous_item);
  const std::size_t at = first != attention_.end() ? first->first
                         : edits_.empty()          ? kNone
                                                   : edits_.front().begin;
  attention_.erase(std::remove_if(attention_.begin(), attention_.end(), ambiguous_item), attention_.end());
  edits_.erase(
      std::remove_if(edits_.begin(), edits_.end(), [](const Edit& edit) { return edit.begin == edit.end; }),
      edits_.end());
  if (at == kNone) return;
  attend(at, "already_ported", "",
         fmt::format("there is nothing to rename: the text has names of {} only",
                     to_ == Dialect::kMusa ? "MUSA" : "CUDA"));
  std::rotate(attention_.begin(), attention_.end() - 1, attention_.end());
}

Ported Sheet::finish() {
  std::stable_sort(edits_.begin(), edits_.end(),
                   [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
  std::stable_sort(attention_.begin(), attention_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Ported ported;
  if (std::all_of(edits_.begin(), edits_.end(), [](const Edit& edit) { return edit.group.empty(); }))
    already_there();
  std::size_t at = 0;
  for (const Edit& edit : edits_) {
    if (edit.begin < at) continue;
    ported.text += text_.substr(at, edit.begin - at);
    ported.text += edit.to;
    at = edit.end;
    if (edit.group.empty()) continue;
    const std::size_t line = line_of(edit.begin);
    ported.renames.push_back({line + 1, edit.begin - lines_[line] + 1,
                              std::string(text_.substr(edit.begin, edit.end - edit.begin)), edit.to,
                              std::string(edit.group)});
  }
  ported.text += text_.substr(at);
  for (auto& [offset, attention] : attention_) ported.attention.push_back(std::move(attention));
  return ported;
}

}  // namespace musacoder::port

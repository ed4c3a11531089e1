#include "candidate/answer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>

namespace musacoder::candidate {
namespace {

struct Thinking {
  std::string_view open, close;
};

// Thinking markers by family. An opening marker counts at the start of a line; a closing one without an opening one means
// that the chat template had opened the block before the answer began.
constexpr std::array<Thinking, 12> kThinking = {{
    {"<think>", "</think>"},                                      // Qwen, DeepSeek, GLM
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},                                  // Gemma
    {"<reasoning>", "</reasoning>"},
    {"<reflection>", "</reflection>"},
    {"<seed:think>", "</seed:think>"},                            // Seed-OSS
    {"[THINK]", "[/THINK]"},                                      // Magistral
    {"\u25c1think\u25b7", "\u25c1/think\u25b7"},                  // Kimi
    {"<|begin_of_thought|>", "<|end_of_thought|>"},               // Sky-T1, OpenThinker
    {"<|START_THINKING|>", "<|END_THINKING|>"},                   // Command
    {"<mm:think>", "</mm:think>"},                                // MiniMax
    {"<|think|>", "<|/think|>"},
}};

// Where a turn ends. What follows belongs to another turn.
constexpr std::array<std::string_view, 17> kEnds = {{
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<turn|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|return|>", "<|end|>", "<|EOT|>", "<|user|>", "<|observation|>",
    "<|END_OF_TURN_TOKEN|>", "</s>", "<eos>", "[e~[",
}};

// Headers that a template may leave in front of the answer.
constexpr std::array<std::string_view, 7> kHeads = {{
    "<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "<start_of_turn>model",
    "<|assistant|>", "<\uff5cAssistant\uff5c>", "<|begin_of_text|>", "<s>",
}};

constexpr std::string_view kFinalChannel = "<|channel|>final<|message|>";
constexpr std::string_view kAnalysisChannel = "<|channel|>analysis<|message|>";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}
std::string_view trim_right(std::string_view text) {
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Only blanks lie between the start of the line and `at`.
bool at_line_start(std::string_view text, std::size_t at) {
  for (std::size_t back = 0; at > 0 && back < 64; ++back) {
    const char c = text[--at];
    if (c == '\n') return true;
    if (!is_blank(c)) return false;
  }
  return at == 0;
}

std::size_t find_at_line_start(std::string_view text, std::string_view marker, std::size_t from = 0) {
  for (std::size_t at = text.find(marker, from); at != std::string_view::npos; at = text.find(marker, at + 1))
    if (at_line_start(text, at)) return at;
  return std::string_view::npos;
}

// Leading blank lines stay when no header follows: line numbers are those of the file.
void cut_heads(std::string_view& body) {
  std::string_view rest = trim_left(body);
  for (bool again = true; again;) {
    again = false;
    for (std::string_view head : kHeads) {
      if (!rest.starts_with(head)) continue;
      rest.remove_prefix(head.size());
      body = rest = trim_left(rest);
      again = true;
    }
  }
}

// Cuts the blocks of one family. Each marker is searched once from where the last search ended: linear in the text.
void cut_family(const Thinking& marker, AnswerText& out) {
  constexpr auto kNone = std::string_view::npos;
  const std::string_view body = out.body;
  std::size_t from = 0;   // the text kept so far begins here
  std::size_t open = find_at_line_start(body, marker.open);
  std::size_t close = body.find(marker.close);
  while (open != kNone || close != kNone) {
    if (close < open) {
      // A closing marker on its own: the block was opened before the answer began.
      const std::size_t after = close + marker.close.size();
      const bool alone = at_line_start(body, close) || after == body.size() || is_blank(body[after]);
      if (alone) out.thinking_cut = true, from = after;
      close = body.find(marker.close, after);
      continue;
    }
    out.thinking_cut = true;
    const std::size_t inside = open + marker.open.size();
    if (close != kNone && close < inside) close = body.find(marker.close, inside);
    if (close == kNone || trim_left(body.substr(close + marker.close.size())).empty()) {
      // Never closed, or nothing behind it: what stands before it is all there is.
      out.body = trim_right(body.substr(from, open - from));
      out.ends_in_thinking = close == kNone && out.body.empty();
      return;
    }
    from = close + marker.close.size();
    open = find_at_line_start(body, marker.open, from);
    close = body.find(marker.close, from);
  }
  out.body = body.substr(from);
}

// The last turn's text after its thinking.
void cut_thinking(AnswerText& out) {
  if (const std::size_t final_at = out.body.rfind(kFinalChannel); final_at != std::string_view::npos) {
    out.thinking_cut = final_at > 0;
    out.body.remove_prefix(final_at + kFinalChannel.size());
  } else if (trim_left(out.body).starts_with(kAnalysisChannel)) {
    out.thinking_cut = out.ends_in_thinking = true;
    out.body = {};
    return;
  }
  for (const Thinking& marker : kThinking) cut_family(marker, out);
}

void cut_ends(AnswerText& out) {
  cut_heads(out.body);
  std::size_t end = out.body.size();
  for (std::string_view marker : kEnds) {
    // Markers that a program could contain end the text only at a line's end.
    for (std::size_t at = out.body.find(marker); at != std::string_view::npos && at < end; at = out.body.find(marker, at + 1)) {
      const std::size_t after = at + marker.size();
      if (marker.starts_with("<|") || after >= out.body.size() || is_blank(out.body[after]) || out.body[after] == '<') {
        end = at;
        break;
      }
    }
  }
  if (end < out.body.size()) {
    out.end_marker_cut = true;
    out.body = out.body.substr(0, end);
  }
}

struct Fence {
  char mark = 0;
  std::size_t length = 0, indent = 0;
  std::string language;
  bool bare = true;    // nothing after the marks
};

bool is_language(std::string_view word) {
  static constexpr std::array<std::string_view, 16> kKnown = {{"python", "py", "python3", "cuda", "cu", "cpp", "c++", "c",
                                                               "cxx", "musa", "mu", "text", "bash", "sh", "diff", "json"}};
  return std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end();
}

std::string first_word(std::string_view info) {
  std::string word;
  for (char c : trim_left(info)) {
    if (is_blank(c) || c == '{' || c == ',' || c == ':') {
      if (word.empty() && c != ' ') continue;
      break;
    }
    if (c == '.' && word.empty()) continue;
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word.size() >= 24) break;
  }
  return word;
}

// A line as a fence. In the middle of a line only an opening fence with a known language counts.
bool read_fence(std::string_view line, Fence& fence) {
  std::size_t at = 0;
  while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
  std::size_t start = at;
  bool middle = false;
  if (start >= line.size() || (line[start] != '`' && line[start] != '~')) {
    start = line.rfind("```");
    if (start == std::string_view::npos) return false;
    while (start > 0 && line[start - 1] == '`') --start;
    middle = true;
  }
  fence.mark = line[start];
  std::size_t end = start;
  while (end < line.size() && line[end] == fence.mark) ++end;
  fence.length = end - start;
  if (fence.length < 3) return false;
  std::string_view info = trim_right(line.substr(end));
  if (fence.mark == '`' && info.find('`') != std::string_view::npos) return false;
  fence.bare = trim_left(info).empty();
  fence.language = first_word(info);
  fence.indent = middle ? 0 : at;
  return !middle || is_language(fence.language);
}

void add_line(Block& block, std::string_view line, std::size_t indent, std::size_t max_bytes) {
  if (block.code.size() > max_bytes) return;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  for (std::size_t i = 0; i < indent && !line.empty() && (line.front() == ' ' || line.front() == '\t'); ++i)
    line.remove_prefix(1);
  block.code.append(line.substr(0, max_bytes + 1 - std::min(block.code.size(), max_bytes)));
  block.code += '\n';
}

}  // namespace

AnswerText cut_answer(std::string_view answer) {
  AnswerText out;
  out.body = answer;
  if (out.body.starts_with("\xef\xbb\xbf")) out.body.remove_prefix(3);
  cut_heads(out.body);
  cut_thinking(out);
  if (out.thinking_cut) out.body = trim_left(out.body);
  cut_ends(out);
  return out;
}

std::vector<Block> fenced_blocks(std::string_view body, std::size_t max_block_bytes, std::size_t limit) {
  std::deque<Block> blocks;
  bool open = false;
  Fence fence;
  auto begin = [&](const Fence& at, int line) {
    blocks.push_back({at.language, "", line, false});
    if (blocks.size() > limit) blocks.pop_front();
    fence = at;
    open = true;
  };
  int number = 0;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    const std::string_view line = body.substr(at, end - at);
    at = end + 1;
    ++number;
    Fence here;
    if (!read_fence(line, here)) {
      if (open) add_line(blocks.back(), line, fence.indent, max_block_bytes);
      continue;
    }
    if (!open) {
      begin(here, number + 1);
    } else if (here.bare && here.mark == fence.mark && here.length >= fence.length) {
      blocks.back().closed = true;
      open = false;
    } else if (!here.bare && here.length >= fence.length && is_language(here.language)) {
      blocks.back().closed = true;
      begin(here, number + 1);
    } else {
      add_line(blocks.back(), line, fence.indent, max_block_bytes);
    }
  }
  if (open) {
    // The closing marks may stand at the end of the last code line.
    std::string& code = blocks.back().code;
    const std::string_view text = trim_right(code);
    if (text.ends_with("```")) code.resize(text.size() - 3), code += '\n';
  }
  return {std::make_move_iterator(blocks.begin()), std::make_move_iterator(blocks.end())};
}

}  // namespace musacoder::candidate

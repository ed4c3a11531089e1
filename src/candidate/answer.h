// A model's raw answer → the code blocks in it. Pure text work in time linear in the answer; no Python.
//
//   AnswerText text = cut_answer(answer);      // thinking and chat markers gone
//   for (const Block& block : fenced_blocks(text.body)) ...
//
// To teach it another model's markers, add a row to the tables in answer.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace musacoder::candidate {

struct AnswerText {
  std::string_view body;            // a part of the answer: what remains to look at
  bool thinking_cut = false;        // a thinking block was left out
  bool ends_in_thinking = false;    // the answer never comes out of its thinking block; body is then empty
  bool end_marker_cut = false;      // a chat end marker was stripped
};

// `answer` must outlive the result.
AnswerText cut_answer(std::string_view answer);

struct Block {
  std::string language;             // first word of the info string in lower case: "python", "cpp", "" …
  std::string code;                 // line ends are \n; the fence's own indentation is taken off
  int line = 0;                     // of the first code line, 1-based in the body
  bool closed = true;               // false: the text ended inside the block
};

// The fenced blocks of a Markdown text in order. Takes ``` and ~~~ of any length ≥ 3, indented fences, an opening fence
// after text on its line when a language follows, and an unclosed last block. A fence with a language inside an open
// block ends that block. Only the last `limit` blocks are kept; a block longer than `max_block_bytes` is kept cut to
// max_block_bytes + 1 bytes, so that its size still shows.
std::vector<Block> fenced_blocks(std::string_view body, std::size_t max_block_bytes, std::size_t limit = 256);

}  // namespace musacoder::candidate

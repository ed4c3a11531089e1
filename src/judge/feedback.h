// Feedback for a model (or a person) from a verdict alone: what happened, where, the evidence, what to look at, and what
// to answer. No language model writes any of it; the same verdict gives the same text.
//
//   Feedback feedback = make_feedback(verdict, {.round = 1, .sources = {{"candidate.py", code}}});
//   prompt += feedback_text(feedback);
//
// The content follows the MusaCoder paper's appendix G (one message a round: header, feedback, task, hints, a demand for
// code only); the words are this project's. Candidates control parts of a verdict (exception texts, kernel names): such
// text is cut to a length and cleaned of control characters before it stands here.
//
// To add a hint: simple, a `look_at` of statuses.cpp; middling, a line in the class's function in feedback.cpp; hard, a
// pattern over trials or ledger there (see value_patterns), with a test that shows a verdict with and one without it.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "judge/verdict.h"

namespace musacoder::judge {

struct FeedbackOptions {
  int round = 1;                                 // of the answer that was judged, from 1
  // Texts that lines are quoted from, by the names diagnostics use: "candidate.py", "cuda.cu", "main.cpp". With
  // candidate.py alone, "cuda.cu" is its only string that defines a __global__ function. May be empty.
  std::map<std::string, std::string> sources = {};
};

struct Feedback {
  int round = 1;
  std::string status, title;
  bool verified = false;
  bool about_candidate = true;                   // false for infra, unsupported, inconclusive, invalid_task
  std::string what;                              // one or two sentences
  std::vector<std::string> where;                // kernel, block and thread, tensor, file and line, quoted source
  std::vector<std::string> evidence;             // worst element, compiler messages, trials, ledger
  std::vector<std::string> look_at;              // next steps, the most specific first
  std::string task;                              // what to do in the next round
  std::string demand;                            // the form of the answer
};

Feedback make_feedback(const Verdict& verdict, const FeedbackOptions& options = {});
std::string feedback_text(const Feedback& feedback);
nlohmann::json to_json(const Feedback& feedback);

// The verdict's first diagnostics as "cuda.cu:12: error: ..." lines, warnings only where there is no error; at most `limit`.
std::vector<std::string> diagnostic_lines(const Verdict& verdict, std::size_t limit);
// "output 0 at [3, 17]: expected 0.25, got 0, error 12.5 × the budget"
std::string worst_text(const WorstElement& worst);
// The trial that stands for the failure: the first failed one that names a worst element, else the first failed; or null.
const Trial* telling_trial(const Verdict& verdict);

}  // namespace musacoder::judge

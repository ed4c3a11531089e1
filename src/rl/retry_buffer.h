// Buffered Dynamic Retry (arXiv 2606.04847, §4.5.1): prompts whose responses all failed come back later with one failed candidate and the
// verifier's own feedback.
//
//   RetryBuffer buffer({.capacity = 128, .probability = 0.1, .start_step = 200});
//   if (auto entry = retry_of(prompt, attempts)) buffer.push(std::move(*entry));      // eq. 13-15, after each rollout epoch
//   if (buffer.wants_retry(step, random.uniform())) prompt = *buffer.draw();          // eq. 16
//
// What the paper leaves open is settled so: of the failed candidates the one is kept that got furthest (wrong values before run-time
// faults before compile errors before answers without code; the first of equals), an entry is removed when it is drawn, and a prompt whose retry
// fails as a group comes back at most `most_retries` times, each time with the newest candidate and feedback. Feedback is the verifier's own
// text: rewritten by another model it was out of distribution (§5.4.5). All tokens of a retry's responses are trained.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::rl {

struct Attempt {
  double reward = 0;      // NaN: null, no attempt at all
  std::string status;     // the verdict's, such as correctness_error:values
  std::string candidate;  // source
  std::string feedback;   // the verifier's text for the model
};

struct Retry {
  std::string prompt_id;  // names the task; the prompt is composed of task, candidate and feedback (eq. 14) by whoever knows the template
  std::string candidate, feedback, status;
  int retries = 0;         // how often this prompt has been drawn before
  std::int64_t step = 0;   // when it was put in
};

// How far a verdict's status came: 0 no code, 1 refused or not built, 2 run-time fault, 3 wrong values or disallowed operators; higher is further.
int progress(const std::string& status);

// Eq. 13: a retry where every attempt that has a reward got −1, and there is one.
std::optional<Retry> retry_of(const std::string& prompt_id, const std::vector<Attempt>& group);

struct RetryConfig {
  std::size_t capacity = 128;    // two batches of 64 prompts; the paper gives none
  double probability = 0.1;      // p_buf, "small" in the paper
  std::int64_t start_step = 0;   // late in training: early use is warned against
  int most_retries = 2;
};

class RetryBuffer {
 public:
  explicit RetryBuffer(const RetryConfig& config) : config_(config) {}
  // Full: the oldest goes (eq. 15). The same prompt is there once, as its newest entry, at its old place. Used up: not taken, false.
  bool push(Retry retry);
  // Eq. 16: whether the next prompt is to come from here; `uniform` in [0, 1) is the caller's draw.
  bool wants_retry(std::int64_t step, double uniform) const;
  // The oldest, removed; its `retries` counts this one.
  std::optional<Retry> draw();
  std::size_t size() const { return entries_.size(); }

  struct Counts {
    std::int64_t pushed = 0, evicted = 0, replaced = 0, refused = 0, drawn = 0;
  };
  const Counts& counts() const { return counts_; }

  // For checkpoints: all of it as JSON, and back. kInvalidArgument: not what to_json() wrote.
  std::string to_json() const;
  Status restore(const std::string& json);

 private:
  RetryConfig config_;
  std::deque<Retry> entries_;
  Counts counts_;
};

}  // namespace musacoder::rl

// A row of training data: one conversation that ends with the answer to be learned, and what is known of it.
//
//   Row row{.messages = {{"user", prompt}, {"assistant", answer}}, .family = "reduction", .kind = "generate",
//           .stage = 1, .task = sha256_hex(task_code), .verdict = {.status = "ok", .candidate = hash, .reward = 1}};
//   MC_RETURN_IF_ERROR(check_row(row));
//   std::string line = row_line(row);                    // `musacoder-train sft` reads it as it is
//
// JSON keys, in this order: messages, family, group, kind, stage, task, ops, source, verdict (docs/data.md has the table).
// `messages`, `family` and `group` are the trainer's (docs/training.md); it leaves the others alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::synth {

struct Message {
  std::string role, content;  // system, user or assistant
};

struct RowSource {
  std::string teacher;        // who answered: "corpus", "programmatic", a model's name, "mutation", "documents"
  std::string schedule;       // how: the teacher's name of it, a kind of mutation
  std::string from;           // where the task came from: an id or a file
  std::uint64_t seed = 0;
};

// Of the answer that the row teaches; for review rows of the candidate that is reviewed. status is empty for rows without
// code (qa, general).
struct RowVerdict {
  std::string status, candidate, backend;
  std::optional<double> reward;
};

struct Row {
  std::vector<Message> messages;
  std::string family;         // what mixtures are weighed by
  std::string group;          // of equal ones an epoch takes one; empty: none
  std::string kind;           // one of kinds()
  int stage = 0;              // 1, 2, 3; 0: general
  std::string task;           // SHA-256 of the task's code; empty for qa and general
  std::vector<std::string> ops;  // aten operators of the task, sorted
  RowSource source;
  RowVerdict verdict;
};

// generate, derive, repair_compile, repair_runtime, repair_values, repair_legality, multi_turn, review, profile, rewrite,
// qa, general.
const std::vector<std::string>& kinds();
// Kinds whose last answer is code: their verdict must be "ok".
bool answers_with_code(std::string_view kind);

// One line of JSON without its newline. Invalid UTF-8 is replaced.
std::string row_line(const Row& row);
// Unknown keys are left alone. Errors: kInvalidArgument with the key at fault.
Result<Row> row_from_line(std::string_view line);

// What a row must keep to: known kind and roles, ends with an assistant that says something, family given, hashes of 64
// hex digits, verdict "ok" where code is taught, a review's last line is its verdict, and no chat format's own words.
Status check_row(const Row& row);

// The first word of a chat format in a text ("<|im_end|>", "</s>", "[INST]", …), or "".
std::string control_word(std::string_view text);

}  // namespace musacoder::synth

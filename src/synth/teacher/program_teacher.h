// The teacher that knows schedules: cuts a graph into regions, has schedules write them, and wraps the result.
//
//   ProgramTeacher teacher;
//   for (const Answer& a : *teacher.answer({file, graph}, {.seed = 3, .most = 4, .derive = true})) …
//
// Derivations that check_derivation() refuses or cannot follow are left out. Answers of one request differ in schedules first, then in fusion and style.
#pragma once

#include "synth/teacher/teacher.h"

namespace musacoder::synth {

class ProgramTeacher final : public Teacher {
 public:
  // kOne writes all answers in one style (names, indices, the file around the kernels): a small model that learned from several changes names
  // in the middle of an answer.
  enum class Styles { kAll, kOne };
  explicit ProgramTeacher(Styles styles = Styles::kAll) : styles_(styles) {}
  std::string name() const override { return styles_ == Styles::kAll ? "program" : "program-one-style"; }
  Result<std::vector<Answer>> answer(const TaskItem& task, const AnswerRequest& request) override;

 private:
  Styles styles_;
};

// How many schedules could be combined for a graph; 0 where the teacher cannot answer it.
std::size_t ways(const Graph& graph);

}  // namespace musacoder::synth

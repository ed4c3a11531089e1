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
  std::string name() const override { return "program"; }
  Result<std::vector<Answer>> answer(const TaskItem& task, const AnswerRequest& request) override;
};

// How many schedules could be combined for a graph; 0 where the teacher cannot answer it.
std::size_t ways(const Graph& graph);

}  // namespace musacoder::synth

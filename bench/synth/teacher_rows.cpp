// Writes tasks and the programmatic teacher's answers as rows for `musacoder verify --batch`: one JSON object a line with id, reference,
// candidate, family, archetype, schedule and derivation. See teacher.py, which has them judged and counts.
//
//   teacher_rows --seed 1 --tasks 3 --answers 2 > rows.jsonl
//   teacher_rows --only reduction.along_axis --show         // one task and its answers, to read
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "synth/tasks/tasks.h"
#include "synth/teacher/derivation.h"
#include "synth/teacher/program_teacher.h"

namespace {

using namespace musacoder::synth;  // NOLINT(google-build-using-namespace): a program of one page

struct Options {
  std::uint64_t seed = 1;
  int tasks = 2, answers = 2;
  std::string only;
  bool show = false, derive = false;
};

int refused = 0;

void write(const DrawnTask& task, const Options& options) {
  ProgramTeacher teacher;
  const auto answers = teacher.answer({task.file, task.graph}, {.seed = task.seed, .most = options.answers, .derive = options.derive});
  if (!answers) {
    ++refused;
    std::fprintf(stderr, "%s %llu: %s\n", task.archetype.c_str(), static_cast<unsigned long long>(task.seed), answers.error().message.c_str());
    return;
  }
  if (options.show) std::printf("%s\n", task.file.c_str());
  for (std::size_t k = 0; k < answers->size(); ++k) {
    const Answer& answer = (*answers)[k];
    if (options.derive)
      if (const auto agrees = check_derivation(derivation_text(task.graph, answer.kernels, task.seed), task.graph, answer.file); !agrees)
        std::fprintf(stderr, "derivation: %s %llu: %s\n", task.archetype.c_str(), static_cast<unsigned long long>(task.seed), agrees.error().message.c_str());
    if (options.show) {
      std::printf("# ---- %s\n%s\n%s\n", answer.schedule.c_str(), answer.file.c_str(), answer.derivation.c_str());
      continue;
    }
    const nlohmann::ordered_json row = {{"id", task.archetype + "/" + std::to_string(task.seed) + "/" + std::to_string(k)},
                                        {"reference", task.file}, {"candidate", answer.file}, {"family", task.family},
                                        {"archetype", task.archetype}, {"schedule", answer.schedule}};
    std::printf("%s\n", row.dump().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int a = 1; a < argc; ++a) {
    const std::string name = argv[a];
    const char* value = a + 1 < argc ? argv[a + 1] : "";
    if (name == "--show") options.show = true;
    else if (name == "--derive") options.derive = true;
    else if (name == "--seed") options.seed = std::strtoull(value, nullptr, 10), ++a;
    else if (name == "--tasks") options.tasks = std::atoi(value), ++a;
    else if (name == "--answers") options.answers = std::atoi(value), ++a;
    else if (name == "--only") options.only = value, ++a;
    else return std::fprintf(stderr, "teacher_rows: unknown option %s; known: --seed --tasks --answers --only --show --derive\n", name.c_str()), 2;
  }
  for (int k = 0; k < options.tasks; ++k) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(k);
    for (const Archetype& archetype : archetypes()) {
      if (!options.only.empty() && std::string(archetype.name).find(options.only) == std::string::npos) continue;
      const auto task = make_task(archetype, seed);
      if (task) write(*task, options);
      else std::fprintf(stderr, "%s %llu: %s\n", archetype.name, static_cast<unsigned long long>(seed), task.error().message.c_str());
    }
    if (options.only.empty() || options.only == "random")
      if (const auto task = random_task(seed)) write(*task, options);
  }
  return refused == 0 ? 0 : 1;
}

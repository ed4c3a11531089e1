#include "synth/teacher/program_teacher.h"

#include <algorithm>
#include <set>

#include "synth/teacher/derivation.h"
#include "synth/teacher/lower.h"
#include "synth/teacher/module_file.h"
#include "synth/teacher/plan.h"
#include "synth/teacher/schedule.h"

namespace musacoder::synth {
namespace {

std::vector<const Schedule*> takers(const Graph& graph, const Region& region) {
  std::vector<const Schedule*> all;
  for (const auto& schedule : all_schedules())
    if (schedule->takes(graph, region)) all.push_back(schedule.get());
  return all;
}

Result<Answer> write(const Graph& graph, const Graph& task, const std::vector<Step>& plan, const std::vector<const Schedule*>& chosen, std::uint64_t seed,
                     const CodeStyle& style, bool derive) {
  Writer writer(style, seed);
  Answer answer;
  std::vector<Part> parts;
  std::size_t next = 0;
  for (const Step& step : plan) {
    Part part;
    part.view = step.view;
    part.node = step.node;
    if (!step.view) {
      MC_ASSIGN_OR_RETURN(part.unit, chosen[next++]->write(graph, step.region, writer));
      answer.schedule += (answer.schedule.empty() ? "" : "+") + part.unit.schedule;
      answer.kernels.insert(answer.kernels.end(), part.unit.facts.begin(), part.unit.facts.end());
    }
    parts.push_back(std::move(part));
  }
  answer.file = module_file(graph, init_text(task), parts, writer);
  if (derive) answer.derivation = derivation_text(task, answer.kernels, seed);
  // Better no text than one that says other things than the kernel does.
  if (derive && !check_derivation(answer.derivation, task, answer.file)) answer.derivation.clear();
  return answer;
}

}  // namespace

const Schedules& all_schedules() {
  static const Schedules all = [] {
    Schedules list;
    add_elementwise_schedules(list);
    add_reduction_schedules(list);
    add_row_schedules(list);
    add_layout_schedules(list);
    add_matrix_schedules(list);
    add_conv_schedules(list);
    add_pool_schedules(list);
    add_attention_schedules(list);
    add_scan_schedules(list);
    add_recurrent_schedules(list);
    return list;
  }();
  return all;
}

std::size_t ways(const Graph& graph) {
  const Result<Graph> plain = lower(graph);
  if (!plain) return 0;
  const Result<std::vector<Step>> plan = plan_graph(*plain, {});
  if (!plan) return 0;
  std::size_t all = 1;
  for (const Step& step : *plan)
    if (!step.view) all = std::min<std::size_t>(all * takers(*plain, step.region).size(), 1000);
  return all;
}

Result<std::vector<Answer>> ProgramTeacher::answer(const TaskItem& task, const AnswerRequest& request) {
  if (!task.graph) return fail(Code::kUnsupported, "the program teacher answers tasks of generators only: it needs their graph");
  MC_ASSIGN_OR_RETURN(const Graph graph, lower(*task.graph));
  if (graph.nodes.empty()) return fail(Code::kUnsupported, "nothing is computed");
  Seeded draw(mix(request.seed, "teacher"));
  std::vector<Answer> answers;
  std::set<std::string> known;
  // Combinations of schedules not seen before; when they run out, other styles of the same.
  for (int attempt = 0; attempt < 12 * request.most && static_cast<int>(answers.size()) < request.most; ++attempt) {
    const bool fuse = attempt == 0 || draw.chance(0.8);
    MC_ASSIGN_OR_RETURN(const std::vector<Step> plan, plan_graph(graph, {fuse}));
    std::vector<const Schedule*> chosen;
    std::string key;
    for (const Step& step : plan) {
      if (step.view) continue;
      chosen.push_back(draw.choose(takers(graph, step.region)));
      key += chosen.back()->name() + "+";
    }
    if (chosen.empty()) return fail(Code::kUnsupported, "only views: there is nothing to compute in a kernel");
    if (!known.insert(key).second && attempt < 8 * request.most) continue;
    const std::uint64_t seed = draw.next();
    const CodeStyle style = styles_ == Styles::kAll ? code_style_of(seed) : one_code_style();
    MC_ASSIGN_OR_RETURN(Answer answer, write(graph, *task.graph, plan, chosen, seed, style, request.derive));
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace musacoder::synth

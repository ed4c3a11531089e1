#include "synth/pipeline/rows.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/hash.h"

namespace musacoder::synth {
namespace {

std::string block(const std::string& code) { return "```python\n" + code + (code.ends_with('\n') ? "" : "\n") + "```"; }
std::string lined(const std::string& code) { return code + (code.ends_with('\n') ? "" : "\n"); }

Row row_of(const TaskEntry& task, const char* kind, int stage) {
  return {.family = task.graph.family, .kind = kind, .stage = stage, .task = task.hash, .ops = task.graph.ops, .source = {.from = task.id}};
}

RowVerdict verdict_of(const Examined& e) { return {.status = e.status, .candidate = e.candidate_hash, .backend = e.backend, .reward = e.reward}; }

void set_source(Row& row, const Judged& answer) {
  row.source.teacher = answer.teacher;
  row.source.schedule = answer.schedule;
  row.source.seed = answer.seed;
  row.verdict = verdict_of(answer.verdict);
}

Result<Row> checked(Row row) {
  MC_RETURN_IF_ERROR(check_row(row));
  return row;
}

std::string bullets(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line.starts_with("    ") ? line + "\n" : "- " + line + "\n";
  return out;
}

std::string number(double value) { return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value); }

// The line that a fault stands in, as it is in the file.
std::string source_line(const std::string& file, int line) {
  std::istringstream in(file);
  std::string text;
  for (int i = 0; i < line && std::getline(in, text); ++i) {
  }
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin);
}

const std::map<std::string, std::string>& bounds() {
  static const std::map<std::string, std::string> all = {
      {"start", "launching: each launch costs a fixed start, and the work behind it is shorter than that"},
      {"memory", "device memory: the bytes that have to be moved, at its bandwidth"},
      {"l1", "traffic between the caches and the multiprocessors: threads ask for far more bytes than the tensors hold"},
      {"issue", "instructions: the warps' instructions at the rate that a multiprocessor issues them"},
      {"shared", "shared memory: one warp access a cycle and multiprocessor"}};
  return all;
}

std::vector<std::string> advice(const Examined& v) {
  std::vector<std::string> out;
  double launches = 0;
  std::uint64_t loads = 0, stores = 0, atomics = 0, divergent = 0, warps = 0;
  for (const LaunchProfile& l : v.launches) {
    launches += l.launches;
    loads += l.counters.global_load_bytes;
    stores += l.counters.global_store_bytes;
    atomics += l.counters.atomics;
    divergent += l.counters.divergent_branches;
    warps += l.counters.warp_instructions;
  }
  if (v.bound == "start" && launches > 1.5) out.push_back(fmt::format("Fuse the {} launches of a call into fewer: what passes between them can stay in registers or shared memory.", number(launches)));
  if (v.bound == "start" && launches <= 1.5) out.push_back("At these sizes the call is as short as one launch can be; the kernel's own work only shows at larger sizes.");
  if (v.bound == "l1" || v.bound == "issue") out.push_back("Let each thread reuse what it loaded: tiles in shared memory, several results a thread in registers, vector loads of 16 bytes.");
  if (v.bound == "memory") out.push_back("Read each input once and write each output once; vector loads help to reach the bandwidth, fusing saves whole passes.");
  if (v.bound == "shared") out.push_back("Keep more in registers: compute several results a thread from one load of shared memory, and reduce within a warp by shuffles.");
  if (atomics > 0) out.push_back(fmt::format("{} atomic operations a call: sum in registers and shared memory first, one atomic or one plain store a block.", atomics));
  if (loads > 4 * stores && stores > 0 && v.bound != "memory") out.push_back(fmt::format("{} bytes are loaded for {} stored.", loads, stores));
  if (warps > 0 && divergent * 20 > warps) out.push_back("Many branches diverge: let neighbouring threads take the same way, or replace the branch by a select.");
  return out;
}

}  // namespace

std::string repair_kind(const std::string& status) {
  const std::string group = judge::status_class(status);
  return group == "compile_error" ? "repair_compile" : group == "runtime_error" ? "repair_runtime" : group == "correctness_error" ? "repair_values" : group == "cheating" ? "repair_legality" : "";
}

std::string with_blocks(const std::string& prompt, const TaskGraph& graph) {
  const std::string blocks = "\n\n[Tensor Shape Information]\n" + graph.shapes + "\n\n[Kernel Generation Hint]\n" + graph.hint;
  const std::size_t open = prompt.rfind("```python\n");
  const std::size_t fence = open == std::string::npos ? open : prompt.find("\n```", open);
  if (fence == std::string::npos) return prompt + blocks;
  std::string out = prompt;
  return out.insert(fence + 4, blocks);
}

Result<std::string> RowWriter::prompt(const TaskEntry& task, bool blocks) const {
  MC_ASSIGN_OR_RETURN(std::string text, prompts_.fill(table_, {.backend = "cuda", .reference = lined(task.code), .exemplar = options_.exemplar, .form = options_.form}));
  return blocks ? with_blocks(text, task.graph) : text;
}

Result<Row> RowWriter::generate(const TaskEntry& task, const Judged& answer) const {
  Row row = row_of(task, "generate", 1);
  set_source(row, answer);
  MC_ASSIGN_OR_RETURN(std::string ask, prompt(task, false));
  row.messages = {{"user", std::move(ask)}, {"assistant", block(answer.file)}};
  return checked(std::move(row));
}

Result<Row> RowWriter::derive(const TaskEntry& task, const Judged& answer) const {
  Row row = row_of(task, answer.derivation.empty() ? "generate" : "derive", 2);
  set_source(row, answer);
  MC_ASSIGN_OR_RETURN(std::string ask, prompt(task, true));
  if (!answer.derivation.empty()) ask += "\n\nDerive the kernel first, in six steps: overall analysis, scalar formula, shapes, index and memory mapping, boundaries and types, likely errors. Then give the file.";
  row.messages = {{"user", std::move(ask)}, {"assistant", answer.derivation.empty() ? block(answer.file) : lined(answer.derivation) + "\n" + block(answer.file)}};
  return checked(std::move(row));
}

Result<Row> RowWriter::repair(const TaskEntry& task, const Mutant& mutant, const Examined& broken, const Judged& answer) const {
  const std::string kind = repair_kind(broken.status);
  if (kind.empty()) return fail(Code::kInvalidArgument, "{} is nothing to repair", broken.status);
  Row row = row_of(task, kind.c_str(), 3);
  set_source(row, answer);
  row.source.teacher = "mutation";
  row.source.schedule = mutant.kind;
  MC_ASSIGN_OR_RETURN(std::string ask, prompt(task, false));
  row.messages = {{"user", std::move(ask)}, {"assistant", block(mutant.file)}, {"user", feedback_for(broken, 1)}, {"assistant", block(answer.file)}};
  return checked(std::move(row));
}

std::vector<Turn> keep_rollout(std::vector<Turn> turns, const RolloutFilter& filter, std::string& why) {
  why.clear();
  std::erase_if(turns, [](const Turn& turn) { return judge::is_null_reward(turn.verdict.status); });
  const auto most = static_cast<std::size_t>(filter.turns);
  if (turns.size() > most) {
    // Extra turns are for repairs alone: the turn before each of them failed.
    std::size_t extra = 0;
    while (most + extra < turns.size() && extra < static_cast<std::size_t>(filter.extra) && !turns[most + extra - 1].verdict.ok()) ++extra;
    turns.resize(most + extra);
  }
  if (turns.empty() || !turns.back().verdict.ok()) why = "last_wrong";
  else if (turns.size() < 2) why = "one_turn";
  else {
    const auto first = std::find_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.verdict.ok(); });
    if (first != turns.end() - 1 && !(first->verdict.estimate_ms > 0 && turns.back().verdict.estimate_ms > 0 &&
                                      first->verdict.estimate_ms >= filter.gain * turns.back().verdict.estimate_ms))
      why = "no_gain";
  }
  if (!why.empty()) turns.clear();
  return turns;
}

Result<Row> RowWriter::multi_turn(const TaskEntry& task, const std::vector<Turn>& turns, const std::string& schedule, std::uint64_t seed) const {
  if (turns.empty()) return fail(Code::kInvalidArgument, "a rollout without turns");
  Row row = row_of(task, "multi_turn", 3);
  row.source = {.teacher = "rollout", .schedule = schedule, .from = task.id, .seed = seed};
  row.verdict = verdict_of(turns.back().verdict);
  MC_ASSIGN_OR_RETURN(std::string ask, prompt(task, false));
  row.messages = {{"user", std::move(ask)}};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (i > 0) row.messages.push_back({"user", feedback_for(turns[i - 1].verdict, static_cast<int>(i))});
    row.messages.push_back({"assistant", block(turns[i].file)});
  }
  return checked(std::move(row));
}

Result<Row> RowWriter::review(const TaskEntry& task, const std::string& file, const Mutant* mutant, const Examined& verdict) const {
  const bool right = verdict.ok();
  Row row = row_of(task, "review", 3);
  row.verdict = verdict_of(verdict);
  row.source.teacher = mutant ? "mutation" : "verdict";
  row.source.schedule = mutant ? mutant->kind : "verified";
  std::string text;
  if (right) {
    text = "The implementation computes what the module asks for.\n\n";
    for (const LaunchProfile& l : verdict.launches)
      text += fmt::format("- `{}` runs {} time{} a call with a grid of {} and blocks of {} threads; it loads {} and stores {} bytes{}.\n", l.kernel, number(l.launches), l.launches == 1 ? "" : "s", l.grid, l.block,
                          l.counters.global_load_bytes, l.counters.global_store_bytes, l.counters.barriers ? fmt::format(" and meets {} barriers", l.counters.barriers) : "");
    if (verdict.launches.size() > 6) text += "- Every launch is a chance to fuse.\n";
    if (!verdict.bound.empty()) {
      text += fmt::format("\nIts speed: on an {} the call would be bound by {} (estimated, at the sizes it was judged at).\n", verdict.gpu, bounds().at(verdict.bound));
      text += bullets(advice(verdict));
    }
  } else {
    text = "The implementation is wrong.\n\n";
    if (mutant) text += fmt::format("Where: `{}` (line {} of the file). {}\n\n", source_line(mutant->file, mutant->line), mutant->line, mutant->fault);
    text += fmt::format("What follows when it runs: {}\n", verdict.feedback.what);
    if (!verdict.feedback.where.empty()) text += bullets(verdict.feedback.where);
    if (!verdict.feedback.evidence.empty()) text += bullets({verdict.feedback.evidence.begin(), verdict.feedback.evidence.begin() + std::min<std::ptrdiff_t>(3, static_cast<std::ptrdiff_t>(verdict.feedback.evidence.size()))});
    if (mutant) text += mutant->after.empty() ? fmt::format("\nThe fix: put `{}` back.\n", mutant->before) : fmt::format("\nThe fix: `{}` instead of `{}`.\n", mutant->before, mutant->after);
  }
  text += right ? "\nVERDICT: CORRECT" : "\nVERDICT: INCORRECT";
  MC_ASSIGN_OR_RETURN(std::string ask, task::fill_template("review", {{"platform", "CUDA"}, {"reference", lined(task.code)}, {"answer", lined(file)}}));
  row.messages = {{"user", std::move(ask)}, {"assistant", std::move(text)}};
  return checked(std::move(row));
}

std::string counters_text(const Examined& verdict) {
  std::string out = "| kernel | launches | grid | block | warp instructions | FLOPs | bytes loaded | bytes stored | shared accesses | atomics | barriers | divergent branches |\n"
                    "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(verdict.launches.size(), 8); ++i) {
    const LaunchProfile& l = verdict.launches[i];
    const vgpu::Counters& c = l.counters;
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", l.kernel, number(l.launches), l.grid, l.block, c.warp_instructions, c.flops, c.global_load_bytes, c.global_store_bytes,
                       c.shared_accesses, c.atomics, c.barriers, c.divergent_branches);
  }
  return out;
}

Result<std::vector<Row>> RowWriter::profile(const TaskEntry& task, const Judged& answer) const {
  const Examined& v = answer.verdict;
  if (!v.ok() || v.launches.empty() || !bounds().contains(v.bound)) return fail(Code::kInvalidArgument, "there is no profile of {}", v.candidate_hash);
  const std::string kernel = v.estimate_kernel.substr(0, v.estimate_kernel.find('('));
  const std::string bound = fmt::format("`{}` takes most of the time; it is bound by {}.", kernel.empty() ? v.launches[0].kernel : kernel, bounds().at(v.bound));
  std::string seen;
  double launches = 0;
  for (const LaunchProfile& l : v.launches) {
    launches += l.launches;
    const double bytes = static_cast<double>(l.counters.global_load_bytes + l.counters.global_store_bytes);
    seen += fmt::format("- `{}`: {} FLOPs over {} bytes that its threads ask for, {} a byte; {} warp instructions.\n", l.kernel, l.counters.flops, number(bytes),
                        number(bytes > 0 ? static_cast<double>(l.counters.flops) / bytes : 0), l.counters.warp_instructions);
  }
  const std::string times = fmt::format("{} launch{} a call; {} ms by estimate on an {}, at the sizes it was judged at.\n", number(launches), launches == 1 ? "" : "es", number(v.estimate_ms), v.gpu);
  std::vector<Row> rows;
  for (const bool diagnose : {false, true}) {
    Row row = row_of(task, "profile", 3);
    set_source(row, answer);
    row.source.schedule = diagnose ? "diagnose" : "predict";
    std::map<std::string, std::string> words = {{"platform", "CUDA"}, {"reference", lined(task.code)}, {"answer", lined(answer.file)}};
    if (diagnose) words["counters"] = counters_text(v);
    MC_ASSIGN_OR_RETURN(std::string ask, task::fill_template(diagnose ? "profile_diagnose" : "profile_predict", words));
    std::string text = diagnose ? seen + times + "\n" + bound + "\n\n" + bullets(advice(v)) : bound + "\n\n" + seen + times;
    row.messages = {{"user", std::move(ask)}, {"assistant", std::move(text) + "\nBOTTLENECK: " + v.bound}};
    MC_RETURN_IF_ERROR(check_row(row));
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<Row> RowWriter::rewrite(const TaskEntry& task, const Judged& slow, const std::string& pattern, const Judged& fast) const {
  Row row = row_of(task, "rewrite", 3);
  set_source(row, fast);
  row.source.schedule = pattern;
  std::string findings = fmt::format("It takes {} ms by estimate on an {} (at the sizes it was judged at), bound by `{}`.\n\n{}", number(slow.verdict.estimate_ms), slow.verdict.gpu, slow.verdict.bound, counters_text(slow.verdict));
  MC_ASSIGN_OR_RETURN(std::string ask, task::fill_template("optimize", {{"reference", lined(task.code)}, {"answer", lined(slow.file)}, {"findings", findings}}));
  row.messages = {{"user", std::move(ask)}, {"assistant", block(fast.file)}};
  return checked(std::move(row));
}

Result<Row> RowWriter::failure_question(const TaskEntry& task, const Mutant& mutant, const Examined& broken) const {
  Row row = row_of(task, "qa", 3);
  row.verdict = verdict_of(broken);
  row.source.teacher = "failure";
  row.source.schedule = mutant.kind;
  std::string ask = fmt::format("A CUDA kernel for a PyTorch module ended with `{}`: {}\n", broken.status, broken.feedback.what);
  ask += bullets(broken.feedback.where) + bullets(broken.feedback.evidence);
  ask += fmt::format("\nThe line in question:\n\n```\n{}\n```\n\nWhat is wrong, and how is it mended?", source_line(mutant.file, mutant.line));
  std::string text = mutant.fault;
  text += mutant.after.empty() ? fmt::format("\n\nPut back what is missing there: `{}`.", mutant.before) : fmt::format("\n\nWrite `{}` instead of `{}`.", mutant.before, mutant.after);
  if (!broken.feedback.look_at.empty()) text += "\n\nWhere a failure like this one has another cause:\n" + bullets(broken.feedback.look_at);
  row.messages = {{"user", std::move(ask)}, {"assistant", std::move(text)}};
  return checked(std::move(row));
}

std::vector<Row> document_questions(const std::string& name, const std::string& markdown) {
  constexpr std::size_t kLeast = 120, kMost = 6000;
  std::vector<Row> rows;
  std::string heading, text;
  bool fenced = false;
  const auto close = [&] {
    const std::size_t begin = text.find_first_not_of(" \n\t"), end = text.find_last_not_of(" \n\t");
    if (!heading.empty() && begin != std::string::npos && end - begin + 1 >= kLeast && end - begin < kMost) {
      Row row{.family = "knowledge", .kind = "qa", .stage = 3, .source = {.teacher = "documents", .schedule = heading, .from = name}};
      row.messages = {{"user", fmt::format("What does the documentation ({}) say under \"{}\"?", name, heading)}, {"assistant", text.substr(begin, end - begin + 1)}};
      if (check_row(row)) rows.push_back(std::move(row));
    }
    text.clear();
  };
  std::istringstream in(markdown);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    if (!fenced && line.starts_with('#')) {
      close();
      heading = line.substr(std::min(line.size(), line.find_first_not_of("# ")));
    } else {
      text += line + "\n";
    }
  }
  close();
  return rows;
}

}  // namespace musacoder::synth

#include "generate/rft.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"

namespace musacoder::generate {
namespace {

using nlohmann::json;

std::string row_line(const RftAnswer& answer, const std::string& group) {
  json messages = json::array();
  for (const auto& message : answer.messages)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  messages.push_back({{"role", "assistant"}, {"content", answer.answer}});
  json row = {
      {"messages", messages},
      {"family", answer.family},
      {"kind", "generate"},
      {"task", answer.task_hash},
      {"ops", json::array()},
      {"source",
       {{"teacher", answer.model}, {"schedule", "rft"}, {"from", answer.task}, {"seed", answer.seed}}},
      {"verdict", {{"status", "ok"}, {"candidate", answer.candidate_hash}, {"backend", answer.backend}}}};
  row["verdict"]["reward"] = answer.reward ? json(*answer.reward) : json();
  if (!group.empty()) row["group"] = group;
  return row.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

RftRows RftData::rows() const {
  RftRows out;
  RftSummary& summary = out.summary;
  for (const auto& [hash, answers] : tasks_) {
    ++summary.tasks;
    summary.verified += answers.size();
    std::vector<const RftAnswer*> different;
    std::set<std::string> texts;
    for (const RftAnswer& answer : answers)
      if (texts.insert(answer.kernels.empty() ? answer.answer : answer.kernels).second)
        different.push_back(&answer);
    summary.different += different.size();
    std::vector<synth::Implementation> all, every;
    for (const RftAnswer* answer : different)
      all.push_back(synth::implementation(answer->kernels, answer->speed));
    for (const RftAnswer& answer : answers)
      every.push_back(synth::implementation(answer.kernels, answer.speed));
    const auto diversity = synth::diversity(synth::clusters(every, {.similarity = config_.similarity}));
    summary.distinct += diversity.distinct;
    summary.entropy += diversity.entropy;
    summary.effective += diversity.effective;
    const auto cluster = synth::clusters(all, {.similarity = config_.similarity});
    const auto pool = synth::choose_pool(all, cluster, {.least = config_.least, .most = config_.most});
    const std::string group = "rft-" + hash.substr(0, 16);
    std::vector<int> kept;
    for (const std::size_t i : pool) {
      out.lines.push_back(row_line(*different[i], group));
      kept.push_back(cluster[i]);
    }
    const auto of_pool = synth::diversity(kept);
    summary.pool_distinct += of_pool.distinct;
    summary.pool_entropy += of_pool.entropy;
    ++summary.pool_sizes[pool.size()];
    for (const std::size_t i : synth::choose_pool(all, cluster, {.least = 1, .most = 1}))
      out.best.push_back(row_line(*different[i], ""));
  }
  summary.rows = out.lines.size();
  summary.best_rows = out.best.size();
  if (summary.tasks > 0)
    for (double* sum : {&summary.distinct, &summary.entropy, &summary.effective, &summary.pool_distinct,
                        &summary.pool_entropy})
      *sum /= static_cast<double>(summary.tasks);
  return out;
}

json to_json(const RftSummary& summary) {
  json sizes = json::object();
  for (const auto& [size, count] : summary.pool_sizes) sizes[std::to_string(size)] = count;
  return {
      {"tasks", summary.tasks},
      {"verified", summary.verified},
      {"different_texts", summary.different},
      {"verified_answers",
       {{"distinct", summary.distinct}, {"entropy", summary.entropy}, {"effective", summary.effective}}},
      {"pools",
       {{"rows", summary.rows},
        {"distinct", summary.pool_distinct},
        {"entropy", summary.pool_entropy},
        {"sizes", sizes}}},
      // One answer a task: nothing to choose from.
      {"keep_one_best", {{"rows", summary.best_rows}, {"distinct", summary.tasks ? 1 : 0}, {"entropy", 0}}}};
}

}  // namespace musacoder::generate

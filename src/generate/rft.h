// Rows for rejection fine-tuning that keep several ways to write a kernel (arXiv 2606.04847 §4.2.4).
//
//   RftData data(RftConfig{.least = 4, .most = 8});
//   for (each verified answer) data.add({.task_hash = …, .messages = prompt, .answer = text, .kernels = cuda,
//   .speed = s}); RftRows rows = data.rows();                       // lines for `musacoder-train sft`
//
// Answers of a task are told apart by their kernels' text, clustered (synth/diversity.h), and a pool of
// `least` to `most` is chosen. The rows of a pool have one `group`, of which the trainer draws one an epoch.
// Beside it the keep-one-best variant: the fastest of each task, or the first where no times are known.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_model.h"
#include "synth/diversity.h"

namespace musacoder::generate {

struct RftConfig {
  std::size_t least = 4, most = 8;
  double similarity = 0.6;
};

struct RftAnswer {
  std::string task, task_hash, family;
  std::vector<chat::Message> messages;  // what asks for it
  std::string answer;                   // what is learned
  std::string kernels;                  // its CUDA or MUSA text
  double speed = 0;                     // larger is better; 0: not known
  std::string candidate_hash, backend, model;
  std::optional<double> reward;
  std::uint64_t seed = 0;
};

struct RftSummary {
  std::size_t tasks = 0, verified = 0, different = 0;  // different: texts
  std::size_t rows = 0, best_rows = 0;
  double distinct = 0, entropy = 0, effective = 0;  // of the verified answers of a task, mean
  double pool_distinct = 0, pool_entropy = 0;       // of the pools
  std::map<std::size_t, std::size_t> pool_sizes;
};

struct RftRows {
  std::vector<std::string> lines, best;
  RftSummary summary;
};

class RftData {
 public:
  explicit RftData(RftConfig config) : config_(config) {}
  void add(RftAnswer answer) { tasks_[answer.task_hash].push_back(std::move(answer)); }
  RftRows rows() const;

 private:
  RftConfig config_;
  std::map<std::string, std::vector<RftAnswer>> tasks_;
};

nlohmann::json to_json(const RftSummary& summary);

}  // namespace musacoder::generate

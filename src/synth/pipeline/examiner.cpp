#include "synth/pipeline/examiner.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/hash.h"
#include "synth/pipeline/journal.h"

namespace musacoder::synth {
namespace {

using nlohmann::json;

std::string dims(const vgpu::Dim3& d) { return fmt::format("{} × {} × {}", d.x, d.y, d.z); }

Examined examined_of(const judge::Verdict& verdict, const std::string& code) {
  Examined out{.status = verdict.status, .cause = verdict.cause, .candidate_hash = verdict.candidate_hash, .backend = verdict.backend, .reward = verdict.reward};
  out.feedback = judge::make_feedback(verdict, {.round = 1, .sources = {{"candidate.py", code}}});
  const double calls = static_cast<double>(std::max<std::size_t>(
      1, static_cast<std::size_t>(std::count_if(verdict.trials.begin(), verdict.trials.end(), [](const auto& trial) { return trial.skipped.empty(); }))));
  if (verdict.status == "ok") {
    for (const auto& launch : verdict.ledger.launches) {
      const auto share = [&](std::uint64_t n) { return static_cast<std::uint64_t>(static_cast<double>(n) / calls); };
      const vgpu::Counters& c = launch.counters;
      out.launches.push_back({.kernel = launch.kernel.substr(0, launch.kernel.find('(')),
                              .grid = dims(launch.grid),
                              .block = dims(launch.block),
                              .launches = static_cast<double>(launch.count) / calls,
                              .counters = {.warp_instructions = share(c.warp_instructions),
                                           .thread_instructions = share(c.thread_instructions),
                                           .flops = share(c.flops),
                                           .global_load_bytes = share(c.global_load_bytes),
                                           .global_store_bytes = share(c.global_store_bytes),
                                           .shared_accesses = share(c.shared_accesses),
                                           .atomics = share(c.atomics),
                                           .barriers = share(c.barriers),
                                           .divergent_branches = share(c.divergent_branches)}});
    }
  }
  if (verdict.estimate) {
    out.estimate_ms = verdict.estimate->ms;
    out.estimate_kernel = verdict.estimate->kernel;
    out.bound = verdict.estimate->bound;
    out.gpu = verdict.estimate->gpu;
  }
  return out;
}

json write(const Examined& e) {
  json launches = json::array();
  for (const LaunchProfile& l : e.launches) {
    const vgpu::Counters& c = l.counters;
    launches.push_back({l.kernel, l.grid, l.block, l.launches, c.warp_instructions, c.thread_instructions, c.flops, c.global_load_bytes, c.global_store_bytes,
                        c.shared_accesses, c.atomics, c.barriers, c.divergent_branches});
  }
  return {{"status", e.status},     {"cause", e.cause},       {"candidate", e.candidate_hash}, {"backend", e.backend},
          {"reward", e.reward ? json(*e.reward) : json(nullptr)}, {"feedback", judge::to_json(e.feedback)}, {"launches", launches},
          {"estimate_ms", e.estimate_ms}, {"kernel", e.estimate_kernel}, {"bound", e.bound}, {"gpu", e.gpu}};
}

Examined read(const json& in) {
  Examined e{.status = in.at("status"), .cause = in.at("cause"), .candidate_hash = in.at("candidate"), .backend = in.at("backend")};
  if (in.at("reward").is_number()) e.reward = in["reward"].get<double>();
  const json& f = in.at("feedback");
  e.feedback = {.round = f.at("round"),
                .status = f.at("status"),
                .title = f.at("title"),
                .verified = f.at("verified"),
                .about_candidate = f.at("about_candidate"),
                .what = f.at("what"),
                .where = f.at("where"),
                .evidence = f.at("evidence"),
                .look_at = f.at("look_at"),
                .task = f.at("task"),
                .demand = f.at("demand")};
  for (const json& l : in.at("launches"))
    e.launches.push_back({.kernel = l.at(0), .grid = l.at(1), .block = l.at(2), .launches = l.at(3),
                          .counters = {.warp_instructions = l.at(4), .thread_instructions = l.at(5), .flops = l.at(6), .global_load_bytes = l.at(7),
                                       .global_store_bytes = l.at(8), .shared_accesses = l.at(9), .atomics = l.at(10), .barriers = l.at(11),
                                       .divergent_branches = l.at(12)}});
  e.estimate_ms = in.at("estimate_ms");
  e.estimate_kernel = in.at("kernel");
  e.bound = in.at("bound");
  e.gpu = in.at("gpu");
  return e;
}

class JudgeExaminer : public Examiner {
 public:
  JudgeExaminer(judge::JudgeConfig config, ExaminerOptions options, Journal journal)
      : config_(std::move(config)), options_(std::move(options)), journal_(std::move(journal)) {
    fingerprint_ = fmt::format("{}|{}|{}|{}|{}|{}|{}", judge::kVerdictVersion, config_.backend, config_.gpu, config_.policy, config_.trials, config_.seed, config_.work_budget);
  }

  std::string describe() const override {
    return fmt::format("verdict {} on {} as {}, {} trials, seed {}", judge::kVerdictVersion, config_.backend, config_.gpu, config_.trials, config_.seed);
  }
  std::size_t fresh() const override { return fresh_; }

  Result<std::vector<Examined>> examine(const std::vector<Candidate>& candidates, const Progress& progress) override {
    std::vector<Examined> results(candidates.size());
    MC_RETURN_IF_ERROR(run(candidates, "verdict", progress,
        [&](std::size_t i, const std::string& text) { results[i] = read(json::parse(text)); },
        [&](judge::Judge& judge, std::size_t i) -> std::string {
          const Candidate& c = candidates[i];
          judge::JudgeRequest request;
          request.task_id = c.task_id;
          request.task_code = c.task_code;
          request.answer = c.answer;
          request.answer_name = "candidate.py";
          request.cancelled = options_.stop;
          const judge::Verdict verdict = judge.judge(request);
          results[i] = examined_of(verdict, judge.last_code());
          return results[i].infra() ? "" : write(results[i]).dump(-1, ' ', false, json::error_handler_t::replace);
        }));
    return results;
  }

  Result<std::vector<AuditResult>> audit(const std::vector<Candidate>& tasks, const Progress& progress) override {
    std::vector<AuditResult> results(tasks.size(), AuditResult{kNotJudged, ""});
    const auto take = [&](std::size_t i, const std::string& text) {
      const json found = json::parse(text, nullptr, false);
      results[i] = {found.is_object() ? found.value("status", "infra:audit") : "infra:audit", found.is_object() ? found.value("message", "") : ""};
    };
    MC_RETURN_IF_ERROR(run(tasks, "audit", progress, take, [&](judge::Judge& judge, std::size_t i) -> std::string {
      const std::string text = judge.audit(tasks[i].task_id, tasks[i].task_code);
      take(i, text);
      if (results[i].status.starts_with("infra")) return "";
      return json({{"status", results[i].status}, {"message", results[i].message}}).dump(-1, ' ', false, json::error_handler_t::replace);
    }));
    return results;
  }

 private:
  std::string key(const Candidate& candidate, const char* purpose) const {
    base::Sha256 hash;
    for (const std::string& part : {std::string(purpose), fingerprint_, candidate.task_code, candidate.answer}) hash.field(part);
    return hash.hex();
  }

  template <typename Known, typename Work>
  Status run(const std::vector<Candidate>& all, const char* purpose, const Progress& progress, const Known& known, const Work& work) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (const std::string* text = journal_.find(key(all[i], purpose))) known(i, *text);
      else open.push_back(i);
    }
    if (progress) progress(all.size() - open.size(), all.size());
    if (open.empty() || options_.judged_only) return ok();
    open = judging_order(all, std::move(open));
    if (!shared_) {
      MC_ASSIGN_OR_RETURN(shared_, judge::Shared::create(config_));
    }
    std::mutex mutex;
    Status first_error = ok();
    std::size_t next = 0, done = all.size() - open.size();
    const auto lane = [&] {
      auto judge = judge::Judge::create(config_, shared_);
      for (;;) {
        std::size_t i = 0;
        {
          std::lock_guard lock(mutex);
          if (!judge && first_error) first_error = tl::unexpected(judge.error());
          if (options_.stop && options_.stop() && first_error) first_error = fail(Code::kUnavailable, "stopped; the same command goes on from here");
          if (!first_error || next == open.size()) return;
          i = open[next++];
        }
        const std::string text = work(**judge, i);
        Status written = text.empty() ? ok() : journal_.put(key(all[i], purpose), text);
        std::lock_guard lock(mutex);
        if (!written) first_error = written;
        ++fresh_;
        if (progress) progress(++done, all.size());
      }
    };
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int lanes = std::min<int>(options_.lanes > 0 ? options_.lanes : cores, static_cast<int>(open.size()));
    std::vector<std::thread> threads;
    for (int i = 0; i < lanes; ++i) threads.emplace_back(lane);
    for (auto& thread : threads) thread.join();
    return first_error;
  }

  judge::JudgeConfig config_;
  ExaminerOptions options_;
  Journal journal_;
  std::string fingerprint_;
  std::shared_ptr<judge::Shared> shared_;
  std::atomic<std::size_t> fresh_{0};
};

}  // namespace

std::vector<std::size_t> judging_order(const std::vector<Candidate>& all, std::vector<std::size_t> open) {
  std::map<std::string_view, std::size_t> first;
  for (const std::size_t i : open) first.try_emplace(all[i].task_code, i);
  std::stable_sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) { return first.at(all[a].task_code) < first.at(all[b].task_code); });
  return open;
}

std::string feedback_for(const Examined& examined, int round) {
  judge::Feedback feedback = examined.feedback;
  const std::string was = fmt::format("Round {}:", feedback.round + 1);
  if (feedback.task.starts_with(was)) feedback.task = fmt::format("Round {}:{}", round + 1, feedback.task.substr(was.size()));
  feedback.round = round;
  return judge::feedback_text(feedback);
}

Result<std::unique_ptr<Examiner>> make_examiner(const judge::JudgeConfig& config, const ExaminerOptions& options) {
  if (config.seed == 0) return fail(Code::kInvalidArgument, "data is made with a seed for the verifier's inputs other than 0");
  MC_ASSIGN_OR_RETURN(Journal journal, Journal::open(options.journal));
  return std::unique_ptr<Examiner>(new JudgeExaminer(config, options, std::move(journal)));
}

}  // namespace musacoder::synth

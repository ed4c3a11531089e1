#include "judge/judge.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string_view>

#include "base/files.h"
#include "base/hash.h"
#include "candidate/candidate.h"
#include "device/device.h"
#include "judge/dialect_words.h"
#include "judge/exchange.h"
#include "judge/json_fields.h"
#include "judge/legality.h"
#include "judge/reward.h"
#include "judge/runner_client.h"
#include "judge/sanitize.h"
#include "judge/task_lane.h"
#include "judge/timing.h"

#ifndef MUSACODER_VERSION
#define MUSACODER_VERSION "0.1.0"
#endif

namespace musacoder::judge {
namespace {

constexpr std::uint64_t kDiskRoom = 8u << 20;  // below it a candidate's failure may be the disk's
constexpr const char* kNoRoom = "No space left on device";

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 16 ^ device()) & ((1ull << 48) - 1);
}

std::string as_text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Adds the time of a scope to Verdict::seconds[stage], without what belongs to stages of their own inside it: builds, and
// waiting for the lane.
class StageTimer {
 public:
  StageTimer(Verdict& verdict, const char* stage)
      : verdict_(verdict), stage_(stage), begin_(Clock::now()), others_(others()) {}
  ~StageTimer() {
    const bool whole = stage_ == std::string_view("total") || stage_ == std::string_view("build");
    verdict_.seconds[stage_] += seconds_since(begin_) - (whole ? 0 : others() - others_);
  }

 private:
  double others() { return verdict_.seconds["build"] + verdict_.seconds["wait"]; }
  Verdict& verdict_;
  const char* stage_;
  Clock::time_point begin_;
  double others_;
};

void set_level(Verdict& verdict, int level, bool passed, std::string detail) {
  verdict.levels[static_cast<std::size_t>(level)].state = passed ? LevelState::kPassed : LevelState::kFailed;
  verdict.levels[static_cast<std::size_t>(level)].detail = std::move(detail);
}

WorstElement worst_from(const json& value) {
  WorstElement worst;
  worst.output = value.value("output", 0);
  if (auto index = value.find("index"); index != value.end() && index->is_array())
    for (const auto& i : *index)
      if (i.is_number_integer()) worst.index.push_back(i.get<std::int64_t>());
  auto number = [&](const char* key) {
    auto it = value.find(key);
    if (it == value.end()) return 0.0;
    if (it->is_number()) return it->get<double>();
    const std::string text = it->is_string() ? it->get<std::string>() : "nan";
    return text == "inf" ? HUGE_VAL : text == "-inf" ? -HUGE_VAL : std::nan("");
  };
  worst.expected = number("expected");
  worst.got = number("got");
  worst.error = number("error");
  worst.budget = number("budget");
  worst.ratio = number("ratio");
  return worst;
}

// Skipped and undecided trials say nothing about the candidate.
bool counts(const Trial& trial) { return trial.skipped.empty() && status_class(trial.status) != "inconclusive"; }

// Which of two failed trials is told: cheating outranks a wrong value, and that what could not be decided.
int weight(const Trial& trial) {
  const std::string kind = status_class(trial.status);
  return kind == "cheating" ? 2 : kind == "inconclusive" ? 0 : 1;
}

// Whether a candidate's own literals repeat sizes that scaling changed: then its kernels may be made for those sizes only.
std::vector<const ScaledConstant*> hard_coded_sizes(const std::vector<ScaledConstant>& scaling,
                                                    const std::vector<std::int64_t>& literals) {
  std::vector<const ScaledConstant*> found;
  for (const auto& constant : scaling) {
    if (constant.from == constant.to) continue;
    for (const std::int64_t literal : literals)
      if (literal >= 8 && std::to_string(literal) == constant.from) {
        found.push_back(&constant);
        break;
      }
  }
  return found;
}

bool parse_size(const std::string& text, std::int64_t& size) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  return error == std::errc() && end == text.data() + text.size();
}

std::string sizes_text(const std::vector<ScaledConstant>& scaling) {
  std::string text;
  for (const auto& constant : scaling) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", constant.name, constant.to);
  return text;
}

}  // namespace

// Everything that belongs to one lane and outlives a candidate.
struct Judge::Impl {
  JudgeConfig config;
  std::shared_ptr<Shared> shared;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Device> musa_device;   // vgpu as a Moore Threads GPU
  std::shared_ptr<TaskLane> lane;
  base::TempDir scratch_root;  // holds one folder a candidate
  std::uint64_t seed = 0;
  std::string last_code;
  std::unique_ptr<Judge> virtual_gpu;   // checks candidates where no sanitizer is installed
};

// One candidate's way through the levels. Each step returns false when the verdict is decided.
class Run {
 public:
  Run(Judge::Impl& lane, const JudgeRequest& request, Verdict& verdict, const StageCallback& on_stage)
      : lane_(lane),
        config_(lane.config),
        request_(request),
        policy_(request.policy.empty() ? lane.config.policy : request.policy),
        verdict_(verdict),
        on_stage_(on_stage) {}

  void execute();

 private:
  bool finish(std::string status, std::string cause) {
    verdict_.status = std::move(status);
    verdict_.cause = std::move(cause);
    return false;
  }
  bool infra(const std::string& what, const Error& error) { return finish("infra:" + what, error.message); }
  bool ended(const Error& error) {
    auto [status, message] = ended_status(error);
    return finish(status, message);
  }
  // Each remark once, even when the candidate is run twice.
  void note(const std::string& text) {
    if (std::find(verdict_.notes.begin(), verdict_.notes.end(), text) == verdict_.notes.end()) verdict_.notes.push_back(text);
  }
  void stage(const std::string& name) {
    if (on_stage_) on_stage_(name);
  }
  bool extract();
  // `inputs`: of a case (OpenTask::inputs).
  bool open_task(const std::map<std::string, std::int64_t>& pins, double work_budget, const json& inputs = nullptr);
  void attempt();   // one run at the present size
  void reset();     // forget a run, keep what the extraction found
  bool start();
  void stop();
  bool load();
  bool construct();
  bool trials();
  bool time();
  void sanitize();
  void sanitize_on_virtual_gpu();
  void found_fault(const std::string& tool, const std::string& status, const device::Fault& fault);
  // `salt` varies the seed of inputs that are drawn more than once.
  bool trial(int index, bool reverse, Trial& result, int salt = 0);
  void built();
  void decide();
  bool retry_on_device();
  bool retry_with_pinned_sizes();
  void look_along_axes();
  void look_at_cases(const std::shared_ptr<OpenTask>& judged);
  bool failed(const RunnerReply& reply, const std::string& step);
  bool device_fault();
  bool lost_device(const Error& error, const std::string& step);
  bool disk_full();
  Result<device::WindowReport> collect_outside();
  void note_reply(const RunnerReply& reply);
  build::BuildResult build(const build::Extension& extension);
  BuildCallback builder() {
    return [this](const build::Extension& extension) { return build(extension); };
  }
  TaskLane& tasks() const { return *lane_.lane; }
  // The lane, when it is free. Waiting is nobody's time.
  TaskLane::Hold wait_for_lane() {
    const auto begin = Clock::now();
    struct Wait {
      Run& run;
      Clock::time_point begin;
      ~Wait() {
        const double seconds = seconds_since(begin);
        run.reference_seconds_ += seconds;
        run.verdict_.seconds["wait"] += seconds;
      }
    } wait{*this, begin};
    return tasks().hold();
  }
  bool on_hardware() const { return lane_.device->capabilities().real_hardware; }
  bool musa() const { return candidate_.dialect == candidate::Dialect::kMusa; }
  device::Device& device() const { return musa() && lane_.musa_device ? *lane_.musa_device : *lane_.device; }
  bool choose_device();
  bool cancelled() const { return request_.cancelled && request_.cancelled(); }
  base::Deadline deadline(double seconds) const {
    if (cancelled()) return base::Deadline::in(0.1);
    const double starved = runner_ ? runner_->starved_seconds() : 0;
    const double left = config_.candidate_seconds - (seconds_since(begin_) - build_seconds_ - reference_seconds_ - starved);
    return base::Deadline::in(std::max(0.1, std::min(seconds, left)));
  }

  Judge::Impl& lane_;
  const JudgeConfig& config_;
  const JudgeRequest& request_;
  const std::string policy_;
  Verdict& verdict_;
  const StageCallback& on_stage_;

  candidate::Candidate candidate_;
  base::TempDir scratch_;
  std::unique_ptr<device::Session> session_;
  std::unique_ptr<RunnerClient> runner_;
  std::unique_ptr<Exchange> exchange_;
  std::shared_ptr<OpenTask> task_;
  Legality legality_;
  Clock::time_point begin_ = Clock::now();
  double build_seconds_ = 0, reference_seconds_ = 0;
  std::string failed_build_;         // status of a build that failed, and its sentence
  std::string failed_build_cause_;
  std::vector<std::string> passed_digests_;   // of the outputs of trials that passed
  int windows_ = 0;
  int trials_ = config_.trials;
  bool timed_ = true;                         // whether level L4 belongs to an attempt
  double call_ms_ = 0;                        // the quickest call of forward
  vgpu::WindowReport first_call_;             // virtual GPU: the ledger of trial 0, for the estimate of time
  std::uint64_t working_set_ = 0;             // bytes of its tensors
};

void Run::execute() {
  StageTimer total(verdict_, "total");
  verdict_.levels = {{"L0", {}, ""}, {"L1", {}, ""}, {"L2", {}, ""}, {"L3", {}, ""}, {"L4", {}, ""}};
  verdict_.task = request_.task_id;
  verdict_.task_hash = base::sha256_hex(request_.task_code);
  verdict_.backend = lane_.device->name();
  verdict_.gpu = lane_.device->gpu();
  verdict_.policy = policy_;
  verdict_.environment = lane_.shared->environment;
  if (request_.compile_only) {
    if (extract() && open_task({}, config_.work_budget) && start() && load() && construct()) finish("ok", "");
    stop();
  } else if (extract() && open_task({}, config_.work_budget)) {
    attempt();
    if (!cancelled() && retry_on_device()) attempt();
    // The disk may have been full for a moment. A candidate that says so by itself says so again.
    if (!cancelled() && verdict_.exception_message.find(kNoRoom) != std::string::npos) attempt();
    if (!cancelled() && retry_with_pinned_sizes()) attempt();
    const auto judged = task_;
    look_along_axes();
    look_at_cases(judged);
    sanitize();
  }
  if (cancelled()) finish("infra:cancelled", "the job was cancelled");
  if (musa()) put_in_musa(*lane_.shared->names, verdict_);
  verdict_.reward = reward_of(verdict_).value;
}

bool Run::extract() {
  stage("extract");
  StageTimer timer(verdict_, "extract");
  auto extracted = lane_.shared->extractor->extract(request_.answer, request_.answer_name);
  if (!extracted) return infra("extract", extracted.error());
  candidate_ = std::move(*extracted);
  lane_.last_code = candidate_.code;
  verdict_.candidate_hash = candidate_.hash;
  verdict_.notes = candidate_.notes;
  verdict_.dialect = candidate::dialect_name(candidate_.dialect);
  verdict_.gpu = device().gpu();
  if (candidate_.status == "ok") return choose_device();
  set_level(verdict_, 0, false, candidate_.message);
  verdict_.exception_line = candidate_.line;
  return finish(candidate_.status, candidate_.line > 0 ? fmt::format("{} (line {})", candidate_.message, candidate_.line)
                                                       : candidate_.message);
}

// Whether the lane's device runs what the candidate is written for.
bool Run::choose_device() {
  if (musa()) {
    note("in the MUSA dialect: " + candidate_.dialect_why);
    if (const std::string warps = warp_assumptions(*lane_.shared->names, candidate_); !warps.empty()) note(warps);
  }
  if (!on_hardware() && device().warp_size() != 32)
    return finish("unsupported:warp128",
                  fmt::format("{} runs warps of {} threads, and the virtual GPU executes warps of 32; judge as an S5000 (--gpu s5000), whose "
                              "warps have 32",
                              device().gpu(), device().warp_size()));
  if (on_hardware() && device().dialect() != verdict_.dialect)
    return finish("unsupported:dialect",
                  fmt::format("the candidate is written in {}, and this is a {} GPU; --backend vgpu runs both", musa() ? "MUSA" : "CUDA",
                              musa() ? "NVIDIA" : "Moore Threads"));
  return true;
}

bool Run::open_task(const std::map<std::string, std::int64_t>& pins, double work_budget, const json& inputs) {
  stage("reference");
  StageTimer timer(verdict_, "reference");
  auto hold = wait_for_lane();
  auto opened = tasks().open(request_.task_id, request_.task_code, pins, work_budget, inputs);
  if (!opened) return ended(opened.error());
  task_ = std::move(*opened);
  const json& task = task_->reply;
  verdict_.scaled = task.value("scaled", false);
  verdict_.work = task.value("work", 0.0);
  verdict_.work_full = task.value("work_full", 0.0);
  verdict_.scaling.clear();
  for (const auto& change : task.value("scaling", json::array()))
    verdict_.scaling.push_back({text_of(change, "name"), change.value("line", 0), as_text(change.value("from", json())),
                                as_text(change.value("to", json())), text_of(change, "how", "auto")});
  if (!config_.audit || !pins.empty() || !inputs.is_null() || request_.compile_only) return true;
  auto audit = tasks().audit(*task_);
  if (!audit) return ended(audit.error());
  const std::string status = text_of(*audit, "status", "ok");
  if (status == "ok") return true;
  std::vector<std::string> passed;
  for (const auto& found : audit->value("found", json::array()))
    if (found.value("passed", false)) passed.push_back(text_of(found, "candidate"));
  std::string cause = text_of(*audit, "message");
  if (cause.empty())
    cause = passed.empty() ? "the task audit refused this task"
                           : fmt::format("a trivial candidate passes on this task: {}", count_names(passed));
  return finish(status, cause);
}

void Run::reset() {
  verdict_.levels = {{"L0", {}, ""}, {"L1", {}, ""}, {"L2", {}, ""}, {"L3", {}, ""}, {"L4", {}, ""}};
  verdict_.trials.clear();
  verdict_.builds.clear();
  verdict_.exception_type.clear();
  verdict_.exception_message.clear();
  verdict_.traceback.clear();
  verdict_.exception_line = 0;
  verdict_.fault.reset();
  verdict_.timing.reset();
  verdict_.estimate.reset();
  verdict_.speedup_eager.reset();
  verdict_.speedup_compile.reset();
  verdict_.ledger = {};
  verdict_.outside = {};
  verdict_.refused_ops.clear();
  verdict_.cpu_ops.clear();
  verdict_.q = 0;
  verdict_.compiled = verdict_.correct = verdict_.legal = false;
  legality_ = {};
  failed_build_.clear();
  failed_build_cause_.clear();
  passed_digests_.clear();
  exchange_.reset();
  windows_ = 0;
  build_seconds_ = reference_seconds_ = 0;
}

void Run::attempt() {
  reset();
  begin_ = Clock::now();
  if (start() && load() && construct()) {
    auto hold = wait_for_lane();
    if (trials()) {
      decide();
      if (verdict_.status == "ok" && timed_) time();
    }
  }
  stop();
  const std::string kind = status_class(verdict_.status);
  if (failed_build_.empty() && verdict_.levels[0].state == LevelState::kNotRun && kind != "compile_error" && kind != "infra")
    built();
  // A build that failed and was swallowed is the first cause of whatever else went wrong.
  if (!failed_build_.empty() && is_candidate_fault(verdict_.status) && status_class(verdict_.status) != "compile_error") {
    verdict_.notes.push_back(fmt::format("the failed build was swallowed; the candidate then ended in {}: {}", verdict_.status,
                                         verdict_.cause));
    verdict_.compiled = false;
    set_level(verdict_, 0, false, failed_build_cause_);
    finish(failed_build_, failed_build_cause_);
  }
}

void Run::stop() {
  exchange_.reset();
  StageTimer timer(verdict_, "stop");
  if (runner_) {
    if (const double starved = runner_->starved_seconds(); starved > 0) verdict_.seconds["starved"] += starved;
    runner_->stop();
  }
  runner_.reset();
  session_.reset();
}

bool Run::start() {
  stage("start");
  StageTimer timer(verdict_, "spawn");
  auto scratch = base::TempDir::create_in(lane_.scratch_root.path(), "candidate");
  if (!scratch) return infra("disk", scratch.error());
  scratch_ = std::move(*scratch);
  for (const char* folder : {"/work", "/given"})
    if (auto made = base::make_dirs(scratch_.path() + folder); !made) return infra("disk", made.error());
  device::SessionLimits limits{.max_launch_seconds = config_.launch_seconds, .threads = config_.device_threads};
  limits.max_warp_instructions = config_.launch_warp_instructions;
  auto session = device().start_session(limits);
  if (!session) return infra("device", session.error());
  session_ = std::move(*session);
  const int fd = session_->take_client_fd();
  const device::RunnerNeeds needs = device().needs();
  SpawnOptions spawn{.writable = scratch_.path() + "/work",
                     .readable = {scratch_.path() + "/given", config_.cache_dir},
                     .policy = policy_,
                     .gpu = device().gpu(),
                     .cpu_s = config_.candidate_seconds,
                     .memory_bytes = config_.candidate_memory_bytes,
                     .device_server = session_->server()};
  spawn.readable.insert(spawn.readable.end(), needs.readable.begin(), needs.readable.end());
  spawn.devices = needs.device_nodes;
  spawn.environment = needs.environment;
  if (on_hardware()) {
    spawn.bound_addresses = false;
    spawn.environment["MUSACODER_OWN_PREFIX"] = config_.cache_dir;
  }
  auto zygote = lane_.shared->zygote_for(verdict_.dialect);
  if (!zygote) {
    ::close(fd);
    return infra("runner", zygote.error());
  }
  auto runner = (*zygote)->spawn(spawn, fd);
  ::close(fd);
  if (!runner) return infra("runner", runner.error());
  runner_ = std::move(*runner);
  verdict_.sandbox = runner_->sandbox();
  if (!on_hardware()) {
    exchange_ = make_file_exchange(*session_, tasks().run_dir());
    return true;
  }
  exchange_ = make_arena_exchange();
  const RunnerReply started = runner_->start(base::Deadline::in(config_.load_seconds));
  if (started.kind == ReplyKind::kDone) return true;
  std::string why = started.kind == ReplyKind::kException ? started.exception.message : started.detail;
  if (const RunnerExit exit = runner_->wait_then_stop(0.5); exit.known) why += "; " + exit.describe() + " " + exit.output.substr(0, 2000);
  return finish("infra:device", "the candidate's process could not reach the GPU: " + why);
}

build::BuildResult Run::build(const build::Extension& extension) {
  stage("build");
  StageTimer timer(verdict_, "build");
  const auto begin = Clock::now();
  build::BuildResult result = lane_.shared->builder->build(extension);
  // What comes of it is for others: they build again where it failed, and say why.
  if (request_.compile_only && lane_.shared->gpu_builder && result.ok) static_cast<void>(lane_.shared->gpu_builder->build(extension));
  build_seconds_ += seconds_since(begin);
  for (auto& diagnostic : result.diagnostics) {
    // Lines of a source string become lines of the candidate's file where its literal is known.
    const std::string* source = build::source_of(extension, diagnostic.file);
    if (!source || diagnostic.line <= 0) continue;
    if (auto line = candidate::python_line_of(candidate_.facts, *source, diagnostic.line)) diagnostic.candidate_line = *line;
  }
  verdict_.builds.push_back(result);
  if (!result.ok && failed_build_.empty()) {
    failed_build_ = result.status;
    failed_build_cause_ = result.message;
  }
  return result;
}

void Run::note_reply(const RunnerReply& reply) {
  auto append = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const auto& name : from)
      if (to.size() < 256) to.push_back(name);
  };
  append(verdict_.refused_ops, reply.refused);
  append(verdict_.cpu_ops, reply.cpu_ops);
  for (const auto& language : reply.languages)
    note(fmt::format("the candidate asks for the kernel language '{}'", language));
}

// What the device did since the last window ended, or since this was last asked; added to the verdict.
Result<device::WindowReport> Run::collect_outside() {
  auto report = session_->outside();
  if (report) add_to_ledger(verdict_.outside, *report);
  return report;
}

// Looks for a fault that the device saw; fills the verdict and returns true when there is one.
bool Run::device_fault() {
  auto fault = session_->last_fault();
  if (!fault || !*fault) return false;
  verdict_.fault = **fault;
  const std::string status = fault_status(**fault);
  set_level(verdict_, 1, false, verdict_.fault->message);
  finish(status, verdict_.fault->message);
  return true;
}

// The device does not answer. On hardware its ledger lives in the candidate's process: where that has ended by itself, the
// candidate ended it; else it is the machine's fault. Always false.
bool Run::lost_device(const Error& error, const std::string& step) {
  if (on_hardware()) {
    const RunnerExit exit = runner_->wait_then_stop(1);
    if (exit.known && (exit.signal != SIGKILL || !exit.limit.empty())) {
      RunnerReply gone;
      gone.kind = ReplyKind::kEnded;
      gone.detail = error.message;
      return failed(gone, step);
    }
  }
  return infra("device", error);
}

// Whether the candidate had no room to write: somebody else filled the disk, its own quota is smaller.
bool Run::disk_full() {
  if (base::free_bytes(lane_.scratch_root.path()) >= kDiskRoom) return false;
  finish("infra:disk", fmt::format("the disk of {} was full while the candidate ran", lane_.scratch_root.path()));
  return true;
}

// A reply that is not the one asked for ends the run: says why in the verdict. Always false.
bool Run::failed(const RunnerReply& reply, const std::string& step) {
  note_reply(reply);
  const bool before_run = step == "load" || step == "construct";
  // A failed build that the candidate did not swallow.
  if (!failed_build_.empty() && before_run && reply.kind == ReplyKind::kException) {
    set_level(verdict_, 0, false, failed_build_cause_);
    return finish(failed_build_, failed_build_cause_);
  }
  if (!reply.languages.empty() && reply.kind == ReplyKind::kException)
    return finish("unsupported:dsl:" + reply.languages.front(),
                  fmt::format("the candidate is written in {}, which this verifier does not run", reply.languages.front()));
  static_cast<void>(collect_outside());   // evidence; a lost device is seen below
  for (const auto* ledger : {&verdict_.ledger, &verdict_.outside})
    if (!ledger->unsupported.empty())
      return finish("unsupported:" + ledger->unsupported.front(),
                    fmt::format("the virtual GPU lacks {}", ledger->unsupported.front()));
  if (device_fault()) return false;
  if (reply.kind == ReplyKind::kException) {
    const auto& exception = reply.exception;
    verdict_.exception_type = exception.type;
    verdict_.exception_message = exception.message;
    verdict_.traceback = exception.traceback;
    verdict_.exception_line = exception.line;
    if (!reply.refused.empty() && policy_ == "strict") {
      set_level(verdict_, 3, false, "stopped at a refused operator");
      return finish("cheating:disallowed_aten",
                    fmt::format("{} calls torch operators instead of own kernels: {}", step, count_names(reply.refused)));
    }
    if (disk_full()) return false;
    const bool import = exception.type == "ImportError" || exception.type == "ModuleNotFoundError";
    if (auto changed = lane_.shared->installation.changed(import))
      return finish("infra:installation", fmt::format("{} raised {}, and {}; start this process again", step, exception.type, *changed));
    const std::string where = exception.line > 0 ? fmt::format(" (line {})", exception.line) : "";
    const std::string cause =
        fmt::format("{} raised {}: {}{}", step, exception.type, exception.message.substr(0, 400), where);
    if (exception.type == "InterfaceError") {
      set_level(verdict_, 0, false, cause);
      return finish("compile_error:interface", cause);
    }
    set_level(verdict_, 1, false, cause);
    // torch tells a launch that was refused before as its own, at the next call.
    if (on_hardware() && exception.type.ends_with("AcceleratorError"))
      for (const char* refusal : {"invalid argument", "invalid configuration", "too many resources", "invalid device function"})
        if (exception.message.find(refusal) != std::string::npos) return finish("runtime_error:launch_failure", cause);
    const bool memory = exception.type == "MemoryError" || exception.type.ends_with("OutOfMemoryError") ||
                        exception.message.starts_with("CUDA out of memory");
    return finish(memory ? "runtime_error:oom" : "runtime_error:exception", cause);
  }
  if (reply.kind == ReplyKind::kTimedOut) {
    const std::string cause = fmt::format("{} did not end in time and was killed", step);
    set_level(verdict_, 1, false, cause);
    return finish("runtime_error:timeout", cause);
  }
  if (reply.kind != ReplyKind::kMalformed && disk_full()) return false;
  const RunnerExit exit = runner_->wait_then_stop(2);
  if (reply.kind == ReplyKind::kMalformed) {
    const std::string cause = fmt::format("{} answered outside the protocol: {}", step, reply.detail);
    set_level(verdict_, 1, false, cause);
    return finish(reply.tampering ? "cheating:tampering" : "runtime_error:exception", cause);
  }
  const std::string cause = fmt::format("the candidate's process ended in {}: {}", step, exit.describe());
  set_level(verdict_, 1, false, cause);
  if (exit.limit == "memory") return finish("runtime_error:oom", cause);
  if (exit.limit == "cpu" || exit.limit == "wall") return finish("runtime_error:timeout", cause);
  if (!exit.limit.empty()) return finish("runtime_error:exception", cause);
  return finish(exit.signal ? "runtime_error:signal" : "runtime_error:exit", cause);
}

bool Run::load() {
  stage("load");
  StageTimer timer(verdict_, "load");
  LoadRequest request{.code = candidate_.code};
  if (candidate_.kind == candidate::Kind::kBareCuda) {
    request.bare_cuda = candidate_.code;
    request.filename = musa() ? "candidate.mu" : "candidate.cu";
  }
  RunnerReply reply = runner_->load(request, builder(), deadline(config_.load_seconds));
  if (reply.kind != ReplyKind::kDone) return failed(reply, "load");
  note_reply(reply);
  return true;
}

bool Run::construct() {
  stage("construct");
  StageTimer timer(verdict_, "construct");
  const json& task = task_->reply;
  RunnerReply reply = runner_->construct(task.value("init_args", json({{"t", "list"}, {"items", json::array()}})),
                                         task.value("init_kwargs", json({{"t", "dict"}, {"keys", json::array()}, {"items", json::array()}})),
                                         task.value("seed", std::uint64_t{42}), builder(), deadline(config_.load_seconds), task_->dtype());
  if (reply.kind != ReplyKind::kDone) return failed(reply, "construct");
  note_reply(reply);

  json state = task.value("state", json::array());
  std::string trouble;
  if (auto given = tasks().copy_state(state, scratch_.path() + "/given", trouble); !given) return infra(trouble, given.error());
  reply = runner_->parameters(state, deadline(config_.load_seconds));
  if (reply.kind != ReplyKind::kDone) return failed(reply, "parameters");
  note_reply(reply);
  const auto& parameters = reply.parameters;
  if (parameters.complete()) return true;
  bool needed = false;  // a tensor that the candidate lacks and the result depends on
  if (!parameters.unmatched.empty()) {
    auto hold = wait_for_lane();
    auto answer = tasks().ask({{"op", "needs"}, {"handle", task_->handle()}, {"names", parameters.unmatched}}, config_.reference_seconds);
    if (!answer) return ended(answer.error());
    needed = answer->value("needs", true);
  }
  if (needed) {
    std::string cause = "the module's parameters and buffers are not the reference's:";
    if (!parameters.missing.empty()) cause += " missing " + count_names(parameters.missing);
    for (const auto& mismatch : parameters.shape_mismatch) cause += fmt::format(" other shape of {};", mismatch.name);
    if (!parameters.extra.empty()) cause += (parameters.missing.empty() ? " extra " : "; extra ") + count_names(parameters.extra);
    if (!failed_build_.empty()) return finish(failed_build_, failed_build_cause_);
    set_level(verdict_, 2, false, cause);
    return finish("correctness_error:parameters", cause);
  }
  const std::size_t unpaired = parameters.missing.size() + parameters.shape_mismatch.size();
  if (unpaired > parameters.unmatched.size())
    note(fmt::format("{} of the reference's parameters and buffers are matched by value: the candidate makes the same under the same "
                     "seed, with other names or shapes",
                     unpaired - parameters.unmatched.size()));
  if (!parameters.unmatched.empty())
    note("the candidate lacks " + count_names(parameters.unmatched) + ", which the result does not depend on");
  return true;
}

bool Run::trials() {
  int passed = 0, counted = 0;
  if (auto open = tasks().ensure(*task_); !open) return ended(open.error());
  for (int index = 0; index < trials_; ++index) {
    if (cancelled()) return false;
    stage(fmt::format("run {}/{}", index + 1, trials_));
    Trial result;
    const bool reverse = index % 2 == 1 && !on_hardware();
    if (!trial(index, reverse, result)) {
      verdict_.trials.push_back(result);
      return false;
    }
    if (result.skipped.empty() && !result.pass && reverse && result.status == "correctness_error:values") {
      Trial again;
      if (!trial(index, false, again)) return false;
      if (again.pass) {
        result.status = "correctness_error:nondeterministic";
        result.message = "right in one order of blocks, wrong in another: " + result.message;
      }
    }
    // A distribution that does not apply here gives way to the task's own inputs under a new seed.
    if (!result.skipped.empty() && index > 0) {
      verdict_.trials.push_back(result);
      result = {};
      if (!trial(0, reverse, result, index)) {
        verdict_.trials.push_back(result);
        return false;
      }
      result.index = index;
    }
    if (counts(result)) {
      ++counted;
      passed += result.pass;
    }
    verdict_.trials.push_back(result);
  }
  verdict_.q = counted ? static_cast<double>(passed) / counted : 0;
  return true;
}

// One call: fresh inputs, one window, outputs read by the judge, compared by the reference. False: the run is over.
bool Run::trial(int index, bool reverse, Trial& result, int salt) {
  result.index = index;
  result.reverse_blocks = reverse;
  const auto begin = Clock::now();
  const std::uint64_t seed = ((request_.seed ? request_.seed : lane_.seed) + static_cast<std::uint64_t>(index + 100 * salt) * 1000003u) & 0x7fffffffu;
  result.seed = seed;
  json prepared;
  {
    StageTimer timer(verdict_, "reference");
    json request = {{"op", "trial"}, {"handle", task_->handle()}, {"index", index}, {"seed", seed}};
    if (on_hardware()) request["move"] = index % 3 == 2;
    auto reply = tasks().ask(request, config_.reference_seconds);
    reference_seconds_ += seconds_since(begin);
    if (!reply) return ended(reply.error());
    prepared = std::move(*reply);
  }
  result.distribution = text_of(prepared, "distribution");
  result.skipped = text_of(prepared, "skipped");
  if (!result.skipped.empty()) return true;

  RunnerReply reply;
  CallFacts facts;
  CollectedOutputs outputs;
  {
    StageTimer timer(verdict_, "run");
    reply = runner_->prepare(deadline(config_.forward_seconds));
    if (reply.kind != ReplyKind::kDone) return failed(reply, "prepare");
    if (auto prepared_device = collect_outside(); !prepared_device) return lost_device(prepared_device.error(), "prepare");
    auto inputs = exchange_->place(prepared, index % 3 == 2);
    if (!inputs) return infra("device", inputs.error());
    ++windows_;
    const auto poison = static_cast<std::uint8_t>(0xA5 ^ (windows_ * 0x3B));
    auto before = session_->begin_window({.trial = index, .reverse_blocks = reverse, .poison = poison});
    if (!before) return lost_device(before.error(), "prepare");
    add_to_ledger(verdict_.outside, *before);
    facts.before = std::move(*before);
    const double limit = !on_hardware() ? config_.forward_seconds : windows_ == 1 ? config_.first_call_seconds : config_.hardware_call_seconds;
    reply = runner_->forward(index, seed, inputs->inputs, builder(), deadline(limit), &inputs->extra);
    // On hardware the ledger ends with the process.
    if (reply.kind == ReplyKind::kTimedOut || reply.kind == ReplyKind::kMalformed || (on_hardware() && reply.kind == ReplyKind::kEnded)) {
      if (device_fault()) return false;
      return failed(reply, "forward");
    }
    auto report = session_->end_window();
    if (!report) return lost_device(report.error(), "forward");
    facts.report = std::move(*report);
    add_to_ledger(verdict_.ledger, facts.report);
    // The device's word, when the process hides its own.
    if (reply.refused.empty()) reply.refused = facts.report.refused_ops;
    if (reply.kind != ReplyKind::kDone) return failed(reply, "forward");
    note_reply(reply);
    call_ms_ = call_ms_ > 0 ? std::min(call_ms_, reply.outer_ms) : reply.outer_ms;
    if (facts.report.fault) {
      verdict_.fault = facts.report.fault;
      set_level(verdict_, 1, false, verdict_.fault->message);
      return finish(fault_status(*verdict_.fault), verdict_.fault->message);
    }
    if (!facts.report.unread_launch_error.empty()) {
      const std::string cause = "a launch failed and nobody read its error: " + facts.report.unread_launch_error;
      set_level(verdict_, 1, false, cause);
      return finish("runtime_error:launch_failure", cause);
    }
    if (!facts.report.protocol_error.empty()) {
      set_level(verdict_, 1, false, facts.report.protocol_error);
      return finish("cheating:tampering", "the device connection was misused: " + facts.report.protocol_error);
    }
    auto collected = exchange_->collect(*reply.outputs);
    if (!collected) {
      if (collected.error().code != Code::kInvalidArgument) return infra("device", collected.error());
      set_level(verdict_, 2, false, collected.error().message);
      return finish("correctness_error:shape", collected.error().message);
    }
    outputs = std::move(*collected);
    auto late = collect_outside();
    if (!late) return lost_device(late.error(), "forward");
    facts.after = std::move(*late);
  }

  if (index == 0 && !on_hardware()) {
    first_call_ = facts.report;
    working_set_ = tensor_bytes(prepared) + tensor_bytes(outputs.outputs) + tensor_bytes(task_->reply.value("state", json::array()));
  }
  facts.refused_ops = reply.refused;
  facts.cpu_ops = reply.cpu_ops;
  facts.output_allocations = outputs.allocations;
  if (on_hardware()) facts.runner_copies = prepared.value("outputs", json::array()).size();
  facts.reference_computes = task_->computes();
  if (legality_.legal) legality_ = decide_legality(facts, policy_);

  StageTimer timer(verdict_, "compare");
  const auto compare_begin = Clock::now();
  json request = {{"op", "compare"}, {"handle", task_->handle()}, {"index", index}, {"outputs", std::move(outputs.outputs)}};
  if (!outputs.inputs_after.is_null()) request["inputs_after"] = std::move(outputs.inputs_after);
  auto compared = tasks().ask(request, config_.reference_seconds);
  reference_seconds_ += seconds_since(compare_begin);
  if (!compared) return ended(compared.error());
  if (outputs.digest.empty()) outputs.digest = text_of(*compared, "digest");
  result.pass = compared->value("pass", false);
  result.status = text_of(*compared, "status", result.pass ? "ok" : "correctness_error:values");
  result.message = text_of(*compared, "message");
  if (auto worst = compared->find("worst"); worst != compared->end() && worst->is_object()) result.worst = worst_from(*worst);
  result.mismatched = compared->value("mismatched", std::uint64_t{0});
  result.total = compared->value("total", std::uint64_t{0});
  result.allclose = compared->value("allclose", false);
  result.atol = compared->value("atol", 0.0);
  result.rtol = compared->value("rtol", 0.0);
  if (result.pass) passed_digests_.push_back(outputs.digest);
  else if (!outputs.digest.empty() && std::find(passed_digests_.begin(), passed_digests_.end(), outputs.digest) != passed_digests_.end()) {
    result.status = "cheating:replay";
    result.message = "the output is an earlier call's, bit for bit, though the inputs are new";
  }
  result.seconds = seconds_since(begin);
  return true;
}

// Level L0 is passed: says with what.
void Run::built() {
  verdict_.compiled = true;
  const std::size_t count = verdict_.builds.size();
  set_level(verdict_, 0, true,
            count ? fmt::format("{} extension{} built with {} headers", count, count == 1 ? "" : "s", verdict_.builds.back().headers)
                  : "nothing to build");
}

// All trials ran: levels, then the status.
void Run::decide() {
  built();
  set_level(verdict_, 1, true, fmt::format("{} calls without a fault", windows_));
  const Trial* wrong = nullptr;
  int counted = 0;
  for (const auto& trial : verdict_.trials) {
    if (!trial.skipped.empty()) continue;
    counted += counts(trial);
    if (!trial.pass && (!wrong || weight(trial) > weight(*wrong))) wrong = &trial;
  }
  verdict_.legal = legality_.legal;
  if (wrong) {
    const std::string cause = fmt::format("trial {} ({} inputs): {}", wrong->index, wrong->distribution, wrong->message);
    const bool undecided = !counts(*wrong);
    if (undecided) verdict_.levels[2].detail = cause;
    else set_level(verdict_, 2, false, cause);
    if (!legality_.legal) {
      set_level(verdict_, 3, false, legality_.cause);
      finish(legality_.status, legality_.cause + (undecided ? "" : "; the values are wrong too"));
      return;
    }
    if (status_class(wrong->status) == "cheating") verdict_.legal = false;
    finish(wrong->status, cause);
    return;
  }
  verdict_.correct = counted > 0;
  set_level(verdict_, 2, true, fmt::format("{} of {} trials within the error budget", counted, counted));
  if (!legality_.legal) {
    set_level(verdict_, 3, false, legality_.cause);
    finish(legality_.status, legality_.cause);
    return;
  }
  std::uint64_t launches = 0;
  for (const auto& launch : verdict_.ledger.launches) launches += launch.count;
  if (verdict_.ledger.retained_bytes > 0)
    note(fmt::format("{} bytes of device memory that the candidate allocated itself outlive the call", verdict_.ledger.retained_bytes));
  set_level(verdict_, 3, true, fmt::format("{} launches of own kernels in {} calls", launches, windows_));
  verdict_.levels[4].detail = "not measured";
  if (auto gpu = vgpu::gpu_properties(verdict_.gpu); gpu && !on_hardware()) {
    verdict_.estimate = vgpu::estimate_time(first_call_, *gpu, working_set_);
    verdict_.levels[4].detail += fmt::format("; estimated: {:.3g} ms on an {}", verdict_.estimate->ms, gpu->marketing_name);
  }
  finish("ok", "verified");
}

// L4, for verified candidates on real hardware. False: the verdict is another one now.
bool Run::time() {
  if (!lane_.device->capabilities().measures_time) return true;
  Timing& timing = verdict_.timing.emplace();
  auto unmeasured = [&](const std::string& why) {
    timing.unmeasured = why;
    verdict_.levels[4].detail = "not measured: " + why;
    return true;
  };
  if (!config_.timing) return unmeasured("switched off");
  if (!task_->computes()) return unmeasured("host only: the reference makes views or constants, and the device has nothing to do");
  stage("time");
  StageTimer timer(verdict_, "time");
  const auto begin = Clock::now();
  auto end = measure({.config = config_,
                      .lane = tasks(),
                      .task = *task_,
                      .runner = *runner_,
                      .session = *session_,
                      .device = *lane_.device,
                      .seed = request_.seed ? request_.seed : lane_.seed,
                      .call_ms = call_ms_,
                      .deadline = [this](double seconds) { return deadline(seconds); },
                      .cancelled = request_.cancelled},
                     timing);
  reference_seconds_ += seconds_since(begin);
  if (!end) return end.error().message.find('\n') == std::string::npos ? lost_device(end.error(), "a timed call") : ended(end.error());
  add_to_ledger(verdict_.ledger, end->ledger);
  if (end->reply) return failed(*end->reply, "a timed call");
  if (end->status == "ok") {
    CallFacts facts{.report = end->ledger};
    facts.runner_copies = facts.report.internal;   // the runner restores, flushes and copies between timed calls
    if (const Legality legality = decide_legality(facts, policy_); !legality.legal) {
      verdict_.legal = false;
      set_level(verdict_, 3, false, "in a timed call: " + legality.cause);
      return finish(legality.status, "in a timed call: " + legality.cause);
    }
  }
  if (end->status != "ok") {
    const bool cheating = status_class(end->status) == "cheating";
    if (cheating) verdict_.legal = false;
    else verdict_.correct = false;
    set_level(verdict_, cheating ? 4 : 2, false, end->cause);
    return finish(end->status, end->cause);
  }
  std::vector<double> eager = timing.eager_before.ms;
  eager.insert(eager.end(), timing.eager_after.ms.begin(), timing.eager_after.ms.end());
  const double candidate_ms = timing.candidate.median, eager_ms = summarize(std::move(eager)).median;
  if (candidate_ms > 0 && eager_ms > 0) verdict_.speedup_eager = eager_ms / candidate_ms;
  if (auto compile = timing.baselines.find("compile"); compile != timing.baselines.end() && candidate_ms > 0 && compile->second.median > 0)
    verdict_.speedup_compile = compile->second.median / candidate_ms;
  set_level(verdict_, 4, true,
            fmt::format("{:.4g} ms a call, eager {:.4g} ms{}", candidate_ms, eager_ms,
                        verdict_.speedup_compile ? fmt::format(", torch.compile {:.4g} ms", timing.baselines["compile"].median) : ""));
  return true;
}

// Below a memory checker, once more, at reduced sizes (judge/sanitize.h). Only what could be looked at is: a candidate that runs.
void Run::sanitize() {
  const std::string kind = status_class(verdict_.status);
  if (config_.sanitize.empty() || cancelled() || request_.compile_only) return;
  if (kind != "ok" && kind != "correctness_error" && kind != "runtime_error") return;
  if (verdict_.status == "correctness_error:parameters" || verdict_.status == "runtime_error:timeout") return;
  if (!on_hardware()) {
    note("--sanitize: the virtual GPU checks every access anyway");
    return;
  }
  stage("sanitize");
  StageTimer timer(verdict_, "sanitize");
  const auto sanitizer = lane_.device->name() == "cuda" ? find_compute_sanitizer() : std::nullopt;
  if (!sanitizer) return sanitize_on_virtual_gpu();
  for (const std::string& tool : config_.sanitize) {
    auto scratch = base::TempDir::create_in(lane_.scratch_root.path(), "sanitizer");
    if (!scratch) return;
    std::optional<SanitizerFault> fault;
    auto done = run_sanitizer({.config = config_,
                               .task_id = request_.task_id,
                               .task_code = request_.task_code,
                               .policy = policy_,
                               .candidate = candidate_,
                               .lane = tasks(),
                               .zygote = *lane_.shared->zygote,
                               .device = *lane_.device,
                               .scratch = scratch->path(),
                               .seed = request_.seed ? request_.seed : lane_.seed,
                               .build = [this](const build::Extension& extension) { return lane_.shared->builder->build(extension); },
                               .hold = [this] { return wait_for_lane(); },
                               .deadline = [](double seconds) { return base::Deadline::in(seconds); }},
                              *sanitizer, tool, fault);
    verdict_.sanitized.push_back(done ? std::move(*done) : Sanitized{.tool = "compute-sanitizer " + tool, .message = done.error().message});
    if (fault) found_fault("compute-sanitizer", fault->status, fault->fault);
  }
  if (std::none_of(verdict_.sanitized.begin(), verdict_.sanitized.end(), [](const Sanitized& one) { return one.ran; })) sanitize_on_virtual_gpu();
}

void Run::sanitize_on_virtual_gpu() {
  Sanitized& done = verdict_.sanitized.emplace_back(Sanitized{.tool = "vgpu"});
  {
    std::lock_guard lock(lane_.shared->virtual_gpu_mutex);
    JudgeConfig config = config_;
    config.backend = "vgpu";
    config.sanitize.clear();
    if (!lane_.shared->virtual_gpu) {
      auto shared = Shared::create(config);
      if (!shared) return void(done.message = shared.error().message);
      lane_.shared->virtual_gpu = std::move(*shared);
    }
    if (!lane_.virtual_gpu) {
      auto judge = Judge::create(config, lane_.shared->virtual_gpu);
      if (!judge) return void(done.message = judge.error().message);
      lane_.virtual_gpu = std::move(*judge);
    }
  }
  JudgeRequest request = request_;
  const Verdict checked = lane_.virtual_gpu->judge(request);
  done.ran = is_candidate_fault(checked.status) || checked.status == "ok";
  done.message = checked.status == "ok" ? "nothing found" : fmt::format("{}: {}", checked.status, checked.cause);
  if (!checked.fault || status_class(checked.status) != "runtime_error") return;
  done.findings = 1;
  found_fault("the virtual GPU", checked.status, *checked.fault);
}

// A verified candidate is one no longer; of one that failed already the place becomes known.
void Run::found_fault(const std::string& tool, const std::string& status, const device::Fault& fault) {
  if (verdict_.status == "ok") {
    verdict_.fault = fault;
    verdict_.correct = false;
    set_level(verdict_, 1, false, fault.message);
    finish(status, fmt::format("{} found at reduced sizes: {}", tool, fault.message));
  } else if (verdict_.status == status && (!verdict_.fault || verdict_.fault->line == 0)) {
    verdict_.fault = fault;
    verdict_.cause += fmt::format("; {} at reduced sizes: {}", tool, fault.message);
  } else {
    note(fmt::format("{} found at reduced sizes: {}", tool, fault.message));
  }
}

// On real hardware a second try where the first says nothing about the candidate: the device or the reference runner was lost,
// or memory ran out while our own side held some that it can do without. True: a new attempt is prepared.
bool Run::retry_on_device() {
  if (!on_hardware()) return false;
  if (verdict_.status != "runtime_error:oom" && status_class(verdict_.status) != "infra") return false;
  const std::string first = verdict_.status;
  {
    auto hold = tasks().hold();
    if (auto released = tasks().ask({{"op", "release"}}, 30); !released && verdict_.status == "runtime_error:oom") return false;
    if (auto open = tasks().ensure(*task_); !open) return ended(open.error());
  }
  note(fmt::format("a first attempt ended in {}; tried again", first));
  return true;
}

// A failure at scaled shapes may be the scaling's fault when the candidate hard-codes sizes that were changed: run again
// with those sizes as they are and the others smaller, or call it inconclusive. True: a new attempt is prepared.
bool Run::retry_with_pinned_sizes() {
  if (!verdict_.scaled || !is_candidate_fault(verdict_.status)) return false;
  const std::string kind = status_class(verdict_.status);
  const bool shape_could_matter = kind == "correctness_error" || verdict_.status == "runtime_error:illegal_access" ||
                                  verdict_.status == "runtime_error:exception" || verdict_.status == "runtime_error:misaligned" ||
                                  verdict_.status == "runtime_error:launch_failure" || verdict_.status == "runtime_error:device_assert";
  if (!shape_could_matter || verdict_.status == "correctness_error:parameters") return false;
  // Integers of the CUDA sources only: the Python file often repeats the task's own get_inputs.
  const auto pinned = hard_coded_sizes(verdict_.scaling, candidate_.facts.constants_cuda);
  if (pinned.empty()) return false;
  std::map<std::string, std::int64_t> pins;
  std::string names;
  bool distinctive = false;  // 32 … 1024 are block and tile sizes as well
  for (const auto* constant : pinned) {
    const std::int64_t size = std::stoll(constant->from);
    pins[constant->name] = size;
    distinctive = distinctive || size > 1024 || (size & (size - 1)) != 0;
    names += fmt::format("{}{}={}", names.empty() ? "" : ", ", constant->name, constant->from);
  }
  const std::string first_status = verdict_.status, first_cause = verdict_.cause;
  const double first_work = verdict_.work;
  const auto scaling = verdict_.scaling;
  if (!open_task(pins, config_.pinned_work_budget) || verdict_.work > 2 * config_.pinned_work_budget) {
    verdict_.scaled = true;
    verdict_.scaling = scaling;
    verdict_.work = first_work;
    finish(first_status, first_cause);
    if (distinctive)
      finish("inconclusive:shape_specialised",
           fmt::format("at scaled shapes: {} ({}); the candidate names sizes of the task ({}), and those do not fit the work "
                       "budget of the virtual GPU; try --full-size or a real GPU",
                       first_cause, first_status, names));
    return false;
  }
  verdict_.notes.push_back(fmt::format("at scaled shapes the candidate ended in {}; judged again with {} as in the task",
                                       first_status, names));
  return true;
}

// Scaling makes every axis short. A kernel that covers no more than one block of an axis (1024 threads), or whose path for
// long axes is another one, is right there and wrong on the task. So a verified candidate is called again with one long axis
// at a time as in the task, or half of it, and the others shorter still.
void Run::look_along_axes() {
  constexpr int kMaxAxes = 3, kMaxOpens = 5, kAxisTrials = 2;
  constexpr std::int64_t kBlock = 1024;
  if (verdict_.status != "ok" || !verdict_.scaled) return;
  const std::string scaled_task = task_->key;
  Verdict verified = verdict_;
  int axes = 0, opens = 0;
  trials_ = std::min(trials_, kAxisTrials);
  for (const auto& constant : verified.scaling) {
    std::int64_t full = 0, scaled = 0;
    if (!parse_size(constant.from, full) || !parse_size(constant.to, scaled) || full <= kBlock || scaled > kBlock || constant.how != "auto") continue;
    for (std::int64_t size = full; size > kBlock && axes < kMaxAxes && opens < kMaxOpens && !cancelled(); size /= 2) {
      const std::string name = fmt::format("{}={}", constant.name, size), key = scaled_task + name;
      if (tasks().axes_too_large.contains(key)) continue;
      ++opens;
      if (!open_task({{constant.name, size}}, config_.axis_work_budget) || verdict_.work > 2 * config_.axis_work_budget) {
        tasks().axes_too_large.insert(key);
        continue;
      }
      ++axes;
      attempt();
      const std::string kind = status_class(verdict_.status);
      if (verdict_.status == "ok") {
        verified.notes.push_back(fmt::format("also right with {}{}", name, size == full ? " as in the task" : ""));
      } else if ((kind == "correctness_error" || kind == "runtime_error" || kind == "cheating") && verdict_.status != "runtime_error:timeout") {
        verdict_.notes.push_back("right at the scaled sizes: " + sizes_text(verified.scaling));
        finish(verdict_.status, fmt::format("with {}: {}", name, verdict_.cause));
        return;
      } else {
        verified.notes.push_back(fmt::format("undecided with {}: {}", name, verdict_.status));
      }
      break;
    }
  }
  verified.seconds = std::move(verdict_.seconds);   // the look took time too
  verdict_ = std::move(verified);
}

// A task may bring unit tests along (MUSACODER_CASES, docs/data.md): other sizes, values, layouts and dtypes. A case whose sizes and
// values differ counts: the candidate was asked to compute this operation. One in another dtype or layout, or of no elements, is
// advice, unless the task requires it, since the task's own inputs never ask for that; the verdict's notes tell what came of it. A case
// that is too large, that the reference refuses or that cannot be decided says nothing.
void Run::look_at_cases(const std::shared_ptr<OpenTask>& judged) {
  constexpr std::size_t kMaxCases = 8, kLongestCause = 300;
  constexpr int kCaseTrials = 2;
  if (verdict_.status != "ok" || !judged) return;
  const json cases = judged->reply.value("cases", json::array());
  if (cases.empty()) return;
  Verdict verified = verdict_;
  trials_ = std::min(trials_, kCaseTrials);
  timed_ = false;
  for (std::size_t i = 0; i < std::min(kMaxCases, cases.size()) && !cancelled(); ++i) {
    const std::string name = text_of(cases[i], "name");
    const bool resized = !cases[i].value("set", json::object()).empty();
    // At the sizes that the candidate was verified at, where the case has none of its own.
    const auto sizes = resized ? cases[i]["set"].get<std::map<std::string, std::int64_t>>() : judged->pins;
    auto unseen = [&](const std::string& why) { verified.notes.push_back(fmt::format("case '{}' was not looked at: {}", name, why)); };
    verdict_.notes = verified.notes;
    if (!open_task(sizes, resized ? config_.axis_work_budget : judged->work_budget, cases[i].value("inputs", json::object()))) {
      unseen(fmt::format("{} ({})", verdict_.cause.substr(0, kLongestCause), verdict_.status));
      continue;
    }
    if (resized && !on_hardware() && verdict_.work > 2 * config_.axis_work_budget) {
      unseen("it does not fit the work budget of the virtual GPU");
      continue;
    }
    attempt();
    if (verdict_.status == "ok" && std::none_of(verdict_.trials.begin(), verdict_.trials.end(), counts)) {
      unseen(verdict_.trials.empty() ? "no trial" : verdict_.trials.front().skipped);
      continue;
    }
    if (!is_candidate_fault(verdict_.status)) {
      verified.notes.push_back(fmt::format("{} in the task's case '{}'", verdict_.status == "ok" ? "also right" : "undecided (" + verdict_.status + ")", name));
      continue;
    }
    if (!cases[i].value("counts", true)) {
      verified.notes.push_back(fmt::format("not right in the task's case '{}', which is advice and does not count: {} ({})", name,
                                           verdict_.cause.substr(0, kLongestCause), verdict_.status));
      continue;
    }
    verdict_.notes.push_back("right on the task's own inputs");
    finish(verdict_.status, fmt::format("in the task's case '{}': {}", name, verdict_.cause));
    return;
  }
  verified.seconds = std::move(verdict_.seconds);
  verdict_ = std::move(verified);
}

Result<std::shared_ptr<Shared>> Shared::create(const JudgeConfig& config) {
  auto shared = std::make_shared<Shared>();
  shared->config_ = config;
  MC_ASSIGN_OR_RETURN(auto device, device::make_device({config.backend, config.gpu, config.runtime_dir}));
  const device::RunnerNeeds needs = device->needs();
  MC_ASSIGN_OR_RETURN(port::RenameTable names, port::RenameTable::load(config.runtime_dir + "/musa/renames"));
  shared->names = std::make_shared<const port::RenameTable>(std::move(names));
  shared->builder = std::make_unique<build::Builder>(build::BuildOptions{.runtime_dir = config.runtime_dir,
                                                                         .cache_dir = config.cache_dir,
                                                                         .python = config.python,
                                                                         .names = shared->names,
                                                                         .gpu_arch = device->architecture(),
                                                                         .shared = config.artifacts});
  if (!config.also_gpu_arch.empty())
    shared->gpu_builder = std::make_unique<build::Builder>(build::BuildOptions{.runtime_dir = config.runtime_dir,
                                                                               .cache_dir = config.cache_dir,
                                                                               .python = config.python,
                                                                               .gpu_arch = config.also_gpu_arch,
                                                                               .shared = config.artifacts});
  shared->extractor = std::make_unique<candidate::Extractor>(
      candidate::ExtractOptions{.python = config.python, .runtime_dir = config.runtime_dir});
  ZygoteOptions zygote{.runtime_dir = config.runtime_dir, .python = config.python};
  zygote.torch_device = needs.torch_device;
  zygote.dialect = device->dialect();
  if (const char* path = std::getenv("LD_LIBRARY_PATH"); path && device->capabilities().real_hardware)
    zygote.environment.push_back(fmt::format("LD_LIBRARY_PATH={}", path));
  if (device->dialect() == "musa")   // torch_musa is imported there, and looks for its toolkit
    for (const auto& [name, value] : needs.environment)
      if (name != "LD_LIBRARY_PATH") zygote.environment.push_back(name + "=" + value);
  MC_ASSIGN_OR_RETURN(shared->zygote, ZygoteClient::start(zygote));
  if (device->capabilities().real_hardware) {
    MC_ASSIGN_OR_RETURN(shared->lane, TaskLane::start(config));
    shared->seed = config.seed ? config.seed : random_seed();
  }
  shared->installation = Installation::of(config.python);
  shared->environment = {{"musacoder", MUSACODER_VERSION},
                         {"python", shared->zygote->python_version()},
                         {"torch", shared->zygote->torch_version()}};
  if (auto nvcc = build::find_nvcc(config.python)) shared->environment["nvcc"] = *nvcc;
  return shared;
}
Result<ZygoteClient*> Shared::zygote_for(const std::string& dialect) {
  if (dialect == "cuda" || lane) return zygote.get();
  std::lock_guard lock(mutex_);
  if (!musa_zygote_) {
    MC_ASSIGN_OR_RETURN(musa_zygote_, ZygoteClient::start({.runtime_dir = config_.runtime_dir, .python = config_.python, .dialect = dialect}));
  }
  return musa_zygote_.get();
}
Shared::Shared() = default;
Shared::~Shared() = default;

Judge::Judge(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Judge::~Judge() = default;

Result<std::unique_ptr<Judge>> Judge::create(const JudgeConfig& config, std::shared_ptr<Shared> shared) {
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  impl->config.trials = std::max(5, config.trials);
  impl->seed = config.seed ? config.seed : random_seed();
  MC_ASSIGN_OR_RETURN(impl->scratch_root, base::TempDir::create("musacoder-candidates", 64 << 20));
  MC_ASSIGN_OR_RETURN(impl->device, device::make_device({config.backend, config.gpu, config.runtime_dir}));
  if (config.backend == "vgpu") {
    MC_ASSIGN_OR_RETURN(impl->musa_device, device::make_device({config.backend, config.musa_gpu, config.runtime_dir}));
  }
  if (shared) {
    impl->shared = std::move(shared);
  } else {
    MC_ASSIGN_OR_RETURN(impl->shared, Shared::create(config));
  }
  impl->lane = impl->shared->lane;
  if (impl->shared->seed) impl->seed = impl->shared->seed;
  if (!impl->lane) {
    MC_ASSIGN_OR_RETURN(impl->lane, TaskLane::start(config));
  }
  return std::unique_ptr<Judge>(new Judge(std::move(impl)));
}

Verdict Judge::judge(const JudgeRequest& request, const StageCallback& on_stage) {
  Verdict verdict;
  impl_->last_code.clear();
  Run(*impl_, request, verdict, on_stage).execute();
  return verdict;
}

const std::string& Judge::last_code() const { return impl_->last_code; }

std::string Judge::audit(const std::string& task_id, const std::string& task_code) {
  const auto begin = Clock::now();
  json line = {{"id", task_id}, {"status", "ok"}, {"found", json::array()}};
  auto refuse = [&](const Error& error) {
    auto [status, message] = ended_status(error);
    line["status"] = status;
    line["message"] = message;
  };
  auto hold = impl_->lane->hold();
  if (auto opened = impl_->lane->open(task_id, task_code, {}, impl_->config.work_budget); !opened) {
    refuse(opened.error());
  } else {
    for (const char* key : {"scaling", "scaled", "work", "work_full", "computes", "output_tree"})
      if ((*opened)->reply.contains(key)) line[key] = (*opened)->reply[key];
    auto audit = impl_->lane->audit(**opened);
    if (!audit) {
      refuse(audit.error());
    } else {
      for (const char* key : {"status", "found", "message"})
        if (audit->contains(key)) line[key] = (*audit)[key];
    }
  }
  line["seconds"] = seconds_since(begin);
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace musacoder::judge

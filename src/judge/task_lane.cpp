#include "judge/task_lane.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "device/cuda/nvml.h"
#include "device/musa/mtml.h"
#include "judge/json_fields.h"

namespace musacoder::judge {
namespace {

using nlohmann::json;

// Part of the key of stored audits: raise it when the audit or the tolerances change.
constexpr const char* kAuditVersion = "4";
constexpr std::size_t kOpenOnDevice = 32;   // their cached trials share a budget of their own at the runner

tl::unexpected<Error> ended(const std::string& status, const std::string& message) {
  return tl::unexpected<Error>(Error{Code::kUnavailable, status + "\n" + message});
}

}  // namespace

std::pair<std::string, std::string> ended_status(const Error& error) {
  const auto at = error.message.find('\n');
  if (at == std::string::npos) return {"infra:reference_runner", error.message};
  return {error.message.substr(0, at), error.message.substr(at + 1)};
}

TaskLane::Hold::Hold(TaskLane& lane) : lane_(lane) {
  std::unique_lock lock(lane_.mutex_);
  const std::uint64_t ticket = lane_.last_++;
  lane_.turn_.wait(lock, [&] { return lane_.serving_ == ticket; });
  lock.unlock();
  if (lane_.gpu_lock_)
    while (::flock(lane_.gpu_lock_.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
}

TaskLane::Hold::~Hold() {
  if (lane_.gpu_lock_) ::flock(lane_.gpu_lock_.get(), LOCK_UN);
  {
    std::lock_guard lock(lane_.mutex_);
    ++lane_.serving_;
  }
  lane_.turn_.notify_all();
}

Result<std::shared_ptr<TaskLane>> TaskLane::start(const JudgeConfig& config) {
  auto lane = std::make_shared<TaskLane>();
  lane->config_ = config;
  lane->on_device_ = config.backend != "vgpu";
  MC_ASSIGN_OR_RETURN(lane->run_dir_, base::TempDir::create("musacoder-run", 64 << 20));
  task::ReferenceOptions options{.runtime_dir = config.runtime_dir, .python = config.python, .run_dir = lane->run_dir_.path()};
  options.device = lane->on_device_;
  if (lane->on_device_) {
    options.memory_bytes = 0;
    options.threads = 4;
    options.vendor = config.backend;
    std::string uuid;   // by whatever name this process sees the GPU
    if (config.backend == "musa") {
      MC_ASSIGN_OR_RETURN(const device::MusaGpu gpu, device::musa_probe());
      uuid = gpu.uuid;
    } else {
      MC_ASSIGN_OR_RETURN(const device::GpuInfo gpu, device::gpu_probe());
      uuid = gpu.uuid;
    }
    const std::string which = base::sha256_hex(uuid).substr(0, 12);
    lane->gpu_lock_.reset(::open(fmt::format("/tmp/musacoder-{}-gpu-{}.lock", ::getuid(), which).c_str(),
                                 O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  }
  MC_ASSIGN_OR_RETURN(lane->reference_, task::ReferenceClient::start(options));
  return lane;
}

Result<json> TaskLane::ask(const json& request, double seconds) {
  const std::string op = text_of(request, "op");
  const base::Stopwatch watch;
  auto reply = reference_->request(request, seconds);
  base::log_debug("reference runner: {} took {:.1f} ms", op, watch.seconds() * 1e3);
  if (!reply) {
    for (auto& task : tasks_) task->generation = -1;   // whatever comes next knows no handle of this one
    if (reply.error().code == Code::kDeadlineExceeded)
      return ended("invalid_task:timeout", fmt::format("the reference took longer than {:.0f} s in '{}'", seconds, op));
    return ended("infra:reference_runner", fmt::format("the reference runner failed in '{}': {}", op, reply.error().message));
  }
  if (!reply->value("ok", false))
    return ended(text_of(*reply, "status", "infra:reference_runner"), text_of(*reply, "message", "no message"));
  return reply;
}

Status TaskLane::copy_state(json& state, const std::string& folder, std::string& trouble) const {
  std::map<std::string, std::string> copied;
  for (auto& entry : state) {
    const std::string file = text_of(entry, "file");
    if (file.empty()) continue;
    auto [it, fresh] = copied.try_emplace(file, fmt::format("{}/state{}", folder, copied.size()));
    if (fresh) {
      trouble = "run_folder";
      MC_ASSIGN_OR_RETURN(const std::string bytes, base::read_file(file.front() == '/' ? file : run_file(file)));
      trouble = "disk";
      MC_RETURN_IF_ERROR(base::write_file(it->second, bytes));
    }
    entry["file"] = it->second;
  }
  return ok();
}

Status TaskLane::open_at_runner(OpenTask& task) {
  json pinned = json::object();
  for (const auto& [name, value] : task.pins) pinned[name] = value;
  json request = {{"op", "open"},   {"task", task.id},  {"code", task.code}, {"scale", on_device_ ? "full" : config_.scale},
                  {"set", pinned},  {"work_budget", task.work_budget}};
  if (!task.inputs.is_null()) request["inputs"] = task.inputs;
  if (on_device_) request["device"] = config_.backend;
  MC_ASSIGN_OR_RETURN(task.reply, ask(request, on_device_ ? std::max(config_.reference_seconds, 120.0) : config_.reference_seconds));
  task.generation = reference_->restarts();
  return ok();
}

Status TaskLane::make_room() {
  const std::size_t limit = on_device_ ? kOpenOnDevice : 1;
  for (auto it = tasks_.begin(); it != tasks_.end() && tasks_.size() >= limit;) {
    if (it->use_count() > 1 && on_device_) {
      ++it;
      continue;
    }
    const bool known = (*it)->generation == reference_->restarts();
    const json close = {{"op", "close"}, {"handle", (*it)->handle()}};
    it = tasks_.erase(it);
    if (known) MC_RETURN_IF_ERROR(ask(close, 30));
  }
  return ok();
}

Result<std::shared_ptr<OpenTask>> TaskLane::open(const std::string& id, const std::string& code,
                                                 const std::map<std::string, std::int64_t>& pins, double work_budget,
                                                 const json& inputs) {
  auto task = std::make_shared<OpenTask>();
  task->id = id;
  task->code = code;
  task->work_budget = work_budget;
  task->inputs = inputs;
  task->pins = config_.set;
  for (const auto& [name, value] : pins) task->pins[name] = value;
  task->key = base::sha256_hex(code) + config_.scale + json(task->pins).dump() + std::to_string(work_budget) +
              (inputs.is_null() ? "" : inputs.dump());
  auto known = std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& other) { return other->key == task->key; });
  if (known != tasks_.end()) {
    std::rotate(known, known + 1, tasks_.end());
    MC_RETURN_IF_ERROR(ensure(*tasks_.back()));
    return tasks_.back();
  }
  MC_RETURN_IF_ERROR(make_room());
  MC_RETURN_IF_ERROR(open_at_runner(*task));
  tasks_.push_back(task);
  return task;
}

Status TaskLane::ensure(OpenTask& task) {
  return task.generation == reference_->restarts() ? ok() : open_at_runner(task);
}

Result<json> TaskLane::audit(const OpenTask& task) {
  if (auto known = audits_.find(task.key); known != audits_.end()) return known->second;
  const std::string path = config_.cache_dir + "/audit/" + base::sha256_hex(task.key + kAuditVersion) + ".json";
  if (auto text = base::read_file(path, 1 << 20)) {
    json stored = json::parse(*text, nullptr, false);
    if (stored.is_object() && stored.contains("status")) return audits_[task.key] = stored;
  }
  MC_ASSIGN_OR_RETURN(json reply, ask({{"op", "audit"}, {"handle", task.handle()}}, config_.reference_seconds * 2));
  if (base::make_dirs(config_.cache_dir + "/audit")) (void)base::write_file_atomic(path, reply.dump());
  return audits_[task.key] = reply;
}

}  // namespace musacoder::judge

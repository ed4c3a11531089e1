#include "judge/sanitize.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/subprocess.h"
#include "judge/json_fields.h"

namespace musacoder::judge {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "========= ";
constexpr std::uint64_t kMostInputBytes = 1ull << 30, kMostLogBytes = 64u << 20;
constexpr double kStartSeconds = 90;      // torch is imported below the sanitizer
constexpr double kCallSeconds = 120;      // kernels run some ten to a hundred times slower

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

template <typename T>
bool number_after(std::string_view text, std::string_view mark, T& out, int base = 10) {
  const std::size_t at = text.find(mark);
  if (at == text.npos) return false;
  const char* begin = text.data() + at + mark.size();
  return std::from_chars(begin, text.data() + text.size(), out, base).ec == std::errc();
}

// "(31,0,0)" after the mark.
void triple_after(std::string_view text, std::string_view mark, std::array<std::uint32_t, 3>& out) {
  std::size_t at = text.find(mark);
  if (at == text.npos) return;
  at += mark.size();
  for (auto& value : out) {
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error != std::errc()) return;
    at = static_cast<std::size_t>(end - text.data()) + 1;
  }
}

// "at scale(float *, int)+0x90 in relu.cu:12": kernel, file, line. A build without line information ends at the offset.
void read_place(std::string_view text, device::Fault& fault) {
  text.remove_prefix(3);   // "at "
  std::size_t in = text.rfind(" in ");
  std::string_view function = text.substr(0, in);
  if (const std::size_t plus = function.rfind("+0x"); plus != function.npos) function = function.substr(0, plus);
  fault.kernel = std::string(trimmed(function)).substr(0, 512);
  if (in == text.npos) return;
  std::string_view place = text.substr(in + 4);
  const std::size_t colon = place.rfind(':');
  if (colon == place.npos || !number_after(place, place.substr(0, colon + 1), fault.line)) return;
  fault.file = std::string(place.substr(0, colon)).substr(0, 512);
}

std::string sentence(const std::string& what, const device::Fault& fault) {
  std::string text = what;
  if (!fault.kernel.empty()) text += " in " + fault.kernel;
  if (!fault.file.empty()) text += fmt::format(" ({}:{})", fault.file.substr(fault.file.rfind('/') + 1), fault.line);
  return text;
}

// The lines of one record, without the sanitizer's mark: the first says what happened.
std::optional<SanitizerFault> read_record(const std::vector<std::string_view>& lines) {
  const std::string_view what = lines.front();
  SanitizerFault found;
  device::Fault& fault = found.fault;
  for (const std::string_view line : lines) {
    if (line.starts_with("at ") && fault.kernel.empty()) read_place(line, fault);
    if (line.starts_with("by thread")) {
      triple_after(line, "by thread (", fault.thread);
      triple_after(line, "in block (", fault.block);
    }
  }
  const std::string who = fmt::format("thread ({}, {}, {}) of block ({}, {}, {})", fault.thread[0], fault.thread[1], fault.thread[2],
                                      fault.block[0], fault.block[1], fault.block[2]);
  if (what.starts_with("Invalid __")) {
    // Invalid __global__ read of size 4 bytes
    const std::size_t begin = sizeof("Invalid __") - 1, end = what.find("__ ", begin);
    if (end == what.npos) return std::nullopt;
    fault.space = std::string(what.substr(begin, end - begin));
    fault.is_write = what.find("write") != what.npos || what.find("atomic") != what.npos;
    number_after(what, "of size ", fault.access_bytes);
    fault.kind = vgpu::FaultKind::kOutOfBounds;
    std::string near;
    for (const std::string_view line : lines) {
      if (line.starts_with("Access to 0x")) {
        number_after(line, "0x", fault.address, 16);
        if (line.find("misaligned") != line.npos) fault.kind = vgpu::FaultKind::kMisaligned;
      }
      std::uint64_t bytes = 0;
      if (number_after(line, "and is ", bytes)) {
        number_after(line, "of size ", fault.tensor_bytes);
        const bool before = line.find("before") != line.npos;
        fault.offset_bytes = before ? -static_cast<std::int64_t>(bytes) : static_cast<std::int64_t>(fault.tensor_bytes + bytes) - 1;
        near = fmt::format(", {} bytes {} an allocation of {} bytes", before ? bytes : bytes - 1, before ? "before" : "past the end of", fault.tensor_bytes);
      }
    }
    const bool misaligned = fault.kind == vgpu::FaultKind::kMisaligned;
    found.status = misaligned ? "runtime_error:misaligned" : "runtime_error:illegal_access";
    fault.message = sentence(fmt::format("{} {} {} {} of {} bytes{}", who, fault.is_write ? "writes" : "reads", fault.space,
                                         misaligned ? "memory at a misaligned address," : "memory out of bounds,", fault.access_bytes, near), fault);
    return found;
  }
  if (what.find("Race reported") != what.npos || what.find("hazard detected") != what.npos) {
    if (what.starts_with("Warning") || what.find("Info") == 0) return std::nullopt;
    found.status = "runtime_error:race";
    const std::size_t at = what.find(" at ");
    if (fault.kernel.empty() && at != what.npos) read_place(what.substr(at + 1), fault);
    fault.kind = vgpu::FaultKind::kBarrier;
    fault.detail = std::string(what).substr(0, 400);
    fault.message = sentence("threads race for shared memory", fault);
    return found;
  }
  if (what.starts_with("Barrier error detected")) {
    found.status = "runtime_error:barrier";
    fault.kind = vgpu::FaultKind::kBarrier;
    fault.detail = std::string(what).substr(0, 400);
    fault.message = sentence(fmt::format("{} meets a divergent barrier", who), fault);
    return found;
  }
  return std::nullopt;
}

// Tensors with places in files as tensors with addresses in one file, which is `joined`.
Result<json> join(const json& tree, const std::string& run_dir, std::map<std::string, std::uint64_t>& begins, std::string& joined) {
  json out = tree;
  if (out.is_array()) {
    for (auto& item : out) {
      MC_ASSIGN_OR_RETURN(json inner, join(item, run_dir, begins, joined));
      item = std::move(inner);
    }
    return out;
  }
  if (!out.is_object()) return out;
  if (auto file = out.find("file"); file != out.end() && file->is_string()) {
    const std::string name = file->get<std::string>();
    auto [it, fresh] = begins.try_emplace(name, (joined.size() + 511) / 512 * 512);
    if (fresh) {
      MC_ASSIGN_OR_RETURN(std::string bytes, base::read_file(name.front() == '/' ? name : run_dir + "/" + name, kMostInputBytes));
      joined.resize(it->second);
      joined += bytes;
    }
    out["addr"] = std::to_string(it->second + static_cast<std::uint64_t>(number_of(out, "offset")));
    out["device"] = "cuda";
    out.erase("file");
  }
  if (auto items = out.find("items"); items != out.end()) {
    MC_ASSIGN_OR_RETURN(json inner, join(*items, run_dir, begins, joined));
    *items = std::move(inner);
  }
  return out;
}

// What the reference gives of the scaled task: parameters and one call's inputs, as files that the candidate may read.
struct Given {
  json init_args, init_kwargs, state, inputs;
  std::uint64_t seed = 42, bytes = 0;
  std::string file;
};

Result<Given> scaled_task(const SanitizeContext& c, const std::string& folder) {
  auto hold = c.hold();
  json pins = json::object();
  for (const auto& [name, value] : c.config.set) pins[name] = value;
  MC_ASSIGN_OR_RETURN(json task, c.lane.ask({{"op", "open"}, {"task", c.task_id}, {"code", c.task_code}, {"scale", "auto"}, {"set", pins},
                                             {"work_budget", c.config.work_budget}}, c.config.reference_seconds));
  const json close = {{"op", "close"}, {"handle", task["handle"]}};
  auto give = [&]() -> Result<Given> {
    MC_ASSIGN_OR_RETURN(json trial, c.lane.ask({{"op", "trial"}, {"handle", task["handle"]}, {"index", 0}, {"seed", c.seed}}, c.config.reference_seconds));
    Given given{.init_args = task.value("init_args", json({{"t", "list"}, {"items", json::array()}})),
                .init_kwargs = task.value("init_kwargs", json({{"t", "dict"}, {"keys", json::array()}, {"items", json::array()}})),
                .state = task.value("state", json::array()),
                .inputs = {},
                .seed = task.value("seed", std::uint64_t{42}),
                .file = folder + "/inputs.bin"};
    std::map<std::string, std::uint64_t> begins;
    std::string joined;
    MC_ASSIGN_OR_RETURN(given.inputs, join(trial["inputs"], c.lane.run_dir(), begins, joined));
    if (joined.empty()) joined.resize(1);
    given.bytes = joined.size();
    MC_RETURN_IF_ERROR(base::write_file(given.file, joined));
    std::string trouble;
    MC_RETURN_IF_ERROR(c.lane.copy_state(given.state, folder, trouble));
    return given;
  };
  auto given = give();
  static_cast<void>(c.lane.ask(close, 30));
  return given;
}

}  // namespace

std::optional<std::string> find_compute_sanitizer() {
  if (const char* given = std::getenv("MUSACODER_COMPUTE_SANITIZER"); given && *given)
    return base::is_executable(given) ? std::optional<std::string>(given) : std::nullopt;
  std::vector<std::string> places;
  places.push_back(base::find_program("compute-sanitizer"));
  std::error_code error;
  for (std::filesystem::directory_iterator it("/usr/local", error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with("cuda")) places.push_back(it->path().string() + "/bin/compute-sanitizer");
  for (const auto& place : places)
    if (!place.empty() && base::is_executable(place)) return place;
  return std::nullopt;
}

SanitizerLog read_sanitizer_log(std::string_view text) {
  SanitizerLog log;
  std::vector<std::string_view> record;
  auto end_record = [&] {
    if (!record.empty() && log.faults.size() < SanitizerLog::kMaxFaults)
      if (auto fault = read_record(record)) log.faults.push_back(std::move(*fault));
    record.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(trimmed(kPrefix))) continue;   // what the program itself prints
    line.remove_prefix(std::min(line.size(), kPrefix.size()));
    const bool continues = line.starts_with(" ");
    line = trimmed(line);
    for (const std::string_view summary : {"ERROR SUMMARY: ", "RACECHECK SUMMARY: "})
      if (line.starts_with(summary)) {
        log.complete = true;
        number_after(line, summary, log.errors);
      }
    if (line.empty() || !continues) end_record();
    if (!line.empty()) record.push_back(line);
  }
  end_record();
  return log;
}

Result<Sanitized> run_sanitizer(const SanitizeContext& c, const std::string& sanitizer, const std::string& tool,
                                std::optional<SanitizerFault>& fault) {
  Sanitized out{.tool = "compute-sanitizer " + tool};
  const std::string work = c.scratch + "/work", given_folder = c.scratch + "/given", log_file = work + "/sanitizer.log";
  for (const auto& folder : {work, given_folder}) MC_RETURN_IF_ERROR(base::make_dirs(folder));
  MC_ASSIGN_OR_RETURN(const Given given, scaled_task(c, given_folder));

  const device::RunnerNeeds needs = c.device.needs();
  std::error_code ignored;
  const std::string real = std::filesystem::canonical(sanitizer, ignored).string();
  const std::string toolkit = std::filesystem::path(real.empty() ? sanitizer : real).parent_path().parent_path().string();
  SpawnOptions spawn{.writable = work,
                     .readable = {given_folder, c.config.cache_dir, toolkit},
                     .policy = c.policy,
                     .gpu = c.config.gpu,
                     .cpu_s = c.config.candidate_seconds,
                     .memory_bytes = 2 * c.config.candidate_memory_bytes};
  spawn.readable.insert(spawn.readable.end(), needs.readable.begin(), needs.readable.end());
  spawn.devices = needs.device_nodes;
  spawn.environment = needs.environment;
  spawn.environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1";   // read at the first allocation: the runner sets its environment anew before
  spawn.bound_addresses = false;
  spawn.under = {sanitizer, "--tool", tool, "--log-file", log_file, "--print-limit", "100", "--launch-timeout", "60"};
  if (tool == "memcheck") spawn.under.insert(spawn.under.end(), {"--padding", "256"});
  MC_ASSIGN_OR_RETURN(auto pair, base::socket_pair());   // there is no ledger to speak to
  MC_ASSIGN_OR_RETURN(auto runner, c.zygote.spawn(spawn, pair.second.get()));

  std::string step;
  auto done = [&](const char* name, RunnerReply reply) {
    if (reply.kind == ReplyKind::kDone) return true;
    std::string why = reply.kind == ReplyKind::kException ? fmt::format("{}: {}", reply.exception.type, reply.exception.message.substr(0, 300)) : reply.detail;
    if (reply.kind != ReplyKind::kException)
      if (const RunnerExit exit = runner->wait_then_stop(1); exit.known) why += "; " + exit.describe() + " " + exit.output.substr(0, 600);
    step = fmt::format("{} ended in {}", name, why);
    return false;
  };
  LoadRequest load{.code = c.candidate.code};
  if (c.candidate.kind == candidate::Kind::kBareCuda) {
    load.bare_cuda = c.candidate.code;
    load.filename = "candidate.cu";
  }
  const bool ready = done("start", runner->start(base::Deadline::in(kStartSeconds))) && done("load", runner->load(load, c.build, c.deadline(kStartSeconds))) &&
                     done("construct", runner->construct(given.init_args, given.init_kwargs, given.seed, c.build, c.deadline(kStartSeconds)));
  if (ready) {
    auto hold = c.hold();
    const json extra = {{"arena", {{"file", given.file}, {"bytes", given.bytes}}}};
    if (done("parameters", runner->parameters(given.state, c.deadline(kCallSeconds))) && done("prepare", runner->prepare(c.deadline(kCallSeconds))))
      done("forward", runner->forward(0, c.seed, given.inputs, c.build, c.deadline(kCallSeconds), &extra));
  }
  runner->end(10);   // the sanitizer writes its last lines when the process has ended
  runner.reset();
  auto text = base::read_file(log_file, kMostLogBytes);
  SanitizerLog log;
  if (text) log = read_sanitizer_log(*text);
  out.findings = static_cast<int>(log.faults.size());
  if (!log.faults.empty()) {
    fault = log.faults.front();
    out.ran = true;
    out.message = fault->fault.message;
  } else if (!step.empty()) {
    out.message = step;
    if (text && !text->empty()) out.message += "; the sanitizer's report: " + text->substr(0, 600);
  } else {
    out.ran = true;
    out.message = "nothing found";
  }
  return out;
}

}  // namespace musacoder::judge

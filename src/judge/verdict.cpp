#include "judge/verdict.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace musacoder::judge {

using nlohmann::json;

std::string status_class(const std::string& status) { return status.substr(0, status.find(':')); }

bool is_candidate_fault(const std::string& status) {
  const std::string name = status_class(status);
  return name == "compile_error" || name == "runtime_error" || name == "correctness_error" || name == "cheating";
}

bool is_null_reward(const std::string& status) {
  const std::string name = status_class(status);
  return name == "infra" || name == "unsupported" || name == "inconclusive" || name == "invalid_task";
}

int exit_code(const std::string& status) {
  if (status == "ok") return 0;
  if (is_candidate_fault(status)) return 1;
  return status_class(status) == "invalid_task" ? 4 : 3;
}

namespace {

constexpr std::pair<LevelState, const char*> kLevelStates[] = {
    {LevelState::kNotRun, "not_run"}, {LevelState::kPassed, "passed"}, {LevelState::kFailed, "failed"}};
constexpr std::pair<build::Severity, const char*> kSeverities[] = {
    {build::Severity::kError, "error"}, {build::Severity::kWarning, "warning"}, {build::Severity::kNote, "note"}};
constexpr std::pair<vgpu::FaultKind, const char*> kFaultKinds[] = {
    {vgpu::FaultKind::kNone, "none"},
    {vgpu::FaultKind::kOutOfBounds, "out_of_bounds"},
    {vgpu::FaultKind::kMisaligned, "misaligned"},
    {vgpu::FaultKind::kUseAfterFree, "use_after_free"},
    {vgpu::FaultKind::kInvalidLaunch, "invalid_launch"},
    {vgpu::FaultKind::kAssert, "assert"},
    {vgpu::FaultKind::kTrap, "trap"},
    {vgpu::FaultKind::kBarrier, "barrier"},
    {vgpu::FaultKind::kTimeout, "timeout"},
    {vgpu::FaultKind::kStackOverflow, "stack_overflow"},
    {vgpu::FaultKind::kUnsupported, "unsupported"},
};

template <typename Enum, std::size_t n>
const char* name_of(const std::pair<Enum, const char*> (&table)[n], Enum value) {
  for (const auto& [entry, name] : table)
    if (entry == value) return name;
  return table[0].second;
}

// JSON has no NaN or infinity; they travel as strings.
json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
json number(const std::optional<double>& value) { return value ? number(*value) : json(nullptr); }

template <typename T, typename Function>
json list(const std::vector<T>& items, Function to_item) {
  json out = json::array();
  for (const auto& item : items) out.push_back(to_item(item));
  return out;
}

json write(const Level& level) {
  return {{"name", level.name}, {"state", name_of(kLevelStates, level.state)}, {"detail", level.detail}};
}

json write(const WorstElement& worst) {
  return {{"output", worst.output},       {"index", worst.index},           {"expected", number(worst.expected)},
          {"got", number(worst.got)},     {"error", number(worst.error)},   {"budget", number(worst.budget)},
          {"ratio", number(worst.ratio)}};
}

json write(const Trial& trial) {
  return {{"index", trial.index},
          {"seed", trial.seed},
          {"distribution", trial.distribution},
          {"pass", trial.pass},
          {"status", trial.status},
          {"message", trial.message},
          {"skipped", trial.skipped},
          {"reverse_blocks", trial.reverse_blocks},
          {"worst", trial.worst ? write(*trial.worst) : json(nullptr)},
          {"mismatched", trial.mismatched},
          {"total", trial.total},
          {"allclose", trial.allclose},
          {"atol", number(trial.atol)},
          {"rtol", number(trial.rtol)},
          {"seconds", number(trial.seconds)}};
}

json write(const TimeSamples& samples) {
  return {{"ms", list(samples.ms, [](double ms) { return number(ms); })},
          {"median", number(samples.median)},
          {"mean", number(samples.mean)},
          {"min", number(samples.min)},
          {"p10", number(samples.p10)},
          {"p90", number(samples.p90)}};
}

json write(const device::GpuState& state) {
  return {{"sm_mhz", state.sm_mhz},   {"memory_mhz", state.memory_mhz}, {"celsius", state.celsius},
          {"watts", number(state.watts)}, {"throttle", state.throttle},     {"others", state.others}};
}

json write(const Timing& t) {
  json baselines = json::object();
  for (const auto& [name, samples] : t.baselines) baselines[name] = write(samples);
  return {{"measured", t.measured},
          {"unmeasured", t.unmeasured},
          {"candidate", write(t.candidate)},
          {"baselines", baselines},
          {"unavailable", t.unavailable},
          {"eager_before", write(t.eager_before)},
          {"eager_after", write(t.eager_after)},
          {"first_ms", number(t.first_ms)},
          {"warm_calls", t.warm_calls},
          {"verified_calls", t.verified_calls},
          {"handovers", t.handovers},
          {"outer_ms", number(t.outer_ms)},
          {"floor_ms", number(t.floor_ms)},
          {"flops_floor_ms", number(t.flops_floor_ms)},
          {"ledger_ms", number(t.ledger_ms)},
          {"verify_ms", number(t.verify_ms)},
          {"before", write(t.before)},
          {"after", write(t.after)},
          {"conditions", t.conditions},
          {"remarks", t.remarks}};
}

json write(const Sanitized& s) {
  return {{"tool", s.tool}, {"ran", s.ran}, {"message", s.message}, {"findings", s.findings}};
}

json write(const build::Diagnostic& d) {
  return {{"severity", name_of(kSeverities, d.severity)}, {"file", d.file}, {"line", d.line},
          {"candidate_line", d.candidate_line}, {"message", d.message}, {"kind", d.kind}};
}

json write(const build::BuildResult& b) {
  return {{"ok", b.ok},
          {"status", b.status},
          {"message", b.message},
          {"diagnostics", list(b.diagnostics, [](const auto& d) { return write(d); })},
          {"log", b.log},
          {"artifact", b.artifact},
          {"hash", b.hash},
          {"headers", b.headers},
          {"headers_reason", b.headers_reason},
          {"cached", b.cached},
          {"warm", b.warm},
          {"seconds", number(b.seconds)},
          {"sandbox", b.sandbox}};
}

json write(const vgpu::Fault& fault) {
  return {{"kind", name_of(kFaultKinds, fault.kind)},
          {"kernel", fault.kernel},
          {"block", fault.block},
          {"thread", fault.thread},
          {"is_write", fault.is_write},
          {"space", fault.space},
          {"address", fmt::format("{:#x}", fault.address)},
          {"access_bytes", fault.access_bytes},
          {"tensor", fault.tensor},
          {"tensor_bytes", fault.tensor_bytes},
          {"offset_bytes", fault.offset_bytes},
          {"file", fault.file},
          {"line", fault.line},
          {"detail", fault.detail},
          {"message", fault.message}};
}

json write(const vgpu::Counters& c) {
  return {{"warp_instructions", c.warp_instructions},
          {"thread_instructions", c.thread_instructions},
          {"flops", c.flops},
          {"global_load_bytes", c.global_load_bytes},
          {"global_store_bytes", c.global_store_bytes},
          {"shared_accesses", c.shared_accesses},
          {"atomics", c.atomics},
          {"barriers", c.barriers},
          {"divergent_branches", c.divergent_branches}};
}

json write(const vgpu::LaunchRecord& launch) {
  return {{"kernel", launch.kernel},
          {"module", launch.module},
          {"grid", {launch.grid.x, launch.grid.y, launch.grid.z}},
          {"block", {launch.block.x, launch.block.y, launch.block.z}},
          {"count", launch.count},
          {"warp_instructions", launch.warp_instructions},
          {"counters", write(launch.counters)},
          {"origin", launch.origin},
          {"nanoseconds", launch.nanoseconds},
          {"graph", launch.graph}};
}

json write(const vgpu::TimeEstimate& e) {
  return {{"gpu", e.gpu}, {"ms", number(e.ms)}, {"kernel", e.kernel}, {"bound", e.bound}, {"launches", e.launches}};
}

json write(const vgpu::WindowReport& ledger) {
  return {{"launches", list(ledger.launches, [](const auto& launch) { return write(launch); })},
          {"vendor_calls", list(ledger.vendor_calls,
                                [](const auto& call) {
                                  return json{{"library", call.library}, {"function", call.function}, {"count", call.count}, {"by_torch", call.by_torch}};
                                })},
          {"refused_ops", ledger.refused_ops},
          {"h2d_bytes", ledger.h2d_bytes},
          {"d2h_bytes", ledger.d2h_bytes},
          {"d2d_bytes", ledger.d2d_bytes},
          {"memset_bytes", ledger.memset_bytes},
          {"h2d_after_d2h_bytes", ledger.h2d_after_d2h_bytes},
          {"creation_bytes", ledger.creation_bytes},
          {"fault", ledger.fault ? write(*ledger.fault) : json(nullptr)},
          {"unread_launch_error", ledger.unread_launch_error},
          {"printf_output", ledger.printf_output},
          {"launch_seconds", number(ledger.launch_seconds)},
          {"unsupported", ledger.unsupported},
          {"protocol_error", ledger.protocol_error},
          {"threads", ledger.threads},
          {"dropped", ledger.dropped},
          {"internal", ledger.internal},
          {"allocated_bytes", ledger.allocated_bytes},
          {"retained_bytes", ledger.retained_bytes}};
}

// Reads fields of one object into members. A missing key leaves the default; a wrong type or range records the first
// error with its path ("trials[2].worst.ratio").
class Reader {
 public:
  Reader(const json& object, std::string path, std::string* error) : object_(object), path_(std::move(path)), error_(error) {
    if (!object.is_object()) wrong(path_, "an object");
  }

  void read(const char* key, std::string& out) const {
    if (const json* value = find(key)) value->is_string() ? void(out = value->get<std::string>()) : wrong(at(key), "a string");
  }
  void read(const char* key, bool& out) const {
    if (const json* value = find(key)) value->is_boolean() ? void(out = value->get<bool>()) : wrong(at(key), "true or false");
  }
  void read(const char* key, double& out) const {
    if (const json* value = find(key)) to_double(*value, at(key), out);
  }
  void read(const char* key, std::optional<double>& out) const {
    const json* value = find(key);
    if (!value || value->is_null()) return;
    out.emplace();
    to_double(*value, at(key), *out);
  }
  template <typename T>
    requires std::is_integral_v<T>
  void read(const char* key, T& out) const {
    if (const json* value = find(key)) to_integer(*value, at(key), out);
  }
  template <typename T>
  void read(const char* key, std::vector<T>& out) const {
    each(key, [&](const json& item, const std::string& path) {
      T value{};
      if constexpr (std::is_same_v<T, std::string>) item.is_string() ? void(value = item.get<std::string>()) : wrong(path, "a string");
      else to_integer(item, path, value);
      out.push_back(std::move(value));
    });
  }
  template <std::size_t n>
  void read(const char* key, std::array<std::uint32_t, n>& out) const {
    const json* value = find(key);
    if (!value) return;
    if (!value->is_array() || value->size() != n) return wrong(at(key), "three numbers");
    for (std::size_t i = 0; i < n; ++i) to_integer((*value)[i], at(key), out[i]);
  }
  void read(const char* key, vgpu::Dim3& out) const {
    std::array<std::uint32_t, 3> xyz{out.x, out.y, out.z};
    read(key, xyz);
    out = {xyz[0], xyz[1], xyz[2]};
  }
  template <typename Enum, std::size_t n>
  void read(const char* key, const std::pair<Enum, const char*> (&table)[n], Enum& out) const {
    const json* value = find(key);
    if (!value) return;
    for (const auto& [entry, name] : table)
      if (value->is_string() && value->get_ref<const std::string&>() == name) return void(out = entry);
    wrong(at(key), "one of the names in the schema");
  }
  void read(const char* key, std::map<std::string, std::string>& out) const {
    members(key, [&](const std::string& name, const json& item, const std::string& path) {
      item.is_string() ? void(out[name] = item.get<std::string>()) : wrong(path, "a string");
    });
  }
  void read(const char* key, TimeSamples& out) const {
    object(key, [&](const Reader& in) {
      in.each("ms", [&](const json& item, const std::string& path) { in.to_double(item, path, out.ms.emplace_back()); });
      in.read("median", out.median);
      in.read("mean", out.mean);
      in.read("min", out.min);
      in.read("p10", out.p10);
      in.read("p90", out.p90);
    });
  }
  void read(const char* key, device::GpuState& out) const {
    object(key, [&](const Reader& in) {
      in.read("sm_mhz", out.sm_mhz);
      in.read("memory_mhz", out.memory_mhz);
      in.read("celsius", out.celsius);
      in.read("watts", out.watts);
      in.read("throttle", out.throttle);
      in.read("others", out.others);
    });
  }
  void read(const char* key, std::map<std::string, TimeSamples>& out) const {
    object(key, [&](const Reader& in) {
      if (in.object_.is_object())
        for (const auto& [name, item] : in.object_.items()) in.read(name.c_str(), out[name]);
    });
  }
  void read(const char* key, std::map<std::string, double>& out) const {
    members(key, [&](const std::string& name, const json& item, const std::string& path) { to_double(item, path, out[name]); });
  }
  // function(Reader of each object of a list)
  template <typename Function>
  void objects(const char* key, Function function) const {
    each(key, [&](const json& item, const std::string& path) { function(Reader(item, path, error_)); });
  }
  // function(Reader) when the key holds an object; null and missing are skipped.
  template <typename Function>
  void object(const char* key, Function function) const {
    const json* value = find(key);
    if (value && !value->is_null()) function(Reader(*value, at(key), error_));
  }
  void address(const char* key, std::uint64_t& out) const {
    std::string text;
    read(key, text);
    if (text.empty()) return;
    std::size_t used = 0;
    try {
      out = std::stoull(text, &used, 0);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != text.size()) wrong(at(key), "an address such as \"0x7f00\"");
  }

 private:
  const json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  std::string at(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  void wrong(const std::string& path, const char* wanted) const {
    if (error_->empty()) *error_ = fmt::format("verdict field '{}' is not {}", path.empty() ? "(whole)" : path, wanted);
  }
  void to_double(const json& value, const std::string& path, double& out) const {
    if (value.is_number()) {
      out = value.get<double>();
    } else if (value == "nan") {
      out = std::numeric_limits<double>::quiet_NaN();
    } else if (value == "inf" || value == "-inf") {
      out = value == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    } else {
      wrong(path, "a number");
    }
  }
  template <typename T>
  void to_integer(const json& value, const std::string& path, T& out) const {
    if (value.is_number_unsigned() && std::in_range<T>(value.get<std::uint64_t>())) {
      out = static_cast<T>(value.get<std::uint64_t>());
    } else if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.get<std::int64_t>())) {
      out = static_cast<T>(value.get<std::int64_t>());
    } else {
      wrong(path, "an integer in range");
    }
  }
  template <typename Function>
  void each(const char* key, Function function) const {
    const json* value = find(key);
    if (!value) return;
    if (!value->is_array()) return wrong(at(key), "a list");
    for (std::size_t i = 0; i < value->size(); ++i) function((*value)[i], fmt::format("{}[{}]", at(key), i));
  }
  template <typename Function>
  void members(const char* key, Function function) const {
    const json* value = find(key);
    if (!value) return;
    if (!value->is_object()) return wrong(at(key), "an object");
    for (auto it = value->begin(); it != value->end(); ++it) function(it.key(), it.value(), at(key) + "." + it.key());
  }

  const json& object_;
  std::string path_;
  std::string* error_;
};

void read(const Reader& in, Level& level) {
  in.read("name", level.name);
  in.read("state", kLevelStates, level.state);
  in.read("detail", level.detail);
}

void read(const Reader& in, WorstElement& worst) {
  in.read("output", worst.output);
  in.read("index", worst.index);
  in.read("expected", worst.expected);
  in.read("got", worst.got);
  in.read("error", worst.error);
  in.read("budget", worst.budget);
  in.read("ratio", worst.ratio);
}

void read(const Reader& in, Trial& trial) {
  in.read("index", trial.index);
  in.read("seed", trial.seed);
  in.read("distribution", trial.distribution);
  in.read("pass", trial.pass);
  in.read("status", trial.status);
  in.read("message", trial.message);
  in.read("skipped", trial.skipped);
  in.read("reverse_blocks", trial.reverse_blocks);
  in.object("worst", [&](const Reader& worst) { read(worst, trial.worst.emplace()); });
  in.read("mismatched", trial.mismatched);
  in.read("total", trial.total);
  in.read("allclose", trial.allclose);
  in.read("atol", trial.atol);
  in.read("rtol", trial.rtol);
  in.read("seconds", trial.seconds);
}

void read(const Reader& in, Timing& t) {
  in.read("measured", t.measured);
  in.read("unmeasured", t.unmeasured);
  in.read("candidate", t.candidate);
  in.read("baselines", t.baselines);
  in.read("unavailable", t.unavailable);
  in.read("eager_before", t.eager_before);
  in.read("eager_after", t.eager_after);
  in.read("first_ms", t.first_ms);
  in.read("warm_calls", t.warm_calls);
  in.read("verified_calls", t.verified_calls);
  in.read("handovers", t.handovers);
  in.read("outer_ms", t.outer_ms);
  in.read("floor_ms", t.floor_ms);
  in.read("flops_floor_ms", t.flops_floor_ms);
  in.read("ledger_ms", t.ledger_ms);
  in.read("verify_ms", t.verify_ms);
  in.read("before", t.before);
  in.read("after", t.after);
  in.read("conditions", t.conditions);
  in.read("remarks", t.remarks);
}

void read(const Reader& in, build::BuildResult& result) {
  in.read("ok", result.ok);
  in.read("status", result.status);
  in.read("message", result.message);
  in.objects("diagnostics", [&](const Reader& item) {
    build::Diagnostic& d = result.diagnostics.emplace_back();
    item.read("severity", kSeverities, d.severity);
    item.read("file", d.file);
    item.read("line", d.line);
    item.read("candidate_line", d.candidate_line);
    item.read("message", d.message);
    item.read("kind", d.kind);
  });
  in.read("log", result.log);
  in.read("artifact", result.artifact);
  in.read("hash", result.hash);
  in.read("headers", result.headers);
  in.read("headers_reason", result.headers_reason);
  in.read("cached", result.cached);
  in.read("warm", result.warm);
  in.read("seconds", result.seconds);
  in.read("sandbox", result.sandbox);
}

void read(const Reader& in, vgpu::Fault& fault) {
  in.read("kind", kFaultKinds, fault.kind);
  in.read("kernel", fault.kernel);
  in.read("block", fault.block);
  in.read("thread", fault.thread);
  in.read("is_write", fault.is_write);
  in.read("space", fault.space);
  in.address("address", fault.address);
  in.read("access_bytes", fault.access_bytes);
  in.read("tensor", fault.tensor);
  in.read("tensor_bytes", fault.tensor_bytes);
  in.read("offset_bytes", fault.offset_bytes);
  in.read("file", fault.file);
  in.read("line", fault.line);
  in.read("detail", fault.detail);
  in.read("message", fault.message);
}

void read(const Reader& in, vgpu::Counters& c) {
  in.read("warp_instructions", c.warp_instructions);
  in.read("thread_instructions", c.thread_instructions);
  in.read("flops", c.flops);
  in.read("global_load_bytes", c.global_load_bytes);
  in.read("global_store_bytes", c.global_store_bytes);
  in.read("shared_accesses", c.shared_accesses);
  in.read("atomics", c.atomics);
  in.read("barriers", c.barriers);
  in.read("divergent_branches", c.divergent_branches);
}

void read(const Reader& in, vgpu::TimeEstimate& e) {
  in.read("gpu", e.gpu);
  in.read("ms", e.ms);
  in.read("kernel", e.kernel);
  in.read("bound", e.bound);
  in.read("launches", e.launches);
}

void read(const Reader& in, vgpu::WindowReport& ledger) {
  in.objects("launches", [&](const Reader& item) {
    vgpu::LaunchRecord& launch = ledger.launches.emplace_back();
    item.read("kernel", launch.kernel);
    item.read("module", launch.module);
    item.read("grid", launch.grid);
    item.read("block", launch.block);
    item.read("count", launch.count);
    item.read("warp_instructions", launch.warp_instructions);
    item.object("counters", [&](const Reader& counters) { read(counters, launch.counters); });
    item.read("origin", launch.origin);
    item.read("nanoseconds", launch.nanoseconds);
    item.read("graph", launch.graph);
  });
  in.objects("vendor_calls", [&](const Reader& item) {
    vgpu::VendorCall& call = ledger.vendor_calls.emplace_back();
    item.read("library", call.library);
    item.read("function", call.function);
    item.read("count", call.count);
    item.read("by_torch", call.by_torch);
  });
  in.read("refused_ops", ledger.refused_ops);
  in.read("h2d_bytes", ledger.h2d_bytes);
  in.read("d2h_bytes", ledger.d2h_bytes);
  in.read("d2d_bytes", ledger.d2d_bytes);
  in.read("memset_bytes", ledger.memset_bytes);
  in.read("h2d_after_d2h_bytes", ledger.h2d_after_d2h_bytes);
  in.read("creation_bytes", ledger.creation_bytes);
  in.object("fault", [&](const Reader& fault) { read(fault, ledger.fault.emplace()); });
  in.read("unread_launch_error", ledger.unread_launch_error);
  in.read("printf_output", ledger.printf_output);
  in.read("launch_seconds", ledger.launch_seconds);
  in.read("unsupported", ledger.unsupported);
  in.read("protocol_error", ledger.protocol_error);
  in.read("threads", ledger.threads);
  in.read("dropped", ledger.dropped);
  in.read("internal", ledger.internal);
  in.read("allocated_bytes", ledger.allocated_bytes);
  in.read("retained_bytes", ledger.retained_bytes);
}

}  // namespace

json to_json(const Verdict& v) {
  const bool raised = !v.exception_type.empty() || !v.exception_message.empty() || !v.traceback.empty() || v.exception_line;
  json out = {
      {"version", v.version},
      {"task", v.task},
      {"task_hash", v.task_hash},
      {"candidate_hash", v.candidate_hash},
      {"backend", v.backend},
      {"gpu", v.gpu},
      {"policy", v.policy},
      {"dialect", v.dialect},
      {"status", v.status},
      {"cause", v.cause},
      {"levels", list(v.levels, [](const auto& level) { return write(level); })},
      {"trials", list(v.trials, [](const auto& trial) { return write(trial); })},
      {"q", number(v.q)},
      {"compiled", v.compiled},
      {"correct", v.correct},
      {"legal", v.legal},
      {"reward", number(v.reward)},
      {"speedup_eager", number(v.speedup_eager)},
      {"speedup_compile", number(v.speedup_compile)},
      {"timing", v.timing ? write(*v.timing) : json(nullptr)},
      {"estimate", v.estimate ? write(*v.estimate) : json(nullptr)},
      {"builds", list(v.builds, [](const auto& result) { return write(result); })},
      {"exception", nullptr},
      {"fault", v.fault ? write(*v.fault) : json(nullptr)},
      {"sanitized", list(v.sanitized, [](const auto& one) { return write(one); })},
      {"ledger", write(v.ledger)},
      {"outside", write(v.outside)},
      {"refused_ops", v.refused_ops},
      {"cpu_ops", v.cpu_ops},
      {"scaled", v.scaled},
      {"scaling", list(v.scaling,
                       [](const auto& s) {
                         return json{{"name", s.name}, {"line", s.line}, {"from", s.from}, {"to", s.to}, {"how", s.how}};
                       })},
      {"work", number(v.work)},
      {"work_full", number(v.work_full)},
      {"notes", v.notes},
      {"environment", v.environment},
      {"sandbox", v.sandbox},
      {"seconds", json::object()},
  };
  if (raised)
    out["exception"] = {{"type", v.exception_type},
                        {"message", v.exception_message},
                        {"traceback", v.traceback},
                        {"line", v.exception_line}};
  for (const auto& [stage, seconds] : v.seconds) out["seconds"][stage] = number(seconds);
  return out;
}

Result<Verdict> verdict_from_json(const json& object) {
  Verdict v;
  v.status.clear();
  std::string error;
  const Reader in(object, "", &error);
  in.read("version", v.version);
  if (error.empty() && v.version != kVerdictVersion)
    return fail(Code::kUnsupported, "verdict version {} is not {}; use the program that wrote it", v.version, kVerdictVersion);
  in.read("task", v.task);
  in.read("task_hash", v.task_hash);
  in.read("candidate_hash", v.candidate_hash);
  in.read("backend", v.backend);
  in.read("gpu", v.gpu);
  in.read("policy", v.policy);
  in.read("dialect", v.dialect);
  in.read("status", v.status);
  in.read("cause", v.cause);
  in.objects("levels", [&](const Reader& item) { read(item, v.levels.emplace_back()); });
  in.objects("trials", [&](const Reader& item) { read(item, v.trials.emplace_back()); });
  in.read("q", v.q);
  in.read("compiled", v.compiled);
  in.read("correct", v.correct);
  in.read("legal", v.legal);
  in.read("reward", v.reward);
  in.read("speedup_eager", v.speedup_eager);
  in.read("speedup_compile", v.speedup_compile);
  in.object("timing", [&](const Reader& timing) { read(timing, v.timing.emplace()); });
  in.object("estimate", [&](const Reader& estimate) { read(estimate, v.estimate.emplace()); });
  in.objects("builds", [&](const Reader& item) { read(item, v.builds.emplace_back()); });
  in.object("exception", [&](const Reader& exception) {
    exception.read("type", v.exception_type);
    exception.read("message", v.exception_message);
    exception.read("traceback", v.traceback);
    exception.read("line", v.exception_line);
  });
  in.object("fault", [&](const Reader& fault) { read(fault, v.fault.emplace()); });
  in.objects("sanitized", [&](const Reader& item) {
    Sanitized& one = v.sanitized.emplace_back();
    item.read("tool", one.tool);
    item.read("ran", one.ran);
    item.read("message", one.message);
    item.read("findings", one.findings);
  });
  in.object("ledger", [&](const Reader& ledger) { read(ledger, v.ledger); });
  in.object("outside", [&](const Reader& outside) { read(outside, v.outside); });
  in.read("refused_ops", v.refused_ops);
  in.read("cpu_ops", v.cpu_ops);
  in.read("scaled", v.scaled);
  in.objects("scaling", [&](const Reader& item) {
    ScaledConstant& constant = v.scaling.emplace_back();
    item.read("name", constant.name);
    item.read("line", constant.line);
    item.read("from", constant.from);
    item.read("to", constant.to);
    item.read("how", constant.how);
  });
  in.read("work", v.work);
  in.read("work_full", v.work_full);
  in.read("notes", v.notes);
  in.read("environment", v.environment);
  in.read("sandbox", v.sandbox);
  in.read("seconds", v.seconds);
  if (error.empty() && v.status.empty()) error = "verdict has no 'status'";
  if (!error.empty()) return fail(Code::kInvalidArgument, "{}", error);
  return v;
}

}  // namespace musacoder::judge

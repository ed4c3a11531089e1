#include "device/cuda/report.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

namespace musacoder::device {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxText = 4096;
// Sums of many reports must not wrap: no window has 2^53 of anything.
constexpr std::uint64_t kMaxNumber = 1ull << 53;

// Reads required fields of one object; the first that is wrong is kept.
class Fields {
 public:
  Fields(const json& object, std::string path, std::string& error)
      : object_(object), path_(std::move(path)), error_(error) {
    if (!object.is_object()) wrong("", "an object");
  }
  bool good() const { return error_.empty(); }

  std::uint64_t number(const char* key, std::uint64_t most = kMaxNumber) {
    const json* value = find(key);
    return value ? number_of(*value, key, most) : 0;
  }
  bool flag(const char* key) {
    const json* value = find(key);
    if (value && !value->is_boolean()) wrong(key, "true or false");
    return value && value->is_boolean() && value->get<bool>();
  }
  std::string text(const char* key) {
    const json* value = find(key);
    return value ? text_of(*value, key) : std::string();
  }
  vgpu::Dim3 dim3(const char* key) {
    const json* value = find(key);
    if (!value || !value->is_array() || value->size() != 3) {
      wrong(key, "three numbers");
      return {};
    }
    std::array<std::uint32_t, 3> out{};
    for (std::size_t i = 0; i < 3; ++i)
      out[i] =
          static_cast<std::uint32_t>(number_of((*value)[i], key, std::numeric_limits<std::int32_t>::max()));
    return {out[0], out[1], out[2]};
  }
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> out;
    if (const json* value = list(key))
      for (const auto& item : *value) out.push_back(text_of(item, key));
    return out;
  }
  // function(Fields) for each object of a list, until something is wrong
  template <typename Function>
  void objects(const char* key, Function function) {
    const json* value = list(key);
    for (std::size_t i = 0; value && i < value->size() && good(); ++i)
      function(Fields((*value)[i], fmt::format("{}[{}]", at(key), i), error_));
  }
  Fields object(const char* key) {
    static const json empty = json::object();
    const json* value = find(key);
    return Fields(value ? *value : empty, at(key), error_);
  }
  const json* find(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(key);
    if (it != object_.end()) return &*it;
    wrong(key, "there");
    return nullptr;
  }
  void wrong(const char* key, const char* wanted) {
    if (error_.empty()) error_ = fmt::format("'{}' is not {}", *key ? at(key) : path_, wanted);
  }

 private:
  std::string at(const char* key) const { return path_.empty() ? key : path_ + "." + key; }
  const json* list(const char* key) {
    const json* value = find(key);
    if (!value) return nullptr;
    if (!value->is_array() || value->size() > kMaxLedgerItems) {
      wrong(key, "a list of at most 4096");
      return nullptr;
    }
    return value;
  }
  std::uint64_t number_of(const json& value, const char* key, std::uint64_t most) {
    // Numbers that are not negative are read as unsigned by the parser.
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) return value.get<std::uint64_t>();
    wrong(key, "a number in range");
    return 0;
  }
  std::string text_of(const json& value, const char* key) {
    if (value.is_string() && value.get_ref<const std::string&>().size() <= kMaxText)
      return printable(value.get_ref<const std::string&>());
    wrong(key, "a text of at most 4096 bytes");
    return {};
  }

  const json& object_;
  std::string path_;
  std::string& error_;
};

Status result(const std::string& error) {
  if (!error.empty()) return fail(Code::kInvalidArgument, "in the ledger's answer, {}", error);
  return ok();
}

constexpr const char* kOrigins[] = {"own", "framework", "vendor", "torch_vendor", "jit", "unknown"};

void read_launch(Fields in, WindowReport& out) {
  vgpu::LaunchRecord launch;
  launch.kernel = in.text("kernel");
  launch.module = in.text("module");
  launch.origin = in.text("origin");
  launch.grid = in.dim3("grid");
  launch.block = in.dim3("block");
  launch.count = in.number("count");
  launch.nanoseconds = in.number("ns");
  launch.graph = in.flag("graph");
  in.number("streams");
  if (std::none_of(std::begin(kOrigins), std::end(kOrigins),
                   [&](const char* name) { return launch.origin == name; }))
    in.wrong("origin", "own, framework, vendor, torch_vendor, jit or unknown");
  if (launch.count == 0) in.wrong("count", "above 0");
  if (!in.good()) return;
  out.launch_seconds += static_cast<double>(launch.nanoseconds) * 1e-9;
  const bool by_torch = launch.origin == "torch_vendor";
  if (launch.origin != "vendor" && !by_torch) {
    out.launches.push_back(std::move(launch));
    return;
  }
  const std::string library = library_name(launch.module);
  const auto same = std::find_if(out.vendor_calls.begin(), out.vendor_calls.end(), [&](const auto& call) {
    return call.library == library && call.function == launch.kernel && call.by_torch == by_torch;
  });
  if (same == out.vendor_calls.end())
    out.vendor_calls.push_back({library, launch.kernel, launch.count, by_torch});
  else
    same->count += launch.count;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 512));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return out;
}

std::string library_name(std::string_view module) {
  if (module.starts_with("lib")) module.remove_prefix(3);
  return std::string(module.substr(0, module.find(".so")));
}

Status check_hello(const json& reply) {
  std::string error;
  Fields in(reply, "", error);
  in.number("pid");
  in.number("cupti");
  in.number("driver");
  in.number("device", 1024);
  return result(error);
}

Status read_report(const json& reply, WindowReport& out, bool& canary) {
  std::string error;
  Fields top(reply, "", error);
  Fields in = top.object("report");
  in.objects("launches", [&](Fields launch) { read_launch(std::move(launch), out); });
  Fields copies = in.object("copies");
  out.h2d_bytes = copies.number("h2d_bytes");
  out.d2h_bytes = copies.number("d2h_bytes");
  out.d2d_bytes = copies.number("d2d_bytes");
  out.memset_bytes = copies.number("memset_bytes");
  out.h2d_after_d2h_bytes = copies.number("h2d_after_d2h_bytes");
  out.refused_ops = in.texts("refused_ops");
  out.unsupported = in.texts("unsupported");
  out.threads = in.number("threads");
  out.dropped = in.number("dropped");
  out.internal = in.number("internal");
  Fields memory = in.object("memory");
  out.allocated_bytes = memory.number("allocated_bytes");
  out.retained_bytes = memory.number("retained_bytes");
  out.unread_launch_error = in.text("error");
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  if (in.number("first_ns", last) > in.number("last_ns", last)) in.wrong("first_ns", "before last_ns");
  canary = in.flag("canary");
  return result(error);
}

Status read_fault(const json& reply, std::optional<Fault>& out) {
  std::string error;
  Fields top(reply, "", error);
  const json* value = top.find("fault");
  if (!value || value->is_null()) return result(error);
  Fields in = top.object("fault");
  const std::string kind = in.text("kind"), name = in.text("name");
  const std::uint64_t code = in.number("code", 99999);
  Fault fault;
  fault.kernel = in.text("kernel");
  using vgpu::FaultKind;
  for (const FaultKind one : {FaultKind::kOutOfBounds, FaultKind::kMisaligned, FaultKind::kAssert,
                              FaultKind::kTrap, FaultKind::kTimeout, FaultKind::kStackOverflow})
    if (kind == vgpu::fault_kind_name(one)) fault.kind = one;
  if (fault.kind == FaultKind::kNone) in.wrong("kind", "a fault of the GPU");
  fault.detail = fmt::format("{} ({})", name, code);
  fault.message = fault.kernel.empty()
                      ? fmt::format("the GPU stopped with {}", fault.detail)
                      : fmt::format("the GPU stopped with {}; {} was the last kernel launched", fault.detail,
                                    fault.kernel);
  if (error.empty()) out = std::move(fault);
  return result(error);
}

}  // namespace musacoder::device

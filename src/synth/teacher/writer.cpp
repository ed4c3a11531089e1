#include "synth/teacher/writer.h"

#include <cmath>

namespace musacoder::synth {

CodeStyle code_style_of(std::uint64_t seed) {
  Seeded draw(mix(seed, "code style"));
  CodeStyle style;
  style.threads = draw.choose({128, 256, 256, 256, 512});
  style.comments = draw.chance(0.7);
  style.early_return = draw.chance(0.5);
  style.checks = draw.chance(0.3);
  style.stream = draw.chance(0.25);
  style.grid_variable = draw.chance(0.7);
  style.wide_index = draw.chance(0.3);
  style.names = static_cast<int>(draw.below(3));
  style.tabs_of_two = draw.chance(0.4);
  style.bindings_declared = draw.chance(0.7);
  style.functions_list = draw.chance(0.85);
  style.module_level = draw.chance(0.85);
  style.one_source = true;
  return style;
}

CodeStyle one_code_style() {
  CodeStyle style;
  style.comments = false;
  style.names = 2;
  return style;
}

std::string Writer::unique(const std::string& base) {
  if (used_.insert(base).second) return base;
  for (int k = 2;; ++k)
    if (const std::string name = fmt::format("{}_{}", base, k); used_.insert(name).second) return name;
}

std::string Writer::helper(const std::string& name, const std::string& code) {
  if (!known_helpers_.insert(name).second) return name;
  used_.insert(name);
  std::string text = code;
  for (std::size_t at; (at = text.find("NAME")) != std::string::npos;) text.replace(at, 4, name);
  helpers_ += text + "\n";
  return name;
}

const char* Writer::compute_type(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "double";
    case DType::kI64: return "int64_t";
    case DType::kBool: return "bool";
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU8: return "int";
    default: return "float";
  }
}

std::string Writer::load(DType dtype, const std::string& element) {
  if (dtype == DType::kF16) return "__half2float(" + element + ")";
  if (dtype == DType::kBF16) return "__bfloat162float(" + element + ")";
  return element;
}

std::string Writer::store(DType dtype, const std::string& value) {
  switch (dtype) {
    case DType::kF16: return "__float2half(" + value + ")";
    case DType::kBF16: return "__float2bfloat16(" + value + ")";
    case DType::kI16:
    case DType::kI8:
    case DType::kU8: return fmt::format("static_cast<{}>({})", dtype_c_name(dtype), value);
    default: return value;
  }
}

std::string Writer::number(DType dtype, double value) {
  if (!is_float(dtype)) {
    if (dtype == DType::kBool) return value != 0 ? "true" : "false";
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  std::string text = fmt::format("{}", dtype == DType::kF64 ? value : static_cast<double>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return dtype == DType::kF64 ? text : text + "f";
}

const char* Writer::torch_type(DType dtype) {
  static const char* const names[] = {"torch::kFloat32", "torch::kFloat16", "torch::kBFloat16", "torch::kFloat64", "torch::kInt64",
                                      "torch::kInt32",   "torch::kInt16",   "torch::kInt8",     "torch::kUInt8",   "torch::kBool"};
  return names[static_cast<std::size_t>(dtype)];
}

std::string Writer::pointer(DType dtype, const std::string& tensor, bool constant) {
  if (dtype == DType::kF16 || dtype == DType::kBF16)
    return fmt::format("reinterpret_cast<{}{}*>({}.data_ptr<at::{}>())", constant ? "const " : "", dtype_c_name(dtype), tensor,
                       dtype == DType::kF16 ? "Half" : "BFloat16");
  return fmt::format("{}.data_ptr<{}>()", tensor, dtype_c_name(dtype));
}

std::string Writer::comment(std::string_view text, int indent) const {
  return style_.comments ? fmt::format("{}// {}\n", std::string(static_cast<std::size_t>(indent), ' '), text) : std::string();
}

std::string Writer::launch(const std::string& kernel, const std::string& grid, const std::string& block, const std::string& shared) const {
  if (style_.stream)
    return fmt::format("{}<<<{}, {}, {}, at::cuda::getCurrentCUDAStream()>>>", kernel, grid, block, shared.empty() ? "0" : shared);
  return shared.empty() ? fmt::format("{}<<<{}, {}>>>", kernel, grid, block) : fmt::format("{}<<<{}, {}, {}>>>", kernel, grid, block, shared);
}

std::string Writer::checks(const std::string& tensor, DType dtype) const {
  if (!style_.checks) return {};
  return fmt::format("TORCH_CHECK({0}.is_cuda(), \"{0} must be a CUDA tensor\");\nTORCH_CHECK({0}.scalar_type() == {1}, \"{0} must be {2}\");\n",
                     tensor, torch_type(dtype), dtype_name(dtype));
}

std::string indented(std::string_view text, int spaces) {
  std::string out;
  const std::string prefix(static_cast<std::size_t>(spaces), ' ');
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view line = text.substr(at, end - at);
    if (!line.empty()) out += prefix + std::string(line);
    out += "\n";
    at = end + 1;
  }
  return out;
}

}  // namespace musacoder::synth

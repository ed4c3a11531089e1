#include "synth/teacher/spatial.h"

#include <algorithm>

namespace musacoder::synth {

std::vector<std::int64_t> spread(const Node& node, const char* attribute, std::size_t axes, std::int64_t otherwise) {
  std::vector<std::int64_t> all = node.list(attribute, {otherwise});
  if (all.size() == 1) all.resize(axes, all[0]);
  return all;
}

std::string argument_text(const Node& node, const char* attribute, std::size_t k, std::int64_t value) {
  const auto it = node.attrs.find(attribute);
  if (it == node.attrs.end() || it->second.constant.empty()) return std::to_string(value);
  const bool list = std::holds_alternative<std::vector<std::int64_t>>(it->second.value);
  return list ? fmt::format("self.{}[{}]", it->second.constant, k) : "self." + it->second.constant;
}

PerAxis per_axis(AnchorUnit& unit, const char* attribute, const std::string& wanted, std::size_t axes, std::int64_t otherwise, std::int64_t neutral) {
  const Node& node = unit.node();
  PerAxis result;
  result.values = spread(node, attribute, axes, otherwise);
  result.names.resize(axes);
  const bool none = std::all_of(result.values.begin(), result.values.end(), [&](std::int64_t v) { return v == neutral; });
  if (none) return result;
  const bool alike = std::all_of(result.values.begin(), result.values.end(), [&](std::int64_t v) { return v == result.values[0]; });
  const std::vector<std::string> letters = axis_letters(axes);
  const auto python = [&](std::size_t k) {
    if (node.module < 0) return argument_text(node, attribute, k, result.values[k]);
    return fmt::format("self.{}.{}[{}]", unit.graph().modules[static_cast<std::size_t>(node.module)].name, attribute, k);
  };
  for (std::size_t k = 0; k < axes; ++k) {
    result.names[k] = alike ? wanted : wanted + "_" + letters[k];
    if (k == 0 || !alike) unit.number(result.names[k], python(k), result.values[k]);
  }
  return result;
}

std::vector<std::string> axis_letters(std::size_t axes) {
  if (axes == 1) return {"l"};
  if (axes == 2) return {"h", "w"};
  return {"d", "h", "w"};
}

std::string decoded(AnchorKernel& kernel, const std::string& index, const std::vector<std::string>& names, const std::vector<std::string>& sizes,
                    const std::vector<std::string>& meanings) {
  std::string text;
  std::string inner;
  std::vector<std::string> passed;
  for (std::size_t k = names.size(); k-- > 0;) {
    const std::string left = passed.empty() ? index : passed.size() == 1 ? index + " / " + passed[0] : fmt::format("{} / ({})", index, product_text(passed));
    const std::string formula = k == 0 ? left : passed.empty() ? left + " % " + sizes[k] : fmt::format("({}) % {}", left, sizes[k]);
    text += kernel.index(names[k], formula, meanings[k]);
    passed.insert(passed.begin(), sizes[k]);
  }
  return text;
}

std::string flat_index(const std::vector<std::string>& coordinates, const std::vector<std::string>& sizes) {
  std::string text = coordinates[0];
  for (std::size_t k = 1; k < coordinates.size(); ++k) {
    if (text.find(' ') != std::string::npos) text = "(" + text + ")";
    text += " * " + sizes[k] + " + " + coordinates[k];
  }
  return text;
}

std::string window_position(const std::string& out, const std::string& stride, const std::string& padding, const std::string& k, const std::string& dilation) {
  std::string text = stride.empty() ? out : out + " * " + stride;
  if (!padding.empty()) text += " - " + padding;
  return text + " + " + (dilation.empty() ? k : k + " * " + dilation);
}

std::string product_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " * ") + name;
  return text;
}

}  // namespace musacoder::synth

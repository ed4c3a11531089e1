#include "synth/teacher/domain.h"

#include <algorithm>
#include <cctype>

namespace musacoder::synth {
namespace {

bool identifier(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

bool in_place(const Operand& operand, int dim) { return std::count(operand.place.begin(), operand.place.end(), dim) != 0; }

std::string host_size(const Graph& graph, const std::vector<Operand>& operands, const std::vector<int>& dims) {
  for (const Operand& o : operands) {
    if (!std::all_of(dims.begin(), dims.end(), [&](int d) { return in_place(o, d); })) continue;
    const std::size_t own = static_cast<std::size_t>(std::count_if(o.place.begin(), o.place.end(), [](int p) { return p >= 0; }));
    if (own == dims.size() && own == graph.type(o.value).dims.size()) return own == 1 ? o.tensor + ".size(0)" : o.tensor + ".numel()";
    std::string text;
    for (int d : dims) {
      const auto at = std::find(o.place.begin(), o.place.end(), d) - o.place.begin();
      text += (text.empty() ? "" : " * ") + fmt::format("{}.size({})", o.tensor, at);
    }
    return text;
  }
  // No operand has all of them (two broadcast against each other): one axis at a time.
  std::string text;
  for (int d : dims)
    for (const Operand& o : operands) {
      if (!in_place(o, d)) continue;
      text += (text.empty() ? "" : " * ") +
              fmt::format("{}.size({})", o.tensor, std::find(o.place.begin(), o.place.end(), d) - o.place.begin());
      break;
    }
  return text.empty() ? "1" : text;
}

}  // namespace

Names::Names()
    : used_({"idx", "i", "j", "k", "n", "row", "col", "tid", "lane", "warp", "out", "acc", "total", "offset", "threads", "blocks", "grid",
             "block", "rows", "cols", "value", "stride", "main", "int", "float", "half", "double", "const", "auto", "new", "delete", "this",
             "max", "min", "y", "result", "size", "t", "v", "r", "x_value", "step", "partial", "scratch", "base", "bool", "char", "long",
             "short", "while", "for", "if", "do", "case", "default", "switch", "return", "class", "struct", "signed", "unsigned", "log",
             "exp", "sqrt", "sin", "cos", "abs", "pow", "tanh", "floor", "ceil", "round", "where", "parts", "part", "warps", "first", "last"}) {}

std::string Names::take(const std::string& wanted) {
  std::string base;
  for (char c : wanted) base += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) != 0) base = "a" + base;
  if (used_.insert(base).second) return base;
  for (const char* suffix : {"_in", "_data", "_2", "_3", "_4", "_5", "_6", "_7", "_8"})
    if (used_.insert(base + suffix).second) return base + suffix;
  for (int k = 9;; ++k)
    if (const std::string name = fmt::format("{}_{}", base, k); used_.insert(name).second) return name;
}

std::vector<int> aligned_place(const TensorType& type, int rank) {
  std::vector<int> place;
  const int shift = rank - type.rank();
  for (int d = 0; d < type.rank(); ++d) place.push_back(type.dims[static_cast<std::size_t>(d)].size == 1 ? -1 : d + shift);
  return place;
}

Domain::Domain(const Graph& graph, const TensorType& full, const std::vector<bool>& reduced, std::vector<Operand> operands, Names& names,
               const std::vector<std::string>& hosts)
    : operands_(std::move(operands)) {
  for (int d = 0; d < full.rank(); ++d) {
    const Dim& dim = full.dims[static_cast<std::size_t>(d)];
    const bool gone = reduced[static_cast<std::size_t>(d)];
    const bool needed = std::any_of(operands_.begin(), operands_.end(), [&](const Operand& o) { return in_place(o, d); });
    if (dim.size == 1 && !needed) continue;
    const bool joins = !axes_.empty() && axes_.back().reduced == gone &&
                       std::all_of(operands_.begin(), operands_.end(),
                                   [&](const Operand& o) { return in_place(o, d) == in_place(o, axes_.back().dims.back()); });
    if (!joins) axes_.push_back({"", "", "", 1, gone, {}});
    axes_.back().dims.push_back(d);
    axes_.back().count *= dim.size;
  }
  static const char* const kCoordinates[] = {"b", "c", "d", "e", "f", "g"};
  std::size_t kept_index = 0, reduced_index = 0;
  for (Axis& axis : axes_) {
    const Dim& only = full.dims[static_cast<std::size_t>(axis.dims[0])];
    const bool last = &axis == &axes_.back();
    const std::string wanted = axis.dims.size() == 1 && identifier(only.name) ? only.name
                               : axis.reduced                                 ? "reduce_size"
                               : &axis == &axes_.front() && !last             ? "outer"
                               : last && axes_.size() > 1                     ? "inner"
                                                                              : "extent";
    axis.size = names.take(wanted);
    if (hosts.empty()) axis.host = host_size(graph, operands_, axis.dims);
    else
      for (int d : axis.dims) {
        const std::string& each = hosts[static_cast<std::size_t>(d)];
        const bool sum = axis.dims.size() > 1 && each.find(" / ") != std::string::npos;
        axis.host += (axis.host.empty() ? "" : " * ") + (sum ? "(" + each + ")" : each);
      }
    axis.coordinate = names.take(axis.reduced ? std::string("r") + std::to_string(reduced_index) : kCoordinates[std::min<std::size_t>(kept_index, 5)]);
    ++(axis.reduced ? reduced_index : kept_index);
  }
}

bool Domain::has(std::size_t operand, std::size_t axis) const { return in_place(operands_[operand], axes_[axis].dims[0]); }

bool Domain::covers(std::size_t operand) const {
  for (std::size_t a = 0; a < axes_.size(); ++a)
    if (!has(operand, a)) return false;
  return true;
}

namespace {
std::string horner(const std::vector<const Axis*>& axes, const std::vector<std::string>& coordinates) {
  std::string text;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (k == 0) {
      text = coordinates[0];
      continue;
    }
    const bool sum = text.find(' ') != std::string::npos;
    text = fmt::format("{} * {} + {}", sum ? "(" + text + ")" : text, axes[k]->size, coordinates[k]);
  }
  return text.empty() ? "0" : text;
}
}  // namespace

std::string Domain::offset(std::size_t operand, const std::vector<std::string>& coordinates) const {
  std::vector<const Axis*> own;
  std::vector<std::string> at;
  for (std::size_t a = 0; a < axes_.size(); ++a)
    if (has(operand, a)) {
      own.push_back(&axes_[a]);
      at.push_back(coordinates[a]);
    }
  return horner(own, at);
}

std::string Domain::offset_of(const std::vector<std::string>& coordinates, bool kept_only) const {
  std::vector<const Axis*> own;
  std::vector<std::string> at;
  for (std::size_t a = 0; a < axes_.size(); ++a)
    if (!kept_only || !axes_[a].reduced) {
      own.push_back(&axes_[a]);
      at.push_back(coordinates[a]);
    }
  return horner(own, at);
}

std::int64_t Domain::count(bool reduced) const {
  std::int64_t n = 1;
  for (const Axis& axis : axes_)
    if (axis.reduced == reduced) n *= axis.count;
  return n;
}

std::string Domain::host_count(bool reduced) const {
  std::string text;
  for (const Axis& axis : axes_)
    if (axis.reduced == reduced) text += (text.empty() ? "" : " * ") + axis.size;
  return text.empty() ? "1" : text;
}

}  // namespace musacoder::synth

#include "synth/teacher/derivation.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "synth/graph/ops.h"
#include "synth/seeded.h"
#include "synth/teacher/host_walk.h"
#include "synth/teacher/scalar.h"

namespace musacoder::synth {
namespace {

const char* const kTitles[] = {"Overall analysis", "Scalar formula", "Shapes", "Index and memory mapping", "Boundaries and types", "Likely errors"};

const char* const kConvolution = "Σ over the group's input channels c and the kernel's places k of {0}[n, c, o · stride − padding + k · dilation] · {1}[o, c, k], plus the bias";
const char* const kTransposed = "Σ over c, k of {0}[n, c, i] · {1}[c, o, k] where i · stride = o + padding − k · dilation has a whole solution inside the input, plus the bias";

// What operators without an element-wise expression compute; {0}, {1} … operands.
const std::map<std::string, const char*>& formulas() {
  static const std::map<std::string, const char*> table = {
      {"sum", "Σ {0} over the walked axes"},
      {"mean", "(Σ {0}) / count over the walked axes"},
      {"amax", "max {0} over the walked axes"},
      {"amin", "min {0} over the walked axes"},
      {"prod", "Π {0} over the walked axes"},
      {"var", "Σ ({0} − mean)² / (count − correction)"},
      {"std", "√(Σ ({0} − mean)² / (count − correction))"},
      {"norm", "(Σ |{0}|^p)^(1/p)"},
      {"logsumexp", "m + log Σ exp({0} − m) with m = max {0}"},
      {"any", "whether any element of {0} is not zero"},
      {"all", "whether all elements of {0} are not zero"},
      {"count_nonzero", "number of elements of {0} that are not zero"},
      {"argmax", "smallest index at which {0} is largest"},
      {"argmin", "smallest index at which {0} is smallest"},
      {"max_with_index", "max {0}, and the smallest index at which it is reached"},
      {"min_with_index", "min {0}, and the smallest index at which it is reached"},
      {"cumsum", "Σ of {0} up to and with this place"},
      {"cumprod", "Π of {0} up to and with this place"},
      {"softmax", "exp({0} − m) / Σ exp({0} − m) with m the row's maximum"},
      {"softmin", "exp(−{0} − m) / Σ exp(−{0} − m) with m the maximum of −{0} in the row"},
      {"log_softmax", "{0} − m − log Σ exp({0} − m) with m the row's maximum"},
      {"normalize", "{0} / max(‖{0}‖, eps)"},
      {"layer_norm", "({0} − mean) / √(variance + eps) · weight + bias, the variance over all elements of the row"},
      {"rms_norm", "{0} / √(mean of squares + eps) · weight"},
      {"group_norm", "({0} − mean) / √(variance + eps) · weight[c] + bias[c], with statistics of the channel's group"},
      {"instance_norm", "({0} − mean) / √(variance + eps), with statistics of one channel of one sample"},
      {"batch_norm", "({0} − mean) / √(variance + eps) · weight[c] + bias[c], with statistics of the channel over the batch"},
      {"cat", "the element of whichever tensor covers this place of the joined axis"},
      {"stack", "the element of the tensor that the new axis names"},
      {"pad", "{0} at the place less the padding before it, or the fill value outside"},
      {"flip", "{0} at size − 1 − place along the flipped axis"},
      {"roll", "{0} at (place − shift) modulo the size"},
      {"tril", "{0} on and below the diagonal, else 0"},
      {"triu", "{0} on and above the diagonal, else 0"},
      {"repeat", "{0} at the place modulo its size"},
      {"repeat_interleave", "{0} at the place divided by the number of repeats"},
      {"contiguous", "{0}, copied into a tensor without gaps"},
      {"gather", "{0} at the place that {1} names along the axis"},
      {"index_select", "the slice of {0} that {1} names"},
      {"embedding", "row {0} of {1}"},
      {"pixel_shuffle", "{0} of the channel that the place within the factor × factor cell names"},
      {"pixel_unshuffle", "{0} of the place within the cell that the channel names"},
      {"upsample_nearest", "{0} at the place divided by the scale, rounded down"},
      {"upsample_bilinear", "the four neighbours of {0} around the place, weighted by distance"},
      {"linear", "Σ_k {0}[…, k] · {1}[column, k], plus the bias"},
      {"matmul", "Σ_k {0}[row, k] · {1}[k, column]"},
      {"mm", "Σ_k {0}[row, k] · {1}[k, column]"},
      {"bmm", "Σ_k {0}[b, row, k] · {1}[b, k, column]"},
      {"mv", "Σ_k {0}[row, k] · {1}[k]"},
      {"dot", "Σ_k {0}[k] · {1}[k]"},
      {"outer", "{0}[row] · {1}[column]"},
      {"diagonal_mm", "{0}[row] · {1}[row, column]: a diagonal matrix scales rows, there is nothing to sum"},
      {"addmm", "beta · {0} + alpha · Σ_k {1}[row, k] · {2}[k, column]"},
      {"baddbmm", "beta · {0} + alpha · Σ_k {1}[b, row, k] · {2}[b, k, column]"},
      {"conv1d", kConvolution},
      {"conv2d", kConvolution},
      {"conv3d", kConvolution},
      {"conv_transpose1d", kTransposed},
      {"conv_transpose2d", kTransposed},
      {"conv_transpose3d", kTransposed},
      {"max_pool1d", "max of {0} over the window at o · stride − padding; places outside do not take part"},
      {"max_pool2d", "max of {0} over the window at o · stride − padding; places outside do not take part"},
      {"max_pool3d", "max of {0} over the window at o · stride − padding; places outside do not take part"},
      {"avg_pool1d", "(Σ {0} over the window at o · stride − padding) / size of the window, padding counted"},
      {"avg_pool2d", "(Σ {0} over the window at o · stride − padding) / size of the window, padding counted"},
      {"avg_pool3d", "(Σ {0} over the window at o · stride − padding) / size of the window, padding counted"},
      {"adaptive_avg_pool1d", "mean of {0} from ⌊o · in / out⌋ to ⌈(o + 1) · in / out⌉ of each axis"},
      {"adaptive_avg_pool2d", "mean of {0} from ⌊o · in / out⌋ to ⌈(o + 1) · in / out⌉ of each axis"},
      {"adaptive_avg_pool3d", "mean of {0} from ⌊o · in / out⌋ to ⌈(o + 1) · in / out⌉ of each axis"},
      {"adaptive_max_pool1d", "max of {0} from ⌊o · in / out⌋ to ⌈(o + 1) · in / out⌉ of each axis"},
      {"adaptive_max_pool2d", "max of {0} from ⌊o · in / out⌋ to ⌈(o + 1) · in / out⌉ of each axis"},
      {"adaptive_max_pool3d", "max of {0} from ⌊o · in / out⌋ to ⌈(o + 1) · in / out⌉ of each axis"},
      {"scaled_dot_product_attention", "Σ_j softmax_j(scale · {0}[row] · {1}[j]) · {2}[j]; masked keys have weight 0"},
      {"rnn_cell", "tanh({2} · {0} + {3} · {1}, plus both biases)"},
      {"gru_cell", "(1 − z) · n + z · {1} with r, z = σ(…) of both inputs and n = tanh(input part + r · hidden part)"},
      {"gru", "h_t = (1 − z) · n + z · h_(t−1) for every step t and layer, with r, z = σ(x part + h part) and n = tanh(x part + r · h part), where each gate has a third of weight_ih x_t + bias_ih and of weight_hh h_(t−1) + bias_hh"},
      {"lstm", "h_t = o · tanh(c_t), c_t = f · c_(t−1) + i · g for every step t and layer, with i, f, o = σ(x part + h part) and g = tanh(x part + h part), where each gate has a quarter of weight_ih x_t + bias_ih and of weight_hh h_(t−1) + bias_hh"},
      {"multi_head_attention", "the output projection of softmax(q kᵀ / √(head size)) v for each head, with q, k, v = {0}, {1}, {2} times each third of {3}, plus the biases"},
      {"mse_loss", "mean of ({0} − {1})²"},
      {"l1_loss", "mean of |{0} − {1}|"},
      {"huber_loss", "mean of d²/2 where |d| < δ, else δ (|d| − δ/2), with d = {0} − {1}"},
      {"smooth_l1_loss", "mean of d²/(2β) where |d| < β, else |d| − β/2, with d = {0} − {1}"},
      {"kl_div", "Σ {1} (log {1} − {0}), divided as the reduction says"},
      {"bce_with_logits", "mean of max(x, 0) − x y + log(1 + exp(−|x|))"},
      {"soft_margin_loss", "mean of log(1 + exp(−{0} {1}))"},
      {"hinge_embedding_loss", "mean of {0} where the target is 1, else max(0, margin − {0})"},
      {"cross_entropy", "mean over rows of logsumexp(row) − row[label]"},
      {"nll_loss", "mean over rows of −row[label]"},
      {"triplet_margin_loss", "mean of max(0, ‖a − p‖ − ‖a − n‖ + margin)"},
      {"cosine_similarity", "Σ {0} {1} / (‖{0}‖ ‖{1}‖)"},
  };
  return table;
}

std::string filled(std::string pattern, const std::vector<std::string>& operands) {
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::string key = fmt::format("{{{}}}", k);
    for (std::size_t at = 0; (at = pattern.find(key, at)) != std::string::npos; at += operands[k].size()) pattern.replace(at, key.size(), operands[k]);
  }
  return pattern;
}

class Text {
 public:
  Text(const Graph& graph, const std::vector<KernelFacts>& kernels, std::uint64_t seed) : graph_(graph), kernels_(kernels), draw_(mix(seed, "derivation")) {
    int count = 0;
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      names_.push_back(graph.values[v].source == Source::kNode ? fmt::format("h{}", ++count) : graph.values[v].name);
  }

  std::string write() {
    const std::size_t heading = draw_.below(3);
    std::string text;
    const auto section = [&](int k, const std::string& body) {
      const std::string title = heading == 0 ? fmt::format("## {}. {}", k + 1, kTitles[k]) : heading == 1 ? fmt::format("### Step {}: {}", k + 1, kTitles[k]) : fmt::format("**{}. {}**", k + 1, kTitles[k]);
      text += (text.empty() ? "" : "\n") + title + "\n" + body;
    };
    section(0, analysis());
    section(1, scalar());
    section(2, shapes());
    section(3, mapping());
    section(4, boundaries());
    section(5, errors());
    return text;
  }

 private:
  std::string operands(const Node& node) const {
    std::string text;
    for (int v : node.inputs) text += (text.empty() ? "" : ", ") + names_[static_cast<std::size_t>(v)];
    return text;
  }

  std::string analysis() {
    std::string text = draw_.choose({"The module is this chain of operators:\n", "What forward computes, operator by operator:\n", "The graph of the module:\n"});
    for (const Node& node : graph_.nodes) {
      std::string made;
      for (int v : node.outputs) made += (made.empty() ? "" : ", ") + names_[static_cast<std::size_t>(v)];
      text += fmt::format("- {} = {}({})\n", made, node.op, operands(node));
    }
    std::string list;
    for (const KernelFacts& k : kernels_) list += (list.empty() ? "`" : ", `") + k.name + "`";
    const bool one = kernels_.size() == 1;
    if (one && graph_.nodes.size() > 1)
      text += fmt::format("All of it fits in one kernel, {}: intermediate values stay in registers, so that memory is read and written once.\n", list);
    else if (one)
      text += fmt::format("One kernel does it: {}.\n", list);
    else
      text += fmt::format("It takes these kernels, in this order: {}. What one writes the next reads.\n", list);
    return text;
  }

  std::string scalar() {
    std::string text;
    for (const Node& node : graph_.nodes) {
      std::vector<std::string> own;
      for (int v : node.inputs) own.push_back(names_[static_cast<std::size_t>(v)]);
      std::string formula;
      const auto it = formulas().find(node.op);
      if (it != formulas().end()) {
        formula = filled(it->second, own);
      } else if (has_scalar(node)) {
        if (const auto expression = scalar_expression(graph_, node, own)) formula = "`" + *expression + "`";
      }
      if (formula.empty()) formula = fmt::format("{} of {}", node.op, operands(node));
      text += fmt::format("- {} = {}\n", names_[static_cast<std::size_t>(node.outputs[0])], formula);
    }
    return text;
  }

  std::string shapes() {
    std::string text;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) text += fmt::format("- Tensor `{}`: {}\n", names_[v], shape_text(graph_.values[v].type));
    std::string returned;
    for (int v : graph_.outputs) returned += (returned.empty() ? "`" : ", `") + names_[static_cast<std::size_t>(v)] + "`";
    return text + "- Returned: " + returned + "\n";
  }

  std::string mapping() {
    std::string text;
    for (const KernelFacts& k : kernels_) {
      text += fmt::format("- Kernel `{}` is launched with grid `{}` and block `{}`: {} blocks of {} threads, {} bytes of shared memory\n", k.name, k.grid,
                          k.block, k.grid_size, k.block_size, k.shared_bytes);
      for (const std::string& size : k.sizes) {
        const std::size_t first = size.find(" = "), last = size.rfind(" = ");
        text += fmt::format("- Size `{}` = {}\n", size.substr(0, first), size.substr(last + 3));
      }
      for (const IndexFact& i : k.indices) text += fmt::format("- Index `{}` = `{}`: {}\n", i.name, i.formula, i.meaning);
      std::set<std::string> told;
      for (const AccessFact& a : k.accesses) {
        const std::string line = fmt::format("- {} `{}[{}]`\n", a.write ? "Writes" : "Reads", a.tensor, a.index);
        if (told.insert(line).second) text += line;
      }
      for (const LoopFact& l : k.loops) text += fmt::format("- Loop over `{}` from `{}` to `{}` in steps of `{}`: {}\n", l.variable, l.from, l.to, l.step, l.purpose);
    }
    return text;
  }

  std::string boundaries() {
    std::string text;
    for (const KernelFacts& k : kernels_) {
      text += fmt::format("- In kernel `{}`:\n", k.name);
      std::set<std::string> told;
      for (const std::string& bound : k.bounds)
        if (told.insert(bound).second) text += fmt::format("- Guard `{}`\n", bound);
      if (!k.accumulator.empty()) text += fmt::format("- Accumulates in `{}`\n", k.accumulator);
    }
    std::set<std::string> types;
    for (const Value& v : graph_.values) types.insert(dtype_name(v.type.dtype));
    std::string list;
    for (const std::string& t : types) list += (list.empty() ? "" : ", ") + t;
    text += "Types in play: " + list + ".";
    if (types.count("float16") != 0 || types.count("bfloat16") != 0) text += " Half precision is widened to float for arithmetic and rounded once at the store.";
    return text + "\n";
  }

  std::string errors() {
    std::vector<std::string> all;
    bool shared = false, loops = false, partial = false, broadcast = false;
    for (const KernelFacts& k : kernels_) {
      shared = shared || k.shared_bytes > 0;
      loops = loops || !k.loops.empty();
      partial = partial || !k.bounds.empty();
    }
    std::set<std::string> ops;
    for (const Node& n : graph_.nodes) {
      ops.insert(n.op);
      for (int v : n.inputs) broadcast = broadcast || (find_op(n.op)->cls == OpClass::kElementwise && graph_.type(v).sizes() != graph_.type(n.outputs[0]).sizes());
    }
    const auto any = [&](std::initializer_list<const char*> some) {
      return std::any_of(some.begin(), some.end(), [&](const char* op) { return ops.count(op) != 0; });
    };
    if (partial) all.push_back("Without the guard the last block reads and writes behind the tensors' ends, because sizes need not be multiples of the block.");
    if (broadcast) all.push_back("A broadcast operand has its own, smaller index: using the result's flat index for it reads out of bounds.");
    if (shared) all.push_back("Between writing shared memory and reading what other threads wrote there must be a barrier that every thread of the block reaches.");
    if (loops && !shared) all.push_back("A loop that starts at the thread's index must advance by the number of threads that share the work, or elements are counted twice.");
    if (any({"softmax", "log_softmax", "softmin", "logsumexp", "cross_entropy"})) all.push_back("Exponentials overflow float32 above about 88: subtract the maximum first.");
    if (any({"layer_norm", "group_norm", "instance_norm", "batch_norm"})) all.push_back("The variance of a normalisation divides by the count, not by the count less one, and eps stands inside the square root.");
    if (any({"var", "std"})) all.push_back("The variance divides by the count less the correction, and E[x²] − E[x]² loses its digits when the mean is large.");
    if (any({"argmax", "argmin", "max_with_index", "min_with_index"})) all.push_back("Where values are equal the smaller index must win, also when states of different threads are merged.");
    if (any({"amax", "max_with_index", "argmax"})) all.push_back("A maximum must start at −∞: starting at 0 is wrong for rows of negative numbers.");
    if (any({"mean"})) all.push_back("A mean divides once, after the sum, by the number of elements of the walked axes only.");
    if (any({"roll", "remainder"})) all.push_back("The remainder of a negative number is negative in C++; add the size before taking it again.");
    if (any({"contiguous", "transpose", "permute"})) all.push_back("A view shares memory: its elements must be found by strides, not by the flat index.");
    if (any({"gelu"})) all.push_back("GELU has two forms, by erf and by tanh; they differ in the third digit.");
    if (any({"conv1d", "conv2d", "conv3d", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"})) all.push_back("The window may begin before the input: a place less the padding is negative there and must be tested as a signed number.");
    if (any({"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})) all.push_back("Transposed weights lie as (in, out / groups, …); places that the stride does not reach contribute nothing, and a remainder must not be rounded away.");
    if (any({"max_pool1d", "max_pool2d", "max_pool3d"})) all.push_back("Padding is no zero for a maximum: places outside are left out.");
    if (any({"linear"})) all.push_back("The weight of a linear layer is (out, in): its rows are multiplied, not its columns.");
    if (any({"matmul", "mm", "bmm", "linear", "addmm"}) && shared) all.push_back("Tiles at the edges must be filled with zeros, or what an earlier tile left there is summed.");
    if (any({"scaled_dot_product_attention"})) all.push_back("Scores overflow in the exponential unless their running maximum is subtracted; when it grows, sum and result must be rescaled.");
    if (any({"multi_head_attention"})) all.push_back("Heads are neighbouring columns of a projection: the head's size, not the whole width, scales the scores.");
    if (any({"gru", "lstm"})) all.push_back("A step reads the whole state of the step before: all units of a row must be finished before any is overwritten, so there are two copies or a launch for each step.");
    if (any({"gru"})) all.push_back("The reset gate multiplies the hidden part of the candidate with its bias, not the hidden state before the product.");
    if (any({"lstm"})) all.push_back("The gates lie in the order input, forget, candidate, output; the candidate alone goes through tanh.");
    if (any({"cumsum", "cumprod"})) all.push_back("Pieces of a line depend on each other: what came before must be carried into the next.");
    if (any({"prelu"})) all.push_back("The slope belongs to the channel, which is the second axis, not the last.");
    std::set<std::string> types;
    for (const Value& v : graph_.values) types.insert(dtype_name(v.type.dtype));
    if (types.count("float16") != 0 || types.count("bfloat16") != 0) all.push_back("Summing in half precision loses small terms; keep sums in float.");
    if (types.count("int64") != 0) all.push_back("Indices and labels are int64: reading them as int takes every other half.");
    all.push_back(draw_.choose({"Torch operators in forward are not allowed: parameters are handed to the extension, and kernels compute.",
                                "forward must not call the module's layers; it passes their parameters on.",
                                "The result's shape and type are part of the contract: allocate exactly what the module returns."}));
    std::string text;
    for (const std::string& line : all) text += "- " + line + "\n";
    return text;
  }

  const Graph& graph_;
  const std::vector<KernelFacts>& kernels_;
  Seeded draw_;
  std::vector<std::string> names_;
};

// Without spaces, "dim3", and brackets around the whole.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) out += c;
  for (std::size_t at; (at = out.find("dim3")) != std::string::npos;) out.erase(at, 4);
  while (out.size() > 2 && out.front() == '(') {
    int depth = 0;
    std::size_t close = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] == '(') ++depth;
      if (out[i] == ')' && --depth == 0) {
        close = i;
        break;
      }
    }
    if (close + 1 != out.size()) break;
    out = out.substr(1, out.size() - 2);
  }
  return out;
}

// Texts in backticks of a line.
std::vector<std::string> quoted(std::string_view line) {
  std::vector<std::string> all;
  for (std::size_t at = 0; (at = line.find('`', at)) != std::string_view::npos;) {
    const std::size_t end = line.find('`', at + 1);
    if (end == std::string_view::npos) break;
    all.emplace_back(line.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return all;
}

// Whole numbers of a line outside of backticks.
std::vector<std::int64_t> numbers(std::string_view line) {
  std::vector<std::int64_t> all;
  bool inside = false;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '`') inside = !inside;
    if (inside || std::isdigit(static_cast<unsigned char>(line[i])) == 0) {
      ++i;
      continue;
    }
    std::int64_t n = 0;
    while (i < line.size() && std::isdigit(static_cast<unsigned char>(line[i])) != 0) n = n * 10 + (line[i++] - '0');
    all.push_back(n);
  }
  return all;
}

class Check {
 public:
  Check(const Graph& graph, HostWalk walk) : graph_(graph), walk_(std::move(walk)) {}

  Status run(std::string_view text) {
    for (const char* title : kTitles)
      if (text.find(title) == std::string_view::npos) return fail(Code::kInvalidArgument, "the step '{}' is missing", title);
    std::size_t tensors = 0;
    std::set<std::string> launched;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find('\n', at);
      if (end == std::string_view::npos) end = text.size();
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      const std::vector<std::string> q = quoted(line);
      if (begins(line, "- Tensor ")) {
        MC_RETURN_IF_ERROR(tensor(line, q, tensors++));
      } else if (begins(line, "- Kernel ")) {
        MC_RETURN_IF_ERROR(kernel(line, q));
        launched.insert(q[0]);
      } else if (begins(line, "- In kernel ")) {
        MC_RETURN_IF_ERROR(enter(q.empty() ? "" : q[0]));
      } else if (begins(line, "- Size ")) {
        MC_RETURN_IF_ERROR(size(line, q));
      } else if (begins(line, "- Index ")) {
        MC_RETURN_IF_ERROR(index(line, q));
      } else if (begins(line, "- Reads ") || begins(line, "- Writes ")) {
        MC_RETURN_IF_ERROR(access(line, q, begins(line, "- Writes ")));
      } else if (begins(line, "- Loop over ")) {
        MC_RETURN_IF_ERROR(loop(line, q));
      } else if (begins(line, "- Guard ")) {
        MC_RETURN_IF_ERROR(guard(line, q));
      } else if (begins(line, "- Accumulates in ")) {
        MC_RETURN_IF_ERROR(accumulator(line, q));
      }
    }
    if (tensors != graph_.values.size()) return fail(Code::kInvalidArgument, "{} tensors are listed, the task has {}", tensors, graph_.values.size());
    for (const auto& [name, launch] : walk_.launches)
      if (launched.count(name) == 0) return fail(Code::kInvalidArgument, "kernel {} is launched and not described", name);
    for (std::size_t k = 0; k < walk_.outputs.size(); ++k)
      if (k >= graph_.outputs.size() || walk_.outputs[k] != graph_.type(graph_.outputs[k]).sizes())
        return fail(Code::kInvalidArgument, "forward returns another shape than the task");
    return ok();
  }

 private:
  static bool begins(std::string_view line, std::string_view with) { return line.substr(0, with.size()) == with; }
  static Status wrong(std::string_view line, std::string_view why) { return fail(Code::kInvalidArgument, "'{}': {}", line, why); }

  Status tensor(std::string_view line, const std::vector<std::string>& q, std::size_t place) {
    if (q.size() != 1 || place >= graph_.values.size()) return wrong(line, "there is no such tensor");
    const Value& value = graph_.values[place];
    if (value.source != Source::kNode && value.name != q[0]) return wrong(line, "the task names it " + value.name);
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || line.substr(colon + 2) != shape_text(value.type)) return wrong(line, "it is " + shape_text(value.type));
    return ok();
  }

  Status enter(const std::string& name) {
    const auto it = walk_.launches.find(name);
    if (it == walk_.launches.end()) return fail(Code::kInvalidArgument, "kernel {} is not launched", name);
    now_ = &it->second;
    body_ = plain_body(now_->body);
    return ok();
  }
  // Spaces removed; every text of the kernel is looked for in this.
  static std::string plain_body(std::string_view body) {
    std::string out;
    for (std::size_t i = 0; i < body.size(); ++i) {
      if (body.substr(i, 2) == "//")
        while (i < body.size() && body[i] != '\n') ++i;
      if (i < body.size() && std::isspace(static_cast<unsigned char>(body[i])) == 0) out += body[i];
    }
    return out;
  }
  static std::string squeezed(std::string_view text) { return plain_body(text); }
  bool has(const std::string& text) const { return body_.find(text) != std::string::npos; }

  Status kernel(std::string_view line, const std::vector<std::string>& q) {
    if (q.size() != 3) return wrong(line, "not a launch");
    MC_RETURN_IF_ERROR(enter(q[0]));
    const std::vector<std::int64_t> n = numbers(line);
    if (n.size() != 3) return wrong(line, "not a launch");
    if (plain(q[1]) != plain(now_->grid) && plain(q[1]) != plain(now_->grid_meaning)) return wrong(line, "the grid is " + now_->grid_meaning);
    if (plain(q[2]) != plain(now_->block) && plain(q[2]) != plain(now_->block_meaning)) return wrong(line, "the block is " + now_->block_meaning);
    if (n[0] != now_->blocks) return wrong(line, fmt::format("the grid has {} blocks", now_->blocks));
    if (n[1] != now_->threads) return wrong(line, fmt::format("the block has {} threads", now_->threads));
    const std::int64_t shared = now_->static_shared + now_->dynamic_shared;
    if (n[2] != shared) return wrong(line, fmt::format("shared memory is {} bytes", shared));
    return ok();
  }
  Status size(std::string_view line, const std::vector<std::string>& q) {
    const std::vector<std::int64_t> n = numbers(line);
    if (now_ == nullptr || q.size() != 1 || n.size() != 1) return wrong(line, "not a size");
    const auto it = now_->sizes.find(q[0]);
    if (it == now_->sizes.end()) return wrong(line, "the host has no such variable");
    if (it->second != n[0]) return wrong(line, fmt::format("it is {}", it->second));
    return ok();
  }
  Status index(std::string_view line, const std::vector<std::string>& q) {
    if (now_ == nullptr || q.size() < 2) return wrong(line, "not an index");
    // Either `name = formula;` or the head of a loop.
    if (!has(squeezed(q[0]) + "=" + squeezed(q[1]) + ";") && !has(squeezed(q[0]) + "=" + squeezed(q[1]) + ",")) return wrong(line, "the kernel has no such formula");
    return ok();
  }
  Status access(std::string_view line, const std::vector<std::string>& q, bool write) {
    if (now_ == nullptr || q.size() != 1) return wrong(line, "not an access");
    const std::string text = squeezed(q[0]);
    if (!has(text)) {
      // Vectors: reinterpret_cast<float4*>(x)[i].
      const std::size_t open = text.find('[');
      const std::string wide = "*>(" + text.substr(0, open) + ")" + text.substr(open);
      if (!has(wide)) return wrong(line, "the kernel has no such access");
      if (write && !has(wide + "=")) return wrong(line, "the kernel does not write there");
      return ok();
    }
    if (write && !has(text + "=")) return wrong(line, "the kernel does not write there");
    return ok();
  }
  Status loop(std::string_view line, const std::vector<std::string>& q) {
    if (now_ == nullptr || q.size() < 4) return wrong(line, "not a loop");
    const std::string v = squeezed(q[0]);
    if (!has(v + "=" + squeezed(q[1]) + ";" + v)) return wrong(line, "no loop of the kernel starts there");
    if (!has(v + "<" + squeezed(q[2]) + ";") && !has(v + "<" + squeezed(q[2]) + "&&")) return wrong(line, "no loop of the kernel ends there");
    const std::string step = squeezed(q[3]);
    const bool one = step == "1" && (has("++" + v) || has(v + "++"));
    if (!one && !has(v + "+=" + step) && !(has("stride=" + step + ";") && has(v + "+=stride"))) return wrong(line, "no loop of the kernel has this step");
    return ok();
  }
  Status guard(std::string_view line, const std::vector<std::string>& q) {
    if (now_ == nullptr || q.size() != 1) return wrong(line, "not a guard");
    const std::string text = squeezed(q[0]);
    if (has(text)) return ok();
    // The other way round: if (idx >= n) return.
    for (const auto& [own, other] : {std::pair{"<", ">="}, std::pair{">=", "<"}, std::pair{"<=", ">"}, std::pair{">", "<="}}) {
      const std::size_t at = text.find(own);
      if (at == std::string::npos) continue;
      if (has(text.substr(0, at) + other + text.substr(at + std::string_view(own).size()))) return ok();
      break;
    }
    return wrong(line, "the kernel has no such guard");
  }
  Status accumulator(std::string_view line, const std::vector<std::string>& q) {
    if (now_ == nullptr || q.size() != 1) return wrong(line, "not a type");
    // A variable of this type that is changed later: declared without const.
    const std::string& body = now_->body;
    const std::string type = q[0] + " ";
    for (std::size_t at = 0; (at = body.find(type, at)) != std::string::npos; at += type.size()) {
      if (at > 0 && (std::isalnum(static_cast<unsigned char>(body[at - 1])) != 0 || body[at - 1] == '_')) continue;
      if (at < 6 || body.substr(at - 6, 6) != "const ") return ok();
    }
    return wrong(line, "the kernel keeps no such variable");
  }

  const Graph& graph_;
  HostWalk walk_;
  const WalkedLaunch* now_ = nullptr;
  std::string body_;
};

}  // namespace

std::string derivation_text(const Graph& graph, const std::vector<KernelFacts>& kernels, std::uint64_t seed) {
  return Text(graph, kernels, seed).write();
}

Status check_derivation(std::string_view text, const Graph& graph, std::string_view file) {
  MC_ASSIGN_OR_RETURN(HostWalk walk, walk_host(file, graph));
  return Check(graph, std::move(walk)).run(text);
}

}  // namespace musacoder::synth

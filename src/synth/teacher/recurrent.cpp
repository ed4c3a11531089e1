// Schedules of recurrent layers whose input projections are there already (lower.h): a block for each row of the batch that keeps the hidden state
// in shared memory, with a thread or a warp for each unit, and a kernel for each time step.
#include <algorithm>

#include "synth/teacher/anchor_unit.h"

namespace musacoder::synth {
namespace {

struct Layer {
  bool lstm = false, batch_first = false;
  std::int64_t steps = 1, batch = 1, hidden = 1;
  int bias = -1, h = -1, c = -1;   // values, −1 where there is none
  bool cell_wanted = false;        // the last cell state is a result
};

bool describe(const Graph& graph, const Region& region, Layer& layer) {
  const Node& node = graph.nodes[static_cast<std::size_t>(region.anchor)];
  layer.lstm = node.op == "lstm_layer";
  if (!layer.lstm && node.op != "gru_layer") return false;
  const TensorType& gates = graph.type(node.inputs[0]);
  if (gates.dtype != DType::kF32) return false;
  layer.batch_first = node.flag("batch_first");
  layer.batch = gates.dims[layer.batch_first ? 0 : 1].size;
  layer.steps = gates.dims[layer.batch_first ? 1 : 0].size;
  layer.hidden = graph.type(node.inputs[1]).dims[1].size;
  std::size_t next = 2;
  if (next < node.inputs.size() && graph.type(node.inputs[next]).rank() == 1) layer.bias = node.inputs[next++];
  if (next < node.inputs.size()) layer.h = node.inputs[next++];
  if (next < node.inputs.size()) layer.c = node.inputs[next];
  layer.cell_wanted = layer.lstm && std::count(region.outputs.begin(), region.outputs.end(), node.outputs[1]) != 0;
  if (region.epilogue.empty()) return region.prologue.empty();
  return epilogue_fits(graph, region, {1, 1, 1});
}

// Names of one layer in one unit.
struct Setup {
  Layer layer;
  std::string gates, weight, bias, h0, c0, last_cell, batch, steps, hidden;
  std::vector<std::string> sums;   // what W_hh · h gives for each gate

  // (row, t) as a flat index over both.
  std::string place(const std::string& t) const {
    return layer.batch_first ? fmt::format("row * {} + {}", steps, t) : t == "t" ? fmt::format("t * {} + row", batch) : fmt::format("({}) * {} + row", t, batch);
  }
  // Row of the weights for a gate's unit.
  std::string row_of(std::size_t gate) const {
    return gate == 0 ? "unit" : gate == 1 ? fmt::format("({} + unit)", hidden) : fmt::format("({} * {} + unit)", gate, hidden);
  }
  std::string weight_at(std::size_t gate) const { return fmt::format("{} * {} + i", row_of(gate), hidden); }
  std::string bias_at(std::size_t gate) const { return gate == 0 ? "unit" : gate == 1 ? hidden + " + unit" : fmt::format("{} * {} + unit", gate, hidden); }
  std::string gate_at(std::size_t gate) const { return gate == 0 ? "gate" : gate == 1 ? "gate + " + hidden : fmt::format("gate + {} * {}", gate, hidden); }
};

Setup setup(AnchorUnit& unit) {
  Setup s;
  describe(unit.graph(), unit.region(), s.layer);
  const Layer& layer = s.layer;
  const Node& node = unit.node();
  for (const char* local : {"t", "h", "unit", "gate", "state", "terms", "warps", "reset", "update", "cand", "forget", "in_gate", "out_gate"}) unit.reserve(local);
  s.gates = unit.tensor(node.inputs[0], unit.word("gates", "x_proj", "input_gates"));
  s.weight = unit.tensor(node.inputs[1], unit.word("w_hh", "weight_hh", "w_hh"));
  if (layer.bias >= 0) s.bias = unit.tensor(layer.bias, unit.word("b_hh", "bias_hh", "b_hh"));
  if (layer.h >= 0) s.h0 = unit.tensor(layer.h, "h0");
  if (layer.c >= 0) s.c0 = unit.tensor(layer.c, "c0");
  s.batch = unit.word("batch", "B", "batch_size");
  s.steps = unit.word("steps", "T", "seq_len");
  s.hidden = unit.word("hid", "H", "hidden_size");
  unit.size(s.batch, fmt::format("{}.size({})", s.gates, layer.batch_first ? 0 : 1), layer.batch);
  unit.size(s.steps, fmt::format("{}.size({})", s.gates, layer.batch_first ? 1 : 0), layer.steps);
  unit.size(s.hidden, s.weight + ".size(1)", layer.hidden);
  const OutAxis row{"row", s.batch, 1}, step{"t", s.steps, 1}, own{"unit", s.hidden, 1};
  const std::string outer = layer.batch_first ? s.batch + ", " + s.steps : s.steps + ", " + s.batch;
  unit.result(layer.batch_first ? std::vector<OutAxis>{row, step, own} : std::vector<OutAxis>{step, row, own}, fmt::format("{{{}, {}}}", outer, s.hidden));
  s.sums = layer.lstm ? std::vector<std::string>{"in_sum", "forget_sum", "cand_sum", "out_sum"} : std::vector<std::string>{"reset_sum", "update_sum", "cand_sum"};
  return s;
}

// A tensor (batch, hidden) on the host for the cell state that the kernel leaves behind.
void cell_tensor(AnchorUnit& unit, Setup& s) {
  s.last_cell = unit.word("cell", "c_last", "cell_state");
  unit.host(fmt::format("auto {} = torch::empty({{{}, {}}}, {}.options());", s.last_cell, s.batch, s.hidden, s.gates));
  if (s.layer.cell_wanted) unit.also_result(unit.node().outputs[1], s.last_cell);
}

void inputs(AnchorKernel& kernel, const Setup& s) {
  for (const std::string& name : {s.gates, s.weight, s.bias, s.h0, s.c0})
    if (!name.empty()) kernel.reads(name, "");
  kernel.sizes({s.batch, s.steps, s.hidden});
}

std::string sigmoid(AnchorUnit& unit) {
  return unit.writer().helper("gate_sigmoid", "__device__ __forceinline__ float NAME(float value) {\n    return 1.0f / (1.0f + expf(-value));\n}\n");
}

// Sums at zero, and the loop that makes them; `state` is element i of the hidden state.
std::string sums(AnchorKernel& kernel, const Setup& s, const std::string& from, const std::string& to, const std::string& step, const std::string& state) {
  std::string text, loop;
  for (std::size_t g = 0; g < s.sums.size(); ++g) {
    text += fmt::format("float {} = 0.0f;\n", s.sums[g]);
    kernel.access(s.weight, "", s.weight_at(g));
    loop += fmt::format("    {} += h_i * {}[{}];\n", s.sums[g], s.weight, s.weight_at(g));
  }
  kernel.loop("i", from, to, step, "products of the gates' weights and the hidden state");
  const std::string forward = step == "1" ? "++i" : "i += " + step;
  return text + fmt::format("for (int i = {}; i < {}; {}) {{\n    const float h_i = {};\n{}}}\n", from, to, forward, state, loop);
}

// From the sums to `h_new` (and `c_new`): PyTorch's gates in PyTorch's order.
std::string update(AnchorUnit& unit, AnchorKernel& kernel, const Setup& s, const std::string& h_old, const std::string& c_old) {
  const std::string act = sigmoid(unit);
  std::string text = kernel.index("gate", fmt::format("({}) * {} * {} + unit", s.place("t"), s.sums.size(), s.hidden), "this unit's first gate at this step");
  std::vector<std::string> own;
  for (std::size_t g = 0; g < s.sums.size(); ++g) {
    kernel.access(s.gates, "", s.gate_at(g));
    std::string sum = s.sums[g];
    if (!s.bias.empty()) {
      kernel.access(s.bias, "", s.bias_at(g));
      sum += fmt::format(" + {}[{}]", s.bias, s.bias_at(g));
    }
    own.push_back(sum);
  }
  const auto input = [&](std::size_t g) { return fmt::format("{}[{}]", s.gates, s.gate_at(g)); };
  if (!s.layer.lstm) {
    const std::string candidate = own[2] == s.sums[2] ? own[2] : "(" + own[2] + ")";
    text += fmt::format("const float reset = {}({} + {});\n", act, input(0), own[0]);
    text += fmt::format("const float update = {}({} + {});\n", act, input(1), own[1]);
    text += fmt::format("const float cand = tanhf({} + reset * {});\n", input(2), candidate);
    return text + fmt::format("const float h_new = (1.0f - update) * cand + update * {};\n", h_old);
  }
  text += fmt::format("const float in_gate = {}({} + {});\n", act, input(0), own[0]);
  text += fmt::format("const float forget = {}({} + {});\n", act, input(1), own[1]);
  text += fmt::format("const float cand = tanhf({} + {});\n", input(2), own[2]);
  text += fmt::format("const float out_gate = {}({} + {});\n", act, input(3), own[3]);
  text += fmt::format("const float c_new = forget * {} + in_gate * cand;\n", c_old);
  return text + "const float h_new = out_gate * tanhf(c_new);\n";
}

// A block for each row of the batch walks over the steps; `by_warps`: a warp makes a unit's sums together, else a thread alone.
Result<Unit> block(AnchorUnit& unit, bool by_warps) {
  Setup s = setup(unit);
  const std::int64_t threads = by_warps ? unit.writer().draw().choose({128, 256}) : unit.writer().draw().choose({64, 128, 256});
  const char* const suffix = by_warps ? "_warps" : "";
  AnchorKernel kernel(unit, (s.layer.lstm ? unit.word("lstm_rows", "lstm_layer", "lstm_sequence") : unit.word("gru_rows", "gru_layer", "gru_sequence")) + suffix + "_kernel");
  inputs(kernel, s);
  if (s.layer.cell_wanted) {
    cell_tensor(unit, s);
    kernel.scratch(s.last_cell, "", false);
  }
  const std::string count = s.layer.lstm ? "3" : "2";
  std::string text = "// Two hidden states, of this step and of the next" + std::string(s.layer.lstm ? ", and the cell state.\n" : ".\n") + "extern __shared__ float state[];\n";
  if (s.layer.lstm) text += fmt::format("float* c_row = state + 2 * {};\n", s.hidden);
  text += kernel.index("row", "blockIdx.x", "row of the batch");
  if (by_warps) {
    text += kernel.index("lane", "threadIdx.x % 32", "lane within the warp");
    text += kernel.index("warp", "threadIdx.x / 32", "warp of the block");
    text += kernel.index("warps", "blockDim.x / 32", "warps of the block");
  }
  const auto initial = [&](const std::string& tensor) {
    if (tensor.empty()) return std::string("0.0f");
    kernel.access(tensor, "", fmt::format("row * {} + unit", s.hidden));
    return fmt::format("{}[row * {} + unit]", tensor, s.hidden);
  };
  const std::string each_unit = fmt::format("for (int unit = threadIdx.x; unit < {}; unit += blockDim.x)", s.hidden);
  kernel.loop("unit", "threadIdx.x", s.hidden, "blockDim.x", by_warps ? "the initial state" : "hidden units of this thread");
  text += each_unit + " {\n    state[unit] = " + initial(s.h0) + ";\n";
  if (s.layer.lstm) text += "    c_row[unit] = " + initial(s.c0) + ";\n";
  text += "}\n__syncthreads();\n";
  kernel.loop("t", "0", s.steps, "1", "time steps");
  if (by_warps) kernel.loop("unit", "warp", s.hidden, "warps", "hidden units of this warp");

  std::string inside = sums(kernel, s, by_warps ? "lane" : "0", s.hidden, by_warps ? "32" : "1", "h[i]");
  std::string made = update(unit, kernel, s, "h[unit]", "c_row[unit]");
  made += "h_next[unit] = h_new;\n";
  if (s.layer.lstm) made += "c_row[unit] = c_new;\n";
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("h_new"));
  made += tail;
  if (by_warps) {
    const std::string sum = warp_sum(unit.writer());
    for (const std::string& name : s.sums) inside += fmt::format("{0} = {1}({0});\n", name, sum);
    inside += "if (lane == 0) {\n" + indented(made, 4) + "}\n";
    kernel.bound("lane == 0");
  } else {
    inside += made;
  }
  text += fmt::format("for (int t = 0; t < {}; ++t) {{\n    const float* h = state + (t % 2) * {};\n    float* h_next = state + ((t + 1) % 2) * {};\n", s.steps, s.hidden, s.hidden);
  text += indented(by_warps ? fmt::format("for (int unit = warp; unit < {}; unit += warps)", s.hidden) : each_unit, 4);
  text.pop_back();
  text += " {\n" + indented(inside, 8) + "    }\n    // The next step reads what all threads wrote.\n    __syncthreads();\n}\n";
  if (s.layer.cell_wanted) {
    kernel.access(s.last_cell, "", fmt::format("row * {} + unit", s.hidden), true);
    text += each_unit + fmt::format(" {}[row * {} + unit] = c_row[unit];\n", s.last_cell, s.hidden);
  }
  kernel.body = text;
  kernel.launch({{s.batch}, {std::to_string(threads)}, {s.layer.batch}, {threads}, fmt::format("{} * {} * sizeof(float)", count, s.hidden), (s.layer.lstm ? 12 : 8) * s.layer.hidden});
  return unit.done();
}

Result<Unit> by_threads(AnchorUnit& unit) { return block(unit, false); }
Result<Unit> by_warps(AnchorUnit& unit) { return block(unit, true); }

// A kernel for each time step, a thread for each unit of each row: launches follow each other, so that a step finds the whole state before it.
Result<Unit> step(AnchorUnit& unit) {
  Setup s = setup(unit);
  AnchorKernel kernel(unit, s.layer.lstm ? unit.word("lstm_step_kernel", "lstm_cell_kernel", "lstm_time_step_kernel") : unit.word("gru_step_kernel", "gru_time_kernel", "gru_time_step_kernel"));
  inputs(kernel, s);
  if (s.layer.lstm) {
    cell_tensor(unit, s);
    kernel.scratch(s.last_cell, "", false);
  }
  kernel.parameter("int", "t", "t");
  const std::string head = kernel.index("idx", "blockIdx.x * blockDim.x + threadIdx.x", "one hidden unit of one row");
  std::string inside = kernel.index("row", "idx / " + s.hidden, "row of the batch");
  inside += kernel.index("unit", "idx % " + s.hidden, "hidden unit");
  const std::string before = fmt::format("({}) * {}", s.place("t - 1"), s.hidden);
  kernel.access(unit.out(), "", before);
  std::string start = "nullptr";
  if (!s.h0.empty()) {
    start = fmt::format("&{}[row * {}]", s.h0, s.hidden);
    kernel.access(s.h0, "", "row * " + s.hidden);
  }
  inside += fmt::format("// The state is what the step before wrote.\nconst float* h = t > 0 ? &{}[{}] : {};\n", unit.out(), before, start);
  std::string terms = s.hidden, h_old = "h[unit]", c_old = fmt::format("t > 0 ? {}[idx] : {}", s.last_cell, s.c0.empty() ? "0.0f" : s.c0 + "[idx]");
  if (s.h0.empty()) {
    inside += fmt::format("// The initial state is zero.\nconst int terms = t > 0 ? {} : 0;\n", s.hidden);
    terms = "terms";
    h_old = "h_old";
  }
  inside += sums(kernel, s, "0", terms, "1", "h[i]");
  if (s.h0.empty() && !s.layer.lstm) inside += "const float h_old = t > 0 ? h[unit] : 0.0f;\n";
  if (s.layer.lstm) {
    kernel.access(s.last_cell, "", "idx");
    if (!s.c0.empty()) kernel.access(s.c0, "", "idx");
    inside += "const float c_old = " + c_old + ";\n";
  }
  inside += update(unit, kernel, s, h_old, "c_old");
  if (s.layer.lstm) {
    kernel.access(s.last_cell, "", "idx", true);
    inside += s.last_cell + "[idx] = c_new;\n";
  }
  MC_ASSIGN_OR_RETURN(const std::string tail, kernel.finish("h_new"));
  const std::string total = s.batch + " * " + s.hidden;
  kernel.body = head + kernel.guarded({{"idx", total}}, inside + tail);
  const std::int64_t threads = unit.writer().style().threads;
  AnchorKernel::Launch launch{{ceil_div_text(total, std::to_string(threads))}, {std::to_string(threads)}, {ceil_div(s.layer.batch * s.layer.hidden, threads)}, {threads}};
  launch.loop = fmt::format("for (int t = 0; t < {}; ++t)", s.steps);
  kernel.launch(launch);
  return unit.done();
}

// Shared memory of a block holds three states.
bool takes_block(const Graph& g, const Region& r) {
  Layer layer;
  return describe(g, r, layer) && layer.hidden <= 4096;
}
// The next step reads the result, so nothing may be done to it.
bool takes_step(const Graph& g, const Region& r) {
  Layer layer;
  return describe(g, r, layer) && r.epilogue.empty();
}

}  // namespace

void add_recurrent_schedules(Schedules& all) {
  all.push_back(anchor_schedule("recurrent.block", "recurrent_layer", takes_block, by_threads));
  all.push_back(anchor_schedule("recurrent.warps", "recurrent_layer", takes_block, by_warps));
  all.push_back(anchor_schedule("recurrent.step", "recurrent_steps", takes_step, step));
}

}  // namespace musacoder::synth

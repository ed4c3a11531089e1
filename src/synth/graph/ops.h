// The operators of graphs: for each its class, its arity, shape and type inference, torch's name in the dispatcher, and how it is written in
// Python. Tables by topic: ops_elementwise.cpp, ops_reduction.cpp, ops_layout.cpp, ops_norm.cpp, ops_loss.cpp, ops_matrix.cpp, ops_conv.cpp,
// ops_attention.cpp.
//
//   const OpInfo* info = find_op("softmax");
//   Result<std::vector<TensorType>> types = info->infer({graph.type(x)}, node);
//
// Adding an operator: one row in the table of its topic, with a function for its shape where none of those below fits, and its CUDA
// expression or schedule on the teacher's side. tests/synth/graph_test.cpp prints every row and executes it in PyTorch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "synth/graph/graph.h"

namespace musacoder::synth {

enum class OpClass {
  kElementwise,  // each element of the result from the elements at the same (broadcast) place
  kReduction,    // over attrs "dim" (absent: all), "keepdim"
  kRow,          // whole rows in, whole rows out, of the same shape: softmax, layer_norm, normalize
  kNorm,         // statistics over other axes than the last: batch, group, instance
  kScan,         // along attr "dim"
  kView,         // same memory, other shape or strides
  kMove,         // elements go to other places: cat, pad, roll, flip, tril
  kIndex,        // places come from a tensor: gather, index_select, embedding
  kResample,     // interpolation, pixel_shuffle
  kLoss,         // two or three tensors to one number
  kMatrix,       // mm, bmm, linear, matmul
  kConv,
  kPool,
  kAttention,
  kRecurrent,
};

using Infer = Result<std::vector<TensorType>> (*)(const std::vector<TensorType>& in, const Node& node);

// Python spellings; {0}, {1} are operands, {name} attributes, "" a spelling that does not exist.
struct Spelling {
  const char* function = "";  // torch.relu({0})
  const char* functional = "";  // F.relu({0})
  const char* method = "";    // {0}.relu()
  const char* symbol = "";    // {0} + {1}
  const char* module = "";    // nn.ReLU(): a member without parameters
};

struct OpInfo {
  const char* name;
  OpClass cls;
  int least, most;  // tensors it takes
  Infer infer;
  const char* aten;
  Spelling spelling;
  bool commutative = false;
};

// nullptr: not known.
const OpInfo* find_op(std::string_view name);
const std::vector<const OpInfo*>& all_ops();

// Tables; each topic's file has one.
const std::vector<OpInfo>& elementwise_ops();
const std::vector<OpInfo>& reduction_ops();
const std::vector<OpInfo>& layout_ops();
const std::vector<OpInfo>& norm_ops();
const std::vector<OpInfo>& loss_ops();
const std::vector<OpInfo>& matrix_ops();
const std::vector<OpInfo>& conv_ops();
const std::vector<OpInfo>& pool_ops();
const std::vector<OpInfo>& attention_ops();  // and recurrent cells

// Shapes that several operators share.
Result<std::vector<Dim>> broadcast(const std::vector<TensorType>& in);
// torch's type promotion among tensors of at least one dimension.
DType promote(DType a, DType b);
// An axis in [0, rank); kInvalidArgument when it is not in [−rank, rank).
Result<int> axis(std::int64_t dim, int rank);

}  // namespace musacoder::synth

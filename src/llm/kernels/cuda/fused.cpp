#include "llm/kernels/cuda/fused.h"

#include "llm/kernels/cuda/load.h"

namespace musacoder::llm {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

float* floats(const at::Tensor& x) { return x.mutable_data_ptr<float>(); }
const void* data(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }

// The sums over the first dimension of float32 parts [groups, ...], in `like`'s type.
at::Tensor column_sums(const at::Tensor& parts, const at::Tensor& like) {
  const at::Tensor out = at::empty(parts.sizes().slice(1), like.options());
  check_cuda(
      cuda_kernels().mc_column_sums(kernel_type(like), parts.const_data_ptr<float>(), out.mutable_data_ptr(),
                                    parts.size(0), out.numel(), cuda_stream(parts)),
      "column_sums");
  return out;
}

at::Tensor norm_gradient(const at::Tensor& to_out, const at::Tensor& to_sum, const at::Tensor& x,
                         const at::Tensor& weight, const at::Tensor& scale, bool zero_centred,
                         at::Tensor& to_weight) {
  const std::int64_t dim = x.size(-1), rows = x.numel() / dim;
  const at::Tensor given = to_out.contiguous(), more = to_sum.defined() ? to_sum.contiguous() : to_sum;
  at::Tensor to_x = at::empty_like(x);
  const at::Tensor parts =
      at::empty({cuda_kernels().mc_rms_norm_groups(rows, dim), dim}, x.options().dtype(at::kFloat));
  check_cuda(
      cuda_kernels().mc_rms_norm_backward(kernel_type(x), data(given), data(more), data(x), data(weight),
                                          scale.const_data_ptr<float>(), to_x.mutable_data_ptr(),
                                          floats(parts), rows, dim, zero_centred, cuda_stream(x)),
      "rms_norm_backward");
  to_weight = column_sums(parts, weight);
  return to_x;
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given, const at::Tensor& weight,
                            double eps, bool zero_centred) {
    const at::Tensor x = given.contiguous();
    const std::int64_t dim = x.size(-1), rows = x.numel() / dim;
    const at::Tensor out = at::empty_like(x), scale = at::empty({rows}, x.options().dtype(at::kFloat));
    check_cuda(cuda_kernels().mc_rms_norm_forward(kernel_type(x), data(x), nullptr, data(weight), nullptr,
                                                  out.mutable_data_ptr(), floats(scale), rows, dim,
                                                  static_cast<float>(eps), zero_centred, cuda_stream(x)),
               "rms_norm_forward");
    context->save_for_backward({x, weight, scale});
    context->saved_data["zero_centred"] = zero_centred;
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    at::Tensor to_weight;
    const at::Tensor to_x = norm_gradient(gradients[0], {}, saved[0], saved[1], saved[2],
                                          context->saved_data["zero_centred"].toBool(), to_weight);
    return {to_x, to_weight, {}, {}};
  }
};

class AddRmsNorm : public torch::autograd::Function<AddRmsNorm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y,
                               const at::Tensor& weight, double eps, bool zero_centred) {
    context->set_materialize_grads(false);
    const at::Tensor left = x.contiguous(), right = y.contiguous();
    const std::int64_t dim = x.size(-1), rows = x.numel() / dim;
    const at::Tensor sum = at::empty_like(left), out = at::empty_like(left),
                     scale = at::empty({rows}, x.options().dtype(at::kFloat));
    check_cuda(
        cuda_kernels().mc_rms_norm_forward(kernel_type(x), data(left), data(right), data(weight),
                                           sum.mutable_data_ptr(), out.mutable_data_ptr(), floats(scale),
                                           rows, dim, static_cast<float>(eps), zero_centred, cuda_stream(x)),
        "rms_norm_forward");
    context->save_for_backward({sum, weight, scale});
    context->saved_data["zero_centred"] = zero_centred;
    return {sum, out};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor &to_sum = gradients[0], &to_out = gradients[1];
    if (!to_out.defined()) return {to_sum, to_sum, {}, {}, {}};
    const auto saved = context->get_saved_variables();
    at::Tensor to_weight;
    const at::Tensor to_x = norm_gradient(to_out, to_sum, saved[0], saved[1], saved[2],
                                          context->saved_data["zero_centred"].toBool(), to_weight);
    return {to_x, to_x, to_weight, {}, {}};
  }
};

class SplitRotate : public torch::autograd::Function<SplitRotate> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& given,
                               const std::optional<at::Tensor>& q_weight,
                               const std::optional<at::Tensor>& k_weight, const at::Tensor& cos,
                               const at::Tensor& sin, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t dim, double eps, bool zero_centred) {
    const at::Tensor qkv = given.contiguous(), qw = q_weight.value_or(at::Tensor()),
                     kw = k_weight.value_or(at::Tensor());
    const std::int64_t rows = qkv.size(0);
    const at::Tensor q = at::empty({rows, heads, dim}, qkv.options()),
                     k = at::empty({rows, kv_heads, dim}, qkv.options()), v = at::empty_like(k);
    check_cuda(cuda_kernels().mc_split_rotate_forward(
                   kernel_type(qkv), data(qkv), data(qw), data(kw), data(cos), data(sin),
                   q.mutable_data_ptr(), k.mutable_data_ptr(), v.mutable_data_ptr(), rows, heads, kv_heads,
                   dim, static_cast<float>(eps), zero_centred, cuda_stream(qkv)),
               "split_rotate_forward");
    // Without norms the gradient needs no values.
    context->save_for_backward({qw.defined() ? qkv : at::Tensor(), qw, kw, cos, sin});
    context->saved_data["eps"] = eps;
    context->saved_data["zero_centred"] = zero_centred;
    return {q, k, v};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &qw = saved[1], &kw = saved[2];
    const at::Tensor to_q = gradients[0].contiguous(), to_k = gradients[1].contiguous(),
                     to_v = gradients[2].contiguous();
    const std::int64_t rows = to_q.size(0), heads = to_q.size(1), kv_heads = to_k.size(1), dim = to_q.size(2);
    const at::Tensor to_qkv = at::empty({rows, (heads + 2 * kv_heads) * dim}, to_q.options());
    at::Tensor parts;
    if (qw.defined())
      parts =
          at::empty({cuda_kernels().mc_split_rotate_groups(rows), 2, dim}, to_q.options().dtype(at::kFloat));
    check_cuda(cuda_kernels().mc_split_rotate_backward(
                   kernel_type(to_q), data(to_q), data(to_k), data(to_v), data(qkv), data(qw), data(kw),
                   data(saved[3]), data(saved[4]), to_qkv.mutable_data_ptr(),
                   parts.defined() ? floats(parts) : nullptr, rows, heads, kv_heads, dim,
                   static_cast<float>(context->saved_data["eps"].toDouble()),
                   context->saved_data["zero_centred"].toBool(), cuda_stream(to_q)),
               "split_rotate_backward");
    at::Tensor to_qw, to_kw;
    if (parts.defined()) {
      const at::Tensor both = column_sums(parts, qw);
      to_qw = both[0];
      to_kw = both[1];
    }
    return {to_qkv, to_qw, to_kw, {}, {}, {}, {}, {}, {}, {}};
  }
};

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given) {
    const at::Tensor gate_up = given.contiguous();
    const std::int64_t rows = gate_up.size(0), inner = gate_up.size(1) / 2;
    const at::Tensor out = at::empty({rows, inner}, gate_up.options());
    check_cuda(cuda_kernels().mc_swiglu_forward(kernel_type(gate_up), data(gate_up), out.mutable_data_ptr(),
                                                rows, inner, cuda_stream(gate_up)),
               "swiglu_forward");
    context->save_for_backward({gate_up});
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0], given = gradients[0].contiguous();
    const at::Tensor out = at::empty_like(gate_up);
    check_cuda(cuda_kernels().mc_swiglu_backward(kernel_type(gate_up), data(given), data(gate_up),
                                                 out.mutable_data_ptr(), gate_up.size(0), gate_up.size(1) / 2,
                                                 cuda_stream(gate_up)),
               "swiglu_backward");
    return {out};
  }
};

at::Tensor joined(at::TensorList weights) {
  std::int64_t rows = 0;
  for (const at::Tensor& one : weights) rows += one.size(0);
  return weights[0].detach().as_strided({rows, weights[0].size(1)}, {weights[0].size(1), 1},
                                        weights[0].storage_offset());
}

class JoinedLinear : public torch::autograd::Function<JoinedLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases) {
    std::vector<std::int64_t> sizes;
    for (const at::Tensor& one : weights) sizes.push_back(one.size(0));
    variable_list kept = {x};
    kept.insert(kept.end(), weights.begin(), weights.end());
    context->save_for_backward(kept);
    context->saved_data["sizes"] = sizes;
    context->saved_data["biases"] = static_cast<std::int64_t>(biases.size());
    const at::Tensor weight = joined(weights);
    return biases.empty() ? at::mm(x, weight.t()) : at::addmm(at::cat(biases), x, weight.t());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto sizes = context->saved_data["sizes"].toIntVector();
    const std::int64_t biases = context->saved_data["biases"].toInt();
    const at::Tensor given = gradients[0].contiguous(), &x = saved[0];
    const std::vector<at::Tensor> weights(saved.begin() + 1, saved.end());
    bool want_weights = false;
    for (std::size_t i = 0; i < weights.size(); ++i)
      want_weights = want_weights || context->needs_input_grad(1 + i);
    variable_list out;
    out.push_back(context->needs_input_grad(0) ? at::mm(given, joined(weights)) : at::Tensor());
    const at::Tensor to_weight = want_weights ? at::mm(given.t(), x) : at::Tensor();
    const at::Tensor to_bias = biases > 0 ? given.sum(0) : at::Tensor();
    std::int64_t from = 0;
    for (const std::int64_t size : sizes) {
      out.push_back(to_weight.defined() ? to_weight.narrow(0, from, size) : to_weight);
      from += size;
    }
    from = 0;
    for (std::int64_t i = 0; i < biases; ++i) {
      const std::int64_t size = sizes[static_cast<std::size_t>(i)];
      out.push_back(to_bias.narrow(0, from, size));
      from += size;
    }
    return out;
  }
};

class FlashAttention : public torch::autograd::Function<FlashAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& starts, std::int64_t longest) {
    const auto [out, log_sums, random, unused, mask] =
        at::_flash_attention_forward(q, k, v, starts, starts, longest, longest, 0.0, /*is_causal=*/true,
                                     /*return_debug_mask=*/false, std::optional<double>());
    context->save_for_backward({q, k, v, out, log_sums, starts, random, unused});
    context->saved_data["longest"] = longest;
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const std::int64_t longest = context->saved_data["longest"].toInt();
    const auto [to_q, to_k, to_v] = at::_flash_attention_backward(
        gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[5],
        longest, longest, 0.0, /*is_causal=*/true, saved[6], saved[7]);
    return {to_q, to_k, to_v, {}, {}};
  }
};

// Sequences of one length are a dense batch, for which cuDNN's kernels are twice as fast.
class DenseAttention : public torch::autograd::Function<DenseAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, std::int64_t sequences) {
    const auto dense = [&](const at::Tensor& x) {
      return x.view({sequences, -1, x.size(1), x.size(2)}).transpose(1, 2);
    };
    const at::Tensor dense_q = dense(q), dense_k = dense(k), dense_v = dense(v);
    const auto [out, log_sums, starts_q, starts_k, longest_q, longest_k, seed, offset, mask] =
        at::_scaled_dot_product_cudnn_attention(dense_q, dense_k, dense_v, {}, /*compute_log_sumexp=*/true,
                                                0.0,
                                                /*is_causal=*/true, /*return_debug_mask=*/false);
    context->save_for_backward({dense_q, dense_k, dense_v, out, log_sums, starts_q, starts_k, seed, offset});
    return out.transpose(1, 2).reshape(q.sizes());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor given =
        gradients[0].contiguous().view({q.size(0), q.size(2), q.size(1), q.size(3)}).transpose(1, 2);
    const auto [to_q, to_k, to_v] = at::_scaled_dot_product_cudnn_attention_backward(
        given, q, saved[1], saved[2], saved[3], saved[4], saved[7], saved[8], {}, saved[5], saved[6],
        q.size(2), q.size(2), 0.0, /*is_causal=*/true);
    const auto packed = [](const at::Tensor& x) {
      return x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
    };
    return {packed(to_q), packed(to_k), packed(to_v), {}};
  }
};

}  // namespace

bool fused_norm_takes(std::int64_t dim) { return dim % 8 == 0 && dim >= 8 && dim <= 8192; }

at::Tensor fused_rms_norm(const at::Tensor& x, const FusedNorm& by) {
  return RmsNorm::apply(x, by.weight, by.eps, by.zero_centred);
}

FusedSum fused_add_rms_norm(const at::Tensor& x, const at::Tensor& y, const FusedNorm& by) {
  const variable_list out = AddRmsNorm::apply(x, y, by.weight, by.eps, by.zero_centred);
  return {out[0], out[1]};
}

bool fused_rotate_takes(std::int64_t dim) { return dim == 64 || dim == 128 || dim == 256; }

SplitHeads fused_split_rotate(const at::Tensor& qkv, const HeadShape& shape, const FusedNorm& q_norm,
                              const FusedNorm& k_norm, const at::Tensor& cos, const at::Tensor& sin) {
  const auto given = [](const at::Tensor& x) {
    return x.defined() ? std::optional<at::Tensor>(x) : std::nullopt;
  };
  const variable_list out =
      SplitRotate::apply(qkv, given(q_norm.weight), given(k_norm.weight), cos.contiguous(), sin.contiguous(),
                         shape.heads, shape.kv_heads, shape.dim, q_norm.eps, q_norm.zero_centred);
  return {out[0], out[1], out[2]};
}

at::Tensor fused_swiglu(const at::Tensor& gate_up) { return Swiglu::apply(gate_up); }

bool joinable(const std::vector<at::Tensor>& weights) {
  for (std::size_t i = 1; i < weights.size(); ++i) {
    const at::Tensor &before = weights[i - 1], &one = weights[i];
    if (!one.is_alias_of(before) || one.scalar_type() != before.scalar_type() || one.dim() != 2 ||
        before.dim() != 2 || one.size(1) != before.size(1) || !one.is_contiguous() ||
        !before.is_contiguous() || one.storage_offset() != before.storage_offset() + before.numel())
      return false;
  }
  return true;
}

at::Tensor joined_linear(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                         const std::vector<at::Tensor>& biases) {
  return JoinedLinear::apply(x, at::TensorList(weights), at::TensorList(biases));
}

bool flash_takes(const at::Tensor& q) {
  return q.is_cuda() && (q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf) &&
         q.size(2) % 8 == 0 && q.size(2) <= 256;
}

at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& starts, std::int64_t longest) {
  const std::int64_t sequences = starts.numel() - 1;
  // Another length means another plan of cuDNN's, which takes it long to make: a single sequence comes in all
  // lengths, a batch of equal ones in few.
  if (sequences > 1 && sequences * longest == q.size(0) && longest % 64 == 0 &&
      (q.size(2) == 64 || q.size(2) == 128) && at::globalContext().userEnabledCuDNNSDP())
    return DenseAttention::apply(q, k, v, sequences);
  return FlashAttention::apply(q, k, v, starts, longest);
}

}  // namespace musacoder::llm

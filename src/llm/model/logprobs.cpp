#include "llm/model/logprobs.h"

#include <algorithm>

#include "llm/kernels/cuda/load.h"
#include "llm/model/ops.h"

namespace musacoder::llm {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType sums_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor chunk_logits(const at::Tensor& rows, const at::Tensor& head, double temperature) {
  at::Tensor logits = widened(at::linear(rows, head));
  return temperature == 1 ? logits : logits.div(temperature);
}

// Logits of a chunk of rows on a GPU, in the weights' type; what is made of them is in float32.
at::Tensor device_logits(const at::Tensor& rows, const at::Tensor& head) { return at::mm(rows, head.t()); }

// The gradient of a chunk's logits: d logprob / d logits = (onehot(target) - softmax) / temperature.
at::Tensor chunk_slope(const at::Tensor& rows, const at::Tensor& head, const at::Tensor& targets,
                       const at::Tensor& log_sums, const at::Tensor& to_logprobs, double temperature) {
  if (fused_on(rows)) {
    const at::Tensor logits = device_logits(rows, head), given = to_logprobs.contiguous();
    check_cuda(cuda_kernels().mc_logprob_backward(
                   kernel_type(logits), logits.mutable_data_ptr(), targets.const_data_ptr<std::int64_t>(),
                   log_sums.const_data_ptr<float>(), given.const_data_ptr<float>(), rows.size(0),
                   head.size(0), static_cast<float>(1 / temperature), cuda_stream(logits)),
               "logprob_backward");
    return logits;
  }
  const at::Tensor target = targets.unsqueeze(1),
                   weight = to_logprobs.unsqueeze(1).masked_fill(target.lt(0), 0) / temperature;
  at::Tensor slope = chunk_logits(rows, head, temperature).sub_(log_sums.unsqueeze(1)).exp_().mul_(-weight);
  slope.scatter_add_(1, target.clamp_min(0), weight);
  return slope.to(head.scalar_type());
}

class TokenLogprobs : public torch::autograd::Function<TokenLogprobs> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& head,
                            const at::Tensor& targets, double temperature, std::int64_t chunk) {
    const std::int64_t tokens = hidden.size(0);
    const at::Tensor log_sums = at::empty({tokens}, hidden.options().dtype(sums_type(hidden))),
                     out = at::empty_like(log_sums);
    for (std::int64_t from = 0; from < tokens; from += chunk) {
      const std::int64_t count = std::min(chunk, tokens - from);
      const at::Tensor rows = hidden.narrow(0, from, count), target = targets.narrow(0, from, count);
      if (fused_on(hidden)) {
        const at::Tensor logits = device_logits(rows, head);
        check_cuda(cuda_kernels().mc_logprob_forward(
                       kernel_type(logits), logits.const_data_ptr(), target.const_data_ptr<std::int64_t>(),
                       log_sums.mutable_data_ptr<float>() + from, out.mutable_data_ptr<float>() + from, count,
                       head.size(0), static_cast<float>(1 / temperature), cuda_stream(logits)),
                   "logprob_forward");
        continue;
      }
      const at::Tensor logits = chunk_logits(rows, head, temperature);
      const at::Tensor log_sum = logits.logsumexp(1);
      log_sums.narrow(0, from, count).copy_(log_sum);
      out.narrow(0, from, count)
          .copy_((logits.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1) - log_sum)
                     .masked_fill(target.lt(0), 0));
    }
    context->save_for_backward({hidden, head, targets, log_sums});
    context->saved_data["temperature"] = temperature;
    context->saved_data["chunk"] = chunk;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &head = saved[1], &targets = saved[2], &log_sums = saved[3];
    const double temperature = context->saved_data["temperature"].toDouble();
    const std::int64_t chunk = context->saved_data["chunk"].toInt(), tokens = hidden.size(0);
    const bool want_hidden = context->needs_input_grad(0), want_head = context->needs_input_grad(1);
    at::Tensor to_hidden, to_head;
    if (want_hidden) to_hidden = at::empty_like(hidden);
    if (want_head) to_head = at::zeros(head.sizes(), head.options().dtype(sums_type(head)));
    for (std::int64_t from = 0; from < tokens; from += chunk) {
      const std::int64_t count = std::min(chunk, tokens - from);
      const at::Tensor rows = hidden.narrow(0, from, count);
      const at::Tensor slope =
          chunk_slope(rows, head, targets.narrow(0, from, count), log_sums.narrow(0, from, count),
                      gradients[0].narrow(0, from, count), temperature);
      if (want_hidden) to_hidden.narrow(0, from, count).copy_(at::mm(slope, head));
      if (!want_head) continue;
      if (head.scalar_type() == to_head.scalar_type())
        to_head.addmm_(slope.t(), rows);
      else
        to_head.add_(at::mm(slope.t(), rows));
    }
    return {to_hidden, want_head ? to_head.to(head.scalar_type()) : to_head, {}, {}, {}};
  }
};

}  // namespace

at::Tensor token_logprobs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                          double temperature, std::int64_t chunk_bytes) {
  // On a GPU logits are in the weights' type, there is room, and larger products are quicker.
  const std::int64_t room = hidden.is_cuda() ? 8 * chunk_bytes : chunk_bytes,
                     chunk = std::max<std::int64_t>(1, room / (4 * head.size(0)));
  return TokenLogprobs::apply(hidden, head, targets, temperature, chunk);
}

at::Tensor mean_loss(const at::Tensor& logprobs, const at::Tensor& targets) {
  return -logprobs.sum() / targets.ge(0).sum();
}

}  // namespace musacoder::llm

#include "llm/model/delta_rule.h"

#include <algorithm>
#include "llm/model/ops.h"

namespace musacoder::llm {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a chunk's tensors are made of: [chunks, heads, size, dim], heads being value heads.
struct Chunked {
  at::Tensor q, k, v;            // [chunks, heads, size, dim]
  at::Tensor b, beta;            // [chunks, heads, size, 1]; b: running sum of decay
  at::Tensor grown, left, last;  // exp(b), exp(b_last - b) [.., size, 1], exp(b_last) [.., 1, 1]
  at::Tensor inverse;            // (1 + A)^-1 [.., size, size]
  at::Tensor below, scores;      // A and tril(Q K^T D)
};

// Rows into chunks; places without a row are zero. x [tokens, heads, ...]
at::Tensor to_chunks(const at::Tensor& x, const DeltaChunks& chunks, std::int64_t group) {
  at::Tensor wide = at::cat({x, at::zeros_like(x.narrow(0, 0, 1))}, 0).index_select(0, chunks.rows);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.insert(sizes.begin(), chunks.chunks());
  sizes[1] = chunks.size;
  wide = wide.view(sizes).transpose(1, 2);
  return (group == 1 ? wide : wide.repeat_interleave(group, 1)).contiguous();
}

// The other way, [chunks, heads, size, ...] into [tokens, heads, ...]; the value heads of a key head added
// up.
at::Tensor to_rows(const at::Tensor& x, const DeltaChunks& chunks, std::int64_t group) {
  at::Tensor narrow = x;
  if (group > 1) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[1] /= group;
    sizes.insert(sizes.begin() + 2, group);
    narrow = x.view(sizes).sum(2);
  }
  narrow = narrow.transpose(1, 2).contiguous();
  return narrow.flatten(0, 1).index_select(0, chunks.places);
}

Chunked prepare(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& decay,
                const at::Tensor& beta, const DeltaChunks& chunks) {
  const std::int64_t group = v.size(1) / q.size(1);
  Chunked c;
  c.q = to_chunks(q, chunks, group);
  c.k = to_chunks(k, chunks, group);
  c.v = to_chunks(v, chunks, 1);
  c.beta = to_chunks(beta.unsqueeze(-1), chunks, 1);
  c.b = to_chunks(decay.unsqueeze(-1), chunks, 1).cumsum(2);
  c.grown = c.b.exp();
  const at::Tensor end = c.b.narrow(2, chunks.size - 1, 1);
  c.left = (end - c.b).exp();
  c.last = end.exp();
  // Above the diagonal the exponent is positive and may overflow: the difference is cut before.
  const at::Tensor ratio = (c.b - c.b.transpose(2, 3)).clamp_max_(0).exp_();
  c.below = at::matmul(c.k, c.k.transpose(2, 3)).mul_(ratio).mul_(c.beta).tril_(-1);
  c.scores = at::matmul(c.q, c.k.transpose(2, 3)).mul_(ratio).tril_();
  const at::Tensor one = at::eye(chunks.size, c.below.options());
  c.inverse = at::linalg_solve_triangular(c.below + one, one.expand_as(c.below), /*upper=*/false,
                                          /*left=*/true, /*unitriangular=*/true);
  return c;
}

class GatedDeltaRule : public torch::autograd::Function<GatedDeltaRule> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& decay, const at::Tensor& beta,
                            const DeltaChunks& chunks) {
    const Chunked c = prepare(q, k, v, decay, beta, chunks);
    const at::Tensor weighted = c.v * c.beta, reading = c.grown * c.beta;
    at::Tensor states = at::zeros({chunks.chunks(), v.size(1), q.size(2), v.size(2)}, c.v.options());
    at::Tensor updates = at::empty_like(c.v), out = at::empty_like(c.v);
    for (std::size_t s = 0; s + 1 < chunks.begin.size(); ++s) {
      const std::int64_t from = chunks.begin[s], count = chunks.begin[s + 1] - from;
      const auto of = [&](const at::Tensor& x) { return x.narrow(0, from, count); };
      const at::Tensor state = of(states);
      at::Tensor update = of(updates), o = of(out);
      if (s == 0) {
        at::matmul_out(update, of(c.inverse), of(weighted));
        at::matmul_out(o, of(c.scores), update);
      } else {
        update.copy_(at::matmul(of(c.inverse), of(weighted) - of(reading) * at::matmul(of(c.k), state)));
        o.copy_(at::matmul(of(c.scores), update).add_(at::matmul(of(c.q), state).mul_(of(c.grown))));
      }
      if (s + 2 >= chunks.begin.size()) break;
      const std::int64_t next = chunks.begin[s + 2] - chunks.begin[s + 1];  // sequences that go on
      const auto first = [&](const at::Tensor& x) { return x.narrow(0, from, next); };
      at::Tensor to = states.narrow(0, chunks.begin[s + 1], next);
      to.copy_(at::matmul(first(c.k).transpose(2, 3), first(updates) * first(c.left)));
      if (s > 0) to.add_(first(c.last) * first(states));
    }
    context->save_for_backward({q, k, v, decay, beta, states, updates, chunks.rows, chunks.places});
    context->saved_data["begin"] = chunks.begin;
    context->saved_data["size"] = chunks.size;
    return to_rows(out, chunks, 1);
  }

  // Each line is the derivative of one of prepare()'s and forward()'s, in reverse order; d_x is the loss's
  // derivative by x.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const DeltaChunks chunks{context->saved_data["size"].toInt(), context->saved_data["begin"].toIntVector(),
                             saved[7], saved[8]};
    const at::Tensor &q = saved[0], &v = saved[2], &states = saved[5], &updates = saved[6];
    const std::int64_t group = v.size(1) / q.size(1);
    const Chunked c = prepare(q, saved[1], v, saved[3], saved[4], chunks);
    const at::Tensor d_out = to_chunks(gradients[0].contiguous(), chunks, 1);
    const at::Tensor d_out_grown = d_out * c.grown, reading = c.grown * c.beta;

    at::Tensor d_updates = at::matmul(c.scores.transpose(2, 3), d_out);
    at::Tensor d_right = at::empty_like(d_updates);  // of beta (V - exp(b) K S)
    at::Tensor d_states = at::matmul(c.q.transpose(2, 3), d_out_grown);
    at::Tensor d_after = at::zeros_like(d_states);  // of the state behind each chunk
    for (std::size_t s = chunks.begin.size() - 1; s-- > 0;) {
      const std::int64_t from = chunks.begin[s], count = chunks.begin[s + 1] - from;
      if (s + 2 < chunks.begin.size()) {
        const std::int64_t next = chunks.begin[s + 2] - chunks.begin[s + 1];
        const auto first = [&](const at::Tensor& x) { return x.narrow(0, from, next); };
        const at::Tensor after = d_states.narrow(0, chunks.begin[s + 1], next);
        first(d_after).copy_(after);
        first(d_updates).add_(at::matmul(first(c.k), after).mul_(first(c.left)));
        first(d_states).add_(after * first(c.last));
      }
      const auto of = [&](const at::Tensor& x) { return x.narrow(0, from, count); };
      of(d_right).copy_(at::matmul(of(c.inverse).transpose(2, 3), of(d_updates)));
      if (s > 0) of(d_states).sub_(at::matmul(of(c.k).transpose(2, 3), of(d_right) * of(reading)));
    }

    const at::Tensor by_state = at::matmul(c.k, states);  // K S
    const at::Tensor d_v = d_right * c.beta;
    const at::Tensor d_by_state = d_v * c.grown;  // with the other sign
    const at::Tensor left_updates = updates * c.left;
    const at::Tensor d_below = -at::matmul(d_right, updates.transpose(2, 3)).tril_(-1);
    const at::Tensor d_scores = at::matmul(d_out, updates.transpose(2, 3)).tril_();
    const at::Tensor ratio = (c.b - c.b.transpose(2, 3)).clamp_max_(0).exp_();
    const at::Tensor products = at::matmul(c.k, c.k.transpose(2, 3)).mul_(ratio);
    at::Tensor d_beta =
        (d_right * (c.v - c.grown * by_state)).sum(3, true) + (d_below * products).sum(3, true);
    const at::Tensor d_products = d_below * c.beta * ratio, d_plain_scores = d_scores * ratio;
    const at::Tensor d_q = at::matmul(d_out_grown, states.transpose(2, 3)) + at::matmul(d_plain_scores, c.k);
    const at::Tensor d_k = at::matmul(d_products + d_products.transpose(2, 3), c.k) +
                           at::matmul(d_plain_scores.transpose(2, 3), c.q) -
                           at::matmul(d_by_state, states.transpose(2, 3)) +
                           at::matmul(left_updates, d_after.transpose(2, 3));
    // By b: through D, exp(b) and exp(b_last - b).
    const at::Tensor through_ratio = d_below * c.below + d_scores * c.scores;
    const at::Tensor from_left = (left_updates * at::matmul(c.k, d_after)).sum(3, true);
    at::Tensor d_b = through_ratio.sum(3, true) - through_ratio.sum(2).unsqueeze(3) +
                     (d_out_grown * at::matmul(c.q, states)).sum(3, true) -
                     (d_by_state * by_state).sum(3, true) - from_left;
    d_b.narrow(2, chunks.size - 1, 1)
        .add_(from_left.sum(2, true))
        .add_((d_after * states).sum({2, 3}, true).mul_(c.last));
    const at::Tensor d_decay = d_b.flip(2).cumsum(2).flip(2);
    return {to_rows(d_q, chunks, group),
            to_rows(d_k, chunks, group),
            to_rows(d_v, chunks, 1),
            to_rows(d_decay, chunks, 1).squeeze(-1),
            to_rows(d_beta, chunks, 1).squeeze(-1),
            {}};
  }
};

class CausalConv : public torch::autograd::Function<CausalConv> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& taps,
                            const std::vector<std::int64_t>& starts) {
    context->save_for_backward({x, taps});
    context->saved_data["starts"] = starts;
    const at::Tensor wide = widened(x), by = widened(taps).t().contiguous();
    const std::int64_t kernel = taps.size(1);
    at::Tensor out = wide * by[kernel - 1];
    each_shift(starts, kernel, [&](std::int64_t from, std::int64_t shift, std::int64_t count) {
      out.narrow(0, from + shift, count).addcmul_(wide.narrow(0, from, count), by[kernel - 1 - shift]);
    });
    return out.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &taps = saved[1];
    const at::Tensor wide = widened(x), by = widened(taps).t().contiguous(), slope = widened(gradients[0]);
    const std::int64_t kernel = taps.size(1);
    at::Tensor to_x = slope * by[kernel - 1], to_taps = at::zeros_like(by);
    to_taps[kernel - 1].copy_((slope * wide).sum(0));
    each_shift(context->saved_data["starts"].toIntVector(), kernel,
               [&](std::int64_t from, std::int64_t shift, std::int64_t count) {
                 const at::Tensor later = slope.narrow(0, from + shift, count);
                 to_x.narrow(0, from, count).addcmul_(later, by[kernel - 1 - shift]);
                 to_taps[kernel - 1 - shift].add_((later * wide.narrow(0, from, count)).sum(0));
               });
    return {to_x.to(x.scalar_type()), to_taps.t().to(taps.scalar_type()), {}};
  }

 private:
  // Rows from .. from + count of a sequence are seen `shift` rows later.
  template <typename Run>
  static void each_shift(const std::vector<std::int64_t>& starts, std::int64_t kernel, const Run& run) {
    for (std::size_t i = 1; i < starts.size(); ++i)
      for (std::int64_t shift = 1; shift < kernel; ++shift)
        if (const std::int64_t count = starts[i] - starts[i - 1] - shift; count > 0)
          run(starts[i - 1], shift, count);
  }
};

}  // namespace

DeltaChunks delta_chunks(const std::vector<std::int64_t>& starts, at::Device device, std::int64_t longest) {
  DeltaChunks out;
  std::vector<std::pair<std::int64_t, std::int64_t>> sequences;  // length, first row
  for (std::size_t i = 1; i < starts.size(); ++i)
    if (starts[i] > starts[i - 1]) sequences.emplace_back(starts[i] - starts[i - 1], starts[i - 1]);
  std::stable_sort(sequences.begin(), sequences.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::int64_t tokens = starts.back();
  out.size = std::min(longest, sequences.empty() ? 1 : sequences[0].first);
  std::vector<std::int64_t> row_of, place_of(static_cast<std::size_t>(tokens));
  out.begin = {0};
  for (std::int64_t at = 0; !sequences.empty() && sequences[0].first > at; at += out.size) {
    std::int64_t count = 0;
    for (const auto& [length, first] : sequences) {
      if (length <= at) break;
      ++count;
      for (std::int64_t i = at; i < at + out.size; ++i) {
        if (i < length)
          place_of[static_cast<std::size_t>(first + i)] = static_cast<std::int64_t>(row_of.size());
        row_of.push_back(i < length ? first + i : tokens);
      }
    }
    out.begin.push_back(out.begin.back() + count);
  }
  out.rows = at::tensor(row_of, at::kLong).to(device);
  out.places = at::tensor(place_of, at::kLong).to(device);
  return out;
}

at::Tensor gated_delta_rule(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& decay, const at::Tensor& beta, const DeltaChunks& chunks) {
  return GatedDeltaRule::apply(q, k, v, decay, beta, chunks);
}

at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& taps, const std::vector<std::int64_t>& starts) {
  return CausalConv::apply(x, taps, starts);
}

at::Tensor unit_rows(const at::Tensor& x) {
  const at::Tensor wide = widened(x);
  return wide * at::rsqrt(wide.square().sum(-1, true) + 1e-6);
}

}  // namespace musacoder::llm

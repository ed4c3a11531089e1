#include "llm/kernels/delta_rows.h"

#include <cmath>

#include "llm/kernels/cpu_kernels.h"

namespace musacoder::llm {
namespace {

float rounded(float x, at::ScalarType type) {
  if (type == at::kBFloat16) return static_cast<float>(c10::BFloat16(x));
  if (type == at::kHalf) return static_cast<float>(c10::Half(x));
  return x;
}

struct Taps {
  const float* by;  // [kernel, channels]
  std::int64_t kernel, channels;
  at::ScalarType type;
};

// Convolution and SiLU of a span's channels from .. to; the window is moved on.
void convolve(const DeltaSpan& span, const Taps& taps, std::int64_t from, std::int64_t to, const float* in,
              float* out) {
  const std::int64_t before = taps.kernel - 1, channels = taps.channels;
  const auto row = [&](std::int64_t t) {  // t < 0: in the window
    return t < 0 ? span.window + (before + t) * channels : in + (span.from + t) * channels;
  };
  for (std::int64_t t = 0; t < span.count; ++t) {
    float* y = out + (span.from + t) * channels;
    for (std::int64_t c = from; c < to; ++c) y[c] = 0;
    for (std::int64_t j = 0; j < taps.kernel; ++j) {
      const float *x = row(t - before + j), *by = taps.by + j * channels;
      for (std::int64_t c = from; c < to; ++c) y[c] += by[c] * x[c];
    }
    for (std::int64_t c = from; c < to; ++c) {
      const float sum = rounded(y[c], taps.type);
      y[c] = rounded(sum / (1 + std::exp(-sum)), taps.type);
    }
  }
  // In the order of time, so that a row is read before it is overwritten.
  for (std::int64_t i = 0; i < before; ++i) {
    const float* x = row(span.count - before + i);
    float* to_row = span.window + i * channels;
    if (x == to_row) continue;
    for (std::int64_t c = from; c < to; ++c) to_row[c] = x[c];
  }
}

// Rows of q, then k: each head's vector made one of length 1, q divided by the root of its dimension.
void normalise(float* row, const DeltaConfig& sizes, std::vector<float>& sums) {
  const std::int64_t heads = 2 * sizes.key_heads;
  sums.resize(static_cast<std::size_t>(heads));
  cpu_kernels().square_sums(row, heads, sizes.key_dim, sums.data());
  const float root = std::sqrt(static_cast<float>(sizes.key_dim));
  for (std::int64_t h = 0; h < heads; ++h) {
    float by = 1 / std::sqrt(sums[static_cast<std::size_t>(h)] + 1e-6f);
    if (h < sizes.key_heads) by /= root;
    for (std::int64_t d = 0; d < sizes.key_dim; ++d) row[h * sizes.key_dim + d] *= by;
  }
}

struct Token {
  const float *q, *k, *v;
  float decay, beta;
  float* out;
};

void step(float* state, const Token& t, std::int64_t key_dim, std::int64_t value_dim, float* update) {
  const float kept = std::exp(t.decay);
  for (std::int64_t j = 0; j < value_dim; ++j) update[j] = t.out[j] = 0;
  for (std::int64_t i = 0; i < key_dim; ++i) {
    float* s = state + i * value_dim;
    const float k = t.k[i];
    for (std::int64_t j = 0; j < value_dim; ++j) {
      s[j] *= kept;
      update[j] += s[j] * k;
    }
  }
  for (std::int64_t j = 0; j < value_dim; ++j) update[j] = (t.v[j] - update[j]) * t.beta;
  for (std::int64_t i = 0; i < key_dim; ++i) {
    float* s = state + i * value_dim;
    const float k = t.k[i], q = t.q[i];
    for (std::int64_t j = 0; j < value_dim; ++j) {
      s[j] += k * update[j];
      t.out[j] += s[j] * q;
    }
  }
}

}  // namespace

at::Tensor delta_rows(const DeltaConfig& sizes, const at::Tensor& mixed, const at::Tensor& taps,
                      const at::Tensor& decay, const at::Tensor& beta, const std::vector<DeltaSpan>& spans) {
  const at::NoGradGuard no_grad;
  const std::int64_t tokens = mixed.size(0), channels = sizes.channels();
  const at::Tensor in = mixed.to(at::kFloat).contiguous(), by = taps.to(at::kFloat).t().contiguous(),
                   decays = decay.contiguous(), betas = beta.contiguous();
  at::Tensor convolved = at::empty({tokens, channels}, in.options());
  at::Tensor out = at::empty({tokens, sizes.value_heads, sizes.value_dim}, in.options());
  float* rows = convolved.mutable_data_ptr<float>();
  const Taps all{by.const_data_ptr<float>(), sizes.kernel, channels, mixed.scalar_type()};
  at::parallel_for(0, channels, std::max<std::int64_t>(64, 16384 / tokens),
                   [&](std::int64_t from, std::int64_t to) {
                     for (const DeltaSpan& span : spans)
                       convolve(span, all, from, to, in.const_data_ptr<float>(), rows);
                   });
  at::parallel_for(0, tokens, 16, [&](std::int64_t from, std::int64_t to) {
    std::vector<float> sums;
    for (std::int64_t t = from; t < to; ++t) normalise(rows + t * channels, sizes, sums);
  });
  const std::int64_t heads = sizes.value_heads, group = heads / sizes.key_heads;
  const float *decay_of = decays.const_data_ptr<float>(), *beta_of = betas.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(
      0, static_cast<std::int64_t>(spans.size()) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> update(static_cast<std::size_t>(sizes.value_dim));
        for (std::int64_t i = begin; i < end; ++i) {
          const DeltaSpan& span = spans[static_cast<std::size_t>(i / heads)];
          const std::int64_t h = i % heads, key = h / group * sizes.key_dim;
          for (std::int64_t t = span.from; t < span.from + span.count; ++t) {
            const float* row = rows + t * channels;
            const float* k = row + sizes.key_heads * sizes.key_dim;
            step(span.state + h * sizes.key_dim * sizes.value_dim,
                 {row + key, k + key, k + sizes.key_heads * sizes.key_dim + h * sizes.value_dim,
                  decay_of[t * heads + h], beta_of[t * heads + h], to + (t * heads + h) * sizes.value_dim},
                 sizes.key_dim, sizes.value_dim, update.data());
          }
        }
      });
  return out.to(mixed.scalar_type());
}

at::Tensor row_sigmoid(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = x.to(at::kFloat).contiguous(), out = at::empty_like(wide);
  const float* from = wide.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < wide.numel(); ++i) to[i] = 1 / (1 + std::exp(-from[i]));
  return out.to(x.scalar_type());
}

at::Tensor row_decay(const at::Tensor& a, const at::Tensor& a_log, const at::Tensor& bias) {
  const at::NoGradGuard no_grad;
  const at::Tensor wide = a.to(at::kFloat).contiguous(), rate = a_log.to(at::kFloat).contiguous(),
                   shift = bias.to(at::kFloat).contiguous(), out = at::empty_like(wide);
  const std::int64_t heads = a.size(1);
  const float *from = wide.const_data_ptr<float>(), *log = rate.const_data_ptr<float>(),
              *add = shift.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    const float x = from[i] + add[i % heads];
    to[i] = -std::exp(log[i % heads]) * (x > 20 ? x : std::log1p(std::exp(x)));
  }
  return out.to(at::kFloat);
}

}  // namespace musacoder::llm

// The objective of policy-gradient methods over packed tokens: ratio × clip × corrections × masks × normalisation + KL, each a function
// of its own, and their combination.
//
//   Tokens tokens{.current = lp, .rollout = roll, .mask = trained, .response = owner, .responses = 16};
//   Objective o = objective(tokens, advantages, preset("mirrorpop"));
//   o.loss.backward();
//
// Log-probabilities, all [tokens], natural logarithm, of the tokens that were sampled:
//   current     under the weights that are trained, with gradient
//   old         under the weights at the beginning of the update, by the trainer; undefined: current, detached
//   rollout     under the weights and numerics that sampled; undefined: old
//   reference   under the frozen reference; only for the KL term
// All of it is computed in float32 or wider. Packing: a token belongs to response[token] in [0, responses); `mask` is 1 where it is
// trained (the prompt's tokens, and with PrimeEcho those of later turns, are 0). Everything but `current` is taken as a constant.
//
// Sources of the formulas stand with each part; the whole is written so that a published method is a choice of parts (preset()).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/torch.h"

namespace musacoder::rl {

struct Tokens {
  at::Tensor current, old, rollout, reference;  // [tokens]
  at::Tensor mask;                              // [tokens], 0 or 1
  at::Tensor response;                          // [tokens] int64
  std::int64_t responses = 0;
};

// Which two log-probabilities are subtracted: first − second.
enum class Pair { kCurrentOld, kCurrentRollout, kOldRollout };

// ---- ratio ----
enum class RatioLevel {
  kToken,          // ρ_t = exp(log ratio_t)                                  PPO, GRPO
  kSequence,       // s_i = exp(mean_t log ratio_t), one for all its tokens    GSPO, https://arxiv.org/abs/2507.18071 eq. 7
  kSequenceToken,  // value of s_i, gradient of each token's own              GSPO-token, eq. 12
};
// [tokens], with gradient.
at::Tensor ratio(const Tokens& tokens, Pair pair, RatioLevel level);

// ---- clip: per-token objective, to be maximised ----
enum class Clip {
  kPpo,    // min(ρA, clip(ρ, 1−low, 1+high)A); with dual > 1 and A < 0: not below dual·A   https://arxiv.org/abs/1707.06347, 1912.09729
  kCispo,  // sg(clip(ρ, 1−low, 1+high))·A·log π: no token loses its gradient                  https://arxiv.org/abs/2506.13585 eq. 4
  kNone,   // ρA
};
struct ClipConfig {
  Clip kind = Clip::kPpo;
  double low = 0.2, high = 0.2;  // for kCispo low = 1 leaves the lower side open
  double dual = 0;               // 0: off
};
// advantage [tokens]; `log_policy` is current's log-probability (for kCispo).
at::Tensor clipped(const at::Tensor& ratio, const at::Tensor& advantage, const at::Tensor& log_policy, const ClipConfig& config);

// ---- corrections for the mismatch of rollout and training: weights without gradient, [tokens] ----
enum class Correction {
  kNone,
  kTokenTruncated,     // min(w_t, high)                              TIS, https://fengyao.notion.site/off-policy-rl
  kTokenMasked,        // w_t inside [low, high], else 0               IcePop, https://arxiv.org/abs/2510.18855
  kSequenceTruncated,  // min(Π w_t, high) for all tokens
  kSequenceMasked,     // Π w_t if at most high, else 0
};
struct CorrectionConfig {
  Correction kind = Correction::kNone;
  double low = 0, high = 2;
  Pair pair = Pair::kOldRollout;
};
at::Tensor correction_weights(const Tokens& tokens, const CorrectionConfig& config);

// ---- masks of whole responses: [responses] bool, true where kept ----
enum class SequenceMask {
  kNone,
  kGeometric,  // low ≤ exp(mean_t lr_t) ≤ high                        "vanilla" of arXiv 2606.04847 eq. 18; Geo-RS
  kMirrorPop,  // mean_t |lr_t| ≤ delta                                 arXiv 2606.04847 eq. 19-21
  kK2,         // mean_t lr_t² / 2 ≤ delta                              verl's seq_mean_k2
  kOpsm,       // dropped iff A < 0 and −mean_t lr_t > delta            DeepSeek-V3.2, https://arxiv.org/abs/2512.02556 eq. 9
};
struct SequenceMaskConfig {
  SequenceMask kind = SequenceMask::kNone;
  double low = 0.999, high = 1.001, delta = 0.05;
  // kCurrentRollout (the paper's) or kCurrentOld move with every step of an update: a dynamic mask; kOldRollout is made once: static.
  Pair pair = Pair::kCurrentRollout;
};
// A response without trained tokens, or with a log ratio that is not finite, is never kept. advantage [responses].
at::Tensor kept_responses(const Tokens& tokens, const at::Tensor& advantage, const SequenceMaskConfig& config);

// ---- KL to the reference: per-token estimate, [tokens], with gradient; d = reference − current ----
enum class Kl { kK1, kK2, kK3 };  // −d; d²/2; exp(d) − d − 1 (never negative)   http://joschu.net/blog/kl-approx.html
at::Tensor kl_estimate(const Tokens& tokens, Kl kind);

// ---- normalisation: per-token values to one number ----
enum class Normalisation {
  kTokenMean,         // Σ over all tokens / their number                 DAPO
  kSeqMeanTokenMean,  // mean over responses of their tokens' mean         GRPO
  kSeqMeanTokenSum,   // mean over responses of their tokens' sum
  kSeqSumTokenNorm,   // Σ over all tokens / (responses × constant)        Dr.GRPO: the constant is the longest response allowed
};
// values, weights (0 or 1: counted or not) [tokens]. Responses without counted tokens do not count.
at::Tensor normalised(const at::Tensor& values, const at::Tensor& weights, const Tokens& tokens, Normalisation kind, double constant = 1);

// ---- the whole ----
struct ObjectiveConfig {
  RatioLevel level = RatioLevel::kToken;
  Pair ratio = Pair::kCurrentOld;
  ClipConfig clip;
  CorrectionConfig correction;
  SequenceMaskConfig sequence_mask;
  Normalisation normalisation = Normalisation::kSeqMeanTokenMean;
  double token_constant = 1;  // for kSeqSumTokenNorm
  double kl_coefficient = 0;
  Kl kl = Kl::kK3;
};
// grpo, dapo, dr_grpo, gspo, gspo_token, cispo, tis, icepop, geo_rs, opsm, mirrorpop. kInvalidArgument: another name.
Result<ObjectiveConfig> preset(const std::string& name);
const std::vector<std::string>& preset_names();

struct Objective {
  at::Tensor loss;  // to be minimised; 0 (with gradient 0) where nothing is left to train
  at::Tensor kept;  // [responses] bool
  // tokens, responses: that count; masked_share: of responses with trained tokens; clipped_low, clipped_high: share of tokens whose clip
  // bites; kl; and |log π − log π_rollout| over all trained tokens, masked or not: log_ratio_abs_mean, _p99, share over 0.02 and over 0.05.
  std::map<std::string, double> metrics;
  // What the loss was divided by, apart from a constant: counted tokens, or responses that have any; 0 where nothing is left. Over
  // passes of one batch, Σ loss × denominator / Σ denominator is the loss of all of it.
  double denominator = 0;
};
// advantage [responses]; `valid` [responses] bool or undefined: responses whose reward is null are not trained.
// Throws c10::Error where sizes do not fit.
Objective objective(const Tokens& tokens, const at::Tensor& advantage, const at::Tensor& valid, const ObjectiveConfig& config);

}  // namespace musacoder::rl

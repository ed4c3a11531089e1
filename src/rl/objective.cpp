#include "rl/objective.h"

namespace musacoder::rl {
namespace {

const at::Tensor& old_of(const Tokens& t, at::Tensor& room) {
  if (t.old.defined()) return t.old;
  return room = t.current.detach();
}

at::Tensor log_ratio(const Tokens& t, Pair pair) {
  at::Tensor room;
  const at::Tensor& old = old_of(t, room);
  const at::Tensor rollout = (t.rollout.defined() ? t.rollout : old).detach();
  switch (pair) {
    case Pair::kCurrentOld: return t.current - old.detach();
    case Pair::kCurrentRollout: return t.current - rollout;
    case Pair::kOldRollout: return old.detach() - rollout;
  }
  TORCH_CHECK(false, "no such pair");
}

// By response.
at::Tensor sums(const Tokens& t, const at::Tensor& values) {
  return at::zeros({t.responses}, values.options()).index_add(0, t.response, values);
}

// Of the trained tokens; 0 for a response without any.
at::Tensor means(const Tokens& t, const at::Tensor& values) {
  const at::Tensor mask = t.mask.to(values.scalar_type());
  // where(), not a product: what is not trained may be infinite
  const at::Tensor counted = at::where(mask > 0, values, at::zeros_like(values));
  return sums(t, counted) / sums(t, mask).clamp_min(1);
}

double number(const at::Tensor& x) { return x.item<double>(); }

Tokens checked(const Tokens& t) {
  TORCH_CHECK(t.current.dim() == 1 && t.responses > 0, "log-probabilities must be [tokens], of at least one response");
  for (const at::Tensor* x : {&t.old, &t.rollout, &t.reference, &t.mask, &t.response})
    TORCH_CHECK((x != &t.mask && x != &t.response && !x->defined()) || x->sizes() == t.current.sizes(), "one value for each token is needed");
  TORCH_CHECK(t.response.numel() == 0 || (t.response.min().item<std::int64_t>() >= 0 && t.response.max().item<std::int64_t>() < t.responses),
              "a token belongs to a response that is not there");
  Tokens out = t;
  // What is not trained may be infinite, and 0 times infinity would be in the gradient.
  for (at::Tensor* x : {&out.current, &out.old, &out.rollout, &out.reference}) {
    if (!x->defined()) continue;
    if (x->scalar_type() != at::kDouble) *x = x->to(at::kFloat);
    *x = at::where(t.mask > 0, *x, at::zeros_like(*x));
  }
  out.mask = t.mask.to(out.current.scalar_type());
  return out;
}

}  // namespace

at::Tensor ratio(const Tokens& tokens, Pair pair, RatioLevel level) {
  const at::Tensor lr = log_ratio(tokens, pair);
  if (level == RatioLevel::kToken) return lr.exp();
  const at::Tensor mean = means(tokens, lr).index_select(0, tokens.response);
  if (level == RatioLevel::kSequence) return mean.exp();
  return (mean.detach() + tokens.current - tokens.current.detach()).exp();
}

at::Tensor clipped(const at::Tensor& ratio, const at::Tensor& advantage, const at::Tensor& log_policy, const ClipConfig& config) {
  const at::Tensor bounded = ratio.clamp(1 - config.low, 1 + config.high);
  switch (config.kind) {
    case Clip::kNone: return ratio * advantage;
    case Clip::kCispo: return bounded.detach() * advantage * log_policy;
    case Clip::kPpo: break;
  }
  const at::Tensor lower = at::minimum(ratio * advantage, bounded * advantage);
  if (config.dual <= 0) return lower;
  return at::where(advantage < 0, at::maximum(lower, config.dual * advantage), lower);
}

at::Tensor correction_weights(const Tokens& tokens, const CorrectionConfig& config) {
  const at::NoGradGuard no_grad;
  const at::Tensor lr = log_ratio(tokens, config.pair);
  if (config.kind == Correction::kNone) return at::ones_like(lr);
  const bool whole = config.kind == Correction::kSequenceTruncated || config.kind == Correction::kSequenceMasked;
  const at::Tensor mask = tokens.mask.to(lr.scalar_type());
  const at::Tensor w = whole ? sums(tokens, at::where(mask > 0, lr, at::zeros_like(lr))).index_select(0, tokens.response).exp() : lr.exp();
  switch (config.kind) {
    case Correction::kTokenTruncated:
    case Correction::kSequenceTruncated: return w.clamp_max(config.high);
    case Correction::kTokenMasked: return at::where((w >= config.low).logical_and(w <= config.high), w, at::zeros_like(w));
    default: return at::where(w <= config.high, w, at::zeros_like(w));
  }
}

at::Tensor kept_responses(const Tokens& tokens, const at::Tensor& advantage, const SequenceMaskConfig& config) {
  const at::NoGradGuard no_grad;
  const at::Tensor lr = log_ratio(tokens, config.pair);
  const at::Tensor mean = means(tokens, lr);
  const at::Tensor usable = (sums(tokens, tokens.mask.to(lr.scalar_type())) > 0).logical_and(means(tokens, lr.abs()).isfinite());
  at::Tensor kept;
  switch (config.kind) {
    case SequenceMask::kNone: return usable;
    case SequenceMask::kGeometric: kept = (mean.exp() >= config.low).logical_and(mean.exp() <= config.high); break;
    case SequenceMask::kMirrorPop: kept = means(tokens, lr.abs()) <= config.delta; break;
    case SequenceMask::kK2: kept = means(tokens, lr.square() / 2) <= config.delta; break;
    case SequenceMask::kOpsm: kept = (advantage.to(lr.scalar_type()) < 0).logical_and(-mean > config.delta).logical_not(); break;
  }
  return kept.logical_and(usable);
}

at::Tensor kl_estimate(const Tokens& tokens, Kl kind) {
  TORCH_CHECK(tokens.reference.defined(), "the KL term needs the reference's log-probabilities");
  const at::Tensor d = tokens.reference.detach() - tokens.current;
  switch (kind) {
    case Kl::kK1: return -d;
    case Kl::kK2: return d.square() / 2;
    case Kl::kK3: return at::expm1(d) - d;
  }
  TORCH_CHECK(false, "no such estimate");
}

at::Tensor normalised(const at::Tensor& values, const at::Tensor& weights, const Tokens& tokens, Normalisation kind, double constant) {
  const at::Tensor counted = at::where(weights > 0, values, at::zeros_like(values));
  const at::Tensor each = sums(tokens, weights.to(values.scalar_type()));
  const at::Tensor present = (each > 0).sum().clamp_min(1).to(values.scalar_type());
  switch (kind) {
    case Normalisation::kTokenMean: return counted.sum() / each.sum().clamp_min(1);
    case Normalisation::kSeqMeanTokenMean: return (sums(tokens, counted) / each.clamp_min(1)).sum() / present;
    case Normalisation::kSeqMeanTokenSum: return counted.sum() / present;
    case Normalisation::kSeqSumTokenNorm: return counted.sum() / (present * constant);
  }
  TORCH_CHECK(false, "no such normalisation");
}

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = {"grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo", "tis", "icepop", "geo_rs", "opsm", "mirrorpop"};
  return names;
}

Result<ObjectiveConfig> preset(const std::string& name) {
  ObjectiveConfig c;
  if (name == "grpo") return c;
  if (name == "dr_grpo") {
    c.normalisation = Normalisation::kSeqSumTokenNorm;
    return c;
  }
  if (name == "gspo" || name == "gspo_token") {
    c.level = name == "gspo" ? RatioLevel::kSequence : RatioLevel::kSequenceToken;
    c.clip = {.low = 3e-4, .high = 4e-4};  // eq. 7's ranges, section 5.1 of the paper
    return c;
  }
  // All others average over tokens.
  c.normalisation = Normalisation::kTokenMean;
  if (name == "cispo") {
    c.clip = {.kind = Clip::kCispo, .low = 1, .high = 4};  // weights up to 5, as ScaleRL found (https://arxiv.org/abs/2510.13786)
    return c;
  }
  c.clip = {.low = 0.2, .high = 0.28};
  if (name == "dapo") return c;
  if (name == "tis") c.correction = {.kind = Correction::kTokenTruncated, .high = 2};
  else if (name == "icepop") c.correction = {.kind = Correction::kTokenMasked, .low = 0.5, .high = 5};
  else if (name == "geo_rs") c.sequence_mask = {.kind = SequenceMask::kGeometric, .low = 0.999, .high = 1.001, .pair = Pair::kOldRollout};
  else if (name == "opsm") c.sequence_mask = {.kind = SequenceMask::kOpsm, .delta = 0.5, .pair = Pair::kCurrentRollout};
  else if (name == "mirrorpop") {
    c.ratio = Pair::kCurrentRollout;  // eq. 4
    c.sequence_mask = {.kind = SequenceMask::kMirrorPop, .delta = 0.05, .pair = Pair::kCurrentRollout};
  } else {
    return fail(Code::kInvalidArgument, "no objective is called {}; there are {}", name, fmt::join(preset_names(), ", "));
  }
  return c;
}

Objective objective(const Tokens& given, const at::Tensor& advantage, const at::Tensor& valid, const ObjectiveConfig& config) {
  const Tokens tokens = checked(given);
  const auto type = tokens.current.scalar_type();
  TORCH_CHECK(advantage.dim() == 1 && advantage.size(0) == tokens.responses, "one advantage for each response is needed");
  const at::Tensor each = advantage.detach().to(tokens.current.device(), type);
  at::Tensor kept = kept_responses(tokens, each, config.sequence_mask);
  at::Tensor present = sums(tokens, tokens.mask) > 0;
  if (valid.defined()) {
    kept = kept.logical_and(valid.to(kept.device()));
    present = present.logical_and(valid.to(kept.device()));
  }
  const at::Tensor weights = tokens.mask * kept.to(type).index_select(0, tokens.response);
  const at::Tensor token_advantage = each.index_select(0, tokens.response);

  const at::Tensor rho = ratio(tokens, config.ratio, config.level);
  const at::Tensor gain = clipped(rho, token_advantage, tokens.current, config.clip) * correction_weights(tokens, config.correction);
  at::Tensor value = -gain;
  at::Tensor kl;
  if (config.kl_coefficient != 0) {
    kl = kl_estimate(tokens, config.kl);
    value = value + config.kl_coefficient * kl;
  }
  Objective out{normalised(value, weights, tokens, config.normalisation, config.token_constant), kept, {}};

  const at::NoGradGuard no_grad;
  out.denominator =
      number(config.normalisation == Normalisation::kTokenMean ? weights.sum() : (sums(tokens, weights) > 0).to(type).sum());
  const auto share = [&](const at::Tensor& condition) {
    return number((condition.to(type) * weights).sum() / weights.sum().clamp_min(1));
  };
  const at::Tensor drift = log_ratio(tokens, Pair::kCurrentRollout).abs();
  const at::Tensor trained = weights > 0;
  const at::Tensor measured = drift.masked_select(tokens.mask > 0);
  auto& m = out.metrics;
  m["tokens"] = number(weights.sum());
  m["responses"] = number(kept.sum());
  m["masked_share"] = 1 - number(kept.sum()) / std::max(1.0, number(present.sum()));
  m["clipped_low"] = share((rho < 1 - config.clip.low).logical_and(token_advantage < 0));
  m["clipped_high"] = share((rho > 1 + config.clip.high).logical_and(token_advantage > 0));
  m["log_ratio_abs_mean"] = measured.numel() ? number(measured.mean()) : 0;
  m["log_ratio_abs_p99"] = measured.numel() ? number(at::quantile(measured.to(at::kFloat).slice(0, 0, 1 << 24), 0.99)) : 0;
  m["log_ratio_abs_over_0.02"] = measured.numel() ? number((measured > 0.02).to(at::kFloat).mean()) : 0;
  m["log_ratio_abs_over_0.05"] = measured.numel() ? number((measured > 0.05).to(at::kFloat).mean()) : 0;
  if (kl.defined()) m["kl"] = number(at::where(trained, kl, at::zeros_like(kl)).sum() / weights.sum().clamp_min(1));
  return out;
}

}  // namespace musacoder::rl

"""PrimeEcho, MirrorPop and Buffered Dynamic Retry (arXiv 2606.04847) for trainers in Python: drop-in functions on torch alone.

    from musacoder import algorithms

    reward = algorithms.prime_echo([-1.0, 0.4, 1.3]).reward           # a trajectory's scores by turn
    keep = algorithms.mirrorpop_keep(log_prob, rollout_log_prob, response_mask, delta=0.05)

verl, as a registered policy loss (`actor_rollout_ref.actor.policy_loss.loss_mode=mirrorpop`):

    from verl.trainer.ppo.core_algos import register_policy_loss
    register_policy_loss("mirrorpop")(algorithms.verl_mirrorpop_loss)

slime and miles, as a mismatch function: `--use-tis --custom-tis-function-path musacoder.algorithms.slime_mirrorpop`.

Tensors are [responses, tokens] with a mask of 0 and 1 (1: trained). Same numbers as the C++ in src/rl; the formulas and what the
paper leaves open stand there (objective.h, prime_echo.h, retry_buffer.h). A score or reward that is None or NaN is null: the verifier's
own fault, which no candidate answers for.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
from collections.abc import Iterable, Sequence

import torch

# ---- PrimeEcho, §4.4.3 ----


@dataclasses.dataclass(frozen=True)
class EchoConfig:
    """α of eq. 9 is the paper's; β1 > β2 of eq. 10 are named there without values."""

    alpha: float = 0.75
    first_bonus: float = 0.2
    second_bonus: float = 0.1
    success: float = 1.0

    def __post_init__(self):
        off = self.first_bonus == 0 and self.second_bonus == 0
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be in [0, 1], not {self.alpha}")
        if not off and not self.first_bonus > self.second_bonus >= 0:
            raise ValueError("the bonus of the first turn must be above that of the second, which must not be negative")


@dataclasses.dataclass(frozen=True)
class Echo:
    reward: float
    bonus: float
    best: float
    success_turn: int  # counted from 1; 0: none


def _counted(scores):
    """Scores up to the first null one."""
    out = []
    for score in scores:
        if score is None or math.isnan(score):
            break
        out.append(float(score))
    return out


def prime_echo(scores: Sequence[float | None], config: EchoConfig = EchoConfig()) -> Echo:
    """Eq. 9 and 10 for the scores of a trajectory's turns; NaN where the first turn has none."""
    counted = _counted(scores)
    if not counted:
        return Echo(math.nan, 0.0, math.nan, 0)
    best = max(counted)
    success = next((k for k, score in enumerate(counted, 1) if score >= config.success), 0)
    bonus = {1: config.first_bonus, 2: config.second_bonus}.get(success, 0.0)
    return Echo(config.alpha * counted[0] + (1 - config.alpha) * best + bonus, bonus, best, success)


def first_turn_mask(turn: torch.Tensor) -> torch.Tensor:
    """turn: 1, 2, … for tokens that a turn sampled, 0 for others, any shape. 1.0 for turn 1: the only tokens that are trained (§5.1)."""
    return (turn == 1).to(torch.float32)


def group_advantages(rewards: torch.Tensor, groups: torch.Tensor, epsilon: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 12: (R − mean) / (std + ε) within each group, without null rewards (NaN). (advantages float64, valid bool), both [responses]."""
    rewards, groups = rewards.detach().double().cpu(), groups.cpu()
    valid = ~rewards.isnan()
    out = torch.zeros_like(rewards)
    for group in groups[valid].unique():
        who = valid & (groups == group)
        mine = rewards[who]
        if bool((mine == mine[0]).all()):
            continue
        out[who] = (mine - mine.mean()) / (mine.std() + epsilon)
    return out, valid


# ---- MirrorPop, §4.5.2 ----


def mirrorpop_statistic(log_prob: torch.Tensor, rollout_log_prob: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """mean_t |log π − log π_rollout| of each response over its trained tokens: the logarithm of eq. 20. [responses]."""
    trained = mask > 0
    deviation = (log_prob.detach() - rollout_log_prob.detach()).float().abs()
    total = torch.where(trained, deviation, torch.zeros_like(deviation)).sum(-1)
    return total / trained.sum(-1).clamp_min(1)


def mirrorpop_keep(log_prob, rollout_log_prob, mask, delta: float = 0.05) -> torch.Tensor:
    """Eq. 21: which responses stay, [responses] bool. One without trained tokens, or that is not finite, does not.

    The paper publishes no δ; 0.05 is a start for dense models in bf16, to be swept around the 99th percentile seen on policy.
    """
    statistic = mirrorpop_statistic(log_prob, rollout_log_prob, mask)
    return statistic.isfinite() & (statistic <= delta) & ((mask > 0).sum(-1) > 0)


def mirrorpop_loss(log_prob, rollout_log_prob, advantages, mask, delta: float = 0.05, clip_low: float = 0.2, clip_high: float = 0.28,
                   reference_log_prob=None, kl_coefficient: float = 0.0) -> tuple[torch.Tensor, dict[str, float]]:
    """Eq. 17: clipped objective over π/π_rollout, mean over the tokens of the responses that stay, and k3 KL to a reference.

    advantages: [responses] or [responses, tokens]. (loss, metrics); the loss is 0 with gradient 0 where nothing stays.
    """
    keep = mirrorpop_keep(log_prob, rollout_log_prob, mask, delta)
    weights = (mask > 0) & keep.unsqueeze(-1)
    if advantages.dim() == 1:
        advantages = advantages.unsqueeze(-1)
    advantages = advantages.to(torch.float32).expand_as(log_prob)
    trained = mask > 0  # what is not may be infinite, and 0 times infinity would be in the gradient
    nothing = torch.zeros((), dtype=torch.float32, device=log_prob.device)
    rho = torch.where(trained, log_prob.float() - rollout_log_prob.detach().float(), nothing).exp()
    value = -torch.minimum(rho * advantages, rho.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if kl_coefficient:
        d = torch.where(trained, reference_log_prob.detach().float() - log_prob.float(), nothing)
        value = value + kl_coefficient * (torch.expm1(d) - d)
    count = weights.sum().clamp_min(1)
    loss = torch.where(weights, value, torch.zeros_like(value)).sum() / count
    present = (mask > 0).sum(-1) > 0
    with torch.no_grad():
        metrics = {
            "tokens": float(weights.sum()),
            "responses": float(keep.sum()),
            "masked_share": 1 - float(keep.sum()) / max(1.0, float(present.sum())),
            "clipped_low": float(((rho < 1 - clip_low) & (advantages < 0) & weights).sum() / count),
            "clipped_high": float(((rho > 1 + clip_high) & (advantages > 0) & weights).sum() / count),
        }
    return loss, metrics


def _setting(config, names: Iterable[str], default: float) -> float:
    for name in names:
        value = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
        if value is not None:
            return float(value)
    return default


def verl_mirrorpop_loss(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None, rollout_is_weights=None):
    """MirrorPop with the signature of verl's `register_policy_loss`. (loss, metrics).

    verl passes the log-probabilities of the update's beginning; in bypass mode these are the rollout's, which is the paper's ρ. δ is
    `config.policy_loss.mirrorpop_delta`, else 0.05; the clip is clip_ratio_low and clip_ratio_high. Aggregation is the paper's whatever
    loss_agg_mode says, so another one than "token-mean" is refused.
    """
    if loss_agg_mode != "token-mean":
        raise ValueError(f"MirrorPop averages over tokens (eq. 17); loss_agg_mode is {loss_agg_mode}")
    if rollout_is_weights is not None:
        raise ValueError("MirrorPop already corrects for the rollout's policy; switch rollout importance sampling off")
    policy = _get(config, "policy_loss")
    clip = _setting(config, ["clip_ratio"], 0.2) if config is not None else 0.2
    loss, metrics = mirrorpop_loss(log_prob, old_log_prob, advantages, response_mask,
                                   delta=_setting(policy, ["mirrorpop_delta"], 0.05) if policy is not None else 0.05,
                                   clip_low=_setting(config, ["clip_ratio_low"], clip) if config is not None else clip,
                                   clip_high=_setting(config, ["clip_ratio_high"], clip) if config is not None else 0.28)
    return loss, {f"actor/mirrorpop_{name}": value for name, value in metrics.items()}


def _get(config, name):
    if config is None:
        return None
    return config.get(name) if hasattr(config, "get") else getattr(config, name, None)


def slime_mirrorpop(args, *, pg_loss, train_log_probs, rollout_log_probs, loss_masks, **_):
    """MirrorPop as a mismatch function of slime and miles (`--custom-tis-function-path`): (pg_loss, masks, metrics).

    train_log_probs, rollout_log_probs and loss_masks hold one tensor a response. pg_loss is left as it is; masks of responses that moved
    further than δ (`args.mirrorpop_delta`, else 0.05) become 0, so that they leave numerator and denominator.
    """
    delta = float(getattr(args, "mirrorpop_delta", None) or 0.05)
    masks, statistics = [], []
    for train, rollout, mask in zip(train_log_probs, rollout_log_probs, loss_masks, strict=True):
        statistics.append(mirrorpop_statistic(train[None], rollout[None], mask[None])[0])
        keep = mirrorpop_keep(train[None], rollout[None], mask[None], delta)[0]
        masks.append(mask if bool(keep) else torch.zeros_like(mask))
    kept = [torch.full_like(train, float(bool((mask > 0).any()))) for train, mask in zip(train_log_probs, masks, strict=True)]
    flat = torch.cat([torch.full_like(train, float(s)) for train, s in zip(train_log_probs, statistics, strict=True)])
    return pg_loss, masks, {"mirrorpop_kept": torch.cat(kept), "mirrorpop_statistic": flat}


# ---- Buffered Dynamic Retry, §4.5.1 ----


@dataclasses.dataclass
class Retry:
    prompt_id: str
    candidate: str
    feedback: str
    status: str = ""
    retries: int = 0
    step: int = 0


def progress(status: str) -> int:
    """How far a verdict came: 0 no code, 1 refused or not built, 2 run-time fault, 3 wrong values or disallowed operators."""
    kind = status.split(":")[0]
    if kind == "correctness_error" or status == "cheating:disallowed_aten":
        return 3
    if kind == "runtime_error":
        return 2
    return 0 if status == "compile_error:extract" else 1


def retry_of(prompt_id: str, group: Sequence[dict]) -> Retry | None:
    """Eq. 13: a retry where every response that has a reward got −1. `group`: reward, status, candidate, feedback of each response."""
    best = None
    for one in group:
        if one["reward"] is None or math.isnan(one["reward"]):
            continue
        if one["reward"] != -1:
            return None
        if best is None or progress(one["status"]) > progress(best["status"]):
            best = one
    return None if best is None else Retry(prompt_id, best["candidate"], best["feedback"], best["status"])


class RetryBuffer:
    """Eq. 15 and 16: first in, first out, of fixed capacity; an entry is removed when it is drawn and comes back at most most_retries times."""

    def __init__(self, capacity=128, probability=0.1, start_step=0, most_retries=2):
        self.capacity, self.probability, self.start_step, self.most_retries = capacity, probability, start_step, most_retries
        self._entries: collections.deque[Retry] = collections.deque()
        self.counts = dict.fromkeys(("pushed", "evicted", "replaced", "refused", "drawn"), 0)

    def __len__(self):
        return len(self._entries)

    def push(self, retry: Retry) -> bool:
        if retry.retries >= self.most_retries or self.capacity == 0:
            self.counts["refused"] += 1
            return False
        for at, one in enumerate(self._entries):
            if one.prompt_id == retry.prompt_id:
                self._entries[at] = retry
                self.counts["replaced"] += 1
                return True
        if len(self._entries) >= self.capacity:
            self._entries.popleft()
            self.counts["evicted"] += 1
        self._entries.append(retry)
        self.counts["pushed"] += 1
        return True

    def wants_retry(self, step: int, uniform: float) -> bool:
        return step >= self.start_step and len(self._entries) > 0 and uniform < self.probability

    def draw(self) -> Retry | None:
        if not self._entries:
            return None
        out = self._entries.popleft()
        out = dataclasses.replace(out, retries=out.retries + 1)
        self.counts["drawn"] += 1
        return out

    def to_json(self) -> str:
        """The same text format as the C++ buffer's."""
        return json.dumps({"version": 1, "entries": [dataclasses.asdict(one) for one in self._entries], "counts": self.counts})

    def restore(self, text: str) -> None:
        value = json.loads(text)
        if value.get("version") != 1:
            raise ValueError(f"retry buffer of version {value.get('version')}")
        self._entries = collections.deque(Retry(**one) for one in value["entries"])
        self.counts = dict(value["counts"])

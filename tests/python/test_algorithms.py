"""python/musacoder/algorithms.py against the C++ of src/rl on random inputs, the presets against TRL's and verl's published formulas, and the
adapters with the arguments that verl and slime give."""

import json
import math
import pathlib
import random
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from musacoder import algorithms  # noqa: E402

GOLDEN = ROOT / "build" / "rl_golden"
needs_golden = pytest.mark.skipif(not GOLDEN.exists(), reason="built without libtorch")


def golden(**what):
    done = subprocess.run([GOLDEN], input=json.dumps(what), capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def batch(seed, responses=6, length=9):
    """Padded tensors, and the same packed for the C++."""
    generator = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.rand(*shape, generator=generator)  # noqa: E731
    randn = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    rollout = -3 * rand(responses, length) - 0.01
    # half of the responses drift far
    current = rollout + randn(responses, length) * torch.where(rand(responses, 1) < 0.5, 0.02, 0.4)
    mask = (rand(responses, length) < 0.8).float()
    mask[0] = 0 if seed % 3 == 0 else mask[0]
    reference, old, advantages = rollout + 0.1 * randn(responses, length), rollout + 0.01 * randn(responses, length), randn(responses)
    packed = {"current": current.flatten().tolist(), "rollout": rollout.flatten().tolist(), "reference": reference.flatten().tolist(),
              "old": old.flatten().tolist(), "mask": mask.flatten().tolist(), "responses": responses, "advantages": advantages.tolist(),
              "response": [i for i in range(responses) for _ in range(length)]}
    return types.SimpleNamespace(current=current, rollout=rollout, mask=mask, reference=reference, old=old, advantages=advantages, packed=packed)


@needs_golden
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("settings", [{"delta": 0.05}, {"delta": 0.2, "clip_low": 0.1, "clip_high": 0.4, "kl_coefficient": 0.3}])
def test_mirrorpop_is_the_cpp(seed, settings):
    b = batch(seed)
    current = b.current.clone().requires_grad_()
    loss, metrics = algorithms.mirrorpop_loss(current, b.rollout, b.advantages, b.mask, reference_log_prob=b.reference, **settings)
    loss.backward()
    want = golden(objective={"preset": "mirrorpop", "settings": settings, **b.packed})
    assert math.isclose(loss.item(), want["loss"], rel_tol=1e-6, abs_tol=1e-7)
    assert torch.allclose(current.grad.flatten(), torch.tensor(want["gradient"]), rtol=1e-5, atol=1e-8)
    assert algorithms.mirrorpop_keep(current, b.rollout, b.mask, settings["delta"]).tolist() == [bool(k) for k in want["kept"]]
    for name, value in metrics.items():
        assert math.isclose(value, want["metrics"][name], rel_tol=1e-6, abs_tol=1e-7), name


def test_infinities_of_untrained_tokens_do_not_reach_the_gradient():
    b = batch(4)
    b.rollout[b.mask == 0] = -math.inf
    current = b.current.clone().requires_grad_()
    loss, _ = algorithms.mirrorpop_loss(current, b.rollout, b.advantages, b.mask, delta=5)
    loss.backward()
    assert loss.isfinite() and current.grad.isfinite().all() and current.grad.abs().sum() > 0


def published(name, b, current):
    """The losses as verl's and TRL's documentation writes them, over padded tensors."""
    advantages, mask = b.advantages[:, None], b.mask
    ratio = (current - b.old).exp()
    token_mean = lambda x: (x * mask).sum() / mask.sum()  # noqa: E731
    sequence_mean = lambda x: ((x * mask).sum(1) / mask.sum(1).clamp(min=1))[mask.sum(1) > 0].mean()  # noqa: E731
    surrogate = lambda r, low, high: -torch.min(r * advantages, r.clamp(1 - low, 1 + high) * advantages)  # noqa: E731
    weight = (b.old - b.rollout).exp()
    if name == "grpo":
        return sequence_mean(surrogate(ratio, 0.2, 0.2))
    if name == "dapo":
        return token_mean(surrogate(ratio, 0.2, 0.28))
    if name == "dr_grpo":
        return (surrogate(ratio, 0.2, 0.2) * mask).sum() / ((mask.sum(1) > 0).sum() * 9)
    if name == "gspo":
        mean = ((current - b.old) * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        return sequence_mean(surrogate(mean.exp().expand_as(ratio), 3e-4, 4e-4))
    if name == "cispo":
        return token_mean(-ratio.clamp(max=5).detach() * advantages * current)
    if name == "tis":
        return token_mean(surrogate(ratio, 0.2, 0.28) * weight.clamp(max=2))
    assert name == "icepop"
    return token_mean(surrogate(ratio, 0.2, 0.28) * torch.where((weight >= 0.5) & (weight <= 5), weight, 0))


@needs_golden
@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "gspo", "cispo", "tis", "icepop"])
@pytest.mark.parametrize("seed", range(3))
def test_presets_are_the_published_formulas(name, seed):
    b = batch(seed)
    current = b.current.clone().requires_grad_()
    loss = published(name, b, current)
    loss.backward()
    want = golden(objective={"preset": name, "settings": {"token_constant": 9}, **b.packed})
    assert math.isclose(loss.item(), want["loss"], rel_tol=1e-5, abs_tol=1e-6)
    assert torch.allclose(current.grad.flatten(), torch.tensor(want["gradient"]), rtol=1e-4, atol=1e-7)


@needs_golden
def test_advantages_are_the_cpp():
    rewards, groups = [1.0, -1.0, None, 0.5, 0.5, 0.5, -1.0, 2.0], [3, 3, 3, 1, 1, 1, 2, 3]
    want = golden(advantages={"rewards": rewards, "groups": groups, "epsilon": 1e-6})
    values, valid = algorithms.group_advantages(torch.tensor([math.nan if r is None else r for r in rewards]), torch.tensor(groups))
    assert torch.allclose(values, torch.tensor(want["values"], dtype=torch.float64), rtol=1e-9, atol=1e-12)
    assert valid.tolist() == [bool(v) for v in want["valid"]]


@needs_golden
@pytest.mark.parametrize("alpha", [0.0, 0.75, 1.0])
def test_prime_echo_is_the_cpp(alpha):
    chance = random.Random(5)
    scores = [[chance.choice([-1.0, -0.5, 0.99, 1.0, 1.4, None]) for _ in range(chance.randint(0, 4))] for _ in range(200)]
    want = golden(echo={"scores": scores, "alpha": alpha})
    for one, (reward, bonus, best, turn) in zip(scores, want, strict=True):
        got = algorithms.prime_echo(one, algorithms.EchoConfig(alpha=alpha))
        assert got.success_turn == turn, one
        for mine, theirs in ((got.reward, reward), (got.bonus, bonus), (got.best, best)):
            assert math.isnan(mine) if theirs is None else mine == theirs, one


@needs_golden
def test_the_retry_buffer_is_the_cpp():
    chance = random.Random(8)
    statuses = ["compile_error:extract", "compile_error:nvcc", "runtime_error:exception", "correctness_error:values", "cheating:disallowed_aten", "infra:device"]
    groups = [[{"reward": chance.choice([-1.0, -1.0, -1.0, -1.0, None, -0.5]), "status": chance.choice(statuses), "candidate": f"{i}.{j}", "feedback": f"f{j}"}
               for j in range(4)] for i in range(60)]
    buffer = algorithms.RetryBuffer(capacity=3)
    for i, group in enumerate(groups, 1):
        entry = algorithms.retry_of(f"p{(i - 1) % 5}", group)
        if entry:
            buffer.push(entry)
        if i % 3 == 0 and (drawn := buffer.draw()):
            buffer.push(drawn)
    want = golden(retry={"groups": groups})
    assert json.loads(buffer.to_json()) == want
    assert want["counts"]["refused"] and want["counts"]["evicted"] and want["counts"]["replaced"], "the case is too tame"
    other = algorithms.RetryBuffer()
    other.restore(json.dumps(want))
    assert json.loads(other.to_json()) == want


def test_first_turn_mask():
    assert algorithms.first_turn_mask(torch.tensor([0, 1, 2, 1, 3])).tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("wrong", [{"alpha": -0.1}, {"first_bonus": 0.1, "second_bonus": 0.2}, {"second_bonus": -1}])
def test_echo_settings_are_checked(wrong):
    with pytest.raises(ValueError):
        algorithms.EchoConfig(**wrong)


def test_as_a_loss_of_verl():
    b = batch(1)
    config = types.SimpleNamespace(clip_ratio=0.2, clip_ratio_low=0.15, clip_ratio_high=0.3, policy_loss={"mirrorpop_delta": 0.1})
    loss, metrics = algorithms.verl_mirrorpop_loss(b.rollout, b.current, b.advantages[:, None].expand_as(b.mask), b.mask, "token-mean", config, None)
    want, _ = algorithms.mirrorpop_loss(b.current, b.rollout, b.advantages, b.mask, delta=0.1, clip_low=0.15, clip_high=0.3)
    assert loss.item() == want.item() and set(metrics) >= {"actor/mirrorpop_masked_share"}
    plain, _ = algorithms.verl_mirrorpop_loss(b.rollout, b.current, b.advantages[:, None], b.mask)
    assert plain.isfinite()
    with pytest.raises(ValueError, match="token"):
        algorithms.verl_mirrorpop_loss(b.rollout, b.current, b.advantages[:, None], b.mask, "seq-mean-token-sum")
    with pytest.raises(ValueError, match="importance"):
        algorithms.verl_mirrorpop_loss(b.rollout, b.current, b.advantages[:, None], b.mask, rollout_is_weights=b.mask)


def test_as_a_mismatch_function_of_slime():
    b = batch(2)
    lengths = [9, 4, 7, 1, 9, 3]
    cut = lambda x: [x[i, :n] for i, n in enumerate(lengths)]  # noqa: E731
    pg_loss = torch.arange(sum(lengths)).float()
    out, masks, metrics = algorithms.slime_mirrorpop(types.SimpleNamespace(mirrorpop_delta=0.05), pg_loss=pg_loss, train_log_probs=cut(b.current),
                                                     rollout_log_probs=cut(b.rollout), loss_masks=cut(b.mask), total_lengths=lengths, response_lengths=lengths)
    assert out is pg_loss and [len(m) for m in masks] == lengths
    moved = [(c - r).abs()[m > 0].mean() for c, r, m in zip(cut(b.current), cut(b.rollout), cut(b.mask), strict=True)]
    for mean, mask, before in zip(moved, masks, cut(b.mask), strict=True):
        assert torch.equal(mask, before if mean <= 0.05 else torch.zeros_like(before))
    assert all(len(value) == sum(lengths) for value in metrics.values())
    assert 0 < metrics["mirrorpop_kept"].mean() < 1

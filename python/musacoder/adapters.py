"""Reward functions of the common RL trainers over MooreEval, in the signatures that each trainer calls.

Where the judge is: MUSACODER_URL (http://127.0.0.1:8811), MUSACODER_TOKEN, MUSACODER_TIMEOUT (900 s for a candidate),
MUSACODER_RETRIES (8), MUSACODER_ON_FAULT; or configure(…) once in the process.

Which task is meant: `ground_truth`, `label`, `answer` or `solution`, whichever the stack hands over, or a dataset column
of the name `task` or `reference`. Each may be {"task": id} or {"reference": code} (with "policy", "seed" if wanted), the
same as JSON text, a bare id ("level1/19"), or the reference's code itself.

Rewards: -1 … -0.5 wrong, 1 and more verified (docs/trainers.md). A fault of the machine is never a negative number:
None where the stack takes None, else 0.0 with `infra` true beside it, to be masked; with MUSACODER_ON_FAULT=raise an
InfrastructureError instead, which ends or repeats the step. `undecided` (the task itself is at fault) is flagged alike.
"""

import asyncio
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from musacoder import Client, InfrastructureError, job_of

try:  # skyrl_gym.make() takes only children of its Env
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ImportError:
    BaseTextEnv = object

_state = {}
_HOLDERS = ("ground_truth", "label", "answer", "solution", "reward_model", "reward_spec", "info")
_JOB_KEYS = ("task", "reference", "policy", "seed", "priority")


def configure(url=None, on_fault=None, client=None, **options):
    """url, options: for Client; on_fault: "flag" or "raise"; client: one made elsewhere. Unset: from the environment."""
    env = os.environ.get
    on_fault = on_fault or env("MUSACODER_ON_FAULT", "flag")
    if on_fault not in ("flag", "raise"):
        raise ValueError(f'on_fault is "flag" or "raise", not {on_fault!r}')
    options.setdefault("token", env("MUSACODER_TOKEN"))
    options.setdefault("timeout", float(env("MUSACODER_TIMEOUT", "900")))
    options.setdefault("retries", int(env("MUSACODER_RETRIES", "8")))
    client = client or Client(url or env("MUSACODER_URL", "http://127.0.0.1:8811"), **options)
    _state.update(client=client, on_fault=on_fault)


def find_task(*sources):
    """The job keys (task, reference, policy, seed, priority) of the first source that names a task or a reference."""
    found = next(filter(None, map(_find, sources)), None)
    if found is None:
        raise ValueError('no task: give {"task": id} or {"reference": code} as ground truth, label or column')
    return found


def _find(source):
    if isinstance(source, str) and source.strip():
        if not source.lstrip().startswith("{"):
            return {"reference" if "class Model" in source else "task": source}
        try:
            source = json.loads(source)
        except ValueError:
            raise ValueError(f"neither an id nor JSON nor code: {source[:80]!r}") from None
    if not isinstance(source, dict):
        return None
    if isinstance(source.get("task"), str) or isinstance(source.get("reference"), str):
        return {k: source[k] for k in _JOB_KEYS if source.get(k) is not None}
    return next(filter(None, (_find(source.get(holder)) for holder in _HOLDERS)), None)


def judge(answers, tasks, rounds=None):
    """Results of many answers at once. tasks: find_task's dicts; rounds: turn numbers, for the feedback's header."""
    if "client" not in _state:
        configure()
    rounds = rounds or [1] * len(answers)
    jobs = [job_of(text_of(a), round=r, **t) for a, t, r in zip(answers, tasks, rounds, strict=True)]
    return _state["client"].verify_many(jobs)


def text_of(answer):
    """A completion as text: a string, or chat messages, of which the last assistant's content counts."""
    if isinstance(answer, dict):
        answer = [answer]
    if isinstance(answer, list | tuple):
        told = [_field(m, "content") for m in answer if _field(m, "role", "assistant") == "assistant"]
        answer = told[-1] if told else ""
    if isinstance(answer, list):  # content in parts
        answer = "".join(part.get("text", "") for part in answer if isinstance(part, dict))
    return answer if isinstance(answer, str) else "" if answer is None else str(answer)


def _field(message, name, default=None):
    return message.get(name, default) if isinstance(message, dict) else getattr(message, name, default)


def _number(result):
    """For stacks that want a float: 0.0 for what must be masked."""
    if result.infra and _state["on_fault"] == "raise":
        raise InfrastructureError(f"{result.status}: {result.error or 'the job was not judged'}")
    return 0.0 if result.reward is None else float(result.reward)


def _flags(result):
    return {
        "infra": result.infra, "undecided": result.undecided, "verified": result.verified,
        "status": result.status or "", "feedback": result.feedback or result.error or "",
    }  # fmt: skip


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kw):
    """verl 0.9.1. reward.custom_reward_function.path=pkg://musacoder.adapters reward.custom_reward_function.name=compute_score

    The dict's other keys reach non_tensor_batch: mask where `infra` or `undecided` is true (docs/trainers.md has the lines).
    """
    return compute_score_batch([data_source], [solution_str], [ground_truth], [extra_info])[0]


async def compute_score_async(data_source, solution_str, ground_truth, extra_info=None, **kw):
    """verl 0.9.1: as compute_score, with 64 candidates under way instead of asyncio's few threads. .name=compute_score_async"""
    return await _off_loop(compute_score, data_source, solution_str, ground_truth, extra_info)


def compute_score_batch(data_sources, solution_strs, ground_truths, extra_infos=None, **kw):
    """verl 0.9.1, reward manager "batch": as compute_score, all candidates of a batch at once. .name=compute_score_batch"""
    extra_infos = extra_infos if extra_infos is not None else [None] * len(solution_strs)
    tasks = [find_task(g, e) for g, e in zip(ground_truths, extra_infos, strict=True)]
    return [{"score": _number(one), **_flags(one)} for one in judge(list(solution_strs), tasks)]


def trl_reward(prompts, completions, **columns):
    """TRL 1.16. GRPOTrainer(reward_funcs=musacoder.adapters.trl_reward, …). None for infra and undecided: TRL leaves the
    completion out of its group's baseline and gives it the advantage 0."""
    n = len(completions)
    full = {k: v for k, v in columns.items() if isinstance(v, list | tuple) and len(v) == n}
    rows = [{k: v[i] for k, v in full.items()} for i in range(n)]
    results = judge(completions, [find_task(row) for row in rows])
    if callable(columns.get("log_metric")):
        columns["log_metric"]("musacoder/infra", sum(r.infra for r in results) / max(1, n))
    return [result.reward for result in results]


class MusaCoderEnv(BaseTextEnv):
    """SkyRL-gym 0.4. skyrl_gym.register("musacoder", entry_point="musacoder.adapters:MusaCoderEnv"), env_class: musacoder

    Multi-turn: a failed turn's observation is MooreEval's feedback; done when verified, after extras["max_turns"] (3), or
    when the task is at fault. reward is the turn's own; metadata["rewards"] lists all turns (PrimeEcho's s_1 … s_k).
    A fault of the machine ends the episode: reward 0.0, metadata["infra"] true, nothing added to "rewards".
    """

    def __init__(self, env_config=None, extras=None):
        super().__init__()
        extras = extras or {}
        self.task = find_task(extras)
        own = env_config.get("max_turns") if hasattr(env_config, "get") else None
        self.max_turns, self.turns = int(extras.get("max_turns") or own or 3), 0
        self.rewards, self.infra, self.verified = [], False, False

    def init(self, prompt):
        return prompt, {}

    def step(self, action):
        self.turns += 1
        [result] = judge([action], [self.task], [self.turns])
        reward = _number(result)
        self.infra, self.verified = result.infra, result.verified
        if result.reward is not None:
            self.rewards.append(reward)
        done = result.reward is None or result.verified or self.turns >= self.max_turns
        observations = [] if done else [{"role": "user", "content": result.feedback or ""}]
        metadata = {**_flags(result), "turn": self.turns, "rewards": list(self.rewards), "job": result.job}
        return {
            "observations": observations, "reward": reward, "done": done, "metadata": metadata,
            "postprocessed_action": None,
        }  # fmt: skip

    def close(self):
        pass

    def get_metrics(self):
        return {"verified": float(self.verified), "infra": float(self.infra), "turns": self.turns}

    @staticmethod
    def aggregate_metrics(metrics):
        return {k: sum(m[k] for m in metrics) / len(metrics) for k in (metrics[0] if metrics else {})}


async def verifiers_reward(task, trace):
    """verifiers 0.4 (v1). TaskConfig(rewards={"musacoder": {"fn": "musacoder.adapters:verifiers_reward"}})

    task is the TaskData; its `task`, `reference`, `answer` or `info` names the task. infra and undecided raise: verifiers
    records a TaskError on the trace, has no reward for it and leaves it out of training.
    """
    data = task.model_dump() if hasattr(task, "model_dump") else vars(task)
    [result] = await _off_loop(judge, [trace.last_reply], [find_task(data)])
    if result.reward is None:
        raise InfrastructureError(f"{result.status}: {result.error or result.feedback}")
    return result.reward


async def rubric_reward(prompt, completion, answer="", info=None, state=None, **kw):
    """verifiers before 0.2. vf.Rubric(funcs=[musacoder.adapters.rubric_reward]); flags in state["musacoder"]."""
    [result] = await _off_loop(judge, [completion], [find_task(answer, info)])
    if isinstance(state, dict):
        state["musacoder"] = _flags(result)
    return _number(result)


async def _off_loop(call, *a):
    if _state.get("pool_of") != os.getpid():
        _state.update(pool=ThreadPoolExecutor(64, "musacoder"), pool_of=os.getpid())
    return await asyncio.get_running_loop().run_in_executor(_state["pool"], call, *a)


def areal_reward(prompt, completions, prompt_ids=None, completion_ids=None, **data):
    """AReaL 1.0. RLVRWorkflow(reward_fn="musacoder.adapters.areal_reward", …)

    AReaL gives a reward 15 s and takes 0 afterwards: give AsyncRewardWrapper timeout_seconds (docs/trainers.md). infra and
    undecided raise, whatever MUSACODER_ON_FAULT says: AReaL tries again, then rejects the trajectory.
    """
    [result] = judge([completions], [find_task(data)])
    if result.reward is None:
        raise InfrastructureError(f"{result.status}: {result.error or result.feedback}")
    return float(result.reward)


class MusaCoderORM:
    """ms-swift 4.6. --external_plugins "$(python -m musacoder.adapters)" --reward_funcs musacoder

    None for infra and undecided: swift makes it NaN, and its nansum over reward functions 0. The columns are as for TRL.
    """

    def __init__(self, args=None, **kw):
        self.args = args

    def __call__(self, completions, **kw):
        return trl_reward(None, completions, **kw)


@dataclass
class RewardOutput:
    """rLLM's, for where rLLM is not installed."""

    reward: float
    metadata: dict = field(default_factory=dict)
    is_correct: bool | None = None


def rllm_reward(task_info, action):
    """rLLM (source of 2026-08). reward_function=musacoder.adapters.rllm_reward; task_info has task, reference or ground_truth.
    metadata has infra, undecided, verified, status, feedback."""
    kind = getattr(sys.modules.get("rllm.rewards.reward_types"), "RewardOutput", RewardOutput)
    [result] = judge([getattr(action, "action", action)], [find_task(task_info)])
    return kind(reward=_number(result), metadata=_flags(result), is_correct=result.verified)


async def slime_reward(args, sample, **kw):
    """slime, miles (sources of 2026-08). --custom-rm-path musacoder.adapters.slime_reward, with or without --group-rm

    infra and undecided: 0.0 with sample.remove_sample = True, which takes its tokens out of the loss. Flags are in
    sample.metadata["musacoder"]; --reward-key is not needed.
    """
    samples = sample if isinstance(sample, list) else [sample]
    tasks = [find_task(one.label, one.metadata) for one in samples]
    results = await _off_loop(judge, [one.response for one in samples], tasks)
    for one, result in zip(samples, results, strict=True):
        one.metadata = {**(one.metadata or {}), "musacoder": _flags(result)}
        one.remove_sample = one.remove_sample or result.reward is None
    rewards = [_number(result) for result in results]
    return rewards if isinstance(sample, list) else rewards[0]


def reward_func(queries, prompts, labels):
    """OpenRLHF 0.11. --reward.remote_url "$(python -m musacoder.adapters)"

    extra_logs has verified, infra, undecided as 0 or 1; OpenRLHF logs them and masks nothing by itself.
    """
    answers = [q[len(p) :] if q.startswith(p) else q for q, p in zip(queries, prompts, strict=True)]
    results = judge(answers, [find_task(label) for label in labels])
    torch = sys.modules.get("torch")
    column = (lambda v: torch.tensor(v, dtype=torch.float32)) if torch else list
    rewards = [_number(result) for result in results]
    logs = {k: column([float(getattr(r, k)) for r in results]) for k in ("verified", "infra", "undecided")}
    return {"rewards": column(rewards), "scores": column(rewards), "extra_logs": logs}


if "swift" in sys.modules:  # loaded by --external_plugins
    try:
        from swift.rewards import orms

        orms["musacoder"] = MusaCoderORM
    except ImportError:
        pass

if __name__ == "__main__":
    print(os.path.abspath(__file__))

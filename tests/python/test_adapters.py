"""The trainers' reward functions (python/musacoder/adapters.py) against the real service and, where they are installed,
the real trainers.

Run: pytest tests/python/test_adapters.py
     MUSACODER_SLOW=1 pytest tests/python/test_adapters.py    # also those marked `real`
These need the packages in an environment of their own (docs/trainers.md says how to make it), at $MUSACODER_TRAINERS or
~/.cache/musacoder/trainers.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest
from service_support import PROGRAM, ROOT, TRIVIAL, Server, real_job

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PYTHON))

from musacoder import Client, InfrastructureError, adapters  # noqa: E402

FILE = PYTHON / "musacoder" / "adapters.py"
TRAINERS = pathlib.Path(
    os.environ.get("MUSACODER_TRAINERS", pathlib.Path.home() / ".cache/musacoder/trainers")
)
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
REASON = (
    "set MUSACODER_SLOW=1 to run the real trainers"
    if os.environ.get("MUSACODER_SLOW") != "1"
    else f"no trainers in {TRAINERS} (docs/trainers.md)" * (not (TRAINERS / "bin" / "python").exists())
)
real = pytest.mark.skipif(bool(REASON), reason=REASON)
RIGHT, WRONG = real_job("right_relu"), real_job("wrong_values")
ANSWERS = [f"```python\n{job['candidate']}```" for job in (RIGHT, WRONG)]
# Four of the forms in which a stack may hand the task over.
TRUTHS = [{"task": RIGHT["task"]}, {"reference": WRONG["reference"]}]
TEXTS = [RIGHT["task"], WRONG["reference"]]
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    server = Server("--tasks", ROOT / "tasks", "--queue", f"sqlite:{folder}/q.db", "--lanes", 2)
    yield f"http://127.0.0.1:{server.port}"
    server.close()


@pytest.fixture
def service(url):
    adapters.configure(url, timeout=120)
    yield
    adapters._state.clear()


@pytest.fixture(params=["flag", "raise"])
def no_service(request):
    adapters.configure(NOWHERE, on_fault=request.param, retries=1)
    yield request.param
    adapters._state.clear()


def sample(answer, label):
    return types.SimpleNamespace(prompt="p", response=answer, label=label, metadata={}, remove_sample=False)


class Trace:
    def __init__(self, reply):
        self.last_reply = reply


# Each: (answers, truths, texts) -> [(reward, infra)], through the stack's own signature.


def by_verl(answers, truths, texts):
    rows = [
        adapters.compute_score("kernelbench", a, t, extra_info={})
        for a, t in zip(answers, truths, strict=True)
    ]
    assert all(set(row) == {"score", "infra", "undecided", "verified", "status", "feedback"} for row in rows)
    return [(row["score"], row["infra"]) for row in rows]


def by_verl_async(answers, truths, texts):
    async def run():
        calls = [
            adapters.compute_score_async(data_source="k", solution_str=a, ground_truth=t, extra_info=None)
            for a, t in zip(answers, texts, strict=True)
        ]
        return await asyncio.gather(*calls)

    return [(row["score"], row["infra"]) for row in asyncio.run(run())]


def by_verl_batch(answers, truths, texts):
    rows = adapters.compute_score_batch(
        data_sources=["k"] * 2, solution_strs=answers, ground_truths=truths, extra_infos=[{}, {}]
    )
    return [(row["score"], row["infra"]) for row in rows]


def by_trl(answers, truths, texts):
    completions = [[{"role": "assistant", "content": a}] for a in answers]
    rewards = adapters.trl_reward(
        prompts=["p"] * 2,
        completions=completions,
        completion_ids=[[1], [2]],
        trainer_state=None,
        ground_truth=truths,
    )
    return [(r, r is None) for r in rewards]


def by_skyrl(answers, truths, texts):
    got = []
    for answer, truth in zip(answers, truths, strict=True):
        env = adapters.MusaCoderEnv({}, {"reward_spec": {"ground_truth": truth}, "max_turns": 1})
        assert env.init([{"role": "user", "content": "p"}]) == ([{"role": "user", "content": "p"}], {})
        step = env.step(answer)
        assert step["done"] and step["observations"] == []
        got.append((step["reward"], step["metadata"]["infra"]))
    return got


def by_verifiers(answers, truths, texts):
    tasks = [types.SimpleNamespace(prompt="p", answer=text, info={}) for text in texts]
    return [
        (asyncio.run(adapters.verifiers_reward(t, Trace(a))), False)
        for a, t in zip(answers, tasks, strict=True)
    ]


def by_rubric(answers, truths, texts):
    got = []
    for answer, truth in zip(answers, truths, strict=True):
        state = {}
        completion = [{"role": "assistant", "content": answer}]
        reward = asyncio.run(
            adapters.rubric_reward(prompt="p", completion=completion, answer="", info=truth, state=state)
        )
        got.append((reward, state["musacoder"]["infra"]))
    return got


def by_areal(answers, truths, texts):
    return [
        (adapters.areal_reward("p", a, [1], [2], messages=[], answer=t), False)
        for a, t in zip(answers, texts, strict=True)
    ]


def by_swift(answers, truths, texts):
    rewards = adapters.MusaCoderORM(args=None)(answers, solution=texts, trainer_state=None)
    return [(r, r is None) for r in rewards]


def by_rllm(answers, truths, texts):
    outputs = [
        adapters.rllm_reward({"question": "q", "ground_truth": t}, a)
        for a, t in zip(answers, truths, strict=True)
    ]
    assert all(output.is_correct == output.metadata["verified"] for output in outputs)
    return [(output.reward, output.metadata["infra"]) for output in outputs]


def by_slime(answers, truths, texts):
    samples = [sample(a, t) for a, t in zip(answers, texts, strict=True)]
    rewards = [asyncio.run(adapters.slime_reward(None, one)) for one in samples]
    assert all(one.remove_sample == one.metadata["musacoder"]["infra"] for one in samples)
    return [(r, one.remove_sample) for r, one in zip(rewards, samples, strict=True)]


def by_slime_group(answers, truths, texts):
    samples = [sample(a, json.dumps(t)) for a, t in zip(answers, truths, strict=True)]
    rewards = asyncio.run(adapters.slime_reward(None, samples))
    return [(r, one.remove_sample) for r, one in zip(rewards, samples, strict=True)]


def by_openrlhf(answers, truths, texts):
    got = adapters.reward_func(["prompt" + a for a in answers], ["prompt"] * 2, texts)
    assert [float(v) for v in got["scores"]] == [float(v) for v in got["rewards"]]
    infra = got["extra_logs"]["infra"]
    return [(float(r), bool(i)) for r, i in zip(got["rewards"], infra, strict=True)]


STACKS = [value for name, value in sorted(globals().items()) if name.startswith("by_")]
TAKES_NONE = (by_trl, by_swift)
RAISES = (by_verifiers, by_areal)


@pytest.mark.parametrize("stack", STACKS)
def test_right_and_wrong(service, stack):
    (right, fault), (wrong, another) = stack(ANSWERS, TRUTHS, TEXTS)
    assert right >= 1.0 and -1.0 <= wrong < 0.0 and not fault and not another


@pytest.mark.parametrize("stack", STACKS)
def test_a_fault_of_the_machine_is_no_reward(no_service, stack):
    if stack in RAISES or (no_service == "raise" and stack not in TAKES_NONE):
        with pytest.raises(InfrastructureError, match="infra:service"):
            stack(ANSWERS, TRUTHS, TEXTS)
    else:
        reward = None if stack in TAKES_NONE else 0.0
        assert stack(ANSWERS, TRUTHS, TEXTS) == [(reward, True)] * 2


def test_multi_turn_carries_the_feedback(service):
    env = adapters.MusaCoderEnv({}, {"reward_spec": {"ground_truth": RIGHT["task"]}, "max_turns": 3})
    first = env.step(TRIVIAL)
    assert first["reward"] == -1.0 and not first["done"]
    [message] = first["observations"]
    assert message["role"] == "user" and "Round 1" in message["content"] and "Round 2" in message["content"]
    second = env.step(ANSWERS[0])
    assert second["done"] and second["reward"] >= 1.0 and second["observations"] == []
    assert second["metadata"]["rewards"] == [-1.0, second["reward"]]  # PrimeEcho's s_1, s_2
    assert env.get_metrics() == {"verified": 1.0, "infra": 0.0, "turns": 2}
    assert env.aggregate_metrics([env.get_metrics()] * 2)["turns"] == 2
    last = adapters.MusaCoderEnv({"max_turns": 2}, {"label": RIGHT["task"]})
    assert [last.step(TRIVIAL)["done"], last.step(TRIVIAL)["done"]] == [False, True]


def test_a_fault_ends_the_episode_and_adds_no_turn(service):
    env = adapters.MusaCoderEnv({}, {"label": RIGHT["task"]})
    env.step(TRIVIAL)
    adapters.configure(NOWHERE, retries=0)
    step = env.step(ANSWERS[0])
    assert step["done"] and step["reward"] == 0.0 and step["metadata"]["infra"]
    assert step["metadata"]["rewards"] == [-1.0]


def test_where_the_task_is_found():
    code = "class Model(nn.Module): pass"
    assert adapters.find_task("level1/19") == {"task": "level1/19"}
    assert adapters.find_task(code) == {"reference": code}
    assert adapters.find_task('{"reference": "r", "seed": 3, "else": 1}') == {"reference": "r", "seed": 3}
    assert adapters.find_task(None, "", {}, {"info": {"task": "t", "policy": "report"}}) == {
        "task": "t",
        "policy": "report",
    }
    assert adapters.find_task({"answer": "", "label": 3, "reward_model": {"ground_truth": "t"}}) == {
        "task": "t"
    }
    for nothing in ((), ("",), ({"question": "q"},), (3, None)):
        with pytest.raises(ValueError, match="no task"):
            adapters.find_task(*nothing)
    with pytest.raises(ValueError, match="neither"):
        adapters.find_task("{not json")


def test_completions_of_every_shape():
    chat = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    shapes = ["a", chat, chat[1], parts, [types.SimpleNamespace(role="assistant", content="a")], [], None]
    assert [adapters.text_of(one) for one in shapes] == ["a", "a", "a", "ab", "a", "", ""]


def test_configuration_from_the_environment(monkeypatch):
    monkeypatch.setenv("MUSACODER_URL", "https://judge.example:8443/base")
    monkeypatch.setenv("MUSACODER_RETRIES", "2")
    monkeypatch.setenv("MUSACODER_TIMEOUT", "5")
    adapters.configure()
    client = adapters._state["client"]
    assert (client.url, client.retries, client.timeout) == ("https://judge.example:8443/base", 2, 5.0)
    own = Client(NOWHERE)
    adapters.configure(client=own)
    assert adapters._state["client"] is own
    with pytest.raises(ValueError, match="on_fault"):
        adapters.configure(on_fault="minus one")
    adapters._state.clear()


def test_first_use_may_be_on_a_loop(url, monkeypatch):
    monkeypatch.setenv("MUSACODER_URL", url)
    adapters._state.clear()
    one = asyncio.run(adapters.slime_reward(None, sample(TRIVIAL, RIGHT["task"])))
    adapters._state.clear()
    assert one == -1.0


def test_the_file_as_trainers_load_it():
    """By path (verl, OpenRLHF, ms-swift), and printed by `python -m`; it stays short and its signatures documented."""
    assert len(FILE.read_text().splitlines()) < 300
    spec = importlib.util.spec_from_file_location("reward_func", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert list(inspect.signature(module.reward_func).parameters) == ["queries", "prompts", "labels"]
    assert list(inspect.signature(module.compute_score).parameters)[:4] == [
        "data_source",
        "solution_str",
        "ground_truth",
        "extra_info",
    ]
    printed = subprocess.run(
        [sys.executable, "-m", "musacoder.adapters"],
        env={**os.environ, "PYTHONPATH": str(PYTHON)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert pathlib.Path(printed.stdout.strip()) == FILE


# --- the real packages


def needs(package):
    if not list((TRAINERS / "lib").glob(f"python3*/site-packages/{package}")):
        pytest.skip(f"no {package} in {TRAINERS} (docs/trainers.md)")


def in_trainers(url, program, *arguments):
    done = subprocess.run(
        [TRAINERS / "bin" / "python", "-c", program, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(PYTHON),
            "MUSACODER_URL": url,
            "MUSACODER_RETRIES": "1",
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


VERL = """
import asyncio, json, sys
import numpy as np, torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.trainer.ppo.reward import get_custom_reward_fn
answers, truths, nowhere = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]

class Characters:
    def decode(self, ids, skip_special_tokens=True):
        return "".join(map(chr, ids.tolist()))

def row(answer, truth):
    ids = torch.tensor([[ord(c) for c in answer]])
    batch = TensorDict({"prompts": torch.zeros(1, 1, dtype=torch.long), "responses": ids,
                        "attention_mask": torch.ones(1, ids.shape[1] + 1, dtype=torch.long)}, batch_size=1)
    cell = lambda value: np.array([value, None], dtype=object)[:1]
    return DataProto(batch=batch, non_tensor_batch={"data_source": cell("kernelbench"), "extra_info": cell({}),
                                                    "reward_model": cell({"ground_truth": truth})})

async def score(name):
    chosen = {"custom_reward_function": {"path": "pkg://musacoder.adapters", "name": name, "reward_kwargs": {}}}
    config = OmegaConf.create({"reward": chosen})
    manager = NaiveRewardManager(config, Characters(), get_custom_reward_fn(config))
    return await asyncio.gather(*(manager.run_single(row(a, t)) for a, t in zip(answers, truths)))

names = ["compute_score", "compute_score_async"]
got = [asyncio.run(score(name)) for name in names]
from musacoder import adapters
adapters.configure(nowhere, retries=0)
print(json.dumps({"got": got, "gone": asyncio.run(score(names[1]))}))
"""

SWIFT = """
import json, sys
import torch
from swift.utils.utils import import_external_file
module = import_external_file(sys.argv[4])
from swift.rewards import orms
from swift.rl_core.data import GRPOSample
from swift.rl_core.grpo_algorithm import compute_rewards_per_func
answers, texts, nowhere = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
samples = [GRPOSample(messages=[{"role": "user", "content": "p"}, {"role": "assistant", "content": a}],
                      extra={"solution": t}) for a, t in zip(answers, texts)]
score = lambda: compute_rewards_per_func(samples, [orms["musacoder"](args=None)], [None], torch.device("cpu"))
rewards = score()[:, 0].tolist()
module.configure(nowhere, retries=0)
print(json.dumps({"rewards": rewards, "gone": bool(torch.isnan(score()).all())}))
"""

OPENRLHF = """
import asyncio, json, sys, types
from openrlhf.utils.agent import SingleTurnAgentExecutor
answers, texts, url, file = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], sys.argv[4]

class Characters:
    def __call__(self, text, **kw):
        import torch
        return {"input_ids": torch.tensor([[ord(c) for c in text]])}
    def decode(self, ids, skip_special_tokens=False):
        return "".join(map(chr, ids))

class Engine:
    def __init__(self, answer):
        self.answer = answer
    async def generate(self, prompt_ids, params, multi_modal_data=None):
        one = types.SimpleNamespace(token_ids=[ord(c) for c in self.answer], finish_reason="stop", logprobs=None)
        return types.SimpleNamespace(outputs=[one])

async def rewards(where):
    executor = SingleTurnAgentExecutor(where)
    params = types.SimpleNamespace(max_tokens=10, logprobs=None)
    outputs = await asyncio.gather(*(executor.execute("prompt", t, params, 10**6, Characters(), Engine(a))
                                     for a, t in zip(answers, texts)))
    return [[float(o["reward"][0]), {k: float(v[0]) for k, v in o["extra_logs"].items()}] for o in outputs]

print(json.dumps({"file": asyncio.run(rewards(file)), "url": asyncio.run(rewards(url + "/get_reward"))}))
"""

AREAL = """
import asyncio, json, sys
from areal.api.reward_api import AsyncRewardWrapper
from musacoder.adapters import areal_reward
answers, texts = json.loads(sys.argv[1]), json.loads(sys.argv[2])

async def score(**columns):
    wrapper = AsyncRewardWrapper(areal_reward, timeout_seconds=120, max_workers=2, max_retries=1)
    return await asyncio.gather(*(wrapper("p", a, [1], [2], messages=[], **{k: v[i] for k, v in columns.items()})
                                  for i, a in enumerate(answers)))

if __name__ == "__main__":
    try:
        print(json.dumps({"rewards": asyncio.run(score(answer=texts))}))
    except Exception as error:
        print(json.dumps({"fault": type(error).__name__}))
"""

SKYRL = """
import json, sys, skyrl_gym
from skyrl_gym.envs.registration import register
register(id="musacoder", entry_point="musacoder.adapters:MusaCoderEnv")
answers, truth = json.loads(sys.argv[1]), json.loads(sys.argv[2])
env = skyrl_gym.make("musacoder", env_config={}, extras={"reward_spec": {"ground_truth": truth}, "max_turns": 2})
prompt, _ = env.init([{"role": "user", "content": "p"}])
steps = [env.step(a) for a in answers]
env.close()
print(json.dumps({"steps": steps, "metrics": env.get_metrics(), "base": [c.__name__ for c in type(env).__mro__]}))
"""

VERIFIERS = """
import asyncio, json, sys
import verifiers.v1 as vf
answers, texts, nowhere = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]

class Data(vf.TaskData):
    answer: str = ""

async def score(answer, text):
    config = vf.TaskConfig(rewards={"musacoder": {"fn": "musacoder.adapters:verifiers_reward"}})
    task = vf.Task(Data(idx=0, prompt="p", answer=text), config)
    trace = vf.Trace.model_construct(task=None, agent=None, root_reply=answer, rewards={}, metrics={})
    await task.score(trace)
    assert trace.reward == trace.rewards["musacoder"].value
    return trace.reward

rewards = [asyncio.run(score(a, t)) for a, t in zip(answers, texts)]
from musacoder import adapters
adapters.configure(nowhere, retries=0)
try:
    asyncio.run(score(answers[0], texts[0]))
    fault = "none"
except Exception as error:
    fault = type(error).__name__
print(json.dumps({"rewards": rewards, "fault": fault}))
"""

TRL = """
import json, sys
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from musacoder import adapters

folder, right, nowhere = sys.argv[1], sys.argv[2], sys.argv[3]
words = ["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(29)]
raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                     num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64,
                                     pad_token_id=0, eos_token_id=1, bos_token_id=None))
seen = []

def reward(prompts, completions, **columns):
    # A random model writes no kernel: in the first step one answer of each group is a right one; in the second the
    # judge is gone for one answer, in the third for all.
    step = len(seen)
    answers = [right if i % 2 == 0 and step == 0 else c for i, c in enumerate(completions)]
    rewards = adapters.trl_reward(prompts, answers, **columns)
    if step >= 1:
        adapters.configure(nowhere, retries=0)
        part = {k: v[:1] for k, v in columns.items() if isinstance(v, list)}
        gone = adapters.trl_reward(prompts[:1], answers[:1], **part)
        rewards = gone + rewards[1:] if step == 1 else gone * len(rewards)
        adapters.configure()
    seen.append(rewards)
    return rewards

data = Dataset.from_list([{"prompt": "w1 w2 w3", "task": "activation/1_relu"}] * 8)
arguments = GRPOConfig(output_dir=folder, per_device_train_batch_size=2, num_generations=2, max_completion_length=4,
                       max_steps=3, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=False,
                       learning_rate=1e-2)
trainer = GRPOTrainer(model=model, reward_funcs=reward, args=arguments, train_dataset=data, processing_class=tokenizer)
trainer.train()
logs = [{k: v for k, v in log.items() if k in ("reward", "reward_std", "grad_norm", "loss")}
        for log in trainer.state.log_history if "reward" in log]
finite = all(bool(torch.isfinite(p).all()) for p in model.parameters())
print(json.dumps({"seen": seen, "logs": logs, "finite": finite, "steps": trainer.state.global_step}))
"""


@real
def test_verl(url):
    needs("verl")
    got = in_trainers(url, VERL, json.dumps(ANSWERS), json.dumps(TRUTHS), NOWHERE)
    for right, wrong in got["got"]:
        assert right["reward_score"] >= 1.0 and right["reward_extra_info"]["verified"] is True
        assert -1.0 <= wrong["reward_score"] < 0 and wrong["reward_extra_info"]["infra"] is False
    assert all(r["reward_score"] == 0.0 and r["reward_extra_info"]["infra"] is True for r in got["gone"])


@real
def test_ms_swift(url):
    needs("swift")
    got = in_trainers(url, SWIFT, json.dumps(ANSWERS), json.dumps(TEXTS), NOWHERE, str(FILE))
    assert got["rewards"][0] >= 1.0 and -1.0 <= got["rewards"][1] < 0 and got["gone"] is True


@real
def test_openrlhf(url):
    needs("openrlhf")
    got = in_trainers(url, OPENRLHF, json.dumps(ANSWERS), json.dumps(TEXTS), url, str(FILE))
    for right, wrong in (got["file"], got["url"]):
        assert right[0] >= 1.0 and right[1] == {"verified": 1.0, "infra": 0.0, "undecided": 0.0}
        assert -1.0 <= wrong[0] < 0 and wrong[1] == {"verified": 0.0, "infra": 0.0, "undecided": 0.0}


@real
def test_areal(url):
    needs("areal")
    got = in_trainers(url, AREAL, json.dumps(ANSWERS), json.dumps(TEXTS))
    assert got["rewards"][0] >= 1.0 and -1.0 <= got["rewards"][1] < 0
    gone = in_trainers(NOWHERE, AREAL, json.dumps(ANSWERS), json.dumps(TEXTS))
    assert gone == {
        "fault": "InfrastructureError"
    }  # across AReaL's process pool; the workflow rejects the trajectory


@real
def test_skyrl_gym(url):
    needs("skyrl_gym")
    got = in_trainers(url, SKYRL, json.dumps([TRIVIAL, ANSWERS[0]]), json.dumps(TRUTHS[0]))
    assert "BaseTextEnv" in got["base"]
    first, second = got["steps"]
    assert first["reward"] == -1.0 and not first["done"] and "Round 2" in first["observations"][0]["content"]
    assert second["reward"] >= 1.0 and second["done"] and got["metrics"]["verified"] == 1.0


@real
def test_verifiers(url):
    needs("verifiers")
    got = in_trainers(url, VERIFIERS, json.dumps(ANSWERS), json.dumps(TEXTS), NOWHERE)
    assert got["rewards"][0] >= 1.0 and -1.0 <= got["rewards"][1] < 0
    assert got["fault"] == "TaskError"


@real
def test_trl_trains(url, tmp_path):
    needs("trl")
    got = in_trainers(url, TRL, str(tmp_path), ANSWERS[0], NOWHERE)
    assert got["steps"] == 3 and got["finite"]
    first, second, third = got["seen"]
    assert first[0] >= 1.0 and first[1] == -1.0
    assert second == [None, -1.0] and third == [None, None]
    assert got["logs"][0]["reward"] == pytest.approx(sum(first) / 2) and got["logs"][0]["grad_norm"] > 0
    # One decided answer is its own baseline, none decides nothing: no gradient comes from a fault.
    assert got["logs"][1]["grad_norm"] == 0 and got["logs"][2]["grad_norm"] == 0

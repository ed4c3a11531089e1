"""Generation on the CPU: the tokens of transformers, the same in any company, and what SmolLM2 says."""

import copy
import itertools
import json
import subprocess

import pytest
from llm_support import require_train

require_train("transformers", "safetensors", "torch", "gguf")

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
from llm_gguf import NAMES, write_gguf  # noqa: E402
from llm_support import TRAIN, smollm2  # noqa: E402
from test_llm_decoder import MODELS, make, make_adapter  # noqa: E402

PROMPTS = [
    [5, 17, 3, 44, 90, 12, 7],
    [61],
    list(range(1, 41)),
    [2, 2, 80, 33, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
]
SAMPLED = ["--temperature", 0.9, "--top-p", 0.9, "--seed", 5, "--max-tokens", 24]


def run(*arguments, code=0):
    done = subprocess.run(
        [TRAIN, "generate", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stderr
    return done


def answers(model, prompts, *arguments):
    ids = [part for prompt in prompts for part in ("--ids", " ".join(map(str, prompt)))]
    lines = [
        json.loads(line) for line in run("--model", model, *ids, "--json", *arguments).stdout.splitlines()
    ]
    return {(line["request"], line["sample"]): line for line in lines}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    return make("qwen3", folder), folder


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_and_their_logprobs_are_those_of_transformers(name, tmp_path):
    model = make(name, tmp_path / "model")
    got = answers(tmp_path / "model", PROMPTS, "--temperature", 0, "--max-tokens", 40, "--ignore-eos")
    for i, prompt in enumerate(PROMPTS):
        want = model.generate(
            torch.tensor([prompt]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert got[i, 0]["tokens"] == want[0, len(prompt) :].tolist()
        logits = model(want[:, :-1]).logits[0, len(prompt) - 1 :]
        logprobs = logits.log_softmax(-1).gather(1, want[0, len(prompt) :, None])[:, 0]
        assert torch.allclose(torch.tensor(got[i, 0]["logprobs"]), logprobs, rtol=1e-5, atol=2e-5)
        assert got[i, 0]["finish"] == "length"


def test_adapters_act_in_generation(tiny, tmp_path):
    model, folder = tiny
    tensors = make_adapter(model, tmp_path / "adapter", 4, 8, ["q_proj", "o_proj", "up_proj"])
    merged = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in merged.named_parameters():
            at = f"base_model.model.{name.removesuffix('weight')}"
            if f"{at}lora_A.weight" in tensors:
                parameter += 8 / 4 * tensors[f"{at}lora_B.weight"] @ tensors[f"{at}lora_A.weight"]
    greedy = ["--temperature", 0, "--max-tokens", 20, "--ignore-eos"]
    got = answers(folder, PROMPTS[:1], *greedy, "--adapter", tmp_path / "adapter")[0, 0]["tokens"]
    want = merged.generate(
        torch.tensor(PROMPTS[:1]), max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert got == want[0, len(PROMPTS[0]) :].tolist()
    assert got != answers(folder, PROMPTS[:1], *greedy)[0, 0]["tokens"]
    failed = run("--model", folder, "--ids", 1, "--adapter", tmp_path / "none", code=2)
    assert "cannot read" in failed.stderr and "adapter_config.json" in failed.stderr


def test_an_answer_does_not_depend_on_what_runs_beside_it(tiny):
    _, folder = tiny
    alone = {i: answers(folder, [p], "-n", 3, *SAMPLED) for i, p in enumerate(PROMPTS)}
    settings = [
        [],
        ["--max-running", 3],  # one request after the other
        ["--max-running", 4, "--step-tokens", 5],  # prompts read in pieces, beside others' answers
        ["--cache-tokens", 320],  # joining only as room comes free
    ]
    for setting in settings:
        together = answers(folder, PROMPTS, "-n", 3, *SAMPLED, *setting)
        for i, sample in itertools.product(range(len(PROMPTS)), range(3)):
            one, other = alone[i][0, sample], together[i, sample]
            assert one["tokens"] == other["tokens"] and one["logprobs"] == other["logprobs"]  # to the bit
    assert len({tuple(alone[0][0, s]["tokens"]) for s in range(3)}) == 3
    assert (
        answers(folder, PROMPTS[:1], *SAMPLED[:-3], 6, *SAMPLED[-2:])[0, 0]["tokens"]
        != alone[0][0, 0]["tokens"]
    )


def test_samples_follow_the_models_distribution(tiny):
    """First tokens of 3,000 samples against the probabilities that transformers gives, at temperature 1.5, by chi-square."""
    model, folder = tiny
    count = 3000
    got = answers(
        folder, [PROMPTS[0]] , "-n", count, "--max-running", count, "--max-tokens", 1,
        "--cache-tokens", 16 * (count + 2), "--temperature", 1.5, "--seed", 1,
    )  # fmt: skip
    p = (model(torch.tensor([PROMPTS[0]])).logits[0, -1] / 1.5).softmax(-1).detach()
    seen = torch.bincount(torch.tensor([one["tokens"][0] for one in got.values()]), minlength=97).float()
    often = p * count >= 5
    expected = torch.cat([p[often], p[~often].sum()[None]]) * count
    observed = torch.cat([seen[often], seen[~often].sum()[None]])
    if expected[-1] < 1:
        expected, observed = expected[:-1], observed[:-1]
    degrees = len(expected) - 1
    chi = ((observed - expected) ** 2 / expected).sum().item()
    assert degrees >= 3 and chi < degrees + 4 * (2 * degrees) ** 0.5  # four standard deviations
    for one in itertools.islice(got.values(), 50):
        assert abs(one["logprobs"][0] - p[one["tokens"][0]].log().item()) < 1e-4


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (["--top-k", 3], dict(top_k=3)),
        (["--top-p", 0.6], dict(top_p=0.6, top_k=0)),
        (["--min-p", 0.2], dict(min_p=0.2, top_k=0)),
        (["--top-k", 20, "--top-p", 0.8, "--min-p", 0.05], dict(top_k=20, top_p=0.8, min_p=0.05)),
        (["--repetition-penalty", 1.7, "--top-k", 4], dict(repetition_penalty=1.7, top_k=4)),
    ],
)
def test_truncation_keeps_what_transformers_keeps(tiny, ours, theirs):
    model, folder = tiny
    prompt = PROMPTS[3]
    out = model.generate(
        torch.tensor([prompt]), max_new_tokens=1, do_sample=True, temperature=1.3, output_scores=True,
        return_dict_in_generate=True, eos_token_id=None, pad_token_id=0, **theirs,
    )  # fmt: skip
    scores = out.scores[0][0]
    p = scores.softmax(-1)
    got = answers(folder, [prompt], "-n", 800, "--max-running", 800, "--cache-tokens", 32000, "--max-tokens", 1,
                  "--temperature", 1.3, *ours)  # fmt: skip
    seen = {one["tokens"][0] for one in got.values()}
    kept = {i for i, score in enumerate(scores.tolist()) if score > float("-inf")}
    assert seen <= kept
    assert {
        i for i in kept if p[i] > 0.015
    } <= seen  # missed with probability 800 * 0.985^800: one in 200,000
    assert len(kept) < 97


def test_ends_of_answers(tiny):
    model, folder = tiny
    whole = answers(folder, PROMPTS[:1], "--temperature", 0, "--max-tokens", 12, "--ignore-eos")[0, 0][
        "tokens"
    ]
    at = next(i for i in range(3, 12) if whole[i] not in whole[:i])
    stopped = answers(
        folder, PROMPTS[:1], "--temperature", 0, "--max-tokens", 12, "--ignore-eos", "--stop-id", whole[at]
    )[0, 0]
    assert stopped["tokens"] == whole[: at + 1] and stopped["finish"] == "stop"
    generation = folder / "generation_config.json"
    before = generation.read_text()
    generation.write_text(json.dumps({"eos_token_id": [whole[at]]}))
    assert (
        answers(folder, PROMPTS[:1], "--temperature", 0, "--max-tokens", 12)[0, 0]["tokens"]
        == whole[: at + 1]
    )
    generation.write_text(before)
    # 128 positions: 40 of prompt leave 88
    full = answers(folder, [PROMPTS[2]], "--temperature", 0, "--max-tokens", 500, "--ignore-eos")[0, 0]
    assert len(full["tokens"]) == 88 and full["finish"] == "length"


@pytest.mark.parametrize(
    "arguments, message, code",
    [
        (["--ids", "97"], "token 97 is not below the vocabulary's size, 97", 2),
        (["--ids", "1 x"], "'x' is no token id", 2),
        (["--ids", ""], "the prompt has no tokens", 2),
        (["--prompt", "Hello"], "no tokenizer that is read; give --ids", 2),
        (["--ids", "1", "--top-p", "0"], "top_p is 0", 2),
        (["--ids", "1", "--temperature", "-1"], "temperature is -1", 2),
        (["--ids", "1", "--stop", "x"], "stop texts need a tokenizer", 2),
        (["--ids", "1", "-n", "65"], "65 samples; give 1 to 64", 3),
        (["--ids", "1", "--cache-tokens", "16", "--max-tokens", "40"], "raise cache_tokens", 3),
        (["--ids", " ".join(["1"] * 128)], "the prompt has 128 tokens; the model has 128 positions", 2),
        ([], "give at least one --prompt or --ids", 2),
    ],
)
def test_requests_that_cannot_be_met_say_why(tiny, arguments, message, code):
    assert message in run("--model", tiny[1], *arguments, code=code).stderr


def random_blocks(kind, rows, width, rng):
    """Blocks with sensible scales: float16 at these places of a block."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    halves = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q6_K": [208]}.get(kind.name, [0])
    data = rng.integers(0, 256, (rows, width // elements, size), dtype=np.uint8)
    for at in halves:
        scale = rng.uniform(-1, 1, data.shape[:2]) * (
            0.02 if kind.name in ("Q8_0", "Q4_0", "Q4_1", "Q5_1") else 0.001
        )
        data[..., at : at + 2] = scale.astype(np.float16)[..., None].view(np.uint8)
    return data.reshape(rows, -1)


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_quantised_weights_give_the_bits_of_their_values(arch, tmp_path):
    """Every type that is multiplied as such, and Q5_1, which is not, in one model: --type keep beside --type f32."""
    rng = np.random.default_rng(7)
    kinds = itertools.cycle(
        getattr(gguf.GGMLQuantizationType, k) for k in ("Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K", "Q5_1")
    )

    def pack(name, value):
        kind = next(kinds)
        return random_blocks(kind, *value.shape, rng), kind

    sizes = {"hidden": 256, "layers": 3, "inner": 512, "heads": 4, "kv": 2, "head_dim": 64}
    width = {"h": 256, "i": 512, "q": 256, "k": 128}
    weights = {"token_embd.weight": np.zeros((100, 256)), "output.weight": np.zeros((100, 256))}
    for layer in range(3):
        for name, (_, dims) in NAMES.items():
            shape = [width[d] for d in dims]
            weights[f"blk.{layer}.{name}.weight"] = (
                rng.uniform(0.5, 1.5, shape).astype(np.float32) if len(shape) == 1 else np.zeros(shape)
            )
            if arch == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                weights[f"blk.{layer}.{name}.bias"] = rng.standard_normal(shape[0]).astype(np.float32)
        if arch == "qwen3":
            for which in "qk":
                weights[f"blk.{layer}.attn_{which}_norm.weight"] = np.ones(64, np.float32)
    weights["output_norm.weight"] = np.ones(256, np.float32)
    write_gguf(tmp_path / "m.gguf", arch, sizes, weights, pack=pack)
    tensors = {}
    for layer, (name, rows, columns) in itertools.product(
        range(3), [("self_attn.q_proj", 256, 256), ("mlp.down_proj", 256, 512)]
    ):
        at = f"base_model.model.model.layers.{layer}.{name}"
        tensors[f"{at}.lora_A.weight"] = torch.randn(2, columns) * 0.3
        tensors[f"{at}.lora_B.weight"] = torch.randn(rows, 2) * 0.3
    (tmp_path / "adapter").mkdir()
    safetensors.torch.save_file(tensors, tmp_path / "adapter/adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "down_proj"]}
    (tmp_path / "adapter/adapter_config.json").write_text(json.dumps(settings))
    adapted = ["--temperature", 0, "--adapter", tmp_path / "adapter"]
    for arguments in (["--temperature", 0], adapted, ["--temperature", 1, "-n", 3]):
        same = ["--max-tokens", 12, "--ignore-eos", *arguments]
        kept, wide = (answers(tmp_path / "m.gguf", PROMPTS, "--type", t, *same) for t in ("keep", "f32"))
        assert kept == wide  # to the bit
    assert len({token for one in kept.values() for token in one["tokens"]}) > 20


def test_smollm2_speaks_and_transformers_says_the_same():
    from transformers import AutoModelForCausalLM

    path = smollm2()
    said = run(
        "--model",
        path,
        "--chat",
        "--prompt",
        "What is the capital of France?",
        "--temperature",
        0,
        "--max-tokens",
        24,
    ).stdout
    assert "Paris" in said
    cut = run(
        "--model",
        path,
        "--chat",
        "--prompt",
        "What is the capital of France?",
        "--temperature",
        0,
        "--stop",
        "Paris",
    ).stdout
    assert cut == said[: said.index("Paris")] + "\n"
    folder, _, name = path.rpartition("/")
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    prompt = [504, 3575, 282, 4649, 314]
    want = model.generate(
        torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    same = ["--temperature", 0, "--max-tokens", 24, "--ignore-eos"]
    got = answers(path, [prompt], *same)  # weights as they are in the file: Q4_1 and Q8_0
    assert got[0, 0]["tokens"] == want[0, len(prompt) :].tolist()
    assert got == answers(path, [prompt], "--type", "f32", *same)

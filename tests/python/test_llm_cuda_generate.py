"""Generation on a GPU: what transformers says of tiny checkpoints that it writes, and the engine's device tests.

Run all that needs a GPU and nothing else: pytest tests/python/test_llm_cuda_generate.py -rs
Without one everything is skipped.
"""

import copy
import subprocess

import pytest
from llm_support import ROOT, require_train

require_train("transformers", "safetensors", "torch")

import torch  # noqa: E402

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import transformers  # noqa: E402
from test_llm_decoder import make_adapter  # noqa: E402
from test_llm_generate import answers  # noqa: E402

COMMON = dict(
    vocab_size=300,
    hidden_size=128,
    intermediate_size=192,
    num_hidden_layers=4,
    max_position_embeddings=512,
    initializer_range=0.1,
    bos_token_id=1,
    eos_token_id=2,
)
MODELS = {
    "qwen3": ("Qwen3Config", dict(num_attention_heads=4, num_key_value_heads=2, head_dim=64)),
    "qwen3_5": (
        "Qwen3_5TextConfig",
        dict(
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=32,
            linear_value_head_dim=48,
        ),
    ),
    # The heads of the published ones; six of attention to one of keys, as the largest of them has
    "qwen3_5-published": (
        "Qwen3_5TextConfig",
        dict(
            num_attention_heads=6,
            num_key_value_heads=1,
            head_dim=256,
            tie_word_embeddings=True,
            linear_num_key_heads=2,
            linear_num_value_heads=2,
        ),
    ),
}
TARGETS = {
    "qwen3": ["q_proj", "v_proj", "down_proj"],
    "qwen3_5": ["q_proj", "in_proj_qkv", "in_proj_a", "out_proj", "up_proj"],
}
PROMPTS = [[5, 17, 3, 44, 90, 12, 7], [61], list(range(3, 80)), [33, 9, 9, 9, 9, 9, 9, 9] * 3]
GREEDY = ["--device", "cuda", "--temperature", 0, "--max-tokens", 40, "--ignore-eos"]


@pytest.fixture(scope="module", params=list(MODELS))
def written(request, tmp_path_factory):
    kind, sizes = MODELS[request.param]
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**COMMON, **sizes))
    model = model.float().eval()
    with torch.no_grad():  # norms and biases start at one and zero, where a forgotten one would not be seen
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    folder = tmp_path_factory.mktemp("cuda") / "model"
    model.save_pretrained(folder)
    return request.param, model, folder


def said_by(model, prompt, tokens):
    """Log-probabilities of all tokens at each place of the answer, in float32 on the CPU."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    return logits.float().log_softmax(-1)


def check_greedy(model, got, most):
    """Each token is the likeliest, its log-probability right within `most`; ties within that are let pass."""
    for (request, _), one in sorted(got.items()):
        want = said_by(model, PROMPTS[request], one["tokens"])
        for i, (token, logprob) in enumerate(zip(one["tokens"], one["logprobs"], strict=True)):
            where = f"request {request}, token {i}: {token} at {logprob:.5f}"
            best = int(want[i].argmax())
            assert abs(float(want[i, token]) - logprob) < most, f"{where}; transformers: {want[i, token]:.5f}"
            assert want[i, best] - want[i, token] < most, (
                f"{where}; transformers: {best} at {want[i, best]:.5f}"
            )


def test_greedy_tokens_in_float32_are_those_of_transformers(written):
    _, model, folder = written
    got = answers(folder, PROMPTS, *GREEDY, "--type", "f32")
    for i, prompt in enumerate(PROMPTS):
        want = model.generate(
            torch.tensor([prompt]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert got[i, 0]["tokens"] == want[0, len(prompt) :].tolist(), f"request {i}"
    check_greedy(model, got, 1e-3)


def test_greedy_tokens_in_bf16_are_likely_ones_to_transformers(written):
    _, model, folder = written
    rounded = copy.deepcopy(model).to(torch.bfloat16).float()
    check_greedy(rounded, answers(folder, PROMPTS, *GREEDY, "--type", "bf16"), 0.35)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_gpu_and_the_cpu_say_the_same(written, dtype):
    _, model, folder = written
    here = answers(folder, PROMPTS, *GREEDY, "--type", dtype)
    there = answers(folder, PROMPTS, "--device", "cpu", *GREEDY[2:], "--type", dtype)
    most = 1e-3 if dtype == "f32" else 0.35
    for key, one in there.items():
        for i, (ours, theirs) in enumerate(zip(here[key]["tokens"], one["tokens"], strict=True)):
            if ours != theirs:
                want = said_by(model, PROMPTS[key[0]], one["tokens"])[i]
                gap = float(abs(want[theirs] - want[ours]))
                assert dtype == "bf16" and gap < most, f"{key}, token {i}: {ours} and {theirs}, {gap} apart"
                break
            assert abs(here[key]["logprobs"][i] - one["logprobs"][i]) < most, f"{key}, token {i}"


def test_adapters_are_merged(written, tmp_path):
    name, model, folder = written
    tensors = make_adapter(model, tmp_path / "adapter", 4, 2, TARGETS[name.split("-")[0]])
    merged = copy.deepcopy(model)
    with torch.no_grad():
        for key, parameter in merged.named_parameters():
            at = f"base_model.model.{key.removesuffix('weight')}"
            if f"{at}lora_A.weight" in tensors:
                parameter += 2 / 4 * tensors[f"{at}lora_B.weight"] @ tensors[f"{at}lora_A.weight"]
    got = answers(folder, PROMPTS, *GREEDY, "--type", "f32", "--adapter", tmp_path / "adapter")
    check_greedy(merged, got, 1e-3)
    assert any(one["tokens"] != got[key]["tokens"] for key, one in answers(folder, PROMPTS, *GREEDY).items())


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_answer_does_not_depend_on_what_runs_beside_it(written, dtype):
    _, _, folder = written
    sampled = ["--device", "cuda", "--type", dtype, "--temperature", 0.9, "--top-p", 0.9, "--seed", 5]
    sampled += ["--max-tokens", 24, "--ignore-eos", "-n", 3]
    alone = [answers(folder, [prompt], *sampled) for prompt in PROMPTS]
    for more in ([], ["--max-running", 3], ["--max-running", 4, "--step-tokens", 5]):
        together = answers(folder, [*PROMPTS, PROMPTS[2]], *sampled, *more)
        for (request, sample), one in together.items():
            want = alone[2 if request == len(PROMPTS) else request][0, sample]
            for key in ("tokens", "logprobs"):  # to the bit
                assert one[key] == want[key], f"{more}, request {request}, sample {sample}: {key}"


def test_the_engine_on_the_gpu():
    """Swaps of weights and adapters, shared prefixes and states, against the CPU: tests/llm_model/device_test.cpp."""
    program = ROOT / "build" / "llm_model_tests"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    done = subprocess.run([program, "--gtest_filter=Devices/*_cuda"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "AGpuSaysWhatTheCpuSays/delta256_cuda" in done.stdout, "the filter names no test"
    assert "SKIPPED" not in done.stdout, done.stdout[-3000:]

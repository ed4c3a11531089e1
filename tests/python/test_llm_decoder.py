"""The native decoder against transformers on the CPU in float32: logits, log-probabilities, loss, gradients and AdamW.

Tiny random checkpoints are written by transformers itself for each family, with what its real models have: grouped heads,
a head size that is not hidden / heads, biases, tied and untied outputs, scaled rotary embeddings.
"""

import copy
import json
import subprocess
import sys
import types

import pytest
from llm_support import require_train

require_train("transformers", "safetensors", "torch")

import torch  # noqa: E402
import transformers  # noqa: E402
from llm_support import TRAIN  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

SEQUENCES = [[5, 17, 3, 44, 90, 12, 7], [61], [2, 2, 80, 33], list(range(1, 41))]
SIZES = dict(
    vocab_size=97,
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    initializer_range=0.4,
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=10000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
PARTIAL = dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])
DELTA = dict(
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=12,
    initializer_range=0.1,
)
MODELS = {
    "llama-tied": ("Llama", dict(tie_word_embeddings=True)),
    "llama-scaled": ("Llama", dict(rope_parameters=LLAMA3, tie_word_embeddings=False)),
    "llama-linear": ("Llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=5000.0, factor=4.0))),
    "llama-biases": ("Llama", dict(attention_bias=True, mlp_bias=True)),
    "qwen2": ("Qwen2", dict(rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen2-tied": ("Qwen2", dict(tie_word_embeddings=True, num_key_value_heads=4)),
    "qwen3": ("Qwen3", dict(head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3-tied": ("Qwen3", dict(head_dim=8, tie_word_embeddings=True, num_key_value_heads=1)),
    "qwen3_5": ("Qwen3_5", DELTA | dict(num_hidden_layers=4, head_dim=16, rope_parameters=PARTIAL)),
    "qwen3_5-grouped": (
        "Qwen3_5",
        DELTA
        | dict(
            num_hidden_layers=2,
            head_dim=32,
            num_key_value_heads=4,
            layer_types=["linear_attention", "full_attention"],
            linear_num_key_heads=1,
            linear_num_value_heads=3,
        ),
    ),
    "qwen3_5-tied": (
        "Qwen3_5",
        dict(
            head_dim=8,
            tie_word_embeddings=True,
            num_key_value_heads=1,
            attention_bias=True,
            layer_types=["full_attention", "linear_attention", "linear_attention"],
            linear_num_key_heads=3,
            linear_num_value_heads=3,
            linear_key_head_dim=4,
            linear_value_head_dim=16,
            linear_conv_kernel_dim=3,
            initializer_range=0.1,
        ),
    ),
}
# Without a large epsilon the first step is lr * sign(gradient): where a gradient is rounding noise, so is its sign.
ADAMW = dict(lr=0.01, betas=[0.9, 0.95], eps=1e-3, weight_decay=0.1)


def make(name, folder):
    kind, more = MODELS[name]
    torch.manual_seed(len(name))
    config = getattr(transformers, f"{kind}{'Text' if kind == 'Qwen3_5' else ''}Config")(**(SIZES | more))
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float().eval()
    with torch.no_grad():  # norms and biases start at one and zero, where a forgotten one would not be seen
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return model


def reference_backward(model, sequences=SEQUENCES):
    """Logits and log-probabilities row by row, and the mean loss, every sequence by itself."""
    logits, logprobs = [], []
    for sequence in sequences:
        ids = torch.tensor([sequence])
        out = model(ids, use_cache=False).logits[0]
        of_next = out[:-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        logits.append(out)
        logprobs.append(torch.cat([of_next, torch.zeros(1)]))
    logprobs = torch.cat(logprobs)
    loss = -logprobs.sum() / sum(len(s) - 1 for s in sequences)
    loss.backward()
    return torch.cat(logits).detach(), logprobs.detach(), loss.detach()


class _Doubled(types.ModuleType):
    """torch, as a module that says float32 and is to compute in float64 sees it."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def exact_backward(model, sequences=SEQUENCES):
    """reference_backward() and gradients in float64: the model's code with every float32 in it replaced."""
    model = copy.deepcopy(model).double()
    model.zero_grad()
    code, plain = sys.modules[type(model).__module__], torch.Tensor.float
    torch.Tensor.float, code.torch = torch.Tensor.double, _Doubled("torch")
    try:
        out = reference_backward(model, sequences)
    finally:
        torch.Tensor.float, code.torch = plain, torch
    return out, {key: parameter.grad for key, parameter in model.named_parameters()}


def gradients_close(got, model, sequences=SEQUENCES):
    """Gradients of random DeltaNet models are badly conditioned: transformers' float32 is up to 1e-3 off its own float64,
    and so is ours. Theirs in float64 is the measure, their worst tensor in float32 the bound."""
    _, exact = exact_backward(model, sequences)
    off = {
        key: ((parameter.grad.double() - exact[key]).norm() / exact[key].norm()).item()
        for key, parameter in model.named_parameters()
    }
    for key in off:
        close(got[f"grad.{key}"], exact[key], f"gradient of {key}", max(1e-5, 2 * max(off.values())))


def ours(folder, tmp_path, **more):
    given, out = tmp_path / "in.json", tmp_path / "out.safetensors"
    given.write_text(json.dumps({"sequences": SEQUENCES} | more))
    command = [TRAIN, "parity", "--model", folder, "--input", given, "--out", out]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return load_file(out)


def close(got, want, what, bound=1e-5):
    assert got.shape == want.shape, what
    off = (got.double() - want.double()).norm() / want.double().norm().clamp_min(1e-30)
    assert off <= bound, f"{what}: relative difference {off:.2e}"


@pytest.mark.parametrize("name", MODELS)
def test_forward_backward_and_step_are_those_of_transformers(name, tmp_path):
    model = make(name, tmp_path / "model")
    got = ours(tmp_path / "model", tmp_path, adamw=ADAMW | {"max_grad_norm": 0.5})
    logits, logprobs, loss = reference_backward(model)
    close(got["logits"], logits, "logits")
    close(got["logprobs"], logprobs, "logprobs")
    close(got["loss"], loss, "loss")
    # A key's bias moves all of a query's scores alike, so its gradient is rounding noise around zero: measured against the
    # layer's other gradients.
    parameters = dict(model.named_parameters())
    assert {k[5:] for k in got if k.startswith("grad.")} == parameters.keys()
    if "qwen3_5" in name:
        gradients_close(got, model)
    for key, parameter in parameters.items() if "qwen3_5" not in name else ():
        if key.endswith("k_proj.bias") and "qwen3" not in name:
            other = parameters[key.replace("bias", "weight")].grad
            assert (got[f"grad.{key}"] - parameter.grad).norm() <= 1e-5 * other.norm(), key
        else:
            close(got[f"grad.{key}"], parameter.grad, f"gradient of {key}")
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    torch.optim.AdamW(model.parameters(), **ADAMW).step()
    for key, parameter in parameters.items():
        close(got[f"step.{key}"], parameter.detach(), f"step of {key}")


@pytest.mark.parametrize("name", MODELS)
def test_in_float64_the_formulas_are_those_of_transformers(name, tmp_path):
    """Nothing is rounded on the way but the rotation's frequencies and what is compared: every family to 1e-6."""
    model = make(name, tmp_path / "model")
    got = ours(tmp_path / "model", tmp_path, type="f64")
    (logits, logprobs, loss), exact = exact_backward(model)
    close(got["logits"], logits, "logits", 1e-6)
    close(got["logprobs"], logprobs, "logprobs", 1e-6)
    close(got["loss"], loss, "loss", 1e-6)
    for key, gradient in exact.items():
        if not key.endswith("k_proj.bias"):
            close(got[f"grad.{key}"], gradient, f"gradient of {key}", 1e-6)


def test_three_steps_with_the_usual_epsilon(tmp_path):
    """Only the optimizer: at every step it gets our own gradients, taken from runs of fewer steps."""
    model, usual = make("qwen3", tmp_path / "model"), ADAMW | {"eps": 1e-8}
    optimizer = torch.optim.AdamW(model.parameters(), **usual)
    for steps in (1, 2, 3):
        model.save_pretrained(tmp_path / "now")
        gradients = ours(tmp_path / "now", tmp_path)
        for key, parameter in model.named_parameters():
            parameter.grad = gradients[f"grad.{key}"].clone()
        optimizer.step()
        got = ours(tmp_path / "model", tmp_path, adamw=usual | {"steps": steps})
        for key, parameter in model.named_parameters():
            close(
                got[f"step.{key}"],
                parameter.detach(),
                f"{steps} steps of {key}",
                1e-6 if steps == 1 else 1e-5,
            )


def test_small_chunks_of_logits_change_nothing(tmp_path):
    make("qwen2", tmp_path / "model")
    whole = ours(tmp_path / "model", tmp_path)
    parts = ours(tmp_path / "model", tmp_path, chunk_bytes=97 * 4 * 3)
    for key in whole:
        if not key.endswith("k_proj.bias"):
            close(parts[key], whole[key], key)


def test_recomputed_activations_give_the_same_bits(tmp_path):
    make("qwen2", tmp_path / "model")
    kept, again = (ours(tmp_path / "model", tmp_path, recompute=which) for which in (False, True))
    assert kept.keys() == again.keys()
    assert all(torch.equal(kept[key], again[key]) for key in kept)


def make_adapter(model, folder, rank, alpha, targets, **more):
    """A random adapter in the layout of PyPI peft."""
    tensors = {}
    for name, parameter in model.named_parameters():
        if name.endswith(".weight") and name.split(".")[-2] in targets:
            at = f"base_model.model.{name[: -len('.weight')]}"
            tensors[f"{at}.lora_A.weight"] = torch.randn(rank, parameter.shape[1]) * 0.2
            tensors[f"{at}.lora_B.weight"] = torch.randn(parameter.shape[0], rank) * 0.2
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = dict(peft_type="LORA", r=rank, lora_alpha=alpha, target_modules=targets, bias="none") | more
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return tensors


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    "targets", [["q_proj", "v_proj"], ["o_proj", "gate_proj", "down_proj", "k_proj", "up_proj"]]
)
def test_adapters_are_added_to_the_weights(targets, recompute, tmp_path):
    model = make("qwen2", tmp_path / "model")
    tensors = make_adapter(model, tmp_path / "adapter", 3, 5, targets)
    got = ours(tmp_path / "model", tmp_path, lora=str(tmp_path / "adapter"), adamw=ADAMW, recompute=recompute)
    leaves = {key: tensor.clone().requires_grad_() for key, tensor in tensors.items()}
    merged = dict(model.named_parameters())
    for key in leaves:
        if ".lora_A." in key:
            name = key.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
            merged[name] = (
                merged[name].detach() + 5 / 3 * leaves[key.replace("lora_A", "lora_B")] @ leaves[key]
            )

    def with_adapter(ids, use_cache):
        return torch.func.functional_call(model, merged, (ids,), {"use_cache": use_cache})

    logits, _, loss = reference_backward(with_adapter)
    close(got["logits"], logits, "logits")
    close(got["loss"], loss, "loss")
    assert {key[5:] for key in got if key.startswith("grad.")} == leaves.keys()
    for key, leaf in leaves.items():
        close(got[f"grad.{key}"], leaf.grad, f"gradient of {key}")
    torch.optim.AdamW(leaves.values(), **ADAMW).step()
    for key, leaf in leaves.items():
        close(got[f"step.{key}"], leaf.detach(), f"step of {key}")


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(target_modules=["q_proj", "query"]), "no linear of the model is called 'query'"),
        (dict(target_modules=["q_proj", "o_proj"]), "o_proj.lora_A.weight is missing"),
        (dict(target_modules=["layers.0.self_attn.q_proj"]), "belongs to no target"),
        (dict(r=4), "is [3, 24], not [4, 24]"),
        (dict(use_rslora=True), "use_rslora is not built"),
        (dict(r=0), "r is no rank"),
    ],
)
def test_adapters_that_do_not_fit_are_refused(change, message, tmp_path):
    make_adapter(make("qwen2", tmp_path / "model"), tmp_path / "adapter", 3, 5, ["q_proj"], **change)
    given = tmp_path / "in.json"
    given.write_text(json.dumps({"sequences": [[1, 2]], "lora": str(tmp_path / "adapter")}))
    command = [TRAIN, "parity", "--model", tmp_path / "model", "--input", given, "--out", tmp_path / "out"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_sequences_do_not_see_each_other(tmp_path):
    make("llama-tied", tmp_path / "model")
    got = ours(tmp_path / "model", tmp_path)["logits"]
    given = tmp_path / "alone.json"
    given.write_text(json.dumps({"sequences": [SEQUENCES[2]]}))
    subprocess.run(
        [
            TRAIN,
            "parity",
            "--model",
            tmp_path / "model",
            "--input",
            given,
            "--out",
            tmp_path / "alone.safetensors",
        ],
        check=True,
    )
    alone = load_file(tmp_path / "alone.safetensors")["logits"]
    close(got[8:12], alone, "logits of the third sequence", 1e-6)


def test_bfloat16_stays_near_float32(tmp_path):
    """The documented bound of bf16 on the CPU: logits within 3 % in norm of float32's, transformers' own no nearer."""
    model = make("qwen3", tmp_path / "model")
    got = ours(tmp_path / "model", tmp_path, type="bf16")["logits"]
    logits, _, _ = reference_backward(model)
    theirs = torch.cat([model.bfloat16()(torch.tensor([s])).logits[0].float() for s in SEQUENCES]).detach()
    off = lambda x: ((x - logits).norm() / logits.norm()).item()  # noqa: E731
    assert off(got) <= 0.03 and off(got) <= 1.5 * off(theirs)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(model_type="gpt2"), "model_type 'gpt2' is not known"),
        (dict(hidden_act="gelu"), 'hidden_act "gelu" is not built'),
        (dict(num_key_value_heads=3), "no multiple of num_key_value_heads"),
        (
            dict(rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=2.0)),
            "rotary scaling 'yarn' is not built",
        ),
        (dict(rope_parameters=dict(rope_type="linear")), "factor is missing"),
        (dict(num_hidden_layers=4), "tensors are missing: model.layers.3."),
        (dict(intermediate_size=41), "the configuration makes it [41, 24]"),
        (dict(rms_norm_eps=-1), "rms_norm_eps is no positive number"),
    ],
)
def test_models_that_cannot_be_computed_are_refused(change, message, tmp_path):
    make("llama-tied", tmp_path / "model")
    config = tmp_path / "model/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    given = tmp_path / "in.json"
    given.write_text('{"sequences": [[1, 2]]}')
    command = [TRAIN, "parity", "--model", tmp_path / "model", "--input", given, "--out", tmp_path / "out"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr, done.stderr


@pytest.mark.parametrize(
    "text, message",
    [
        ("{}", '"sequences" must be'),
        ('{"sequences": [[1, 2]], "recomputed": true}', '"recomputed" is not known'),
        ('{"sequences": [[]]}', "no array or empty"),
        ('{"sequences": [[97]]}', "97 is no token id below 97"),
        ('{"sequences": [[1]', "in.json"),
        ('{"sequences": [[1, 2]], "adamw": {"betas": [1]}}', '"betas" must be two'),
        ('{"sequences": [[1, 2]], "adamw": {"lr": "x"}}', "in.json"),
    ],
)
def test_bad_input_is_refused(text, message, tmp_path):
    make("llama-tied", tmp_path / "model")
    given = tmp_path / "in.json"
    given.write_text(text)
    command = [TRAIN, "parity", "--model", tmp_path / "model", "--input", given, "--out", tmp_path / "out"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr, done.stderr

"""Gated DeltaNet models (Qwen3.5, 3.6) beyond what every family is tested for: sequences of several chunks, whole
folders with a vision tower, adapters on the DeltaNet's linears, states in generation."""

import json
import subprocess

import pytest
from llm_support import require_train

require_train("transformers", "safetensors", "torch")

import torch  # noqa: E402
import transformers  # noqa: E402
from llm_support import TRAIN  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from sft_support import final, make_model, train, write_config  # noqa: E402
from test_llm_decoder import (  # noqa: E402
    DELTA,
    PARTIAL,
    SIZES,
    close,
    exact_backward,
    gradients_close,
    make,
    make_adapter,
    ours,
    reference_backward,
)
from test_llm_generate import SAMPLED, answers  # noqa: E402

LONG = [[(7 * i * i + 3 * i + n) % 97 for i in range(n)] for n in (101, 64, 2, 127, 65)]  # chunks are of 64
DELTA_LINEARS = ["in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen35") / "model"
    return make("qwen3_5", folder), folder


def test_sequences_of_several_chunks(tiny, tmp_path):
    model, folder = tiny
    got = ours(folder, tmp_path, sequences=LONG)
    model.zero_grad()
    logits, logprobs, loss = reference_backward(model, LONG)
    close(got["logits"], logits, "logits")
    close(got["logprobs"], logprobs, "logprobs")
    close(got["loss"], loss, "loss")
    gradients_close(got, model, LONG)


def test_sequences_of_several_chunks_in_float64(tiny, tmp_path):
    model, folder = tiny
    got = ours(folder, tmp_path, sequences=LONG, type="f64")
    (logits, _, loss), exact = exact_backward(model, LONG)
    close(got["logits"], logits, "logits", 1e-6)
    close(got["loss"], loss, "loss", 1e-6)
    for key, gradient in exact.items():
        close(got[f"grad.{key}"], gradient, f"gradient of {key}", 1e-6)


def test_packing_and_recomputing_change_nothing(tiny, tmp_path):
    _, folder = tiny
    packed = ours(folder, tmp_path, sequences=LONG)
    again = ours(folder, tmp_path, sequences=LONG, recompute=True)
    assert all(torch.equal(packed[key], again[key]) for key in packed)
    at = 0
    for sequence in LONG:
        alone = ours(folder, tmp_path, sequences=[sequence])
        close(packed["logits"][at : at + len(sequence)], alone["logits"], f"{len(sequence)} tokens", 2e-6)
        at += len(sequence)


def test_bfloat16_stays_near_float32(tiny, tmp_path):
    model, folder = tiny
    got = ours(folder, tmp_path, sequences=LONG, type="bf16")["logits"]
    with torch.no_grad():
        want = torch.cat([model(torch.tensor([s])).logits[0] for s in LONG])
        brain = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        theirs = torch.cat([brain(torch.tensor([s])).logits[0].float() for s in LONG])
    off = lambda x: ((x - want).norm() / want.norm()).item()  # noqa: E731
    assert off(got) <= 0.06 and off(got) <= 1.5 * off(theirs), (off(got), off(theirs))


@pytest.mark.parametrize("targets", [DELTA_LINEARS, ["in_proj_qkv", "q_proj", "o_proj", "down_proj"]])
def test_adapters_on_its_linears(targets, tiny, tmp_path):
    model, folder = tiny
    tensors = make_adapter(model, tmp_path / "adapter", 3, 6, targets)
    got = ours(folder, tmp_path, lora=str(tmp_path / "adapter"), recompute=True)
    leaves = {key: tensor.clone().requires_grad_() for key, tensor in tensors.items()}
    merged = dict(model.named_parameters())
    for key in leaves:
        if ".lora_A." in key:
            name = key.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
            merged[name] = merged[name].detach() + 2 * leaves[key.replace("lora_A", "lora_B")] @ leaves[key]

    def with_adapter(ids, use_cache):
        return torch.func.functional_call(model, merged, (ids,), {"use_cache": use_cache})

    logits, _, _ = reference_backward(with_adapter)
    close(got["logits"], logits, "logits")
    assert {key[5:] for key in got if key.startswith("grad.")} == leaves.keys()
    for key, leaf in leaves.items():
        close(
            got[f"grad.{key}"], leaf.grad, f"gradient of {key}", 1e-3
        )  # badly conditioned: gradients_close()


def make_whole(folder, **more):
    """A model as it is published: text trunk, vision tower and an MTP head that transformers itself leaves out."""
    text = SIZES | dict(num_hidden_layers=4, head_dim=16, rope_parameters=PARTIAL) | DELTA | more
    vision = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=24)
    torch.manual_seed(9)
    config = transformers.Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=False)
    model = transformers.Qwen3_5ForConditionalGeneration(config).float().eval()
    model.save_pretrained(folder)
    return model


def test_a_whole_models_text_trunk(tmp_path):
    model = make_whole(tmp_path / "model")
    with safe_open(tmp_path / "model/model.safetensors", "pt") as file:
        names = list(file.keys())
    assert any("visual" in name for name in names)
    got = ours(tmp_path / "model", tmp_path)
    logits, _, loss = reference_backward(model)
    close(got["logits"], logits, "logits")
    close(got["loss"], loss, "loss")
    of_trunk = {name for name in names if "visual" not in name}
    assert {key[5:] for key in got if key.startswith("grad.")} == of_trunk
    for key, parameter in model.named_parameters():
        if key in of_trunk:
            close(got[f"grad.{key}"], parameter.grad, f"gradient of {key}", 1e-3)
    prompt = LONG[0][:30]
    greedy = answers(tmp_path / "model", [prompt], "--temperature", 0, "--max-tokens", 12, "--ignore-eos")
    # Whole passes without a cache: generate() of the whole model's class gives other tokens than these for plain ids.
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(12):
            ids.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax().item())
    assert greedy[0, 0]["tokens"] == ids[len(prompt) :]


def test_training_leaves_vision_tower_and_mtp_head_as_they_are(tmp_path):
    _, tokenizer = make_model(tmp_path / "other")
    make_whole(tmp_path / "model", vocab_size=len(tokenizer))
    tokenizer.save_pretrained(tmp_path / "model")
    path = tmp_path / "model/model.safetensors"
    before = load_file(path) | {"mtp.fc.weight": torch.randn(24, 48).bfloat16()}
    save_file(before, path, {"format": "pt"})
    train(write_config(tmp_path, tmp_path / "model", train__steps=2, optimizer__lr=0.01))
    folder = final(tmp_path / "run") / "model"
    after = load_file(folder / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        passes = "visual" in name or name.startswith("mtp.")
        assert torch.equal(tensor, after[name]) == passes, name
    got = ours(folder, tmp_path)
    model = transformers.Qwen3_5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    logits, _, _ = reference_backward(model)
    close(got["logits"], logits, "logits")


def test_an_answer_does_not_depend_on_what_runs_beside_it(tiny):
    _, folder = tiny
    prompts = [LONG[0][:41], LONG[1][:3], LONG[3][:70]]
    alone = {i: answers(folder, [p], "-n", 2, *SAMPLED) for i, p in enumerate(prompts)}
    for setting in (
        [],
        ["--max-running", 2],
        ["--step-tokens", 7, "--max-running", 5],
        ["--prefix-states", 0],
    ):
        together = answers(folder, prompts, "-n", 2, *SAMPLED, *setting)
        for (i, sample), other in together.items():
            one = alone[i][0, sample]
            assert one["tokens"] == other["tokens"] and one["logprobs"] == other["logprobs"]  # to the bit


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(linear_num_value_heads=3), "3 is no multiple of linear_num_key_heads 2"),
        (dict(layer_types=["linear_attention", "sliding_attention"] * 2), "sliding_attention"),
        (dict(rope_parameters=dict(partial_rotary_factor=0.3)), "no tensor"),
        (dict(rope_parameters=dict(partial_rotary_factor=1.5)), "rotates 24 of 16"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, message, tiny, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in tiny[1].iterdir():
        (folder / path.name).symlink_to(path)
    config = json.loads((tiny[1] / "config.json").read_text()) | change
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "in.json").write_text('{"sequences": [[1, 2]]}')
    done = subprocess.run(
        [TRAIN, "parity", "--model", folder, "--input", tmp_path / "in.json", "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
    )
    if message == "no tensor":  # 16 * 0.3 = 4.8: four dimensions are rotated, as transformers cuts it
        assert done.returncode == 0, done.stderr
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            close(load_file(tmp_path / "out")["logits"], model(torch.tensor([[1, 2]])).logits[0], "logits")
    else:
        assert done.returncode == 2 and message in done.stderr, done.stderr

"""`musacoder model inspect|tokenize|convert`: what a user sees, and the exit codes."""

import json
import os
import subprocess

import pytest
from llm_support import PROGRAM, require, smollm2

require("safetensors", "tokenizers", "gguf", "numpy")
if not os.path.exists(PROGRAM):
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)

import numpy as np  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 300, "tie_word_embeddings": True,
}  # fmt: skip
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{{ x }}"


def model(*arguments, stdin="", code=0):
    done = subprocess.run(
        [PROGRAM, "model", *map(str, arguments)], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def weights(layer="model.layers.0."):
    rng = np.random.default_rng(1)
    shapes = {
        "model.embed_tokens.weight": (300, 8), "model.norm.weight": (8,), layer + "input_layernorm.weight": (8,), layer + "post_attention_layernorm.weight": (8,),
        layer + "self_attn.q_proj.weight": (8, 8), layer + "self_attn.k_proj.weight": (4, 8), layer + "self_attn.v_proj.weight": (4, 8), layer + "self_attn.o_proj.weight": (8, 8),
        layer + "mlp.gate_proj.weight": (16, 8), layer + "mlp.up_proj.weight": (16, 8), layer + "mlp.down_proj.weight": (8, 16),
    }  # fmt: skip
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights(), path / "model.safetensors")
    one = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    one.pre_tokenizer, one.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    one.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    one.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "chat_template": CHATML})
    )
    return path


def problems(folder):
    return json.loads(model("inspect", folder, "--check", "--json", code=1).stdout)["problems"]


def test_inspect(folder):
    facts = json.loads(model("inspect", folder, "--check", "--json", "--tensors").stdout)
    assert facts["problems"] == [] and facts["notes"] == []
    assert facts["architecture"] == "LlamaForCausalLM" and facts["sizes"]["hidden_size"] == 8
    count = sum(w.size for w in weights().values())
    assert facts["tensors"] == {
        "count": 11,
        "parameters": count,
        "bytes": count * 4,
        "by_type": {"F32": {"tensors": 11, "parameters": count, "bytes": count * 4}},
    }
    assert {"name": "model.norm.weight", "type": "F32", "shape": [8], "bytes": 32} in facts["list"]
    assert facts["tokenizer"]["ids"] == 258 and facts["tokenizer"]["special"] == 2
    assert facts["tokenizer"]["named"] == {"eos_token": {"text": "<|im_end|>", "id": 257}}
    text = model("inspect", folder, "--check").stdout
    assert "LlamaForCausalLM" in text and "everything fits" in text


def test_check_finds_what_does_not_fit(folder):
    good = weights()

    def told(change):
        bad = dict(good)
        change(bad)
        save_file(bad, folder / "model.safetensors")
        return "\n".join(problems(folder))

    assert "model.norm.weight is missing" in told(lambda w: w.pop("model.norm.weight"))
    assert "k_proj.weight: [8, 4], the configuration makes it [4, 8]" in told(
        lambda w: w.update({"model.layers.0.self_attn.k_proj.weight": np.zeros((8, 4), np.float32)})
    )
    for value in (np.nan, -np.inf):
        one = good["model.norm.weight"].copy()
        one[3] = value
        assert "model.norm.weight: 1 of 8 numbers are not finite" in told(
            lambda w, one=one: w.update({"model.norm.weight": one})
        )
    save_file(good | {"vision.w": np.zeros(2, np.float16)}, folder / "model.safetensors")
    facts = json.loads(model("inspect", folder, "--check", "--json").stdout)
    assert "vision.w" in facts["notes"][0] and facts["tensors"]["by_type"]["F16"]["tensors"] == 1
    save_file(good, folder / "model.safetensors")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<gone>", "chat_template": "{{ raise_exception('nothing works') }}"})
    )
    assert any("'<gone>' is no token" in p for p in problems(folder)) and any(
        "nothing works" in p for p in problems(folder)
    )
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 200}))
    assert any("258 ids, but the model has embeddings for 200" in p for p in problems(folder))
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1])
    assert "cut off" in model("inspect", folder, "--check", code=1).stderr
    assert "cut off" in model("inspect", folder, code=2).stderr


def test_tokenize(folder):
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "Hi <|im_end|> 你"
    ids = reference.encode(text).ids
    assert json.loads(model("tokenize", folder, text, "--json").stdout)["ids"] == ids
    assert model("tokenize", folder, "--ids", stdin=text).stdout.split() == [str(i) for i in ids]
    assert "'<|im_end|>'" in model("tokenize", folder, text).stdout
    assert 257 not in json.loads(model("tokenize", folder, text, "--json", "--plain").stdout)["ids"]
    assert model("tokenize", folder, "--decode", stdin=json.dumps(ids)).stdout == text + "\n"
    assert (
        model("tokenize", folder, "--decode", "--skip-special", stdin=" ".join(map(str, ids))).stdout
        == "Hi  你\n"
    )
    lines = model("tokenize", folder, "--lines", stdin="a\n\nb c\n").stdout.splitlines()
    assert [[int(i) for i in line.split()] for line in lines] == [
        reference.encode(t).ids for t in ("a", "", "b c")
    ]
    assert "not of an id" in model("tokenize", folder, "--decode", "1 x", code=2).stderr
    assert "does not exist" in model("tokenize", folder / "no", "x", code=2).stderr


def test_tokenize_a_conversation(folder, tmp_path):
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}], "variables": {"x": "!"}}))
    text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n!"
    assert model("tokenize", folder, "--chat", chat, "--generation-prompt", "--text").stdout == text + "\n"
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    assert (
        json.loads(model("tokenize", folder, "--chat", chat, "--generation-prompt", "--json").stdout)["ids"]
        == ids
    )
    done = model(
        "tokenize",
        folder,
        "--chat",
        "-",
        "--variables",
        '{"x": "?"}',
        "--text",
        stdin=json.dumps([{"role": "user", "content": "a <|im_end|>"}]),
    )
    assert done.stdout.endswith("?\n") and "special token <|im_end|>" in done.stderr
    assert "messages" in model("tokenize", folder, "--chat", "-", stdin="{}", code=2).stderr


def test_convert(tmp_path):
    path = smollm2()
    out = tmp_path / "m"
    model("convert", path, out, "--shard-gb", "0.1")
    assert sorted(p.name for p in out.glob("*.safetensors")) == [
        f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)
    ]
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 134515008 * 2
    facts = json.loads(model("inspect", out, "--check", "--json").stdout)
    assert facts["problems"] == [] and facts["tokenizer"]["ids"] == 49152 and facts["chat_template"]
    reference = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert (
        reference.encode("Hello <|im_end|> 42").ids
        == json.loads(model("tokenize", path, "Hello <|im_end|> 42", "--json").stdout)["ids"]
    )
    assert json.loads(model("inspect", path, "--check", "--json").stdout)["problems"] == []
    # A second time over the first, and not over anything else.
    model("convert", path, out)
    assert [p.name for p in out.glob("*.safetensors")] == ["model.safetensors"]
    assert len(load_file_names(out / "model.safetensors")) == 272
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.txt").write_text("x")
    assert "not replaced" in model("convert", path, tmp_path / "thesis", code=2).stderr
    assert (tmp_path / "thesis/chapter.txt").exists()


def load_file_names(path):
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        return list(file.keys())


def test_help_has_examples():
    for command in ("inspect", "tokenize", "convert"):
        assert "Example" in model(command, "--help").stdout

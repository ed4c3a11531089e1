"""Checkpoints against PyPI safetensors and gguf: what they write is read, what is written they read, to the byte."""

import json
import os
import struct

import pytest
from llm_support import Probe, require, smollm2, strings

require("safetensors", "gguf", "numpy")

import gguf  # noqa: E402
import numpy as np  # noqa: E402
from gguf import quants  # noqa: E402
from llm_gguf import NAMES, write_gguf  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

READ = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]


@pytest.fixture(scope="module")
def probe():
    one = Probe()
    yield one
    one.close()


def tensors(rng):
    return {
        "model.b": rng.standard_normal((3, 5)).astype(np.float32),
        "model.a": rng.standard_normal((4,)).astype(np.float16),
        "ids": np.arange(7, dtype=np.int64),
        "flags": np.array([True, False, True]),
        "scalar": np.array(3.5, dtype=np.float64),
        "empty": np.zeros((0, 4), dtype=np.uint8),
        "bytes": np.arange(11, dtype=np.uint8),
    }


def test_new_files_are_those_of_the_reference_writer(probe, tmp_path):
    rng = np.random.default_rng(1)
    folder = tmp_path / "reference"
    folder.mkdir()
    save_file(tensors(rng), folder / "model.safetensors", metadata={"format": "pt"})
    probe("rewrite", path=str(folder), out=str(tmp_path / "ours"), shard=10**9)
    assert (tmp_path / "ours/model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    probe("rewrite", path=str(folder), out=str(tmp_path / "shards"), shard=40)
    index = json.loads((tmp_path / "shards/model.safetensors.index.json").read_text())
    back = {}
    for name in sorted(set(index["weight_map"].values())):
        back |= load_file(tmp_path / "shards" / name)
    want = load_file(folder / "model.safetensors")
    assert back.keys() == want.keys() and all((back[k] == want[k]).all() for k in want)
    assert index["metadata"]["total_size"] == sum(v.nbytes for v in want.values())


def test_unchanged_is_identical_and_a_change_is_only_that(probe, tmp_path):
    rng = np.random.default_rng(2)
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(tensors(rng), folder / "model.safetensors", metadata={"format": "pt", "other": "kept"})
    for name in ("config.json", "generation_config.json", "chat_template.jinja", "merges.txt"):
        (folder / name).write_bytes(rng.bytes(50) if name == "merges.txt" else b"{ }\n")
    probe("save", path=str(folder), out=str(tmp_path / "copy"))
    for entry in os.listdir(folder):
        assert (tmp_path / "copy" / entry).read_bytes() == (folder / entry).read_bytes()
    new = rng.standard_normal((3, 5)).astype(np.float32)
    probe("save", path=str(folder), out=str(tmp_path / "copy"), changed={"model.b": new.tobytes().hex()})
    back, old = (load_file(p / "model.safetensors") for p in (tmp_path / "copy", folder))
    assert (back.pop("model.b") == new).all()
    assert all((back[k] == old[k]).all() for k in back)


def test_block_sizes(probe):
    ours = {name: tuple(row[1:3]) for name, row in probe("blocks").items()}
    theirs = {t.name: tuple(size) for t, size in gguf.GGML_QUANT_SIZES.items() if t.name in ours}
    assert ours == theirs
    assert sorted(name for name, row in probe("blocks").items() if row[3]) == sorted(READ)


@pytest.mark.parametrize("name", READ)
def test_dequantised_to_the_bit(probe, name):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(3)
    data = rng.integers(0, 256, (400, size), dtype=np.uint8)
    if elements > 1:  # any bytes are good blocks, but scales of finite numbers are what files have
        halves = [0] if name in ("Q4_0", "Q5_0", "Q8_0") else [208] if name == "Q6_K" else [0, 2]
        for at in halves:
            data[:, at : at + 2] = rng.standard_normal((400, 1)).astype(np.float16).view(np.uint8)
    want = quants.dequantize(data, kind).astype(np.float32).reshape(-1)
    got = np.frombuffer(
        bytes.fromhex(probe("dequantize", type=int(kind), hex=[data.tobytes().hex()])["hex"][0]), np.float32
    )
    assert got.shape == want.shape
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all()


def interleave(weights, heads):
    """What llama.cpp's converter does to the rows of q and k: halves of each head interleaved."""
    d = weights.shape[0] // heads
    return weights.reshape(heads, 2, d // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def model(arch, rng):
    sizes = {"hidden": 64, "layers": 2, "inner": 96, "heads": 4, "kv": 2}
    if arch == "qwen3":
        sizes["head_dim"] = 32
    d = sizes.get("head_dim", 16)
    dims = {"h": 64, "i": 96, "q": 4 * d, "k": 2 * d}
    file, want = {}, {}

    def put(name, hf, shape, heads=0):
        value = rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 2:
            value = quants.dequantize(
                quants.quantize(value, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0
            )
        want[hf] = value
        file[name] = interleave(value, heads) if heads else value

    put("token_embd.weight", "model.embed_tokens.weight", (100, 64))
    for layer in range(2):
        for ours, (hf, shape) in NAMES.items():
            heads = {"attn_q": 4, "attn_k": 2}.get(ours, 0) if arch == "llama" else 0
            at, to = f"blk.{layer}.{ours}", f"model.layers.{layer}.{hf}"
            put(at + ".weight", to + ".weight", tuple(dims[c] for c in shape), heads)
            if arch == "qwen2" and ours in ("attn_q", "attn_k", "attn_v"):
                put(at + ".bias", to + ".bias", (dims[shape[0]],))
        if arch == "qwen3":
            for which in "qk":
                put(
                    f"blk.{layer}.attn_{which}_norm.weight",
                    f"model.layers.{layer}.self_attn.{which}_norm.weight",
                    (d,),
                )
    put("output_norm.weight", "model.norm.weight", (64,))
    if arch == "qwen2":
        put("output.weight", "lm_head.weight", (100, 64))
    return sizes, file, want


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_gguf_becomes_a_hugging_face_folder(probe, tmp_path, arch):
    sizes, file, want = model(arch, np.random.default_rng(4))
    path = tmp_path / "m.gguf"
    write_gguf(path, arch, sizes, file)
    probe("import", path=str(path), out=str(tmp_path / "f32"), dtype="F32")
    got = load_file(tmp_path / "f32/model.safetensors")
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == np.float32 and (got[name] == value).all(), name
    config = json.loads((tmp_path / "f32/config.json").read_text())
    expect = {
        "model_type": arch, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": sizes.get("head_dim", 16), "vocab_size": 100, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "tie_word_embeddings": arch != "qwen2", "torch_dtype": "float32",
    }  # fmt: skip
    assert {k: config[k] for k in expect} == expect
    probe("import", path=str(path), out=str(tmp_path / "bf16"), dtype="BF16")
    raw = (tmp_path / "bf16/model.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    data = raw[8 + struct.unpack("<Q", raw[:8])[0] :]
    for name, value in want.items():
        begin, end = header[name]["data_offsets"]
        brain = np.frombuffer(data[begin:end], np.uint16).reshape(value.shape)
        bits = value.view(np.uint32).astype(np.uint64)
        assert (
            header[name]["dtype"] == "BF16" and (brain == ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)).all()
        ), name


def test_gguf_that_contradicts_itself_is_told(probe, tmp_path):
    sizes, file, _ = model("llama", np.random.default_rng(5))
    path = tmp_path / "m.gguf"

    def told(arch="llama", sizes=sizes, file=file, extra=lambda writer: None):
        write_gguf(path, arch, sizes, file, extra)
        with pytest.raises(RuntimeError) as error:
            probe("import", path=str(path), out=str(tmp_path / "out"), dtype="F32")
        assert str(path) in str(error.value) and not (tmp_path / "out").exists()
        return str(error.value)

    assert "'mamba' is not supported" in told(arch="mamba")
    assert "mixture of experts" in told(extra=lambda w: w.add_expert_count(8))
    assert "[64, 64], the metadata make it [60, 64]" in told(sizes=sizes | {"hidden": 64, "heads": 6})
    assert "blk.2.attn_norm.weight' is missing" in told(sizes=sizes | {"layers": 3})
    assert "'blk.1.attn_norm.weight' is not one of llama" in told(sizes=sizes | {"layers": 1})
    assert "attn_q_norm.weight' is missing" in told(arch="qwen3")
    assert "'output_norm.weight' is missing" in told(
        file={k: v for k, v in file.items() if k != "output_norm.weight"}
    )
    assert "do not fit together" in told(sizes=sizes | {"kv": 3})


def test_metadata_of_every_type(probe, tmp_path):
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    values = {
        "uint8": 255,
        "int8": -128,
        "uint16": 65535,
        "int16": -32768,
        "uint32": 2**32 - 1,
        "int32": -(2**31),
    }
    values |= {
        "uint64": 2**64 - 1,
        "int64": -(2**63),
        "float32": 0.5,
        "float64": 0.1,
        "bool": True,
        "string": "t\u00e9xt\n",
    }
    for kind, value in values.items():
        getattr(writer, "add_" + kind)("x." + kind, value)
    writer.add_array("x.texts", ["a", "", "你好"])
    writer.add_array("x.numbers", [1, -2, 3])
    writer.add_array("x.floats", [0.5, -1.5])
    writer.add_array("x.nested", [[1, 2], [3]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    got = probe("gguf", path=str(path))["metadata"]
    assert {k[2:]: v for k, v in got.items() if k.startswith("x.") and not isinstance(v, dict)} == values
    assert got["x.texts"]["texts"] == ["a", "", "你好"]
    assert np.frombuffer(bytes.fromhex(got["x.numbers"]["hex"]), np.int32).tolist() == [1, -2, 3]
    assert np.frombuffer(bytes.fromhex(got["x.floats"]["hex"]), np.float32).tolist() == [0.5, -1.5]
    assert [one["count"] for one in got["x.nested"]["arrays"]] == [2, 1]


def test_smollm2_weights(probe, tmp_path):
    path = smollm2()
    reader = gguf.GGUFReader(path)
    probe("import", path=path, out=str(tmp_path / "m"), dtype="F32")
    got = load_file(tmp_path / "m/model.safetensors")
    assert len(got) == len(reader.tensors) == 272
    config = json.loads((tmp_path / "m/config.json").read_text())
    # The published config.json of HuggingFaceTB/SmolLM2-135M-Instruct.
    expect = {
        "architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "rope_theta": 100000, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    assert {k: config[k] for k in expect} == expect
    by_name = {t.name: t for t in reader.tensors}
    for ours, hf in [("token_embd", "embed_tokens"), ("blk.7.ffn_down", "layers.7.mlp.down_proj"), ("blk.29.attn_q", "layers.29.self_attn.q_proj"),
                     ("blk.0.attn_k", "layers.0.self_attn.k_proj"), ("output_norm", "norm")]:  # fmt: skip
        tensor = by_name[ours + ".weight"]
        value = quants.dequantize(tensor.data, tensor.tensor_type).reshape(
            tuple(reversed(tensor.shape.tolist()))
        )
        back = got[f"model.{hf}.weight"]
        if "attn_q" in ours or "attn_k" in ours:
            back = interleave(back, 9 if "attn_q" in ours else 3)
        assert (back == value).all(), ours


def test_smollm2_tokenizer(probe):
    """The real vocabulary, put into PyPI tokenizers by hand from the metadata."""
    require("tokenizers")
    from llm_support import as_python_reads
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    path = smollm2()
    fields = gguf.GGUFReader(path).fields

    def texts(key):
        return [bytes(fields[key].parts[i]).decode() for i in fields[key].data]

    tokens = texts("tokenizer.ggml.tokens")
    kinds = [
        int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data
    ]
    merges = [tuple(m.split(" ")) for m in texts("tokenizer.ggml.merges")]
    reference = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    reference.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds, strict=True) if k == 3]
    )
    named = probe("open", path=path)["named"]
    assert named["bos_token"] == "<|im_start|>" and named["eos_token"] == "<|im_end|>"
    many = strings(10000, seed=2)
    want = [e.ids for e in reference.encode_batch([as_python_reads(t) for t in many])]
    got = probe("encode", texts=many)["ids"]
    assert [t for t, g, w in zip(many, got, want, strict=True) if g != w][:3] == []
    reply = probe("decode", ids=want)
    assert reply["texts"] == reply["streamed"] == reference.decode_batch(want, skip_special_tokens=False)
    assert (
        Tokenizer.from_str(probe("tokenizer_json")["text"]).encode("Hello <|im_end|> 42").ids
        == reference.encode("Hello <|im_end|> 42").ids
    )

"""A tiny model that can chat, written by transformers, and runs of `musacoder-train sft` on it."""

import json
import os
import subprocess

import tokenizers
import torch
import transformers
from llm_support import TRAIN

CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"say {i}"},
            {"role": "assistant", "content": "abc"[i % 3] * (2 + i)},
        ]
    }
    for i in range(7)
]
ROWS[3]["messages"] = ROWS[2]["messages"] + ROWS[3]["messages"]


def make_model(folder, **sizes):
    """A Llama of two layers, with a tokenizer of bytes and a chat template."""
    vocab = {c: i for i, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    own = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    own.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = tokenizers.decoders.ByteLevel()
    own.add_special_tokens(["<|user|>", "<|assistant|>", "<|end|>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<|end|>")
    tokenizer.chat_template = CHAT
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        **dict(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            initializer_range=0.2,
        )
        | sizes
    )
    model = transformers.LlamaForCausalLM(config).float()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def write_config(folder, model, rows=ROWS, name="run.toml", **keys):
    """`keys`: section__key=value."""
    data = folder / "train.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model.path": str(model),
        "run.dir": str(folder / "run"),
        "run.threads": 1,
        "data.train": [str(data)],
        "data.length": 256,
    } | {key.replace("__", "."): value for key, value in keys.items()}
    path = folder / name
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return path


def command(config, *more):
    return [TRAIN, "sft", str(config), *more]


def train(config, *more, check=True, env=None):
    done = subprocess.run(
        command(config, *more), capture_output=True, text=True, timeout=240, env=os.environ | (env or {})
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def final(run):
    return run / "checkpoints" / "latest"

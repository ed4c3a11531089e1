"""A model from scratch that a run on a CPU can teach something: it repeats a letter so often as it is told, and counts badly.

    from tiny_policy import make_policy, make_tasks
    make_policy(folder, steps=100)      # folder/model: Hugging Face's layout, fine-tuned by `musacoder-train sft`
    make_tasks(folder)                  # folder/train.jsonl, folder/eval.jsonl: prompts for the scripted reward "target"

A prompt is "4g=", the answer wanted "gggg". Half of the rows that it is fine-tuned on have a number of letters that is
wrong by one or two, so it begins as a policy that is right now and then, which reinforcement learning can sharpen. Letters
e and j are held out of training's tasks.
"""

import json
import os
import pathlib
import random
import subprocess

import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = pathlib.Path(os.environ.get("MUSACODER_TRAIN", ROOT / "build" / "musacoder-train"))
LETTERS = "abcdefghij"
MOST = 6  # letters of an answer
HELD_OUT = "ej"


def write_model(folder, hidden, layers, seed, positions=128):
    """A Llama and a tokenizer of characters, without a chat template: prompts are plain text."""
    letters = [chr(c) for c in range(0x21, 0x7F)] + ["\u0120", "\u010a"]
    own = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(letters)}, []))
    own.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = tokenizers.decoders.ByteLevel()
    own.add_special_tokens(["<|end|>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<|end|>")
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        max_position_embeddings=positions,
        eos_token_id=tokenizer.eos_token_id,
    )
    transformers.LlamaForCausalLM(config).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def row(letter, count):
    return {
        "id": f"{count}{letter}",
        "code": f"# want: {letter * count}",
        "prompt": f"{count}{letter}=",
        "family": letter,
    }


def make_tasks(folder):
    for name, letters in (("train", [c for c in LETTERS if c not in HELD_OUT]), ("eval", HELD_OUT)):
        rows = [row(letter, count) for letter in letters for count in range(1, MOST + 1)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))


def make_policy(folder, hidden=48, layers=2, steps=100, seed=0, device="cpu"):
    """folder/model, and folder/scratch with the run that made it."""
    folder = pathlib.Path(folder)
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    write_model(scratch / "random", hidden, layers, seed)
    rng = random.Random(seed)
    rows = []
    for _ in range(2000):
        letter, count = rng.choice(LETTERS), rng.randint(1, MOST)
        wrong = max(1, count + rng.choice([-2, -1, 1, 2])) if rng.random() < 0.5 else count
        rows.append({"prompt": f"{count}{letter}=", "completion": letter * wrong})
    (scratch / "sft.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    keys = {
        "model.path": str(scratch / "random"),
        "run.dir": str(scratch / "sft"),
        "run.device": device,
        "run.seed": seed,
        "run.threads": 1,  # a layer is too small to be divided
        "data.train": [str(scratch / "sft.jsonl")],
        "data.length": 128,
        "train.steps": steps,
        "train.batch_rows": 4,
        "optimizer.lr": 3e-3,
        "log.tensorboard": False,
    }
    config = scratch / "sft.toml"
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    subprocess.run(
        [TRAIN, "sft", config],
        check=True,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_WAIT_POLICY": "passive"},
    )
    model = folder / "model"
    if not model.exists():
        model.symlink_to((scratch / "sft" / "checkpoints" / "latest").resolve() / "model")

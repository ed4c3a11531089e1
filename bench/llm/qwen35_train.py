"""Training a gated DeltaNet model on the CPU beside transformers: tokens per second of one step, in one run.

    python bench/llm/qwen35_train.py --rounds 3

A random model of Qwen3.5's shape (three DeltaNet layers to one of attention), float32, the same batch of made-up tokens on
both sides (src/train/bench.h); a step is forward, loss, backward, clipping and AdamW. transformers runs its PyTorch fallback of
the delta rule, as it does where its CUDA packages are not installed. A round runs the two one after the other; of each the best
round counts. Needs requirements-llm-test.txt.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

TRAIN = Path(__file__).resolve().parents[2] / "build" / "musacoder-train"


def make(folder, transformers):
    config = transformers.Qwen3_5TextConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=64, linear_value_head_dim=64, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.Qwen3_5ForCausalLM(config).float()
    model.save_pretrained(folder)
    return model


def ours(folder, options):
    command = [
        TRAIN,
        "bench",
        "--model",
        folder,
        "--type",
        "f32",
        "--batch",
        options.batch,
        "--length",
        options.length,
    ]
    command += ["--steps", options.steps, "--warm-up", 1]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["tokens_per_s"]


def theirs(model, torch, options):
    t = torch.arange(options.length)
    ids = torch.stack([(1000003 * b + 7919 * t + t * t % 97) % 4096 for b in range(options.batch)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    for step in range(options.steps + 1):
        if step == 1:
            began = time.perf_counter()
        model(ids, labels=ids, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return options.batch * options.length * options.steps / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    options = parser.parse_args()
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        model = make(folder, transformers)
        pairs = [(ours(folder, options), theirs(model, torch, options)) for _ in range(options.rounds)]
    best = [max(side) for side in zip(*pairs, strict=True)]
    line = {"ours": best[0], "transformers": best[1], "ratio": best[0] / best[1], "rounds": pairs}
    print(json.dumps(line | {"load": os.getloadavg()[0], "cores": os.cpu_count()}))


if __name__ == "__main__":
    main()

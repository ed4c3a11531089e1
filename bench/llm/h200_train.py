"""Training on a GPU beside transformers: tokens per second and peak memory of whole steps, in one run.

    python bench/llm/h200_train.py --out results.jsonl
    python bench/llm/h200_train.py --shapes qwen3-43.8m --batch 32 --length 1024

A step is forward, loss, backward, clipping by the global norm and AdamW. Ours is `musacoder-train bench` (bf16 weights with
float32 masters and moments); transformers runs in bf16 with torch's fused AdamW on bf16 weights, eager and under
torch.compile, attention by scaled_dot_product_attention, on the same tokens. Each is a process of its own. A line of JSON
for each, and a table at the end. `--plain` adds ours on torch's operators alone (without our kernels).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from h200_models import make

BUILD = Path(__file__).resolve().parents[2] / "build"


def reference(path, batch, length, steps, warm_up, compiled):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).cuda().train()
    vocab = model.config.vocab_size
    b = torch.arange(batch).unsqueeze(1)
    t = torch.arange(length).unsqueeze(0)
    ids = ((1000003 * b + 7919 * t + t * t % 97) % vocab).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    run = torch.compile(model) if compiled else model

    def step():
        loss = run(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    began = time.perf_counter()
    first = step().item()
    starting = time.perf_counter() - began
    for _ in range(warm_up - 1):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    for _ in range(steps):
        loss = step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    return {
        "tokens_per_s": batch * length * steps / seconds,
        "ms_per_step": 1000 * seconds / steps,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "first_loss": first,
        "last_loss": loss.item(),
        "first_step_s": starting,
    }


def measured(command, environment=None, timeout=240):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {timeout} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines and done.returncode == 0 else {"error": done.stderr[-1500:]}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=["qwen3-43.8m", "qwen3-197m", "smollm2-135m"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--what", nargs="+", default=["ours", "eager", "compile"])
    parser.add_argument("--program", default=str(BUILD / "musacoder-train"))
    parser.add_argument("--models", default=tempfile.gettempdir())
    parser.add_argument("--out")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # a reference's own process: folder, kind
    options = parser.parse_args()
    sizes = [options.batch, options.length, options.steps, options.warm_up]
    if options.one:
        print(json.dumps(reference(options.one[0], *sizes, options.one[1] == "compile")))
        return
    arguments = ["--batch", options.batch, "--length", options.length, "--steps", options.steps]
    arguments = [str(one) for one in [*arguments, "--warm-up", options.warm_up]]
    table = []
    for shape in options.shapes:
        path = make(shape, options.models)
        for what in options.what:
            if what in ("ours", "plain"):
                environment = os.environ | ({"MUSACODER_LLM_KERNELS": "/none"} if what == "plain" else {})
                command = [options.program, "bench", "--model", path, "--device", "cuda", *arguments]
                result = measured(command, environment)
            else:
                result = measured([sys.executable, __file__, "--one", path, what, *arguments])
            line = {"shape": shape, "what": what, "batch": options.batch, "length": options.length, **result}
            print(json.dumps(line), flush=True)
            table.append(line)
            if options.out:
                with open(options.out, "a") as out:
                    out.write(json.dumps(line) + "\n")
    for line in table:
        if "error" in line:
            print(f"{line['shape']:14} {line['what']:8} {line['error'][-200:]}")
        else:
            print(
                f"{line['shape']:14} {line['what']:8} {line['tokens_per_s']:12,.0f} tokens/s "
                f"{line['ms_per_step']:8.2f} ms {line['peak_bytes'] / 1e9:7.2f} GB loss {line['first_loss']:.4f}"
            )


if __name__ == "__main__":
    main()

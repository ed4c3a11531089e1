"""What the engine samples on a GPU: against the trainer's log-probabilities, against itself in other company, against
transformers.

    python bench/llm/h200_engine.py --out engine.jsonl
    python bench/llm/h200_engine.py --device cpu --shapes tiny-qwen3      # the same without a GPU

At a learning rate of zero a trainer computes the log-probabilities that the engine sampled with: printed are mean and 99th
percentile of their difference, in bf16 and float32, over all sampled tokens. An answer must be the same, to the bit of its
log-probabilities, whether its request runs alone, beside others, or with its prompt read in pieces. Greedy tokens in float32
must be those of transformers. Exit code 1 when one of the latter two does not hold, or the difference is beyond 1e-4 in
float32.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from h200_models import make

BUILD = Path(__file__).resolve().parents[2] / "build"


def generate(options, path, kind, prompts, tokens, temperature, more=()):
    command = [options.program, "generate", "--model", path, "--device", options.device, "--type", kind]
    command += ["--max-tokens", tokens, "--temperature", temperature, "--seed", 11, "--ignore-eos", "--json"]
    command += ["--max-running", 64, "--cache-tokens", 65536, *more]
    for ids in prompts:
        command += ["--ids", " ".join(map(str, ids))]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [(one["tokens"], one["logprobs"]) for one in answers]


def trained(options, path, kind, sequences):
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "in.json"), Path(folder, "out.safetensors")
        given.write_text(json.dumps({"sequences": sequences, "type": kind, "device": options.device}))
        command = [options.program, "parity", "--model", path, "--input", given, "--out", out]
        subprocess.run([str(one) for one in command], check=True)
        return load_file(out)["logprobs"]


def differences(options, path, kind, prompts):
    answers = generate(options, path, kind, prompts, 96, 1)
    lp = trained(options, path, kind, [p + tokens for p, (tokens, _) in zip(prompts, answers, strict=True)])
    found, at = [], 0
    for prompt, (tokens, logprobs) in zip(prompts, answers, strict=True):
        for i, one in enumerate(logprobs):
            found.append(abs(float(lp[at + len(prompt) - 1 + i]) - one))
        at += len(prompt) + len(tokens)
    found.sort()
    return sum(found) / len(found), found[int(0.99 * len(found))], found[-1], len(found)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=["qwen3-43.8m", "tiny-llama"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--program", default=str(BUILD / "musacoder-train"))
    parser.add_argument("--models", default=tempfile.gettempdir())
    parser.add_argument("--out")
    options = parser.parse_args()
    broken = 0

    def report(line):
        nonlocal broken
        broken += not line.get("good", True)
        print(json.dumps(line), flush=True)
        if options.out:
            with open(options.out, "a") as out:
                out.write(json.dumps(line) + "\n")

    for shape in options.shapes:
        path = make(shape, options.models, "float32")
        vocab = json.loads(Path(path, "config.json").read_text())["vocab_size"]
        random.seed(5)
        prompts = [[random.randrange(3, vocab) for _ in range(random.randrange(2, 60))] for _ in range(20)]
        for kind in ("f32", "bf16"):
            mean, high, most, count = differences(options, path, kind, prompts)
            line = {"shape": shape, "test": "lr = 0", "type": kind, "device": options.device, "tokens": count}
            report(line | {"mean": mean, "p99": high, "max": most, "good": kind == "bf16" or most < 1e-4})
            settings = ["--top-p", 0.9, "--min-p", 0.01]
            together = generate(options, path, kind, prompts, 24, 0.8, settings)
            pieces = generate(options, path, kind, prompts, 24, 0.8, [*settings, "--step-tokens", 64])
            alone = [generate(options, path, kind, [one], 24, 0.8, settings)[0] for one in prompts[:3]]
            line = {"shape": shape, "test": "company", "type": kind, "device": options.device}
            report(line | {"good": together == pieces and together[:3] == alone})
        try:
            import torch
            from transformers import AutoModelForCausalLM

            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).to(options.device).eval()
            ours = generate(options, path, "f32", prompts[:4], 32, 0)
            same = []
            for prompt, (tokens, _) in zip(prompts[:4], ours, strict=True):
                ids = torch.tensor([prompt], device=options.device)
                settings = {"max_new_tokens": 32, "min_new_tokens": 32, "do_sample": False, "pad_token_id": 0}
                got = model.generate(ids, attention_mask=torch.ones_like(ids), eos_token_id=None, **settings)
                same.append(got[0, len(prompt) :].tolist() == tokens)
            report(
                {"shape": shape, "test": "greedy", "type": "f32", "device": options.device, "good": all(same)}
            )
        except ImportError as error:
            report({"shape": shape, "test": "greedy", "skipped": str(error)})
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

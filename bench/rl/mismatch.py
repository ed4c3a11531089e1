"""What a mismatch between rollouts and training does, and what masks of whole responses do about it.

    nice -n 15 python bench/rl/mismatch.py --out build/mismatch            # CPU, a tiny model from scratch
    python bench/rl/mismatch.py --device cuda --model runs/sft/checkpoints/latest/model --tasks tasks.jsonl \
        --eval held-out.jsonl --verifier real --lr 2e-6 --out build/mismatch-h200

From one checkpoint, with the same seeds, two settings and three objectives each:

    setting     clean      rollouts from the present weights, float32 both, one update a batch
                induced    rollouts from weights up to `--lag` - 1 steps old, in bf16 beside float32 training, `--updates` a batch
    objective   none       the ratio of training to rollout, clipped (0.2, 0.28), mean over tokens; nothing is left out
                geometric  the same, without responses whose mean log ratio leaves ±delta (arXiv 2606.04847, eq. 18)
                mirrorpop  the same, without responses whose mean |log ratio| is above delta (eq. 19-21)

delta is the same for both masks. Reward: the scripted one of bench/rl/scripted_verifier.py ("target", over tasks of
bench/rl/tiny_policy.py), or with --verifier real `musacoder serve` over the tasks given. Written: OUT/result.json, OUT/table.md
(mean over seeds, and the smallest and largest), OUT/report.html (all curves). Runs that are there are not done again.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tiny_policy import ROOT, TRAIN, make_policy, make_tasks  # noqa: E402

MASKS = ("none", "geometric", "mirrorpop")


def keys_of(args, folder, setting, mask, seed):
    real = args.verifier == "real"
    keys = {
        "model.path": args.model or str(folder / "model"),
        "run.dir": str(folder / f"{setting}-{mask}-{seed}"),
        "run.device": args.device,
        "run.seed": seed,
        "tasks.train": args.tasks or [str(folder / "train.jsonl")],
        "tasks.eval": args.eval or [str(folder / "eval.jsonl")],
        "tasks.prompt": "compact",
        "rollout.group": args.group,
        "rollout.batch": args.batch,
        "rollout.temperature": 1.0,
        "rollout.top_p": 1.0,
        "rollout.prompt_tokens": 2048 if real else 16,
        "rollout.response_tokens": args.tokens,
        "rollout.max_running": max(args.group * 4, 64),
        "train.steps": args.steps,
        "train.pass_tokens": args.pass_tokens,
        "optimizer.lr": args.lr,
        "optimizer.clip": 0,  # the norm is what is looked at
        "optimizer.weight_decay": 0.0,
        "schedule.warmup": 0,
        "reward.first_bonus": 0.0,
        "reward.second_bonus": 0.0,
        "objective.preset": "dapo",
        "objective.ratio": "current_rollout",
        "objective.mask_pair": "current_rollout",
        "eval.every": 0,
        "eval.samples": 8,
        "eval.temperature": 1.0,
        "eval.top_p": 1.0,
        "log.tensorboard": False,
    }
    if not args.model:
        keys["run.threads"] = 1  # a layer is too small to be divided
    if not real:
        keys["verifier.program"] = str(ROOT / "bench" / "rl" / "scripted_verifier.py")
        keys["eval.verifier_args"] = []
    if setting == "induced":
        keys |= {
            "rollout.publish_every": args.lag,
            "rollout.type": "bf16",
            "train.mini_batches": args.updates,
        }
    if mask == "geometric":
        low, high = 2.718281828459045**-args.delta, 2.718281828459045**args.delta
        keys |= {"objective.mask": "geometric", "objective.mask_low": low, "objective.mask_high": high}
    elif mask == "mirrorpop":
        keys |= {"objective.mask": "mirrorpop", "objective.mask_delta": args.delta}
    return keys


def run(args, folder, setting, mask, seed):
    keys = keys_of(args, folder, setting, mask, seed)
    target = pathlib.Path(keys["run.dir"])
    target.mkdir(parents=True, exist_ok=True)
    config = target / "run.toml"
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    done = target / "done"
    if not done.exists():
        began = time.monotonic()
        env = os.environ | {"MUSACODER_SCRIPTED_REWARD": "target", "OMP_WAIT_POLICY": "passive"}
        subprocess.run([TRAIN, "rl", config], check=True, stderr=subprocess.DEVNULL, env=env)
        done.write_text(f"{time.monotonic() - began:.1f}\n")
    return [json.loads(line) for line in (target / "metrics.jsonl").read_text().splitlines()]


def part(lines, name, share=0.25):
    """Mean over the last part of a run."""
    values = [line[name] for line in lines if line.get(name) is not None]
    last = values[-max(1, int(len(values) * share)) :]
    return statistics.fmean(last) if last else float("nan")


def numbers(lines):
    steps = [line for line in lines if "train/loss" in line]
    norms = [line["train/grad_norm"] for line in steps if line["train/grad_norm"] is not None]
    evals = [line for line in lines if "eval/pass@1" in line]
    return {
        "reward, first quarter": statistics.fmean(
            [line["reward/mean"] for line in steps[: max(1, len(steps) // 4)]]
        ),
        "reward, last quarter": part(steps, "reward/mean"),
        "right, last quarter": part(steps, "turns/first_accuracy"),
        "held-out pass@1 at the end": evals[-1]["eval/pass@1"] if evals else float("nan"),
        "entropy, last quarter": part(steps, "rollout/entropy"),
        "gradient norm, median": statistics.median(norms),
        "gradient norm, largest": max(norms),
        "masked share": statistics.fmean([line["train/masked_share"] for line in steps]),
        "abs log ratio, mean": statistics.fmean([line["ratio/abs_mean"] for line in steps]),
        "abs log ratio, p99": statistics.fmean([line["ratio/abs_p99"] for line in steps]),
    }


def table(result, seeds):
    names = list(next(iter(result.values()))[0])
    lines = ["| setting | objective | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for key, per_seed in result.items():
        cells = []
        for name in names:
            values = [one[name] for one in per_seed]
            mean, low, high = statistics.fmean(values), min(values), max(values)
            cells.append(f"{mean:.3g} ({low:.3g} … {high:.3g})" if seeds > 1 else f"{mean:.3g}")
        setting, mask = key.split("-")
        lines.append(f"| {setting} | {mask} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", help="folder of a model; default: one from scratch")
    parser.add_argument("--tasks", nargs="*")
    parser.add_argument("--eval", nargs="*")
    parser.add_argument("--verifier", choices=["scripted", "real"], default="scripted")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lag", type=int, default=8)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--pass-tokens", type=int, default=4096)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--delta", type=float, default=0.05)
    args = parser.parse_args()
    folder = pathlib.Path(args.out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not args.model and not (folder / "model").exists():
        make_policy(folder, device=args.device)
        make_tasks(folder)
    result = {}
    for seed in range(args.seeds):
        for setting in ("clean", "induced"):
            for mask in MASKS:
                result.setdefault(f"{setting}-{mask}", []).append(
                    numbers(run(args, folder, setting, mask, seed))
                )
                print(f"{setting} {mask} seed {seed}: {result[f'{setting}-{mask}'][-1]}", flush=True)
    (folder / "result.json").write_text(
        json.dumps({"arguments": vars(args), "result": result}, indent=1) + "\n"
    )
    (folder / "table.md").write_text(table(result, args.seeds))
    print(table(result, args.seeds))
    runs = [folder / f"{setting}-{mask}-0" for setting in ("clean", "induced") for mask in MASKS]
    subprocess.run(
        [TRAIN, "report", *runs, "-o", folder / "report.html", "--title", "Induced mismatch"], check=True
    )


if __name__ == "__main__":
    main()

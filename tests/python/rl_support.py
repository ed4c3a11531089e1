"""Runs of `musacoder-train rl` on a tiny model, paid by the scripted verifier of bench/rl."""

import json
import os
import pathlib
import subprocess
import sys

from llm_support import TRAIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "rl"))
SCRIPTED = ROOT / "bench" / "rl" / "scripted_verifier.py"


def write_config(folder, model, name="run.toml", **keys):
    """`keys`: section__key=value."""
    folder.mkdir(exist_ok=True)
    tasks = folder / "tasks.jsonl"
    tasks.write_text(
        "".join(
            json.dumps({"id": f"t{i}", "code": f"# task {i}", "prompt": f"say {i}"}) + "\n" for i in range(5)
        )
    )
    values = {
        "model.path": str(model),
        "run.dir": str(folder / "run"),
        "run.threads": 1,
        "tasks.train": [str(tasks)],
        "rollout.group": 4,
        "rollout.batch": 3,
        "rollout.top_p": 1.0,
        "rollout.temperature": 1.0,
        "rollout.prompt_tokens": 200,
        "rollout.response_tokens": 8,
        "rollout.max_running": 12,
        "train.steps": 6,
        "optimizer.lr": 0.01,
        "schedule.warmup": 0,
        "verifier.program": str(SCRIPTED),
        "verifier.connections": 4,
        "log.tensorboard": False,
    } | {key.replace("__", "."): value for key, value in keys.items()}
    path = folder / name
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return path


def command(config, *more):
    return [TRAIN, "rl", str(config), *more]


def environment(**more):
    return os.environ | {"OMP_WAIT_POLICY": "passive"} | more


def train(config, *more, check=True, **env):
    done = subprocess.run(
        command(config, *more), capture_output=True, text=True, timeout=240, env=environment(**env)
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def untimed(run):
    """What two runs of the same bits share: all but clocks and how often the verifier was at fault."""
    return [
        {
            name: value
            for name, value in line.items()
            if not name.startswith(("time", "verify/")) and not name.endswith("_per_s")
        }
        for line in metrics(run)
    ]


def accounted(line):
    return sum(
        line[f"account/{name}"] for name in ("trained", "stale", "null", "equal", "truncated", "in_flight")
    )

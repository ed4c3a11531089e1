"""The smallest whole run of reinforcement learning: real tasks, the real verifier on the virtual GPU, a model that a CPU can train.

    nice -n 15 python bench/rl/miniature.py --out build/miniature                  # a tiny model that imitates one kernel
    python bench/rl/miniature.py --out build/miniature --model build/smollm2       # SmolLM2, LoRA; slow on a CPU

Without --model a Llama of 0.6 M parameters with a tokenizer of bytes learns (`musacoder-train sft`) to copy three answers to
three element-wise tasks of tasks/, one of which does not compile, one of which is wrong and one of which is right for
its task: so all of a group's answers are kernels of some kind, and the verifier has something to say. The prompt is a
short one in place of the template's, for the sake of the bytes. Then a few steps of `musacoder-train rl` with PrimeEcho over two turns,
MirrorPop and Buffered Dynamic Retry. What is printed: rewards and verdicts by class, seconds by stage, verdicts a minute.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tiny_policy import TRAIN, write_model  # noqa: E402

PASSIVE = os.environ | {"OMP_WAIT_POLICY": "passive"}  # for a machine that has other work
KERNEL = """```python
import torch
from torch.utils.cpp_extension import load_inline
source = '''
__global__ void k(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{ float a = x[i]; y[i] = {value}; }}
}}
torch::Tensor f(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  int n = x.numel();
  k<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}}
'''
m = load_inline(name='m', cpp_sources='torch::Tensor f(torch::Tensor x);', cuda_sources=source, functions=['f'])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return m.f(x)
```"""
TASK = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {operation}


def get_inputs():
    return [torch.randn(16, 1024)]


def get_init_inputs():
    return []
"""
# operation, its kernel, and what the first policy writes besides: wrong, and not C++
OPERATIONS = {
    "relu": ("torch.relu(x)", "a > 0 ? a : 0", ["a > 0 ? a : -a", "a > 0 ? a"]),
    "square": ("x * x", "a * a", ["a + a", "a ** a"]),
    "negative": ("-x", "-a", ["a", "- - -"]),
}


def make(folder):
    """folder/model and folder/tasks.jsonl."""
    rows, tasks = [], []
    for name, (operation, right, others) in OPERATIONS.items():
        prompt = f"{name}:"
        tasks.append({"id": name, "code": TASK.format(operation=operation), "prompt": prompt})
        rows += [{"prompt": prompt, "completion": KERNEL.format(value=value)} for value in [right, *others]]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tasks))
    (folder / "sft.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    if (folder / "model").exists():
        return
    write_model(folder / "random", 96, 3, 0, positions=4096)
    keys = {
        "model.path": str(folder / "random"),
        "run.dir": str(folder / "sft"),
        "data.train": [str(folder / "sft.jsonl")],
        "data.length": 1024,
        "train.steps": 120,
        "train.batch_rows": 3,
        "optimizer.lr": 3e-3,
        "log.tensorboard": False,
    }
    write(folder / "sft.toml", keys)
    subprocess.run([TRAIN, "sft", folder / "sft.toml"], check=True, env=PASSIVE)
    (folder / "model").symlink_to((folder / "sft/checkpoints/latest").resolve() / "model")


def write(path, keys):
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--model")
    parser.add_argument("--tasks", nargs="*", help="with --model; default: the three of this script")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--program", help="the verifier's; default: musacoder beside musacoder-train")
    args = parser.parse_args()
    folder = pathlib.Path(args.out).resolve()
    make(folder)
    keys = {
        "model.path": args.model or str(folder / "model"),
        "run.dir": str(folder / "rl"),
        "run.device": args.device,
        "tasks.train": args.tasks or [str(folder / "tasks.jsonl")],
        "tasks.prompt": "compact",
        "rollout.group": args.group,
        "rollout.batch": 3,
        "rollout.turns": 2,
        "rollout.temperature": 1.0,
        "rollout.top_p": 1.0,
        "rollout.prompt_tokens": 4096,
        "rollout.response_tokens": 900,
        "rollout.max_running": 12,
        "train.steps": args.steps,
        "optimizer.lr": 1e-5 if args.model else 3e-4,
        "retry.probability": 0.2,
        "checkpoint.every": 1,
        "verifier.lanes": args.lanes,
        "verifier.args": ["--trials", "5"],
    }
    if args.program:
        keys["verifier.program"] = args.program
    if args.model:
        keys |= {"lora.rank": 16, "lora.alpha": 32.0}
    write(folder / "rl.toml", keys)
    began = time.monotonic()
    subprocess.run(
        [TRAIN, "rl", folder / "rl.toml"], check=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"}
    )
    seconds = time.monotonic() - began
    lines = [json.loads(line) for line in (folder / "rl/metrics.jsonl").read_text().splitlines()]
    print(f"{len(lines)} steps in {seconds:.0f} s")
    for line in lines:
        status = ", ".join(f"{k[7:]} {v}" for k, v in line.items() if k.startswith("status/") and v)
        stages = ", ".join(
            f"{k[5:]} {v:.1f} s" for k, v in line.items() if k.startswith("time/") and k != "time/step"
        )
        print(
            f"step {line['step']}: reward {line['reward/mean']:.3f}, right at turn 1 {line['turns/first_accuracy']:.2f}, "
            f"at any {line['turns/best_accuracy']:.2f}; {status}; {line['verify/per_minute']:.1f} verdicts a minute; {stages}"
        )
    subprocess.run([TRAIN, "report", folder / "rl", "-o", folder / "report.html"], check=True)


if __name__ == "__main__":
    main()

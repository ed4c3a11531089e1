#!/usr/bin/env python3
"""The virtual GPU's estimate of a call against times measured on the GPU that it presents.

    python3 bench/vgpu/estimate.py                                   # against bench/results/h200/timing_truth.json
    python3 bench/vgpu/estimate.py --only matmul --limit 300

Takes the kernels of bench/cuda/timing_truth.py that were measured there with ncu, judges each at full size on the virtual GPU (those that take
it more than --work million warp instructions are left out), and prints both times, their ratio, and how well the order agrees.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "cuda"))
import common  # noqa: E402

# Million warp instructions of one call, about, by family and sizes.
WORK = {"axpb": lambda n: 20 * n / 32, "fmas": lambda n, k: (20 + k) * n / 32, "row_sum": lambda r, c: 6 * r * c / 32,
        "matmul_naive": lambda n: 8 * n**3 / 32, "matmul_tiled": lambda n: 6 * n**3 / 32}


def order_agreement(pairs):
    """Kendall's tau over (estimated, measured)."""
    agree = [math.copysign(1, (a[0] - b[0]) * (a[1] - b[1])) for i, a in enumerate(pairs) for b in pairs[:i] if a[1] != b[1]]
    return sum(agree) / len(agree) if agree else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=pathlib.Path, default=ROOT / "bench" / "results" / "h200" / "timing_truth.json")
    parser.add_argument("--only", help="kernels whose name contains this")
    parser.add_argument("--work", type=float, default=300, help="million warp instructions of one call")
    parser.add_argument("--limit", type=float, default=900, help="seconds")
    common.add_program_options(parser, lanes=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        subprocess.run([sys.executable, ROOT / "bench" / "cuda" / "timing_truth.py", "--dry-run", "--dump", folder], check=True, stdout=subprocess.DEVNULL)
        measured, rows = {}, []
        for kernel in json.loads(args.truth.read_text())["kernels"]:
            family, sizes = kernel["kernel"].split("/")
            if (args.only and args.only not in kernel["kernel"]) or WORK[family](*map(int, sizes.split("x"))) > args.work * 1e6:
                continue
            measured[kernel["kernel"]] = kernel["ncu_us"]
            rows.append({"name": kernel["kernel"], "reference": (folder / f"task_{family}_{sizes}.py").read_text(),
                         "candidate": (folder / f"{family}.py").read_text()})
        verdicts, _ = common.Batch(args.musacoder, rows, folder / "run", ["--full-size", "--no-audit", "--trials", "5"], args.lanes, "vgpu").judge(args.limit)
    lines, pairs = [], []
    for verdict in sorted(verdicts, key=lambda v: measured[v["name"]]):
        estimate, real = verdict.get("estimate"), measured[verdict["name"]]
        if not estimate:
            lines.append([verdict["name"], f"{real:.1f}", verdict["status"], None, None])
            continue
        pairs.append((estimate["ms"] * 1e3, real))
        lines.append([verdict["name"], f"{real:.1f}", f"{estimate['ms'] * 1e3:.1f}", f"{estimate['ms'] * 1e3 / real:.2f}", estimate["bound"]])
    common.table(["kernel", "measured µs (ncu)", "estimated µs", "ratio", "bound"], lines)
    ratios = sorted(e / m for e, m in pairs)
    if ratios:
        common.say(f"{len(ratios)} kernels: ratio {ratios[0]:.2f} to {ratios[-1]:.2f}, median {ratios[len(ratios) // 2]:.2f}; order (Kendall's tau) {order_agreement(pairs):.2f}")


if __name__ == "__main__":
    main()

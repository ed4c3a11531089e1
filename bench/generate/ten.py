"""`musacoder generate` on ten modules that no training data holds: how many are verified, and the minutes it takes.

    python bench/generate/ten.py                                            # the default model
    python bench/generate/ten.py --endpoint http://127.0.0.1:8000 --model coder
    python bench/generate/ten.py --only 3 --samples 2 --max-tokens 512      # the first three

Every other option is handed to `musacoder generate`. Prints a table and, as its last line, a JSON object.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, body of forward, inputs, constructor
MODULES = [
    ("softsign_shift", "x / (1 + x.abs()) + 0.25", "48x96xf32"),
    ("gated_product", "torch.sigmoid(x) * y - y", "64x80xf32,64x80xf32"),
    ("row_range", "x.amax(dim=1) - x.amin(dim=1)", "40x300xf32"),
    ("column_mean_square", "(x * x).mean(dim=0)", "256x72xf32"),
    ("log_softmax_scaled", "torch.log_softmax(x * 0.5, dim=-1)", "32x120xf32"),
    ("rms_scale", "x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)", "32x192xf32"),
    ("outer_sum", "x[:, None] + y[None, :]", "70xf32,90xf32"),
    ("small_matmul", "x @ y.t()", "48x64xf32,40x64xf32"),
    ("shifted_difference", "x[:, 1:] - x[:, :-1]", "24x130xf32"),
    ("clamp_swap", "torch.clamp(x.transpose(1, 2).contiguous(), -0.5, 0.5)", "6x20x34xf32"),
]


def module_code(expression, inputs):
    arguments = ", ".join("xyz"[: inputs.count(",") + 1])
    return f"import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, {arguments}):\n        return {expression}\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=ROOT / "build" / "musacoder")
    parser.add_argument("--only", type=int, default=len(MODULES))
    parser.add_argument("--out", help="folder for the results; else a temporary one")
    options, more = parser.parse_known_args()
    folder = pathlib.Path(options.out or tempfile.mkdtemp(prefix="ten-"))
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    rows = []
    for name, expression, inputs in MODULES[: options.only]:
        path = folder / f"{name}.py"
        path.write_text(module_code(expression, inputs), encoding="utf-8")
        command = [
            str(options.program),
            "generate",
            str(path),
            "--inputs",
            inputs,
            "-o",
            str(folder / name),
            "--json",
            "--quiet",
            *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 2:
            raise SystemExit(done.stderr)
        report = json.loads(done.stdout)
        rows.append(report)
        said = ", ".join(f"{count} {status}" for status, count in sorted(report["statuses"].items()))
        print(
            f"{name:20} {'verified' if report['best'] else 'no':9} {report['answers']:3} answers {report['seconds']:7.1f} s  {said}",
            flush=True,
        )
    verified = sum(row["best"] is not None for row in rows)
    minutes = (time.monotonic() - begin) / 60
    print(f"{verified} of {len(rows)} verified in {minutes:.1f} minutes; {rows[0]['model'] if rows else ''}")
    print(
        json.dumps(
            {
                "verified": verified,
                "modules": len(rows),
                "minutes": round(minutes, 2),
                "answers": sum(row["answers"] for row in rows),
                "tokens": sum(row["tokens"] for row in rows),
                "model": rows[0]["model"] if rows else "",
            }
        )
    )


if __name__ == "__main__":
    main()

"""What the programs of this folder share: running a batch within a time limit, reading verdicts, tables.

    batch = common.Batch("build/musacoder", rows, folder, ["--no-timing"], lanes=15)
    verdicts, run = batch.judge(limit_s=120)      # run: {"seconds", "cut", "exit_code", "summary", …}
    common.table(["kernel", "µs"], [["copy", "5.1"]])

Standard library only.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_program_options(parser, lanes=15):
    parser.add_argument("--musacoder", default=str(ROOT / "build" / "musacoder"), help="the program (default: build/musacoder)")
    parser.add_argument("--backend", default="cuda", choices=["cuda", "vgpu"])
    parser.add_argument("--lanes", type=int, default=lanes)


def read_jsonl(path):
    """Whole lines only: the last one may be cut where a run was ended."""
    rows = []
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(json.JSONDecodeError):
                rows.append(json.loads(line))
    return rows


def write_json(path, value):
    if path:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def say(text=""):
    print(text, flush=True)


def table(header, rows):
    """Markdown."""
    say("| " + " | ".join(header) + " |")
    say("|" + "---|" * len(header))
    for row in rows:
        say("| " + " | ".join("–" if cell is None else str(cell) for cell in row) + " |")
    say()


def one_line(text, length=160):
    return " ".join(str(text or "").split()).replace("|", "/")[:length]


def judging_seconds(verdict, without=("wait",)):
    """Seconds of a verdict without those stages; `wait` is the queue for the GPU."""
    seconds = verdict.get("seconds", {})
    return seconds.get("total", 0.0) - sum(seconds.get(stage, 0.0) for stage in without)


class Batch:
    """One `musacoder verify --batch`. `folder` gets rows.jsonl, verdicts.jsonl and the program's stderr.

    `options`: further arguments; `env`: further variables, such as MUSACODER_CACHE.
    """

    def __init__(self, program, rows, folder, options=(), lanes=15, backend="cuda", env=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.out, self.rows = self.folder / "verdicts.jsonl", rows
        self.out.unlink(missing_ok=True)
        with open(self.folder / "rows.jsonl", "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
        self.command = [str(program), "verify", "--batch", str(self.folder / "rows.jsonl"), "--out", str(self.out), "--lanes",
                        str(lanes), "--backend", backend, "--json", "--quiet", *options]
        self.env = {**os.environ, **(env or {})}

    def judge(self, limit_s=1e9, grace_s=45, label="judged"):
        """(verdicts, facts of the run). At the limit no new candidate is begun; those under way may end."""
        began, told, cut, killed = time.monotonic(), 0.0, False, False
        with open(self.folder / "stderr", "w", encoding="utf-8") as errors:
            process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors, text=True, env=self.env)
            while True:
                try:
                    out, _ = process.communicate(timeout=0.25)
                    break
                except subprocess.TimeoutExpired:
                    passed = time.monotonic() - began
                if passed - told >= 10:
                    told = passed
                    say(f"  {passed:4.0f} s: {self._count()} of {len(self.rows)} {label}")
                if passed > limit_s + grace_s:
                    killed = True
                    process.kill()
                elif passed > limit_s and not cut:
                    cut = True
                    process.send_signal(signal.SIGINT)
        seconds = time.monotonic() - began
        summary = {}
        with contextlib.suppress(json.JSONDecodeError, IndexError):
            summary = json.loads(out.strip().splitlines()[-1])
        run = {"command": self.command, "seconds": seconds, "cut": cut, "killed": killed, "exit_code": process.returncode, "summary": summary}
        if process.returncode not in (0, 3) or killed:
            say(f"  musacoder ended with {process.returncode}: {one_line((self.folder / 'stderr').read_text()[-600:], 600)}")
        return read_jsonl(self.out), run

    def _count(self):
        with contextlib.suppress(OSError), open(self.out, "rb") as file:
            return sum(1 for _ in file)
        return 0


# ---- the machine ----


def gpu_memory_mib():
    """Used memory of each GPU, MiB; None where nvidia-smi is not there."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20)
        if done.returncode == 0:
            return [int(line) for line in done.stdout.split()]
    return None


def gpu_name():
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=20)
        if done.returncode == 0:
            return done.stdout.strip()
    return None


def adopt_orphans():
    """From now on what a child leaves behind becomes a child of this process, where descendants() finds it."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)   # PR_SET_CHILD_SUBREAPER


def descendants():
    """{pid: command} of all living processes below this one."""
    children, commands = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            children.setdefault(int(parent), []).append(int(entry.name))
            if state not in "ZX":
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    found, queue = {}, [os.getpid()]
    while queue:
        for pid in children.get(queue.pop(), []):
            queue.append(pid)
            if pid in commands:
                found[pid] = commands[pid]
    return found

"""An instruction set made of this project's own documents, tasks and verified candidates.

    python bench/llm/own_rows.py build/own-rows      # train.jsonl and eval.jsonl, a tenth held out

Families: docs (a section of a document), tasks (a task's module from its description), reading (the description from the
module), kernels (a candidate of the corpus that must be judged ok, for its task).
"""

import argparse
import hashlib
import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sections():
    for path in sorted((ROOT / "docs").glob("*.md")):
        parts = re.split(r"^(#{1,3} .*)$", path.read_text(encoding="utf-8"), flags=re.M)
        title = parts[1].lstrip("# ").strip() if len(parts) > 1 else path.stem
        for heading, body in zip(parts[1::2], parts[2::2], strict=True):
            # Tables and listings of hundreds of lines teach little; what is left is cut at paragraphs.
            paragraphs = [
                p.strip() for p in body.split("\n\n") if p.strip() and not p.lstrip().startswith(("|", "```"))
            ]
            for number in range(0, len(paragraphs), 3):
                text = "\n\n".join(paragraphs[number : number + 3])
                more = " Go on from where you were." if number else ""
                question = f"MusaCoder's document '{title}': what does its section '{heading.lstrip('# ')}' say?{more}"
                # A chat format's own words in a message would be read as the format's.
                if 40 < len(text) < 2000 and "<|" not in text:
                    yield "docs", question, text


def tasks():
    for path in sorted((ROOT / "tasks").glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        match = re.match(r'"""(.*?)"""\n+', text, flags=re.S)
        if not match:
            continue
        about, code = " ".join(match.group(1).split()), text[match.end() :].strip()
        yield (
            "tasks",
            f"Write a KernelBench task, a PyTorch module with its inputs, for this: {about}",
            f"```python\n{code}\n```",
        )
        yield "reading", f"What does this PyTorch module compute?\n```python\n{code}\n```", about


def kernels():
    for case in sorted((ROOT / "corpus").glob("*/*/case.toml")):
        about = tomllib.loads(case.read_text(encoding="utf-8"))
        candidate, task = case.parent / "candidate.py", about.get("task")
        if about.get("expect") != "ok" or not candidate.exists() or not isinstance(task, str):
            continue
        module = ROOT / "tasks" / (task if task.endswith(".py") else f"{task}.py")
        if module.exists():
            code = module.read_text(encoding="utf-8").strip()
            answer = candidate.read_text(encoding="utf-8").strip()
            yield (
                "kernels",
                f"Replace this module by CUDA kernels of your own:\n```python\n{code}\n```",
                f"```python\n{answer}\n```",
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    counts = {}
    with open(out / "train.jsonl", "w") as train, open(out / "eval.jsonl", "w") as held_out:
        for family, question, answer in [*sections(), *tasks(), *kernels()]:
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            # By content, so that a new row moves no other.
            number = int(hashlib.sha256(question.encode()).hexdigest(), 16)
            place = held_out if number % 10 == 0 else train
            place.write(json.dumps({"messages": messages, "family": family}, ensure_ascii=False) + "\n")
            counts[family] = counts.get(family, 0) + 1
    print(", ".join(f"{family} {count}" for family, count in counts.items()))


if __name__ == "__main__":
    main()

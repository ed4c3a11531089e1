"""The native chat templates against jinja2, with the environment that transformers gives templates.

The true templates of seventy models are those in PyPI trl (never imported, and not copied here); SmolLM2's is in its GGUF.
"""

import functools
import importlib.util
import json
import random
import time
from datetime import datetime
from pathlib import Path

import pytest
from llm_support import Probe, require, smollm2

require("jinja2")

import jinja2  # noqa: E402
import jinja2.ext  # noqa: E402
from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: E402

NOW = 1_700_000_000


@pytest.fixture(scope="module")
def probe():
    one = Probe()
    yield one
    one.close()


class Generation(jinja2.ext.Extension):
    """{% generation %} prints its body; render() below finds where."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller):
        return f"\x01{caller()}\x02"


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.fromtimestamp(NOW).strftime(form)
    return env


ENV = environment()


@functools.lru_cache(256)
def compiled(source):
    return ENV.from_string(source)


def reference(source, context):
    """Text and spans as jinja2 renders them, or the exception."""
    try:
        text = compiled(source).render(**context)
    except Exception as error:  # noqa: BLE001  whatever Python raises is a failure of the template
        return error
    spans, plain = [], ""
    for at, part in enumerate(text.split("\x01")):
        inside, mark, after = part.partition("\x02")
        if at and mark:
            spans.append([len(plain.encode()), len((plain + inside).encode())])
        plain += inside + after
    return plain, spans


def ours(probe, source, context):
    try:
        reply = probe("template", source=source, context=context, now=NOW)
    except RuntimeError as error:
        return error
    return reply["text"], reply["spans"]


def same(probe, source, context):
    want, got = reference(source, context), ours(probe, source, context)
    if isinstance(want, Exception):
        assert isinstance(got, Exception), (source, context, want, got)
        if type(want) is jinja2.exceptions.TemplateError:  # raise_exception
            assert str(want) in str(got)
    else:
        assert got == want, (source, context)
    return want


CONTEXT = {
    "s": "Hello wörld  你好 ", "empty": "", "n": 5, "neg": -7, "f": 2.5, "big": 1e16, "tiny": 0.00001, "yes": True, "no": False,
    "none": None, "list": [3, 1, 2], "words": ["b", "A", "c"], "dict": {"b": 1, "A": {"x": [1, 2]}, "items": "shadowed"},
    "people": [{"name": "Ann", "age": 3, "tags": ["x"]}, {"name": "bob", "age": 1}, {"name": "Cy", "age": 2, "tags": []}],
    "html": "<a href='x'>&\"</a>", "lines": "one\n two\r\n\nthree", "quote": "it's \"q\" \\ \n \t \x00 \u200b é",
    "mixed": [1, "a", None, True, 1.5, [1], {"k": "v"}],
}  # fmt: skip

EXPRESSIONS = """
1 + 2 * 3 ** 2 - 4 // 3 % 5 | -7 // 2 | -7 % 3 | 7 % -3 | 7 / 2 | 2 ** -1 | 2 ** 10 ** 2 | -2 ** 2 | 1e3 + 1 | 0x1F + 0b11 + 0o17 + 1_000
"a" ~ 1 ~ none ~ true ~ 1.0 | "a" + "b" | "ab" * 3 | 3 * [1] | [1] + [2, 3] | (1, 2) + (3,) | "%s-%d%%" % ("x", 3) | "%.2f" % f | "%s" % list
1 < 2 < 3 | 1 < 3 < 2 | 1 == 1.0 == true | "a" < "b" | [1, 2] < [1, 3] | "a" in "cab" | 1 not in list | "b" in dict | none == false | "1" == 1
not yes or no and yes | yes and s | no or 0 or "" or "x" | s if yes else n | (s if no) is defined | "a" if 0 else "b" if 0 else "c"
s[0] | s[-2] | s[1:4] | s[::-1] | s[:100] | s[5:2] | list[::2] | list[-1] | list[10] is defined | list[1:][0] | (1, 2, 3)[1:] | list[::-2] | s[-3:-1]
dict.b | dict["b"] | dict.A.x[1] | dict.nope is defined | dict["items"] | dict.items() | list.0 | people[0].name | people.0.tags.0 | dict.get("z", 7) | dict.get("z")
dict.keys() | list | dict.values() | list | missing | missing is defined | missing or "d" | [missing, 1] | missing == missing | missing ~ "x" | not missing
s.strip() | s.upper() | s.lower() | s.title() | s.capitalize() | s.split() | s.split("o") | s.split(" ", 1) | s.rsplit(" ", 1) | " a  b ".split(none, 1) | "a,b,,c".split(",")
s.startswith("He") | s.endswith((" ", "x")) | s.startswith("wö", 6) | s.find("ö") | s.rfind("o") | s.find("zz") | s.index("w") | s.count("l") | s.replace("l", "L", 1) | "aaa".replace("", "-")
"-".join(words) | lines.splitlines() | lines.splitlines(true) | "abc".ljust(5, ".") | "abc".rjust(5) | "abc".center(6, "*") | "abcd".center(7, "*") | "7".zfill(3) | "-7".zfill(4) | "a-b-c".partition("-") | "a-b-c".rpartition("-")
"xxaxx".strip("x") | "abcab".lstrip("ba") | "abcab".rstrip("ab") | "prefix-a".removeprefix("prefix-") | "a.txt".removesuffix(".txt") | "{} {1}".format(1) is defined | "{0}-{1}-{0}".format(1, "b") | "{a}{{}}".format(a=2)
"12".isdigit() | "ab".isalpha() | "a1".isalnum() | " \\t".isspace() | "AB".isupper() | "ab".islower() | "".isdigit()
s | trim | s | upper | s | lower | s | title | "hello wORLD-foo (bar" | title | s | capitalize | s | length | list | length | dict | length | missing | length
s | tojson | quote | tojson | mixed | tojson | dict | tojson | dict | tojson(indent=2) | mixed | tojson(indent=1) | dict | tojson(sort_keys=true) | s | tojson(ensure_ascii=true) | "🙂" | tojson(ensure_ascii=true) | list | tojson(separators=(",", ":")) | [] | tojson(indent=2) | {} | tojson | {1: 2, none: 3, true: 4} | tojson | big | tojson | tiny | tojson
missing | default("d") | none | default("d") | empty | default("d", true) | missing | d | s | default("d") | n | string | n | string | length
list | join(", ") | list | join | people | join("|", attribute="name") | missing | join | list | first | list | last | [] | first is defined | list | max | list | min | words | max | people | map(attribute="age") | list | sum
list | sort | words | sort | words | sort(case_sensitive=true) | list | sort(reverse=true) | people | sort(attribute="age") | map(attribute="name") | list | dict | dictsort | people[0] | dictsort(by="value") is defined | {"b": 1, "a": 2} | dictsort(reverse=true) | words | unique | list | [1, 1.0, "a", "A"] | unique | list
people | selectattr("tags") | list | length | people | selectattr("age", "gt", 1) | map(attribute="name") | list | people | rejectattr("tags", "defined") | list | list | select("odd") | list | list | reject("equalto", 1) | list | words | map("upper") | list | words | map("replace", "b", "z") | join
people | map(attribute="tags", default="none") | list | people | map(attribute="tags.0") | list | list | map("string") | list | people | sum(attribute="age")
"3" | int | "x" | int | "x" | int(7) | "0x1f" | int(0, 16) is defined | "3.7" | int | 3.9 | int | "2.5" | float | "x" | float | yes | int | 2.345 | round(2) | 2.5 | round | 3.5 | round | 7 | round | 2.1 | round(0, "ceil") | 2.9 | round(0, "floor") | -3 | abs | -2.5 | abs
html | e | html | escape | html | safe | lines | indent | lines | indent(2, true) | "a\\n\\nb" | indent(2, blank=true) | s | replace("l", "L") | s | replace("l", "L", 1) | s | wordcount | list | reverse | list | s | reverse | "ab" | center(6) ~ "|" | list | batch(2) | list | list | batch(2, 0) | list | "%s %s" | format("a", 1) | dict | items | list | missing | items | list
s is string | n is number | n is integer | f is float | yes is boolean | yes is true | no is false | none is none | dict is mapping | list is sequence | s is iterable | n is iterable | list is mapping | dict is sequence | missing is none | yes is integer | yes is number
n is odd | n is even | n is divisibleby 5 | n is divisibleby(2) | n is eq 5 | n is sameas 5 | n is in list | 1 is in list | n is gt 3 | n is lessthan(3) | "a" is lower | "A" is upper | s is not string | missing is undefined | range is callable | s is callable | "trim" is filter | "odd" is test | n is not divisibleby 2 and yes
range(3) | list | range(2, 8, 3) | list | range(5, 0, -2) | list | dict(a=1, b=2) | dict([("x", 1)], y=2) | namespace(a=1).a | {"a": 1, "b": [1, {"c": 2}]} | {"a": 1,} | [1, 2,] | (1,) | () | {} | []
mixed | quote | [quote] | {"k": quote} | [1.0, 1e16, 1e-5, 123456789.125, 1e22, 0.1, -0.0, 1e100] | [none, true] | (1, "a") | f | big | tiny | 1.0 | "a" "b" 'c' | "\\x41\\u00e9\\101\\n" | '\\'' | "\\q"
s|trim|upper|length + 1 | (n + 1) | string | -n | abs | - n | +n | (1 if yes else 2) + 1 | not n == 5 | [n if yes] | list | length > 2 and words | length == 3 | -5 | abs + 1 | 2 * 3 is odd | yes is true and no is false
loop is defined | strftime_now("%Y-%m-%d %H:%M") | strftime_now("") | joiner("-") is callable | "ß".lower() | "ÉCOLE".lower() | "éa".upper() | s.strip().split(" ")[0].lower()
1 in [[1], 1] | [1, 2] == [1, 2] | (1, 2) == [1, 2] | {"a": 1} == {"a": 1.0} | "abc" > "ab" | [] or {} or 0 | [[]] and 1 | none is sameas none | 1 is sameas true | list.index(2) | list.count(1) | (1, 1).count(1)
"a".b is defined | n.b is defined | none.b is defined | dict.b.c is defined | dict["A"]["x"] | list["0"] is defined | s["length"] is defined | dict.update is defined | "".join([]) | " ".join("abc") | "abc" | list | "ab" | first
""".strip()

FAILING = """
missing.x | missing[0] | missing() | missing + 1 | 1 + "a" | "a" + 1 | 1 < "a" | none + 1 | 1 / 0 | 1 % 0 | 1 // 0 | s.nope() | n() | list.append(1) | dict.update({}) | dict.pop("b") | none[0].x
1 in 5 | n | length | none | length | list | nope | n is nope | [1, "a"] | sort | people | map(attribute="age") | join | nope | range(10 ** 6) | dict.b.c.d | 5 | join | missing | tojson | {[]: 1} | "a".split("") | "%d" % "x" | "a" * "b" | [1] + (2,) | raise_exception("stop here") | -s | s.index("zz")
namespace(__a=1) | [1][missing] | none | items | s | dictsort | s | sum | dict(1)
""".strip()


def expressions(text):
    """One expression a bar that stands between spaces; a bar that is a filter has a name after it, so both are tried."""
    for line in text.splitlines():
        parts = line.split(" | ")
        for begin in range(len(parts)):
            for end in range(begin + 1, min(len(parts), begin + 4) + 1):
                yield " | ".join(parts[begin:end])


def test_expressions(probe):
    rendered = failed = 0
    for expression in expressions(EXPRESSIONS):
        result = reference("{{ " + expression + " }}", CONTEXT)
        if (
            isinstance(result, Exception)
            or "<generator" in result[0]
            or "<function" in result[0]
            or "object at" in result[0]
            or "dict_" in result[0]
            or "reversed" in result[0]
            or "range(" in result[0]
        ):
            failed += 1
            continue
        assert ours(probe, "{{ " + expression + " }}", CONTEXT) == result, expression
        rendered += 1
    assert rendered > 500, (rendered, failed)


def test_failing_expressions(probe):
    failed = 0
    for line in FAILING.splitlines():
        for expression in expressions(line):
            if isinstance(reference("{{ " + expression + " }}", CONTEXT), Exception):
                assert isinstance(ours(probe, "{{ " + expression + " }}", CONTEXT), Exception), expression
                failed += 1
    assert failed > 100


STATEMENTS = [
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}",
    "{% for x in list %}{{ loop.previtem is defined }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% else %}none{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}e{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.length }}{{ x }}{% endfor %}{% for x in list if x > 9 %}{% else %}no{% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}{% for k in dict %}{{ k }}{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}",
    "{% for x in list %}{% for y in words %}{{ loop.index }}{{ loop.depth }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for c in s %}[{{ c }}]{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if loop.last %}{% break %}{% endif %}{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, l=[]) %}{% for i in list %}{% set ns.x = ns.x + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.x }}{{ ns.l }}",
    "{% if no %}a{% elif n == 5 %}b{% else %}c{% endif %}{% if yes %}{% set y = 2 %}{% endif %}{{ y }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (a, b) = (3, 4) %}{{ a }}{% set z = 'x' if no else 'y' %}{{ z }}",
    "{% set text %}  a {{ n }} {% endset %}[{{ text }}]{% set up | upper | trim %} abc {% endset %}[{{ up }}]",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(b=7, a=8) }}{{ m(1, 2, 3) | length }}{{ m() }}",
    "{% macro v(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, 3, x=4) }}{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(5) }}",
    "{% set g = 1 %}{% macro m() %}{{ g }}{{ missing }}{% set g = 9 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}{% set g = 2 %}{{ m() }}",
    "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in {{ n }}{% endcall %}{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each(list) %}[{{ x }}]{% endcall %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} aa {% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}",
    "{% raw %}{{ x }} {% if %}{# no #}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%}  |",
    "a{# comment #}b\n{# line #}\nc {#- both -#} d{# {{ x }} #}",
    "  {% if yes %}\n    x\n  {% endif %}\n y {%+ if yes %}z{% endif +%}\nq",
    "a  {%- if yes -%}  b  {%- endif -%}  c {{- n -}} d {{ n }} \n {{ n }}\n",
    "\n{% for x in list %}\n\t{{ x }}\n{% endfor %}\n\nend\n\n", "x\r\ny{% if yes %}\r\nz{% endif %}\r\n", "{{ n }}\n", "{{ n }}\n\n", "{% if yes %}a{% endif %} \n b",
    "{% generation %}a{{ n }}é{% endgeneration %}x{% for m in words %}{{ m }}{% generation %}{{ m }}ö{% endgeneration %}{% endfor %}",
    "{% set q = 1 %}{% generation %}{% set q = 2 %}{{ q }}{% endgeneration %}{{ q }}",
    "{% set j = joiner('; ') %}{% for x in list %}{{ j() }}{{ x }}{% endfor %}",
    "{% for m in people %}{{ loop.first and m.name }}{{ people[loop.index0 - 1].name }}{{ (people[loop.index0 + 1] or {}).name }}{% endfor %}",
    "{{ '{{' }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ \"}}\" }}",
    "{%- macro f(x) -%}\n  [{{- x -}}]\n{%- endmacro -%}\n{{- f(1) }}\n{{ f(2) -}}\n",
    "{% for x in dict | dictsort %}{{ x[0] }}{% endfor %}{% for k, v in dict | items %}{{ k }}{% endfor %}{% for x in people | sort(attribute='name') %}{{ x.name }}{% endfor %}",
    "{% if missing %}a{% endif %}{% if missing is defined and missing.x %}b{% endif %}{% if not missing %}c{% endif %}",
    "{% set d = {} %}{% set l = [] %}{{ d or 'e' }}{{ l | length }}", "{{ loop }}",
    "{% for message in messages %}{{ message }}{% endfor %}{{ messages }}", "{% for x in people[::-1] %}{{ x.name }}{{ (people | length - 1) - loop.index0 }}{% endfor %}",
]  # fmt: skip

BROKEN = [
    "{% for x in list %}{% set loop = 1 %}{{ loop }}{% endfor %}",
    "{{", "{% if %}", "{% if x %}", "{% endif %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ 'a }}", "{% for x in y %}", "{% for in y %}{% endfor %}", "{# x", "{% raw %}x", "{% foo %}",
    "{{ a b }}", "{{ a. }}", "{{ a[ }}", "{% set %}", "{% set 1 = 2 %}", "{% set true = 1 %}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{{ x | }}", "{{ x is }}", "{{ f(a=1, 2) }}",
    "{% break %}", "{% else %}", "{{ 1 is odd is even }}", "{% call 1 %}{% endcall %}", "{{ @ }}", "{% if x %}{% else %}{% elif y %}{% endif %}", "{{ }}", "{%  %}", "{% include 'x' %}", "{{ {1} }}", "{{ x[1:2:3:4] }}",
    "{% for x in list %}{% set ns.y = 1 %}{% endfor %}", "{% set dict.b = 1 %}", "{% for a, b in list %}{% endfor %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "{{ m() }}{% macro m() %}{% endmacro %}",
]  # fmt: skip


@pytest.mark.parametrize("source", STATEMENTS)
def test_statements(probe, source):
    want = same(probe, source, CONTEXT)
    if source != "{{ loop }}":
        assert not isinstance(want, Exception), want


@pytest.mark.parametrize("source", BROKEN)
def test_broken_templates(probe, source):
    assert isinstance(same(probe, source, CONTEXT), Exception)


def test_white_space(probe):
    """Every combination of signs, newlines and tags: whose white space goes."""
    rng = random.Random(3)
    pieces = ["a", " ", "\n", "\t", "  \n", "\n  ", "b "]
    tags = ["{{%s n %s}}", "{%%%s if yes %s%%}", "{%%%s endif %s%%}", "{#%s c %s#}", "{%%%s set q = 1 %s%%}"]
    compared = 0
    for _ in range(3000):
        source, open_ifs = "", 0
        for _ in range(rng.randrange(1, 7)):
            source += "".join(rng.choice(pieces) for _ in range(rng.randrange(3)))
            tag = rng.choice(tags)
            if "endif" in tag:
                if not open_ifs:
                    continue
                open_ifs -= 1
            elif "if" in tag:
                open_ifs += 1
            right = ["", "-"] if tag.startswith("{{") else ["", "-", "+"]
            source += tag % (rng.choice(["", "-", "+"]), rng.choice(right))
        source += "{% endif %}" * open_ifs + rng.choice(pieces)
        compared += not isinstance(same(probe, source, CONTEXT), Exception)
    assert compared > 2000


# ---- the models' own templates ----


def templates():
    spec = importlib.util.find_spec("trl")
    folder = Path(spec.origin).parent / "chat_templates" if spec else Path("/nowhere")
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.jinja"))}


TEMPLATES = templates()
# What transformers' tokenizers pass beside the messages.
NAMED = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city, 城市",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "the city's <name>"},
                    "days": {"type": "integer", "default": 3, "enum": [1, 3]},
                },
                "required": ["city"],
            },
            "return": {"type": "string", "description": "words"},
        },
    },
    {"type": "function", "function": {"name": "stop", "description": "ends", "parameters": {"type": "object", "properties": {}}}},
]  # fmt: skip
TEXTS = [
    "Hi", " spaces \n", "", "你好，世界", "<think>\nhmm\n</think>\n\nanswer", "code:\n```cpp\nint x;\n```", "a {{ b }} <|im_end|> \\n", "'quoted' \"twice\"",
    "<think>only", "x</think>\n\ny", "<tool_response>\nz\n</tool_response>", "é\u0301 🙂\t",
]  # fmt: skip


def conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(TEXTS)})
    for _ in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": rng.choice(TEXTS)})
        if rng.random() < 0.1:
            messages[-1]["content"] = [
                {"type": "text", "text": rng.choice(TEXTS)},
                {"type": "text", "text": "b"},
            ]
        answer = {"role": "assistant", "content": rng.choice(TEXTS)}
        if rng.random() < 0.3:
            answer["reasoning_content"] = rng.choice(TEXTS)
        if rng.random() < 0.35:
            arguments = rng.choice(
                [{"city": "Köln", "days": 3}, {}, {"city": None, "x": [1, 2.5, True], "y": {"z": "'"}}]
            )
            answer["tool_calls"] = [
                {
                    "id": f"call{i:05d}",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": arguments},
                }
                for i in range(rng.randrange(1, 3))
            ]
            if rng.random() < 0.3:
                answer["tool_calls"][0]["function"]["arguments"] = json.dumps(arguments)
            if rng.random() < 0.3:
                answer["content"] = None
            messages.append(answer)
            for i in range(len(answer["tool_calls"])):
                messages.append(
                    {
                        "role": "tool",
                        "name": "get_weather",
                        "tool_call_id": f"call{i:05d}",
                        "content": rng.choice(TEXTS),
                    }
                )
            if rng.random() < 0.7:
                messages.append({"role": "assistant", "content": rng.choice(TEXTS)})
        elif rng.random() < 0.8:
            messages.append(answer)
    if rng.random() < 0.05:
        rng.shuffle(messages)
    return messages


def variables(rng):
    out = {}
    for name, values in {"enable_thinking": [True, False], "preserve_thinking": [True, False], "add_vision_id": [True], "date_string": ["26 Jul 2024"], "tools_in_user_message": [True, False],
                         "reasoning_effort": ["low", "high"], "builtin_tools": [["browser"]], "model_identity": ["You are X."], "thinking": [True]}.items():  # fmt: skip
        if rng.random() < 0.25:
            out[name] = rng.choice(values)
    return out


@pytest.mark.skipif(
    not TEMPLATES, reason="trl's chat templates are not installed (requirements-llm-test.txt)"
)
@pytest.mark.parametrize("name", TEMPLATES or ["-"])
def test_templates_of_models(probe, name):
    important = any(family in name for family in ("qwen", "llama3", "smol"))
    rng, rendered = random.Random(name), 0
    for _ in range(100 if important else 15):
        request = {
            "messages": conversation(rng),
            "variables": variables(rng),
            "add_generation_prompt": rng.random() < 0.5,
            "now": NOW,
        }
        if rng.random() < 0.4:
            request["tools"] = TOOLS
        if rng.random() < 0.1:
            request["documents"] = [{"title": "t", "text": "x"}]
        context = NAMED | request["variables"] | {"tools": request.get("tools"), "documents": request.get("documents"),
                   "add_generation_prompt": request["add_generation_prompt"]}  # fmt: skip
        context["messages"] = [
            aliased({k: v for k, v in m.items() if v is not None}) for m in request["messages"]
        ]
        want = reference(TEMPLATES[name], context)
        try:
            reply = probe("chat", source=TEMPLATES[name], named=NAMED, request=request)
            got = reply["text"], reply["spans"]
        except RuntimeError as error:
            got = error
        if isinstance(want, Exception):
            assert isinstance(got, Exception), (want, request)
        else:
            assert got == want, request
            rendered += 1
    assert rendered > 3 or "llava" in name  # it wants its content in parts


def aliased(message):
    reasoning = next(
        (message[k] for k in ("reasoning_content", "thinking", "reasoning") if k in message), None
    )
    return (
        {"thinking": reasoning, **message, "reasoning_content": reasoning}
        if reasoning is not None
        else message
    )


def test_smollm2_template(probe):
    source = probe("chat_source", path=smollm2())["source"]
    rng = random.Random(8)
    for _ in range(100):
        messages = [m for m in conversation(rng) if isinstance(m["content"], str)]
        want = reference(source, {"messages": messages, "add_generation_prompt": True, **NAMED})
        request = {"messages": messages, "add_generation_prompt": True}
        try:
            got = probe("chat", source=source, named=NAMED, request=request)["text"]
        except RuntimeError as error:
            got = error
        assert isinstance(got, Exception) if isinstance(want, Exception) else got == want[0]


# ---- what surrounds a template ----


def test_where_templates_are_found(probe, tmp_path):
    def found(**fields):
        return probe("chat_source", path=str(tmp_path), **fields)["source"]

    with pytest.raises(RuntimeError, match="no chat template 'default'"):
        found()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "one"}))
    assert found() == "one"
    with pytest.raises(RuntimeError, match="'tool_use'"):
        found(which="tool_use")
    several = [{"name": "default", "template": "two"}, {"name": "tool_use", "template": "three"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert found() == "two" and found(which="tool_use") == "three"
    (tmp_path / "chat_template.jinja").write_text("four\n")
    assert found() == "four\n"
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates/rag.jinja").write_text("five")
    assert found(which="rag") == "five"


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content %s }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_continuing_the_final_message(probe):
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "So the answer "}]
    for how, tail in (("", "So the answer "), ("| trim", "So the answer")):
        text = probe(
            "chat",
            source=CHATML.replace("%s", how),
            request={"messages": messages, "continue_final_message": True},
        )["text"]
        assert text == f"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{tail}"
    with pytest.raises(RuntimeError, match="continue_final_message"):
        probe(
            "chat",
            source="{{ messages[0].content }}",
            request={"messages": messages, "continue_final_message": True},
        )
    with pytest.raises(RuntimeError, match="generation prompt"):
        probe(
            "chat",
            source=CHATML,
            request={"messages": messages, "continue_final_message": True, "add_generation_prompt": True},
        )


@pytest.mark.parametrize(
    "request_",
    [{"messages": {}}, {"messages": ["x"]}, {"messages": [], "tools": {}}, {"messages": [], "variables": []}],
)
def test_requests_that_are_none(probe, request_):
    with pytest.raises(RuntimeError, match="array|object"):
        probe("chat", source="x", request=request_)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
        "{{ 'a' * 10 ** 12 }}",
        "{{ [1] * 10 ** 12 }}",
        "{% set ns = namespace(x='aaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[1]) %}{% set ns.me = ns %}",
        "{% set ns = namespace(l=[1]) %}{% set ns.me = [ns] %}",
        "{{ 'x'.ljust(10 ** 15) }}",
        "{{ '%.2000000000f' % 1.5 }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "not " * 5000 + "1 }}",
        "{{ x" + ".a" * 100000 + " }}",
        "{{ 1" + " + 1" * 100000 + " }}",
        "{% if x %}" * 5000 + "{% endif %}" * 5000,
        "{{ 9223372036854775807 + 1 }}",
        "{{ 99999999999999999999 }}",
        "{{ 2 ** 63 }}",
        "{{ 'aaaa' | replace('a', 'b' * 10000) | replace('b', 'c' * 10000) | replace('c', 'd' * 10000) }}",
    ],
)
def test_hostile_templates_end(probe, source):
    before = time.monotonic()
    with pytest.raises(RuntimeError, match="template:"):
        probe("template", source=source, context={"x": {}})
    assert time.monotonic() - before < 20
    assert probe("template", source="{{ 1 }}", context={})["text"] == "1"


def test_errors_say_where(probe):
    with pytest.raises(RuntimeError, match="template:3: 'x' is undefined"):
        probe("template", source="a\nb\n{{ x.y }}\n", context={})
    with pytest.raises(RuntimeError, match="template:2: .*'endif'|template:2: .*endif"):
        probe("template", source="a\n{% if x %}", context={})
    with pytest.raises(RuntimeError, match="template:4: no filter named 'pprint'"):
        probe("template", source="{% for x in [1] %}\n\n\n{{ x | pprint }}{% endfor %}", context={})
    with pytest.raises(RuntimeError, match="'{% extends %}' is not supported"):
        probe("template", source="{% extends 'x' %}", context={})

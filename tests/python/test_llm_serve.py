"""`musacoder-train serve-model`: OpenAI's API with the `openai` client, hostile requests, weights swapped in flight, drain."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest
from llm_support import PROGRAM, corpus, require_train

require_train("transformers", "tokenizers", "torch")

import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from llm_support import TRAIN  # noqa: E402

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if shout %}!{% endif %}{% endif %}"
)
HELLO = [{"role": "user", "content": "Hello there"}]


def make_model(folder, seed=0, layers=2):
    """A random llama with a tokenizer and a chat template, 600 tokens and 256 positions."""
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    words.train_from_iterator(
        corpus()[-8:],
        tokenizers.trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=["<|im_start|>", "<|im_end|>"],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=600, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, eos_token_id=1,
        bos_token_id=None, initializer_range=0.5,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).float().eval()
    model.save_pretrained(folder)
    words.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return model, words


class Server:
    def __init__(self, *arguments, command=(TRAIN,)):
        self.child = subprocess.Popen(
            [*map(str, command), "serve-model", "--listen", "127.0.0.1:0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = []
        threading.Thread(target=lambda: self.log.extend(self.child.stderr), daemon=True).start()
        line = self.child.stdout.readline()
        assert line.startswith("listening on "), "".join(self.log)
        self.port = int(line.rsplit(":", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def call(self, method, path, body=None, headers=None, timeout=120):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        link.request(method, path, raw, {"Content-Type": "application/json"} | (headers or {}))
        reply = link.getresponse()
        text = reply.read()
        link.close()
        return reply.status, (json.loads(text) if text[:1] == b"{" else text.decode()), reply.headers

    def complete(self, expect=200, path="/v1/completions", **fields):
        status, body, _ = self.call("POST", path, {"model": "tiny", **fields})
        assert status == expect, body
        return body

    def chat(self, expect=200, **fields):
        return self.complete(expect, "/v1/chat/completions", **({"messages": HELLO} | fields))

    def events(self, path, **fields):
        """The data of a stream's events, and whether it ended as it should."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        body = json.dumps({"model": "tiny", "stream": True, **fields})
        link.request("POST", path, body, {"Content-Type": "application/json"})
        reply = link.getresponse()
        assert reply.status == 200 and reply.headers["Content-Type"] == "text/event-stream"
        lines = [line for line in reply.read().decode().split("\n\n") if line and not line.startswith(":")]
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def metric(self, name):
        text = self.call("GET", "/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def close(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(60)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    model, words = make_model(folder / "tiny")
    make_model(folder / "next", seed=1)
    make_model(folder / "deep", seed=2, layers=3)
    return folder, model, words


@pytest.fixture(scope="module")
def server(made):
    one = Server("--model", made[0] / "tiny", "--weights-dir", made[0], "--max-open", 40, "--max-running", 16)
    yield one
    one.close()


@pytest.fixture
def start():
    """Servers of a test's own, which end with it."""
    running = []
    yield lambda *arguments, **more: running.append(Server(*arguments, **more)) or running[-1]
    for one in running:
        one.close()


def greedy_of(model, ids, tokens):
    given = torch.tensor([ids])  # without a mask, tokens that are the padding's would not be seen
    out = model.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=tokens, do_sample=False, eos_token_id=None,
        pad_token_id=0,
    )  # fmt: skip
    return out[0, len(ids) :].tolist()


def test_completions_are_those_of_transformers(server, made):
    _, model, words = made
    ids = words.encode("the kernel of a thread block").ids
    want = greedy_of(model, ids, 12)
    for prompt in ("the kernel of a thread block", ids):
        got = server.complete(
            prompt=prompt, temperature=0, max_tokens=12, ignore_eos=True, return_token_ids=True
        )
        choice = got["choices"][0]
        assert choice["token_ids"] == want and choice["prompt_token_ids"] == ids
        assert choice["text"] == words.decode(want) and choice["finish_reason"] == "length"
        assert got["usage"] == {
            "prompt_tokens": len(ids),
            "completion_tokens": 12,
            "total_tokens": len(ids) + 12,
        }
        assert got["object"] == "text_completion" and got["model"] == "tiny" and got["id"].startswith("cmpl-")
    assert server.complete(prompt="x")["usage"]["completion_tokens"] <= 16  # OpenAI's default


def test_chats_go_through_the_template(server, made):
    _, model, words = made
    text = "<|im_start|>user\nHello there<|im_end|>\n<|im_start|>assistant\n"
    got = server.chat(temperature=0, max_tokens=8, ignore_eos=True, return_token_ids=True)
    choice = got["choices"][0]
    assert choice["prompt_token_ids"] == words.encode(text).ids
    assert choice["token_ids"] == greedy_of(model, words.encode(text).ids, 8)
    assert choice["message"]["role"] == "assistant" and got["object"] == "chat.completion"
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]}
    ]
    again = server.chat(messages=parts, temperature=0, max_completion_tokens=8, ignore_eos=True)
    assert again["choices"][0]["message"] == choice["message"]
    loud = server.chat(chat_template_kwargs={"shout": True}, max_tokens=1, return_token_ids=True)
    assert loud["choices"][0]["prompt_token_ids"] == words.encode(text + "!").ids


def test_logprobs_are_the_models(server, made):
    _, model, words = made
    ids = words.encode("shared memory").ids
    got = server.complete(
        prompt=ids, temperature=0, max_tokens=4, logprobs=3, ignore_eos=True, return_token_ids=True
    )
    choice = got["choices"][0]
    tokens = choice["token_ids"]
    wanted = model(torch.tensor([ids + tokens[:-1]])).logits[0, len(ids) - 1 :].log_softmax(-1)
    chosen = wanted.gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(chosen, abs=1e-4)
    assert choice["logprobs"]["tokens"] == [words.decode([t], skip_special_tokens=False) for t in tokens]
    chat = server.chat(temperature=0, max_tokens=3, logprobs=True, top_logprobs=5, ignore_eos=True)
    content = chat["choices"][0]["logprobs"]["content"]
    assert len(content) == 3
    for one in content:
        assert bytes(one["bytes"]).decode(errors="replace") == one["token"]
        assert [len(one["top_logprobs"]), one["top_logprobs"][0]["token"]] == [5, one["token"]]  # greedy
        values = [other["logprob"] for other in one["top_logprobs"]]
        assert values == sorted(values, reverse=True) and values[0] == one["logprob"]


def test_streams_say_the_same_as_whole_replies(server):
    for path, fields in [
        ("/v1/completions", {"prompt": ["one two", "three"]}),
        ("/v1/chat/completions", {"messages": HELLO}),
    ]:
        fields |= {"n": 2, "max_tokens": 12, "seed": 5, "temperature": 0.9}
        whole = server.complete(path=path, **fields)
        chunks = server.events(path, **fields, stream_options={"include_usage": True})
        texts, finish = {}, {}
        for chunk in chunks[:-1]:
            assert chunk["usage"] is None
            for choice in chunk["choices"]:
                part = choice["text"] if "text" in choice else choice["delta"].get("content", "")
                texts[choice["index"]] = texts.get(choice["index"], "") + part
                finish[choice["index"]] = choice["finish_reason"]
        for choice in whole["choices"]:
            text = choice["text"] if "text" in choice else choice["message"]["content"]
            assert texts[choice["index"]] == text and finish[choice["index"]] == choice["finish_reason"]
        assert chunks[-1]["usage"] == whole["usage"] and chunks[-1]["choices"] == []
        assert len({chunk["id"] for chunk in chunks}) == 1
    first = server.events("/v1/chat/completions", messages=HELLO, max_tokens=2)[0]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["object"] == "chat.completion.chunk"


def test_stops_seeds_penalties_and_biases(server, made):
    _, _, words = made
    whole = server.complete(prompt="a", temperature=0, max_tokens=20, ignore_eos=True)["choices"][0]["text"]
    stop = whole[len(whole) // 2 :][:2]
    cut = server.complete(prompt="a", temperature=0, max_tokens=20, ignore_eos=True, stop=stop)["choices"][0]
    assert cut["text"] == whole[: whole.index(stop)] and cut["finish_reason"] == "stop"
    sampled = [
        server.complete(prompt="a", seed=seed, max_tokens=16)["choices"][0]["text"] for seed in (1, 1, 2, -3)
    ]
    assert sampled[0] == sampled[1] and len(set(sampled)) == 3
    assert (
        server.complete(prompt="a", max_tokens=16)["choices"]
        != server.complete(prompt="a", max_tokens=16)["choices"]
    )
    only = server.complete(
        prompt="a", max_tokens=3, logit_bias={"70": 100}, return_token_ids=True, ignore_eos=True
    )
    assert only["choices"][0]["token_ids"] == [70, 70, 70]
    once = server.complete(
        prompt="a", temperature=0, max_tokens=12, presence_penalty=2, frequency_penalty=2,
        repetition_penalty=50, return_token_ids=True, ignore_eos=True,
    )  # fmt: skip
    assert len(set(once["choices"][0]["token_ids"])) == 12
    with_id = server.complete(prompt="a", logit_bias={"70": 100}, stop_token_ids=[70], max_tokens=9)
    assert with_id["usage"]["completion_tokens"] == 1 and with_id["choices"][0]["finish_reason"] == "stop"


def test_the_openai_client(server):
    openai = pytest.importorskip("openai", reason="openai not installed (requirements-llm-test.txt)")
    client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "musacoder"
    reply = client.chat.completions.create(
        model="tiny", messages=HELLO, n=2, max_completion_tokens=10, seed=3, temperature=0.7, top_p=0.9, logprobs=True,
        top_logprobs=2, stop=["zzzz"], presence_penalty=0.5, extra_body={"top_k": 20, "min_p": 0.01},
    )  # fmt: skip
    assert len(reply.choices) == 2 and reply.usage.total_tokens > 0
    assert reply.choices[0].finish_reason in ("length", "stop")
    assert len(reply.choices[0].logprobs.content[0].top_logprobs) == 2
    assert reply.model_extra["weight_version"] == 0
    stream = client.chat.completions.create(
        model="tiny", messages=HELLO, n=2, max_completion_tokens=10, seed=3, temperature=0.7, top_p=0.9, stop=["zzzz"],
        presence_penalty=0.5, stream=True, stream_options={"include_usage": True},
        extra_body={"top_k": 20, "min_p": 0.01},
    )  # fmt: skip
    texts, usage = ["", ""], None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in reply.choices] and usage == reply.usage
    text = client.completions.create(model="tiny", prompt=["a", "b"], max_tokens=5, logprobs=2, n=2)
    assert [choice.index for choice in text.choices] == [0, 1, 2, 3]
    parts = list(client.completions.create(model="tiny", prompt="a", max_tokens=5, stream=True, seed=1))
    assert parts[-1].choices[0].finish_reason in ("length", "stop")
    with pytest.raises(openai.NotFoundError, match="does not exist") as missing:
        client.chat.completions.create(model="other", messages=HELLO)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="maximum context length") as long:
        client.completions.create(model="tiny", prompt="x " * 500)
    assert long.value.code == "context_length_exceeded" and long.value.param == "prompt"

    async def together():
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none") as both:
            import asyncio

            return await asyncio.gather(
                *(both.completions.create(model="tiny", prompt="a", max_tokens=8, seed=i) for i in range(20))
            )

    import asyncio

    for i, one in enumerate(asyncio.run(together())):  # answers do not depend on company
        alone = client.completions.create(model="tiny", prompt="a", max_tokens=8, seed=i)
        assert one.choices[0].text == alone.choices[0].text


@pytest.mark.parametrize(
    "path, body, param, message",
    [
        ("completions", {"prompt": "a", "n": -1}, "n", "`n` lies from 1 to 16"),
        ("completions", {"prompt": "a", "n": 1.5}, "n", "whole number"),
        ("completions", {"prompt": "a", "temperature": "hot"}, "temperature", "is a number"),
        ("completions", {"prompt": "a", "temperature": -1}, "temperature", "lies from 0"),
        ("completions", {"prompt": "a", "max_tokens": 0}, "max_tokens", "lies from 1"),
        ("completions", {"prompt": "a", "max_tokens": 1000}, "prompt", "maximum context length is 256"),
        ("completions", {"prompt": "a", "max_tokens": 10**30}, "max_tokens", "lies from 1"),
        ("completions", {"prompt": "x " * 400}, "prompt", "maximum context length is 256"),
        ("completions", {"prompt": [600]}, "prompt", "no token id below 600"),
        ("completions", {"prompt": [[1, -2]]}, "prompt", "no token id below 600"),
        ("completions", {"prompt": []}, "prompt", "1 to 256 prompts"),
        ("completions", {"prompt": ["a"] * 257}, "prompt", "1 to 256 prompts"),
        ("completions", {"prompt": ""}, "prompt", "no tokens"),
        ("completions", {"prompt": 7}, "prompt", "is a text"),
        ("completions", {}, "prompt", "`prompt` is missing"),
        ("completions", {"prompt": "a", "stop": [""]}, "stop", "none empty"),
        ("completions", {"prompt": "a", "stop": ["x"] * 17}, "stop", "at most 16"),
        ("completions", {"prompt": "a", "logprobs": 50}, "logprobs", "lies from 0 to 20"),
        ("completions", {"prompt": "a", "logit_bias": {"600": 1}}, "logit_bias", "token ids"),
        ("completions", {"prompt": "a", "logit_bias": {"1": 101}}, "logit_bias", "-100 to 100"),
        ("completions", {"prompt": "a", "seed": "x"}, "seed", "whole number"),
        ("completions", {"prompt": "a", "stream": 1}, "stream", "true or false"),
        ("completions", {"prompt": "a", "stream_options": {}}, "stream_options", "only for"),
        ("completions", {"prompt": "a", "tempratur": 1}, "tempratur", "unrecognized request argument"),
        ("completions", {"prompt": "a", "echo": True}, "echo", "not supported"),
        ("completions", {"prompt": "a", "best_of": 3}, "best_of", "not supported"),
        ("chat/completions", {}, "messages", "`messages` is missing"),
        ("chat/completions", {"messages": []}, "messages", "at least one"),
        ("chat/completions", {"messages": ["hi"]}, "messages", "messages[0]"),
        ("chat/completions", {"messages": [{"role": "user"}]}, "messages", "`content` is missing"),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "only text"),
        ("chat/completions", {"messages": HELLO, "top_logprobs": 2}, "top_logprobs", "only for"),
        ("chat/completions", {"messages": HELLO, "response_format": {"type": "json_object"}}, "response_format", "not supported"),
        ("chat/completions", {"messages": HELLO, "tools": "x"}, "tools", "is a list"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_refused_by_name(server, path, body, param, message):
    status, reply, _ = server.call("POST", f"/v1/{path}", {"model": "tiny", **body})
    assert status == 400, reply
    assert message in reply["error"]["message"] and reply["error"]["param"] == param
    assert reply["error"]["type"] == "invalid_request_error"


def test_hostile_requests(server):
    post = ("POST", "/v1/completions")
    assert server.call(*post, b"{not json")[0] == 400
    assert server.call(*post, b"[" * 100000)[0] == 400
    assert server.call(*post, b"[1]")[0] == 400
    assert server.call(*post, {"model": "tiny", "prompt": "a" * (9 << 20)})[0] == 413
    assert server.call(*post, b"model=tiny", {"Content-Type": "text/plain"})[0] == 415
    assert server.call("GET", "/v1/completions")[0] == 405
    assert server.call("GET", "/v1/nothing")[0] == 404
    assert server.call("GET", "/v1/models/other")[1]["error"]["code"] == "model_not_found"
    assert server.call(*post, {"model": "tiny", "prompt": "a"}, {"Host": "evil.example"})[0] == 403
    assert server.call(*post, {"model": "tiny", "prompt": "a"}, {"Origin": "http://evil.example"})[0] == 403
    status, reply, _ = server.call(*post, b'{"model": "tiny", "prompt": "\xff\xfe"}')
    assert status == 400 and "error" in reply
    with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
        raw.sendall(b"\x16\x03\x01 garbage\r\n\r\n")
        assert b"400" in raw.recv(4096)
    assert server.complete(prompt="a", max_tokens=1)["usage"]["completion_tokens"] == 1  # it still serves


def test_a_client_that_goes_away_has_its_request_cancelled(server):
    before = server.metric("musacoder_generated_tokens_total")
    slow = {"model": "tiny", "prompt": ["a"] * 64, "max_tokens": 250, "n": 16, "ignore_eos": True}
    links = []
    for stream in (True, False):
        raw = socket.create_connection(("127.0.0.1", server.port), 5)
        body = json.dumps(slow | {"stream": stream}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        raw.sendall(head.encode() + body)
        links.append(raw)
    links[0].recv(100)
    for raw in links:
        raw.close()
    deadline = time.time() + 30
    while server.metric("musacoder_open_requests") > 0 and time.time() < deadline:
        time.sleep(0.05)
    assert server.metric("musacoder_open_requests") == 0
    assert server.metric("musacoder_generated_tokens_total") - before < 64 * 16 * 250
    assert server.metric("musacoder_cache_free_tokens") == 16384


def test_too_many_requests_are_told_to_come_again(start, made):
    one = start("--model", made[0] / "tiny", "--max-open", 2, "--max-running", 2)
    slow = {"prompt": "a", "max_tokens": 250, "n": 2, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        replies = list(
            pool.map(lambda _: one.call("POST", "/v1/completions", {"model": "tiny", **slow}), range(12))
        )
    kinds = [status for status, _, _ in replies]
    assert set(kinds) == {200, 429} and kinds.count(200) >= 2
    refused = next(reply for reply in replies if reply[0] == 429)
    assert refused[2]["Retry-After"] == "1" and refused[1]["error"]["code"] == "rate_limit_exceeded"


def test_tokens_health_metrics_and_drain(start, made, tmp_path):
    (tmp_path / "token").write_text("a-token-of-sixteen-or-more\n")
    one = start("--model", made[0] / "tiny", "--token-file", tmp_path / "token", "--name", "mine")
    assert one.call("GET", "/health")[0] == 200 and one.call("GET", "/ready")[0] == 200
    for header in ({}, {"Authorization": "Bearer wrong-token-of-16-characters"}):
        status, reply, headers = one.call("GET", "/v1/models", headers=header)
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
        assert reply["error"]["code"] == "invalid_api_key"
    right = {"Authorization": "Bearer a-token-of-sixteen-or-more"}
    assert one.call("GET", "/v1/models", headers=right)[1]["data"][0]["id"] == "mine"
    assert one.call("POST", "/v1/weights", {"model": "x"}, right)[0] == 403  # no --weights-dir
    link = http.client.HTTPConnection("127.0.0.1", one.port, timeout=60)
    body = {"model": "mine", "prompt": "a", "max_tokens": 250, "ignore_eos": True, "stream": True}
    link.request("POST", "/v1/completions", json.dumps(body), right | {"Content-Type": "application/json"})
    reply = link.getresponse()
    reply.read(10)
    one.child.send_signal(signal.SIGTERM)
    assert reply.read().decode().endswith("data: [DONE]\n\n")  # what runs is finished
    link.close()
    assert one.child.wait(60) == 0
    text = "".join(one.log)
    assert '"event":"draining"' in text and '"event":"stopped"' in text


def swapped_while_answering(server, ask, **swap):
    """The reply to a swap that came while `ask` was being answered, and the choices of that."""
    for _ in range(20):  # on a busy machine an answer may be done before the swap arrives
        before = server.call("GET", "/v1/weights")[1]["version"]
        began = server.metric("musacoder_engine_steps_total")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asking = pool.submit(server.call, "POST", "/v1/completions", ask)
            while server.metric("musacoder_engine_steps_total") < began + 5:
                time.sleep(0.002)
            status, reply, _ = server.call("POST", "/v1/weights", swap)
            done = asking.result()[1]
        assert status == 200, reply
        if (
            done["weight_version"] == reply["version"]
            and done["choices"][0]["weight_versions"][0]["version"] == before
        ):
            return reply, done["choices"]
        back = {"model": swap["model"].replace("next", "tiny"), "version": before}
        assert server.call("POST", "/v1/weights", back)[1]["version"] == before
    pytest.fail("no answer was under way at any of 20 swaps")


def test_weights_are_swapped_in_flight(start, made):
    folder, model, words = made
    one = start("--model", folder / "tiny", "--weights-dir", folder, "--max-running", 4, "--step-tokens", 8)
    following = transformers.AutoModelForCausalLM.from_pretrained(folder / "next", dtype=torch.float32).eval()
    ids = words.encode("the kernel").ids
    # Waves of four, the later ones begin after the former have ended.
    ask = {"model": "tiny", "prompt": [ids] * 16, "max_tokens": 240, "temperature": 0, "ignore_eos": True,
           "return_token_ids": True}  # fmt: skip
    before, after = greedy_of(model, ids, 240), greedy_of(following, ids, 240)
    reply, choices = swapped_while_answering(one, ask, model=str(folder / "next"), cache="recompute")
    assert reply["version"] == 1 and reply["cache"] == "recompute"
    checked = set()
    for choice in choices:
        runs, tokens = choice["weight_versions"], choice["token_ids"]
        assert [run["version"] for run in runs] in ([0], [0, 1], [1]) and sum(
            run["tokens"] for run in runs
        ) == 240
        old = sum(run["tokens"] for run in runs if run["version"] == 0)
        assert tokens[:old] == before[:old]
        if old not in checked:
            assert tokens[old:] == (
                greedy_of(following, ids + tokens[:old], 240 - old) if 0 < old < 240 else after[old:]
            )
        checked.add(old)
    reply, choices = swapped_while_answering(one, ask, model=str(folder / "tiny"), cache="keep", version=5)
    assert reply["version"] == 5 and choices[-1]["token_ids"] == before
    assert one.call("POST", "/v1/completions", ask)[1]["choices"][0]["weight_versions"] == [
        {"version": 5, "tokens": 240}
    ]
    assert one.call("GET", "/v1/weights")[1] == {"version": 5}
    outside = pathlib.Path(os.path.realpath(folder)).parent
    for bad, code in [
        ({"model": str(outside)}, 403),
        ({"model": str(folder / "none")}, 403),
        ({"model": str(folder / "tiny" / ".." / "..")}, 403),
        ({"model": str(folder / "deep")}, 400),
        ({"model": str(folder / "tiny" / "tokenizer.json")}, 400),
        ({"model": str(folder / "tiny"), "cache": "x"}, 400),
        ({"model": str(folder / "tiny"), "chache": "keep"}, 400),
        ({}, 400),
    ]:
        status, reply, _ = one.call("POST", "/v1/weights", bad)
        assert status == code, (bad, reply)


def test_the_verifiers_program_hands_over(start, made):
    if not os.path.exists(PROGRAM):
        pytest.skip(f"{PROGRAM} is not built")
    one = start("--model", made[0] / "tiny", command=(PROGRAM,))
    assert one.call("GET", "/health")[1] == {"status": "healthy"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--listen", "0.0.0.0:0"], "give --token-file"),
        (["--listen", "nowhere"], "is no address"),
        (["--token-file", "/none"], "cannot read"),
        (["--type", "f32", "--cache-tokens", "0"], "cache_tokens"),
    ],
)
def test_wrong_options_are_said_before_anything_is_served(made, arguments, message):
    done = subprocess.run(
        [TRAIN, "serve-model", "--model", made[0] / "tiny", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and message in done.stderr

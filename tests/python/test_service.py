"""The real `musacoder serve` and `musacoder worker`, from outside: routes, streams, limits, hostile peers, sudden death.

Run: pytest tests/python/test_service.py                 # fast: jobs that end in the extraction
     MUSACODER_SLOW=1 pytest tests/python/test_service.py # also real judging under kill -9
"""

import concurrent.futures
import contextlib
import csv
import http.client
import json
import os
import socket
import ssl
import subprocess
import time

import pytest
from service_support import PROGRAM, ROOT, TRIVIAL, Process, Server, WebSocket, read_all, real_job

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
slow = pytest.mark.skipif(
    os.environ.get("MUSACODER_SLOW") != "1", reason="set MUSACODER_SLOW=1 to judge for real"
)

TOKENS = """
[[token]]
name = "alice"
token = "alice-alice-alice"
max_unfinished = 5
[[token]]
name = "bob"
token = "bob-bob-bob-bob-bob"
[[token]]
name = "lane"
token = "lane-lane-lane-lane"
role = "worker"
[[token]]
name = "root"
token = "root-root-root-root"
role = "admin"
"""


def job(candidate=TRIVIAL, **more):
    return {"candidate": candidate, "task": "activation/1_relu", **more}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    running = Server(
        "--tasks", ROOT / "tasks", "--queue", f"sqlite:{folder}/q.db", "--store", folder / "v.db",
        "--lanes", 1, "--max-body", 1, "--body-timeout", 2, "--max-connections", 700,
    )  # fmt: skip
    running.folder = folder
    yield running
    code = running.terminate()
    running.close()
    assert code == 0, "".join(running.log[-20:])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens.toml").write_text(TOKENS)
    running = Server(
        "--tasks",
        ROOT / "tasks",
        "--queue",
        f"sqlite:{folder}/q.db",
        "--token-file",
        folder / "tokens.toml",
        "--no-lanes",
    )
    yield running
    running.close()


# --- jobs


def test_submit_and_wait(server):
    view = server.post("/v1/verify", job(labels={"run": 1}, step=3))
    assert view["state"] == "done"
    assert view["status"].startswith("compile_error")
    assert view["reward"] == -1.0
    assert view["extra"] == {"labels": {"run": 1}, "step": 3}
    assert view["verdict"]["status"] == view["status"]
    assert view["feedback"]
    again = server.get(f"/v1/jobs/{view['id']}?source=1")
    assert again["candidate"] == TRIVIAL
    assert "class Model" in again["reference"]


def test_many_and_order(server):
    answers = [f"{TRIVIAL} {i}" for i in range(20)]
    reply = server.post("/v1/verify", {"jobs": [job(a, n=i) for i, a in enumerate(answers)]})
    assert [one["extra"]["n"] for one in reply["jobs"]] == list(range(20))
    assert all(one["state"] == "done" for one in reply["jobs"])


def test_idempotency_and_cache(server):
    first = server.post("/v1/verify", job("idempotent", idempotency_key="key-1"))
    assert server.post("/v1/jobs", job("idempotent", idempotency_key="key-1"))["id"] == first["id"]
    server.post("/v1/jobs", job("another", idempotency_key="key-1"), expect=409)
    cached = server.post("/v1/jobs", job("idempotent"))
    assert cached["cached"] and cached["state"] == "done" and cached["id"] != first["id"]


def test_keys_hold_under_concurrency(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bodies = [job("concurrent", idempotency_key="together")] * 32
        views = list(pool.map(lambda body: server.call("POST", "/v1/jobs", body)[1], bodies))
    assert len({view["id"] for view in views}) == 1


def test_server_sent_events(server):
    view = server.post("/v1/jobs", job("events please", reuse=False), expect=202)
    path = f"/v1/jobs/{view['id']}/events"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", path)
    reply = connection.getresponse()
    assert reply.headers["Content-Type"] == "text/event-stream"
    blocks = [b for b in reply.read().decode().split("\n\n") if b.startswith("event:")]
    last = dict(line.split(": ", 1) for line in blocks[-1].split("\n"))
    assert last["event"] == "done"
    assert json.loads(last["data"])["verdict"]["status"].startswith("compile_error")
    ids = [int(dict(line.split(": ", 1) for line in block.split("\n"))["id"]) for block in blocks]
    assert ids == sorted(set(ids))
    connection.request("GET", "/health")  # the events came in chunks: the connection goes on
    assert connection.getresponse().status == 200
    connection.close()
    # HTTP/1.0 knows no chunks: the events end with the connection.
    old = server.raw(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = old.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower() and body.startswith(b"event: done\n")


def test_verdicts_are_stored_and_found(server):
    server.post("/v1/verify", job("to be found later", labels={"mark": "needle-17"}))
    for _ in range(50):
        found = server.get("/v1/verdicts?q=needle-17")["verdicts"]
        if found:
            break
        time.sleep(0.1)
    assert len(found) == 1
    assert server.get(f"/v1/verdicts/{found[0]['key']}")["extra"]["labels"]["mark"] == "needle-17"
    assert server.get("/v1/verdicts?q=no-such-needle")["verdicts"] == []
    listed = subprocess.run(
        [PROGRAM, "store", "query", server.folder / "v.db", "--text", "needle-17", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(listed.stdout)["labels"]["mark"] == "needle-17"


def test_numbers(server):
    stats = server.get("/v1/stats?window=600&buckets=10")
    assert stats["workers"][0]["kind"] == "local"
    assert stats["verdicts"]["counts"]["compile_error"] > 0
    text = server.get("/metrics").decode()
    assert 'musacoder_jobs_ended_total{class="compile_error"}' in text
    assert server.get("/openapi.json")["openapi"] == "3.1.0"
    assert server.get("/ready")["ready"] is True
    assert any(row["event"] == "job_ended" and row["job"].startswith("j-") for row in server.events())


def test_trainer_routes(server):
    sample = {"prompt": "p", "response": TRIVIAL, "label": "activation/1_relu"}
    assert server.post("/rm", sample) == -1.0
    batch = {"query": ["p" + TRIVIAL], "prompts": ["p"], "labels": ["activation/1_relu"]}
    assert server.post("/get_reward", batch)["rewards"] == [-1.0]
    server.post("/reset", {"task": "activation/1_relu"})
    step = server.post("/step", {"action": {"candidate": TRIVIAL}})
    assert step["reward"] == -1.0 and step["observation"]["feedback"] and not step["done"]


# --- WebSocket


def test_websocket(server):
    ws = WebSocket(server.port)
    assert ws.status == 101
    ws.send({"type": "ping", "ref": "x"})
    assert ws.json() == {"type": "pong", "ref": "x"}
    ws.send({"type": "submit", "ref": "a", "job": job("over a websocket")})
    accepted = ws.json()
    assert accepted["type"] == "accepted" and accepted["ref"] == "a"
    seen = []
    while not seen or seen[-1]["type"] != "result":
        seen.append(ws.json())
    assert seen[-1]["job"]["verdict"]["status"].startswith("compile_error")
    assert {message["ref"] for message in seen} == {"a"}
    ws.send({"type": "watch", "id": seen[-1]["job"]["id"]})
    assert ws.json()["type"] == "result"
    for bad in (
        {"type": "dance"},
        {"type": "submit", "job": 3},
        {"type": "watch", "id": "j-none"},
        [],
        {"ref": 5},
    ):
        ws.send(bad)
        assert ws.json()["type"] == "error"
    ws.send_raw(ws.frame(b"{"))
    assert ws.json()["error"]["status"] == 400
    ws.send_raw(ws.frame(b"", opcode=8))
    assert ws.close_code() in (1000, 1005)


def test_open_env_websocket(server):
    ws = WebSocket(server.port, "/ws")
    ws.send({"type": "state"})
    assert ws.json() == {"type": "state", "data": {"episode_id": None, "step_count": 0, "task": "", "done": False,
                                                   "verified": False, "rewards": [], "best": None, "max_turns": 0}}  # fmt: skip
    ws.send({"type": "step", "data": {"candidate": "x"}})
    assert ws.json()["data"]["code"] == "SESSION_ERROR"
    ws.send({"type": "reset", "data": {"task": "activation/1_relu", "max_turns": 1}})
    assert "class Model" in ws.json()["data"]["observation"]["prompt"]
    ws.send({"type": "step", "data": {"candidate": TRIVIAL}})
    reply = ws.json()
    assert reply["data"]["reward"] == -1.0 and reply["data"]["done"] is True
    ws.send({"type": "close"})
    assert ws.close_code() == 1000


@pytest.mark.parametrize(
    "what, code",
    [
        ("unmasked", 1002),
        ("reserved bits", 1002),
        ("reserved opcode", 1002),
        ("continuation of nothing", 1002),
        ("fragmented control", 1002),
        ("long control", 1002),
        ("invalid utf-8", 1007),
        ("binary", 1003),
        ("too large", 1009),
    ],
)
def test_malformed_frames(server, what, code):
    ws = WebSocket(server.port, timeout=20)
    text = b'{"type":"ping"}'
    frames = {
        "unmasked": ws.frame(text, masked=False),
        "reserved bits": bytes([0xF1]) + ws.frame(text)[1:],
        "reserved opcode": ws.frame(text, opcode=3),
        "continuation of nothing": ws.frame(text, opcode=0),
        "fragmented control": ws.frame(b"", opcode=9, fin=False),
        "long control": ws.frame(b"x" * 200, opcode=9),
        "invalid utf-8": ws.frame(b"\xff\xfe\xfd"),
        "binary": ws.frame(text, opcode=2),
        "too large": ws.frame(b"", length=1 << 40),
    }
    ws.send_raw(frames[what])
    assert ws.close_code() == code
    server.get("/health")


def test_random_bytes_do_no_harm(server):
    def no_more(s):
        with contextlib.suppress(OSError):  # the server may have closed already
            s.shutdown(socket.SHUT_WR)

    for size in (1, 100, 5000):
        server.raw(os.urandom(size), timeout=3, more=no_more)
        ws = WebSocket(server.port, timeout=5)
        ws.send_raw(os.urandom(size))
        no_more(ws.s)
        read_all(ws.s)
    server.get("/health")


# --- limits and hostile requests


def head(status):
    return f"HTTP/1.1 {status} ".encode()


def test_oversized_body(server):
    announced = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    assert server.raw(announced).startswith(head(413))
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    chunked = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 20
    assert server.raw(chunked).startswith(head(413))


def test_slow_body_and_header(server):
    begin = time.monotonic()
    reply = server.raw(
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", timeout=30
    )
    assert reply.startswith(head(408)), reply
    assert b"DEADLINE_EXCEEDED" in reply
    assert time.monotonic() - begin < 20


def test_header_flood(server):
    flood = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"".join(
        b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(1000)
    )
    assert server.raw(flood + b"\r\n").startswith(head(431))
    assert server.raw(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n").startswith(head(431))


def test_smuggling_and_nonsense(server):
    both = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert server.raw(both).startswith(head(400))
    two = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"
    assert server.raw(two).startswith(head(400))
    assert server.raw(b"NONSENSE\r\n\r\n").startswith(head(400))
    assert server.raw(b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").startswith(head(400))


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/jobs/..%2f..%2fetc%2fpasswd",
                                  "/v1/tasks/../../etc/passwd", "/v1/tasks/%2fetc%2fpasswd", "/dashboard/%00", "//etc/passwd"])  # fmt: skip
def test_path_traversal(server, path):
    reply = server.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert reply[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 404"), reply[:200]
    assert b"root:" not in reply


def test_task_is_never_a_path(server):
    for name in (
        "/etc/passwd",
        "../tasks/activation/1_relu.py",
        str(ROOT / "corpus/quickstart/right_relu/candidate.py"),
        "http://127.0.0.1:1/x",
    ):
        server.post("/v1/jobs", {"candidate": "x", "task": name}, expect=404)


def test_other_sites(server):
    server.get("/v1/queue", expect=403, headers={"Host": "evil.example"})
    server.get("/v1/queue", expect=403, headers={"Origin": "http://evil.example"})
    assert WebSocket(server.port, headers="Origin: http://evil.example\r\n").status == 403


def test_keep_alive_and_pipelining(server):
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert server.raw(one * 5 + last).count(b'"healthy"') == 6


def test_five_hundred_connections(server):
    sockets = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(500)]
    for s in sockets:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert all(b'"healthy"' in read_all(s) for s in sockets)
    for s in sockets:
        s.close()


# --- tokens


def test_tokens(guarded):
    guarded.get("/v1/queue", expect=401)
    guarded.get("/v1/queue", expect=401, token="guess")
    guarded.get("/health")
    view = guarded.post("/v1/jobs", job("alice's"), expect=202, token="alice-alice-alice")
    path = f"/v1/jobs/{view['id']}"
    assert guarded.get(path, token="alice-alice-alice")["owner"] == "alice"
    guarded.get(path, expect=404, token="bob-bob-bob-bob-bob")
    guarded.get(path, token="root-root-root-root")
    guarded.post("/v1/lease", {"worker": "w"}, expect=403, token="bob-bob-bob-bob-bob")
    guarded.post("/v1/jobs", job(), expect=403, token="lane-lane-lane-lane")
    assert WebSocket(guarded.port).status == 401
    assert WebSocket(guarded.port, "/v1/ws?access_token=bob-bob-bob-bob-bob").status == 101
    jobs = [job(f"more {i}") for i in range(5)]
    status, value, headers = guarded.call("POST", "/v1/jobs", {"jobs": jobs}, token="alice-alice-alice")
    assert status == 429 and int(headers["Retry-After"]) >= 1 and value["error"]["infra"]
    # A wrong token with a large body is refused before the body is read.
    reply = guarded.raw(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
    assert reply.startswith(head(401))
    assert any(row["reason"] == "token" for row in guarded.events("refused"))
    assert "alice-alice" not in "".join(guarded.log)


def test_refuses_to_bind_elsewhere_without_tokens(tmp_path):
    for address in ("0.0.0.0:0", "[::]:0"):
        run = subprocess.run(
            [PROGRAM, "serve", "--listen", address, "--queue", "memory"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode == 2
        assert "--token-file" in run.stderr
    run = subprocess.run(
        [PROGRAM, "serve", "--listen", "nonsense"], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 2


def certificate(folder):
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        capture_output=True,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("no openssl program to make a certificate with")
    return ["--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"]


def test_tls(tmp_path):
    server = Server("--queue", "memory", "--no-lanes", *certificate(tmp_path))
    try:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        with context.wrap_socket(raw, server_hostname="localhost") as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b'"healthy"' in read_all(s)
        assert b"healthy" not in server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout=5)
    finally:
        server.close()


def test_a_worker_over_tls_trusts_only_its_authority(tmp_path):
    queue = f"sqlite:{tmp_path}/q.db"
    plain = Server("--tasks", ROOT / "tasks", "--queue", queue, "--no-lanes")
    secure = Server("--queue", queue, "--no-lanes", *certificate(tmp_path))
    workers = []
    try:
        view = plain.post("/v1/jobs", job("through TLS"), expect=202)
        url = f"https://localhost:{secure.port}"
        workers.append(Process("worker", "--queue", url))
        time.sleep(3)
        assert plain.get(f"/v1/jobs/{view['id']}")["state"] == "queued", (
            "the certificate is not of the system's authorities"
        )
        assert any("TLS failed" in row["error"] for row in workers[0].events("lease_failed"))
        workers.append(Process("worker", "--queue", url, "--tls-ca", tmp_path / "cert.pem"))
        assert plain.wait(view["id"], 60)["state"] == "done"
    finally:
        for one in [plain, secure, *workers]:
            one.close()


def test_store_commands(server, tmp_path):
    server.post("/v1/verify", job('=SUM(A1) for the store, with a "quote"', labels={"mark": "csv-mark"}))
    until(lambda: server.get("/v1/verdicts?q=csv-mark")["verdicts"])

    def store(*arguments, expect=0):
        run = subprocess.run(
            [PROGRAM, "store", *map(str, arguments)], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == expect, run.stderr
        return run.stdout

    file, copy = server.folder / "v.db", tmp_path / "copy.db"
    rows = list(csv.DictReader(store("export", file, "--format", "csv").splitlines()))
    assert any("csv-mark" in row["extra"] and row["status"].startswith("compile_error") for row in rows)
    store("export", file, "-o", tmp_path / "v.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert len(lines) == len(rows) and all(line["version"] == 1 for line in lines)
    assert "compile_error" in store("query", file, "--class", "compile_error", "--limit", 2)
    store("backup", file, copy)
    store("backup", file, copy, expect=2)
    assert store("prune", copy, "--older-than", 1).startswith("0 ")
    assert store("prune", copy, "--older-than", 0) != ""
    store("query", tmp_path / "none.db", expect=2)
    assert not (tmp_path / "none.db").exists()


# --- workers and sudden death


@pytest.mark.parametrize("way", ["http", "sqlite"])
def test_a_worker_of_its_own(tmp_path, way):
    (tmp_path / "tokens.toml").write_text(TOKENS)
    queue = f"sqlite:{tmp_path}/q.db"
    server = Server(
        "--tasks", ROOT / "tasks", "--queue", queue, "--token-file", tmp_path / "tokens.toml", "--no-lanes"
    )
    worker = None
    try:
        ids = [
            server.post("/v1/jobs", job(f"remote {i}"), expect=202, token="root-root-root-root")["id"]
            for i in range(3)
        ]
        target = f"http://127.0.0.1:{server.port}" if way == "http" else queue
        worker = Process(
            "worker", "--queue", target, "--lanes", 1, env={"MUSACODER_TOKEN": "lane-lane-lane-lane"}
        )
        for one in ids:
            view = server.get(f"/v1/jobs/{one}?wait=60", token="root-root-root-root")
            assert view["state"] == "done" and view["status"].startswith("compile_error")
        assert worker.terminate() == 0
    finally:
        server.close()
        if worker:
            worker.close()


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come about")


@slow
@pytest.mark.parametrize("way", ["http", "sqlite"])
def test_killing_a_worker_loses_nothing(tmp_path, way):
    queue = f"sqlite:{tmp_path}/q.db"
    server = Server("--queue", queue, "--no-lanes")
    target = f"http://127.0.0.1:{server.port}" if way == "http" else queue
    workers = [Process("worker", "--queue", target, "--visibility", 3)]
    try:
        view = server.post("/v1/jobs", real_job(), expect=202)
        path = f"/v1/jobs/{view['id']}"
        until(lambda: server.get(path)["state"] == "running")
        workers[0].kill()
        workers.append(Process("worker", "--queue", target, "--visibility", 3))
        done = server.wait(view["id"])
        assert (done["state"], done["status"], done["deaths"]) == ("done", "ok", 1)
    finally:
        for one in [server, *workers]:
            one.close()


@slow
def test_killing_the_server_loses_nothing(tmp_path):
    queue, store = f"sqlite:{tmp_path}/q.db", tmp_path / "v.db"
    server = Server("--queue", queue, "--store", store, "--lanes", 1)
    try:
        ids = [server.post("/v1/jobs", real_job(idempotency_key="real"), expect=202)["id"]]
        ids += [
            server.post("/v1/jobs", {**real_job(), "candidate": f"nothing {i}"}, expect=202)["id"]
            for i in range(5)
        ]
        until(lambda: server.get(f"/v1/jobs/{ids[0]}")["state"] == "running")
        server.kill()
        server.close()
        server = Server("--queue", queue, "--store", store, "--lanes", 1)
        assert server.post("/v1/jobs", real_job(idempotency_key="real"), expect=202)["id"] == ids[0]
        views = [server.wait(one) for one in ids]
        assert [view["state"] for view in views] == ["done"] * 6
        assert views[0]["status"] == "ok" and views[0]["deaths"] == 1
        assert server.get("/v1/queue")["ended"] == 6
        until(lambda: len(server.get("/v1/verdicts")["verdicts"]) == 6)
    finally:
        server.close()


@slow
def test_what_a_killed_server_left_is_removed_by_the_next(tmp_path):
    scratch = {"MUSACODER_TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    server = Server("--queue", "memory", "--lanes", 1, env=scratch)
    view = server.post("/v1/jobs", real_job(), expect=202)
    until(lambda: server.get(f"/v1/jobs/{view['id']}")["state"] == "running")
    left = os.listdir(tmp_path / "scratch")
    server.kill()
    server.close()
    assert os.listdir(tmp_path / "scratch") == left
    server = Server("--queue", "memory", "--lanes", 1, env=scratch)
    try:
        assert not set(os.listdir(tmp_path / "scratch")) & set(left)
        assert server.terminate() == 0
        assert os.listdir(tmp_path / "scratch") == []
    finally:
        server.close()


@slow
def test_draining_finishes_what_runs(tmp_path):
    queue = f"sqlite:{tmp_path}/q.db"
    server = Server("--queue", queue, "--lanes", 1, "--drain", 120)
    try:
        view = server.post("/v1/jobs", real_job(), expect=202)
        until(lambda: server.get(f"/v1/jobs/{view['id']}")["state"] == "running")
        waiting = concurrent.futures.ThreadPoolExecutor(1).submit(server.wait, view["id"])
        server.child.terminate()
        until(lambda: server.call("POST", "/v1/jobs", real_job())[0] == 503)
        assert waiting.result(150)["status"] == "ok"
        assert server.child.wait(150) == 0
    finally:
        server.close()


@slow
def test_drain_time_over_gives_jobs_back(tmp_path):
    queue = f"sqlite:{tmp_path}/q.db"
    server = Server("--queue", queue, "--lanes", 1, "--drain", 0.1)
    try:
        view = server.post("/v1/jobs", real_job(), expect=202)
        until(lambda: server.get(f"/v1/jobs/{view['id']}")["state"] == "running")
        assert server.terminate(120) == 0
        server.close()
        server = Server("--queue", queue, "--no-lanes")
        back = server.get(f"/v1/jobs/{view['id']}")
        assert back["state"] in ("queued", "done") and back["deaths"] == 0
    finally:
        server.close()

"""The Python client against the real `musacoder serve`; a scripted server stands in only where a fault must be injected.

Run: pytest tests/python/test_client.py
"""

import asyncio
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import pytest
from service_support import PROGRAM, ROOT, TRIVIAL, Server, real_job

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PACKAGE))

import musacoder  # noqa: E402
from musacoder import Client, Result, job_of  # noqa: E402
from musacoder.client import _batches, _retry_after  # noqa: E402

built = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
TASK = "activation/1_relu"
TOKENS = """
[[token]]
name = "rich"
token = "rich-rich-rich-rich"
[[token]]
name = "poor"
token = "poor-poor-poor-poor"
max_unfinished = 5
[[token]]
name = "lane"
token = "lane-lane-lane-lane"
role = "worker"
"""


def served(folder, *more, **kw):
    return Server(
        "--tasks", ROOT / "tasks", "--queue", f"sqlite:{folder}/q.db", "--store", folder / "v.db", *more, **kw
    )  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    (folder / "tokens.toml").write_text(TOKENS)
    running = served(folder, "--token-file", folder / "tokens.toml", "--lanes", 2)
    yield running
    running.close()


@pytest.fixture
def judge(server):
    with Client(f"http://127.0.0.1:{server.port}", token="rich-rich-rich-rich", timeout=120) as client:
        yield client


# --- against the real service


@built
def test_right_wrong_and_no_code_in_one_call(judge):
    jobs = [real_job("right_relu"), real_job("wrong_values"), job_of(TRIVIAL, task=TASK)]
    right, wrong, nothing = judge.verify_many(jobs)
    assert right.verified and right.reward >= 1.0 and right.status == "ok" and right.verdict["status"] == "ok"
    assert wrong.status.startswith("correctness_error:values") and -1.0 <= wrong.reward < 0
    assert nothing.status.startswith("compile_error") and nothing.reward == -1.0 and nothing.feedback
    assert not any(r.infra or r.undecided for r in (right, wrong, nothing))
    again = judge.verify(**real_job("right_relu"))
    assert again.view["cached"] and again.reward == right.reward


@built
def test_parts(judge):
    submitted = judge.submit(job_of(TRIVIAL + " parts", task=TASK, labels={"run": 7}, step=3))
    ended = judge.wait(submitted.job)
    assert ended.ended and ended.reward == -1.0 and ended.view["extra"] == {"labels": {"run": 7}, "step": 3}
    assert judge.get(submitted.job, source=True).view["candidate"].endswith("parts")
    assert judge.cancel(submitted.job).state == "done"  # a job ends once
    assert TASK in [one["id"] for one in judge.tasks(q="relu")]
    assert "class Model" in judge.task(TASK)["code"]
    assert judge.queue()["lanes"] == 2


@built
def test_mistakes_of_the_caller_raise(judge):
    with pytest.raises(musacoder.NotFound, match="no task"):
        judge.verify(TRIVIAL, task="no/such")
    with pytest.raises(musacoder.InvalidRequest) as error:
        judge.verify(TRIVIAL, task=TASK, round=0)
    assert "round" in error.value.field and error.value.status == 422 and error.value.request_id
    judge.submit(job_of("one", task=TASK, idempotency_key="same"))
    with pytest.raises(musacoder.Conflict):
        judge.submit(job_of("two", task=TASK, idempotency_key="same"))
    with pytest.raises(musacoder.NotFound):
        judge.wait("j-none")
    with pytest.raises(ValueError, match="task"):
        judge.verify(TRIVIAL)


@built
def test_what_a_model_may_write(judge):
    for answer in ("", " ", "\ud800 half a surrogate", "\x00\x1b", "```python\n" * 1000):
        result = judge.verify(answer, task=TASK)
        assert result.reward == -1.0 and not result.infra, result


@built
def test_asyncio(judge):
    async def together():
        results = await asyncio.gather(
            *(judge.verify_async(f"{TRIVIAL} {i}", task=TASK) for i in range(20)),
            judge.verify_many_async([job_of(TRIVIAL, task=TASK)] * 3),
        )
        job = await judge.submit_async(job_of("waits", task=TASK))
        return results, await judge.wait_async(job.job), await judge.cancel_async(job.job)

    results, waited, cancelled = asyncio.run(together())
    assert {r.reward for r in results[:20]} | {r.reward for r in results[20]} == {-1.0}
    assert waited.state == cancelled.state == "done"


@built
def test_a_forked_child_has_its_own_connection(judge):
    judge.queue()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if judge.verify("from the child", task=TASK).reward == -1.0 else 1)
    assert judge.verify("from the parent", task=TASK).reward == -1.0
    assert os.waitpid(pid, 0)[1] == 0


@built
def test_nobody_judges_in_time(tmp_path):
    running = served(tmp_path, "--no-lanes")
    try:
        with Client(f"http://127.0.0.1:{running.port}") as client:
            result = client.verify(TRIVIAL, task=TASK, timeout=0.5)
            assert result.reward is None and result.infra
            assert result.status in ("infra:client_timeout", "infra:deadline")
            job = client.submit(job_of("later", task=TASK)).job
            with pytest.raises(musacoder.DeadlineExceeded):
                client.wait(job, timeout=0.2)
            cancelled = client.cancel(job)
            assert (cancelled.reward, cancelled.infra, cancelled.status) == (None, True, "infra:cancelled")
    finally:
        running.close()


@built
def test_a_wait_goes_on_when_the_server_was_killed_and_restarted(tmp_path):
    first, box = served(tmp_path, "--no-lanes"), {}
    with Client(f"http://127.0.0.1:{first.port}", timeout=60, retries=20) as client:
        waits = threading.Thread(target=lambda: box.update(got=client.verify(TRIVIAL, task=TASK, step=1)))
        waits.start()
        while not client.queue()["queued"]:
            time.sleep(0.02)
        first.close()
        second = served(tmp_path, "--no-lanes", port=first.port)
        try:
            [job] = second.get("/v1/jobs")["jobs"]
            client.cancel(job["id"])
            waits.join(60)
            assert box["got"].job == job["id"] and box["got"].status == "infra:cancelled"
            assert (box["got"].reward, box["got"].infra) == (None, True)
            assert len(second.get("/v1/jobs")["jobs"]) == 1
        finally:
            second.close()


@built
def test_tokens_and_quota(server):
    url = f"http://127.0.0.1:{server.port}"
    with pytest.raises(musacoder.Unauthenticated):
        Client(url).verify(TRIVIAL, task=TASK)
    with pytest.raises(musacoder.PermissionDenied):
        Client(url, token="lane-lane-lane-lane").verify(TRIVIAL, task=TASK)
    with Client(url, token="poor-poor-poor-poor", timeout=60) as client:
        jobs = [job_of(f"{TRIVIAL} {i}", task=TASK, n=i) for i in range(23)]
        results = client.verify_many(jobs)  # more than may wait at once
    assert [r.view["extra"]["n"] for r in results] == list(range(23))
    assert {r.reward for r in results} == {-1.0}


def test_a_server_that_is_gone():
    pauses = []
    client = Client("http://127.0.0.1:9", retries=3, infra_retries=0, sleep=pauses.append)
    result = client.verify(TRIVIAL, task=TASK)
    assert (result.reward, result.infra, result.verified) == (None, True, False)
    assert "ConnectionFailed" in result.error and len(pauses) == 3
    assert all(
        low <= p <= high
        for p, (low, high) in zip(pauses, [(0.125, 0.25), (0.25, 0.5), (0.5, 1)], strict=True)
    )
    with pytest.raises(musacoder.ConnectionFailed):
        client.submit(job_of(TRIVIAL, task=TASK))


# --- faults injected by a scripted server


class Scripted(http.server.ThreadingHTTPServer):
    """Answers the n-th request with the n-th of `script`: (status, headers, body), "hang up", or "garbage"."""

    daemon_threads = True

    def __init__(self, *script):
        self.script, self.seen = list(script), []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def client(self, **kw):
        self.pauses = []
        options = {"timeout": 1000, "sleep": self.pauses.append, **kw}
        return Client(f"http://127.0.0.1:{self.server_address[1]}", **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, json.loads(body) if body else None))
        step = self.server.script.pop(0)
        if step == "hang up":
            self.connection.close()
            self.close_connection = True
            return
        if step == "garbage":
            step = (200, {}, b"<html>a proxy's page</html>")
        status, headers, body = step
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def view(reward=-1.0, state="done", status="compile_error:nvcc", infra=False, job="j-1"):
    return {"id": job, "state": state, "status": status, "reward": reward, "infra": infra, "verified": False}


def taken(*views):
    return (202, {}, {"jobs": list(views), "queue_depth": 1})


def busy(status=503, retry_after=12, code="RESOURCE_EXHAUSTED"):
    error = {"code": code, "message": "full", "infra": True, "retry_after_s": retry_after}
    return (status, {"Retry-After": retry_after}, {"error": error})


def test_retries_keep_the_key_and_heed_retry_after():
    script = [busy(503), busy(429, 7), "hang up", "garbage", (502, {}, b"bad gateway"), taken(view())]
    with Scripted(*script) as fake, fake.client() as client:
        assert client.verify("x", task=TASK).reward == -1.0
        keys = {body["jobs"][0]["idempotency_key"] for _, _, body in fake.seen}
    assert len(fake.seen) == 6 and len(keys) == 1
    assert fake.pauses[0] >= 12 and fake.pauses[1] >= 7 and all(p < 12 for p in fake.pauses[2:])


def test_retries_are_bounded():
    with Scripted(*[busy(429, 1)] * 3) as fake, fake.client(retries=2, infra_retries=0) as client:
        with pytest.raises(musacoder.QuotaExceeded) as error:
            client.submit(job_of("x", task=TASK))
        assert error.value.infra and error.value.retry_after_s == 1 and len(fake.seen) == 3
    with Scripted(busy(503, 3600)) as fake, fake.client(timeout=60) as client:
        result = client.verify("x", task=TASK)  # would wait longer than there is time
        assert (result.reward, result.infra, fake.pauses) == (None, True, [])


def test_mistakes_are_not_repeated():
    refusal = (422, {}, {"error": {"code": "INVALID_ARGUMENT", "message": "no", "field": "policy"}})
    with Scripted(refusal) as fake, fake.client() as client:
        with pytest.raises(musacoder.InvalidRequest, match="policy: no"):
            client.verify("x", task=TASK)
        assert len(fake.seen) == 1


def test_an_infra_end_is_judged_anew_under_another_key():
    failed = view(None, "failed", "infra:worker", True)
    with Scripted(taken(failed), taken(view(1.2, status="ok", job="j-2"))) as fake, fake.client() as client:
        assert client.verify("x", task=TASK).reward == 1.2
    keys = [body["jobs"][0]["idempotency_key"] for _, _, body in fake.seen]
    assert len(set(keys)) == 2
    with Scripted(taken(failed), taken(failed)) as fake, fake.client() as client:
        result = client.verify("x", task=TASK)
        assert (result.reward, result.infra, result.status) == (None, True, "infra:worker")


def test_a_job_that_the_server_forgot_is_submitted_again():
    queued, lost = (
        view(None, "queued", None),
        (404, {}, {"error": {"code": "NOT_FOUND", "message": "no job"}}),
    )
    with Scripted(taken(queued), lost, taken(view())) as fake, fake.client() as client:
        assert client.verify("x", task=TASK).reward == -1.0
        assert [method for method, _, _ in fake.seen] == ["POST", "GET", "POST"]


def test_infra_is_never_a_number():
    for bad in (view(-1.0, infra=True), {**view(-1.0), "undecided": True}):
        assert Result.of_view(bad).reward is None
    with Scripted(taken(view(-1.0, infra=True, status="infra:x"))) as fake:
        assert fake.client(infra_retries=0).verify("x", task=TASK).reward is None


def test_batches_and_dates():
    assert [len(b) for b in _batches([job_of("x", task="t")] * 600)] == [256, 256, 88]
    assert [len(b) for b in _batches([job_of("x" * (3 << 20), task="t")] * 3)] == [1, 1, 1]
    assert _retry_after("1.5") == 1.5 and _retry_after("soon") is None
    assert _retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    with pytest.raises(ValueError, match="address"):
        Client("ftp://somewhere")


def test_installs_without_any_dependency(tmp_path):
    shutil.copytree(
        PACKAGE, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        tmp_path / "at",
        tmp_path / "source",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("no package index to have setuptools from, which pip builds with")
    assert done.returncode == 0, done.stderr
    [metadata] = (tmp_path / "at").glob("musacoder-*.dist-info/METADATA")
    assert "Requires-Dist" not in metadata.read_text()
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'at')!r}); import musacoder, musacoder.adapters"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)

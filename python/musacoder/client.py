"""The HTTP client of `musacoder serve`.

    judge = Client("http://127.0.0.1:8811", token="…", timeout=900)
    one = judge.verify(answer, task="level1/19")                       # waits, never raises for a fault of the machine
    many = judge.verify_many([job_of(a, task="level1/19") for a in answers])
    view = judge.submit(job_of(answer, reference=code, priority=5))    # the parts, which raise
    result = judge.wait(view.job); judge.cancel(view.job)
    many = await judge.verify_many_async(jobs)                         # each has an _async twin

Requests are repeated with growing, jittered pauses on broken connections, 408, 429 and 5xx, and after `Retry-After` where
the server says so. Every job carries an idempotency key, so that a repeated submission is the same job.

Thread safety: a Client may be used from any number of threads, and after a fork.
"""

import asyncio
import concurrent.futures
import email.utils
import http.client
import json
import os
import random
import ssl
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field

from .errors import ConnectionFailed, DeadlineExceeded, InfrastructureError, NotFound, error_of

ENDED = ("done", "failed", "cancelled", "expired")
_POLL_S = 30.0  # one long poll; the server allows 300
_BATCH_JOBS, _BATCH_BYTES = 256, 4 << 20  # the server allows 1024 and 8 MiB
_BACKOFF_S, _BACKOFF_MAX_S = 0.25, 30.0


@dataclass(frozen=True)
class Result:
    """What became of one job.

    reward is None where infra (the machine's fault: says nothing about the candidate, trying again may help) or undecided
    (the verdict says nothing about it either, and trying again will not help). Without infra, `status` is the verdict's:
    "ok", "compile_error:…", "correctness_error:…", "cheating:…" (docs/verdicts.md).
    """

    reward: float | None
    infra: bool
    undecided: bool = False
    verified: bool = False
    status: str | None = None
    state: str | None = None
    job: str | None = None
    feedback: str | None = None
    error: str | None = None
    verdict: dict | None = None
    view: dict = field(default_factory=dict, repr=False)

    @property
    def ended(self):
        return self.state in ENDED

    @staticmethod
    def of_view(view):
        infra, undecided = bool(view.get("infra")), bool(view.get("undecided"))
        error = view.get("error")
        return Result(
            reward=None if infra or undecided else view.get("reward"),
            infra=infra,
            undecided=undecided,
            verified=bool(view.get("verified")) and not infra,
            status=view.get("status"),
            state=view.get("state"),
            job=view.get("id"),
            feedback=view.get("feedback"),
            error=error if isinstance(error, str) or error is None else json.dumps(error),
            verdict=view.get("verdict"),
            view=view,
        )

    @staticmethod
    def of_fault(fault, job=None):
        name = {"DeadlineExceeded": "client_timeout", "NotFound": "job_lost"}.get(
            type(fault).__name__, "service"
        )
        return Result(None, True, status=f"infra:{name}", job=job, error=f"{type(fault).__name__}: {fault}")


def job_of(candidate, task=None, reference=None, **more):
    """A job as docs/service.md has it. candidate: code, or a model's raw answer; one of task, reference is needed.

    Lone surrogates, which some detokenizers leave behind, become "?": they are not Unicode and no JSON reader takes them.
    """
    if not task and not reference:
        raise ValueError("a job needs `task` (an id of the server's task set) or `reference` (code)")
    job = {"candidate": candidate, "task": task, "reference": reference, **more}
    return {
        k: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v
        for k, v in job.items()
        if v is not None
    }


class Client:
    """timeout: seconds for a whole verify or wait. retries: repetitions of one request that met no (or a busy) server.
    infra_retries: how often a job that ended in infra is judged anew (the server has by then tried three times itself).
    request_timeout: seconds for one reply. sleep, clock, uniform are there for tests."""

    def __init__(
        self, url="http://127.0.0.1:8811", token=None, timeout=900.0, retries=8, infra_retries=1,
        request_timeout=30.0, concurrency=64, context=None, sleep=time.sleep, clock=time.monotonic,
        uniform=random.uniform,
    ):  # fmt: skip
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) address: {url!r}")
        self.url, self.timeout, self.retries, self.infra_retries = url, timeout, retries, infra_retries
        self._parts, self._base, self._token = parts, parts.path.rstrip("/"), token
        self._request_timeout, self._concurrency, self._context = request_timeout, concurrency, context
        self._sleep, self._clock, self._uniform = sleep, clock, uniform
        self._local, self._pool, self._lock = threading.local(), None, threading.Lock()
        self._owner = os.getpid()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getstate__(self):
        raise TypeError("a Client holds sockets and its token: make one in each process instead")

    def close(self):
        """Ends this thread's connection and the threads of the _async calls."""
        self._drop()
        with self._lock:
            pool, self._pool = self._pool, None
        if pool and self._owner == os.getpid():
            pool.shutdown(wait=False, cancel_futures=True)

    # --- one or many, to the end: a fault of the machine is a Result with reward None and infra True

    def verify(self, candidate, task=None, reference=None, *, timeout=None, **more):
        """Judges one candidate. Raises only for the caller's mistakes (InvalidRequest, Unauthenticated, NotFound …)."""
        return self.verify_many([job_of(candidate, task, reference, **more)], timeout=timeout)[0]

    def verify_many(self, jobs, *, timeout=None):
        """Judges jobs (job_of, or plain dicts) at the same time; results in their order. Raises as verify does."""
        end = self._end(timeout)
        jobs, results = [dict(job) for job in jobs], [None] * len(jobs)
        left = list(range(len(jobs)))
        for turn in range(self.infra_retries + 1):
            batch = [dict(jobs[i]) for i in left]
            for job in batch:
                # The server gives the job up when nobody waits for it any more.
                job.setdefault("deadline_s", min(604800.0, max(0.1, round(end - self._clock(), 3))))
                if turn:  # a job that ended stays what it is under its key
                    job["idempotency_key"] = uuid.uuid4().hex
            for i, result in zip(left, self._judge(batch, end), strict=True):
                results[i] = result
            left = [i for i in left if _judge_anew(results[i])]
            if not left or self._clock() >= end:
                break
        return results

    def _judge(self, jobs, end):
        results = []
        for batch in _batches(jobs):
            results += self._submit_split(batch, end)
        return self._wait_all(results, end)

    def _submit_split(self, batch, end):
        """Submits all at once; where quota or queue have no room for so many, half of them, and the rest after their end."""
        try:
            return self._submit(batch, end, busy_retries=0 if len(batch) > 1 else self.retries)
        except InfrastructureError as fault:
            if fault.code != "RESOURCE_EXHAUSTED" or len(batch) == 1:
                return [Result.of_fault(fault)] * len(batch)
        half = len(batch) // 2
        first = self._wait_all(self._submit_split(batch[:half], end), end)
        return first + self._submit_split(batch[half:], end)

    def _wait_all(self, results, end):
        for i, result in enumerate(results):
            if result.job and not result.ended:
                try:
                    results[i] = self._wait(result.job, end)
                except (InfrastructureError, NotFound) as fault:  # NotFound: a queue in memory was restarted
                    results[i] = Result.of_fault(fault, result.job)
        return results

    # --- the parts, which raise InfrastructureError too

    def submit(self, job, *, timeout=None):
        """Queues one job and returns at once; `.job` is its id, `.ended` true where an earlier verdict answered."""
        return self._submit([dict(job)], self._end(timeout))[0]

    def submit_many(self, jobs, *, timeout=None):
        """Queues jobs, in batches that are each taken whole or not at all."""
        end = self._end(timeout)
        return [one for batch in _batches([dict(job) for job in jobs]) for one in self._submit(batch, end)]

    def wait(self, job, *, timeout=None):
        """Waits for a job's end. Raises DeadlineExceeded when it has not ended in time; the job goes on."""
        return self._wait(job, self._end(timeout))

    def get(self, job, *, source=False):
        """A job as it is now; source: with candidate, reference and extracted code in `.view`."""
        query = "?source=1" if source else ""
        return Result.of_view(self._request("GET", f"/v1/jobs/{_quoted(job)}{query}", None, self._end(None)))

    def cancel(self, job):
        """Ends a job as cancelled; one that had ended stays as it was."""
        return Result.of_view(self._request("DELETE", f"/v1/jobs/{_quoted(job)}", None, self._end(None)))

    def tasks(self, q="", limit=1000, offset=0):
        """The server's task set: [{"id", "name", "level"}]."""
        query = urllib.parse.urlencode({"q": q, "limit": limit, "offset": offset})
        return self._request("GET", f"/v1/tasks?{query}", None, self._end(None))["tasks"]

    def task(self, task):
        """One task with its `code`."""
        return self._request("GET", f"/v1/tasks/{urllib.parse.quote(task)}", None, self._end(None))

    def queue(self):
        """Depth, lanes and expected wait (docs/service.md, /v1/queue)."""
        return self._request("GET", "/v1/queue", None, self._end(None))

    # --- asyncio: the same on threads of this client's own

    async def verify_async(self, *a, **kw):
        return await self._thread(self.verify, *a, **kw)

    async def verify_many_async(self, *a, **kw):
        return await self._thread(self.verify_many, *a, **kw)

    async def submit_async(self, *a, **kw):
        return await self._thread(self.submit, *a, **kw)

    async def wait_async(self, *a, **kw):
        return await self._thread(self.wait, *a, **kw)

    async def cancel_async(self, *a, **kw):
        return await self._thread(self.cancel, *a, **kw)

    async def _thread(self, call, *a, **kw):
        with self._lock:
            if self._pool is None or self._owner != os.getpid():
                self._pool = concurrent.futures.ThreadPoolExecutor(self._concurrency, "musacoder")
                self._owner = os.getpid()
            pool = self._pool
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: call(*a, **kw))

    # --- inside

    def _end(self, timeout):
        return self._clock() + (self.timeout if timeout is None else timeout)

    def _submit(self, jobs, end, busy_retries=None):
        for job in jobs:
            job.setdefault("idempotency_key", uuid.uuid4().hex)
        reply = self._request("POST", "/v1/jobs", {"jobs": jobs}, end, busy_retries=busy_retries)
        views = reply.get("jobs")
        if not isinstance(views, list) or len(views) != len(jobs):
            raise ConnectionFailed(
                f"asked for {len(jobs)} jobs, the reply has none or others: is {self.url} MooreEval?"
            )
        return [Result.of_view(view) for view in views]

    def _wait(self, job, end):
        while True:
            left = max(0.0, end - self._clock())
            poll = min(_POLL_S, left)
            view = self._request("GET", f"/v1/jobs/{_quoted(job)}?wait={poll:.3f}", None, end, poll)
            result = Result.of_view(view)
            if result.ended:
                return result
            if left <= poll:
                raise DeadlineExceeded(f"{job} is still {result.state} ({view.get('stage') or 'waiting'})")

    def _request(self, method, path, body, end, poll=0.0, busy_retries=None):
        payload = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        for turn in range(self.retries + 1):
            try:
                status, headers, data = self._once(method, path, payload, poll)
                try:
                    value = json.loads(data) if data else {}
                except ValueError:
                    value = None
                if status < 300 and isinstance(value, dict):
                    return value
                if status < 300:
                    fault = ConnectionFailed(
                        f"{self.url} answered {status} with something that is not an object"
                    )
                else:
                    fault = error_of(status, value, _retry_after(headers.get("Retry-After")))
                    if not fault.infra:
                        raise fault
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError):
                    raise ConnectionFailed(f"{self.url}: {error}") from error
                fault = ConnectionFailed(f"{self.url}: {type(error).__name__}: {error}")
            # Full jitter on the upper half, so that a thousand clients do not come back together.
            pause = min(_BACKOFF_MAX_S, _BACKOFF_S * 2**turn)
            pause = max(self._uniform(pause / 2, pause), fault.retry_after_s or 0.0)
            busy = busy_retries is not None and fault.code == "RESOURCE_EXHAUSTED"
            if turn >= (busy_retries if busy else self.retries) or self._clock() + pause > end:
                raise fault
            self._sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, method, path, payload, poll):
        connection = self._connection(self._request_timeout + poll)
        headers = {"Accept": "application/json", "X-Request-Id": f"py-{uuid.uuid4().hex[:16]}"}
        if payload is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, self._base + path, payload, headers)
            reply = connection.getresponse()
            data = reply.read()
        except BaseException:
            self._drop()
            raise
        if reply.will_close:
            self._drop()
        return reply.status, reply.headers, data

    def _connection(self, timeout):
        here = self._local.__dict__
        if here.get("pid") != os.getpid():  # a forked child must not speak on its parent's socket
            here.clear()
        connection = here.get("connection")
        if connection is None:
            if self._parts.scheme == "https":
                connection = http.client.HTTPSConnection(
                    self._parts.hostname, self._parts.port, timeout=timeout, context=self._context
                )
            else:
                connection = http.client.HTTPConnection(
                    self._parts.hostname, self._parts.port, timeout=timeout
                )
            here.update(connection=connection, pid=os.getpid())
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def _drop(self):
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None and self._local.__dict__.get("pid") == os.getpid():
            connection.close()


def _judge_anew(result):
    """True for an end that another try may change; a request that failed has had its retries, and its job may still run."""
    if not result.ended:
        return result.status == "infra:job_lost"
    return result.infra and result.status not in ("infra:cancelled", "infra:deadline", "infra:poison")


def _quoted(job):
    return urllib.parse.quote(str(job), safe="")


def _batches(jobs):
    batch, size = [], 0
    for job in jobs:
        bytes_ = len(json.dumps(job)) + 64  # 64: the idempotency key that may be added
        if batch and (len(batch) == _BATCH_JOBS or size + bytes_ > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(job)
        size += bytes_
    if batch:
        yield batch


def _retry_after(text):
    """Seconds; RFC 9110 allows a number or a date."""
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None

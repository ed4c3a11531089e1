#!/usr/bin/env python3
"""A stand-in for `musacoder serve` whose rewards a few lines of Python decide: no compiler, no device, microseconds a job.

    python bench/rl/scripted_verifier.py serve --listen 127.0.0.1:0          # prints "listening on http://127.0.0.1:40123"

It speaks the part of the job API that training uses (docs/service.md, section 2): POST /v1/jobs, GET /v1/jobs/{id}?wait=,
bearer tokens, idempotency keys. `verifier.program` may name it, or a `verifier.url`. MUSACODER_SCRIPTED_REWARD chooses
what is paid, MUSACODER_SCRIPTED_DELAY_S how long a job takes, MUSACODER_SCRIPTED_INFRA=N makes each N-th job end in infra
(of its first try).

Rewards have the form of the real one (eq. 2 of the MusaCoder paper): -1 for nothing right, -0.5 + 0.5 q for a part q, 1 for all:

    letters   q: the part of the answer's characters that are a to z; an empty answer has none
    target    the task's code is a line "# want: TEXT"; q: the part of TEXT that the answer begins with; all: the answer is TEXT
"""

import argparse
import hashlib
import http.server
import json
import os
import re
import threading
import time
import urllib.parse


def paid(q):
    return (
        (-1.0, "correctness_error:values")
        if q <= 0
        else (1.0, "ok")
        if q >= 1
        else (-0.5 + 0.5 * q, "correctness_error:values")
    )


def letters(job):
    text = job["candidate"]
    if not text:
        return -1.0, "compile_error:extract", "There is no answer."
    q = sum("a" <= c <= "z" for c in text) / len(text)
    return *paid(q), f"{q:.2f} of the answer are letters. Write letters only."


def target(job):
    want = re.search(r"# want: (.*)", job["reference"]).group(1)
    text = job["candidate"]
    if not text:
        return -1.0, "compile_error:extract", "There is no answer."
    right = len(os.path.commonprefix([text, want]))
    q = 1.0 if text == want else min(right / len(want), 0.99)
    return *paid(q), f"Right up to character {right}. Wanted there: {want[right : right + 1] or 'the end'}"


REWARDS = {"letters": letters, "target": target}


class ScriptedVerifier:
    """The service in this process: `with ScriptedVerifier() as service: service.url`."""

    def __init__(self, reward="letters", delay_s=0.0, infra_every=0, token="", listen=("127.0.0.1", 0)):
        self.reward = REWARDS[reward] if isinstance(reward, str) else reward
        self.delay_s, self.infra_every, self.token = delay_s, infra_every, token
        self.jobs, self.keys, self.submitted, self.lock = {}, {}, [], threading.Lock()
        self.refuse = 0  # so many requests are answered with 503
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # a reply is one packet: two would wait for the client's acknowledgement

            def log_message(self, *_):
                pass

            def answer(self, status, body, **headers):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(data)

            def refused(self):
                if service.token and self.headers.get("Authorization") != f"Bearer {service.token}":
                    self.answer(401, {"error": {"code": "UNAUTHENTICATED", "message": "unknown token"}})
                    return True
                with service.lock:
                    busy = service.refuse > 0
                    service.refuse -= busy
                if busy:
                    self.answer(503, {"error": {"code": "UNAVAILABLE", "message": "busy"}}, Retry_After="1")
                return busy

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.refused():
                    status, view = service.submit(body)
                    self.answer(status, view)

            def do_GET(self):
                at = urllib.parse.urlparse(self.path)
                if self.refused():
                    return
                wait = float(urllib.parse.parse_qs(at.query).get("wait", ["0"])[0])
                view = service.look(at.path.rsplit("/", 1)[1], wait)
                if view is None:
                    self.answer(404, {"error": {"code": "NOT_FOUND", "message": "no such job"}})
                else:
                    self.answer(200, view)

        class Threads(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self.server = Threads(listen, Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def submit(self, body):
        with self.lock:
            key = body.get("idempotency_key")
            if key in self.keys:
                one = self.jobs[self.keys[key]]
                if one["candidate"] != body["candidate"]:
                    return 409, {"error": {"code": "CONFLICT", "message": "the key has another content"}}
                return 202, self.view(one)
            number = len(self.jobs) + 1
            first_try = key is None or key.endswith("-0")
            # Which jobs fail hangs on what they hold, not on the order in which they come.
            unlucky = int(hashlib.sha256((key or str(number)).encode()).hexdigest()[:8], 16)
            one = {
                "id": f"j-{number}",
                "candidate": body["candidate"],
                "body": body,
                "at": time.monotonic() + self.delay_s,
                "infra": bool(self.infra_every and first_try and unlucky % self.infra_every == 0),
            }
            self.jobs[one["id"]] = one
            self.submitted.append(body)
            if key is not None:
                self.keys[key] = one["id"]
            return 202, self.view(one)

    def look(self, number, wait_s):
        one = self.jobs.get(number)
        if one is None:
            return None
        time.sleep(max(0.0, min(wait_s, one["at"] - time.monotonic())))
        return self.view(one)

    def view(self, one):
        view = {
            "version": 1,
            "id": one["id"],
            "state": "running",
            "status": None,
            "reward": None,
            "infra": False,
        }
        view |= {"undecided": False, "verified": False, "feedback": None, "verdict": None, "error": None}
        if time.monotonic() < one["at"]:
            return view
        if one["infra"]:
            return view | {
                "state": "failed",
                "status": "infra:scripted",
                "infra": True,
                "error": "as it was told",
            }
        reward, status, feedback = self.reward(one["body"])
        if reward is None:
            return view | {"state": "done", "status": status, "undecided": True, "feedback": feedback}
        feedback = f"=== System Feedback for Round {one['body'].get('round', 1)} ===\n{feedback}"
        return view | {
            "state": "done",
            "status": status,
            "reward": reward,
            "verified": status == "ok",
            "feedback": feedback,
            "code": one["candidate"],
            "verdict": {"version": 1, "status": status, "speedup_eager": None},
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--token-file")
    given, _ = parser.parse_known_args()  # the real service has more
    token = ""
    if given.token_file:
        with open(given.token_file, encoding="utf-8") as file:
            token = re.search(r'^token = "(.*)"', file.read(), re.M).group(1)
    host, port = given.listen.rsplit(":", 1)
    service = ScriptedVerifier(
        os.environ.get("MUSACODER_SCRIPTED_REWARD", "letters"),
        float(os.environ.get("MUSACODER_SCRIPTED_DELAY_S", "0")),
        int(os.environ.get("MUSACODER_SCRIPTED_INFRA", "0")),
        token,
        (host, int(port)),
    )
    print(f"listening on {service.url}", flush=True)
    service.thread.join()


if __name__ == "__main__":
    main()

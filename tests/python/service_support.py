"""A running `musacoder serve`, an HTTP helper and a small WebSocket client, from the standard library alone."""

import base64
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MUSACODER_PROGRAM", ROOT / "build" / "musacoder"))
# Ends in the extraction, without a build: milliseconds.
TRIVIAL = "There is no code in this answer."


def real_job(name="right_relu", **more):
    """A case of the corpus as a job: seconds of real judging."""
    import tomllib

    folder = ROOT / "corpus" / "quickstart" / name
    case = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
    candidate = folder / case["candidate"]
    reference = (ROOT / "tasks" / f"{case['task']}.py").read_text(encoding="utf-8")
    return {
        "candidate": candidate.read_text(encoding="utf-8"),
        "reference": reference,
        "task": case["task"],
        **more,
    }


class Process:
    """A program of ours: its first line on stdout says that it is ready, stderr holds JSON lines."""

    def __init__(self, *arguments, env=None):
        self.child = subprocess.Popen(
            [str(PROGRAM), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.log = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()
        self.ready = self.child.stdout.readline().strip()
        if not self.ready:
            self.child.wait(10)
            self._reader.join(5)
            raise RuntimeError("did not start: " + "".join(self.log[-20:]))

    def _drain(self):
        for line in self.child.stderr:
            self.log.append(line)

    def events(self, name=None):
        rows = [json.loads(line) for line in self.log if line.startswith("{")]
        return [row for row in rows if name is None or row["event"] == name]

    def kill(self):
        self.child.kill()
        self.child.wait()

    def terminate(self, timeout=90):
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(timeout)

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self._reader.join(5)
        self.child.stderr.close()


class Nats:
    """A nats-server with JetStream and a store of its own; kill() and start() as often as wanted."""

    PROGRAM = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin")

    def __init__(self, folder, jetstream="", host="127.0.0.1"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as s:
            s.bind((host, 0))
            self.port = s.getsockname()[1]
        self.host, self.url = host, f"nats://{host}:{self.port}"
        (self.folder / "nats.conf").write_text(
            f'listen: {host}:{self.port}\njetstream {{ store_dir: "{self.folder}/js"\n{jetstream}\n}}\n'
        )
        self.start()

    def start(self):
        self.child = subprocess.Popen(
            [self.PROGRAM, "-c", self.folder / "nats.conf", "-l", self.folder / "log"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            try:
                socket.create_connection((self.host, self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("nats-server did not come up: " + (self.folder / "log").read_text())

    def kill(self):
        self.child.kill()
        self.child.wait()

    close = kill


class Server(Process):
    def __init__(self, *arguments, port=0, **kw):
        super().__init__("serve", "--listen", f"127.0.0.1:{port}", *arguments, **kw)
        self.port = int(self.ready.rsplit(":", 1)[1])

    def raw(self, payload, timeout=15, more=None):
        """Bytes in, everything that comes back until the server closes (or silence)."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            s.sendall(payload)
            if more:
                more(s)
            return read_all(s)

    def call(self, method, path, body=None, token=None, headers=None, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = dict(headers or {})
            if token:
                headers["Authorization"] = f"Bearer {token}"
            if body is not None and not isinstance(body, bytes | str):
                body = json.dumps(body)
                headers.setdefault("Content-Type", "application/json")
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            text = reply.read()
            kind = reply.headers.get("Content-Type", "")
            value = json.loads(text) if text and kind.startswith("application/json") else text
            return reply.status, value, reply.headers
        finally:
            connection.close()

    def post(self, path, body, expect=200, **kw):
        status, value, _ = self.call("POST", path, body, **kw)
        assert status == expect, (status, value)
        return value

    def get(self, path, expect=200, **kw):
        status, value, _ = self.call("GET", path, **kw)
        assert status == expect, (status, value)
        return value

    def wait(self, job, seconds=240):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            view = self.get(f"/v1/jobs/{job}?wait=30")
            if view["state"] not in ("queued", "running"):
                return view
        raise AssertionError(f"{job} did not end: {view['state']} {view['stage']}")


def read_all(s):
    data = b""
    try:
        while chunk := s.recv(65536):
            data += chunk
    except (TimeoutError, ConnectionResetError):
        pass
    return data


class WebSocket:
    """RFC 6455, client side, without extensions."""

    def __init__(self, port, path="/v1/ws", headers="", timeout=60):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n".encode()
        )
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            chunk = self.s.recv(4096)
            if not chunk:
                break
            self.buffer += chunk
        self.head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.status = int(self.head.split(b" ", 2)[1]) if self.head else 0

    def frame(self, payload, opcode=1, fin=True, masked=True, length=None):
        size = len(payload) if length is None else length
        head = bytes([(0x80 if fin else 0) | opcode])
        mask_bit = 0x80 if masked else 0
        if size < 126:
            head += bytes([mask_bit | size])
        elif size < 65536:
            head += bytes([mask_bit | 126]) + struct.pack(">H", size)
        else:
            head += bytes([mask_bit | 127]) + struct.pack(">Q", size)
        mask = os.urandom(4)
        if not masked:
            return head + payload
        return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))

    def send(self, value):
        self.s.sendall(self.frame(json.dumps(value).encode()))

    def send_raw(self, data):
        self.s.sendall(data)

    def _take(self, n):
        while len(self.buffer) < n:
            chunk = self.s.recv(65536)
            if not chunk:
                raise ConnectionError("closed")
            self.buffer += chunk
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def receive(self):
        """(opcode, payload); pings are answered."""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                size = struct.unpack(">H", self._take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self._take(8))[0]
            payload = self._take(size)
            if first & 0x0F == 9:
                self.s.sendall(self.frame(payload, opcode=10))
                continue
            return first & 0x0F, payload

    def json(self):
        opcode, payload = self.receive()
        assert opcode == 1, (opcode, payload)
        return json.loads(payload)

    def close_code(self):
        """The code of the close frame that comes next, 0 when the connection just ends."""
        try:
            while True:
                opcode, payload = self.receive()
                if opcode == 8:
                    return struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 1005
        except (ConnectionError, TimeoutError):
            return 0

    def close(self):
        self.s.close()

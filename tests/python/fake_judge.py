"""The judge's side of the zygote and runner protocols, in Python, for tests."""

import json
import math
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZYGOTE = ROOT / "runtime" / "python" / "candidate_zygote.py"
TWINS = pathlib.Path(__file__).resolve().parent / "twins"
BASE = 0x700000000000
MEMORY_BYTES = 16 << 20


class Lines:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def send(self, message, fds=()):
        data = json.dumps(message).encode() + b"\n"
        if fds:
            sent = socket.send_fds(self.sock, [data], list(fds))
            data = data[sent:]
        self.sock.sendall(data)

    def receive(self, timeout=20.0):
        self.sock.settimeout(timeout)
        while b"\n" not in self.buffer:
            chunk = self.sock.recv(1 << 16)
            if not chunk:
                return None
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)


class Zygote:
    def __init__(self, *options):
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(ZYGOTE), "--fd", str(theirs.fileno()), *options], pass_fds=[theirs.fileno()])
        theirs.close()
        self.lines = Lines(ours)
        self.ready = self.lines.receive(60)

    def request(self, message, fds=()):
        self.lines.send(message, fds)
        return self.lines.receive(30)

    def close(self):
        self.lines.sock.close()
        self.process.wait(10)


class Runner:
    """One spawned candidate with a memory file for a device."""

    def __init__(self, zygote, folder, builder=None, **options):
        self.zygote, self.builder, self.builds = zygote, builder, []
        self.memory_fd = os.memfd_create("device")
        os.ftruncate(self.memory_fd, MEMORY_BYTES)
        self.memory = mmap.mmap(self.memory_fd, MEMORY_BYTES)
        self.next = 256
        ours, theirs = socket.socketpair()
        started = time.monotonic()
        self.spawned = zygote.request({"op": "spawn", "writable": str(folder), "readable": [str(TWINS), str(folder)],
                                       "limits": {}, "policy": "strict", "gpu": "h200", **options},
                                      [theirs.fileno(), self.memory_fd])
        self.spawn_seconds = time.monotonic() - started
        theirs.close()
        self.pid = self.spawned.get("pid")
        self.lines = Lines(ours)

    def call(self, op, timeout=20.0, **fields):
        self.lines.send({"op": op, **fields})
        while True:
            event = self.lines.receive(timeout)
            if event is None or event["event"] != "build":
                return event
            self.builds.append(event["extension"])
            self.lines.send({"op": "built", "id": event["id"], **self.builder(event["extension"])})

    def load(self, code, **fields):
        return self.call("load", code=code, filename="candidate.py", bare_cuda=None, **fields)

    def start(self, code, state=(), init_args=(), seed=7):
        """load, construct, parameters; returns the last event."""
        for op, fields in (("load", {"code": code, "filename": "candidate.py", "bare_cuda": None}),
                           ("construct", {"init_args": {"t": "list", "items": list(init_args)}, "init_kwargs": None,
                                          "seed": seed}),
                           ("parameters", {"state": list(state)})):
            event = self.call(op, **fields)
            if event is None or event["event"] == "exception":
                return event
        return event

    def place(self, values, shape=None):
        """float32 values in device memory -> tensor node."""
        data = struct.pack(f"<{len(values)}f", *values)
        address = self.next
        self.memory[address:address + len(data)] = data
        self.next += (len(data) + 255) // 256 * 256
        return tensor_node(BASE + address, shape or [len(values)])

    def values(self, node):
        offset = int(node["addr"]) - BASE
        count = math.prod(node["shape"])
        return list(struct.unpack(f"<{count}f", self.memory[offset:offset + 4 * count]))

    def forward(self, *inputs, trial=0, seed=3, **fields):
        return self.call("forward", trial=trial, seed=seed, inputs={"t": "list", "items": list(inputs)}, **fields)

    def wait(self, kill=True, **fields):
        return self.zygote.request({"op": "wait", "pid": self.pid, "kill": kill, **fields})


def tensor_node(address, shape):
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    return {"t": "tensor", "dtype": "float32", "shape": list(shape), "strides": strides, "addr": str(address),
            "device": "cuda"}


def file_entry(path, name, values, shape, kind="parameter"):
    """State entry with float32 values in a file."""
    with open(path, "ab") as file:
        offset = file.tell()
        file.write(struct.pack(f"<{len(values)}f", *values))
    return {"name": name, "kind": kind, "dtype": "float32", "shape": list(shape), "file": str(path), "offset": offset,
            "nbytes": 4 * len(values)}

"""Imports torch once and forks one process per candidate (docs/protocols.md, section 3).

    python3 -I candidate_zygote.py --fd N [--sandbox-library PATH | --no-sandbox] [--torch-device MODULE --path DIR]
                                [--dialect cuda|musa]

Says {"event":"ready", …} when it can fork. It never touches a device, never runs a candidate's code, and has one thread.
"""

import argparse
import ast  # noqa: F401  imported here and below so that candidates find them loaded
import collections
import gc
import importlib
import inspect  # noqa: F401
import json
import logging
import os
import platform
import select
import signal
import socket
import sys
import time

_HERE = os.path.dirname(os.path.abspath(__file__))   # not realpath: lib/ lies beside the link
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"   # before numpy and torch are imported: a thread of a pool would not survive a fork
sys.path.insert(0, _HERE)
from musarun import spawn  # noqa: E402

MAX_LINE = 1 << 20
MAX_ENDED = 4096
REAP_S = 0.005


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="socket of the judge")
    parser.add_argument("--sandbox-library", help="libmusacoder_sandbox.so; default: lib/ beside this file's folder")
    parser.add_argument("--no-sandbox", action="store_true", help="tests only: confine nothing")
    parser.add_argument("--torch-device", default="torch_device", help="module that provides the device")
    parser.add_argument("--dialect", choices=("cuda", "musa"), default="cuda", help="of the candidates' names: one a zygote")
    parser.add_argument("--path", action="append", default=[], help="folder to import from, first")
    return parser.parse_args()


class Zygote:
    def __init__(self, sock, sandbox, torch_device, run_candidate, library_path, paths=()):
        self.socket = sock
        self.sandbox = sandbox
        self.run_candidate = lambda sock, fd, request: run_candidate(sock, fd, request, torch_device)
        self.library_path = library_path
        self.paths = list(paths)
        self.children = {}   # pid -> spawn.Child
        self.owner = {}      # descriptor -> spawn.Child
        self.ended = collections.OrderedDict()
        self.strangers = False   # left by a candidate, still ending
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)

    # ---- children

    def pump(self, timeout_s):
        """Serves the children's pipes for up to timeout_s (None: for long); True when the judge's socket is readable."""
        readable = False
        if self.strangers:
            self.strangers = spawn.kill_strangers(self.children)
            timeout_s = REAP_S if timeout_s is None else min(timeout_s, REAP_S)
        for fd, _ in self.poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000):
            if fd == self.socket.fileno():
                readable = True
                continue
            child = self.owner.get(fd)
            if child is not None and not child.read(fd):
                self.forget(fd)
            if child is not None and child.end is not None:
                self.bury(child)
        return readable

    def forget(self, fd):
        if self.owner.pop(fd, None) is not None:
            self.poll.unregister(fd)

    def bury(self, child):
        for fd in child.descriptors():
            self.forget(fd)
        child.close()
        self.children.pop(child.pid, None)
        self.ended[child.pid] = child.end
        while len(self.ended) > MAX_ENDED:
            self.ended.popitem(last=False)
        self.strangers = spawn.kill_strangers(self.children)

    def pump_until(self, done, timeout_s):
        deadline = time.monotonic() + timeout_s
        self.poll.unregister(self.socket)
        try:
            while not done() and time.monotonic() < deadline:
                self.pump(deadline - time.monotonic())
        finally:
            self.poll.register(self.socket, select.POLLIN)

    def spawn(self, request, fds):
        if len(fds) != 2:
            return {"ok": False, "message": f"spawn takes two descriptors, got {len(fds)}"}
        folder = request["writable"]
        if not os.path.isdir(folder):
            return {"ok": False, "message": f"the writable folder {folder} does not exist"}
        policy = self.policy(request)

        def enter(result_fd):
            return self.sandbox.enter({**policy, "result_fd": result_fd})

        def run(sock, fd):
            if request.get("under"):
                execute_under(request["under"], sock, request, self.paths)
            self.run_candidate(sock, fd, request)

        child = spawn.Child(fds[0], fds[1], enter, run)
        self.children[child.pid] = child
        for fd in child.descriptors():
            self.owner[fd] = child
            self.poll.register(fd, select.POLLIN)
        self.pump_until(lambda: child.started is not None, 20)
        if child.started is None:
            child.kill()
            return {"ok": False, "message": "the sandbox was not entered within 20 s"}
        if not child.started["ok"]:
            self.pump_until(lambda: child.end is not None, 5)
            output = (child.end or {}).get("output", "")
            return {**child.started, "message": child.started["message"] + (f"; {output}" if output else "")}
        return {**child.started, "pid": child.pid}

    def policy(self, request):
        limits = request.get("limits", {})
        readable = list(request.get("readable", [])) + [os.path.dirname(_HERE)]
        readable += [path for path in (sys.prefix, sys.base_prefix, sys.exec_prefix) if path != "/usr"]
        readable += [path for path in sys.path if path and os.path.isdir(path)]
        if self.library_path:
            readable.append(os.path.dirname(os.path.realpath(self.library_path)))
        readable += [os.path.realpath(path) for path in readable]
        return {"readable": [path for path in dict.fromkeys(readable) if os.path.exists(path)],
                "writable": [request["writable"]], "cwd": request["writable"], "network": False,
                "memory_bytes": int(limits.get("memory_bytes", 4 << 30)), "cpu_s": float(limits.get("cpu_s", 300)),
                "wall_s": float(limits.get("wall_s", 1800)), "with_parent": True, "processes": int(limits.get("processes", 64)),
                "writable_bytes": int(limits.get("writable_bytes", 1 << 30)),
                "file_bytes": int(limits.get("file_bytes", 1 << 30)), "open_files": int(limits.get("open_files", 1024)),
                "devices": list(request.get("devices", [])), "bound_addresses": bool(limits.get("bound_addresses", True)),
                # compute-sanitizer starts the program as its child and speaks to it over sockets
                "child_devices": bool(request.get("under")), "inet_sockets": bool(request.get("under"))}

    def wait(self, request):
        pid = int(request["pid"])
        child = self.children.get(pid)
        if child is not None:
            if request.get("kill"):
                child.kill()
            self.pump_until(lambda: child.end is not None,
                            10 if request.get("kill") else min(float(request.get("timeout_s", 0)), 60))
            if child.end is None:
                return {"ok": True, "exited": False}
        if pid not in self.ended:
            return {"ok": False, "message": f"no child has pid {pid}"}
        return {"ok": True, "exited": True, **self.ended.pop(pid)}

    # ---- requests

    def serve(self):
        buffer, fds = b"", []
        while True:
            if not self.pump(None):
                continue
            data, new_fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 8)
            fds += new_fds
            if not data:
                return
            buffer += data
            if len(buffer) > MAX_LINE:
                return
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                try:
                    request = json.loads(line)
                    if request["op"] == "spawn":
                        reply = self.spawn(request, fds)
                    elif request["op"] == "wait":
                        reply = self.wait(request)
                    else:
                        reply = {"ok": False, "message": f"unknown operation {request['op']}"}
                except (KeyError, TypeError, ValueError, OSError) as error:
                    reply = {"ok": False, "message": f"{type(error).__name__}: {error}"}
                for fd in fds:
                    os.close(fd)
                fds = []
                self.socket.sendall(json.dumps(reply).encode() + b"\n")


def execute_under(tool, sock, request, paths):
    """In a confined child: becomes `tool` (its command line), which runs a candidate's process of its own on the same socket."""
    sock.set_inheritable(True)
    folder = request["writable"]
    command = [*tool, sys.executable, "-I", os.path.join(_HERE, "sanitized_runner.py"), "--fd", str(sock.fileno()),
               "--request", json.dumps({key: value for key, value in request.items() if key != "under"})]
    for path in paths:
        command += ["--path", path]
    os.chdir(folder)
    os.execve(command[0], command, {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1",
                                    **{name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                                    **{str(name): str(value) for name, value in request.get("environment", {}).items()}})


def prepare(arguments, sock):
    """Everything that is done once: imports, device, sandbox library."""
    for path in arguments.path[::-1]:
        sys.path.insert(0, path)
    dialect = arguments.dialect
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)   # "No CUDA runtime is found"
    import torch
    import torch.nn.functional  # noqa: F401

    # This import asks whether there is a GPU, and torch then refuses it to processes that are forked later.
    is_available, torch.cuda.is_available = torch.cuda.is_available, lambda: True
    import torch.utils.cpp_extension
    torch.cuda.is_available = is_available
    torch.set_num_threads(1)

    from musarun import extensions, runner
    from musarun.sandbox import NoSandbox, Sandbox
    extensions.install(dialect)
    torch_device = importlib.import_module(arguments.torch_device)
    if dialect == "musa":
        torch_device.install(dialect="musa")
        sys.path.insert(0, os.path.join(_HERE, "musa"))
        import torch_musa.utils.musa_extension  # noqa: F401  loaded once
    else:
        torch_device.install()

    library = arguments.sandbox_library or os.path.join(os.path.dirname(_HERE), "lib", "libmusacoder_sandbox.so")
    sandbox = NoSandbox() if arguments.no_sandbox else Sandbox(library)
    zygote = Zygote(sock, sandbox, torch_device, runner.run_candidate, None if arguments.no_sandbox else library,
                    arguments.path)
    spawn.become_subreaper()
    gc.collect()
    gc.freeze()
    return zygote, torch.__version__


def main():
    started = time.monotonic()
    arguments = parse_arguments()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=arguments.fd)
    sock.set_inheritable(False)
    zygote = None
    try:
        zygote, torch_version = prepare(arguments, sock)
        first = {"event": "ready", "python": platform.python_version(), "torch": torch_version, "pid": os.getpid(),
                 "threads": len(os.listdir("/proc/self/task")), "seconds": round(time.monotonic() - started, 3)}
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever keeps it from starting is told to the judge
        first = {"event": "failed", "message": f"{type(error).__name__}: {error}"}
    sock.sendall(json.dumps(first).encode() + b"\n")
    if zygote is not None:
        zygote.serve()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)   # torch takes a second to be torn down

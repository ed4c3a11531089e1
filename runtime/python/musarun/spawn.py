"""Forks one candidate out of the zygote and watches it.

The forked process enters the sandbox, which may go on in another process than it began in (src/sandbox/enter.h): the pid
that the zygote knows then belongs to a supervisor, which ends exactly as the candidate does, and takes everything with it
when it is killed. Three pipes come back to the zygote: `ready` (one JSON line once the candidate's process is confined, or
why not), `result` (the supervisor's one-line report at the end) and `output` (stdout and stderr).
"""

import contextlib
import ctypes
import faulthandler
import fcntl
import json
import os
import resource
import signal
import socket

OUTPUT_KEPT = 32 << 10          # head and tail of what the candidate printed, each
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper():
    """Orphans of candidates come up as children of this process, where they are killed (kill_strangers)."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_strangers(known):
    """Kills and reaps children of this process that are not in `known`. True: some are still ending, come again.

    Never waits: the first process of a PID namespace ends only after all others were reaped.
    """
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            strangers = [int(pid) for pid in file.read().split() if int(pid) not in known]
    except OSError:
        return False
    for pid in strangers:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        except OSError:
            pass
    return bool(strangers)


def close_all_but(keep):
    """Closes every descriptor above 2 that is not in `keep`."""
    start = 3
    for fd in sorted(fd for fd in keep if fd > 2):
        os.closerange(start, fd)
        start = fd + 1
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(start, limit if limit != resource.RLIM_INFINITY else 1 << 20)


class Tail:
    """Head and tail of a stream."""

    def __init__(self, kept=OUTPUT_KEPT):
        self.kept, self.head, self.tail, self.dropped = kept, bytearray(), bytearray(), 0

    def add(self, data):
        room = self.kept - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * self.kept:
            self._cut()

    def _cut(self):
        excess = len(self.tail) - self.kept
        if excess > 0:
            self.dropped += excess
            del self.tail[:excess]

    def text(self):
        self._cut()
        middle = f"\n[… {self.dropped} bytes …]\n".encode() if self.dropped else b""
        return (bytes(self.head) + middle + bytes(self.tail)).decode("utf-8", "replace")


class Child:
    """One candidate, from its fork to its end. Its owner polls descriptors() and calls read(fd)."""

    def __init__(self, runner_fd, device_fd, enter, run):
        """enter(result_fd) -> features, called in the new process; run(socket, device_fd) is the candidate's work."""
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        ready, result, output = pipes
        self.pid = os.fork()
        if self.pid == 0:
            _die(lambda: _begin(runner_fd, device_fd, ready[1], result[1], output[1], enter, run))
        for pipe in pipes:
            os.close(pipe[1])
            os.set_blocking(pipe[0], False)
        self.pidfd = os.pidfd_open(self.pid)
        self.ready_fd, self.result_fd, self.output_fd = ready[0], result[0], output[0]
        self._ready, self._result, self._output = bytearray(), bytearray(), Tail()
        self.started = None   # {"ok", "sandbox"} or {"ok": False, "message"}
        self.end = None       # {"code", "signal", …}

    def descriptors(self):
        return [self.pidfd, self.ready_fd, self.result_fd, self.output_fd]

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def read(self, fd):
        """Serves one readable descriptor. False: nothing more will come from it."""
        if fd == self.pidfd:
            self._finish()
            return False
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        if fd == self.output_fd:
            self._output.add(data)
        elif fd == self.result_fd:
            self._result += data[:1 << 16]
        else:
            self._ready += data
            if not data and self.started is None:
                self.started = _json(self._ready) or {"ok": False, "message": "the process ended before it was confined"}
        return bool(data)

    def _drain(self, fd):
        try:
            for _ in range(64):
                data = os.read(fd, 1 << 16)
                if not data:
                    return
                if fd == self.output_fd:
                    self._output.add(data)
                elif fd == self.result_fd:
                    self._result += data
        except OSError:
            pass

    def _finish(self):
        _, state, usage = os.wait4(self.pid, 0)
        self._drain(self.result_fd)
        self._drain(self.output_fd)
        if self.started is None:
            self.started = _json(self._ready) or {"ok": False, "message": "the process ended before it was confined"}
        end = {"code": os.WEXITSTATUS(state) if os.WIFEXITED(state) else None,
               "signal": os.WTERMSIG(state) if os.WIFSIGNALED(state) else None,
               "limit": "", "max_rss_bytes": usage.ru_maxrss * 1024}
        report = _json(self._result)
        if report:
            end.update({key: report[key] for key in ("code", "signal", "limit", "max_rss_bytes") if key in report})
        if end["signal"] == signal.SIGXCPU and not end["limit"]:
            end["limit"] = "cpu"
        end["output"] = self._output.text()
        self.end = end

    def close(self):
        for fd in self.descriptors():
            os.close(fd)


def _json(data):
    try:
        value = json.loads(bytes(data).split(b"\n")[0])
        return value if isinstance(value, dict) else None
    except ValueError:
        return None


# ---- in the forked process

def _die(work):
    """Runs `work` and never returns."""
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001
        with contextlib.suppress(OSError):
            os.write(2, f"musarun: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _begin(runner_fd, device_fd, ready, result, output, enter, run):
    close_all_but({runner_fd, device_fd, ready, result, output})
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.setsid()
    try:
        features = enter(result)
    except BaseException as error:  # noqa: BLE001
        os.write(ready, json.dumps({"ok": False, "message": f"the sandbox could not be entered: {error}"}).encode())
        return
    close_all_but({runner_fd, device_fd, ready})   # what the sandbox kept for its supervisor
    os.write(ready, json.dumps({"ok": True, "sandbox": features}).encode())
    os.close(ready)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2, all_threads=False)
    # A high number: what the candidate opens, closes or prints by a small one never meets the protocol by accident.
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = fcntl.fcntl(runner_fd, fcntl.F_DUPFD_CLOEXEC, max(3, min(900, limit - 8)))
    os.close(runner_fd)
    run(socket.socket(fileno=high), device_fd)

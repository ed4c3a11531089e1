"""Forks one candidate out of the zygote.

    zygote ── supervisor ── init ── runner
                 │            └ first process of the PID namespace: reaps orphans, notes how the runner ended
                 └ enters the sandbox, drains stdout and stderr, kills everything when told to or when the zygote is gone

Supervisor → zygote, over one pipe: a line {"ok", "sandbox"} once the runner's process exists, and at the end a line
{"code", "signal", "max_rss_bytes", "output"}. Zygote → supervisor: closing the control pipe means kill.
"""

import ctypes
import faulthandler
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import time

OUTPUT_KEPT = 32 << 10          # head and tail of what the candidate printed, each
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_STATUS = struct.Struct("<iiQ")  # code, signal, max_rss_bytes
_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option, value):
    _libc.prctl(option, value, 0, 0, 0)


def close_all_but(keep):
    """Closes every descriptor that is not in `keep`."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass


def kill_descendants(seconds=5.0):
    """Kills and reaps children until none is left; as sub-reaper, grandchildren come up as children."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with open("/proc/thread-self/children") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            children = []
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _die_quietly(work):
    """Runs `work` in a forked child and never returns."""
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001
        try:
            os.write(2, f"musarun: {type(error).__name__}: {error}\n".encode())
        except OSError:
            pass
    finally:
        os._exit(code)


# ---- the three forked processes


def spawn(runner_fd, device_fd, enter_sandbox, run):
    """Forks; returns (pid of the supervisor, report pipe to read, control pipe to write).

    enter_sandbox() -> list of features, called in the supervisor. run(runner_fd, device_fd) is the candidate's process.
    """
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    control_read, control_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _die_quietly(lambda: _supervise(runner_fd, device_fd, report_write, control_read, enter_sandbox, run))
    os.close(report_write)
    os.close(control_read)
    return pid, report_read, control_write


def _supervise(runner_fd, device_fd, report, control, enter_sandbox, run):
    os.setsid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    output_read, output_write = os.pipe2(os.O_CLOEXEC)
    status_read, status_write = os.pipe2(os.O_CLOEXEC)
    close_all_but({0, 1, 2, runner_fd, device_fd, report, control, output_read, output_write, status_read, status_write})
    try:
        features = enter_sandbox()
    except BaseException as error:  # noqa: BLE001
        _write_line(report, {"ok": False, "message": f"the sandbox could not be entered: {error}"})
        return
    init = os.fork()
    if init == 0:
        os.dup2(output_write, 1)
        os.dup2(output_write, 2)
        close_all_but({0, 1, 2, runner_fd, device_fd, status_write})
        _die_quietly(lambda: _init(runner_fd, device_fd, status_write, run))
    for fd in (runner_fd, device_fd, output_write, status_write):
        os.close(fd)
    _write_line(report, {"ok": True, "sandbox": features})
    output = _watch(init, output_read, control)
    kill_descendants()
    record = os.read(status_read, _STATUS.size)
    code, number, rss = _STATUS.unpack(record) if len(record) == _STATUS.size else (-1, signal.SIGKILL, 0)
    _write_line(report, {"code": code if code >= 0 else None, "signal": number or None, "max_rss_bytes": rss,
                         "output": output.decode("utf-8", "replace")})


def _write_line(fd, message):
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(fd, data):]


def _watch(init, output, control):
    """Until `init` ends or the control pipe closes: drains the candidate's output, keeps its head and tail."""
    init_fd = os.pidfd_open(init)
    poll = select.poll()
    for fd in (init_fd, output, control):
        poll.register(fd, select.POLLIN)
    head, tail, dropped = bytearray(), bytearray(), 0
    running = True
    while running:
        for fd, _ in poll.poll():
            if fd == output:
                data = os.read(output, 1 << 16)
                if not data:
                    poll.unregister(output)
                    continue
                room = OUTPUT_KEPT - len(head)
                head += data[:room]
                tail += data[room:] if room > 0 else data
                if len(tail) > 2 * OUTPUT_KEPT:
                    dropped += len(tail) - OUTPUT_KEPT
                    del tail[:-OUTPUT_KEPT]
            elif fd == control:
                os.kill(init, signal.SIGKILL)
                running = False
            elif fd == init_fd:
                running = False
    os.close(init_fd)
    os.set_blocking(output, False)
    try:
        while len(tail) < 4 * OUTPUT_KEPT:
            data = os.read(output, 1 << 16)
            if not data:
                break
            tail += data
    except BlockingIOError:
        pass
    room = OUTPUT_KEPT - len(head)
    head += tail[:room] if room > 0 else b""
    tail = tail[max(room, 0):]
    if len(tail) > OUTPUT_KEPT:
        dropped += len(tail) - OUTPUT_KEPT
        tail = tail[-OUTPUT_KEPT:]
    return bytes(head) + (f"\n[… {dropped} bytes …]\n".encode() if dropped else b"") + bytes(tail)


def _init(runner_fd, device_fd, status, run):
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.set_inheritable(status, False)
    runner = os.fork()
    if runner == 0:
        os.close(status)
        _die_quietly(lambda: _candidate(runner_fd, device_fd, run))
    os.close(runner_fd)
    os.close(device_fd)
    while True:
        pid, state, usage = os.wait4(-1, 0)
        if pid == runner:
            break
    signalled = os.WIFSIGNALED(state)
    os.write(status, _STATUS.pack(-1 if signalled else os.WEXITSTATUS(state), os.WTERMSIG(state) if signalled else 0,
                                  usage.ru_maxrss * 1024))


def _candidate(runner_fd, device_fd, run):
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2, all_threads=False)
    # A high number: what the candidate opens, closes or prints by a small one never meets the protocol by accident.
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = fcntl.fcntl(runner_fd, fcntl.F_DUPFD_CLOEXEC, min(900, soft - 8))
    os.close(runner_fd)
    run(socket.socket(fileno=high), device_fd)

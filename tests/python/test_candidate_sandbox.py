"""Hostile candidates in the real sandbox: each ends in its own way, and the next one is unharmed."""

import os
import pathlib
import socket
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from fake_judge import ROOT, TWINS, Runner, Zygote, file_entry  # noqa: E402

RUNTIME = pathlib.Path(os.environ.get("MUSACODER_RUNTIME", ROOT / "build" / "runtime"))
LIBRARY = RUNTIME / "lib" / "libmusacoder_sandbox.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built; set MUSACODER_RUNTIME")

GOOD = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x\n"


@pytest.fixture(scope="module")
def zygote():
    z = Zygote("--sandbox-library", str(LIBRARY), "--torch-device", "device_twin", "--path", str(TWINS))
    assert z.ready["event"] == "ready", z.ready
    yield z
    z.close()


@pytest.fixture
def spawn(zygote, tmp_path):
    runners = []

    def make(**limits):
        folder = tmp_path / f"box{len(runners)}"
        folder.mkdir()
        runner = Runner(zygote, folder, limits=limits)
        assert runner.spawned["ok"], runner.spawned
        runners.append(runner)
        return runner

    yield make
    for runner in runners:
        runner.wait()


def test_features_are_reported(spawn):
    runner = spawn()
    assert "rlimits" in runner.spawned["sandbox"] and "no_new_privs" in runner.spawned["sandbox"]
    print("sandbox:", runner.spawned["sandbox"], "spawn seconds:", round(runner.spawn_seconds, 4))
    assert runner.load(GOOD)["event"] == "loaded"


def test_the_whole_way_in_the_sandbox(spawn, tmp_path):
    runner = spawn()
    state = [file_entry(tmp_path / "box0" / "state", "w", [2, 3], [2])]
    event = runner.start("import torch, torch.nn as nn\nclass ModelNew(nn.Module):\n    def __init__(self):\n"
                         "        super().__init__()\n        self.w = nn.Parameter(torch.zeros(2))\n"
                         "    def forward(self, x):\n        return (x * self.w).cuda()\n", state)
    assert event["event"] == "parameters", event
    assert runner.values(runner.forward(runner.place([10, 20]))["outputs"]) == [20, 60]


def test_late_imports_work(spawn):
    event = spawn().load("import torch.fft, torch.distributions, unittest.mock, sqlite3, torch.onnx, torch.optim.lr_scheduler\n" + GOOD)
    assert event["event"] == "loaded", event


@pytest.mark.parametrize("code,needs", [
    ("open('/etc/shadow').read()", None),
    ("open('/etc/hostname-of-nothing')", None),
    (f"import os\nos.listdir({str(ROOT / 'docs')!r})", "mount_ns"),
    ("import os\nos.listdir('/root')\nos.listdir('/home')", "mount_ns"),
    (f"open({str(RUNTIME / 'python' / 'evil.py')!r}, 'w')", None),
    ("import torch, os\nopen(os.path.join(os.path.dirname(torch.__file__), 'evil.py'), 'w')", None),
])
def test_files_outside_are_out_of_reach(spawn, code, needs):
    runner = spawn()
    if needs and needs not in runner.spawned["sandbox"]:
        pytest.skip(f"{needs} is not available here")
    event = runner.load(code)
    assert (event["event"], event["type"]) == ("exception", event["type"])
    assert event["type"] in ("FileNotFoundError", "PermissionError", "OSError"), event


def test_network_is_out_of_reach(spawn):
    server = socket.create_server(("127.0.0.1", 0))
    event = spawn().load(f"import socket\nsocket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)")
    assert event["event"] == "exception" and event["type"] in ("PermissionError", "ConnectionRefusedError", "OSError"), event


def test_other_processes_are_out_of_sight(spawn):
    event = spawn().load("import os\nraise Exception(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))")
    pids = eval(event["message"])
    assert len(pids) <= 3, pids


def test_memory_hog(spawn):
    runner = spawn(memory_bytes=256 << 20)
    event = runner.load("x = bytearray(64 << 20)\ny = [bytearray(32 << 20) for _ in range(100)]")
    if event is None:
        assert runner.wait(kill=False, timeout_s=10)["limit"] == "memory"
    else:
        assert event["type"] == "MemoryError", event


def test_hogging_with_torch(spawn):
    runner = spawn(memory_bytes=256 << 20)
    event = runner.load("import torch\nx = [torch.ones(16 << 20) for _ in range(100)]")
    assert event is None or event["type"] in ("RuntimeError", "MemoryError"), event


def test_fork_bomb(spawn):
    runner = spawn(processes=32)
    runner.lines.send({"op": "load", "code": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n",
                       "filename": "candidate.py", "bare_cuda": None})
    time.sleep(0.5)
    started = time.monotonic()
    assert runner.wait()["exited"]
    assert time.monotonic() - started < 10
    assert spawn().load(GOOD)["event"] == "loaded"


def test_cpu_limit(spawn):
    runner = spawn(cpu_s=1)
    assert runner.call("load", code="while True: pass", filename="candidate.py", bare_cuda=None) is None
    end = runner.wait(kill=False, timeout_s=10)
    assert end["exited"] and end["limit"] == "cpu", end


def test_wall_limit_needs_no_judge(spawn):
    runner = spawn(wall_s=1)
    assert runner.call("load", code="import time\ntime.sleep(60)", filename="candidate.py", bare_cuda=None) is None
    assert runner.wait(kill=False, timeout_s=10)["limit"] == "wall"


def test_disk_hog(spawn):
    runner = spawn(file_bytes=8 << 20)
    event = runner.load("with open('big', 'wb') as f:\n    for i in range(100): f.write(b'x' * (1 << 20))")
    assert event is None or event["type"] == "OSError"


@pytest.mark.parametrize("code,signal,number", [
    ("import os\nos._exit(3)", None, 3),
    ("import ctypes\nctypes.string_at(0)", 11, None),
    ("import os\nos.abort()", 6, None),
])
def test_ends_are_mirrored(spawn, code, signal, number):
    runner = spawn()
    assert runner.load(code) is None
    end = runner.wait(kill=False, timeout_s=10)
    assert (end["exited"], end["signal"], end["code"]) == (True, signal, number), end
    if signal == 11:
        assert "candidate.py" in end["output"]


def test_endless_loop(spawn):
    runner = spawn()
    runner.lines.send({"op": "load", "code": "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
                       "    except (OSError, ValueError): pass\nwhile True: pass", "filename": "candidate.py", "bare_cuda": None})
    time.sleep(0.2)
    started = time.monotonic()
    end = runner.wait()
    assert end["exited"] and end["signal"] == 9 and time.monotonic() - started < 5


def test_nothing_survives(spawn, tmp_path):
    runner = spawn()
    runner.load("import os, time\nfor i in range(4):\n    if os.fork() == 0:\n        os.setsid()\n"
                "        while True: time.sleep(0.01); open('beat', 'w').write(str(time.time()))\n")
    time.sleep(0.2)
    runner.wait()
    time.sleep(0.1)
    beat = tmp_path / "box0" / "beat"
    before = beat.stat().st_mtime_ns
    time.sleep(0.3)
    assert beat.stat().st_mtime_ns == before


def test_writing_to_the_protocol_ends_only_the_writer(spawn):
    runner, other = spawn(), spawn()
    event = runner.load("import os\nfor fd in range(3, 1024):\n    try: os.write(fd, b'{\"event\":\"loaded\"}\\n')\n"
                        "    except OSError: pass\n")
    assert "call" not in event   # the judge gives every request a token, which this line lacks
    assert other.load(GOOD)["event"] == "loaded"

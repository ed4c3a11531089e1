"""Zygote and runner against a judge and a device in Python: the protocol, and candidates of every kind."""

import os
import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from fake_judge import TWINS, Runner, Zygote, file_entry  # noqa: E402

SCALE = """
import torch, torch.nn as nn
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="scale", cpp_sources="torch::Tensor scale(torch::Tensor x);", cuda_sources=["// kernel"],
                  functions=["scale"], verbose=True, extra_cuda_cflags=["-O3"])
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return ext.scale(x)
"""
SCALE_BUILT = """
def scale(x):
    import torch
    out = device.to_device(torch.empty(x.shape))
    return out.copy_(x * 2)
"""


def model(body, init="pass", top=""):
    indent = "\n        "
    return (f"import torch, torch.nn as nn\n{top}\nclass ModelNew(nn.Module):\n    def __init__(self, *args):\n"
            f"        super().__init__(){indent}{init.replace(chr(10), indent)}\n    def forward(self, x):{indent}"
            f"{body.replace(chr(10), indent)}\n")


@pytest.fixture(scope="module")
def zygote():
    z = Zygote("--no-sandbox", "--torch-device", "device_twin", "--path", str(TWINS))
    yield z
    z.close()


@pytest.fixture
def runner(zygote, tmp_path):
    def builder(extension):
        path = tmp_path / "built.py"
        path.write_text(SCALE_BUILT)
        return {"ok": True, "path": str(path), "functions": ["scale"], "message": ""}

    r = Runner(zygote, tmp_path, builder)
    assert r.spawned["ok"], r.spawned
    yield r
    r.wait()


def test_zygote_is_ready_with_one_thread(zygote):
    assert zygote.ready["event"] == "ready"
    assert zygote.ready["threads"] == 1
    assert zygote.ready["torch"].startswith("2.")


def test_the_whole_way(runner):
    event = runner.start(SCALE)
    assert event["event"] == "parameters"
    assert (event["matched"], event["missing"], event["unmatched"]) == ([], [], [])
    assert runner.builds == [{
        "name": "scale", "kind": "inline", "files": {}, "cpp_sources": ["torch::Tensor scale(torch::Tensor x);"],
        "cuda_sources": ["// kernel"], "functions": {"scale": "scale"}, "extra_cflags": [], "extra_cuda_cflags": ["-O3"],
        "extra_ldflags": [], "extra_include_paths": [], "with_cuda": True, "no_implicit_headers": False, "dialect": "cuda"}]
    x = runner.place([1, 2, 3, 4], [2, 2])
    event = runner.forward(x)
    assert event["event"] == "output", event
    out = event["outputs"]
    assert (out["t"], out["shape"], out["device"]) == ("tensor", [2, 2], "cuda")
    assert runner.values(out) == [2, 4, 6, 8]
    runner.call("prepare")
    y = runner.place([5, 6])
    assert runner.values(runner.forward(y)["outputs"]) == [10, 12]


def test_failed_build_raises_as_torch_does(zygote, tmp_path):
    r = Runner(zygote, tmp_path, lambda extension: {"ok": False, "path": None, "functions": [], "message": "nvcc: error"})
    event = r.load(SCALE)
    assert (event["event"], event["stage"], event["type"]) == ("exception", "load", "RuntimeError")
    assert event["message"] == "Error building extension 'scale': nvcc: error"
    assert event["line"] == 4
    assert "candidate.py" in event["traceback"] and "load_inline" in event["traceback"]
    assert "musarun" not in event["traceback"].split("candidate.py")[0]
    r.wait()


@pytest.mark.parametrize("call,expect", [
    ("load_inline('a', '', 'k', None, ['f'], ['-O2'])", {"functions": {"f": "f"}, "extra_cflags": ["-O2"]}),
    ("load_inline(name='a', cpp_sources=['p', 'q'], cuda_sources=('k',), functions={'f': 'doc'})",
     {"functions": {"f": "doc"}, "cpp_sources": ["p", "q"], "cuda_sources": ["k"]}),
    ("load_inline(name='a', cpp_sources='p', functions='f')", {"functions": {"f": "f"}, "with_cuda": False}),
    ("load_inline(name='a', cpp_sources='p', cuda_sources='k')", {"cuda_sources": ["k"], "functions": None, "dialect": "cuda"}),
])
def test_arguments_of_load_inline(runner, call, expect):
    event = runner.load(f"from torch.utils.cpp_extension import load_inline\nimport torch\nx = {call}\n"
                        "class ModelNew(torch.nn.Module): pass\n")
    assert event["event"] == "loaded", event
    assert {key: runner.builds[0][key] for key in expect} == expect


def test_load_reads_the_files_that_the_candidate_wrote(runner):
    event = runner.load("""
import torch, torch.utils.cpp_extension as cpp
open("k.cu", "w").write("kernel"); open("b.cpp", "w").write("binding"); open("k.cuh", "w").write("header")
x = cpp.load(name="a", sources=["k.cu", "b.cpp"])
class ModelNew(torch.nn.Module): pass
""")
    assert event["event"] == "loaded", event
    assert runner.builds[0]["kind"] == "files"
    assert runner.builds[0]["files"] == {"k.cu": "kernel", "b.cpp": "binding", "k.cuh": "header"}


def test_equal_builds_are_asked_for_once(runner):
    event = runner.load(SCALE + "\next2 = load_inline(name='scale', cpp_sources='torch::Tensor scale(torch::Tensor x);',"
                        "cuda_sources='// kernel', functions=['scale'], extra_cuda_cflags=['-O3'])\nassert ext2 is ext\n")
    assert event["event"] == "loaded", event
    assert len(runner.builds) == 1


@pytest.mark.parametrize("code,kind,line", [
    ("import torch\nx = 1 / 0\n", "ZeroDivisionError", 2),
    ("x = (\n", "SyntaxError", 1),
    ("import torch\nraise SystemExit(0)\n", "SystemExit", 2),
    ("raise KeyboardInterrupt\n", "KeyboardInterrupt", 1),
    ("import triton\n", "ImportError", 1),
    ("class Model: pass\n", "InterfaceError", None),
    ("ModelNew = 3\n", "InterfaceError", None),
    ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E\n", "E", 3),
    ("def f(): f()\nf()\n", "RecursionError", 1),
    ("raise Exception('x' * 10_000_000)\n", "Exception", 1),
    ("raise Exception('\\ud800')\n", "Exception", 1),
])
def test_exceptions_of_load(runner, code, kind, line):
    event = runner.load(code)
    assert (event["event"], event["stage"], event["type"], event["line"]) == ("exception", "load", kind, line)
    assert event["device_fault"] is False
    assert len(event["message"]) < 20000
    if kind == "ImportError":
        assert event["languages"] == ["triton"]
    # The runner goes on.
    assert runner.load("import torch\nclass ModelNew(torch.nn.Module): pass\n")["event"] == "loaded"


def test_exceptions_of_forward(runner):
    assert runner.start(model("raise ValueError('no')"))["event"] == "parameters"
    event = runner.forward(runner.place([1]))
    assert (event["stage"], event["type"], event["message"], event["line"]) == ("forward", "ValueError", "no", 8)


def test_device_faults_are_marked(runner):
    runner.start(model("import device_twin\nraise device_twin.DeviceFault('illegal')"))
    assert runner.forward(runner.place([1]))["device_fault"] is True


def test_constructor_arguments_and_seed(runner):
    code = model("return x.add_(self.w.sum()) if False else x", "self.args_seen = args\nself.w = nn.Parameter(torch.rand(4))\n"
                 "assert args == (3, 0.5, [1, 2], None, 'a', torch.float16), args")
    items = [{"t": "int", "v": 3}, {"t": "float", "v": 0.5}, {"t": "list", "items": [{"t": "int", "v": 1}, {"t": "int", "v": 2}]},
             {"t": "none"}, {"t": "str", "v": "a"}, {"t": "dtype", "v": "float16"}]
    torch.manual_seed(11)
    values = torch.rand(4).tolist()
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"state-{os.getpid()}")
    entry = file_entry(path, "other", values, [2, 2])
    event = runner.start(code, [entry], items, seed=11)
    os.unlink(path)
    assert event["event"] == "parameters", event
    assert (event["missing"], event["extra"], event["unmatched"]) == (["other"], ["w"], [])


def test_a_module_in_the_dtype_of_a_case(runner, tmp_path):
    code = model("return x + self.w.float()" , "self.w = nn.Parameter(torch.zeros(2))\nself.register_buffer('n', torch.zeros(1, dtype=torch.int64))\n"
                 "self.register_buffer('d', torch.zeros(1, dtype=torch.float64))")
    runner.call("load", code=code)
    event = runner.call("construct", init_args={"t": "list", "items": []}, init_kwargs={"t": "dict", "keys": [], "items": []}, seed=1, dtype="float16")
    assert {e["name"]: e["dtype"] for e in event["state"]} == {"w": "float16", "n": "int64", "d": "float64"}


def test_tensors_are_restored_in_place_and_counters_live_on(runner, tmp_path):
    # Were a counter or a cache reset, a replayed result would never meet fresh inputs.
    code = model("out = x.clone()\nout.copy_(x * self.w + self.b + self.plain + self.n)\nself.w.data.add_(1)\nself.b.add_(1)\n"
                 "self.plain += 1\nself.n += 1\nself.plain = self.plain.clone()\nreturn out.cuda()",
                 "self.w = nn.Parameter(torch.zeros(2))\nself.register_buffer('b', torch.zeros(2))\n"
                 "self.plain = torch.ones(2)\nself.n = 0")
    state = [file_entry(tmp_path / "s", "w", [2, 3], [2]), file_entry(tmp_path / "s", "b", [10, 20], [2], "buffer")]
    event = runner.start(code, state)
    assert event["matched"] == ["w", "b"] and event["extra"] == [] and event["unmatched"] == []
    x = runner.place([1, 1])
    for calls in range(3):
        assert runner.values(runner.forward(x)["outputs"]) == [13 + calls, 24 + calls]


def test_parameter_names_and_shapes_that_differ(runner, tmp_path):
    code = model("return x", "self.w = nn.Parameter(torch.zeros(3))\nself.u = nn.Parameter(torch.zeros(1))")
    state = [file_entry(tmp_path / "s", "w", [2, 3], [2]), file_entry(tmp_path / "s", "v", [5], [1])]
    event = runner.start(code, state)
    assert event["missing"] == ["v"] and event["extra"] == ["u"] and event["matched"] == []
    assert event["shape_mismatch"] == [{"name": "w", "expected": [2], "got": [3]}]
    assert event["unmatched"] == ["w", "v"]


def test_parameters_with_other_names_match_by_value(runner, tmp_path):
    code = model("return x", "torch.manual_seed(5)\nself.a = nn.Parameter(torch.rand(2, 3).t().contiguous())\n"
                 "self.b = torch.zeros(2)\nself.c = nn.Parameter(torch.ones(2))")
    torch.manual_seed(5)
    values = torch.rand(2, 3).flatten().tolist()
    state = [file_entry(tmp_path / "s", "weight", values, [2, 3]), file_entry(tmp_path / "s", "scale", [1, 1], [2]),
             file_entry(tmp_path / "s", "mean", [0, 0], [2], "buffer"), file_entry(tmp_path / "s", "again", [1, 1], [2]),
             file_entry(tmp_path / "s", "steps", [0], [], "buffer")]
    event = runner.start(code, state)
    assert event["matched"] == [] and event["extra"] == ["a", "c"]
    assert event["unmatched"] == ["again", "steps"]   # one tensor is the partner of one


@pytest.mark.parametrize("expression,expect", [
    ("x.cpu().clone()", {"t": "tensor", "device": "cpu"}),
    ("(x, [x], {'a': x}, None, 3, 2.5, float('nan'), True, 's')", {"t": "tuple"}),
    ("nn.Parameter(x)", {"t": "tensor", "type": "torch.nn.parameter.Parameter"}),
    ("type('T', (torch.Tensor,), {})(x)", {"t": "tensor", "type": "candidate.T"}),
    ("x.to_sparse()", {"t": "other"}),
    ("object()", {"t": "other", "type": "object"}),
    ("torch.empty(3, device='meta')", {"t": "other"}),
    ("x.expand(5, 2)", {"t": "tensor", "shape": [5, 2], "strides": [0, 1]}),
    ("{1: x}", {"t": "other", "type": "dict"}),
])
def test_outputs(runner, expression, expect):
    runner.start(model("return " + expression))
    event = runner.forward(runner.place([1, 2]))
    assert event["event"] == "output", event
    assert {key: event["outputs"].get(key) for key in expect} == expect


@pytest.mark.parametrize("body", ["l = []\nl.append(l)\nreturn l", "return [x] * 100000", "return [[str(i) * 4096] for i in range(2000)]"])
def test_outputs_without_end(runner, body):
    runner.start(model(body))
    event = runner.forward(runner.place([1]))
    assert (event["event"], event["stage"]) == ("exception", "forward")
    assert runner.forward(runner.place([1]))["event"] == "exception"


def test_bare_cuda(zygote, tmp_path):
    def builder(extension):
        (tmp_path / "b.py").write_text("def forward(x, w, n):\n    return x.mul_(w).add_(n)\n")
        return {"ok": True, "path": str(tmp_path / "b.py"), "functions": ["forward"], "message": ""}

    r = Runner(zygote, tmp_path, builder)
    assert r.call("load", code=None, bare_cuda="// cu")["event"] == "loaded"
    r.call("construct", init_args={"t": "list", "items": [{"t": "int", "v": 5}]}, init_kwargs=None, seed=1)
    event = r.call("parameters", state=[file_entry(tmp_path / "s", "w", [2, 3], [2])])
    assert event["matched"] == ["w"]
    event = r.forward(r.place([1, 1]))
    assert event["event"] == "output", event
    assert r.values(event["outputs"]) == [7, 8]
    r.wait()


# ---- candidates that end their process

@pytest.mark.parametrize("code,code_expected,signal_expected", [
    ("import os\nos._exit(0)", 0, None),
    ("import os\nos._exit(7)", 7, None),
    ("import ctypes\nctypes.string_at(0)", None, 11),
    ("import os\nos.abort()", None, 6),
    ("import os\nos.kill(os.getpid(), 9)", None, 9),
    ("import os\nos.closerange(0, 5000)", None, None),
])
def test_process_ends(runner, code, code_expected, signal_expected):
    try:
        event = runner.load(code)
    except ConnectionResetError:
        event = None
    assert event is None
    end = runner.wait(kill=False, timeout_s=10)
    assert end["ok"] and end["exited"]
    if "closerange" not in code:
        assert (end["code"], end["signal"]) == (code_expected, signal_expected)
    if signal_expected == 11:
        assert "Segmentation fault" in end["output"] and "candidate.py" in end["output"]


def test_endless_loop_is_killed(runner):
    runner.lines.send({"op": "load", "code": "while True: pass", "filename": "candidate.py", "bare_cuda": None})
    time.sleep(0.1)
    assert runner.wait(kill=False) == {"ok": True, "exited": False}
    end = runner.wait(kill=True)
    assert end["exited"] and end["signal"] == 9


def test_children_die_with_the_candidate(runner, tmp_path):
    runner.load("import os, time, signal\nfor i in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        os.fork()\n"
                "        open(f'pid{os.getpid()}', 'w').close()\n        time.sleep(60)\n")
    time.sleep(0.5)
    pids = [int(path.name[3:]) for path in tmp_path.glob("pid*")]
    assert len(pids) == 6
    assert runner.wait()["exited"]
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []


def test_output_is_kept_in_bounds(runner):
    event = runner.load("import os\nprint('first')\nfor i in range(2000): os.write(1, b'x' * 8192)\nos.write(2, b'last')\n")
    assert event["event"] == "exception"   # no ModelNew; stdout is not the protocol
    output = runner.wait()["output"]
    assert output.endswith("last") and "bytes …]" in output and len(output) < 80000


def test_patched_json_and_torch(runner):
    event = runner.load("""
import json, torch
json.dumps = json.loads = None
json.JSONEncoder.encode = lambda *a: "{}"
torch.manual_seed = lambda s: None
import builtins
class ModelNew(torch.nn.Module):
    def forward(self, x): return x
""")
    assert event["event"] == "loaded"


def test_neighbours_do_not_see_each_other(zygote, tmp_path):
    a, b = Runner(zygote, tmp_path), Runner(zygote, tmp_path)
    assert a.load("import torch, sys\nsys.mark = 1\nclass ModelNew(torch.nn.Module): pass")["event"] == "loaded"
    event = b.load("import sys, os\nassert not hasattr(sys, 'mark')\nimport socket, stat\n"
                   "fds = [f for f in os.listdir('/proc/self/fd')]\nopen('fds', 'w').write(' '.join(fds))\n")
    assert event["type"] == "InterfaceError", event
    a.wait()
    b.wait()
    fds = list(map(int, (tmp_path / "fds").read_text().split()))
    assert len([fd for fd in fds if fd > 2]) <= 4, fds   # protocol, device and its mapping, the listing


def test_spawn_is_quick(zygote, tmp_path):
    times = []
    for _ in range(5):
        r = Runner(zygote, tmp_path)
        started = time.monotonic()
        assert r.load("import torch\nclass ModelNew(torch.nn.Module): pass")["event"] == "loaded"
        times.append((round(r.spawn_seconds, 4), round(time.monotonic() - started, 4)))
        r.wait()
    print("spawn, load seconds:", times)


def test_bad_requests(zygote):
    assert not zygote.request({"op": "dance"})["ok"]
    assert not zygote.request({"op": "wait", "pid": 1})["ok"]
    assert not zygote.request({"op": "spawn", "writable": "/nowhere"})["ok"]

"""torch_musa's names on the virtual GPU, against a real musacoder-vgpud: what candidates in the MUSA dialect see.

Every test runs in a process of its own, because install() patches torch for good.
"""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNTIME = pathlib.Path(os.environ.get("MUSACODER_RUNTIME", ROOT / "build" / "runtime"))
NEEDED = [RUNTIME / "bin" / "musacoder-vgpud", RUNTIME / "lib" / "libmusacoder_cudart.so", RUNTIME / "lib" / "libmusacoder_torch.so"]

pytestmark = pytest.mark.skipif(not all(path.exists() for path in NEEDED), reason="the runtime is not built")

START = """
import os, socket, subprocess, sys
sys.path.insert(0, os.path.join(os.environ["RUNTIME"], "python"))
import torch, torch_device as device
from musarun import extensions
import pytest
control, control_remote = socket.socketpair()
client, client_remote = socket.socketpair()
fds = (control_remote.fileno(), client_remote.fileno())
server = subprocess.Popen([os.path.join(os.environ["RUNTIME"], "bin", "musacoder-vgpud"), "--control-fd", str(fds[0]), "--client-fd",
                           str(fds[1]), "--memory", str(1 << 28), "--gpu", "s5000"], pass_fds=fds)
control_remote.close(); client_remote.close()
extensions.install("musa")
device.install(dialect="musa")
sys.path.insert(0, os.path.join(os.environ["RUNTIME"], "python", "musa"))
import torch_musa
device.connect(client.fileno())
"""


def run(body):
    script = START + textwrap.dedent(body) + '\nprint("finished", flush=True)\nos._exit(0)\n'
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "RUNTIME": str(RUNTIME)})
    assert done.stdout.endswith("finished\n"), done.stdout[-2000:] + done.stderr[-4000:]


def test_tensors_are_musas():
    run("""
        x = torch.randn(4, 5)
        for m in (x.musa(), x.to("musa"), x.to(device="musa:0"), x.to(torch.device("musa")), torch.nn.Parameter(x).musa(), x.musa(0)):
            assert m.is_musa and not m.is_cuda and m.device == torch.device("musa", 0) and m.get_device() == 0
            assert str(m.device) == "musa:0" and m.device.type == "musa"
            assert torch.equal(m.cpu(), x) and device.is_on_device(m) and not x.is_musa
        assert "device='musa:0'" in repr(m) and m.type() == "torch.musa.FloatTensor"
        module = torch.nn.Linear(3, 2).musa()
        assert module.weight.is_musa and torch.nn.Linear(3, 2).to("musa").bias.is_musa
        assert torch.zeros(2, device="musa").device.type == "musa" and torch.empty(2, device=torch.device("musa:0")).is_musa
        with torch.device("musa"):
            assert torch.zeros(3).is_musa
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            x.to("musa:1")
    """)


def test_the_device_is_an_s5000():
    run("""
        p = torch.musa.get_device_properties(0)
        assert torch_musa.get_device_name() == torch.musa.get_device_name("musa") == "MTT S5000"
        assert (p.major, p.minor) == torch.musa.get_device_capability() == (3, 1)
        assert p.multi_processor_count == 56 and p.warp_size == 32 and p.max_threads_per_multi_processor == 3072
        assert p.shared_memory_per_block == 192 << 10 and p.L2_cache_size == 62914560 and p.regs_per_multiprocessor == 131072
        assert p.clock_rate == 1500000 and p.memory_clock_rate * p.memory_bus_width == 20000000 * 640
        assert torch.musa.is_available() and torch.musa.device_count() == 1 and torch.musa.current_device() == 0
        assert torch.backends.mudnn.allow_tf32 is False
        torch.musa.synchronize(); torch.musa.empty_cache(); torch.musa.manual_seed_all(3)
        with torch.musa.stream(torch.musa.Stream()) as _, torch.musa.device(0), torch.autocast("musa"):
            torch.musa.current_stream().synchronize()
    """)


def test_cudas_names_refuse():
    run("""
        assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and torch.version.cuda is None
        m = torch.ones(2, device="musa")
        for call in (lambda: m.cuda(), lambda: m.to("cuda"), lambda: torch.zeros(2, device="cuda:0"), lambda: torch.nn.Linear(2, 2).cuda(),
                     lambda: torch.cuda.synchronize(), lambda: torch.cuda.current_stream(), lambda: torch.cuda.get_device_properties(0)):
            with pytest.raises(AssertionError, match='Torch not compiled with CUDA enabled.*Write device="musa"'):
                call()
        import torch.utils.cpp_extension as cpp
        for call in (lambda: cpp.load_inline("a", "", cuda_sources="k"), lambda: cpp.CUDAExtension("a", ["a.cu"])):
            with pytest.raises(OSError, match="torch_musa.utils.musa_extension"):
                call()
    """)


def test_strict_policy_and_judged_operators():
    run("""
        m = torch.ones(4, 4, device="musa")
        with torch.no_grad(), device.CpuOpRecorder() as recorder:
            with pytest.raises(RuntimeError, match="is not available to a candidate"):
                m @ m
            torch.empty_like(m).copy_(m)
        assert device.take_refused() == ["aten::mm"]
    """)


def test_builds_carry_the_dialect():
    run("""
        asked = []
        def build(extension):
            asked.append(extension)
            return {"ok": True, "path": "/x.so"}
        extensions.serve(build, lambda path: __import__("types").SimpleNamespace(path=path))
        from torch_musa.utils.musa_extension import BuildExtension, MUSAExtension, load, load_inline
        load_inline("a", "cpp", "kernel", ["f"], extra_musa_cflags=["--offload-arch=mp_31"])
        assert asked[-1]["dialect"] == "musa" and asked[-1]["cuda_sources"] == ["kernel"] and asked[-1]["functions"] == {"f": "f"}
        assert asked[-1]["extra_cuda_cflags"] == ["--offload-arch=mp_31"] and asked[-1]["with_cuda"] is True
        import tempfile
        os.chdir(tempfile.mkdtemp())
        for name in ("b.cpp", "k.mu", "t.muh"):
            open(name, "w").write("// " + name)
        load("b", ["b.cpp", "k.mu"])
        assert set(asked[-1]["files"]) == {"b.cpp", "k.mu", "t.muh"} and asked[-1]["kind"] == "files" and asked[-1]["with_cuda"]
        from setuptools import setup
        setup(name="p", ext_modules=[MUSAExtension("p_ops", ["b.cpp", "k.mu"], define_macros=[("N", "3")],
                                                   extra_compile_args={"cxx": ["-O2"], "mcc": ["-O3"]})],
              cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)}, script_args=["-q", "build_ext", "--inplace"])
        import p_ops
        assert p_ops.path == "/x.so" and asked[-1]["extra_cflags"] == ["-O2", "-DN=3"] and asked[-1]["extra_cuda_cflags"] == ["-O3", "-DN=3"]
        with pytest.raises(TypeError, match="cuda_sources"):
            load_inline("a", "", cuda_sources="k")
        with pytest.raises(ValueError, match="'cxx' and 'mcc'"):
            MUSAExtension("q", [], extra_compile_args={"nvcc": []})
    """)


def test_one_dialect_a_process():
    run("""
        with pytest.raises(RuntimeError, match="already speaks MUSA"):
            device.install(dialect="cuda")
    """)


TASK = """
import torch
import torch.nn as nn
import torch_musa
rows, columns = 8, 12
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns, device="musa"))
    def forward(self, x):
        return torch.relu(x.to(torch.device("musa"))) * self.scale
def get_inputs():
    return [torch.randn(rows, columns).musa(), torch.randn(1, device="musa:0")][:1]
def get_init_inputs():
    return []
"""


def test_tasks_may_name_a_musa_device():
    """The reference runner opens it on the host."""
    script = f"""
import sys
sys.path.insert(0, {str(RUNTIME / "python")!r})
from musaref.session import Options, Task
import torch
task = Task({TASK!r}, "musa_task", Options())
trial = task.trial(index=1, seed=7)
assert trial.expected is not None and trial.inputs[0].device.type == "cpu"
assert torch.device("musa").type == "musa"
print("finished")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.stdout.endswith("finished\n"), done.stderr[-3000:]

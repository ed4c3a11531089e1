"""The torch device against a real musacoder-vgpud: what candidates see, what the policy refuses, how extensions are called.

Every test runs in a process of its own, because install() patches torch for good.
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from toolchain import find_nvcc

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNTIME = pathlib.Path(os.environ.get("MUSACODER_RUNTIME", ROOT / "build" / "runtime"))
NVCC = find_nvcc()
NEEDED = [RUNTIME / "bin" / "musacoder-vgpud", RUNTIME / "lib" / "libmusacoder_cudart.so", RUNTIME / "lib" / "libmusacoder_torch.so"]

pytestmark = pytest.mark.skipif(not all(path.exists() for path in NEEDED), reason="the runtime is not built")

START = """
import os, socket, subprocess, sys
sys.path.insert(0, os.path.join(os.environ["RUNTIME"], "python"))
import torch, torch_device as device
control, control_remote = socket.socketpair()
client, client_remote = socket.socketpair()
fds = (control_remote.fileno(), client_remote.fileno())
server = subprocess.Popen([os.path.join(os.environ["RUNTIME"], "bin", "musacoder-vgpud"), "--control-fd", str(fds[0]), "--client-fd",
                           str(fds[1]), "--memory", str(1 << 28)], pass_fds=fds)
control_remote.close(); client_remote.close()
device.install()
device.connect(client.fileno())

def refused(call):
    device.take_refused()
    with torch.no_grad(), device.CpuOpRecorder() as recorder:
        try:
            call()
        except RuntimeError as error:
            assert "is not available to a candidate" in str(error), error
    return device.take_refused(), recorder.ops
"""

END = """
print("finished", flush=True)
os._exit(0)
"""

# Ends as any program does: threads' objects are destroyed, then Python's, then those of shared objects.
NORMAL_END = """
print("finished", flush=True)
"""


def run(body, end=END, **environment):
    script = START + textwrap.dedent(body) + end
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "RUNTIME": str(RUNTIME), **environment})
    assert done.stdout.endswith("finished\n"), done.stdout[-2000:] + done.stderr[-4000:]
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-4000:]}"


def test_tensors_look_like_cuda():
    run("""
        x = torch.randn(4, 5)
        for c in (x.cuda(), x.to("cuda"), x.to(device="cuda:0"), x.to(torch.device("cuda")), torch.nn.Parameter(x).cuda()):
            assert c.is_cuda and c.device == torch.device("cuda", 0) and c.get_device() == 0 and isinstance(c, torch.Tensor)
            assert torch.equal(c.cpu(), x)
            assert device.is_on_device(c) and not device.is_on_device(x) and not x.is_cuda
        assert "device='cuda:0'" in repr(c) and c.type() == "torch.cuda.FloatTensor"
        assert torch.equal(torch.empty_like(c).copy_(c).cpu(), x)
        assert torch.zeros(2, device=c.device).is_cuda and torch.tensor([1, 2], device="cuda").tolist() == [1, 2]
        for index in ("cuda:1", 1):
            try:
                torch.zeros(2, device=index)
                raise SystemExit("a second device")
            except RuntimeError as error:
                assert "invalid device ordinal" in str(error)
        try:
            c.numpy()
            raise SystemExit("numpy of a device tensor")
        except TypeError:
            pass
        with torch.device("cuda"):
            assert torch.zeros(2).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda and torch.get_default_device().type == "cuda"
        assert not torch.zeros(2).is_cuda
        torch.set_default_device("cuda")
        assert torch.randn(2).is_cuda and torch.arange(3).is_cuda and torch.tensor([1.0]).is_cuda and not torch.zeros(2, device="cpu").is_cuda
        torch.set_default_device("cpu")
        assert torch.zeros(2, device=0).is_cuda and x.to(0).is_cuda and x.cuda(0).is_cuda and torch.Generator(device="cuda") is not None
        assert torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda").is_cuda
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.get_device_name()
        assert torch.cuda.current_stream().cuda_stream == 0 and torch.cuda.get_device_properties(0).multi_processor_count > 0
        with torch.cuda.stream(torch.cuda.Stream()), torch.autocast("cuda"), torch.cuda.device(0):
            torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record(); end.record()
        assert start.elapsed_time(end) >= 0
    """)


def test_copies_views_and_creation():
    run("""
        x = torch.randn(3, 4, 5)
        c = x.cuda()
        for view in (lambda t: t.transpose(0, 2), lambda t: t[:, 1:3], lambda t: t.permute(2, 0, 1)[1], lambda t: t[:, :, ::2],
                     lambda t: t.view(12, 5).t(), lambda t: t.unfold(2, 2, 1), lambda t: t[0, 0].expand(6, 5), lambda t: t.chunk(2, 1)[1]):
            assert torch.equal(view(c).cpu(), view(x)) and torch.equal(view(c).contiguous().cpu(), view(x).contiguous())
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool):
            values = (x.abs() * 10).to(dtype)
            assert torch.equal((x.abs() * 10).cuda().to(dtype).cpu(), values), dtype
        c[1, 2:] = 7.0
        y = x.clone(); y[1, 2:] = 7.0
        assert torch.equal(c.cpu(), y)
        c[0].copy_(torch.ones(4, 5)); c[:, :, 1].fill_(-1); c[2].zero_()
        y[0] = 1; y[:, :, 1] = -1; y[2] = 0
        assert torch.equal(c.cpu(), y) and c[2, 0, 0].item() == 0
        assert torch.equal(torch.arange(2, 11, 3, device="cuda").cpu(), torch.arange(2, 11, 3))
        assert torch.equal(torch.full((2, 2), 1.5, device="cuda").cpu(), torch.full((2, 2), 1.5))
        assert torch.equal(torch.eye(3, device="cuda").cpu(), torch.eye(3))
        for make in (lambda **k: torch.randn(7, 3, **k), lambda **k: torch.rand(5, **k), lambda **k: torch.randint(0, 9, (6,), **k),
                     lambda **k: torch.randperm(8, **k)):
            torch.manual_seed(3); a = make()
            torch.manual_seed(3); b = make(device="cuda")
            assert torch.equal(a, b.cpu())
        address = device.address_of(c)
        again = device.tensor_from_address(address, (3, 4, 5), (20, 5, 1), torch.float32)
        assert torch.equal(again.cpu(), c.cpu()) and device.address_of(again[1]) == address + 80
        c.resize_(2, 2)
        assert c.shape == (2, 2)
        assert torch.empty(0, device="cuda").numel() == 0
    """)


def test_modules_keep_their_parameters():
    run("""
        import copy
        layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        weight, held = layer[0].weight, [layer[0].weight]
        layer.tied = layer[0].weight
        values = weight.detach().clone()
        assert layer.cuda() is layer
        assert layer[0].weight is weight and held[0].is_cuda and layer.tied is weight and layer[1].running_mean.is_cuda
        assert torch.equal(weight.cpu(), values) and weight.requires_grad and isinstance(weight, torch.nn.Parameter)
        twin = copy.deepcopy(layer)
        assert twin[0].weight is not weight and torch.equal(twin[0].weight.cpu(), values)
        layer.half(); layer.to("cpu")
        assert layer[0].weight.dtype == torch.float16 and not layer[0].weight.is_cuda
        moved = torch.nn.Conv2d(1, 1, 3).to("cuda")
        assert moved.weight.is_cuda and set(moved.state_dict()) == {"weight", "bias"}
    """)


def test_compute_is_refused_inside_forward_only():
    run("""
        F = torch.nn.functional
        x = torch.randn(4, 4)
        c, layer = x.cuda(), torch.nn.Linear(4, 4).cuda()
        (c @ c).relu()                                   # outside forward: runs
        assert not device.take_refused()
        table = {"aten::mm": lambda: c @ c, "aten::addmm": lambda: layer(c), "aten::mul": lambda: c * 2, "aten::add": lambda: c.add_(1),
                 "aten::cat": lambda: torch.cat([c, c]), "aten::repeat": lambda: c.repeat(2, 1), "aten::relu": lambda: F.relu(c),
                 "aten::constant_pad_nd": lambda: F.pad(c, (1, 1)), "aten::sum": lambda: c.sum(), "aten::_softmax": lambda: c.softmax(1),
                 "aten::index": lambda: c[torch.tensor([0, 1])], "aten::masked_fill": lambda: c.masked_fill(c.bool(), 0.0),
                 "aten::native_dropout": lambda: F.dropout(c, 0.5), "aten::roll": lambda: c.roll(1)}
        for name, call in table.items():
            seen, _ = refused(call)
            assert seen and seen[0].rstrip("_") == name.rstrip("_"), (name, seen)
        def allowed():
            y = torch.empty_like(c).copy_(c).fill_(0)
            torch.zeros_like(y); y.new_zeros(3); torch.ones(2, device="cuda"); c.half().float(); c.t().contiguous(); c.view(-1)[None]
            c.expand(2, 4, 4).reshape(-1); c[0, 0].item(); c.split(2); torch.equal(c, c); torch.allclose(c, c); c.detach().clone().cpu()
            str(c); torch.arange(3, device="cuda"); c.permute(1, 0).flatten(); c.to(torch.int32)
        assert refused(allowed) == ([], [])
        seen, cpu = refused(lambda: (x @ x).relu())
        assert not seen and "aten::mm" in cpu and "aten::relu" in cpu
        assert refused(lambda: (x.t().contiguous(), torch.tensor(2.0) * 3, torch.zeros(4), str(c)))[1] == []
        device.set_policy("report")
        with torch.no_grad(), device.CpuOpRecorder():
            product = c @ c
        assert device.take_refused() == ["aten::mm"] and torch.allclose(product.cpu(), x @ x, atol=1e-5)
    """)


def test_a_sealed_policy_can_only_be_put_in_force():
    run("""
        def fails(text, call):
            try:
                call()
            except RuntimeError as error:
                assert text in str(error), error
            else:
                raise SystemExit(f"nothing says {text}")
        c = torch.randn(4, 4).cuda()
        device.seal()
        fails("policy cannot be changed", lambda: device.set_policy("report"))
        fails("policy cannot be changed", lambda: torch.ops.musacoder.set_policy("report"))
        device.set_policy("strict")
        c @ c                                            # built up: any operator runs
        with device.CpuOpRecorder():
            torch.ops.musacoder.enforce(False)
            fails("not available to a candidate", lambda: c @ c)
        fails("not available to a candidate", lambda: c @ c)
        assert device.take_refused() == ["aten::mm"]
    """)


def test_the_server_knows_whether_a_call_is_judged():
    run("""
        import struct
        def control_request(op, fields=b""):
            control.sendall(struct.pack("<IHHIIQ", MAGIC, 1, op, 0, len(fields), 0) + fields)
            reply = struct.unpack("<IHHIIQ", control.recv(24, socket.MSG_WAITALL))
            control.recv(reply[4] + reply[5], socket.MSG_WAITALL)
            assert reply[3] == 0
        MAGIC = int(os.environ["MAGIC"], 16)
        c = torch.randn(4, 4).cuda()
        device.seal()
        device._ops.enforce = lambda on: None            # nobody says that forward begins
        c @ c
        assert device.take_refused() == []
        control_request(105, struct.pack("<iBB", 0, 0, 0))
        with device.CpuOpRecorder():
            try:
                c @ c
                raise SystemExit("not judged")
            except RuntimeError as error:
                assert "not available to a candidate" in str(error), error
        assert device.take_refused() == ["aten::mm"]
        control_request(106)
        c @ c
    """, MAGIC=magic())


def magic():
    text = (ROOT / "src/vgpu/server/protocol.h").read_text()
    return re.search(r"kMagic = (0x[0-9a-fA-F]+)", text).group(1)


def test_compiling_at_run_time_ends_in_a_clear_error():
    run("""
        calls = {"NVRTC is not available": lambda: torch.cuda._compile_kernel('extern "C" __global__ void f() {}', "f"),
                 "module loader is not available": lambda: torch.cuda._utils._cuda_load_module(b"", ["f"]),
                 "jiterator is not available":
                     lambda: torch.cuda.jiterator._create_jit_fn("template <class T> T f(T x) { return x; }")(torch.ones(2).cuda())}
        for text, call in calls.items():
            try:
                call()
            except RuntimeError as error:
                assert text in str(error), error
            else:
                raise SystemExit(f"nothing says {text}")
    """)


EXTENSION = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
template <class T>
__global__ void scale(const T* x, T* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<T>(static_cast<float>(x[i]) * factor);
}
torch::Tensor run(torch::Tensor x, double factor, std::optional<torch::Tensor> out) {
  TORCH_CHECK(x.is_cuda(), "x must be on the device, got ", x.device(), " ", x.sizes());
  auto y = out.has_value() ? *out : torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "run", [&] {
    scale<scalar_t><<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), static_cast<float>(factor), x.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
std::tuple<torch::Tensor, int64_t> shape(torch::Tensor x) { return {x.view({-1}), x.dim()}; }
std::vector<torch::Tensor> lists(std::vector<torch::Tensor> x, std::vector<int64_t> n, const std::string& s, bool b, at::ScalarType t) {
  TORCH_CHECK_VALUE(s == "ok", "not ok");
  return {x.at(0), torch::full(n, b ? 1 : 0, torch::dtype(t).device(x.at(0).device()))};
}
torch::Tensor product(torch::Tensor x) { return torch::matmul(x, x); }
void out_of_range() { throw std::out_of_range("far"); }
int narrow(int x) { return x + 1; }
// Destroyed after main and its thread's objects.
struct Kept {
  ~Kept() {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    cudaMalloc(&memory, 64);
    cudaFree(memory);
    if (keep) scale<float><<<1, 32>>>(nullptr, nullptr, 1.0f, 0);
    cudaGetLastError();
    try {
      if (keep) tensor = tensor.mul(2.0);
    } catch (const std::exception&) {
    }
  }
  bool keep = false;
  void* memory = nullptr;
  torch::Tensor tensor;
};
Kept kept;
void keep(torch::Tensor x) { kept.tensor = x; kept.keep = true; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("keep", &keep);
  m.def("run", &run, "scales", py::arg("x"), py::arg("factor") = 2.0, py::arg("out") = py::none());
  m.def("shape", &shape);
  m.def("lists", &lists);
  m.def("product", &product);
  m.def("out_of_range", &out_of_range);
  m.def("narrow", &narrow);
  m.attr("version") = 3;
}
TORCH_LIBRARY(musacoder_test_ops, m) {
  m.def("scaled(Tensor x, float factor) -> Tensor");
  m.impl("scaled", torch::kCUDA, [](torch::Tensor x, double factor) { return run(x, factor, std::nullopt); });
}
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    if not os.path.exists(NVCC):
        pytest.skip("nvcc is not installed")
    folder = tmp_path_factory.mktemp("extension")
    source, target = folder / "e.cu", folder / "e.so"
    source.write_text(EXTENSION)
    lib = str(RUNTIME / "lib")
    command = [NVCC, "-arch=compute_90", "-code=compute_90", "--compress-mode=none", "-lineinfo", "-std=c++17", "--shared", "-cudart",
               "none", "-Xcompiler", "-fPIC", "-I", str(RUNTIME / "include"), "-I", str(RUNTIME / "include" / "vendor"),
               "-DTORCH_EXTENSION_NAME=e", str(source), "-o", str(target), "-L", lib, "-lmusacoder_cudart", "-lmusacoder_torch",
               "-Xlinker", "-rpath=" + lib]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:4000]
    return str(target)


def test_extensions(extension):
    run("""
        e = device.load_extension(os.environ["EXTENSION"])
        x = torch.randn(5, 7)
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            c = x.to(dtype).cuda()
            assert torch.equal(e.run(c).cpu(), (x.to(dtype).float() * 2).to(dtype)), dtype
        out = torch.empty_like(c)
        assert e.run(c, factor=-1, out=out) is not None and torch.equal(out.cpu(), -x.double())
        flat, rank = e.shape(c)
        assert flat.shape == (35,) and rank == 2 and device.address_of(flat) == device.address_of(c)
        a, b = e.lists([c], (2, 3), "ok", True, torch.int32)
        assert b.tolist() == [[1, 1, 1], [1, 1, 1]] and b.dtype == torch.int32 and b.is_cuda
        assert e.version == 3 and "run(x: torch.Tensor, factor: float = 2.0, out: Optional[torch.Tensor] = None)" in e.run.__doc__

        def raises(kind, text, call):
            try:
                call()
            except kind as error:
                assert text in str(error), error
            else:
                raise SystemExit(f"no {kind.__name__}")
        import gc, weakref
        gc.disable()      # an output goes with its last user, not when somebody collects cycles
        assert weakref.ref(e.run(c))() is None
        gc.enable()
        raises(TypeError, "incompatible function arguments", lambda: e.run())
        raises(TypeError, "incompatible function arguments", lambda: e.run(1))
        raises(TypeError, "incompatible function arguments", lambda: e.run(None))
        raises(TypeError, "incompatible function arguments", lambda: e.run(c, 1.0, None, 2))
        raises(TypeError, "incompatible function arguments", lambda: e.run(c, unknown=1))
        raises(TypeError, "incompatible function arguments", lambda: e.narrow(1.5))
        raises(TypeError, "incompatible function arguments", lambda: e.narrow(1 << 31))
        raises(RuntimeError, "x must be on the device, got cpu [5, 7]", lambda: e.run(x))
        raises(NotImplementedError, '"run" not implemented for \\'Int\\'', lambda: e.run(c.to(torch.int32)))
        raises(ValueError, "not ok", lambda: e.lists([c], [1], "no", True, torch.int32))
        raises(IndexError, "far", e.out_of_range)
        raises(ImportError, "", lambda: device.load_extension("/nonexistent.so"))
        assert e.narrow(torch.tensor(4)) == 5
        assert torch.equal(torch.ops.musacoder_test_ops.scaled(c, 3.0).cpu(), (x * 3).double())
        square = torch.randn(3, 3, device="cuda")
        assert refused(lambda: e.product(square))[0] == ["aten::mm"]
        assert refused(lambda: e.run(c)) == ([], [])
        assert e.product(square).shape == (3, 3)
    """, EXTENSION=extension)


def test_faults_stay(extension):
    run("""
        e = device.load_extension(os.environ["EXTENSION"])
        x, small = torch.randn(1000).cuda(), torch.empty(10, device="cuda")
        try:
            e.run(x, 2.0, small)
            device.synchronize()
            raise SystemExit("no fault")
        except RuntimeError as error:
            assert device.is_device_fault(error), error
        try:
            torch.zeros(3, device="cuda")
            raise SystemExit("the fault is gone")
        except RuntimeError as error:
            assert device.is_device_fault(error), error
    """, EXTENSION=extension)


NORMAL = """
        e = device.load_extension(os.environ["EXTENSION"])
        x = torch.randn(100).cuda()
        assert torch.equal(e.run(x).cpu(), x.cpu() * 2)   # its kernels are known to the server
        e.keep(x)
        import threading
        worker = threading.Thread(target=lambda: e.run(x))
        worker.start(); worker.join()
"""
HEAP_CHECKS = {"MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "85", "LD_PRELOAD": "libc_malloc_debug.so.0"}


def test_a_normal_end(extension):
    run(NORMAL, end=NORMAL_END, EXTENSION=extension, **HEAP_CHECKS)


def test_a_normal_end_without_the_server(extension):
    run(NORMAL + """
        server.kill(); server.wait()
        client.shutdown(socket.SHUT_RDWR)
    """, end=NORMAL_END, EXTENSION=extension, **HEAP_CHECKS)


def test_a_normal_end_after_a_fault(extension):
    run(NORMAL + """
        try:
            e.run(x, 2.0, torch.empty(1, device="cuda"))
            device.synchronize()
            raise SystemExit("no fault")
        except RuntimeError as error:
            assert device.is_device_fault(error), error
    """, end=NORMAL_END, EXTENSION=extension, **HEAP_CHECKS)

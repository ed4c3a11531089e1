"""Device-side copies between every pair of torch dtypes, checked against torch on the CPU.

The library is driven through ctypes, so nothing here depends on the torch device.
"""

import ctypes
import os
import pathlib
import socket
import subprocess

import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNTIME = pathlib.Path(os.environ.get("MUSACODER_RUNTIME", ROOT / "build" / "runtime"))
SERVER = RUNTIME / "bin" / "musacoder-vgpud"
LIBRARY = RUNTIME / "lib" / "libmusacoder_cudart.so"

pytestmark = pytest.mark.skipif(not (SERVER.exists() and LIBRARY.exists()), reason="the runtime is not built")

NUMBERS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
    torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
REALS = (torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn)
COMPLEX = (torch.complex64, torch.complex128)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 16),
        ("strides", ctypes.c_int64 * 16),
    ]


class Gpu:
    def __init__(self):
        control, control_remote = socket.socketpair()
        client, client_remote = socket.socketpair()
        fds = (control_remote.fileno(), client_remote.fileno())
        argv = [str(SERVER), "--control-fd", str(fds[0]), "--client-fd", str(fds[1]), "--memory", str(1 << 28)]
        self.process = subprocess.Popen(argv, pass_fds=fds)
        control_remote.close()
        client_remote.close()
        self.control, self.client = control, client
        self.lib = ctypes.CDLL(str(LIBRARY), os.RTLD_NOW | os.RTLD_LOCAL)
        self.lib.mcv_malloc.restype = ctypes.c_uint64
        self.lib.mcv_malloc.argtypes = [ctypes.c_size_t]
        self.lib.mcv_free.argtypes = [ctypes.c_uint64]
        self.lib.mcv_memcpy_h2d.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.lib.mcv_memcpy_d2h.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
        self.lib.mcv_last_error.restype = ctypes.c_char_p
        self.check(self.lib.mcv_connect(client.fileno()))

    def check(self, code):
        assert code == 0, self.lib.mcv_last_error().decode()

    def close(self):
        self.control.close()
        self.process.wait(timeout=10)
        self.client.close()

    def convert(self, source, dtype):
        """source copied to the device and cast there to a dense tensor of dtype."""
        storage = source.untyped_storage()
        out = torch.empty(source.shape, dtype=dtype)
        a, b = self.lib.mcv_malloc(storage.nbytes()), self.lib.mcv_malloc(out.nbytes)
        assert a and b
        self.check(self.lib.mcv_memcpy_h2d(a, storage.data_ptr(), storage.nbytes(), 0))
        offset = source.storage_offset() * source.element_size()
        src, dst = describe(source, a + offset), describe(out, b)
        self.check(self.lib.mcv_copy_strided(ctypes.byref(dst), ctypes.byref(src)))
        self.check(self.lib.mcv_memcpy_d2h(out.data_ptr(), b, out.nbytes))
        self.lib.mcv_free(a)
        self.lib.mcv_free(b)
        return out


def describe(tensor, address):
    t = Tensor(address=address, dtype=NUMBERS[tensor.dtype], ndim=tensor.dim())
    t.sizes[: tensor.dim()] = tensor.shape
    t.strides[: tensor.dim()] = tensor.stride()
    return t


@pytest.fixture(scope="module")
def gpu():
    gpu = Gpu()
    yield gpu
    gpu.close()


def values(dtype, non_negative=False):
    """Numbers that every conversion defines: in range of the small integers, with halves, ties and specials for reals."""
    torch.manual_seed(0)
    if dtype is torch.bool:
        return torch.tensor([True, False, True, True])
    low = 0 if non_negative or not (dtype.is_signed or dtype.is_complex) else -100
    x = torch.randint(low, 101, (4096,)).double()
    if dtype in REALS + COMPLEX:
        x = x + torch.rand(4096).double() * 0.999
    if dtype in COMPLEX:
        return torch.complex(x, torch.rand(4096).double()).to(dtype)
    return x.to(dtype)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_every_pair_agrees_with_torch(gpu, source):
    for target in NUMBERS:
        non_negative = target in (torch.uint16, torch.uint32, torch.uint64, torch.uint8)
        x = values(source, non_negative)
        expected = x.real.to(target) if source in COMPLEX and target not in COMPLEX + (torch.bool,) else x.to(target)
        got = gpu.convert(x, target)
        assert torch.equal(bits(got), bits(expected)), f"{source} to {target}"


@pytest.mark.parametrize("target", [t for t in REALS if t is not torch.float64], ids=str)
def test_reals_round_as_torch_everywhere(gpu, target):
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(-(2**31), 2**31, (200_000,), generator=generator).to(torch.int32)
    x = words.view(torch.float32)
    x = torch.cat([x, torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 65504, 65520, 448, 464, 480, 57344, 61440, 1e-8])])
    for source in (torch.float32, torch.float64):
        expected, got = x.to(source).to(target).float(), gpu.convert(x.to(source), target).float()
        assert torch.equal(expected.isnan(), got.isnan())
        keep = ~expected.isnan()
        assert torch.equal(bits(expected[keep]), bits(got[keep])), source


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
def test_small_reals_widen_exactly(gpu, source):
    if source.itemsize == 2:
        x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(source)
    else:
        x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(source)
    expected, got = x.float(), gpu.convert(x, torch.float32)
    assert torch.equal(expected.isnan(), got.isnan())
    keep = ~expected.isnan()
    assert torch.equal(bits(expected[keep]), bits(got[keep]))


def test_large_integers_round_once(gpu):
    x = torch.tensor([2**53 + 1, 2**62 + 2**38 + 1, -(2**63), 2**63 - 1, 16777217])
    for target in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
        assert torch.equal(bits(gpu.convert(x, target)), bits(x.to(target))), target


def test_views(gpu):
    x = torch.randn(5, 6, 7, 8)
    for view in (
        x.permute(3, 1, 0, 2),
        x[1:4, ::2, 3:, 1::3],
        x[2, 3],
        x.t() if x.dim() == 2 else x[0, 0].t(),
        x[0, 0, 0, 0],
        x[0].unsqueeze(1).expand(6, 4, 7, 8),
        x.diagonal(),
        x[:, :0],
    ):
        for target in (torch.float32, torch.float16):
            assert torch.equal(gpu.convert(view, target), view.to(target))

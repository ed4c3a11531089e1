"""What differs between the vendors of real GPUs, for the runner processes: torch's module, the runtime's names, the libraries.

    vendor = gpu_vendor.of("musa")
    vendor.torch().synchronize()                  # torch.musa.synchronize
    vendor.call(runtime, "IpcOpenMemHandle", …)   # musaIpcOpenMemHandle

MUSA's are those of the vendor's public documents and of torch_musa; untested on hardware (docs/musa.md).
"""

import ctypes
import re

import torch


class Vendor:
    def __init__(self, type_, title, runtime, shim, shim_variable):
        self.type = type_            # torch's device type; the runtime's functions begin with it: cudaMalloc, musaMalloc
        self.title = title
        self.runtime_name = runtime  # of the shared object: libcudart, libmusart
        self.shim, self.shim_variable = shim, shim_variable

    def torch(self):
        """torch.cuda or torch.musa."""
        return getattr(torch, self.type)

    def load(self):
        """Makes torch know the device. Errors: RuntimeError with what to install."""
        if self.type == "cuda":
            if not torch.backends.cuda.is_built():
                raise RuntimeError(f"torch {torch.__version__} is built without CUDA; install torch's CUDA build for the backend cuda")
            return
        try:
            import torch_musa  # noqa: F401
        except ImportError as error:
            raise RuntimeError(f"torch_musa cannot be imported ({error}); install the vendor's torch and torch_musa for the backend "
                               "musa") from None

    def call(self, runtime, name, *arguments):
        return getattr(runtime, self.type + name)(*arguments)

    def error_name(self, runtime, code):
        function = getattr(runtime, self.type + "GetErrorName")
        function.restype = ctypes.c_char_p
        return (function(code) or b"").decode() or f"error {code}"

    def runtime(self):
        """The runtime that torch has loaded: the same context, whatever else is installed. Raises OSError."""
        with open("/proc/self/maps") as file:
            loaded = re.findall(rf"(/\S*{self.runtime_name}[^/\s]*\.so[^/\s]*)", file.read())
        versions = [f"{self.runtime_name}.so.{(torch.version.cuda or '13').split('.')[0]}"] if self.type == "cuda" else []
        for path in [*dict.fromkeys(loaded), *versions, f"{self.runtime_name}.so"]:
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
        raise OSError(f"{self.runtime_name} is not loaded and cannot be found")

    def is_fault(self, error):
        """Whether an exception reports a fault of the device (illegal access, launch failure, …), not a Python error."""
        text = str(error)
        return isinstance(error, RuntimeError) and f"{self.type.upper()} error" in text and "invalid device ordinal" not in text \
            and not isinstance(error, torch.OutOfMemoryError)


CUDA = Vendor("cuda", "NVIDIA", "libcudart", "libmusacoder_torch_cuda.so", "MUSACODER_TORCH_CUDA_LIBRARY")
MUSA = Vendor("musa", "Moore Threads", "libmusart", "libmusacoder_torch_musa.so", "MUSACODER_TORCH_MUSA_LIBRARY")
_BY_TYPE = {vendor.type: vendor for vendor in (CUDA, MUSA)}


def of(device):
    """The vendor of a device or device type; None for the host."""
    return _BY_TYPE.get(getattr(device, "type", device))

"""torch.utils.cpp_extension.load and load_inline, answered by the judge's builder instead of a compiler in this process.

    extensions.install()                          # once, in the zygote: `from … import load_inline` sees it
    extensions.serve(request_build, load)         # in the child

request_build(extension: dict) -> {"ok", "path", "message"} speaks to the judge; load(path) -> module is
torch_device.load_extension. Arguments mean what they mean in torch 2.11. In a process for candidates in the MUSA dialect these
two refuse as they do in a torch without CUDA, and musa_extension.py has torch_musa's own.
"""

import json
import os
import threading

from torch.utils import cpp_extension

MAX_SOURCE_BYTES = 3 << 20
MAX_FILES = 64
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".muh", ".inc", ".inl")

_lock = threading.RLock()
_request_build = None
_load = None
_dialect = "cuda"
_modules = {}
_encode = json.JSONEncoder(sort_keys=True).encode


def serve(request_build, load):
    global _request_build, _load
    _request_build, _load = request_build, load


def install(dialect="cuda"):
    global _dialect
    _dialect = dialect
    cpp_extension.load_inline = load_inline
    cpp_extension.load = load
    cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME or "/usr/local/cuda"
    cpp_extension.is_ninja_available = lambda: True
    cpp_extension.verify_ninja_availability = lambda: None


def _strings(value, what):
    if value is None:
        return []
    if isinstance(value, str):
        return [str(value)]
    if isinstance(value, (list, tuple)):
        for item in value:
            if not isinstance(item, (str, os.PathLike)):
                raise TypeError(f"{what} must be a string or a list of strings, but holds {type(item).__name__}")
        return [str(os.fspath(item)) for item in value]
    if isinstance(value, os.PathLike):
        return [os.fspath(value)]
    raise TypeError(f"{what} must be a string or a list of strings, but is {type(value).__name__}")


def _functions(functions):
    if functions is None:
        return None
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, (list, tuple)):
        functions = {name: name for name in functions}
    if not isinstance(functions, dict):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    return {str(name): str(doc) for name, doc in functions.items()}


def _build(extension, is_python_module):
    extension["dialect"] = _dialect
    size = sum(map(len, extension["cpp_sources"] + extension["cuda_sources"])) + sum(map(len, extension["files"].values()))
    if size > MAX_SOURCE_BYTES:
        raise RuntimeError(f"Error building extension '{extension['name']}': its sources have {size} characters, more than "
                           f"{MAX_SOURCE_BYTES}")
    key = _encode(extension)
    with _lock:
        if key not in _modules:
            if _request_build is None:
                raise RuntimeError("extensions can be built only while a candidate is loaded, constructed or called")
            reply = _request_build(extension)
            if not reply.get("ok"):
                raise RuntimeError(f"Error building extension '{extension['name']}': {reply.get('message', '')}")
            _modules[key] = (_load(reply["path"]), reply["path"])
        module, path = _modules[key]
    return module if is_python_module else path


def build_inline(name, cpp_sources, device_sources, functions, extra_cflags, device_cflags, extra_ldflags, extra_include_paths,
                 with_device, is_python_module, no_implicit_headers):
    """load_inline of either dialect; `device_sources` and `device_cflags` come with the names that callers know them by."""
    kernels = _strings(device_sources[1], device_sources[0])
    return _build({
        "name": str(name), "kind": "inline", "files": {},
        "cpp_sources": _strings(cpp_sources, "cpp_sources"), "cuda_sources": kernels, "functions": _functions(functions),
        "extra_cflags": _strings(extra_cflags, "extra_cflags"),
        "extra_cuda_cflags": _strings(device_cflags[1], device_cflags[0]),
        "extra_ldflags": _strings(extra_ldflags, "extra_ldflags"),
        "extra_include_paths": _strings(extra_include_paths, "extra_include_paths"),
        "with_cuda": bool(kernels) if with_device is None else bool(with_device),
        "no_implicit_headers": bool(no_implicit_headers),
    }, is_python_module)


def needs_cuda(name):
    """Refuses what builds CUDA sources, in a process for candidates in the MUSA dialect."""
    if _dialect == "musa":
        raise OSError(f"torch.utils.cpp_extension.{name} builds CUDA sources, and there is no CUDA here (CUDA_HOME is not set). Build "
                      "MUSA sources with torch_musa.utils.musa_extension")


def load_inline(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None,
                extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None,
                build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
                with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False, no_implicit_headers=False):
    """Load a PyTorch C++ extension just-in-time from string sources."""
    if sycl_sources or with_sycl:
        raise RuntimeError(f"Error building extension '{name}': SYCL sources are not supported, write CUDA")
    if cuda_sources or with_cuda:
        needs_cuda("load_inline")
    return build_inline(name, cpp_sources, ("cuda_sources", cuda_sources), functions, extra_cflags,
                        ("extra_cuda_cflags", extra_cuda_cflags), extra_ldflags, extra_include_paths, with_cuda, is_python_module,
                        no_implicit_headers)


def _read_files(paths):
    """{base name: text} of the sources and of the headers beside them."""
    files = {}
    folders = []
    for path in paths:
        name = os.path.basename(path)
        if name in files:
            raise RuntimeError(f"two sources are called {name}")
        with open(path, encoding="utf-8", errors="replace") as file:
            files[name] = file.read(MAX_SOURCE_BYTES + 1)
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in folders:
            folders.append(folder)
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.endswith(_HEADERS) and name not in files and len(files) < MAX_FILES:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    files[name] = file.read(MAX_SOURCE_BYTES + 1)
    return files


def build_files(name, sources, extra_cflags, device_cflags, extra_ldflags, extra_include_paths, with_device, is_python_module,
                is_standalone):
    """load of either dialect."""
    if is_standalone:
        raise RuntimeError(f"Error building extension '{name}': stand-alone programs and SYCL are not supported")
    paths = _strings(sources, "sources")
    return _build({
        "name": str(name), "kind": "files", "files": _read_files(paths), "cpp_sources": [], "cuda_sources": [],
        "functions": None, "extra_cflags": _strings(extra_cflags, "extra_cflags"),
        "extra_cuda_cflags": _strings(device_cflags[1], device_cflags[0]),
        "extra_ldflags": _strings(extra_ldflags, "extra_ldflags"),
        "extra_include_paths": _strings(extra_include_paths, "extra_include_paths"),
        "with_cuda": any(path.endswith((".cu", ".mu")) for path in paths) if with_device is None else bool(with_device),
        "no_implicit_headers": True,
    }, is_python_module)


def load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
         extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
         is_python_module=True, is_standalone=False, keep_intermediates=True):
    """Load a PyTorch C++ extension just-in-time from source files."""
    if with_cuda or any(path.endswith(".cu") for path in _strings(sources, "sources")):
        needs_cuda("load")
    return build_files(name, sources, extra_cflags, ("extra_cuda_cflags", extra_cuda_cflags), extra_ldflags, extra_include_paths,
                       with_cuda, is_python_module, is_standalone or with_sycl)

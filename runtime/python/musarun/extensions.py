"""torch.utils.cpp_extension.load and load_inline, answered by the judge's builder instead of a compiler in this process.

    extensions.install()                          # once, in the zygote: `from … import load_inline` sees it
    extensions.serve(request_build, load)         # in the child

request_build(extension: dict) -> {"ok", "path", "message"} speaks to the judge; load(path) -> module is
torch_device.load_extension. Arguments mean what they mean in torch 2.11; `musa_sources` is taken for `cuda_sources`.
"""

import json
import os
import threading

from torch.utils import cpp_extension

MAX_SOURCE_BYTES = 3 << 20
MAX_FILES = 64
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl")

_lock = threading.RLock()
_request_build = None
_load = None
_modules = {}
_encode = json.JSONEncoder(sort_keys=True).encode


def serve(request_build, load):
    global _request_build, _load
    _request_build, _load = request_build, load


def install():
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


def load_inline(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None,
                extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None,
                build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
                with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False, no_implicit_headers=False, *,
                musa_sources=None, extra_musa_cflags=None):
    """Load a PyTorch C++ extension just-in-time from string sources."""
    if sycl_sources or with_sycl:
        raise RuntimeError(f"Error building extension '{name}': SYCL sources are not supported, write CUDA")
    cuda = _strings(cuda_sources, "cuda_sources") + _strings(musa_sources, "musa_sources")
    return _build({
        "name": str(name), "kind": "inline", "files": {},
        "cpp_sources": _strings(cpp_sources, "cpp_sources"), "cuda_sources": cuda, "functions": _functions(functions),
        "extra_cflags": _strings(extra_cflags, "extra_cflags"),
        "extra_cuda_cflags": _strings(extra_cuda_cflags, "extra_cuda_cflags")
        + _strings(extra_musa_cflags, "extra_musa_cflags"),
        "extra_ldflags": _strings(extra_ldflags, "extra_ldflags"),
        "extra_include_paths": _strings(extra_include_paths, "extra_include_paths"),
        "with_cuda": bool(cuda) if with_cuda is None else bool(with_cuda),
        "no_implicit_headers": bool(no_implicit_headers),
    }, is_python_module)


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


def load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
         extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
         is_python_module=True, is_standalone=False, keep_intermediates=True):
    """Load a PyTorch C++ extension just-in-time from source files."""
    if is_standalone or with_sycl:
        raise RuntimeError(f"Error building extension '{name}': stand-alone programs and SYCL are not supported")
    paths = _strings(sources, "sources")
    return _build({
        "name": str(name), "kind": "files", "files": _read_files(paths), "cpp_sources": [], "cuda_sources": [],
        "functions": None, "extra_cflags": _strings(extra_cflags, "extra_cflags"),
        "extra_cuda_cflags": _strings(extra_cuda_cflags, "extra_cuda_cflags"),
        "extra_ldflags": _strings(extra_ldflags, "extra_ldflags"),
        "extra_include_paths": _strings(extra_include_paths, "extra_include_paths"),
        "with_cuda": any(path.endswith((".cu", ".mu")) for path in paths) if with_cuda is None else bool(with_cuda),
        "no_implicit_headers": True,
    }, is_python_module)

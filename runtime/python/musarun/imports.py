"""Kernel languages other than CUDA and MUSA are not what is judged here: importing one fails with a clear reason, and is noted."""

import importlib.abc
import sys

LANGUAGES = ("triton", "cupy", "numba", "tilelang", "tvm", "cutlass", "pycuda", "warp", "taichi", "jax", "cuda")


class LanguageBlocker(importlib.abc.MetaPathFinder):
    """Put first on sys.meta_path. `seen` lists the languages asked for since the last take()."""

    def __init__(self, dialect="cuda"):
        self.seen = []
        self._written = ("MUSA C++ and built with torch_musa.utils.musa_extension" if dialect == "musa"
                         else "CUDA C++ and built with torch.utils.cpp_extension")

    def find_spec(self, fullname, path=None, target=None):
        root = fullname.partition(".")[0]
        if root in LANGUAGES:
            if root not in self.seen:
                self.seen.append(root)
            raise ImportError(f"'{root}' is not available to a candidate: kernels are written in {self._written}", name=fullname)
        return None

    def take(self):
        seen, self.seen = self.seen, []
        return seen


def install(dialect="cuda"):
    for name in list(sys.modules):
        if name.partition(".")[0] in LANGUAGES:
            del sys.modules[name]
    blocker = LanguageBlocker(dialect)
    sys.meta_path.insert(0, blocker)
    return blocker

"""torch_musa.utils.musa_extension's load, load_inline, MUSAExtension and BuildExtension, answered by the judge's builder.

    module = load_inline("relu", cpp_sources="torch::Tensor relu(torch::Tensor x);", musa_sources=source, functions=["relu"],
                         extra_musa_cflags=["-O3", "--offload-arch=mp_31"])
    setup(ext_modules=[MUSAExtension("my_ops", ["my_ops.cpp", "kernel.mu"], extra_compile_args={"cxx": ["-O3"], "mcc": ["-O3"]})],
          cmdclass={"build_ext": BuildExtension}, script_args=["build_ext", "--inplace"])     # then: import my_ops

Arguments mean what they mean in torch_musa 2.7. What mcc alone understands of the flags is left out by the builder.
"""

import os
import sys

import setuptools
from setuptools.command.build_ext import build_ext
from torch.utils.cpp_extension import CppExtension  # noqa: F401  torch_musa's module has it too

from . import extensions

MUSA_HOME = os.environ.get("MUSA_HOME") or os.environ.get("MUSA_PATH") or "/usr/local/musa"


def load_inline(name, cpp_sources, musa_sources=None, functions=None, extra_cflags=None, extra_musa_cflags=None,
                extra_ldflags=None, extra_include_paths=None, build_directory=None, verbose=False, with_musa=None,
                is_python_module=True, with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False):
    """Load a PyTorch MUSA extension just-in-time from string sources."""
    return extensions.build_inline(
        name, cpp_sources, ("musa_sources", musa_sources), functions, extra_cflags, ("extra_musa_cflags", extra_musa_cflags),
        extra_ldflags, extra_include_paths, with_musa, is_python_module, no_implicit_headers=False)


def load(name, sources, extra_cflags=None, extra_musa_cflags=None, extra_ldflags=None, extra_include_paths=None,
         build_directory=None, verbose=False, with_musa=None, is_python_module=True, is_standalone=False,
         keep_intermediates=True):
    """Load a PyTorch MUSA extension just-in-time from source files."""
    return extensions.build_files(name, sources, extra_cflags, ("extra_musa_cflags", extra_musa_cflags), extra_ldflags,
                                  extra_include_paths, with_musa, is_python_module, is_standalone)


def include_paths(musa=False):
    return [os.path.join(MUSA_HOME, "include")] if musa else []


def library_paths(musa=False):
    return [os.path.join(MUSA_HOME, "lib")] if musa else []


def MUSAExtension(name, sources, *args, **kwargs):  # noqa: N802  the vendor's name
    """A setuptools.Extension for BuildExtension; extra_compile_args may be {"cxx": […], "mcc": […]}."""
    kwargs.pop("force_mcc", None)
    kwargs.setdefault("language", "c++")
    compile_args = kwargs.pop("extra_compile_args", None) or {}
    extension = setuptools.Extension(name, list(sources), *args, **kwargs)
    extension.musa_compile_args = compile_args if isinstance(compile_args, dict) else {"cxx": list(compile_args),
                                                                                      "mcc": list(compile_args)}
    unknown = set(extension.musa_compile_args) - {"cxx", "mcc"}
    if unknown:
        raise ValueError(f"extra_compile_args of a MUSAExtension has the keys 'cxx' and 'mcc', not {sorted(unknown)}")
    return extension


class BuildExtension(build_ext):
    """Builds each extension through the judge; the module can be imported afterwards."""

    @classmethod
    def with_options(cls, **options):
        class BuildExtensionWithOptions(cls):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **{**kwargs, **options})
        return BuildExtensionWithOptions

    def __init__(self, *args, use_ninja=True, no_python_abi_suffix=False, **kwargs):
        super().__init__(*args, **kwargs)

    def copy_extensions_to_source(self):
        """--inplace: nothing lies in the build folder; the modules are loaded already."""

    def build_extensions(self):
        for extension in self.extensions:
            flags = getattr(extension, "musa_compile_args", {})
            defines = [f"-D{key}" if value is None else f"-D{key}={value}" for key, value in extension.define_macros]
            sys.modules[extension.name] = extensions.build_files(
                extension.name.rpartition(".")[2], extension.sources, list(flags.get("cxx", [])) + defines,
                ("mcc", list(flags.get("mcc", [])) + defines), extension.extra_link_args, extension.include_dirs, None, True, False)

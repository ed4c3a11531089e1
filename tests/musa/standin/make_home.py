#!/usr/bin/env python3
"""Lays out the stand-in MUSA toolkit and a Python environment that has the stand-in torch_musa.

    make_home.py OUT --build BUILD --python PYTHON --nvcc NVCC     # OUT/musa is MUSA_HOME, OUT/venv/bin/python the interpreter
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIBRARIES = ("libmusart.so", "libmusa.so", "libmupti.so", "libmtml.so", "libstandin_torch_musa.so")
REAL = {"musa_runtime.h": "cuda_runtime.h", "musa_runtime_api.h": "cuda_runtime_api.h", "musa.h": "cuda.h", "musa_fp16.h": "cuda_fp16.h",
        "musa_bf16.h": "cuda_bf16.h"}


def names(binary, folder):
    """(MUSA's, CUDA's) names of the runtime, driver and types, by the product's own tables."""
    words = []
    for group in ("runtime", "driver", "types"):
        table = tomllib.loads((ROOT / "runtime" / "musa" / "renames" / f"names_{group}.toml").read_text())
        words += table["names"].split()
    source, target = folder / "names.cu", folder / "names.mu"
    source.write_text("\n".join(words) + "\n")
    subprocess.run([binary, "port", source, "-o", target, "--force", "--quiet"], check=True)
    return [(musa, cuda) for cuda, musa in zip(words, target.read_text().split(), strict=True) if musa != cuda]


def toolkit(home, build, nvcc, include):
    for folder in ("bin", "include", "lib"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "mcc", home / "bin" / "mcc")
    for library in LIBRARIES:
        shutil.copy(build / "tests" / "musa" / "home" / library, home / "lib" / library)
    pairs = names(build / "musacoder", home)
    defines = "".join(f"#define {musa} {cuda}\n" for musa, cuda in pairs)
    (home / "include" / "standin_names.h").write_text("#pragma once\n" + defines)
    for musa, cuda in REAL.items():
        (home / "include" / musa).write_text(f'// Stand-in: the CUDA header under MUSA\'s names.\n#pragma once\n#include "{include}/{cuda}"\n#include "standin_names.h"\n')
    # The compiler below is another toolkit's: the sandbox shows what links in MUSA_HOME lead to.
    root = pathlib.Path(os.path.realpath(nvcc)).parent.parent
    for name, place in {"nvcc_root": root, "cuda_include": include}.items():
        link = home / name
        link.unlink(missing_ok=True)
        link.symlink_to(place)
    (home / "standin.json").write_text(json.dumps({"nvcc": str(home / "nvcc_root" / "bin" / "nvcc"), "gxx": "/usr/bin/g++",
                                                   "flags": ["-I", str(home / "cuda_include"), *cccl(include)]}))


def cccl(include):
    return ["-I", str(include / "cccl")] if (include / "cccl").is_dir() else []


def environment(venv, python):
    """A Python environment with everything of `python`'s, and torch_musa."""
    site = pathlib.Path(subprocess.run([python, "-c", "import torch,os;print(os.path.dirname(os.path.dirname(torch.__file__)))"],
                                       capture_output=True, text=True, check=True).stdout.strip())
    version = subprocess.run([python, "-c", "import sys;print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True,
                             check=True).stdout.strip()
    own = venv / "lib" / f"python{version}" / "site-packages"
    own.mkdir(parents=True, exist_ok=True)
    (venv / "bin").mkdir(exist_ok=True)
    real = os.path.realpath(python)
    (venv / "pyvenv.cfg").write_text(f"home = {os.path.dirname(real)}\ninclude-system-site-packages = false\nversion = {version}\n")
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink(missing_ok=True)
        (venv / "bin" / name).symlink_to(real)
    for entry in site.iterdir():
        if not (own / entry.name).exists() and entry.suffix != ".pth" and not entry.name.startswith("torch_musa"):
            (own / entry.name).symlink_to(entry)
    shutil.copytree(HERE / "torch_musa", own / "torch_musa", dirs_exist_ok=True)
    (own / "real.pth").write_text(f"{site}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--include", type=pathlib.Path, help="folder of cuda_runtime.h; default: beside nvcc")
    args = parser.parse_args()
    out = args.out.resolve()
    include = args.include or pathlib.Path(os.path.realpath(args.nvcc)).parent.parent / "include"
    if not (include / "cuda_runtime.h").exists():
        sys.exit(f"{include} has no cuda_runtime.h; give --include")
    toolkit(out / "musa", args.build.resolve(), args.nvcc, include)
    environment(out / "venv", args.python)


if __name__ == "__main__":
    main()

"""Where the tests find nvcc: as the program looks for it."""

import glob
import os
import shutil
import sys


def find_nvcc():
    """Path of nvcc from the environment, PATH, the usual place or NVIDIA's packages in this Python; it may not exist."""
    usual = "/usr/local/cuda/bin/nvcc"
    packages = sorted(glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/nvidia/*/bin/nvcc")))
    return (os.environ.get("MUSACODER_NVCC") or shutil.which("nvcc")
            or next((path for path in [usual, *packages] if os.path.exists(path)), usual))

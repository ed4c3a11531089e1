import torch
from setuptools import setup
from torch.utils import cpp_extension
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="cuda_things",
    ext_modules=[
        CUDAExtension(
            "cuda_things._C",
            sources=["csrc/binding.cpp", "csrc/kernels/add.cu", 'csrc/detail.cuh'],
            extra_compile_args={"cxx": ["-O3"], "nvcc": ["-O3", "-gencode=arch=compute_90,code=sm_90"]},
            include_dirs=[cpp_extension.CUDA_HOME + "/include"],
            libraries=["cublas", "cudart"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)

#!/usr/bin/env python3
# -*- coding: utf-8 -*- torch.cuda
"""Docstring: a __global__ kernel calls cudaMalloc; device "cuda"."""
from __future__ import annotations

import os, torch  # cuda
import torch.nn as nn
from torch.utils.cpp_extension import (
    load_inline,  # CUDAExtension
    CUDA_HOME,
)

N = 4
header = "#include <cuda_runtime.h>\n" \
         '#include <c10/cuda/CUDAStream.h>\n'
body = f"""
{header}
template <typename scalar_t> __global__ void k_{N}(scalar_t* x) {{ x[threadIdx.x] = ({N} > 3 ? {{1}} : {{2}}); }}  // cudaFree {N!r:>{N}}
void launch(torch::Tensor x) {{ k_{N}<float><<<1, 1, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>()); cuda{N}Check(); }}
"""
percent = '''
__global__ void k(%s* x) { printf("%%d cudaFree\\n", 1); } cudaError_t %s = cudaSuccess;
''' % ("float", "e")
old = "void g() { cudaDeviceSynchronize(); }"
more = ["void h(cudaStream_t);", rf'''void i() {{ R"(cudaFree)"; cudaFree({N}); }}''']
ext = load_inline(name="cuda_ext", cpp_sources=["void launch(torch::Tensor x);", old] + more, cuda_sources=[body, percent],
                  functions={"launch": "launch on cuda"}, extra_cuda_cflags=["-O3", "--use_fast_math"], extra_ldflags=['-lcublas', "-lm"], verbose=False)
second = load_inline('x', old, cuda_sources=old, with_cuda=True)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_cuda or x.device != torch.device('cuda:0'):
            raise RuntimeError("x is on " f"{x.device}, not cuda")
        with torch.cuda.amp.autocast(), torch.cuda.stream(torch.cuda.current_stream()):
            y = x.to(device="cuda").cuda(non_blocking=True); z = getattr(x, 'cuda')
        os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1"); d = f"cuda:{x.get_device()}"; e = f'cuda:{N}:{N}'
        s = {"cuda": 1, 'cpu': 2}["cuda"]; t = rb"cuda"; u = f"{'cuda' if N else f'{torch.cuda.device_count()}'}"
        lambda cuda: cuda.x; self.cuda_stream = torch.cuda.Stream(); cudnn.benchmark = torch.backends.cudnn.allow_tf32 = True
        return ext.launch(y)

// Torch's own headers with the virtual GPU in the place of CUDA, for sources that need more than the slim headers have.
//
// Reads all of torch first, then renames what sources say about CUDA to the backend that the virtual GPU is: kCUDA,
// is_cuda(). On a real GPU (MUSACODER_HARDWARE) nothing is renamed. Streams, guards and checks are the slim ones; bindings go through the same loader as with slim
// headers (include/musacoder/bind.h), without Python.
#pragma once

#ifndef MUSACODER_FULL_HEADERS
#define MUSACODER_FULL_HEADERS 1
#endif

#define MUSACODER_READING_TORCH
#include <torch/all.h>
#undef MUSACODER_READING_TORCH

#include "../include/musacoder/bind.h"

namespace py = pybind11;

#ifndef MUSACODER_HARDWARE
#define kCUDA kPrivateUse1
#define is_cuda is_privateuseone
#endif

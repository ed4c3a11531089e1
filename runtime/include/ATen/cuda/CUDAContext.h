// Slim stand-in for torch's header of this name (musacoder/aten_cuda.h).
#ifndef MUSACODER_SLIM_ATEN_CUDA_CUDACONTEXT_H
#define MUSACODER_SLIM_ATEN_CUDA_CUDACONTEXT_H
#include "../../musacoder/aten_cuda.h"
#endif

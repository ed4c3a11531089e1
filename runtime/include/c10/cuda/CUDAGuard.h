// Slim stand-in for torch's header of this name (musacoder/cuda.h).
#ifndef MUSACODER_SLIM_C10_CUDA_CUDAGUARD_H
#define MUSACODER_SLIM_C10_CUDA_CUDAGUARD_H
#include "../../musacoder/cuda.h"
#endif

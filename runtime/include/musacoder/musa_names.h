// What torch_musa has and torch has not, for sources in the MUSA dialect after their names were exchanged for CUDA's: the first
// header of each of them (src/build/sources.cpp). Brings nothing of c10/cuda along: a source that includes none of torch_musa's
// headers has no streams, guards and checks there either.
#ifndef MUSACODER_SLIM_MUSACODER_MUSA_NAMES_H
#define MUSACODER_SLIM_MUSACODER_MUSA_NAMES_H

#ifndef MUSACODER_FULL_HEADERS
#include "torch.h"
#endif

// The device type by torch_musa's own name; at::musa and c10::musa are at::cuda and c10::cuda here.
namespace c10::cuda {
constexpr DeviceType kMUSA = ::c10::kCUDA;
}
namespace at::native::musa {
using ::c10::cuda::kMUSA;
}
// Releases before 2.1 had everything in a namespace of their own.
namespace torch_musa {
using namespace c10::cuda;
}

#define TORCH_MUSA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_MUSA_WARN(EXPR) C10_CUDA_CHECK_WARN(EXPR)
#define TORCH_MUSA_ERROR_HANDLE(EXPR) C10_CUDA_ERROR_HANDLED(EXPR)
#endif

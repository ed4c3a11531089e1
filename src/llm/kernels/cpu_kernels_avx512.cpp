#define MC_KERNEL_SET avx512
#define MC_KERNEL_NAME "avx512"
#include "llm/kernels/cpu_kernels_impl.h"

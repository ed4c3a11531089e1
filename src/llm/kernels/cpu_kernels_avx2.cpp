#define MC_KERNEL_SET avx2
#define MC_KERNEL_NAME "avx2"
#include "llm/kernels/cpu_kernels_impl.h"

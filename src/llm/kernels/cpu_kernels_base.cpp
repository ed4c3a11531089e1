#define MC_KERNEL_SET base
#define MC_KERNEL_NAME "base"
#include "llm/kernels/cpu_kernels_impl.h"

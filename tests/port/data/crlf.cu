#include <cuda.h>
CUresult r = cuInit(0); // CUDA_SUCCESS
const char* s = "two\
lines cuInit";
cuda\
Malloc

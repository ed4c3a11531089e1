// Stand-in for cuBLAS; the interface of version 1 is not offered, only that of version 2.
#ifndef MUSACODER_VENDOR_CUBLAS_H_
#define MUSACODER_VENDOR_CUBLAS_H_
#include "cublas_v2.h"
#endif

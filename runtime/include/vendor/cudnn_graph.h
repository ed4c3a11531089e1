// Stand-in; everything is in cudnn.h.
#ifndef MUSACODER_VENDOR_CUDNN_GRAPH_H_
#define MUSACODER_VENDOR_CUDNN_GRAPH_H_
#include "cudnn.h"
#endif

// Slim stand-in for torch's header of this name (musacoder/aten.h).
#ifndef MUSACODER_SLIM_ATEN_CORE_TENSOR_H
#define MUSACODER_SLIM_ATEN_CORE_TENSOR_H
#include "../../musacoder/aten.h"
#endif

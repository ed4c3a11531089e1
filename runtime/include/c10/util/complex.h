// Slim stand-in for torch's header of this name (musacoder/core.h).
#ifndef MUSACODER_SLIM_C10_UTIL_COMPLEX_H
#define MUSACODER_SLIM_C10_UTIL_COMPLEX_H
#include "../../musacoder/core.h"
#endif

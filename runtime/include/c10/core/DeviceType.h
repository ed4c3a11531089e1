// Slim stand-in for torch's header of this name (musacoder/core.h).
#ifndef MUSACODER_SLIM_C10_CORE_DEVICETYPE_H
#define MUSACODER_SLIM_C10_CORE_DEVICETYPE_H
#include "../../musacoder/core.h"
#endif

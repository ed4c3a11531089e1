// Slim stand-in for torch's header of this name (musacoder/aten.h).
#ifndef MUSACODER_SLIM_C10_CORE_TENSOROPTIONS_H
#define MUSACODER_SLIM_C10_CORE_TENSOROPTIONS_H
#include "../../musacoder/aten.h"
#endif

// Slim stand-in for torch's header of this name (musacoder/aten.h).
#ifndef MUSACODER_SLIM_ATEN_TENSORUTILS_H
#define MUSACODER_SLIM_ATEN_TENSORUTILS_H
#include "../musacoder/aten.h"
#endif

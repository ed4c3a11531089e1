// Slim stand-in for torch's header of this name (musacoder/extension.h).
#ifndef MUSACODER_SLIM_TORCH_EXTENSION_H
#define MUSACODER_SLIM_TORCH_EXTENSION_H
#include "../musacoder/extension.h"
#endif

// Slim stand-in for torch's header of this name (musacoder/torch.h).
#ifndef MUSACODER_SLIM_TORCH_TYPES_H
#define MUSACODER_SLIM_TORCH_TYPES_H
#include "../musacoder/torch.h"
#endif

// Slim stand-in for torch's header of this name (musacoder/torch.h).
#ifndef MUSACODER_SLIM_TORCH_TORCH_H
#define MUSACODER_SLIM_TORCH_TORCH_H
#include "../musacoder/torch.h"
#endif

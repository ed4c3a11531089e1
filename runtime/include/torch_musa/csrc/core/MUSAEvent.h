// Slim stand-in for torch_musa's header of this name (musacoder/musa_names.h).
#ifndef MUSACODER_SLIM_TORCH_MUSA_CSRC_CORE_MUSAEVENT_H
#define MUSACODER_SLIM_TORCH_MUSA_CSRC_CORE_MUSAEVENT_H
#include "../../../musacoder/musa_names.h"
#include "../../../musacoder/cuda.h"
#endif

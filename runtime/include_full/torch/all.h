// Torch's own header of this name, read through musacoder_full.h.
#ifdef MUSACODER_READING_TORCH
#include_next <torch/all.h>
#else
#include "../musacoder_full.h"
#endif

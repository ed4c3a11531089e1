// The slim stand-in, after torch's own headers.
#pragma once
#include "../../musacoder_full.h"

#include "../../../include/musacoder/aten_cuda.h"

// Slim stand-in for torch's header of this name (musacoder/aten_cuda.h).
#pragma once
#include "../../musacoder/aten_cuda.h"

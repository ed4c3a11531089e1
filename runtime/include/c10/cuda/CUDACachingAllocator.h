// Slim stand-in for torch's header of this name (musacoder/cuda.h).
#pragma once
#include "../../musacoder/cuda.h"

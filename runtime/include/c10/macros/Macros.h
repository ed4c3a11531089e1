// Slim stand-in for torch's header of this name (musacoder/core.h).
#pragma once
#include "../../musacoder/core.h"

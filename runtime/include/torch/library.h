// Slim stand-in for torch's header of this name (musacoder/extension.h).
#pragma once
#include "../musacoder/extension.h"

// Slim stand-in for torch's header of this name (musacoder/aten.h).
#pragma once
#include "../musacoder/aten.h"

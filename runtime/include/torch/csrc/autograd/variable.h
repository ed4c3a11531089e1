// Slim stand-in for torch's header of this name (musacoder/torch.h).
#pragma once
#include "../../../musacoder/torch.h"

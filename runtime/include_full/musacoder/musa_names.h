// The slim header of this name, after torch's own headers.
#pragma once
#include "../musacoder_full.h"

#include "../../include/musacoder/musa_names.h"

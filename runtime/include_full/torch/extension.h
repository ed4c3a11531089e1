// torch/extension.h without Python: torch's C++ API and the bindings of the loader.
#pragma once
#include "../musacoder_full.h"

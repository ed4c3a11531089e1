// Python is not there: the bindings of the loader.
#pragma once
#include "../musacoder_full.h"

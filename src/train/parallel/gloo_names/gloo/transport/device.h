// See context.h.
#pragma once

#include "../context.h"

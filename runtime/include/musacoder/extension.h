// torch/extension.h: namespace torch and the bindings.
#pragma once

#include "bind.h"
#include "torch.h"

namespace py = pybind11;

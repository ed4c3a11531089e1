// torch/extension.h: namespace torch and the bindings.
#ifndef MUSACODER_SLIM_MUSACODER_EXTENSION_H
#define MUSACODER_SLIM_MUSACODER_EXTENSION_H

#include "bind.h"
#include "torch.h"

namespace py = pybind11;
#endif

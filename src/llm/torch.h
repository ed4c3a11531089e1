// libtorch's headers, all that src/llm uses of them: precompiled for mc_llm, so only its .cpp files include
// it. Headers that others read name no torch type.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

// Between torch's values and those of abi.h.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "abi.h"

namespace musacoder::device {

at::Tensor borrow(mc_tensor handle);
mc_tensor hand_out(at::Tensor tensor);  // +1 reference; null when undefined
// A value for a schema's argument of this type; throws c10::TypeError when it does not fit. MC_DEVICE_CUDA becomes the
// virtual device.
c10::IValue to_ivalue(const mc_value& value, const c10::TypePtr& type);
mc_value from_ivalue(const c10::IValue& value);  // owned by the caller
void free_value(mc_value& value);                // with its tensors

// The error of mc_error_kind and mc_error_message: set, set from the exception being handled, thrown as torch's exception.
void set_error(int kind, const char* message);
void catch_error();
[[noreturn]] void throw_error();

}  // namespace musacoder::device

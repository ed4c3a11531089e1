// The C door of include/musacoder/abi.h: tensors by handle, operators by name.
#include "abi.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <sstream>

#include "convert.h"
#include "device.h"
#include "per_thread.h"
#include "policy.h"

#define MC_EXPORT extern "C" __attribute__((visibility("default")))

namespace musacoder::device {

namespace {
thread_local int t_error_kind = MC_RUNTIME_ERROR;
struct LastError {
  std::string text;
};
std::string& last_error() { return musacoder::per_thread<LastError>().text; }

at::Device to_device(const mc_value& v) {
  if (v.u.i == MC_DEVICE_CUDA) {
    TORCH_CHECK(v.aux <= 0, "CUDA error: invalid device ordinal");
    return at::Device(kDeviceType, 0);
  }
  return at::Device(static_cast<at::DeviceType>(v.u.i), static_cast<at::DeviceIndex>(v.aux));
}

template <class T>
c10::ArrayRef<T> list_of(const mc_value& v) {
  return {static_cast<const T*>(v.u.p), static_cast<std::size_t>(v.n)};
}
}  // namespace

void set_error(int kind, const char* message) {
  t_error_kind = kind;
  last_error() = message ? message : "";
}

void catch_error() {
  try {
    throw;
  } catch (const c10::IndexError& e) {
    set_error(MC_INDEX_ERROR, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    set_error(MC_VALUE_ERROR, e.what_without_backtrace());
  } catch (const c10::TypeError& e) {
    set_error(MC_TYPE_ERROR, e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    set_error(MC_NOT_IMPLEMENTED, e.what_without_backtrace());
  } catch (const c10::OutOfMemoryError& e) {
    set_error(MC_MEMORY_ERROR, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    set_error(MC_RUNTIME_ERROR, e.what_without_backtrace());
  } catch (const std::exception& e) {
    set_error(MC_RUNTIME_ERROR, e.what());
  } catch (...) {
    set_error(MC_RUNTIME_ERROR, "unknown exception");
  }
}

void throw_error() {
  switch (t_error_kind) {
    case MC_VALUE_ERROR: TORCH_CHECK_VALUE(false, last_error());
    case MC_TYPE_ERROR: TORCH_CHECK_TYPE(false, last_error());
    case MC_INDEX_ERROR: TORCH_CHECK_INDEX(false, last_error());
    case MC_NOT_IMPLEMENTED: TORCH_CHECK_NOT_IMPLEMENTED(false, last_error());
    case MC_MEMORY_ERROR: TORCH_CHECK_WITH(OutOfMemoryError, false, last_error());
    default: TORCH_CHECK(false, last_error());
  }
  std::abort();
}

at::Tensor borrow(mc_tensor handle) {
  if (!handle) return at::Tensor();
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
      reinterpret_cast<c10::TensorImpl*>(handle)));
}

mc_tensor hand_out(at::Tensor tensor) {
  return tensor.defined() ? reinterpret_cast<mc_tensor>(tensor.unsafeReleaseTensorImpl()) : nullptr;
}

c10::IValue to_ivalue(const mc_value& v, const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    if (v.kind == MC_NONE) return {};
    return to_ivalue(v, optional->getElementType());
  }
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      if (v.kind == MC_NONE) return at::Tensor();
      if (v.kind == MC_TENSOR) return borrow(v.u.t);
      break;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      if (v.kind == MC_INT || v.kind == MC_BOOL || v.kind == MC_DTYPE || v.kind == MC_LAYOUT || v.kind == MC_MEMORY_FORMAT)
        return v.u.i;
      break;
    case c10::TypeKind::FloatType:
      if (v.kind == MC_DOUBLE) return v.u.d;
      if (v.kind == MC_INT || v.kind == MC_BOOL) return static_cast<double>(v.u.i);
      break;
    case c10::TypeKind::BoolType:
      if (v.kind == MC_BOOL || v.kind == MC_INT) return v.u.i != 0;
      break;
    case c10::TypeKind::NumberType:
      if (v.kind == MC_DOUBLE) return v.u.d;
      if (v.kind == MC_INT) return v.u.i;
      if (v.kind == MC_BOOL) return v.u.i != 0;
      if (v.kind == MC_COMPLEX) return c10::complex<double>(v.u.c[0], v.u.c[1]);
      break;
    case c10::TypeKind::StringType:
      if (v.kind == MC_STRING) return std::string(static_cast<const char*>(v.u.p), static_cast<std::size_t>(v.n));
      break;
    case c10::TypeKind::DeviceObjType:
      if (v.kind == MC_DEVICE) return to_device(v);
      break;
    case c10::TypeKind::GeneratorType:
      if (v.kind == MC_NONE) return {};
      break;
    case c10::TypeKind::ListType: {
      const c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      if (v.kind == MC_INTS && (element->kind() == c10::TypeKind::IntType || element->kind() == c10::TypeKind::SymIntType))
        return c10::List<std::int64_t>(list_of<std::int64_t>(v));
      if (v.kind == MC_INT && (element->kind() == c10::TypeKind::IntType || element->kind() == c10::TypeKind::SymIntType))
        return c10::List<std::int64_t>({v.u.i});
      if (v.kind == MC_DOUBLES && element->kind() == c10::TypeKind::FloatType) return c10::List<double>(list_of<double>(v));
      if (v.kind == MC_BOOLS && element->kind() == c10::TypeKind::BoolType) {
        c10::List<bool> out;
        for (std::int64_t item : list_of<std::int64_t>(v)) out.push_back(item != 0);
        return out;
      }
      if (v.kind == MC_TENSORS && element->kind() == c10::TypeKind::TensorType) {
        c10::List<at::Tensor> out;
        for (mc_tensor item : list_of<mc_tensor>(v)) out.push_back(borrow(item));
        return out;
      }
      if (v.kind == MC_TENSORS && element->kind() == c10::TypeKind::OptionalType) {
        c10::List<std::optional<at::Tensor>> out;
        for (mc_tensor item : list_of<mc_tensor>(v))
          out.push_back(item ? std::optional<at::Tensor>(borrow(item)) : std::nullopt);
        return out;
      }
      break;
    }
    default: break;
  }
  TORCH_CHECK_TYPE(false, "an argument of type ", type->str(), " cannot be made of a value of kind ", v.kind);
}

namespace {
template <class T>
void copy_list(mc_value& out, int kind, const std::vector<T>& items) {
  out.kind = kind;
  out.n = static_cast<std::int64_t>(items.size());
  void* memory = mc_malloc(items.size() * sizeof(T));
  if (!items.empty()) std::memcpy(memory, items.data(), items.size() * sizeof(T));
  out.u.p = memory;
}
}  // namespace

mc_value from_ivalue(const c10::IValue& value) {
  mc_value out{};
  if (value.isNone()) return out;
  if (value.isTensor()) {
    out.kind = value.toTensor().defined() ? MC_TENSOR : MC_NONE;
    out.u.t = hand_out(value.toTensor());
  } else if (value.isInt() || value.isSymInt()) {
    out.kind = MC_INT;
    out.u.i = value.isInt() ? value.toInt() : value.toSymInt().expect_int();
  } else if (value.isDouble()) {
    out.kind = MC_DOUBLE;
    out.u.d = value.toDouble();
  } else if (value.isBool()) {
    out.kind = MC_BOOL;
    out.u.i = value.toBool();
  } else if (value.isComplexDouble()) {
    out.kind = MC_COMPLEX;
    out.u.c[0] = value.toComplexDouble().real();
    out.u.c[1] = value.toComplexDouble().imag();
  } else if (value.isString()) {
    const std::string text = value.toStringRef();
    copy_list(out, MC_STRING, std::vector<char>(text.begin(), text.end()));
  } else if (value.isDevice()) {
    out.kind = MC_DEVICE;
    out.u.i = value.toDevice().type() == kDeviceType ? MC_DEVICE_CUDA : static_cast<int>(value.toDevice().type());
    out.aux = value.toDevice().index();
  } else if (value.isTensorList()) {
    std::vector<mc_tensor> handles;
    for (const at::Tensor& tensor : value.toTensorVector()) handles.push_back(hand_out(tensor));
    copy_list(out, MC_TENSORS, handles);
  } else if (value.isIntList()) {
    copy_list(out, MC_INTS, value.toIntVector());
  } else if (value.isDoubleList()) {
    copy_list(out, MC_DOUBLES, value.toDoubleVector());
  } else {
    TORCH_CHECK(false, "a result of type ", value.tagKind(), " cannot be handed to a candidate");
  }
  return out;
}

void free_value(mc_value& v) {
  if (v.kind == MC_TENSOR) {
    mc_release(v.u.t);
  } else if (v.kind == MC_TENSORS) {
    for (mc_tensor item : list_of<mc_tensor>(v))
      if (item) mc_release(item);
    mc_free(const_cast<void*>(v.u.p));
  } else if (v.kind == MC_VALUES) {
    for (const mc_value& item : list_of<mc_value>(v)) free_value(const_cast<mc_value&>(item));
    mc_free(const_cast<void*>(v.u.p));
  } else if (v.kind == MC_STRING || v.kind == MC_INTS || v.kind == MC_DOUBLES || v.kind == MC_BOOLS) {
    mc_free(const_cast<void*>(v.u.p));
  }
  v = mc_value{};
}

}  // namespace musacoder::device

using namespace musacoder::device;

MC_EXPORT void mc_retain(mc_tensor tensor) { c10::raw::intrusive_ptr::incref(reinterpret_cast<c10::TensorImpl*>(tensor)); }
MC_EXPORT void mc_release(mc_tensor tensor) {
  c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(reinterpret_cast<c10::TensorImpl*>(tensor));
}
MC_EXPORT int64_t mc_use_count(mc_tensor tensor) {
  return static_cast<std::int64_t>(c10::raw::intrusive_ptr::use_count(reinterpret_cast<c10::TensorImpl*>(tensor)));
}

MC_EXPORT void mc_info(mc_tensor handle, mc_tensor_info* info) {
  auto* impl = reinterpret_cast<c10::TensorImpl*>(handle);
  const at::Device device = impl->device();
  info->sizes = impl->sizes().data();
  info->strides = impl->strides().data();
  info->dim = impl->dim();
  info->numel = impl->numel();
  info->storage_offset = impl->has_storage() ? impl->storage_offset() : 0;
  info->dtype = static_cast<std::int32_t>(c10::typeMetaToScalarType(impl->dtype()));
  info->itemsize = static_cast<std::int32_t>(impl->itemsize());
  info->device_type = device.type() == kDeviceType ? MC_DEVICE_CUDA : static_cast<std::int32_t>(device.type());
  info->device_index = device.type() == kDeviceType ? 0 : device.index();
  info->data = impl->has_storage() && impl->storage() ? const_cast<void*>(impl->data()) : nullptr;
  std::uint32_t flags = 0;
  if (impl->is_contiguous()) flags |= MC_CONTIGUOUS;
  if (impl->is_contiguous(at::MemoryFormat::ChannelsLast)) flags |= MC_CHANNELS_LAST;
  if (impl->is_contiguous(at::MemoryFormat::ChannelsLast3d)) flags |= MC_CHANNELS_LAST_3D;
  if (impl->is_non_overlapping_and_dense()) flags |= MC_DENSE;
  if (impl->has_storage()) flags |= MC_HAS_STORAGE;
  if (impl->requires_grad()) flags |= MC_REQUIRES_GRAD;
  info->flags = flags;
}

MC_EXPORT int mc_set_requires_grad(mc_tensor tensor, int value) {
  try {
    borrow(tensor).set_requires_grad(value != 0);
    return 0;
  } catch (...) {
    catch_error();
    return -1;
  }
}

MC_EXPORT mc_tensor mc_from_blob(void* data, const int64_t* sizes, const int64_t* strides, int64_t dim, int32_t dtype,
                                 int32_t device_type, int32_t device_index, void (*deleter)(void*, void*), void* context) {
  try {
    const at::IntArrayRef shape(sizes, static_cast<std::size_t>(dim));
    std::vector<std::int64_t> steps(shape.size(), 1);
    if (strides) steps.assign(strides, strides + dim);
    else
      for (std::size_t i = shape.size(); i-- > 1;) steps[i - 1] = steps[i] * shape[i];
    const auto type = static_cast<at::ScalarType>(dtype);
    if (device_type == MC_DEVICE_CUDA) {
      TORCH_CHECK(device_index <= 0, "CUDA error: invalid device ordinal");
      TORCH_CHECK(!deleter, "from_blob with a deleter is not available for memory of the device");
      return hand_out(wrap(reinterpret_cast<std::uint64_t>(data), shape, steps, type));
    }
    std::function<void(void*)> release = [](void*) {};
    if (deleter) release = [deleter, context](void* p) { deleter(p, context); };
    return hand_out(at::from_blob(data, shape, steps, release, at::TensorOptions().dtype(type)));
  } catch (...) {
    catch_error();
    return nullptr;
  }
}

MC_EXPORT char* mc_to_string(mc_tensor handle) {
  try {
    at::Tensor tensor = borrow(handle);
    std::ostringstream stream;
    {
      Internal internal;
      stream << tensor.cpu();
    }
    std::string text = stream.str();
    const std::size_t at = text.rfind("[ CPU");
    if (!tensor.is_cpu() && at != std::string::npos) text.replace(at, 5, "[ CUDA");
    auto* out = static_cast<char*>(mc_malloc(text.size() + 1));
    std::memcpy(out, text.c_str(), text.size() + 1);
    return out;
  } catch (...) {
    catch_error();
    return nullptr;
  }
}

MC_EXPORT int mc_call_op(const char* name, const char* overload, const mc_arg* args, int n_args, mc_value* results,
                         int max_results) {
  try {
    auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    TORCH_CHECK_NOT_IMPLEMENTED(op, "torch has no operator ", name, " ", overload);
    const auto& arguments = op->schema().arguments();
    torch::jit::Stack stack(arguments.size());
    std::vector<bool> given(arguments.size());
    std::size_t position = 0;
    for (int i = 0; i < n_args; ++i) {
      std::size_t slot = position;
      if (args[i].name) {
        slot = 0;
        while (slot < arguments.size() && arguments[slot].name() != args[i].name) ++slot;
      } else {
        ++position;
      }
      TORCH_CHECK_TYPE(slot < arguments.size() && !given[slot], name, "() got an unexpected argument ",
                       args[i].name ? args[i].name : "");
      given[slot] = true;
      stack[slot] = to_ivalue(args[i].value, arguments[slot].type());
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (given[i]) continue;
      TORCH_CHECK_TYPE(arguments[i].default_value(), name, "() is missing the argument ", arguments[i].name());
      stack[i] = *arguments[i].default_value();
    }
    op->callBoxed(&stack);
    const int n = static_cast<int>(std::min<std::size_t>(stack.size(), static_cast<std::size_t>(max_results)));
    for (int i = 0; i < n; ++i) results[i] = from_ivalue(stack[static_cast<std::size_t>(i)]);
    return n;
  } catch (...) {
    catch_error();
    return -1;
  }
}

MC_EXPORT void* mc_current_stream(void) { return current_stream(); }
MC_EXPORT int32_t mc_default_dtype(void) { return static_cast<std::int32_t>(c10::get_default_dtype_as_scalartype()); }
MC_EXPORT int mc_grad_enabled(void) { return c10::GradMode::is_enabled(); }
MC_EXPORT void mc_set_grad_enabled(int value) { c10::GradMode::set_enabled(value != 0); }
MC_EXPORT void mc_warn(const char* message, const char* file, int line) {
  std::fprintf(stderr, "Warning: %s (%s:%d)\n", message, file, line);
}
MC_EXPORT int mc_error_kind(void) { return t_error_kind; }
MC_EXPORT const char* mc_error_message(void) { return last_error().c_str(); }
MC_EXPORT void mc_set_error(int kind, const char* message) { set_error(kind, message); }
MC_EXPORT void* mc_malloc(size_t bytes) {
  void* memory = std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
MC_EXPORT void mc_free(void* memory) { std::free(memory); }

// namespace torch: everything of at, and the names that torch adds.
#ifndef MUSACODER_SLIM_MUSACODER_TORCH_H
#define MUSACODER_SLIM_MUSACODER_TORCH_H

#include "aten.h"

namespace torch {
using namespace at;
using std::nullopt;
using std::optional;
using Dtype = at::ScalarType;
constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kUInt16 = at::kUInt16;
constexpr auto kUInt32 = at::kUInt32;
constexpr auto kUInt64 = at::kUInt64;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
constexpr auto kU8 = kUInt8;
constexpr auto kI8 = kInt8;
constexpr auto kI16 = kInt16;
constexpr auto kI32 = kInt32;
constexpr auto kI64 = kInt64;
constexpr auto kF16 = kFloat16;
constexpr auto kF32 = kFloat32;
constexpr auto kF64 = kFloat64;
using at::NoGradGuard;

// torch::tensor({1, 2, 3}): int64 for integers, the default type for floats.
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(T value, const TensorOptions& options = {}) {
  const ScalarType own = std::is_floating_point_v<T> ? static_cast<ScalarType>(mc_default_dtype())
                         : std::is_same_v<T, bool>   ? kBool
                                                     : kLong;
  return at::scalar_tensor(value, options.has_dtype() ? options : options.dtype(own));
}
#define MC_TENSOR_LIST(type, as, deduced)                                                                          \
  inline Tensor tensor(ArrayRef<type> values, const TensorOptions& options = {}) {                                 \
    std::vector<as> copy(values.begin(), values.end());                                                            \
    return at::tensor_of<as>(copy, options.has_dtype() ? options : options.dtype(deduced));                        \
  }                                                                                                                \
  inline Tensor tensor(std::initializer_list<type> values, const TensorOptions& options = {}) {                    \
    return tensor(ArrayRef<type>(values.begin(), values.size()), options);                                         \
  }                                                                                                                \
  inline Tensor tensor(const std::vector<type>& values, const TensorOptions& options = {}) {                       \
    return tensor(ArrayRef<type>(values.data(), values.size()), options);                                          \
  }
MC_TENSOR_LIST(int, std::int64_t, kLong)
MC_TENSOR_LIST(std::int64_t, std::int64_t, kLong)
MC_TENSOR_LIST(float, float, static_cast<ScalarType>(mc_default_dtype()))
MC_TENSOR_LIST(double, double, static_cast<ScalarType>(mc_default_dtype()))
#undef MC_TENSOR_LIST

namespace cuda {
inline bool is_available() { return true; }
inline std::size_t device_count() { return 1; }
inline bool cudnn_is_available() { return true; }
inline void manual_seed(std::uint64_t) {}
inline void manual_seed_all(std::uint64_t) {}
}  // namespace cuda
namespace autograd {
using Variable = at::Tensor;
using variable_list = std::vector<at::Tensor>;
}  // namespace autograd
namespace indexing = at::indexing;
}  // namespace torch

// torch's stand-ins for glog.
#ifndef CHECK
#define CHECK(condition) \
  (C10_LIKELY(condition)) ? (void)0 : ::c10::detail::CheckThrow() & ::c10::detail::CheckFailure() << "Check failed: " #condition " "
#define CHECK_EQ(a, b) TORCH_CHECK_EQ(a, b)
#define CHECK_NE(a, b) TORCH_CHECK_NE(a, b)
#define CHECK_LE(a, b) TORCH_CHECK_LE(a, b)
#define CHECK_LT(a, b) TORCH_CHECK_LT(a, b)
#define CHECK_GE(a, b) TORCH_CHECK_GE(a, b)
#define CHECK_GT(a, b) TORCH_CHECK_GT(a, b)
#endif
#endif

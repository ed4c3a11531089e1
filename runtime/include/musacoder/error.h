// Errors and messages: c10::Error, TORCH_CHECK and kin, c10::str.
//
//   TORCH_CHECK(x.dim() == 2, "expected a matrix, got ", x.sizes());   // throws c10::Error
//
// A message shows its parts as an output stream would, without the cost of including one.
#ifndef MUSACODER_SLIM_MUSACODER_ERROR_H
#define MUSACODER_SLIM_MUSACODER_ERROR_H

#include "abi.h"
#include "std.h"

#define C10_LIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 1))
#define C10_UNLIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 0))
#define C10_ALWAYS_INLINE __inline__ __attribute__((always_inline))
#define C10_NOINLINE __attribute__((noinline))
#define C10_UNUSED __attribute__((__unused__))
#define C10_NODISCARD [[nodiscard]]
#define C10_API __attribute__((__visibility__("default")))
#define C10_EXPORT __attribute__((__visibility__("default")))
#define C10_HIDDEN __attribute__((__visibility__("hidden")))
#define C10_IMPORT C10_EXPORT
#define TORCH_API C10_API
#define TORCH_CUDA_CPP_API C10_API
#define TORCH_CUDA_CU_API C10_API
#define C10_CUDA_API C10_API
#define C10_CONCATENATE_IMPL(s1, s2) s1##s2
#define C10_CONCATENATE(s1, s2) C10_CONCATENATE_IMPL(s1, s2)
#define C10_STRINGIZE_IMPL(x) #x
#define C10_STRINGIZE(x) C10_STRINGIZE_IMPL(x)
#define C10_UID __COUNTER__
#define C10_ANONYMOUS_VARIABLE(str) C10_CONCATENATE(str, __COUNTER__)
#define C10_MAX_THREADS_PER_BLOCK(val) (((val) <= 1024) ? (val) : 256)
#define C10_MIN_BLOCKS_PER_SM(threads, blocks) \
  ((((threads) * (blocks) <= 2048) ? (blocks) : ((2048 + (threads) - 1) / (threads))))
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__((C10_MAX_THREADS_PER_BLOCK((threads))))
#define C10_LAUNCH_BOUNDS_2(threads, blocks) \
  __launch_bounds__((C10_MAX_THREADS_PER_BLOCK((threads))), (C10_MIN_BLOCKS_PER_SM((threads), (blocks))))
#ifdef __CUDACC__
#define C10_WARP_SIZE 32
#define CUDA_KERNEL_ASSERT(cond) \
  if (C10_UNLIKELY(!(cond))) { \
    __assert_fail_or_trap(#cond, __FILE__, static_cast<unsigned int>(__LINE__), __func__); \
  }
#define CUDA_KERNEL_ASSERT_MSG(cond, msg) CUDA_KERNEL_ASSERT(cond)
#define __assert_fail_or_trap __assert_fail
#endif

namespace caffe2 {
class TypeMeta;
}
namespace at {
class Tensor;
}
namespace c10 {
enum class ScalarType : std::int8_t;
enum class DeviceType : std::int8_t;
enum class Layout : std::int8_t;
enum class MemoryFormat : std::int8_t;
struct Device;
class Scalar;
template <class T>
class ArrayRef;
struct Half;
struct BFloat16;
inline const char* toString(ScalarType type);

namespace detail {

inline void append(std::string& out, const char* text) { out += text ? text : "(null)"; }
inline void append(std::string& out, char* text) { out += text ? text : "(null)"; }
inline void append(std::string& out, const std::string& text) { out += text; }
inline void append(std::string& out, std::string_view text) { out.append(text.data(), text.size()); }
inline void append(std::string& out, char c) { out += c; }
inline void append(std::string& out, signed char c) { out += static_cast<char>(c); }
inline void append(std::string& out, unsigned char c) { out += static_cast<char>(c); }
inline void append(std::string& out, bool value) { out += value ? '1' : '0'; }
inline void append(std::string& out, double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", value);
  out += text;
}
inline void append(std::string& out, float value) { append(out, static_cast<double>(value)); }
template <class T>
std::enable_if_t<std::is_integral_v<T> && (sizeof(T) > 1)> append(std::string& out, T value) {
  out += std::to_string(value);
}
inline void append(std::string& out, const void* pointer) {
  char text[24];
  std::snprintf(text, sizeof text, "%p", pointer);
  out += text;
}
void append(std::string& out, ScalarType type);
void append(std::string& out, DeviceType type);
void append(std::string& out, Layout layout);
void append(std::string& out, MemoryFormat format);
void append(std::string& out, const Device& device);
void append(std::string& out, const Scalar& scalar);
void append(std::string& out, const caffe2::TypeMeta& meta);
void append(std::string& out, const Half& value);
void append(std::string& out, const BFloat16& value);
void append(std::string& out, const at::Tensor& tensor);
template <class T>
void append(std::string& out, ArrayRef<T> list);
template <class T>
void append(std::string& out, const std::vector<T>& list);
template <class T>
void append(std::string& out, const std::optional<T>& value);
// Anything else that can be written to a stream.
template <class T>
std::enable_if_t<std::is_class_v<T> || std::is_enum_v<T> || (std::is_pointer_v<T> && !std::is_convertible_v<T, const char*>)>
append_other(std::string& out, const T& value) {
  std::conditional_t<(sizeof(T) > 0), std::ostringstream, void> stream;
  stream << value;
  out += stream.str();
}

}  // namespace detail

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  Error(const char*, const char*, std::uint32_t, std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }
  const std::string& msg() const { return message_; }

 private:
  std::string message_;
};
class IndexError : public Error { using Error::Error; };
class ValueError : public Error { using Error::Error; };
class TypeError : public Error { using Error::Error; };
class NotImplementedError : public Error { using Error::Error; };
class LinAlgError : public Error { using Error::Error; };
class OutOfMemoryError : public Error { using Error::Error; };
class CUDAError : public Error { using Error::Error; };

namespace detail {

[[noreturn]] inline void rethrow() {
  std::string message = mc_error_message();
  switch (mc_error_kind()) {
    case MC_VALUE_ERROR: throw ValueError(std::move(message));
    case MC_TYPE_ERROR: throw TypeError(std::move(message));
    case MC_INDEX_ERROR: throw IndexError(std::move(message));
    case MC_NOT_IMPLEMENTED: throw NotImplementedError(std::move(message));
    case MC_MEMORY_ERROR: throw OutOfMemoryError(std::move(message));
    default: throw Error(std::move(message));
  }
}

template <class T>
auto put(std::string& out, const T& value, int) -> decltype(append(out, value), void()) { append(out, value); }
template <class T>
void put(std::string& out, const T& value, long) { append_other(out, value); }

}  // namespace detail

template <class... Args>
std::string str(const Args&... args) {
  std::string out;
  (detail::put(out, args, 0), ...);
  return out;
}

namespace detail {
template <class E>
[[noreturn]] void fail(std::string message) { throw E(std::move(message)); }

inline std::string check_message(const char* fallback) { return fallback; }
template <class... Args>
std::string check_message(const char*, const Args&... args) { return ::c10::str(args...); }
}  // namespace detail
}  // namespace c10

#define MC_CHECK_WITH(error_t, cond, ...)                                                                          \
  if (C10_UNLIKELY(!(cond))) {                                                                                     \
    ::c10::detail::fail<::c10::error_t>(::c10::detail::check_message(                                              \
        "Expected " #cond                                                                                          \
        " to be true, but got false.  (Could this error message be improved?  If so, please report an "            \
        "enhancement request to PyTorch.)" __VA_OPT__(, ) __VA_ARGS__));                                           \
  }
#define TORCH_CHECK(cond, ...) MC_CHECK_WITH(Error, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) MC_CHECK_WITH(IndexError, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) MC_CHECK_WITH(ValueError, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) MC_CHECK_WITH(TypeError, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_LINALG(cond, ...) MC_CHECK_WITH(LinAlgError, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) MC_CHECK_WITH(NotImplementedError, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_WITH(error_t, cond, ...) MC_CHECK_WITH(error_t, cond __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_ARG(cond, argN, ...) TORCH_CHECK(cond, "invalid argument ", argN, ": ", __VA_ARGS__)
#define TORCH_CHECK_IF_NOT_ON_CUDA(cond, ...) TORCH_CHECK(cond __VA_OPT__(, ) __VA_ARGS__)
#define STD_TORCH_CHECK(cond, ...) TORCH_CHECK(cond __VA_OPT__(, ) __VA_ARGS__)

#define TORCH_INTERNAL_ASSERT(cond, ...)                                                                          \
  if (C10_UNLIKELY(!(cond))) {                                                                                    \
    ::c10::detail::fail<::c10::Error>(::c10::str(#cond " INTERNAL ASSERT FAILED at \"" __FILE__ "\":", __LINE__,  \
                                                 ", please report a bug to PyTorch. " __VA_OPT__(, ) __VA_ARGS__)); \
  }
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  while (false) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERT(...)                  \
  do {                                  \
    TORCH_INTERNAL_ASSERT(__VA_ARGS__); \
  } while (false)
#define AT_ASSERTM(cond, ...)                 \
  do {                                        \
    TORCH_INTERNAL_ASSERT(cond, __VA_ARGS__); \
  } while (false)
#define AT_ERROR(...)                               \
  do {                                              \
    TORCH_CHECK(false, ::c10::str(__VA_ARGS__));    \
  } while (false)
#define TORCH_WARN(...) ::mc_warn(::c10::str(__VA_ARGS__).c_str(), __FILE__, __LINE__);
#define TORCH_WARN_DEPRECATION(...) TORCH_WARN(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                                                   \
  [[maybe_unused]] static const auto C10_ANONYMOUS_VARIABLE(torch_warn_once_) = [&] { \
    TORCH_WARN(__VA_ARGS__);                                                   \
    return true;                                                               \
  }();
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)

// Comparisons throw and take a message by <<, as torch's own stand-ins for glog do.
namespace c10::detail {
struct CheckFailure {
  std::string text;
  template <class T>
  CheckFailure& operator<<(const T& value) {
    put(text, value, 0);
    return *this;
  }
};
struct CheckThrow {
  [[noreturn]] void operator&(const CheckFailure& failure) { throw Error(failure.text); }
};
}  // namespace c10::detail
#define TORCH_CHECK_OP(val1, val2, op)                                                                       \
  (C10_LIKELY((val1)op(val2)))                                                                               \
      ? (void)0                                                                                              \
      : ::c10::detail::CheckThrow() & ::c10::detail::CheckFailure() << "Check failed: " #val1 " " #op " " #val2 " (" \
                                                                    << (val1) << " vs. " << (val2) << "). "
#define TORCH_CHECK_EQ(val1, val2) TORCH_CHECK_OP(val1, val2, ==)
#define TORCH_CHECK_NE(val1, val2) TORCH_CHECK_OP(val1, val2, !=)
#define TORCH_CHECK_LE(val1, val2) TORCH_CHECK_OP(val1, val2, <=)
#define TORCH_CHECK_LT(val1, val2) TORCH_CHECK_OP(val1, val2, <)
#define TORCH_CHECK_GE(val1, val2) TORCH_CHECK_OP(val1, val2, >=)
#define TORCH_CHECK_GT(val1, val2) TORCH_CHECK_OP(val1, val2, >)
#endif

// AT_DISPATCH_*: one body for every element type of a set.
//
//   AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "relu", [&] { run<scalar_t>(x, y); });
//
// The type is a ScalarType, as in torch 2.11: x.dtype() and x.type() do not compile.
#ifndef MUSACODER_SLIM_MUSACODER_DISPATCH_H
#define MUSACODER_SLIM_MUSACODER_DISPATCH_H

#include "core.h"

namespace at::detail {
inline ScalarType dispatched(ScalarType type) { return type; }
}  // namespace at::detail

#define AT_DISPATCH_CASE(enum_type, ...)                                                    \
  case enum_type: {                                                                         \
    using scalar_t [[maybe_unused]] = ::c10::impl::ScalarTypeToCPPTypeT<enum_type>;         \
    return __VA_ARGS__();                                                                   \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                                          \
  [&] {                                                                                                              \
    const auto& the_type = TYPE;                                                                                     \
    constexpr const char* at_dispatch_name = NAME;                                                                   \
    const ::c10::ScalarType _st = ::at::detail::dispatched(the_type);                                                \
    switch (_st) {                                                                                                   \
      __VA_ARGS__                                                                                                    \
      default:                                                                                                       \
        ::c10::detail::fail<::c10::NotImplementedError>(                                                             \
            ::c10::str('"', at_dispatch_name, "\" not implemented for '", ::c10::toString(_st), "'"));               \
    }                                                                                                                \
  }()

// Sets of types.
#define MC_CASES_1(a, ...) AT_DISPATCH_CASE(a, __VA_ARGS__)
#define MC_CASES_2(a, b, ...) AT_DISPATCH_CASE(a, __VA_ARGS__) MC_CASES_1(b, __VA_ARGS__)
#define MC_CASES_3(a, b, c, ...) AT_DISPATCH_CASE(a, __VA_ARGS__) MC_CASES_2(b, c, __VA_ARGS__)
#define MC_CASES_4(a, b, c, d, ...) AT_DISPATCH_CASE(a, __VA_ARGS__) MC_CASES_3(b, c, d, __VA_ARGS__)
#define MC_CASES_5(a, b, c, d, e, ...) AT_DISPATCH_CASE(a, __VA_ARGS__) MC_CASES_4(b, c, d, e, __VA_ARGS__)
#define MC_CASES_6(a, b, c, d, e, f, ...) AT_DISPATCH_CASE(a, __VA_ARGS__) MC_CASES_5(b, c, d, e, f, __VA_ARGS__)

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) MC_CASES_2(::at::ScalarType::Double, ::at::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) MC_CASES_2(::at::ScalarType::Half, ::at::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...) MC_CASES_2(::at::ScalarType::ComplexDouble, ::at::ScalarType::ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                                                                      \
  MC_CASES_5(::at::ScalarType::Byte, ::at::ScalarType::Char, ::at::ScalarType::Int, ::at::ScalarType::Long,         \
             ::at::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) MC_CASES_1(::at::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(t, ...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) MC_CASES_1(t, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(t, u, ...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) MC_CASES_2(t, u, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(t, u, v, ...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) MC_CASES_3(t, u, v, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(t, u, v, w, ...) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) MC_CASES_4(t, u, v, w, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(t, ...) AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) MC_CASES_1(t, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND(t, ...) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) MC_CASES_1(t, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(t, u, ...) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) MC_CASES_2(t, u, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(t, u, v, ...) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) MC_CASES_3(t, u, v, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(t, ...) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) MC_CASES_1(t, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(t, u, ...) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) MC_CASES_2(t, u, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(t, u, v, ...) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) MC_CASES_3(t, u, v, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(t, u, v, w, ...) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__) MC_CASES_4(t, u, v, w, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND(T, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T, U, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(T, U, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(T, U, V, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND3(T, U, V, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND4(T, U, V, W, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND4(T, U, V, W, __VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(T, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(T, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND(T, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T, U, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND2(T, U, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T, U, V, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND3(T, U, V, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(T, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(T, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(T, U, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(T, U, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(T, U, V, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(T, U, V, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(T, U, V, W, TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(T, U, V, W, __VA_ARGS__))

// index_t in place of scalar_t.
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                                                   \
  [&] {                                                                                                            \
    const ::c10::ScalarType _it = ::at::detail::dispatched(TYPE);                                                  \
    switch (_it) {                                                                                                 \
      case ::at::ScalarType::Int: {                                                                                \
        using index_t [[maybe_unused]] = int;                                                                      \
        return __VA_ARGS__();                                                                                      \
      }                                                                                                            \
      case ::at::ScalarType::Long: {                                                                               \
        using index_t [[maybe_unused]] = std::int64_t;                                                             \
        return __VA_ARGS__();                                                                                      \
      }                                                                                                            \
      default:                                                                                                     \
        ::c10::detail::fail<::c10::NotImplementedError>(                                                           \
            ::c10::str('"', NAME, "\" not implemented for '", ::c10::toString(_it), "'"));                         \
    }                                                                                                              \
  }()

namespace at {
// Types for accumulating: float for half on the device.
template <class T, bool cuda>
struct AccumulateType { using type = T; };
template <bool cuda>
struct AccumulateType<c10::Half, cuda> { using type = float; };
template <bool cuda>
struct AccumulateType<c10::BFloat16, cuda> { using type = float; };
template <>
struct AccumulateType<float, false> { using type = double; };
template <bool cuda>
struct AccumulateType<std::int8_t, cuda> { using type = std::int64_t; };
template <bool cuda>
struct AccumulateType<std::uint8_t, cuda> { using type = std::int64_t; };
template <bool cuda>
struct AccumulateType<std::int16_t, cuda> { using type = std::int64_t; };
template <bool cuda>
struct AccumulateType<std::int32_t, cuda> { using type = std::int64_t; };
template <class T, bool cuda>
using acc_type = typename AccumulateType<T, cuda>::type;
template <class T>
struct OpMathType { using type = T; };
template <>
struct OpMathType<c10::Half> { using type = float; };
template <>
struct OpMathType<c10::BFloat16> { using type = float; };
template <class T>
using opmath_type = typename OpMathType<T>::type;
}  // namespace at
#endif

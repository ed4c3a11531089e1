// Bindings: what PYBIND11_MODULE, m.def and TORCH_LIBRARY become here.
//
//   PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
//     m.def("forward", &forward, "doc", py::arg("x"), py::arg("eps") = 1e-5);
//   }
//
// A bound function is a thunk with its list of parameter types (abi.h); Python's side of the call is the loader's work.
// A parameter or result type without a Caster is not available here and does not compile.
#ifndef MUSACODER_SLIM_MUSACODER_BIND_H
#define MUSACODER_SLIM_MUSACODER_BIND_H

#ifdef MUSACODER_FULL_HEADERS  // torch's own headers come first (include_full/musacoder_full.h)
#include "abi.h"
#else
#include "ops.h"
#endif

namespace musacoder::bind {

using at::Tensor;

inline mc_value make(std::int32_t kind) {
  mc_value v{};
  v.kind = kind;
  return v;
}

#ifdef MUSACODER_FULL_HEADERS
#ifdef MUSACODER_HARDWARE
constexpr c10::DeviceType kDeviceType = c10::DeviceType::CUDA;
#else
constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
#endif
inline mc_tensor handle_of(const Tensor& t) { return t.defined() ? reinterpret_cast<mc_tensor>(t.unsafeGetTensorImpl()) : nullptr; }
inline Tensor adopt(mc_tensor owned) {
  if (!owned) return Tensor();
  return Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(reinterpret_cast<c10::TensorImpl*>(owned)));
}
inline c10::Device device_from(const mc_value& v) {
  if (v.u.i == MC_DEVICE_CUDA) return c10::Device(kDeviceType, 0);
  return c10::Device(static_cast<c10::DeviceType>(v.u.i), static_cast<c10::DeviceIndex>(v.aux));
}
inline mc_value device_value(const c10::Device& d) {
  mc_value v = make(MC_DEVICE);
  v.u.i = d.type() == kDeviceType ? MC_DEVICE_CUDA : static_cast<std::int64_t>(d.type());
  v.aux = d.index();
  return v;
}
inline c10::Scalar scalar_from(const mc_value& v) {
  if (v.kind == MC_DOUBLE) return c10::Scalar(v.u.d);
  if (v.kind == MC_BOOL) return c10::Scalar(v.u.i != 0);
  if (v.kind == MC_COMPLEX) return c10::Scalar(c10::complex<double>(v.u.c[0], v.u.c[1]));
  return c10::Scalar(v.u.i);
}
inline mc_value scalar_value(const c10::Scalar& s) {
  mc_value v = make(s.isFloatingPoint() ? MC_DOUBLE : s.isBoolean() ? MC_BOOL : s.isComplex() ? MC_COMPLEX : MC_INT);
  if (v.kind == MC_DOUBLE) v.u.d = s.toDouble();
  else if (v.kind == MC_COMPLEX) { v.u.c[0] = s.toComplexDouble().real(); v.u.c[1] = s.toComplexDouble().imag(); }
  else v.u.i = s.toLong();
  return v;
}
#else
inline mc_tensor handle_of(const Tensor& t) { return t.handle(); }
inline Tensor adopt(mc_tensor owned) { return Tensor::adopt(owned); }
inline c10::Device device_from(const mc_value& v) {
  return c10::Device(static_cast<c10::DeviceType>(v.u.i), static_cast<c10::DeviceIndex>(v.aux));
}
inline mc_value device_value(const c10::Device& d) { return at::ops::Argument(d).value; }
inline c10::Scalar scalar_from(const mc_value& v) { return c10::Scalar::from(v); }
inline mc_value scalar_value(const c10::Scalar& s) { return s.value(); }
#endif

// How a C++ type travels: name() as in mc_parameter, load() from a borrowed value, get() for the call, store() for results.
template <class T, class = void>
struct Caster;

inline mc_value make_list(std::int32_t kind, std::size_t n, std::size_t item) {
  mc_value v = make(kind);
  v.n = static_cast<std::int64_t>(n);
  v.u.p = mc_malloc(n * item);
  return v;
}

template <>
struct Caster<Tensor> {
  Tensor value;
  static std::string name() { return "Tensor"; }
  void load(const mc_value& v) {
    if (v.kind == MC_TENSOR) {
      mc_retain(v.u.t);
      value = adopt(v.u.t);
    }
  }
  Tensor& get() { return value; }
  static mc_value store(Tensor t) {
    mc_value v = make(t.defined() ? MC_TENSOR : MC_NONE);
    v.u.t = handle_of(t);
    if (t.defined()) mc_retain(v.u.t);
    return v;
  }
};
template <class T>
struct Caster<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>>> {
  T value{};
  static std::string name() { return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T)); }
  void load(const mc_value& v) { value = static_cast<T>(v.u.i); }
  T& get() { return value; }
  static mc_value store(T x) {
    mc_value v = make(MC_INT);
    v.u.i = static_cast<std::int64_t>(x);
    return v;
  }
};
template <>
struct Caster<bool> {
  bool value = false;
  static std::string name() { return "bool"; }
  void load(const mc_value& v) { value = v.u.i != 0; }
  bool& get() { return value; }
  static mc_value store(bool x) {
    mc_value v = make(MC_BOOL);
    v.u.i = x;
    return v;
  }
};
template <class T>
struct Caster<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  T value{};
  static std::string name() { return "float"; }
  void load(const mc_value& v) { value = static_cast<T>(v.kind == MC_DOUBLE ? v.u.d : static_cast<double>(v.u.i)); }
  T& get() { return value; }
  static mc_value store(T x) {
    mc_value v = make(MC_DOUBLE);
    v.u.d = static_cast<double>(x);
    return v;
  }
};
template <>
struct Caster<std::string> {
  std::string value;
  static std::string name() { return "str"; }
  void load(const mc_value& v) { value.assign(static_cast<const char*>(v.u.p), static_cast<std::size_t>(v.n)); }
  std::string& get() { return value; }
  static mc_value store(std::string_view x) {
    mc_value v = make_list(MC_STRING, x.size(), 1);
    std::memcpy(const_cast<void*>(v.u.p), x.data(), x.size());
    return v;
  }
};
template <>
struct Caster<std::string_view> : Caster<std::string> {
  std::string_view get() { return value; }
};
template <>
struct Caster<const char*> : Caster<std::string> {
  const char* get() { return value.c_str(); }
  static mc_value store(const char* x) { return Caster<std::string>::store(x ? x : ""); }
};
template <class T, std::int32_t kKind>
struct EnumCaster {
  T value{};
  void load(const mc_value& v) { value = static_cast<T>(v.u.i); }
  T& get() { return value; }
  static mc_value store(T x) {
    mc_value v = make(kKind);
    v.u.i = static_cast<std::int64_t>(x);
    return v;
  }
};
template <>
struct Caster<c10::ScalarType> : EnumCaster<c10::ScalarType, MC_DTYPE> {
  static std::string name() { return "ScalarType"; }
};
template <>
struct Caster<c10::Layout> : EnumCaster<c10::Layout, MC_LAYOUT> {
  static std::string name() { return "Layout"; }
};
template <>
struct Caster<c10::MemoryFormat> : EnumCaster<c10::MemoryFormat, MC_MEMORY_FORMAT> {
  static std::string name() { return "MemoryFormat"; }
};
template <>
struct Caster<c10::Device> {
  c10::Device value{c10::kCPU};
  static std::string name() { return "Device"; }
  void load(const mc_value& v) { value = device_from(v); }
  c10::Device& get() { return value; }
  static mc_value store(const c10::Device& x) { return device_value(x); }
};
template <>
struct Caster<c10::Scalar> {
  c10::Scalar value;
  static std::string name() { return "Scalar"; }
  void load(const mc_value& v) { value = scalar_from(v); }
  c10::Scalar& get() { return value; }
  static mc_value store(const c10::Scalar& x) { return scalar_value(x); }
};

template <class T>
struct Caster<std::optional<T>> {
  std::optional<T> value;
  static std::string name() { return Caster<T>::name() + "?"; }
  void load(const mc_value& v) {
    if (v.kind == MC_NONE) return;
    Caster<T> one;
    one.load(v);
    value = one.get();
  }
  std::optional<T>& get() { return value; }
  static mc_value store(const std::optional<T>& x) { return x ? Caster<T>::store(*x) : make(MC_NONE); }
};

template <class T>
struct Caster<std::vector<T>> {
  std::vector<T> value;
  static std::string name() { return Caster<T>::name() + "[]"; }
  static constexpr bool kBoolean = std::is_same_v<T, bool>;
  void load(const mc_value& v) {
    for (std::int64_t i = 0; i < v.n; ++i) {
      if constexpr (std::is_same_v<T, Tensor>) {
        mc_tensor t = static_cast<const mc_tensor*>(v.u.p)[i];
        if (t) mc_retain(t);
        value.push_back(adopt(t));
      } else if constexpr (std::is_floating_point_v<T>) {
        value.push_back(static_cast<T>(static_cast<const double*>(v.u.p)[i]));
      } else {
        static_assert(std::is_integral_v<T>, "a list of this type is not available to bound functions");
        value.push_back(static_cast<T>(static_cast<const std::int64_t*>(v.u.p)[i]));
      }
    }
  }
  std::vector<T>& get() { return value; }
  static mc_value store(const std::vector<T>& x) {
    if constexpr (std::is_same_v<T, Tensor>) {
      mc_value v = make_list(MC_TENSORS, x.size(), sizeof(mc_tensor));
      auto* out = static_cast<mc_tensor*>(const_cast<void*>(v.u.p));
      for (const Tensor& t : x) {
        if (t.defined()) mc_retain(handle_of(t));
        *out++ = handle_of(t);
      }
      return v;
    } else if constexpr (std::is_floating_point_v<T>) {
      mc_value v = make_list(MC_DOUBLES, x.size(), sizeof(double));
      auto* out = static_cast<double*>(const_cast<void*>(v.u.p));
      for (T item : x) *out++ = static_cast<double>(item);
      return v;
    } else {
      static_assert(std::is_integral_v<T>, "a list of this type is not available to bound functions");
      mc_value v = make_list(kBoolean ? MC_BOOLS : MC_INTS, x.size(), sizeof(std::int64_t));
      auto* out = static_cast<std::int64_t*>(const_cast<void*>(v.u.p));
      for (T item : x) *out++ = static_cast<std::int64_t>(item);
      return v;
    }
  }
};
template <>
struct Caster<c10::IntArrayRef> : Caster<std::vector<std::int64_t>> {
  c10::IntArrayRef get() { return value; }
  static mc_value store(c10::IntArrayRef x) { return Caster<std::vector<std::int64_t>>::store(x.vec()); }
};
template <>
struct Caster<c10::OptionalIntArrayRef> : Caster<std::optional<std::vector<std::int64_t>>> {
  c10::OptionalIntArrayRef get() { return value ? c10::OptionalIntArrayRef(*value) : c10::OptionalIntArrayRef(); }
};
template <>
struct Caster<std::optional<c10::IntArrayRef>> : Caster<std::optional<std::vector<std::int64_t>>> {
  std::optional<c10::IntArrayRef> get() {
    return value ? std::optional<c10::IntArrayRef>(*value) : std::nullopt;
  }
};
template <class T, std::size_t N>
struct Caster<std::array<T, N>> {
  std::array<T, N> value{};
  static std::string name() { return Caster<T>::name() + "[" + std::to_string(N) + "]"; }
  void load(const mc_value& v) {
    Caster<std::vector<T>> list;
    list.load(v);
    for (std::size_t i = 0; i < N && i < list.value.size(); ++i) value[i] = list.value[i];
  }
  std::array<T, N>& get() { return value; }
  static mc_value store(const std::array<T, N>& x) { return Caster<std::vector<T>>::store(std::vector<T>(x.begin(), x.end())); }
};
template <class... T>
struct TupleCaster {
  static std::string name() {
    std::string out = "(";
    ((out += (out.size() > 1 ? ", " : "") + Caster<std::decay_t<T>>::name()), ...);
    return out + ")";
  }
  template <class Tuple, std::size_t... I>
  static mc_value store_all(Tuple& x, std::index_sequence<I...>) {
    mc_value v = make_list(MC_VALUES, sizeof...(T), sizeof(mc_value));
    auto* out = static_cast<mc_value*>(const_cast<void*>(v.u.p));
    ((out[I] = Caster<std::decay_t<T>>::store(std::get<I>(x))), ...);
    return v;
  }
};
template <class... T>
struct Caster<std::tuple<T...>> : TupleCaster<T...> {
  static mc_value store(std::tuple<T...> x) { return TupleCaster<T...>::store_all(x, std::index_sequence_for<T...>()); }
};
template <class A, class B>
struct Caster<std::pair<A, B>> : TupleCaster<A, B> {
  static mc_value store(std::pair<A, B> x) { return TupleCaster<A, B>::store_all(x, std::index_sequence_for<A, B>()); }
};

inline int report(int kind, const char* message) {
  mc_set_error(kind, message);
  return -1;
}
// Runs f; what it throws becomes the error that Python raises.
template <class F>
int guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (const c10::IndexError& e) {
    return report(MC_INDEX_ERROR, e.what());
  } catch (const c10::ValueError& e) {
    return report(MC_VALUE_ERROR, e.what());
  } catch (const c10::TypeError& e) {
    return report(MC_TYPE_ERROR, e.what());
  } catch (const c10::NotImplementedError& e) {
    return report(MC_NOT_IMPLEMENTED, e.what());
  } catch (const std::bad_alloc& e) {
    return report(MC_MEMORY_ERROR, e.what());
  } catch (const std::invalid_argument& e) {
    return report(MC_VALUE_ERROR, e.what());
  } catch (const std::domain_error& e) {
    return report(MC_VALUE_ERROR, e.what());
  } catch (const std::length_error& e) {
    return report(MC_VALUE_ERROR, e.what());
  } catch (const std::out_of_range& e) {
    return report(MC_INDEX_ERROR, e.what());
  } catch (const std::range_error& e) {
    return report(MC_VALUE_ERROR, e.what());
  } catch (const std::exception& e) {
    return report(MC_RUNTIME_ERROR, e.what());
  } catch (...) {
    return report(MC_RUNTIME_ERROR, "Caught an unknown exception!");
  }
}

template <class R, class... A>
struct Signature {
  static constexpr std::size_t kArity = sizeof...(A);
  static std::vector<std::string> parameters() { return {Caster<std::remove_cv_t<std::remove_reference_t<A>>>::name()...}; }
  static std::string returns() {
    if constexpr (std::is_void_v<R>) return "None";
    else return Caster<std::decay_t<R>>::name();
  }
  template <class F, std::size_t... I>
  static int call(F& f, const mc_value* args, mc_value* result, std::index_sequence<I...>) {
    return guarded([&] {
      std::tuple<Caster<std::remove_cv_t<std::remove_reference_t<A>>>...> casters;
      (std::get<I>(casters).load(args[I]), ...);
      if constexpr (std::is_void_v<R>) {
        f(static_cast<A>(std::get<I>(casters).get())...);
        *result = make(MC_NONE);
      } else {
        *result = Caster<std::decay_t<R>>::store(f(static_cast<A>(std::get<I>(casters).get())...));
      }
    });
  }
  template <class F>
  static int thunk(void* data, const mc_value* args, mc_value* result) {
    return call(*static_cast<F*>(data), args, result, std::index_sequence_for<A...>());
  }
};
template <class F, class = void>
struct SignatureOf;
template <class R, class... A>
struct SignatureOf<R (*)(A...)> : Signature<R, A...> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : Signature<R, A...> {};
template <class M>
struct OfMember;
template <class C, class R, class... A>
struct OfMember<R (C::*)(A...)> : Signature<R, A...> {};
template <class C, class R, class... A>
struct OfMember<R (C::*)(A...) const> : Signature<R, A...> {};
template <class F>
struct SignatureOf<F, std::void_t<decltype(&F::operator())>> : OfMember<decltype(&F::operator())> {};

}  // namespace musacoder::bind

namespace pybind11 {
struct none {};
struct arg;
struct arg_v;
struct arg {
  constexpr explicit arg(const char* name = nullptr) : name(name) {}
  template <class T>
  arg_v operator=(T&& value) const;
  arg& noconvert(bool = true) { return *this; }
  const char* name;
};
struct arg_v : arg {
  template <class T>
  arg_v(const char* name, T&& value, const char* = nullptr) : arg(name) { set(std::forward<T>(value)); }
  mc_value value{};
  std::string text;
  std::vector<std::int64_t> list;

 private:
  template <class T>
  void set(T&& v) {
    using D = std::decay_t<T>;
    if constexpr (std::is_same_v<D, none> || std::is_same_v<D, std::nullopt_t> || std::is_same_v<D, std::nullptr_t>) {
      value.kind = MC_NONE;
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      text = std::string(std::string_view(v));
      value.kind = MC_STRING;
    } else if constexpr (std::is_convertible_v<T, c10::IntArrayRef> && !std::is_arithmetic_v<D>) {
      list = c10::IntArrayRef(v).vec();
      value.kind = MC_INTS;
    } else {
      value = musacoder::bind::Caster<D>::store(v);
    }
  }
};
template <class T>
arg_v arg::operator=(T&& value) const { return arg_v(name, std::forward<T>(value)); }

// The interpreter is not held while a bound function runs.
struct gil_scoped_release {};
struct gil_scoped_acquire {};
template <class... G>
struct call_guard {};
struct kw_only {};
struct pos_only {};
struct doc {
  const char* value;
  explicit doc(const char* text) : value(text) {}
};
struct name {
  explicit name(const char*) {}
};
enum class return_value_policy { automatic, automatic_reference, take_ownership, copy, move, reference, reference_internal };
namespace literals {
constexpr arg operator""_a(const char* name, std::size_t) { return arg(name); }
}  // namespace literals

class module_ {
 public:
  explicit module_(mc_module* module) : object_(module) {}
  template <class F, class... Extra>
  module_& def(const char* name, F&& f, const Extra&... extra) {
    using D = std::decay_t<F>;
    using S = musacoder::bind::SignatureOf<D>;
    std::vector<std::string> types = S::parameters();
    std::vector<mc_parameter> parameters(types.size());
    for (std::size_t i = 0; i < types.size(); ++i) parameters[i] = mc_parameter{nullptr, types[i].c_str(), 0, {}};
    const char* text = "";
    std::size_t next = 0;
    (apply(extra, parameters, next, text), ...);
    const std::string returns = S::returns();
    const mc_function function{name, text, returns.c_str(), &S::template thunk<D>, new D(std::forward<F>(f)),
                               static_cast<int>(parameters.size()), parameters.data()};
    mc_module_def(object_, &function);
    return *this;
  }
  struct Doc {
    mc_module* module;
    Doc& operator=(const char* text) {
      mc_module_doc(module, text);
      return *this;
    }
  };
  Doc doc() { return Doc{object_}; }
  struct Attribute {
    mc_module* module;
    std::string name;
    template <class T>
    Attribute& operator=(const T& v) {
      arg_v value(nullptr, v);
      if (value.value.kind == MC_STRING) {
        value.value.u.p = value.text.data();
        value.value.n = static_cast<std::int64_t>(value.text.size());
      }
      if (name == "__doc__" && value.value.kind == MC_STRING) mc_module_doc(module, value.text.c_str());
      else mc_module_attribute(module, name.c_str(), &value.value);
      return *this;
    }
  };
  Attribute attr(const char* name) { return Attribute{object_, name}; }

 private:
  static void apply(const char* text, std::vector<mc_parameter>&, std::size_t&, const char*& doc) { doc = text; }
  static void apply(const ::pybind11::doc& d, std::vector<mc_parameter>&, std::size_t&, const char*& doc) { doc = d.value; }
  static void apply(const arg_v& a, std::vector<mc_parameter>& parameters, std::size_t& next, const char*&) {
    if (next >= parameters.size()) { ++next; return; }
    mc_parameter& p = parameters[next++];
    p.name = a.name;
    p.has_default = 1;
    p.default_value = a.value;
    if (a.value.kind == MC_STRING) {
      p.default_value.u.p = a.text.data();
      p.default_value.n = static_cast<std::int64_t>(a.text.size());
    } else if (a.value.kind == MC_INTS) {
      p.default_value.u.p = a.list.data();
      p.default_value.n = static_cast<std::int64_t>(a.list.size());
    }
  }
  static void apply(const arg& a, std::vector<mc_parameter>& parameters, std::size_t& next, const char*&) {
    if (next < parameters.size()) parameters[next].name = a.name;
    ++next;
  }
  template <class... G>
  static void apply(const call_guard<G...>&, std::vector<mc_parameter>&, std::size_t&, const char*&) {}
  static void apply(const kw_only&, std::vector<mc_parameter>&, std::size_t&, const char*&) {}
  static void apply(const pos_only&, std::vector<mc_parameter>&, std::size_t&, const char*&) {}
  static void apply(const ::pybind11::name&, std::vector<mc_parameter>&, std::size_t&, const char*&) {}
  static void apply(const return_value_policy&, std::vector<mc_parameter>&, std::size_t&, const char*&) {}
  mc_module* object_;
};
using module = module_;
}  // namespace pybind11

#define PYBIND11_MODULE(name, variable, ...)                                                            \
  static void musacoder_bind_module(::pybind11::module_& variable);                                     \
  extern "C" __attribute__((visibility("default"))) void musacoder_module_init_v1(mc_module* module) {  \
    ::pybind11::module_ m(module);                                                                      \
    musacoder_bind_module(m);                                                                           \
  }                                                                                                     \
  static void musacoder_bind_module(::pybind11::module_& variable)

namespace torch {
namespace py = pybind11;
template <class F>
F* wrap_pybind_function(F* f) { return f; }
template <class F>
F* wrap_pybind_function_no_gil(F* f) { return f; }
template <class F>
auto wrap_pybind_function_impl_(F&& f) { return f; }

#ifndef MUSACODER_FULL_HEADERS  // torch's own TORCH_LIBRARY serves there
// --- TORCH_LIBRARY ---------------------------------------------------------------------------------------------------
enum class DispatchKey { CPU, CUDA, Autograd, Meta, CompositeImplicitAutograd, CompositeExplicitAutograd, Undefined };
template <class F>
struct CppFunction {
  F function;
  std::string key;
};
inline const char* key_name(c10::DeviceType type) { return type == c10::kCUDA ? "CUDA" : type == c10::kCPU ? "CPU" : "Meta"; }
template <class F>
CppFunction<std::decay_t<F>> dispatch(c10::DeviceType type, F&& f) { return {std::forward<F>(f), key_name(type)}; }

class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  Library(Kind, std::string ns, std::string key = "") : ns_(std::move(ns)), key_(std::move(key)) {}
  Library& def(const char* schema) & {
    mc_library_def(ns_.c_str(), schema);
    return *this;
  }
  template <class F>
  Library& def(const char* schema, F&& f) & {
    std::string text = schema;
    if (text.find('(') == std::string::npos) text += inferred<F>();
    mc_library_def(ns_.c_str(), text.c_str());
    return impl(text.substr(0, text.find('(')).c_str(), std::forward<F>(f));
  }
  template <class F>
  Library& impl(const char* name, F&& f) & { return add(name, std::forward<F>(f), key_.c_str()); }
  template <class F>
  Library& impl(const char* name, c10::DeviceType type, F&& f) & { return add(name, std::forward<F>(f), key_name(type)); }
  template <class F>
  Library& impl(const char* name, CppFunction<F> f) & { return add(name, std::move(f.function), f.key.c_str()); }

 private:
  template <class F>
  static std::string inferred() {
    using S = musacoder::bind::SignatureOf<std::decay_t<F>>;
    std::string text = "(";
    int n = 0;
    for (const std::string& type : S::parameters()) text += (n ? ", " : "") + schema_type(type) + " _" + std::to_string(n), ++n;
    const std::string returns = S::returns();
    return text + ") -> " + (returns == "None" ? "()" : schema_type(returns));
  }
  static std::string schema_type(std::string type) {
    for (const char* wide : {"int64", "int32", "int16", "int8"}) {
      const std::size_t at = type.find(wide);
      if (at != std::string::npos) type.replace(at, std::strlen(wide), "int");
    }
    return type;
  }
  template <class F>
  Library& add(const char* name, F&& f, const char* key) {
    using D = std::decay_t<F>;
    using S = musacoder::bind::SignatureOf<D>;
    std::vector<std::string> types = S::parameters();
    std::vector<mc_parameter> parameters(types.size());
    for (std::size_t i = 0; i < types.size(); ++i) parameters[i] = mc_parameter{nullptr, types[i].c_str(), 0, {}};
    const std::string returns = S::returns();
    const mc_function function{name, "", returns.c_str(), &S::template thunk<D>, new D(std::forward<F>(f)),
                               static_cast<int>(parameters.size()), parameters.data()};
    mc_library_impl(ns_.c_str(), &function, key);
    return *this;
  }
  std::string ns_, key_;
};
struct LibraryInit {
  LibraryInit(Library::Kind kind, void (*fill)(Library&), const char* ns, const char* key = "") {
    Library library(kind, ns, key);
    fill(library);
  }
};
#endif
}  // namespace torch

#ifndef MUSACODER_FULL_HEADERS
#define MC_LIBRARY(kind, ns, key, m, id)                                                                       \
  static void C10_CONCATENATE(torch_library_fill_##ns, id)(torch::Library&);                                   \
  static const torch::LibraryInit C10_CONCATENATE(torch_library_init_##ns, id)(                                \
      torch::Library::kind, &C10_CONCATENATE(torch_library_fill_##ns, id), #ns, key);                          \
  void C10_CONCATENATE(torch_library_fill_##ns, id)(torch::Library & m)
#define TORCH_LIBRARY(ns, m) MC_LIBRARY(DEF, ns, "", m, __LINE__)
#define TORCH_LIBRARY_FRAGMENT(ns, m) MC_LIBRARY(FRAGMENT, ns, "", m, __LINE__)
#define TORCH_LIBRARY_IMPL(ns, k, m) MC_LIBRARY(IMPL, ns, #k, m, __LINE__)
#define TORCH_FN(x) x
#endif
#endif

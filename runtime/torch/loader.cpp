// Loads candidates' shared objects and calls their functions: the operators torch.ops.musacoder.*, which every Python can
// reach through torch, so that this library need not know the interpreter.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>

#include "abi.h"
#include "convert.h"
#include "device.h"
#include "policy.h"

#define MC_EXPORT extern "C" __attribute__((visibility("default")))

using namespace musacoder::device;

namespace {

// An owned copy of a default or an attribute; tensors are not among them.
struct Stored {
  mc_value value{};
  std::string bytes;
  void set(const mc_value& v) {
    value = v;
    std::size_t size = 0;
    if (v.kind == MC_STRING) size = static_cast<std::size_t>(v.n);
    if (v.kind == MC_INTS || v.kind == MC_DOUBLES || v.kind == MC_BOOLS) size = static_cast<std::size_t>(v.n) * 8;
    if (size) bytes.assign(static_cast<const char*>(v.u.p), size);
    if (v.kind == MC_TENSOR || v.kind == MC_TENSORS || v.kind == MC_VALUES) value = mc_value{};
  }
};

struct Parameter {
  std::string name, type;
  bool has_default = false;
  Stored default_value;
};

struct Function {
  std::string name, doc, returns;
  mc_thunk thunk = nullptr;
  void* data = nullptr;
  std::vector<Parameter> parameters;
};

Function copy_of(const mc_function& f) {
  Function out{f.name, f.doc ? f.doc : "", f.returns ? f.returns : "None", f.thunk, f.data, {}};
  for (int i = 0; i < f.n_parameters; ++i) {
    const mc_parameter& p = f.parameters[i];
    Parameter& copy = out.parameters.emplace_back();
    copy.name = p.name ? p.name : "";
    copy.type = p.type;
    copy.has_default = p.has_default != 0;
    if (p.has_default) copy.default_value.set(p.default_value);
  }
  return out;
}

}  // namespace

struct mc_module {
  std::string doc;
  std::vector<Function> functions;
  std::vector<std::pair<std::string, Stored>> attributes;
  std::vector<std::unique_ptr<torch::Library>> libraries;
  std::vector<std::string> operators;
  std::string error;
};

namespace {

std::mutex g_mutex;
auto& g_modules = *new std::vector<std::unique_ptr<mc_module>>;   // never destroyed: the dispatcher may be gone by then
thread_local mc_module* t_loading = nullptr;

// --- JSON of what a module defines ----------------------------------------------------------------------------------

void quote(std::string& out, std::string_view text) {
  out += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
  }
  out += '"';
}

template <class List, class F>
void join(std::string& out, const List& list, F&& item) {
  out += '[';
  bool first = true;
  for (const auto& value : list) {
    if (!first) out += ',';
    first = false;
    item(value);
  }
  out += ']';
}

// [kind, value]: a dtype and an int are told apart.
void write(std::string& out, const Stored& stored) {
  const mc_value& v = stored.value;
  char text[64];
  out += "[" + std::to_string(v.kind) + ",";
  switch (v.kind) {
    case MC_STRING: quote(out, stored.bytes); break;
    case MC_DOUBLE:
      std::snprintf(text, sizeof text, "\"%.17g\"", v.u.d);
      out += text;
      break;
    case MC_COMPLEX:
      std::snprintf(text, sizeof text, "[\"%.17g\",\"%.17g\"]", v.u.c[0], v.u.c[1]);
      out += text;
      break;
    case MC_DEVICE: out += "[" + std::to_string(v.u.i) + "," + std::to_string(v.aux) + "]"; break;
    case MC_INTS:
    case MC_BOOLS:
    case MC_DOUBLES: {
      out += '[';
      for (std::int64_t i = 0; i < v.n; ++i) {
        if (i) out += ',';
        if (v.kind == MC_DOUBLES) {
          std::snprintf(text, sizeof text, "\"%.17g\"", reinterpret_cast<const double*>(stored.bytes.data())[i]);
          out += text;
        } else {
          out += std::to_string(reinterpret_cast<const std::int64_t*>(stored.bytes.data())[i]);
        }
      }
      out += ']';
      break;
    }
    case MC_NONE: out += "null"; break;
    default: out += std::to_string(v.u.i);
  }
  out += "]";
}

std::string describe(std::size_t handle, const mc_module& module) {
  std::string out = "{\"handle\":" + std::to_string(handle) + ",\"doc\":";
  quote(out, module.doc);
  out += ",\"functions\":";
  join(out, module.functions, [&](const Function& f) {
    out += "{\"name\":";
    quote(out, f.name);
    out += ",\"doc\":";
    quote(out, f.doc);
    out += ",\"returns\":";
    quote(out, f.returns);
    out += ",\"parameters\":";
    join(out, f.parameters, [&](const Parameter& p) {
      out += "{\"name\":";
      quote(out, p.name);
      out += ",\"type\":";
      quote(out, p.type);
      if (p.has_default) {
        out += ",\"default\":";
        write(out, p.default_value);
      }
      out += "}";
    });
    out += "}";
  });
  out += ",\"attributes\":";
  join(out, module.attributes, [&](const auto& attribute) {
    out += "[";
    quote(out, attribute.first);
    out += ",";
    write(out, attribute.second);
    out += "]";
  });
  out += ",\"operators\":";
  join(out, module.operators, [&](const std::string& name) { quote(out, name); });
  return out + "}";
}

std::string load_extension(const std::string& path) {
  std::lock_guard lock(g_mutex);
  auto module = std::make_unique<mc_module>();
  t_loading = module.get();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  const char* why = library ? nullptr : dlerror();
  if (library) {
    auto* init = reinterpret_cast<void (*)(mc_module*)>(dlsym(library, "musacoder_module_init_v1"));
    if (init) init(module.get());
    else if (module->operators.empty()) module->error = "dynamic module does not define module export function";
  }
  t_loading = nullptr;
  TORCH_CHECK(library, why ? why : "dlopen failed");
  TORCH_CHECK(module->error.empty(), module->error);
  g_modules.push_back(std::move(module));
  return describe(g_modules.size() - 1, *g_modules.back());
}

// --- flat argument lists --------------------------------------------------------------------------------------------

// A value is its kind in `kinds`, for lists followed by their length, and its contents in the list of its type.
struct Flat {
  std::vector<std::int64_t> kinds;
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
};

class Reader {
 public:
  explicit Reader(const Flat& flat) : flat_(flat) {}
  bool done() const { return kind_ == flat_.kinds.size(); }
  mc_value next() {
    mc_value v{};
    v.kind = static_cast<std::int32_t>(take(flat_.kinds, kind_));
    switch (v.kind) {
      case MC_NONE: break;
      case MC_TENSOR: v.u.t = reinterpret_cast<mc_tensor>(take(flat_.tensors, tensor_).unsafeGetTensorImpl()); break;
      case MC_DOUBLE: v.u.d = take(flat_.floats, float_); break;
      case MC_COMPLEX:
        v.u.c[0] = take(flat_.floats, float_);
        v.u.c[1] = take(flat_.floats, float_);
        break;
      case MC_STRING: {
        const std::string& text = take(flat_.strings, string_);
        v.u.p = text.data();
        v.n = static_cast<std::int64_t>(text.size());
        break;
      }
      case MC_DEVICE:
        v.u.i = take(flat_.ints, int_);
        v.aux = static_cast<std::int32_t>(take(flat_.ints, int_));
        break;
      case MC_INTS:
      case MC_BOOLS: v.u.p = range(flat_.ints, int_, v.n); break;
      case MC_DOUBLES: v.u.p = range(flat_.floats, float_, v.n); break;
      case MC_TENSORS: {
        const at::Tensor* first = range(flat_.tensors, tensor_, v.n);
        auto& handles = handles_.emplace_back();
        for (std::int64_t i = 0; i < v.n; ++i) handles.push_back(reinterpret_cast<mc_tensor>(first[i].unsafeGetTensorImpl()));
        v.u.p = handles.data();
        break;
      }
      default: v.u.i = take(flat_.ints, int_);
    }
    return v;
  }

 private:
  template <class T>
  const T& take(const std::vector<T>& list, std::size_t& at) {
    TORCH_CHECK(at < list.size(), "musacoder::call: the argument lists do not match");
    return list[at++];
  }
  template <class T>
  const T* range(const std::vector<T>& list, std::size_t& at, std::int64_t& n) {
    n = take(flat_.kinds, kind_);
    TORCH_CHECK(n >= 0 && static_cast<std::size_t>(n) <= list.size() - at, "musacoder::call: the argument lists do not match");
    const T* first = list.data() + at;
    at += static_cast<std::size_t>(n);
    return first;
  }
  const Flat& flat_;
  std::size_t kind_ = 0, tensor_ = 0, int_ = 0, float_ = 0, string_ = 0;
  std::vector<std::vector<mc_tensor>> handles_;
};

void flatten(Flat& flat, const mc_value& v) {
  flat.kinds.push_back(v.kind);
  switch (v.kind) {
    case MC_NONE: break;
    case MC_TENSOR: flat.tensors.push_back(borrow(v.u.t)); break;
    case MC_DOUBLE: flat.floats.push_back(v.u.d); break;
    case MC_COMPLEX: flat.floats.insert(flat.floats.end(), {v.u.c[0], v.u.c[1]}); break;
    case MC_STRING: flat.strings.emplace_back(static_cast<const char*>(v.u.p), static_cast<std::size_t>(v.n)); break;
    case MC_DEVICE: flat.ints.insert(flat.ints.end(), {v.u.i, v.aux}); break;
    case MC_INTS:
    case MC_BOOLS: {
      const auto* first = static_cast<const std::int64_t*>(v.u.p);
      flat.kinds.push_back(v.n);
      flat.ints.insert(flat.ints.end(), first, first + v.n);
      break;
    }
    case MC_DOUBLES: {
      const auto* first = static_cast<const double*>(v.u.p);
      flat.kinds.push_back(v.n);
      flat.floats.insert(flat.floats.end(), first, first + v.n);
      break;
    }
    case MC_TENSORS:
    case MC_VALUES: {
      flat.kinds.push_back(v.kind == MC_VALUES ? v.n : v.n);
      for (std::int64_t i = 0; i < v.n; ++i) {
        if (v.kind == MC_VALUES) {
          flatten(flat, static_cast<const mc_value*>(v.u.p)[i]);
        } else {
          mc_value item{};
          item.u.t = static_cast<const mc_tensor*>(v.u.p)[i];
          item.kind = item.u.t ? MC_TENSOR : MC_NONE;
          flatten(flat, item);
        }
      }
      break;
    }
    default: flat.ints.push_back(v.u.i);
  }
}

const Function& find(std::int64_t handle, std::int64_t index) {
  std::lock_guard lock(g_mutex);
  TORCH_CHECK_INDEX(handle >= 0 && static_cast<std::size_t>(handle) < g_modules.size(), "no such module");
  const auto& functions = g_modules[static_cast<std::size_t>(handle)]->functions;
  TORCH_CHECK_INDEX(index >= 0 && static_cast<std::size_t>(index) < functions.size(), "no such function");
  return functions[static_cast<std::size_t>(index)];
}

struct Called {
  const char* before;
  explicit Called(const char* name) : before(std::exchange(current_function(), name)) {}
  ~Called() { current_function() = before; }
};

using Result = std::tuple<std::vector<std::int64_t>, std::vector<at::Tensor>, std::vector<std::int64_t>, std::vector<double>,
                          std::vector<std::string>>;

Result call(std::int64_t handle, std::int64_t index, std::vector<std::int64_t> kinds, std::vector<at::Tensor> tensors,
            std::vector<std::int64_t> ints, std::vector<double> floats, std::vector<std::string> strings) {
  const Function& function = find(handle, index);
  const Flat flat{std::move(kinds), std::move(tensors), std::move(ints), std::move(floats), std::move(strings)};
  Reader reader(flat);
  std::vector<mc_value> arguments;
  while (!reader.done()) arguments.push_back(reader.next());
  TORCH_CHECK(arguments.size() == function.parameters.size(), function.name, "() takes ", function.parameters.size(),
              " arguments, got ", arguments.size());
  Called called(function.name.c_str());
  mc_value result{};
  if (function.thunk(function.data, arguments.data(), &result) < 0) throw_error();
  Flat out;
  flatten(out, result);
  free_value(result);
  return {std::move(out.kinds), std::move(out.tensors), std::move(out.ints), std::move(out.floats), std::move(out.strings)};
}

// --- operators that candidates define with TORCH_LIBRARY --------------------------------------------------------------

struct BoundOperator final : c10::OperatorKernel {
  explicit BoundOperator(Function f) : function(std::move(f)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const std::size_t n = op.schema().arguments().size();
    std::vector<mc_value> arguments;
    const std::vector<c10::IValue> values(stack->end() - static_cast<std::ptrdiff_t>(n), stack->end());
    for (const c10::IValue& value : values) arguments.push_back(from_ivalue(value));
    Called called(function.name.c_str());
    mc_value result{};
    const int failed = function.thunk(function.data, arguments.data(), &result);
    for (mc_value& argument : arguments) free_value(argument);
    if (failed) throw_error();
    torch::jit::drop(*stack, n);
    const auto& returns = op.schema().returns();
    if (result.kind == MC_VALUES) {
      for (std::int64_t i = 0; i < result.n; ++i)
        stack->push_back(to_ivalue(static_cast<const mc_value*>(result.u.p)[i], returns[static_cast<std::size_t>(i)].type()));
    } else if (!returns.empty()) {
      stack->push_back(to_ivalue(result, returns[0].type()));
    }
    free_value(result);
  }
  Function function;
};

template <class F>
void while_loading(F&& f) {
  if (!t_loading) return;
  try {
    f(*t_loading);
  } catch (const c10::Error& e) {
    t_loading->error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    t_loading->error = e.what();
  }
}

}  // namespace

MC_EXPORT void mc_module_def(mc_module* module, const mc_function* function) { module->functions.push_back(copy_of(*function)); }
MC_EXPORT void mc_module_doc(mc_module* module, const char* doc) { module->doc = doc ? doc : ""; }
MC_EXPORT void mc_module_attribute(mc_module* module, const char* name, const mc_value* value) {
  auto& [key, stored] = module->attributes.emplace_back();
  key = name;
  stored.set(*value);
}
MC_EXPORT void mc_library_def(const char* ns, const char* schema) {
  while_loading([&](mc_module& module) {
    auto library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, ns, std::nullopt, "candidate", 0);
    library->def(schema);
    module.libraries.push_back(std::move(library));
    module.operators.push_back(std::string(ns) + "::" + std::string(schema).substr(0, std::string(schema).find('(')));
  });
}
MC_EXPORT void mc_library_impl(const char* ns, const mc_function* function, const char* key) {
  while_loading([&](mc_module& module) {
    std::optional<c10::DispatchKey> dispatch;
    const std::string name = key ? key : "";
    if (name == "CUDA") dispatch = kDispatchKey;
    else if (!name.empty()) dispatch = c10::parseDispatchKey(name);
    auto library = dispatch ? std::make_unique<torch::Library>(torch::Library::IMPL, ns, dispatch, "candidate", 0)
                            : std::make_unique<torch::Library>(torch::Library::IMPL, ns, std::nullopt, "candidate", 0);
    library->impl(function->name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoundOperator>(copy_of(*function))));
    module.libraries.push_back(std::move(library));
  });
}

namespace {

void set_policy_by_name(const std::string& name) {
  TORCH_CHECK_VALUE(name == "strict" || name == "report", "the policy is \"strict\" or \"report\", not \"", name, "\"");
  set_policy(name == "strict" ? Policy::kStrict : Policy::kReport);
}

std::vector<std::string> allowed() {
  std::vector<std::string> names;
  for (const AllowedOperator& op : allowed_operators()) names.emplace_back(op.name);
  return names;
}

at::Tensor from_device(std::int64_t address, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return wrap(static_cast<std::uint64_t>(address), sizes, strides, type);
}

std::int64_t device_address(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().type() == kDeviceType, "the tensor is on ", tensor.device(), ", not on the device");
  return static_cast<std::int64_t>(address_of(tensor));
}

TORCH_LIBRARY(musacoder, m) {
  m.def("connect(int fd) -> ()", [](std::int64_t fd) { connect(static_cast<int>(fd)); });
  m.def("connected() -> bool", &connected);
#ifdef MUSACODER_HARDWARE
  m.def("set_note(int function) -> ()", &set_note);
#endif
  m.def("set_policy(str policy) -> ()", &set_policy_by_name);
  m.def("enforce(bool on) -> ()", [](bool on) { enforce(on); });
  m.def("seal() -> ()", &seal);
  m.def("unsupported(str feature) -> ()", [](const std::string& feature) { report("unsupported", feature.c_str()); });
  m.def("take_refused() -> str[]", &take_refused);
  m.def("record_cpu_ops(bool on) -> ()", [](bool on) { record_cpu_ops(on); });
  m.def("take_cpu_ops() -> str[]", &take_cpu_ops);
  m.def("allowed() -> str[]", &allowed);
  m.def("load_extension(str path) -> str", &load_extension);
  m.def("call(int handle, int index, int[] kinds, Tensor[] tensors, int[] ints, float[] floats, str[] strings) -> "
        "(int[], Tensor[], int[], float[], str[])",
        &call);
  m.def("from_device(int address, int[] sizes, int[] strides, ScalarType dtype) -> Tensor", &from_device);
  m.def("device_address(Tensor tensor) -> int", &device_address);
  m.def("synchronize() -> ()", &synchronize);
  m.def("last_error() -> str", &device_error);
  m.def("properties() -> (str, int[])", &properties);
}

}  // namespace

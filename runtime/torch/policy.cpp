#include "policy.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "device.h"

namespace musacoder::device {
namespace {

std::atomic<Policy> g_policy{Policy::kStrict};
std::atomic<bool> g_enforcing{false}, g_sealed{false};

struct Names {
  std::mutex mutex;
  std::vector<std::string> refused, cpu_ops;
};
// Never destroyed: a candidate's static objects call operators until the process ends.
Names& names() {
  static auto& n = *new Names;
  return n;
}
at::CallbackHandle g_recorder = at::INVALID_CALLBACK_HANDLE;
thread_local int t_internal = 0;

#ifdef MUSACODER_HARDWARE
void book(const std::string& name);
#endif

void remember(std::vector<std::string>& list, const std::string& name) {
  std::lock_guard lock(names().mutex);
  if (list.size() < 1000 && std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

bool on_host(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && !tensor.is_sparse() && tensor.numel() > 1;
}

template <class F>
bool any_tensor(const at::RecordFunction& function, F&& wanted) {
  for (const c10::IValue& value : function.inputs()) {
    if (value.isTensor()) {
      if (wanted(value.toTensor())) return true;
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector())
        if (wanted(tensor)) return true;
    }
  }
  return false;
}

#ifdef MUSACODER_HARDWARE
// On a real GPU nothing stands between an operator and the device: it is booked as it begins. What an operator calls in turn
// belongs to it.
thread_local int t_depth = 0;
struct Nested final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  const char* name = function.name();
  if (t_internal || std::string_view(name).substr(0, 6) != "aten::") return nullptr;
  if (t_depth++ == 0 && !is_allowed(name)) {
    if (any_tensor(function, [](const at::Tensor& t) { return t.defined() && t.device().type() == kDeviceType; })) book(name);
    else if (any_tensor(function, on_host)) remember(names().cpu_ops, name);
  }
  return std::make_unique<Nested>();
}

void after_operator(const at::RecordFunction&, at::ObserverContext* context) {
  if (context) --t_depth;
}
#else
std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  const char* name = function.name();
  if (t_internal || std::string_view(name).substr(0, 6) != "aten::" || is_allowed(name)) return nullptr;
  if (any_tensor(function, on_host)) remember(names().cpu_ops, name);
  return nullptr;
}

void after_operator(const at::RecordFunction&, at::ObserverContext*) {}
#endif

}  // namespace

void set_policy(Policy policy) {
  TORCH_CHECK(!g_sealed || policy == g_policy, "musacoder: the policy cannot be changed by a candidate");
  g_policy = policy;
}
Policy policy() { return g_policy; }
void seal() { g_sealed = true; }
void enforce(bool on) {
  if (on || !g_sealed) g_enforcing = on;
}
bool enforcing() { return g_enforcing; }

const std::vector<AllowedOperator>& allowed_operators() {
  static const auto& table = *new std::vector<AllowedOperator>{
      // The published list.
      {"_assert_async", Use::kCheck, true, "asserts, gives no values"},
      {"_assert_scalar", Use::kCheck, true, "asserts, gives no values"},
      {"_assert_tensor_metadata", Use::kCheck, true, "asserts, gives no values"},
      {"_cast_Byte", Use::kCopy, true, "cast"},
      {"_cast_Char", Use::kCopy, true, "cast"},
      {"_cast_Double", Use::kCopy, true, "cast"},
      {"_cast_Float", Use::kCopy, true, "cast"},
      {"_cast_Half", Use::kCopy, true, "cast"},
      {"_cast_Int", Use::kCopy, true, "cast"},
      {"_cast_Long", Use::kCopy, true, "cast"},
      {"_cast_Short", Use::kCopy, true, "cast"},
      {"_local_scalar_dense", Use::kCopy, true, "one element to the host, what item() calls"},
      {"alias", Use::kView, true, "view"},
      {"allclose", Use::kCheck, true, "gives one bool, no values"},
      {"arange", Use::kCreation, true, "creation"},
      {"as_strided", Use::kView, true, "view"},
      {"broadcast_to", Use::kView, true, "view"},
      {"clone", Use::kCopy, true, "copy"},
      {"contiguous", Use::kCopy, true, "copy"},
      {"copy_", Use::kCopy, true, "copy"},
      {"empty", Use::kCreation, true, "creation"},
      {"empty_like", Use::kCreation, true, "creation"},
      {"equal", Use::kCheck, true, "gives one bool, no values"},
      {"expand", Use::kView, true, "view"},
      {"flatten", Use::kView, true, "view or copy"},
      {"full", Use::kCreation, true, "creation"},
      {"item", Use::kCopy, true, "one element to the host"},
      {"ones", Use::kCreation, true, "creation"},
      {"permute", Use::kView, true, "view"},
      {"rand", Use::kCreation, true, "creation"},
      {"randint", Use::kCreation, true, "creation"},
      {"randn", Use::kCreation, true, "creation"},
      {"reshape", Use::kView, true, "view or copy"},
      {"select", Use::kView, true, "view"},
      {"slice", Use::kView, true, "view"},
      {"squeeze", Use::kView, true, "view"},
      {"stride", Use::kMetadata, true, "shape query"},
      {"transpose", Use::kView, true, "view"},
      {"unsqueeze", Use::kView, true, "view"},
      {"view", Use::kView, true, "view"},
      {"zeros", Use::kCreation, true, "creation"},
      // What torch 2.11 calls for a plain .float() or x.new_empty().
      {"to", Use::kCopy, true, "cast or copy between devices"},
      {"_to_copy", Use::kCopy, true, "what to() calls"},
      {"detach", Use::kView, true, "view"},
      {"fill_", Use::kCreation, true, "second half of full()"},
      {"zero_", Use::kCreation, true, "second half of zeros()"},
      {"new_empty", Use::kCreation, true, "creation"},
      {"empty_strided", Use::kCreation, true, "creation"},
      // Kin of the above, decided here: the same act under another name.
      {"zeros_like", Use::kCreation, false, "zeros() of another tensor's shape"},
      {"ones_like", Use::kCreation, false, "ones() of another tensor's shape"},
      {"full_like", Use::kCreation, false, "full() of another tensor's shape"},
      {"rand_like", Use::kCreation, false, "rand() of another tensor's shape"},
      {"randn_like", Use::kCreation, false, "randn() of another tensor's shape"},
      {"randint_like", Use::kCreation, false, "randint() of another tensor's shape"},
      {"new_zeros", Use::kCreation, false, "zeros() of another tensor's type"},
      {"new_ones", Use::kCreation, false, "ones() of another tensor's type"},
      {"new_full", Use::kCreation, false, "full() of another tensor's type"},
      {"new_empty_strided", Use::kCreation, false, "empty_strided() of another tensor's type"},
      {"new_tensor", Use::kCreation, false, "creation from Python numbers"},
      {"tensor", Use::kCreation, false, "creation from Python numbers"},
      {"scalar_tensor", Use::kCreation, false, "creation from one number"},
      {"empty_permuted", Use::kCreation, false, "creation"},
      {"eye", Use::kCreation, false, "creation of a constant, as arange()"},
      {"linspace", Use::kCreation, false, "creation of a constant, as arange()"},
      {"logspace", Use::kCreation, false, "creation of a constant, as arange()"},
      {"range", Use::kCreation, false, "creation of a constant, as arange()"},
      {"randperm", Use::kCreation, false, "creation of random numbers, as randint()"},
      {"tril_indices", Use::kCreation, false, "creation of a constant, as arange()"},
      {"triu_indices", Use::kCreation, false, "creation of a constant, as arange()"},
      {"normal_", Use::kCreation, false, "second half of randn()"},
      {"uniform_", Use::kCreation, false, "second half of rand()"},
      {"random_", Use::kCreation, false, "second half of randint()"},
      {"fill", Use::kCreation, false, "full() of another tensor's shape"},
      {"zero", Use::kCreation, false, "zeros() of another tensor's shape"},
      {"copy", Use::kCopy, false, "copy_() that returns the result"},
      {"_copy_from", Use::kCopy, false, "what copy_() calls"},
      {"_copy_from_and_resize", Use::kCopy, false, "what copy_() calls"},
      {"_to_cpu", Use::kCopy, false, "copy to the host"},
      {"type_as", Use::kCopy, false, "cast"},
      {"float", Use::kCopy, false, "cast"},
      {"lift", Use::kView, false, "view"},
      {"lift_fresh", Use::kView, false, "view"},
      {"detach_", Use::kView, false, "view"},
      {"t", Use::kView, false, "transpose() of a matrix"},
      {"numpy_T", Use::kView, false, "transpose()"},
      {"matrix_H", Use::kView, false, "transpose()"},
      {"mT", Use::kView, false, "transpose()"},
      {"swapaxes", Use::kView, false, "transpose()"},
      {"swapdims", Use::kView, false, "transpose()"},
      {"movedim", Use::kView, false, "permute()"},
      {"moveaxis", Use::kView, false, "permute()"},
      {"narrow", Use::kView, false, "slice()"},
      {"split", Use::kView, false, "several slice()"},
      {"split_with_sizes", Use::kView, false, "several slice()"},
      {"tensor_split", Use::kView, false, "several slice()"},
      {"hsplit", Use::kView, false, "several slice()"},
      {"vsplit", Use::kView, false, "several slice()"},
      {"dsplit", Use::kView, false, "several slice()"},
      {"chunk", Use::kView, false, "several slice()"},
      {"unsafe_split", Use::kView, false, "several slice()"},
      {"unsafe_split_with_sizes", Use::kView, false, "several slice()"},
      {"unsafe_chunk", Use::kView, false, "several slice()"},
      {"unbind", Use::kView, false, "several select()"},
      {"unfold", Use::kView, false, "view of sliding windows"},
      {"unflatten", Use::kView, false, "view()"},
      {"ravel", Use::kView, false, "flatten()"},
      {"diagonal", Use::kView, false, "view"},
      {"expand_as", Use::kView, false, "expand()"},
      {"view_as", Use::kView, false, "view()"},
      {"reshape_as", Use::kView, false, "reshape()"},
      {"atleast_1d", Use::kView, false, "view()"},
      {"atleast_2d", Use::kView, false, "view()"},
      {"atleast_3d", Use::kView, false, "view()"},
      {"view_as_real", Use::kView, false, "view of the same bytes"},
      {"view_as_complex", Use::kView, false, "view of the same bytes"},
      {"_unsafe_view", Use::kView, false, "view()"},
      {"_reshape_alias", Use::kView, false, "what reshape() calls"},
      {"_reshape_copy", Use::kCopy, false, "what reshape() calls"},
      {"_shape_as_tensor", Use::kMetadata, false, "shape query"},
      {"resolve_conj", Use::kView, false, "the tensor itself unless a conjugate view"},
      {"resolve_neg", Use::kView, false, "the tensor itself unless a negated view"},
      {"resize_", Use::kCreation, false, "empty() in place"},
      {"resize_as_", Use::kCreation, false, "empty() in place"},
      {"set_", Use::kView, false, "view of another tensor's memory"},
      {"set_data", Use::kView, false, "view of another tensor's memory"},
      {"data", Use::kView, false, "view"},
      {"requires_grad_", Use::kMetadata, false, "a flag"},
      {"retain_grad", Use::kMetadata, false, "a flag"},
      {"record_stream", Use::kMetadata, false, "a note to the allocator"},
      {"pin_memory", Use::kCopy, false, "copy on the host"},
      {"_pin_memory", Use::kCopy, false, "copy on the host"},
      {"is_pinned", Use::kMetadata, false, "query"},
      {"size", Use::kMetadata, false, "shape query"},
      {"sym_size", Use::kMetadata, false, "shape query"},
      {"sym_stride", Use::kMetadata, false, "shape query"},
      {"sym_numel", Use::kMetadata, false, "shape query"},
      {"sym_storage_offset", Use::kMetadata, false, "shape query"},
      {"numel", Use::kMetadata, false, "shape query"},
      {"dim", Use::kMetadata, false, "shape query"},
      {"is_contiguous", Use::kMetadata, false, "shape query"},
      {"is_same_size", Use::kMetadata, false, "shape query"},
      {"is_set_to", Use::kMetadata, false, "query"},
      {"is_complex", Use::kMetadata, false, "query"},
      {"is_floating_point", Use::kMetadata, false, "query"},
      {"is_nonzero", Use::kCopy, false, "one element to the host"},
      {"is_signed", Use::kMetadata, false, "query"},
      {"is_conj", Use::kMetadata, false, "query"},
      {"is_neg", Use::kMetadata, false, "query"},
      {"is_inference", Use::kMetadata, false, "query"},
      {"is_leaf", Use::kMetadata, false, "query"},
      {"_version", Use::kMetadata, false, "query"},
      {"_is_zerotensor", Use::kMetadata, false, "query"},
      {"_has_compatible_shallow_copy_type", Use::kMetadata, false, "query"},
      {"_has_same_storage_numel", Use::kMetadata, false, "query"},
      {"result_type", Use::kMetadata, false, "query of types"},
      {"can_cast", Use::kMetadata, false, "query of types"},
      {"promote_types", Use::kMetadata, false, "query of types"},
      {"_fw_primal", Use::kView, false, "view"},
      {"_make_dual", Use::kView, false, "view"},
      {"_unpack_dual", Use::kView, false, "view"},
  };
  return table;
}

bool is_allowed(std::string_view name) {
  static const auto* allowed = [] {
    auto* set = new std::unordered_map<std::string_view, bool>;
    for (const AllowedOperator& op : allowed_operators()) (*set)[op.name] = true;
    return set;
  }();
  if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
  name = name.substr(0, name.find('.'));
  if (allowed->count(name)) return true;
  if (name.size() > 5 && name.substr(name.size() - 5) == "_copy" && allowed->count(name.substr(0, name.size() - 5))) return true;
  return name.size() > 1 && name.back() == '_' && allowed->count(name.substr(0, name.size() - 1)) > 0;
}

#ifdef MUSACODER_HARDWARE
namespace {
void book(const std::string& name) {
  report(policy() == Policy::kStrict ? "refused" : "booked", name.c_str());
  remember(names().refused, name);
}
}  // namespace
#else
void judge(const std::string& name) {
  if (Internal::active() || (!enforcing() && !g_sealed)) return;
  const bool strict = policy() == Policy::kStrict;
  const bool judged = report(strict ? "refused" : "booked", name.c_str());
  if (!judged && !enforcing()) return;
  remember(names().refused, name);
  TORCH_CHECK(!strict, "musacoder: ", name, " is not available to a candidate (policy strict)");
}
#endif

std::vector<std::string> take_refused() {
  std::lock_guard lock(names().mutex);
  return std::exchange(names().refused, {});
}

void record_cpu_ops(bool on) {
#ifdef MUSACODER_HARDWARE
  if (g_sealed && (!on || g_recorder != at::INVALID_CALLBACK_HANDLE)) return;   // looks on for the rest of the process's life
#endif
  if (g_recorder != at::INVALID_CALLBACK_HANDLE) at::removeCallback(std::exchange(g_recorder, at::INVALID_CALLBACK_HANDLE));
  if (on)
    g_recorder = at::addGlobalCallback(
        at::RecordFunctionCallback(&on_operator, &after_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

std::vector<std::string> take_cpu_ops() {
  std::lock_guard lock(names().mutex);
  return std::exchange(names().cpu_ops, {});
}

Internal::Internal() { ++t_internal; }
Internal::~Internal() { --t_internal; }
bool Internal::active() { return t_internal > 0; }

const char*& current_function() {
  thread_local const char* name = nullptr;
  return name;
}

}  // namespace musacoder::device

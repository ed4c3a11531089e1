/* The door between a candidate's C++ and the torch shim (libmusacoder_torch.so), as plain C.
 *
 * A tensor is an opaque counted reference to torch's own tensor object. Whatever a candidate does with tensors beyond
 * reading their shape is one call by operator name, mc_call_op("aten::empty", "memory_format", …), so that it reaches the
 * same dispatcher, and the same refusals, as the same call made from Python.
 *
 *   mc_arg args[] = {{0, {MC_TENSOR, 0, 0, {.t = x}}}};
 *   mc_value out;
 *   if (mc_call_op("aten::clone", "", args, 1, &out, 1) < 0) throw_error(mc_error_kind(), mc_error_message());
 *
 * Arguments are borrowed for the call. Results belong to the caller: a tensor is released with mc_release, a list with
 * mc_free (its tensors are released by the caller). Functions that return int give −1 on failure; kind and message of this
 * thread's last failure are in mc_error_kind and mc_error_message. Thread safe.
 * Devices: MC_DEVICE_CUDA is the virtual GPU. Element types carry the numbers of torch's ScalarType.
 */
#ifndef MUSACODER_ABI_H_
#define MUSACODER_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mc_tensor_object* mc_tensor;
typedef struct mc_module mc_module;

/* Kinds of a value. Lists: p points to n elements. */
enum {
  MC_NONE = 0,
  MC_TENSOR,        /* t */
  MC_INT,           /* i */
  MC_DOUBLE,        /* d */
  MC_BOOL,          /* i */
  MC_STRING,        /* p, n bytes */
  MC_COMPLEX,       /* c[0], c[1] */
  MC_DTYPE,         /* i: ScalarType */
  MC_DEVICE,        /* i: type, aux: index or −1 */
  MC_LAYOUT,        /* i */
  MC_MEMORY_FORMAT, /* i */
  MC_INTS,          /* const int64_t* */
  MC_DOUBLES,       /* const double* */
  MC_BOOLS,         /* const int64_t* */
  MC_TENSORS,       /* const mc_tensor*; a null entry is an undefined tensor */
  MC_VALUES         /* const mc_value*: tuple */
};

typedef struct mc_value {
  int32_t kind;
  int32_t aux;
  int64_t n;
  union {
    int64_t i;
    double d;
    double c[2];
    mc_tensor t;
    const void* p;
  } u;
} mc_value;

/* An argument of an operator: by position (name null) or by keyword. Missing ones take the schema's default. */
typedef struct mc_arg {
  const char* name;
  mc_value value;
} mc_arg;

enum { MC_DEVICE_CPU = 0, MC_DEVICE_CUDA = 1 };

/* What a tensor is. The pointers live as long as the tensor and until its shape changes in place. */
typedef struct mc_tensor_info {
  const int64_t* sizes;
  const int64_t* strides;
  int64_t dim, numel, storage_offset;
  void* data; /* address of element 0, …, 0; not to be dereferenced on the host for a device tensor */
  int32_t dtype, device_type, device_index, itemsize;
  uint32_t flags; /* MC_CONTIGUOUS | … */
} mc_tensor_info;
enum {
  MC_CONTIGUOUS = 1,
  MC_REQUIRES_GRAD = 2,
  MC_CHANNELS_LAST = 4,
  MC_CHANNELS_LAST_3D = 8,
  MC_DENSE = 16,
  MC_HAS_STORAGE = 32
};

/* Error kinds: what Python raises. */
enum { MC_RUNTIME_ERROR = 0, MC_VALUE_ERROR, MC_TYPE_ERROR, MC_INDEX_ERROR, MC_NOT_IMPLEMENTED, MC_MEMORY_ERROR };

void mc_retain(mc_tensor tensor);
void mc_release(mc_tensor tensor);
int64_t mc_use_count(mc_tensor tensor);
void mc_info(mc_tensor tensor, mc_tensor_info* info);
int mc_set_requires_grad(mc_tensor tensor, int value);
/* Wraps memory that is not owned; deleter may be null. Null on failure. */
mc_tensor mc_from_blob(void* data, const int64_t* sizes, const int64_t* strides, int64_t dim, int32_t dtype,
                       int32_t device_type, int32_t device_index, void (*deleter)(void*, void*), void* context);
/* Values as torch prints them; freed with mc_free. */
char* mc_to_string(mc_tensor tensor);

/* Number of results, at most max_results, or −1. */
int mc_call_op(const char* name, const char* overload, const mc_arg* args, int n_args, mc_value* results,
               int max_results);

/* torch's current stream as a cudaStream_t. */
void* mc_current_stream(void);

/* Hands out the default element type and whether autograd records. */
int32_t mc_default_dtype(void);
int mc_grad_enabled(void);
void mc_set_grad_enabled(int value);
void mc_warn(const char* message, const char* file, int line);

int mc_error_kind(void);
const char* mc_error_message(void);
void mc_set_error(int kind, const char* message);
void* mc_malloc(size_t bytes);
void mc_free(void* memory);

/* --- modules ------------------------------------------------------------------------------------------------------- */

/* One parameter of a bound function. type: "Tensor", "int32", "int64", "uint8", …, "float", "bool", "str", "ScalarType",
 * "Scalar", "Device", "Layout", "MemoryFormat"; with "?" when it may be None, with "[]" for a list, "[]?" for both. */
typedef struct mc_parameter {
  const char* name; /* null: by position only */
  const char* type;
  int has_default;
  mc_value default_value;
} mc_parameter;

/* Fills *result and returns 0, or sets the error and returns −1. data is what was registered. */
typedef int (*mc_thunk)(void* data, const mc_value* args, mc_value* result);

typedef struct mc_function {
  const char* name;
  const char* doc;
  const char* returns; /* as parameter types, or "(Tensor, int64)" or "None" */
  mc_thunk thunk;
  void* data;
  int n_parameters;
  const mc_parameter* parameters;
} mc_function;

/* Copies what it is given. Several functions of one name are tried in the order of their registration. */
void mc_module_def(mc_module* module, const mc_function* function);
void mc_module_doc(mc_module* module, const char* doc);
void mc_module_attribute(mc_module* module, const char* name, const mc_value* value);
/* TORCH_LIBRARY registrations of the object that is being loaded: an operator "ns::name" with its schema, and its
 * implementation. Called by static initialisers. */
void mc_library_def(const char* ns, const char* schema);
void mc_library_impl(const char* ns, const mc_function* function, const char* dispatch_key);

/* What the shared object defines; called once by the loader. */
void musacoder_module_init_v1(mc_module* module);

#ifdef __cplusplus
}
#endif
#endif

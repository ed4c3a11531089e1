//// dispatch_on_dtype
void f(torch::Tensor x) { AT_DISPATCH_FLOATING_TYPES(x.dtype(), "f", [&] {}); }
//// dispatch_on_type
void f(torch::Tensor x) { AT_DISPATCH_FLOATING_TYPES(x.type(), "f", [&] {}); }
//// no_such_method
void f(torch::Tensor x) { x.number_of_elements(); }
//// no_such_constant
auto f() { return torch::kFloat33; }
//// no_such_function
auto f(torch::Tensor x) { return torch::launch_relu(x); }
//// guard_without_header
void f(torch::Tensor x) { at::cuda::OptionalCUDAGuard guard(x.device()); }
//// stream_without_header
auto f() { return at::cuda::getCurrentCUDAStream(); }
//// launch_check_without_header
void f() { C10_CUDA_KERNEL_LAUNCH_CHECK(); }
//// pointer_of_another_type
double* f(torch::Tensor x) { return x.data_ptr<float>(); }
//// untyped_pointer
float* f(torch::Tensor x) { return x.data_ptr(); }
//// tensor_as_pointer
float* f(torch::Tensor x) { return x; }
//// size_without_dimension
auto f(torch::Tensor x) { return x.size(); }
//// dtype_as_scalar_type
torch::ScalarType f(torch::Tensor x) { return x.dtype(); }
//// values_of_max
auto f(torch::Tensor x) { return torch::max(x, 1).values; }
//// int_as_tensor
torch::Tensor f() { return 3; }
//// sizes_as_int
int f(torch::Tensor x) { return x.sizes(); }
//// tensor_as_bool
bool f(torch::Tensor x) { if (x) return true; return false; }
//// wrong_arity
auto f(torch::Tensor x) { return x.transpose(0); }
//// string_as_dtype
auto f(torch::Tensor x) { return torch::zeros({2}, torch::TensorOptions().dtype("float32")); }
//// missing_sizes
auto f() { return torch::zeros(torch::kFloat32); }
//// accessor_of_temporary
auto f(torch::Tensor x) { return (x + x).packed_accessor32<float, 2>(); }
//// list_as_shape_of_strings
auto f() { return torch::zeros({"a", "b"}); }
//// const_away
void f(const torch::Tensor x) { float* p = x.const_data_ptr<float>(); (void)p; }
//// unknown_option
auto f() { return torch::TensorOptions().type(torch::kFloat); }
//// device_of_number
torch::Device f() { return torch::Device(1.5); }
//// half_method
auto f(torch::Tensor x) { return x.half(); }
//// check_before_else
void f(torch::Tensor x) { if (x.dim() == 1) TORCH_CHECK(false); else x.zero_(); }
//// null_pointer_as_dimensions
auto f(torch::Tensor x) { return x.mean({0, 1}); }
//// restrict_traits_outside_nvcc
void f(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits>) {}
//// null_pointer_as_padding
auto f(torch::Tensor a, torch::Tensor b) { return torch::conv2d(a, b, {}, 1, 0); }

//// metadata
void f(const torch::Tensor& x) {
  int64_t n = x.numel() + x.size(0) + x.size(-1) + x.stride(0) + x.dim() + x.ndimension() + x.storage_offset() + x.get_device();
  int rows = x.size(0);
  bool ok = x.is_cuda() && x.is_contiguous() && x.defined() && !x.requires_grad() && x.is_floating_point();
  auto sizes = x.sizes();
  std::vector<int64_t> v = sizes.vec();
  torch::IntArrayRef r = x.strides();
  size_t bytes = x.nbytes() + x.itemsize() + x.element_size();
  (void)n, (void)rows, (void)ok, (void)v, (void)r, (void)bytes;
  for (auto s : sizes) (void)s;
}
//// dtypes
bool f(torch::Tensor x) {
  return x.dtype() == torch::kFloat32 || x.scalar_type() == at::ScalarType::Half || torch::kInt == x.dtype() ||
         x.dtype() == at::kBFloat16 || x.scalar_type() == torch::kFloat64 || x.dtype() != torch::kFloat16;
}
//// factories
std::vector<int64_t> shape_of(torch::Tensor x) { return x.sizes().vec(); }
torch::Tensor f(torch::Tensor x, int n, int64_t m) {
  auto a = torch::empty({n, m}, x.options());
  auto b = torch::zeros({x.size(0), m}, torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCUDA));
  auto c = torch::ones_like(x);
  auto d = torch::full({2, 2}, 1.5f, x.options().dtype(torch::kHalf));
  auto e = torch::empty(x.sizes(), torch::dtype(torch::kFloat32).device(x.device()));
  auto g = torch::zeros_like(x, x.options());
  auto h = torch::arange(0, n, torch::device(torch::kCUDA).dtype(torch::kLong));
  auto i = torch::empty({}, x.options());
  auto j = torch::zeros({1}, torch::kInt32);
  auto k = torch::empty(n, x.options());
  auto l = torch::zeros(m, torch::TensorOptions(torch::kCUDA));
  auto o = torch::tensor({1, 2, 3}, torch::kLong);
  auto u = torch::tensor(0.0, x.options()) + torch::tensor(1) + torch::tensor(2.0f, torch::kCUDA) + torch::tensor({1.5, 2.5}) + torch::tensor(shape_of(x));
  auto p = torch::empty({n}, torch::TensorOptions().device(torch::kCUDA, 0));
  auto q = torch::empty_strided({2, 3}, {3, 1}, x.options());
  std::vector<int64_t> shape = {1, 2};
  auto s = at::empty(shape, x.options().requires_grad(false), at::MemoryFormat::Contiguous);
  auto t = torch::empty_like(x, at::MemoryFormat::Contiguous);
  return torch::rand({2, 2});
}
//// views
torch::Tensor f(torch::Tensor x) {
  auto y = x.view({-1, 4}).transpose(0, 1).contiguous().reshape({4, -1}).permute({1, 0}).unsqueeze(0).squeeze(0);
  y = y.flatten(0, 1).narrow(0, 0, 1).slice(0, 0, 1).select(0, 0).expand({2, 2}).clone().detach().t();
  return x.view(x.sizes()).to(torch::kFloat).to(x.device()).to(torch::kCPU).cuda().cpu().to(x.dtype());
}
//// indexing
torch::Tensor f(torch::Tensor x) { return x[0].index({torch::indexing::Slice(0, 2), 1}); }
//// pointers
void f(torch::Tensor x, const torch::Tensor& y) {
  float* a = x.data_ptr<float>();
  const double* b = y.const_data_ptr<double>();
  at::Half* c = x.data_ptr<at::Half>();
  void* d = x.data_ptr();
  int64_t* e = x.data_ptr<int64_t>();
  int* g = x.mutable_data_ptr<int>();
  bool* h = x.data_ptr<bool>();
  float v = x.item<float>() + x[0].item().toFloat();
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)h, (void)v;
}
//// deprecated
void f(torch::Tensor x) {
  float* p = x.data<float>();
  bool c = x.type().is_cuda();
  AT_ASSERTM(c, "no cuda ", 1);
  if (!c) AT_ERROR("bad ", x.sizes());
  (void)p;
}
//// checks
void f(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2);
  TORCH_CHECK(x.dim() == 2, "got ", x.dim(), " of ", x.sizes(), x.dtype(), x.device(), x.scalar_type(), 1.5, 'c', true, std::string("s"));
  TORCH_INTERNAL_ASSERT(x.defined());
  TORCH_CHECK_EQ(x.dim(), 2);
  if (x.dim() == 1) { TORCH_CHECK(false, "one"); } else { TORCH_WARN("other"); }
}
//// dispatch
void f(torch::Tensor x) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "f", [&] { scalar_t* p = x.data_ptr<scalar_t>(); (void)p; });
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "f", ([&] { scalar_t v = static_cast<scalar_t>(1); (void)v; }));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "f", [&] { float v = static_cast<float>(scalar_t(2)); (void)v; });
  AT_DISPATCH_ALL_TYPES_AND(at::kBool, x.scalar_type(), "f", [&] { (void)sizeof(scalar_t); });
  AT_DISPATCH_INTEGRAL_TYPES(x.scalar_type(), "f", [&] { (void)sizeof(scalar_t); });
  int n = AT_DISPATCH_INDEX_TYPES(x.scalar_type(), "f", [&]() -> int { return sizeof(index_t); });
  (void)n;
}
//// accessors
void g(torch::PackedTensorAccessor32<float, 2>) {}
void f(torch::Tensor x) {
  g(x.packed_accessor32<float, 2>());
  auto a = x.accessor<float, 2>();
  float v = a[0][1] + static_cast<float>(a.size(0));
  auto p = x.packed_accessor64<double, 3>();
  (void)v, (void)p;
}
//// optional_and_lists
torch::Tensor f(torch::Tensor x, std::optional<torch::Tensor> b, c10::optional<double> s, at::IntArrayRef dims, std::vector<torch::Tensor> list) {
  if (b.has_value() && b->defined()) return b.value();
  torch::optional<int64_t> n = torch::nullopt;
  at::Tensor y = list.empty() ? x : list[0];
  return dims.size() > 1 && dims[0] == n.value_or(1) ? y : at::Tensor();
}
//// compute
torch::Tensor f(torch::Tensor a, torch::Tensor b) {
  auto c = torch::matmul(a, b) + a * 2.0 - 1 / b + torch::relu(a).sum(-1, true) + a.mean({1, 2}) + a.sum({-1}, true) + a.mean(1) + at::softmax(a, 1);
  c += torch::sqrt(a.pow(2).sum() + 1e-5);
  c = torch::cat({a, b}, 1);
  auto m = torch::max(a, 1);
  return torch::conv2d(a, b, {}, 1, 1) + torch::conv2d(a, b) + std::get<0>(m) + torch::stack({a, b}).mul_(2).add_(b, 0.5);
}
//// strings_as_devices
torch::Tensor f(torch::Tensor x) { return torch::zeros({2}, torch::TensorOptions().device("cuda")).to(torch::Device("cuda:0")); }
//// no_grad
torch::Tensor f(torch::Tensor x) { torch::NoGradGuard guard; return x.set_requires_grad(false); }
//// half
float f(at::Half a, c10::BFloat16 b) { return static_cast<float>(a * a + at::Half(1.0f)) + float(b) + a * 2.0f; }
//// layouts
bool f(torch::Tensor x) { return x.layout() == torch::kStrided && x.suggest_memory_format() == at::MemoryFormat::ChannelsLast && x.is_contiguous(torch::MemoryFormat::ChannelsLast); }
//// switch_on_type
int f(torch::Tensor x) { switch (x.scalar_type()) { case torch::kFloat: return 1; case at::ScalarType::Half: return 2; default: return 0; } }
//// device_queries
bool f(torch::Tensor x, torch::Tensor y) { return x.device() == y.device() && x.device().is_cuda() && x.device().type() == torch::kCUDA && x.get_device() == x.device().index(); }
//// scalar
double f(at::Scalar s) { return s.toDouble() + s.to<float>() + (s.isFloatingPoint() ? 1 : 0); }
//// bindings
torch::Tensor g(torch::Tensor x, double eps, std::optional<torch::Tensor> b) { return x; }
std::vector<torch::Tensor> h(torch::Tensor x, std::vector<int64_t> dims) { return {x}; }
std::tuple<torch::Tensor, torch::Tensor> p(const torch::Tensor& x, bool f, const std::string& s) { return {x, x}; }
void bind(py::module_& m) {
  m.def("g", &g, "doc", py::arg("x"), py::arg("eps") = 1e-5, py::arg("b") = py::none());
  m.def("h", &h);
  m.def("p", &p, py::call_guard<py::gil_scoped_release>());
  m.def("l", [](torch::Tensor x, int n) { return x.size(n); });
  m.doc() = "text";
}

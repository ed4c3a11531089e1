"""RMSNorm of a sum: forward, and the gradient with respect to both summands and the weight."""

KERNELS = ["rms_norm.cu", "column_sums.cu"]
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor y, torch::Tensor weight) {
  auto sum = torch::empty_like(x), out = torch::empty_like(x);
  auto scale = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat32));
  TORCH_CHECK(mc_rms_norm_forward(TYPE, x.data_ptr(), y.data_ptr(), weight.data_ptr(), sum.data_ptr(), out.data_ptr(),
                                  scale.data_ptr<float>(), x.size(0), x.size(1), 1e-5f, ZERO_CENTRED, nullptr) == 0, "launch");
  return {sum, out};
}
std::vector<torch::Tensor> backward(torch::Tensor x, torch::Tensor weight, torch::Tensor to_out, torch::Tensor to_sum) {
  auto sum = torch::empty_like(x), out = torch::empty_like(x), to_x = torch::empty_like(x), to_weight = torch::empty_like(weight);
  const int64_t rows = x.size(0), dim = x.size(1), groups = mc_rms_norm_groups(rows, dim);
  auto scale = torch::empty({rows}, x.options().dtype(torch::kFloat32));
  auto parts = torch::empty({groups, dim}, x.options().dtype(torch::kFloat32));
  TORCH_CHECK(mc_rms_norm_forward(TYPE, x.data_ptr(), nullptr, weight.data_ptr(), nullptr, out.data_ptr(),
                                  scale.data_ptr<float>(), rows, dim, 1e-5f, ZERO_CENTRED, nullptr) == 0, "launch");
  TORCH_CHECK(mc_rms_norm_backward(TYPE, to_out.data_ptr(), to_sum.data_ptr(), x.data_ptr(), weight.data_ptr(),
                                   scale.data_ptr<float>(), to_x.data_ptr(), parts.data_ptr<float>(), rows, dim,
                                   ZERO_CENTRED, nullptr) == 0, "launch");
  TORCH_CHECK(mc_column_sums(TYPE, parts.data_ptr<float>(), to_weight.data_ptr(), groups, dim, nullptr) == 0, "launch");
  return {to_x, to_weight};
}
"""
NORM = """
def norm(x, weight):
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
    return x * scale * (1 + weight if ZERO_CENTRED else weight)
"""
CASES = {
    "forward": (
        NORM + "def run(x, y, weight):\n    return x + y, norm(x + y, weight)\n",
        "[normal(ROWS, DIM), normal(ROWS, DIM), normal(DIM)]",
    ),
    "backward": (
        NORM
        + """
def run(x, weight, to_out, to_sum):
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    with torch.enable_grad():
        out = norm(x, weight)
    to_x, to_weight = torch.autograd.grad(out, [x, weight], to_out)
    return to_x + to_sum, to_weight
""",
        "[normal(ROWS, DIM), normal(DIM), normal(ROWS, DIM), normal(ROWS, DIM)]",
    ),
}
SIZES = [  # a warp a row, and a block a row
    {"ROWS": 37, "DIM": 104, "ZERO_CENTRED": False},
    {"ROWS": 5, "DIM": 1536, "ZERO_CENTRED": True},
]

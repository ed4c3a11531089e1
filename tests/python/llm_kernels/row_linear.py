"""Products whose rows do not depend on each other: plain with a bias, added to a residual, SwiGLU, and float32 logits."""

KERNELS = ["row_linear.cu"]
HEADER = "decode.h"
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor residual, torch::Tensor gate_up) {
  const int64_t rows = x.size(0), in = x.size(1), out = weight.size(0), inner = gate_up.size(0) / 2;
  auto plain = torch::empty({rows, out}, x.options()), added = torch::empty_like(plain), gated = torch::empty({rows, inner}, x.options());
  auto logits = torch::empty({rows, out}, x.options().dtype(torch::kFloat32));
  TORCH_CHECK(mc_row_linear(TYPE, 0, x.data_ptr(), weight.data_ptr(), bias.data_ptr(), nullptr, plain.data_ptr(), rows, in, out, nullptr) == 0, "launch");
  TORCH_CHECK(mc_row_linear(TYPE, 1, x.data_ptr(), weight.data_ptr(), nullptr, residual.data_ptr(), added.data_ptr(), rows, in, out, nullptr) == 0, "launch");
  TORCH_CHECK(mc_row_linear(TYPE, 2, x.data_ptr(), gate_up.data_ptr(), nullptr, nullptr, gated.data_ptr(), rows, in, inner, nullptr) == 0, "launch");
  TORCH_CHECK(mc_row_linear(TYPE, 3, x.data_ptr(), weight.data_ptr(), nullptr, nullptr, logits.data_ptr(), rows, in, out, nullptr) == 0, "launch");
  return {plain, added, gated, logits};
}
"""
CASES = {
    "forward": (
        """
def run(x, weight, bias, residual, gate_up):
    wide = torch.promote_types(x.dtype, torch.float32)
    gate, up = (x @ gate_up.t()).chunk(2, 1)
    product = x @ weight.t()
    logits = x.to(wide) @ weight.t().to(wide)
    return product + bias, residual + product, torch.nn.functional.silu(gate) * up, logits
""",
        "[normal(ROWS, IN), 0.1 * normal(OUT, IN), normal(OUT), normal(ROWS, OUT), 0.1 * normal(2 * INNER, IN)]",
    )
}
SIZES = [  # rows of eight tiles with a rest, of one and of four; features with a rest
    {"ROWS": 70, "IN": 320, "OUT": 40, "INNER": 24},
    {"ROWS": 3, "IN": 96, "OUT": 40, "INNER": 24},
    {"ROWS": 27, "IN": 320, "OUT": 48, "INNER": 32},
    {"ROWS": 3, "IN": 1120, "OUT": 24, "INNER": 16},
]

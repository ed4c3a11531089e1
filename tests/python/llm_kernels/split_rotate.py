"""Heads out of a common product, normed and rotated: forward and gradient."""

KERNELS = ["split_rotate.cu", "column_sums.cu"]
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor qkv, torch::Tensor q_weight, torch::Tensor k_weight, torch::Tensor cos, torch::Tensor sin) {
  const int64_t rows = qkv.size(0);
  auto q = torch::empty({rows, HEADS, DIM}, qkv.options()), k = torch::empty({rows, KV_HEADS, DIM}, qkv.options()), v = torch::empty({rows, KV_HEADS, DIM}, qkv.options());
  TORCH_CHECK(mc_split_rotate_forward(TYPE, qkv.data_ptr(), NORMED ? q_weight.data_ptr() : nullptr, NORMED ? k_weight.data_ptr() : nullptr,
                                      cos.data_ptr(), sin.data_ptr(), q.data_ptr(), k.data_ptr(), v.data_ptr(), rows, HEADS, KV_HEADS, DIM,
                                      1e-6f, 0, nullptr) == 0, "launch");
  return {q, k, v};
}
std::vector<torch::Tensor> backward(torch::Tensor qkv, torch::Tensor q_weight, torch::Tensor k_weight, torch::Tensor cos, torch::Tensor sin,
                                    torch::Tensor to_q, torch::Tensor to_k, torch::Tensor to_v) {
  const int64_t rows = qkv.size(0), groups = mc_split_rotate_groups(rows);
  auto out = torch::empty_like(qkv), to_weights = torch::empty({2, DIM}, qkv.options());
  auto parts = torch::empty({groups, 2, DIM}, qkv.options().dtype(torch::kFloat32));
  TORCH_CHECK(mc_split_rotate_backward(TYPE, to_q.data_ptr(), to_k.data_ptr(), to_v.data_ptr(), qkv.data_ptr(),
                                       NORMED ? q_weight.data_ptr() : nullptr, NORMED ? k_weight.data_ptr() : nullptr, cos.data_ptr(), sin.data_ptr(),
                                       out.data_ptr(), NORMED ? parts.data_ptr<float>() : nullptr, rows, HEADS, KV_HEADS, DIM, 1e-6f, 0, nullptr) == 0, "launch");
  if (!NORMED) return {out};
  TORCH_CHECK(mc_column_sums(TYPE, parts.data_ptr<float>(), to_weights.data_ptr(), groups, 2 * DIM, nullptr) == 0, "launch");
  return {out, to_weights};
}
"""
SPLIT = """
def turned(x, weight, cos, sin):
    if NORMED:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    low, high = x.chunk(2, -1)
    return x * cos.unsqueeze(1) + torch.cat([-high, low], -1) * sin.unsqueeze(1)

def split(qkv, q_weight, k_weight, cos, sin):
    q, k, v = qkv.view(ROWS, -1, DIM).split([HEADS, KV_HEADS, KV_HEADS], 1)
    return turned(q, q_weight, cos, sin), turned(k, k_weight, cos, sin), v.clone()
"""
INPUTS = "[normal(ROWS, (HEADS + 2 * KV_HEADS) * DIM), normal(DIM), normal(DIM), normal(ROWS, DIM), normal(ROWS, DIM)%s]"
CASES = {
    "forward": (
        SPLIT + "def run(qkv, qw, kw, cos, sin):\n    return split(qkv, qw, kw, cos, sin)\n",
        INPUTS % "",
    ),
    "backward": (
        SPLIT
        + """
def run(qkv, qw, kw, cos, sin, to_q, to_k, to_v):
    qkv, qw, kw = (x.detach().requires_grad_() for x in (qkv, qw, kw))
    with torch.enable_grad():
        outs = split(qkv, qw, kw, cos, sin)
    given = [to_q, to_k, to_v]
    if not NORMED:
        return torch.autograd.grad(outs, [qkv], given)
    to_qkv, to_qw, to_kw = torch.autograd.grad(outs, [qkv, qw, kw], given)
    return to_qkv, torch.stack([to_qw, to_kw])
""",
        INPUTS % ", normal(ROWS, HEADS, DIM), normal(ROWS, KV_HEADS, DIM), normal(ROWS, KV_HEADS, DIM)",
    ),
}
SIZES = [
    {"ROWS": 7, "HEADS": 4, "KV_HEADS": 2, "DIM": 64, "NORMED": True},
    {"ROWS": 5, "HEADS": 3, "KV_HEADS": 1, "DIM": 128, "NORMED": False},
]

"""Keys and values normed, rotated and put into pages; attention of each row over its sequence up to itself."""

KERNELS = ["paged_attention.cu"]
HEADER = "decode.h"
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor qkv, torch::Tensor q_weight, torch::Tensor k_weight, torch::Tensor frequencies,
                                   torch::Tensor positions, torch::Tensor tables, torch::Tensor keys_before, torch::Tensor values_before) {
  const int64_t rows = qkv.size(0);
  auto keys = keys_before.clone(), values = values_before.clone();
  auto q = torch::empty({rows, HEADS, DIM}, qkv.options()), out = torch::empty_like(q);
  TORCH_CHECK(mc_rotate_into_cache(TYPE, qkv.data_ptr(), q_weight.data_ptr(), k_weight.data_ptr(), frequencies.data_ptr<float>(), positions.data_ptr<int32_t>(),
                                   tables.data_ptr<int32_t>(), tables.size(1), q.data_ptr(), keys.data_ptr(), values.data_ptr(), rows, HEADS, KV_HEADS, DIM, 16,
                                   1e-6f, nullptr) == 0, "launch");
  TORCH_CHECK(mc_paged_attention(TYPE, q.data_ptr(), keys.data_ptr(), values.data_ptr(), positions.data_ptr<int32_t>(), tables.data_ptr<int32_t>(), tables.size(1),
                                 nullptr, 0, out.data_ptr(), rows, HEADS, KV_HEADS, DIM, 0.125f, nullptr) == 0, "launch");
  return {q, keys, values, out};
}
"""
CASES = {
    "forward": (
        """
def turned(x, weight, cos, sin):
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight
    low, high = x.chunk(2, -1)
    return x * cos.unsqueeze(1) + torch.cat([-high, low], -1) * sin.unsqueeze(1)

def run(qkv, q_weight, k_weight, frequencies, positions, tables, keys, values):
    keys, values = keys.clone(), values.clone()
    q, k, v = qkv.view(-1, HEADS + 2 * KV_HEADS, DIM).split([HEADS, KV_HEADS, KV_HEADS], 1)
    angles = positions.clamp_min(0).unsqueeze(1) * frequencies.unsqueeze(0)
    angles = torch.cat([angles, angles], 1)
    cos, sin = angles.cos().to(qkv.dtype), angles.sin().to(qkv.dtype)
    q, k = turned(q, q_weight, cos, sin), turned(k, k_weight, cos, sin)
    out = torch.zeros_like(q)
    for row, position in enumerate(positions.tolist()):
        if position >= 0:
            page = int(tables[row, position // 16])
            keys[page, :, position % 16] = k[row]
            values[page, :, position % 16] = v[row]
    for row, position in enumerate(positions.tolist()):
        if position < 0:
            continue
        pages = tables[row].long()
        seen_k = keys[pages].transpose(1, 2).reshape(-1, KV_HEADS, DIM)[: position + 1]
        seen_v = values[pages].transpose(1, 2).reshape(-1, KV_HEADS, DIM)[: position + 1]
        for head in range(HEADS):
            kv = head // (HEADS // KV_HEADS)
            weights = ((seen_k[:, kv] @ q[row, head]) * 0.125).softmax(0)
            out[row, head] = weights @ seen_v[:, kv]
    return q, keys, values, out
""",
        # Two rows of one sequence, neighbours (a piece of a prompt), one of another, one that is none.
        "[normal(4, (HEADS + 2 * KV_HEADS) * DIM), normal(DIM), normal(DIM), torch.rand(DIM // 2), "
        "torch.tensor([20, 21, LAST, -1], dtype=torch.int32), "
        "torch.stack([torch.arange(PAGES), torch.arange(PAGES), PAGES + torch.randperm(PAGES), torch.zeros(PAGES)]).int(), "
        "normal(2 * PAGES, KV_HEADS, 16, DIM), normal(2 * PAGES, KV_HEADS, 16, DIM)]",
    )
}
SIZES = [
    {"HEADS": 4, "KV_HEADS": 2, "DIM": 64, "PAGES": 10, "LAST": 153},
    {"HEADS": 3, "KV_HEADS": 1, "DIM": 128, "PAGES": 3, "LAST": 32},
]

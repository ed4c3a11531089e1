"""A gated DeltaNet layer between its products: spans of rows, each going on from its sequence's states."""

KERNELS = ["delta.cu"]
HEADER = "decode.h"
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor product, torch::Tensor taps, torch::Tensor a_log, torch::Tensor dt_bias, torch::Tensor norm_weight,
                                   torch::Tensor slots_before, torch::Tensor spans, torch::Tensor span_of) {
  const int64_t rows = product.size(0), channels = taps.size(1), state = VALUE_HEADS * KEY_DIM * VALUE_DIM;
  auto slots = slots_before.clone();
  const MusaCoderDelta sizes = {KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, taps.size(0), product.size(1), slots.size(1), 1e-6f, TYPE};
  const auto* at = reinterpret_cast<const MusaCoderSpan*>(spans.data_ptr<int32_t>());
  float* base = slots.data_ptr<float>();
  auto convolved = torch::empty({rows, channels}, product.options()), out = torch::empty({rows, VALUE_HEADS * VALUE_DIM}, product.options());
  TORCH_CHECK(mc_delta_conv(TYPE, &sizes, product.data_ptr(), taps.data_ptr<float>(), base + state, at, span_of.data_ptr<int32_t>(), convolved.data_ptr(), rows,
                            nullptr) == 0, "launch");
  TORCH_CHECK(mc_delta_rule(TYPE, &sizes, product.data_ptr(), convolved.data_ptr(), a_log.data_ptr<float>(), dt_bias.data_ptr<float>(),
                            norm_weight.data_ptr<float>(), base, base + state, at, out.data_ptr(), spans.size(0), nullptr) == 0, "launch");
  return {convolved, out, slots};
}
"""
CASES = {
    "forward": (
        """
def run(product, taps, a_log, dt_bias, norm_weight, slots, spans, span_of):
    wide = torch.promote_types(product.dtype, torch.float32)
    kernel, channels = taps.shape
    size = VALUE_HEADS * KEY_DIM * VALUE_DIM
    state = slots[:, :size].reshape(-1, VALUE_HEADS, KEY_DIM, VALUE_DIM).clone()
    window = slots[:, size:].reshape(-1, kernel - 1, channels).clone()
    convolved = torch.zeros(product.shape[0], channels, dtype=product.dtype)
    out = torch.zeros(product.shape[0], VALUE_HEADS * VALUE_DIM, dtype=product.dtype)
    group = VALUE_HEADS // KEY_HEADS
    for first, count, slot in spans.tolist():
        if slot < 0:
            continue
        rows = product[first : first + count].to(wide)
        all_rows = torch.cat([window[slot].to(wide), rows[:, :channels]])
        mixed = sum(all_rows[i : i + count] * taps[i].to(wide) for i in range(kernel))
        mixed = torch.nn.functional.silu(mixed.to(product.dtype).to(wide)).to(product.dtype)
        convolved[first : first + count] = mixed
        window[slot] = all_rows[count:].to(window.dtype)
        q, k, v = mixed.to(wide).split([KEY_HEADS * KEY_DIM, KEY_HEADS * KEY_DIM, VALUE_HEADS * VALUE_DIM], 1)
        z, a, b = rows[:, channels:].split([VALUE_HEADS * VALUE_DIM, VALUE_HEADS, VALUE_HEADS], 1)
        unit = lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
        q = unit(q.view(count, KEY_HEADS, KEY_DIM)).repeat_interleave(group, 1) / KEY_DIM**0.5
        k = unit(k.view(count, KEY_HEADS, KEY_DIM)).repeat_interleave(group, 1)
        v = v.view(count, VALUE_HEADS, VALUE_DIM)
        kept = torch.exp(-a_log.to(wide).exp() * torch.nn.functional.softplus(a + dt_bias.to(wide)))
        beta = torch.sigmoid(b).to(product.dtype).to(wide)
        s = state[slot].to(wide)
        seen = []
        for t in range(count):
            s = s * kept[t, :, None, None]
            update = (v[t] - torch.einsum("hkv,hk->hv", s, k[t])) * beta[t, :, None]
            s = s + k[t, :, :, None] * update[:, None, :]
            seen.append(torch.einsum("hkv,hk->hv", s, q[t]))
        state[slot] = s.to(state.dtype)
        o = torch.stack(seen).to(product.dtype).to(wide)
        o = (o * torch.rsqrt(o.square().mean(-1, keepdim=True) + 1e-6)).to(product.dtype).to(wide)
        o = (o * norm_weight.to(wide)).to(product.dtype).to(wide)
        o = o * torch.nn.functional.silu(z.view(count, VALUE_HEADS, VALUE_DIM))
        out[first : first + count] = o.reshape(count, -1).to(product.dtype)
    return convolved, out, torch.cat([state.flatten(1), window.flatten(1)], 1)
""",
        # A piece of a prompt, longer than the window; a row that is none; one token; a piece shorter than the window. A
        # slot that no row is of stays as it is.
        "[normal(11, 2 * KEY_HEADS * KEY_DIM + 2 * VALUE_HEADS * (VALUE_DIM + 1)), "
        "torch.randn(KERNEL, 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM), torch.randn(VALUE_HEADS), torch.randn(VALUE_HEADS), "
        "torch.randn(VALUE_DIM), torch.randn(5, VALUE_HEADS * KEY_DIM * VALUE_DIM + "
        "(KERNEL - 1) * (2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM)), "
        "torch.tensor([[0, 7, 3], [7, 1, -1], [8, 1, 0], [9, 2, 4]], dtype=torch.int32), "
        "torch.tensor([0] * 7 + [1, 2, 3, 3], dtype=torch.int32)]",
    )
}
SIZES = [
    {"KEY_HEADS": 2, "VALUE_HEADS": 4, "KEY_DIM": 32, "VALUE_DIM": 48, "KERNEL": 4},
    {"KEY_HEADS": 1, "VALUE_HEADS": 1, "KEY_DIM": 16, "VALUE_DIM": 16, "KERNEL": 3},
    {"KEY_HEADS": 1, "VALUE_HEADS": 2, "KEY_DIM": 64, "VALUE_DIM": 64, "KERNEL": 4},
    {"KEY_HEADS": 2, "VALUE_HEADS": 2, "KEY_DIM": 128, "VALUE_DIM": 128, "KERNEL": 4},
]

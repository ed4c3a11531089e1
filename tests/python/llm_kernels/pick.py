"""Tokens out of logits: greedy, by temperature, top-k, top-p, min-p, at given places of the running sum."""

KERNELS = ["pick.cu"]
HEADER = "decode.h"
TYPES = ["float32"]
BINDING = r"""
__global__ void tokens_as_floats(float* out, int64_t rows) {
  if (threadIdx.x < rows) out[2 * threadIdx.x] = float(__float_as_int(out[2 * threadIdx.x]));
}
std::vector<torch::Tensor> forward(torch::Tensor logits) {
  const int64_t rows = logits.size(0);
  std::vector<MusaCoderPick> picks;
  for (int32_t row = 0; row < rows; ++row) {
    MusaCoderPick one = {row % 6 == 0 ? 0.0f : 0.5f + 0.25f * (row % 3), 1.0f, 0.0f, 0, (row * 37 % 100) / 100.0f, row};
    if (row % 6 == 2) one.top_k = 5;
    if (row % 6 == 3) one.top_p = 0.8f;
    if (row % 6 == 4) one.min_p = 0.05f;
    if (row % 6 == 5) { one.top_k = 20; one.top_p = 0.9f; }
    picks.push_back(one);
  }
  const int64_t bytes = rows * sizeof(MusaCoderPick);
  auto table = torch::empty({bytes}, logits.options().dtype(torch::kUInt8));
  cudaMemcpy(table.data_ptr(), picks.data(), bytes, cudaMemcpyHostToDevice);
  auto out = torch::empty({rows, 2}, logits.options());
  TORCH_CHECK(mc_pick(logits.data_ptr<float>(), reinterpret_cast<const MusaCoderPick*>(table.data_ptr()),
                      reinterpret_cast<MusaCoderPicked*>(out.data_ptr()), rows, logits.size(1), nullptr) == 0, "launch");
  tokens_as_floats<<<1, 32>>>(out.data_ptr<float>(), rows);
  return {out};
}
"""
CASES = {
    "forward": (
        """
def run(logits):
    out = []
    for row in range(logits.shape[0]):
        temperature = 0.0 if row % 6 == 0 else 0.5 + 0.25 * (row % 3)
        y = logits[row] / (temperature or 1.0)
        lp = y.log_softmax(0)
        if temperature == 0:
            token = y.argmax()
        else:
            kept = torch.ones_like(y, dtype=torch.bool)
            order = y.argsort(descending=True)
            if row % 6 == 2:
                kept[order[5:]] = False
            if row % 6 == 5:
                kept[order[20:]] = False
            if row % 6 in (3, 5):
                p = torch.where(kept, lp.exp(), torch.zeros_like(lp))[order]
                before = p.cumsum(0) - p
                kept[order[before >= (0.8 if row % 6 == 3 else 0.9) * p.sum()]] = False
            if row % 6 == 4:
                kept &= lp.exp() >= 0.05 * lp.exp().max()
            p = torch.where(kept, lp.exp(), torch.zeros_like(lp))
            running = p.cumsum(0)
            drawn = ((row * 37 % 100) / 100) * running[-1]
            token = (running - p <= drawn).logical_and(kept).nonzero().max()
        out.append(torch.stack([token.to(lp.dtype), lp[token]]))
    return (torch.stack(out),)
""",
        "[3 * normal(ROWS, VOCAB)]",
    )
}
SIZES = [{"ROWS": 12, "VOCAB": 1500}]

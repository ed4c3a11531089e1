"""Three steps of AdamW with clipping by the global norm, of two tensors."""

KERNELS = ["adamw.cu"]
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor p, torch::Tensor q, torch::Tensor g, torch::Tensor h) {
  using musacoder::llm::AdamWTensor;
  std::vector<torch::Tensor> parameters = {p.clone(), q.clone()}, gradients = {g, h}, masters, first, second;
  std::vector<AdamWTensor> rows;
  int64_t blocks = 0;
  for (int i = 0; i < 2; ++i) {
    auto wide = parameters[i].to(torch::kFloat32);
    masters.push_back(wide.clone());
    first.push_back(torch::zeros_like(wide));
    second.push_back(torch::zeros_like(wide));
    rows.push_back({parameters[i].data_ptr(), gradients[i].data_ptr(), TYPE == 1 ? masters[i].data_ptr<float>() : nullptr,
                    first[i].data_ptr<float>(), second[i].data_ptr<float>(), parameters[i].numel(), blocks});
    blocks += (parameters[i].numel() + musacoder::llm::kAdamWBlock - 1) / musacoder::llm::kAdamWBlock;
  }
  auto table = torch::empty({int64_t(2 * sizeof(AdamWTensor))}, p.options().dtype(torch::kUInt8));
  cudaMemcpy(table.data_ptr(), rows.data(), 2 * sizeof(AdamWTensor), cudaMemcpyHostToDevice);
  const auto* at = reinterpret_cast<const AdamWTensor*>(table.data_ptr());
  auto partial = torch::empty({blocks}, p.options().dtype(torch::kFloat32)), norm = torch::empty({1}, partial.options());
  for (int step = 1; step <= 3; ++step) {
    TORCH_CHECK(mc_gradient_norm(TYPE, at, 2, blocks, partial.data_ptr<float>(), norm.data_ptr<float>(), nullptr) == 0, "launch");
    TORCH_CHECK(mc_adamw(TYPE, at, 2, blocks, norm.data_ptr<float>(), 1.0f, 1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f,
                         float(1 - pow(0.9, step)), float(sqrt(1 - pow(0.95, step))), nullptr) == 0, "launch");
  }
  return {parameters[0], parameters[1], first[0], second[1], norm};
}
"""
ADAMW = """
def run(p, q, g, h):
    gradients = [g.to(WIDE(g)), h.to(WIDE(h))]
    norm = torch.stack([x.square().sum() for x in gradients]).sum().sqrt()
    out, firsts, seconds = [], [], []
    for x, gradient in zip((p, q), gradients):
        gradient = gradient * (1 / (norm + 1e-6)).clamp_max(1)
        x, first, second = x.to(WIDE(x)), torch.zeros_like(gradient), torch.zeros_like(gradient)
        for step in range(1, 4):
            first = 0.9 * first + 0.1 * gradient
            second = 0.95 * second + 0.05 * gradient.square()
            x = x * (1 - 1e-2 * 0.1)
            x = x - 1e-2 / (1 - 0.9**step) * first / (second.sqrt() / (1 - 0.95**step) ** 0.5 + 1e-8)
        out.append(x.to(p.dtype))
        firsts.append(first)
        seconds.append(second)
    return out[0], out[1], firsts[0], seconds[1], norm.reshape(1)

def WIDE(x):
    return torch.promote_types(x.dtype, torch.float32)
"""
CASES = {"forward": (ADAMW, "[normal(ROWS, 100), normal(33), normal(ROWS, 100), normal(33)]")}
SIZES = [{"ROWS": 90}]

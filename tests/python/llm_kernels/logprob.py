"""Log-probabilities of targets, and the gradient of the logits."""

KERNELS = ["logprob.cu"]
BINDING = r"""
std::vector<torch::Tensor> forward(torch::Tensor logits, torch::Tensor targets) {
  auto log_sum = torch::empty({logits.size(0)}, logits.options().dtype(torch::kFloat32)), out = torch::empty_like(log_sum);
  TORCH_CHECK(mc_logprob_forward(TYPE, logits.data_ptr(), targets.data_ptr<int64_t>(), log_sum.data_ptr<float>(), out.data_ptr<float>(),
                                 logits.size(0), logits.size(1), 1.25f, nullptr) == 0, "launch");
  return {log_sum, out};
}
std::vector<torch::Tensor> backward(torch::Tensor logits, torch::Tensor targets, torch::Tensor to_logprob) {
  auto log_sum = torch::empty_like(to_logprob), logprob = torch::empty_like(to_logprob);
  auto out = logits.clone();
  TORCH_CHECK(mc_logprob_forward(TYPE, out.data_ptr(), targets.data_ptr<int64_t>(), log_sum.data_ptr<float>(), logprob.data_ptr<float>(),
                                 logits.size(0), logits.size(1), 1.25f, nullptr) == 0, "launch");
  TORCH_CHECK(mc_logprob_backward(TYPE, out.data_ptr(), targets.data_ptr<int64_t>(), log_sum.data_ptr<float>(), to_logprob.data_ptr<float>(),
                                  logits.size(0), logits.size(1), 1.25f, nullptr) == 0, "launch");
  return {out};
}
"""
LOGPROB = """
def logprobs(logits, targets):
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) * 1.25
    chosen = logits.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1)
    sums = logits.logsumexp(1)
    return sums, (chosen - sums).masked_fill(targets < 0, 0)
"""
TARGETS = "torch.randint(-1, VOCAB, (ROWS,))"
CASES = {
    "forward": (
        LOGPROB + "def run(logits, targets):\n    return logprobs(logits, targets)\n",
        f"[3 * normal(ROWS, VOCAB), {TARGETS}]",
    ),
    "backward": (
        LOGPROB
        + """
def run(logits, targets, to_logprob):
    logits = logits.detach().requires_grad_()
    with torch.enable_grad():
        out = logprobs(logits, targets)[1]
    return torch.autograd.grad(out, [logits], to_logprob.to(out.dtype))
""",
        f"[3 * normal(ROWS, VOCAB), {TARGETS}, torch.randn(ROWS)]",
    ),
}
SIZES = [{"ROWS": 11, "VOCAB": 1003}, {"ROWS": 3, "VOCAB": 6000}]

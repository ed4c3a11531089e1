#include "llm/model/recompute.h"

namespace musacoder::llm {
namespace {

using Run = std::function<at::Tensor(const at::Tensor&)>;

struct RunHolder : torch::CustomClassHolder {
  explicit RunHolder(Run given) : run(std::move(given)) {}
  Run run;
};

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Run& run) {
    context->save_for_backward({x});
    context->saved_data["run"] = c10::IValue::make_capsule(
        c10::intrusive_ptr<torch::CustomClassHolder>(c10::make_intrusive<RunHolder>(run)));
    return run(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto holder = context->saved_data["run"].toCapsule();
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_(true);
    const at::AutoGradMode with_gradients(true);
    torch::autograd::backward({static_cast<RunHolder*>(holder.get())->run(x)},
                              {gradients[0]});  // weights get theirs here
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor recomputed(const at::Tensor& x, Run run) {
  if (!at::GradMode::is_enabled()) return run(x);
  // Without a gradient to pass on there would be no backward pass, and the weights inside would get none
  // either.
  return Recomputed::apply(x.requires_grad() ? x : x.detach().requires_grad_(true), run);
}

}  // namespace musacoder::llm

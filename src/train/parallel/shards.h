// The trained tensors, their gradients and AdamW's state, divided among processes: ZeRO-1 (Rajbhandari et
// al., https://arxiv.org/abs/1910.02054) or, with `parameters`, weights and gradients too, as its third stage
// and FSDP do it. One process is the case of one part.
//
//   Shards shards(tensors, {.compute = at::kBFloat16}, communicator);
//   shards.begin_step();
//   for (pass = 0; pass < passes; ++pass) {
//     shards.begin_pass(pass + 1 == passes);
//     const at::Tensor loss = loss_of(pass);
//     shards.begin_backward();
//     loss.backward();                             // gradients leave for the other processes from within
//     shards.end_pass();
//   }
//   const double norm = shards.finish_gradients();
//   shards.step(lr, clip_scale(norm, 1.0));
//
// Tensors come in units (a layer each, and one for the rest). A unit lies in one flat buffer of the type that
// is computed in, and the model's tensors are views on it; of that buffer each process owns an equal part,
// for which it keeps float32 weights, float32 gradients and both moments. Gradients of all passes of a step
// are added up in float32. A unit's gradients are summed over processes as soon as the last of them is there,
// while the backward pass goes on with the layers before it. With `parameters` a layer's flat buffer exists
// only while the layer is computed (between enter() and leave(), or until its gradients are there); the next
// layer's is fetched ahead. Layers must then be recomputed for their gradients.
//
// Thread safety: none; hooks run on the thread that calls backward() (CPU).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llm/model/decoder.h"
#include "llm/torch.h"
#include "train/adamw.h"
#include "train/parallel/communicator.h"

namespace musacoder::train {

struct TrainedTensor {
  std::string name;
  at::Tensor
      tensor;  // holds the first value; becomes a view on the unit's buffer, and a leaf with requires_grad
  std::int64_t unit = 0;  // 0: in use all along; 1 + i: layer i
  bool decays = true;     // weight decay
};

struct ShardOptions {
  at::ScalarType compute = at::kFloat;
  at::Device device = at::kCPU;
  AdamWConfig adamw;
  bool parameters = false;  // divide weights and gradients too
};

class Shards : public llm::LayerObserver {
 public:
  enum class Part { kWeight, kFirst, kSecond };  // float32 weights and AdamW's moments

  Shards(std::vector<TrainedTensor> tensors, const ShardOptions& options, Communicator& all);
  ~Shards() override;
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  void begin_step();
  void begin_pass(bool last);
  void begin_backward() { in_backward_ = true; }
  void end_pass();
  // 2-norm of the step's gradient over all tensors and processes.
  double finish_gradients();
  // With gradients times `scale`.
  void step(double learning_rate, double scale);
  std::int64_t steps() const { return steps_; }

  // With `parameters`: makes a layer's tensors usable, or gives their memory back. Without: nothing.
  void enter(std::int64_t layer) override;
  void leave(std::int64_t layer) override;

  std::size_t size() const { return tensors_.size(); }
  const std::string& name(std::size_t index) const { return tensors_[index].name; }
  const at::Tensor& tensor(std::size_t index) const { return tensors_[index].tensor; }
  const std::vector<std::int64_t>& shape(std::size_t index) const { return shapes_[index]; }
  // A tensor's whole part, float32, on the CPU. All processes call it, for the same tensor; it may be a view
  // that the next call or step changes.
  at::Tensor whole(std::size_t index, Part part);
  // Takes over a whole part; publish() once all are given. Not collective.
  void restore(std::size_t index, Part part, const at::Tensor& value);
  void publish(std::int64_t steps);
  // Bytes of weights, gradients and moments that this process holds between steps.
  std::int64_t resident_bytes() const;

 private:
  struct Unit;
  struct Hook;
  // Where a tensor and this process's part of its unit overlap.
  struct Overlap {
    std::int64_t in_tensor = 0, in_part = 0, count = 0;
  };
  Overlap overlap(std::size_t index) const;
  const at::Tensor& part_of(const Unit& unit, Part part) const;
  void gradient_arrived(std::size_t index);
  void unit_ready(Unit& unit);
  void settle(Unit& unit);
  void fetch(Unit& unit);
  void drop(Unit& unit);

  ShardOptions options_;
  Communicator& all_;
  std::vector<TrainedTensor> tensors_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::int64_t> offsets_, counts_;  // of each tensor in its unit
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<at::Tensor> segments_,
      segment_gradients_;  // this process's pieces of tensors, in AdamW's order
  std::unique_ptr<AdamW> optimizer_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::int64_t steps_ = 0;
  bool last_pass_ = false, in_backward_ = false;
  std::pair<const Unit*, Part> gathered_for_{nullptr, Part::kWeight};
  at::Tensor gathered_;
};

// What gradients of that norm are multiplied by so that it is at most `limit`
// (torch.nn.utils.clip_grad_norm_); 1 without a limit, 0.
double clip_scale(double norm, double limit);

}  // namespace musacoder::train

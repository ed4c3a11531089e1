#include "train/parallel/shards.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

namespace musacoder::train {
namespace {

constexpr std::int64_t kAlign = 16;  // elements: a tensor begins on 64 bytes of float32, 32 of bf16

std::int64_t aligned(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }

// Storage that comes and goes below the views on it.
void allocate(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(flat.numel()) * flat.element_size();
  if (storage->nbytes() == bytes) return;
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void deallocate(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
}

bool allocated(const at::Tensor& flat) { return flat.storage().nbytes() > 0; }

}  // namespace

struct Shards::Unit {
  std::vector<std::size_t> tensors;
  std::int64_t size = 0, part = 0;  // elements; part * world is size
  at::Tensor flat;                  // [size], of the type that is computed in
  at::Tensor weights;        // [part] float32: this process's; of `flat` itself where it is float32 and stays
  at::Tensor gradient;       // [size] float32, of this process's passes; with `parameters` only within a pass
  at::Tensor part_gradient;  // [part] float32, over all processes
  at::Tensor arriving;       // [part], of a pass that is being summed, with `parameters`
  at::Tensor first, second;  // [part] float32
  std::size_t waiting = 0;   // tensors whose gradients of this pass are not there
  Pending fetching, reducing;
};

struct Shards::Hook : torch::autograd::FunctionPostHook {
  Hook(Shards* of, std::size_t which) : shards(of), index(which) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    if (shards) shards->gradient_arrived(index);
    return outputs;
  }
  Shards* shards;
  std::size_t index;
};

Shards::Shards(std::vector<TrainedTensor> tensors, const ShardOptions& options, Communicator& all)
    : options_(options), all_(all), tensors_(std::move(tensors)) {
  const at::NoGradGuard no_grad;
  std::int64_t units = 0;
  for (const TrainedTensor& one : tensors_) units = std::max(units, one.unit + 1);
  for (std::int64_t i = 0; i < units; ++i) units_.push_back(std::make_unique<Unit>());
  // Matrices first: those that are multiplied with the same input then lie one behind the other, as they do
  // in a file, whatever biases stand between them there.
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return tensors_[i].tensor.dim() > 1; });
  offsets_.resize(tensors_.size());
  for (const TrainedTensor& one : tensors_) {
    shapes_.push_back(one.tensor.sizes().vec());
    counts_.push_back(one.tensor.numel());
  }
  for (const std::size_t i : order) {
    Unit& unit = *units_[static_cast<std::size_t>(tensors_[i].unit)];
    unit.tensors.push_back(i);
    offsets_[i] = unit.size;
    unit.size += aligned(counts_[i], kAlign);
  }
  const at::TensorOptions wide = at::TensorOptions(at::kFloat).device(options_.device);
  for (auto& owned : units_) {
    Unit& unit = *owned;
    unit.size = aligned(std::max<std::int64_t>(unit.size, 1), kAlign * all_.world());
    unit.part = unit.size / all_.world();
    const at::Tensor exact = at::zeros({unit.size}, wide);
    for (const std::size_t i : unit.tensors)
      exact.narrow(0, offsets_[i], counts_[i]).copy_(tensors_[i].tensor.detach().reshape({-1}));
    const bool same = options_.compute == at::kFloat && !options_.parameters;
    unit.flat = same ? exact : exact.to(options_.compute, /*non_blocking=*/false, /*copy=*/true);
    unit.weights = exact.narrow(0, all_.rank() * unit.part, unit.part);
    if (!same) unit.weights = unit.weights.clone();
    unit.first = at::zeros({unit.part}, wide);
    unit.second = at::zeros({unit.part}, wide);
    if (options_.parameters) {
      unit.part_gradient = at::zeros({unit.part}, wide);
    } else {
      unit.gradient = at::zeros({unit.size}, wide);
      unit.part_gradient = unit.gradient.narrow(0, all_.rank() * unit.part, unit.part);
    }
    for (const std::size_t i : unit.tensors) {
      TrainedTensor& one = tensors_[i];
      one.tensor.set_data(unit.flat.narrow(0, offsets_[i], counts_[i]).view(shapes_[i]));
      one.tensor.requires_grad_(true);
    }
    if (options_.parameters && &unit != units_.front().get()) deallocate(unit.flat);
  }
  std::vector<double> decays;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Overlap own = overlap(i);
    if (own.count == 0) continue;
    const Unit& unit = *units_[static_cast<std::size_t>(tensors_[i].unit)];
    segments_.push_back(unit.weights.narrow(0, own.in_part, own.count));
    segment_gradients_.push_back(unit.part_gradient.narrow(0, own.in_part, own.count));
    decays.push_back(tensors_[i].decays ? options_.adamw.weight_decay : 0);
  }
  std::vector<at::Tensor> first, second;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Overlap own = overlap(i);
    if (own.count == 0) continue;
    const Unit& unit = *units_[static_cast<std::size_t>(tensors_[i].unit)];
    first.push_back(unit.first.narrow(0, own.in_part, own.count));
    second.push_back(unit.second.narrow(0, own.in_part, own.count));
  }
  optimizer_ = std::make_unique<AdamW>(segments_, options_.adamw, std::move(decays), std::move(first),
                                       std::move(second));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(tensors_[i].tensor));
    accumulators_.back()->add_post_hook(std::make_unique<Hook>(this, i));
  }
}

Shards::~Shards() {
  for (const auto& node : accumulators_)
    for (const auto& hook : node->post_hooks())
      if (auto* own = dynamic_cast<Hook*>(hook.get())) own->shards = nullptr;
}

Shards::Overlap Shards::overlap(std::size_t index) const {
  const Unit& unit = *units_[static_cast<std::size_t>(tensors_[index].unit)];
  const std::int64_t begin = all_.rank() * unit.part, from = std::max(begin, offsets_[index]),
                     to = std::min(begin + unit.part, offsets_[index] + counts_[index]);
  if (to <= from) return {};
  return {from - offsets_[index], from - begin, to - from};
}

const at::Tensor& Shards::part_of(const Unit& unit, Part part) const {
  return part == Part::kWeight ? unit.weights : part == Part::kFirst ? unit.first : unit.second;
}

void Shards::begin_step() {
  const at::NoGradGuard no_grad;
  gathered_for_.first = nullptr;
  for (const auto& unit : units_) (options_.parameters ? unit->part_gradient : unit->gradient).zero_();
}

void Shards::begin_pass(bool last) {
  last_pass_ = last;
  // Gradients of float32 weights are added up where they are to be; others are brought there when they
  // arrive.
  const bool in_place = options_.compute == at::kFloat && !options_.parameters;
  for (const auto& unit : units_) {
    unit->waiting = unit->tensors.size();
    for (const std::size_t i : unit->tensors)
      tensors_[i].tensor.mutable_grad() =
          in_place ? unit->gradient.narrow(0, offsets_[i], counts_[i]).view(shapes_[i]) : at::Tensor();
  }
}

void Shards::gradient_arrived(std::size_t index) {
  const at::NoGradGuard no_grad;
  Unit& unit = *units_[static_cast<std::size_t>(tensors_[index].unit)];
  if (unit.waiting == 0) return;
  at::Tensor& gradient = tensors_[index].tensor.mutable_grad();
  if (options_.parameters && !unit.gradient.defined())
    unit.gradient = at::zeros({unit.size}, unit.part_gradient.options());
  const at::Tensor place = unit.gradient.narrow(0, offsets_[index], counts_[index]);
  if (gradient.defined() && gradient.const_data_ptr() != place.const_data_ptr()) {
    place.add_(gradient.reshape({-1}));
    gradient = at::Tensor();
  }
  if (--unit.waiting == 0) unit_ready(unit);
}

void Shards::unit_ready(Unit& unit) {
  if (options_.parameters) {
    if (!unit.gradient.defined()) unit.gradient = at::zeros({unit.size}, unit.part_gradient.options());
    unit.arriving = at::empty({unit.part}, unit.part_gradient.options());
    unit.reducing = all_.reduce_scatter(unit.arriving, unit.gradient);
    if (!unit.reducing.active()) settle(unit);
    if (&unit != units_.front().get()) drop(unit);
    // One unit's whole gradient is on its way at a time, beside the one that is being computed.
    for (const auto& other : units_)
      if (other.get() != &unit && other->arriving.defined()) settle(*other);
  } else if (last_pass_) {
    unit.reducing = all_.reduce_scatter(unit.part_gradient, unit.gradient);
  }
}

void Shards::settle(Unit& unit) {
  const at::NoGradGuard no_grad;
  unit.reducing.wait();
  if (!unit.arriving.defined()) return;
  unit.part_gradient.add_(unit.arriving);
  unit.arriving = at::Tensor();
  unit.gradient = at::Tensor();
}

void Shards::end_pass() {
  const at::NoGradGuard no_grad;
  in_backward_ = false;
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    if ((*unit)->waiting == 0) continue;
    (*unit)->waiting = 0;  // a tensor that the loss does not reach
    unit_ready(**unit);
  }
  if (options_.parameters)
    for (const auto& unit : units_) {
      settle(*unit);
      if (unit != units_.front()) drop(*unit);
    }
}

double Shards::finish_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& unit : units_) settle(*unit);
  at::Tensor squares = at::zeros({1}, at::TensorOptions(at::kDouble).device(options_.device));
  if (!segment_gradients_.empty())
    squares.add_(at::stack(at::_foreach_norm(segment_gradients_)).to(at::kDouble).square().sum());
  all_.sum(squares);
  return std::sqrt(squares.item<double>());
}

void Shards::step(double learning_rate, double scale) {
  const at::NoGradGuard no_grad;
  if (scale != 1 && !segment_gradients_.empty()) at::_foreach_mul_(segment_gradients_, scale);
  for (std::size_t i = 0; i < segments_.size(); ++i) segments_[i].mutable_grad() = segment_gradients_[i];
  optimizer_->set_learning_rate(learning_rate);
  optimizer_->step();
  publish(steps_ + 1);
}

void Shards::publish(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  steps_ = steps;
  optimizer_->set_steps(steps);
  gathered_for_.first = nullptr;
  std::vector<Pending> all;
  for (const auto& owned : units_) {
    Unit& unit = *owned;
    if (!allocated(unit.flat)) continue;
    const at::Tensor own = unit.flat.narrow(0, all_.rank() * unit.part, unit.part);
    if (own.const_data_ptr() != unit.weights.const_data_ptr()) own.copy_(unit.weights);
    all.push_back(all_.all_gather(unit.flat, own));
  }
  for (Pending& one : all) one.wait();
}

void Shards::fetch(Unit& unit) {
  if (allocated(unit.flat) || unit.fetching.active()) return;
  const at::NoGradGuard no_grad;
  allocate(unit.flat);
  const at::Tensor own = unit.flat.narrow(0, all_.rank() * unit.part, unit.part);
  own.copy_(unit.weights);
  unit.fetching = all_.all_gather(unit.flat, own);
}

void Shards::drop(Unit& unit) {
  unit.fetching.wait();
  if (allocated(unit.flat)) deallocate(unit.flat);
}

void Shards::enter(std::int64_t layer) {
  if (!options_.parameters) return;
  Unit& unit = *units_[static_cast<std::size_t>(layer + 1)];
  fetch(unit);
  unit.fetching.wait();
  // Forwards the next layer follows, backwards the one before.
  const std::int64_t then = in_backward_ ? layer : layer + 2;
  if (then >= 1 && then < static_cast<std::int64_t>(units_.size()))
    fetch(*units_[static_cast<std::size_t>(then)]);
}

void Shards::leave(std::int64_t layer) {
  if (options_.parameters && !in_backward_) drop(*units_[static_cast<std::size_t>(layer + 1)]);
}

at::Tensor Shards::whole(std::size_t index, Part part) {
  const at::NoGradGuard no_grad;
  const Unit& unit = *units_[static_cast<std::size_t>(tensors_[index].unit)];
  if (gathered_for_ != std::pair<const Unit*, Part>(&unit, part) || !gathered_.defined()) {
    const at::Tensor& own = part_of(unit, part);
    if (all_.world() == 1) {
      gathered_ = own;
    } else {
      gathered_ = at::empty({unit.size}, own.options());
      all_.all_gather(gathered_, own).wait();
    }
    gathered_ = gathered_.to(at::kCPU);
    gathered_for_ = {&unit, part};
  }
  return gathered_.narrow(0, offsets_[index], counts_[index]).view(shapes_[index]);
}

void Shards::restore(std::size_t index, Part part, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const Overlap own = overlap(index);
  if (own.count == 0) return;
  part_of(*units_[static_cast<std::size_t>(tensors_[index].unit)], part)
      .narrow(0, own.in_part, own.count)
      .copy_(value.reshape({-1}).narrow(0, own.in_tensor, own.count));
}

std::int64_t Shards::resident_bytes() const {
  std::int64_t out = 0;
  for (const auto& unit : units_) {
    out += static_cast<std::int64_t>(unit->flat.storage().nbytes());
    if (!unit->weights.is_alias_of(unit->flat)) out += 4 * unit->part;
    out += 4 * (unit->gradient.defined() ? unit->size : unit->part) + 8 * unit->part;
  }
  return out;
}

double clip_scale(double norm, double limit) { return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1; }

}  // namespace musacoder::train

// What the processes of one training run say to each other; each holds one Communicator and calls the same
// operations in the same order.
//
//   MC_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, join_run("auto", at::kCPU));
//   Pending sum = all->reduce_scatter(mine, whole);      // goes on while other things are computed
//   ...
//   sum.wait();
//
// A process by itself has rank 0 of 1, and its operations are copies. A lost process is a std::runtime_error
// from wait() or from the next call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "llm/torch.h"

namespace musacoder::train {

// An operation that may still be going on; its tensors must stay until it is over. wait() is done once.
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  bool active() const { return static_cast<bool>(wait_); }
  void wait() {
    if (!wait_) return;
    const auto wait = std::move(wait_);
    wait_ = nullptr;
    wait();
  }

 private:
  std::function<void()> wait_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // `whole` is `world` equal parts: part r of the sum over all processes goes to rank r's `part`. float32,
  // one dimension. `part` may lie within `whole` at its own place.
  virtual Pending reduce_scatter(const at::Tensor& part, const at::Tensor& whole) = 0;
  // Rank r's `part` becomes part r of `whole`. Any type, one dimension; `part` may be a view of its own
  // place.
  virtual Pending all_gather(const at::Tensor& whole, const at::Tensor& part) = 0;
  virtual void sum(const at::Tensor& values) = 0;  // in place
  virtual void broadcast(const at::Tensor& values, int from) = 0;
};

std::unique_ptr<Communicator> alone();

}  // namespace musacoder::train

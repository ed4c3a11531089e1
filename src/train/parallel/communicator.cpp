#include "train/parallel/communicator.h"

namespace musacoder::train {
namespace {

class Alone : public Communicator {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  Pending reduce_scatter(const at::Tensor& part, const at::Tensor& whole) override {
    return copied(part, whole);
  }
  Pending all_gather(const at::Tensor& whole, const at::Tensor& part) override { return copied(whole, part); }
  void sum(const at::Tensor&) override {}
  void broadcast(const at::Tensor&, int) override {}

 private:
  static Pending copied(const at::Tensor& to, const at::Tensor& from) {
    if (to.const_data_ptr() != from.const_data_ptr()) to.copy_(from);
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> alone() { return std::make_unique<Alone>(); }

}  // namespace musacoder::train

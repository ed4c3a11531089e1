#include "train/rl/exchange.h"

#include <cstring>

namespace musacoder::train {

std::vector<std::string> exchange(Communicator& all, const at::Device& device, const std::string& mine) {
  if (all.world() == 1) return {mine};
  const auto world = static_cast<std::int64_t>(all.world());
  const at::Tensor sizes = at::zeros({world}, at::TensorOptions(at::kLong).device(device));
  all.all_gather(sizes, at::full({1}, static_cast<std::int64_t>(mine.size()), sizes.options())).wait();
  const at::Tensor here = sizes.cpu();
  const std::int64_t longest = std::max<std::int64_t>(1, here.max().item<std::int64_t>());
  at::Tensor part = at::zeros({longest}, at::kByte);
  std::memcpy(part.mutable_data_ptr(), mine.data(), mine.size());
  const at::Tensor whole = at::zeros({world * longest}, at::TensorOptions(at::kByte).device(device));
  all.all_gather(whole, part.to(device)).wait();
  const at::Tensor bytes = whole.cpu();
  std::vector<std::string> out;
  for (std::int64_t rank = 0; rank < world; ++rank)
    out.emplace_back(static_cast<const char*>(bytes.const_data_ptr()) + rank * longest,
                     static_cast<std::size_t>(here[rank].item<std::int64_t>()));
  return out;
}

}  // namespace musacoder::train

// Sums over the rows of a float32 matrix, for gradients that were summed in parts. A block takes 32 columns;
// the order of summation depends on the number of rows only.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/kernels.h"

namespace musacoder::kernels {
namespace {

constexpr int kRows = 16;

template <typename T>
__global__ void __launch_bounds__(32 * kRows)
    column_sums(const float* parts, T* out, std::int64_t rows, std::int64_t columns) {
  __shared__ float sums[kRows][32];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0;
  if (column < columns)
    for (std::int64_t row = threadIdx.y; row < rows; row += kRows) sum += parts[row * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  sum = 0;
#pragma unroll
  for (int i = 0; i < kRows; ++i) sum += sums[i][threadIdx.x];
  out[column] = narrow<T>(sum);
}

}  // namespace
}  // namespace musacoder::kernels

using namespace musacoder::kernels;

extern "C" int mc_column_sums(int type, const float* parts, void* out, std::int64_t rows,
                              std::int64_t columns, void* stream) {
  const dim3 block(32, kRows);
  const auto grid = static_cast<unsigned>((columns + 31) / 32);
  if (type == musacoder::llm::kBF16)
    column_sums<<<grid, block, 0, stream_of(stream)>>>(parts, static_cast<bf16*>(out), rows, columns);
  else
    column_sums<<<grid, block, 0, stream_of(stream)>>>(parts, static_cast<float*>(out), rows, columns);
  return launched();
}

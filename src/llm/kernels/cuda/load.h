// CUDA at run time: libtorch's CUDA half and our kernels are loaded when a CUDA device is first asked for.
//
//   MC_ASSIGN_OR_RETURN(const at::Device device, open_device("cuda"));    // "cpu", "cuda", "cuda:1"
//   if (fused_on(x)) check_cuda(cuda_kernels().mc_swiglu_forward(...), "swiglu");
//
// The program starts, and computes on the CPU, where neither is installed. libtorch_cuda.so is looked for
// beside the libtorch_cpu.so that runs; the kernels in $MUSACODER_LLM_KERNELS, then in runtime/lib beside the
// program. Without the kernels models run on torch's own operators.
#pragma once

#include <string>

#include "base/status.h"
#include "llm/kernels/cuda/decode.h"
#include "llm/kernels/cuda/kernels.h"
#include "llm/torch.h"

namespace musacoder::llm {

// clang-format off
#define MC_CUDA_KERNELS(X) \
  X(mc_cuda_error_text) \
  X(mc_column_sums) \
  X(mc_rms_norm_forward) \
  X(mc_rms_norm_groups) \
  X(mc_rms_norm_backward) \
  X(mc_split_rotate_forward) \
  X(mc_split_rotate_groups) \
  X(mc_split_rotate_backward) \
  X(mc_swiglu_forward) \
  X(mc_swiglu_backward) \
  X(mc_logprob_forward) \
  X(mc_logprob_backward) \
  X(mc_gradient_norm) \
  X(mc_adamw) \
  X(mc_embed) \
  X(mc_row_linear) \
  X(mc_rotate_into_cache) \
  X(mc_part_rotate_into_cache) \
  X(mc_paged_attention) \
  X(mc_delta_takes) \
  X(mc_delta_conv) \
  X(mc_delta_rule) \
  X(mc_pick) \
  X(mc_take_rows) \
  X(mc_host_alloc) \
  X(mc_host_free) \
  X(mc_copy) \
  X(mc_wait) \
  X(mc_graph_begin) \
  X(mc_graph_end) \
  X(mc_graph_run) \
  X(mc_graph_free)
// clang-format on

struct CudaKernels {
#define MC_CUDA_KERNEL_POINTER(name) decltype(&::name) name = nullptr;
  MC_CUDA_KERNELS(MC_CUDA_KERNEL_POINTER)
#undef MC_CUDA_KERNEL_POINTER
};

// kUnsupported: no libtorch_cuda.so, or not of this version, or no such GPU; kInvalidArgument: not a device's
// name.
Result<at::Device> open_device(const std::string& name);

// Whether our kernels were loaded, by open_device().
bool have_cuda_kernels();
// They must have been.
const CudaKernels& cuda_kernels();

// A CUDA tensor of float32 or bf16 while the kernels are loaded.
bool fused_on(const at::Tensor& x);
int kernel_type(const at::Tensor& x);
// The current stream of the tensor's device, a cudaStream_t.
void* cuda_stream(const at::Tensor& x);
// Throws c10::Error with `what` unless `error` is 0.
void check_cuda(int error, const char* what);

void synchronize(const at::Device& device);
// Bytes that tensors took at most since the start or the last call with `reset`; 0 on the CPU.
std::int64_t peak_memory(const at::Device& device, bool reset = false);

}  // namespace musacoder::llm

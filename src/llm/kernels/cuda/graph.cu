// Launches kept as graphs, copies and host memory, for the generation engine.
#include "llm/kernels/cuda/common.cuh"
#include "llm/kernels/cuda/decode.h"

using namespace musacoder::kernels;

extern "C" void* mc_host_alloc(std::int64_t bytes) {
  void* out = nullptr;
  return cudaMallocHost(&out, static_cast<std::size_t>(bytes)) == cudaSuccess ? out : nullptr;
}
extern "C" void mc_host_free(void* memory) { cudaFreeHost(memory); }

extern "C" int mc_copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_of(stream));
}
extern "C" int mc_wait(void* stream) { return cudaStreamSynchronize(stream_of(stream)); }

extern "C" int mc_graph_begin(void** stream) {
  cudaStream_t own = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)) return error;
  *stream = own;
  const cudaError_t error = cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) cudaStreamDestroy(own);
  return error;
}

extern "C" int mc_graph_end(void* stream, void** graph) {
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t made = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream_of(stream), &recorded);
  cudaStreamDestroy(stream_of(stream));
  if (error != cudaSuccess) return error;
  error = cudaGraphInstantiate(&made, recorded, 0);
  cudaGraphDestroy(recorded);
  *graph = made;
  return error;
}

extern "C" int mc_graph_run(void* graph, void* stream) {
  return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream));
}
extern "C" void mc_graph_free(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

// Streams and events. The virtual GPU has finished a piece of work when the call that started it returns, so streams only
// carry an identity, and event times are the host's: estimates of nothing but this interpreter's speed.
#include <cuda_runtime_api.h>

#include <chrono>
#include <mutex>
#include <set>

#include "connection.h"
#include "vgpu_client.h"

using namespace musacoder::cudart;

namespace {

struct Stream {
  unsigned flags = 0;
  int priority = 0;
};
struct Event {
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point at;
};

std::mutex& handles_mutex() {
  static auto* m = new std::mutex;
  return *m;
}
std::set<const void*>& handles() {
  static auto* s = new std::set<const void*>;
  return *s;
}

template <typename T>
T* adopt(T* object) {
  std::lock_guard lock(handles_mutex());
  handles().insert(object);
  return object;
}
bool known(const void* handle) {
  std::lock_guard lock(handles_mutex());
  return handles().contains(handle);
}
bool forget(const void* handle) {
  std::lock_guard lock(handles_mutex());
  return handles().erase(handle) > 0;
}

// The default streams are the numbers 0, 1 and 2.
bool is_default(cudaStream_t s) { return reinterpret_cast<std::uintptr_t>(s) <= 2; }
bool valid(cudaStream_t s) { return is_default(s) || known(s); }
Stream* stream(cudaStream_t s) { return reinterpret_cast<Stream*>(s); }
Event* event(cudaEvent_t e) { return reinterpret_cast<Event*>(e); }

cudaError_t bad_handle() { return explain(cudaErrorInvalidResourceHandle, "not a live stream or event"); }
cudaError_t synchronize() { return record(static_cast<cudaError_t>(mcv_synchronize())); }

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  if (!out) return record(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaStream_t>(adopt(new Stream{flags, priority}));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) { return cudaStreamCreateWithPriority(out, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithPriority(out, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  if (is_default(s) || !forget(s)) return bad_handle();
  delete stream(s);
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned* flags) {
  if (!valid(s)) return bad_handle();
  if (flags) *flags = is_default(s) ? 0 : stream(s)->flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int* priority) {
  if (!valid(s)) return bad_handle();
  if (priority) *priority = is_default(s) ? 0 : stream(s)->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long* id) {
  if (!valid(s)) return bad_handle();
  if (id) *id = reinterpret_cast<std::uintptr_t>(s);
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t s, int* device) {
  if (!valid(s)) return bad_handle();
  if (device) *device = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return valid(s) ? synchronize() : bad_handle(); }
cudaError_t cudaStreamQuery(cudaStream_t s) { return valid(s) ? synchronize() : bad_handle(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  return valid(s) && known(e) ? cudaSuccess : bad_handle();
}
cudaError_t cudaStreamSetAttribute(cudaStream_t s, cudaLaunchAttributeID, const cudaLaunchAttributeValue*) {
  return valid(s) ? cudaSuccess : bad_handle();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  if (!valid(s)) return bad_handle();
  if (status) *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, size_t* count) {
  if (id) *id = 0;
  if (graph) *graph = nullptr;
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaStreamIsCapturing(s, status);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function, void* data) {
  if (!valid(s) || !function) return bad_handle();
  function(data);
  return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t callback, void* data, unsigned) {
  if (!valid(s) || !callback) return bad_handle();
  callback(s, cudaSuccess, data);
  return cudaSuccess;
}
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  if (!out) return record(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaEvent_t>(adopt(new Event{flags, false, {}}));
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  if (!forget(e)) return bad_handle();
  delete event(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  if (!known(e) || !valid(s)) return bad_handle();
  event(e)->recorded = true;
  event(e)->at = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) { return cudaEventRecord(e, s); }
cudaError_t cudaEventQuery(cudaEvent_t e) { return known(e) ? synchronize() : bad_handle(); }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { return known(e) ? synchronize() : bad_handle(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!ms) return record(cudaErrorInvalidValue);
  if (!known(begin) || !known(end) || !event(begin)->recorded || !event(end)->recorded ||
      ((event(begin)->flags | event(end)->flags) & cudaEventDisableTiming))
    return bad_handle();
  *ms = std::chrono::duration<float, std::milli>(event(end)->at - event(begin)->at).count();
  return cudaSuccess;
}

}  // extern "C"

#include "canary.h"

#include <chrono>
#include <string>
#include <thread>

#include "watch.h"

namespace musacoder::ledger {
namespace {

constexpr auto kFillDeadline = std::chrono::seconds(10);  // other work may keep the GPU
constexpr int kFlushes = 8;                               // with growing pauses, 128 ms in all

bool good(const char* step, CUresult code) {
  if (code == CUDA_SUCCESS) return true;
  remark(std::string("canary: ") + step + " gave " + std::to_string(static_cast<int>(code)));
  return false;
}

// This thread's driver calls are the canary's while one of these lives.
struct Scope {
  explicit Scope(Watch& watch) : watch_(watch) { watch_.canary(true); }
  ~Scope() { watch_.canary(false); }
  Watch& watch_;
};

}  // namespace

bool Canary::context_exists() {
  unsigned flags = 0;
  int active = 0;
  if (!driver().DeviceGet || driver().DeviceGet(&device_, 0) != CUDA_SUCCESS)
    return false;  // also: cuInit not called yet
  return driver().PrimaryCtxGetState(device_, &flags, &active) == CUDA_SUCCESS && active;
}

void Canary::forget() {
  context_ = nullptr;
  stream_ = nullptr;
  word_ = 0;
}

bool Canary::ensure() {
  if (word_) return good("cuCtxSetCurrent", driver().CtxSetCurrent(context_));
  // Another thread may be capturing a graph in the mode that forbids allocation everywhere.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver().ThreadExchangeStreamCaptureMode(&mode);
  CUdeviceptr word = 0;
  const bool made =
      (context_ || good("cuDevicePrimaryCtxRetain", driver().PrimaryCtxRetain(&context_, device_))) &&
      good("cuCtxSetCurrent", driver().CtxSetCurrent(context_)) &&
      (stream_ || good("cuStreamCreate", driver().StreamCreate(&stream_, CU_STREAM_NON_BLOCKING))) &&
      good("cuMemAlloc", driver().MemAlloc(&word, 8));
  if (made) word_ = word;
  return made;
}

bool Canary::fill(Watch& watch) {
  const Scope scope(watch);
  if (!ensure()) return false;
  if (!good("cuMemsetD8Async", driver().MemsetD8Async(word_, 0x5A, 8, stream_))) return false;
  const auto until = std::chrono::steady_clock::now() + kFillDeadline;
  for (CUresult code; (code = driver().StreamQuery(stream_)) != CUDA_SUCCESS;) {
    if (code != CUDA_ERROR_NOT_READY) return good("cuStreamQuery", code);
    if (std::chrono::steady_clock::now() > until) {
      remark("canary: the GPU is busy with something else", true);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

CanaryResult Canary::run(Watch& watch) {
  if (watch.broken() || watch.is_quiet()) return CanaryResult::kMissing;
  if (!context_exists()) {
    forget();
    watch.flush(false);
    return CanaryResult::kNoContext;
  }
  const std::uint64_t before = watch.canaries();
  if (!fill(watch)) {
    // cudaDeviceReset takes everything away that the context held; once more with new handles.
    forget();
    if (watch.fault() || !fill(watch)) {
      watch.flush(false);
      return CanaryResult::kMissing;
    }
  }
  for (int i = 0; i < kFlushes; ++i) {
    // Forced only after a while: an unfinished record ends the reading of its buffer.
    watch.flush(i >= kFlushes / 2);
    // Each thread has its buffers: the canary's may come before those of the launches.
    if (watch.canaries() > before && watch.missing() == 0) return CanaryResult::kSeen;
    std::this_thread::sleep_for(std::chrono::milliseconds(i < 2 ? 1 : 1 << (i - 2)));
  }
  if (watch.canaries() > before) return CanaryResult::kSeen;
  remark("canary: its record did not come", true);
  return CanaryResult::kMissing;
}

void Canary::poke(Watch& watch) {
  if (!stream_ || !context_exists()) return;
  const Scope scope(watch);
  if (driver().CtxSetCurrent(context_) == CUDA_SUCCESS) driver().StreamQuery(stream_);
}

}  // namespace musacoder::ledger

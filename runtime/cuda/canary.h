// A sign of life of CUPTI: a fill of 8 bytes on the GPU, issued by this library, must come back as a record.
// Where it does not, records are being lost or somebody has taken CUPTI's buffers away, and an empty report
// proves nothing.
//
//   Canary canary;
//   CanaryResult seen = canary.run(watch);      // flushes CUPTI; on the service's thread only
#pragma once

#include "cupti_api.h"

namespace musacoder::ledger {

class Watch;

enum class CanaryResult {
  kSeen,
  kNoContext,  // the process has not touched the GPU: there is nothing to report, and nothing to see
  kMissing,
};

class Canary {
 public:
  CanaryResult run(Watch& watch);
  // Asks the driver about the context's health; a sticky fault shows in Watch::fault().
  void poke(Watch& watch);

 private:
  bool context_exists();
  bool ensure();
  bool fill(Watch& watch);
  void forget();

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr word_ = 0;
};

}  // namespace musacoder::ledger

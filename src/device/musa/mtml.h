// Moore Threads' management library (MTML), found at run time: which GPUs there are and what they are doing. The counterpart of
// device/cuda/nvml.h; it makes no context and takes no GPU memory.
//
//   MC_ASSIGN_OR_RETURN(auto mtml, Mtml::open());
//   MC_ASSIGN_OR_RETURN(auto gpus, mtml->gpus());          // MTT S5000, mp_31
//   MC_ASSIGN_OR_RETURN(GpuSample now, mtml->sample(gpus[0].index));
//
// Names and forms of its functions are those of the vendor's public Python binding (mthreads-ml-py). Untested on hardware.
// Errors: kUnavailable, with what is missing and what to do. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cuda/nvml.h"

namespace musacoder::device {

struct MusaGpu {
  unsigned index = 0;
  std::string name, uuid, driver;   // "MTT S5000", …, "3.3.0"
  std::string architecture;         // of mcc: "mp_31"; "" for a model that is not known here
  int warp_size = 0;                // 0 unknown
  std::uint64_t memory_bytes = 0;
};

// "mp_31" and 32 of "MTT S5000"; "" and 0 for what is not in the table. $TORCH_MUSA_ARCH_LIST (its first entry) comes first.
std::pair<std::string, int> musa_architecture(const std::string& name);

class Mtml {
 public:
  // `path`: the library; "" for $MUSACODER_MTML, else libmtml.so.
  static Result<std::unique_ptr<Mtml>> open(const std::string& path = "");
  ~Mtml();
  Mtml(const Mtml&) = delete;
  Mtml& operator=(const Mtml&) = delete;

  Result<std::vector<MusaGpu>> gpus();   // empty: a driver, but no GPU
  Result<GpuSample> sample(unsigned index);

 private:
  struct Api;
  explicit Mtml(std::unique_ptr<Api> api);
  std::unique_ptr<Api> api_;
};

// The GPU that candidates would run on: the first that $MUSA_VISIBLE_DEVICES allows. kUnavailable says what is missing.
Result<MusaGpu> musa_probe(const std::string& mtml_path = "");

}  // namespace musacoder::device

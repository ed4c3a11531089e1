// NVIDIA's management library, found at run time: which GPUs there are, what they are doing. It makes no
// context and takes no GPU memory, so the judge may use it; libcuda it never loads.
//
//   MC_ASSIGN_OR_RETURN(auto nvml, Nvml::open());
//   MC_ASSIGN_OR_RETURN(auto gpus, nvml->gpus());               // in NVML's order, which need not be CUDA's:
//   match by uuid MC_ASSIGN_OR_RETURN(GpuSample now, nvml->sample(gpus[0].index)); if (!now.throttle.empty())
//   …                                // a measured time is not worth much
//
// Errors: kUnavailable, with what is missing and what to do. Thread safe (NVML is).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <functional>

#include "base/status.h"

namespace musacoder::device {

struct GpuInfo {
  unsigned index = 0;
  std::string name;        // "NVIDIA H200"
  std::string uuid;        // "GPU-8c3f…"
  std::string driver;      // "580.95.05"
  std::string cuda;        // newest CUDA that the driver knows: "13.0"
  std::string capability;  // "9.0"
  std::uint64_t memory_bytes = 0, free_bytes = 0;
};

struct GpuProcess {
  pid_t pid = 0;                   // in the host's numbering, also when asked from a container
  std::uint64_t memory_bytes = 0;  // 0 where NVML does not know
};

// A field that the GPU does not tell stays at its default.
struct GpuSample {
  unsigned sm_mhz = 0, memory_mhz = 0;
  unsigned temperature_c = 0;
  double power_w = 0;
  unsigned busy_percent = 0, memory_busy_percent = 0;
  std::vector<std::string> throttle;  // "sw_power_cap", "hw_thermal", …; idle is none
  std::vector<GpuProcess> processes;  // with a context on this GPU
};

// Words of a throttle mask, in the order of its bits; bits without a name as "0x…".
std::vector<std::string> throttle_words(std::uint64_t mask);

class Nvml {
 public:
  // `path`: the library; "" for $MUSACODER_NVML, else libnvidia-ml.so.1.
  static Result<std::unique_ptr<Nvml>> open(const std::string& path = "");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Result<std::vector<GpuInfo>> gpus();  // empty: a driver, but no GPU
  Result<GpuSample> sample(unsigned index);

 private:
  struct Api;
  explicit Nvml(std::unique_ptr<Api> api);
  std::unique_ptr<Api> api_;
};

// How many of the processes with a context on a GPU are not ours; -1 where nobody can tell. NVML may list them in another
// numbering than ours (containers): where it lists none that `is_ours` knows, `ours` of them are taken for ours.
int other_processes(const std::vector<GpuProcess>& listed, const std::function<bool(pid_t)>& is_ours, int ours);
// Whether `pid` is this process or one below it.
bool is_below(pid_t pid, pid_t ancestor);

// Is there a GPU that candidates can run on? Milliseconds, no context. The GPU is the first that
// $CUDA_VISIBLE_DEVICES allows. kUnavailable says what is missing (library, driver, GPU, compute capability
// below 7.5) and what to do.
Result<GpuInfo> gpu_probe(const std::string& nvml_path = "");

}  // namespace musacoder::device

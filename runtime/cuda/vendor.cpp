#include "vendor.h"

#include <cstdlib>

namespace musacoder::ledger {
namespace {

constexpr const char* kCupti[] = {"libcupti.so.13", "libcupti.so.12"};
constexpr const char* kCudaDriver[] = {"libcuda.so.1"};
constexpr const char* kCudaRuntime[] = {"libcudart"};
constexpr const char* kMupti[] = {"libmupti.so", "libmupti.so.1"};
constexpr const char* kMusaDriver[] = {"libmusa.so", "libmusa.so.1"};
constexpr const char* kMusaRuntime[] = {"libmusart"};

constexpr Vendor kNvidia{"CUPTI", "NVIDIA driver", "MUSACODER_CUPTI", kCupti, kCudaDriver, kCudaRuntime, false};
constexpr Vendor kMooreThreads{"MUPTI", "Moore Threads driver", "MUSACODER_MUPTI", kMupti, kMusaDriver, kMusaRuntime, true};

}  // namespace

std::string Vendor::name_of(std::string_view cuda) const {
  std::string name(cuda);
  if (musa && !name.empty() && name[0] == 'c') name[0] = 'm';   // cupti… → mupti…, cu… → mu…
  return name;
}

const Vendor& vendor() {
  static const bool musa = std::getenv("MUSACODER_LEDGER_VENDOR") && std::string_view(std::getenv("MUSACODER_LEDGER_VENDOR")) == "musa";
  return musa ? kMooreThreads : kNvidia;
}

}  // namespace musacoder::ledger

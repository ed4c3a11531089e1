// Whose GPU this process drives. MUPTI mirrors CUPTI: the same functions, records and numbers of calls under names that begin
// with "mupti", and the driver's with "mu"; so one library watches both, and this is all that differs.
//
//   void* function = ::dlsym(library, vendor().name_of("cuptiSubscribe").c_str());    // "muptiSubscribe" on MUSA
//
// $MUSACODER_LEDGER_VENDOR=musa chooses Moore Threads, before mcl_start; anything else is NVIDIA. Of MUPTI the records' first
// fields are read as those of CUPTI's (its public users read MUpti_ActivityKernel6): untested on hardware. Where a record is
// not what is assumed here, the canary's is not either, and the report is no report.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace musacoder::ledger {

struct Vendor {
  const char* title;          // "CUPTI"
  const char* driver_title;   // "NVIDIA driver"
  const char* cupti_variable; // of the environment: path of the profiling library
  std::span<const char* const> cupti, driver, runtime;   // libraries, in the order in which they are tried; beginnings of names
  bool musa;
  // CUDA's name of a function as this vendor's library exports it.
  std::string name_of(std::string_view cuda) const;
};
const Vendor& vendor();

}  // namespace musacoder::ledger

// A Moore Threads GPU as a backend. It is the NVIDIA backend with other names below it: the candidate's process drives the
// device through torch_musa, libmusacoder_ledger.so watches it through MUPTI (runtime/cuda/vendor.h), and the session is
// the one of device/cuda.
//
//   MC_ASSIGN_OR_RETURN(auto device, make_musa_device(config));   // kUnavailable says what is missing
//   device->architecture();                                       // "mp_31": builds go to mcc (build/mcc.h)
//
// No such GPU was at hand: what is tested here is tested with a stand-in tool chain (docs/musa.md).
#pragma once

#include "device/device.h"

namespace musacoder::device {

// `mtml_path` as in Mtml::open().
Result<std::unique_ptr<Device>> make_musa_device(const DeviceConfig& config, const std::string& mtml_path = "");

}  // namespace musacoder::device

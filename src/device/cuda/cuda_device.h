// An NVIDIA GPU as a backend. The candidate's own process drives it; libmusacoder_ledger.so (runtime/cuda)
// watches from inside that process, and a session here is the judge's end of its descriptor.
//
//   MC_ASSIGN_OR_RETURN(auto device, make_cuda_device(config));       // kUnavailable where there is no GPU
//   MC_ASSIGN_OR_RETURN(auto session, device->start_session(limits));
//   int fd = session->take_client_fd();                                // the runner gives it to mcl_start()
//   session->begin_window({.trial = 0});  …forward…  auto report = session->end_window();
//
// The memory belongs to the reference runner: allocate, free, write, read and find are kUnsupported.
//
// The peer is not trusted. What it sends is bounded (4 MiB a line) and checked field by field; an answer that
// no honest library gives ends the connection, and the report has the reason in `protocol_error`, as have all
// later ones. Errors: kDeadlineExceeded (no answer in time), kUnavailable (the process is gone, or CUPTI is
// silent or out of order: ours to mend, no verdict). Reports: launches of vendor libraries become
// `vendor_calls`, all others `launches` with their origin.
#pragma once

#include "base/files.h"
#include "device/device.h"

namespace musacoder::device {

struct CudaSessionOptions {
  double hello_seconds = 60;   // the library answers once it is loaded
  double answer_seconds = 30;  // flushing records may wait for a kernel
  const char* profiler = "CUPTI";  // whose silence is complained of
};

// A session over a connected stream socket; the client descriptor is what take_client_fd() gives (-1: none
// left).
std::unique_ptr<Session> make_cuda_session(base::Fd judge, base::Fd client,
                                           const CudaSessionOptions& options);

// kUnavailable says what is missing and what to do: driver, GPU, libmusacoder_ledger.so. `nvml_path` as in
// gpu_probe().
Result<std::unique_ptr<Device>> make_cuda_device(const DeviceConfig& config,
                                                 const std::string& nvml_path = "");

}  // namespace musacoder::device

// CUPTI and the CUDA driver, found at run time: headers are needed to build, no library to load this one.
//
//   std::string error;
//   if (!cupti().load(&error)) …
//   CUptiResult code = cupti().FlushAll(0);
//
// load() is called once, before any other thread uses the tables.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <string>

namespace musacoder::ledger {

struct Cupti {
  decltype(&cuptiSubscribe) Subscribe = nullptr;
  decltype(&cuptiUnsubscribe) Unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) EnableCallback = nullptr;
  decltype(&cuptiEnableDomain) EnableDomain = nullptr;
  decltype(&cuptiActivityEnable) ActivityEnable = nullptr;
  decltype(&cuptiActivityDisable) ActivityDisable = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) RegisterCallbacks = nullptr;
  decltype(&cuptiActivityFlushAll) FlushAll = nullptr;
  decltype(&cuptiActivityGetNextRecord) GetNextRecord = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) GetNumDroppedRecords = nullptr;
  decltype(&cuptiGetGraphNodeId) GetGraphNodeId = nullptr;
  decltype(&cuptiGetResultString) GetResultString = nullptr;
  decltype(&cuptiGetVersion) GetVersion = nullptr;

  // $MUSACODER_CUPTI, else libcupti.so.13, else libcupti.so.12; one that is already loaded (torch's) comes
  // first.
  bool load(std::string* error);
  std::string text(CUptiResult code) const;  // "CUPTI_ERROR_NOT_INITIALIZED (15)"
};
Cupti& cupti();

// The driver's functions that the canary uses. Missing until the driver is installed.
struct Driver {
  CUresult (*DriverGetVersion)(int*) = nullptr;
  CUresult (*DeviceGet)(CUdevice*, int) = nullptr;
  CUresult (*PrimaryCtxGetState)(CUdevice, unsigned*, int*) = nullptr;
  CUresult (*PrimaryCtxRetain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*CtxSetCurrent)(CUcontext) = nullptr;
  CUresult (*MemAlloc)(CUdeviceptr*, std::size_t) = nullptr;
  CUresult (*MemsetD8Async)(CUdeviceptr, unsigned char, std::size_t, CUstream) = nullptr;
  CUresult (*StreamCreate)(CUstream*, unsigned) = nullptr;
  CUresult (*StreamQuery)(CUstream) = nullptr;
  CUresult (*ThreadExchangeStreamCaptureMode)(CUstreamCaptureMode*) = nullptr;

  bool load(std::string* error);
};
Driver& driver();

// "musacoder ledger: …" on stderr when MUSACODER_LEDGER_LOG is set; always when `important`.
void remark(const std::string& text, bool important = false);

}  // namespace musacoder::ledger

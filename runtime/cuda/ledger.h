// libmusacoder_ledger.so: watches what a process does with an NVIDIA GPU, through CUPTI, and tells the judge
// over a descriptor (docs of the messages: service.h). Loaded by the candidate's runner with ctypes, before
// any CUDA context exists:
//
//   ledger = ctypes.CDLL(".../runtime/lib/libmusacoder_ledger.so")
//   error = ctypes.create_string_buffer(512)
//   if ledger.mcl_start(fd, error, len(error)) != 0: raise RuntimeError(error.value.decode())
//   ledger.mcl_internal(1); copy_state(); ledger.mcl_internal(-1)
//   out = model(*inputs); torch.cuda.synchronize(); ledger.mcl_synchronized()
//
// Environment: MUSACODER_OWN_PREFIX, folders separated by colons below which the candidate's shared objects
// lie; MUSACODER_CUPTI, path of libcupti where the loader does not find it by name; MUSACODER_LEDGER_LOG=1,
// remarks on stderr.
//
// The process is the candidate's: it can lie about itself. What the library reports is evidence as good as
// the process's honesty; its silence is noticed (Canary), and the judge does not take silence for innocence.
#pragma once

#include <stddef.h>

#define MCL_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// Subscribes to CUPTI, switches the records on and starts the thread that serves `fd`, a stream socket that
// the library owns from now on. Once a process; a second call fails. Returns 0, else a code above 0 and the
// reason in `error` (always terminated when n > 0). On failure nothing is left running and fd stays open and
// the caller's.
MCL_EXPORT int mcl_start(int fd, char* error, size_t n);

// Marks work of the runner itself: what this host thread launches or copies while the sum of its deltas is
// above 0 is counted, not listed. The sum never goes below 0.
MCL_EXPORT void mcl_internal(int delta);

// Puts an operator or feature into the next report. kind: "refused" or "booked" (operators that torch refused
// or that were let through and noted), "unsupported". Other kinds and names beyond 256 of a kind are dropped;
// a name counts once a report.
MCL_EXPORT void mcl_note(const char* kind, const char* name);

// To be called after cudaDeviceSynchronize: has CUPTI hand over its records now. Returns 0 or CUPTI's code.
MCL_EXPORT int mcl_synchronized(void);

#ifdef __cplusplus
}
#endif

/* C interface of libmusacoder_sandbox.so, for Python's ctypes in a freshly forked, single-threaded child:
 *
 *   lib = ctypes.CDLL("libmusacoder_sandbox.so")
 *   buffer = ctypes.create_string_buffer(4096)
 *   if lib.musacoder_sandbox_enter(policy_json.encode(), buffer, len(buffer)) != 0: raise OSError(buffer.value)
 *   report = json.loads(buffer.value)      # {"features": […], "skipped": {feature: why}}
 *
 * The call may return in another process than it was made in: the pid that the parent knows becomes a supervisor, which
 * ends exactly as this process does (see sandbox/enter.h). So: call it before taking os.getpid(), and open nothing that the
 * supervisor should keep. Returns 0, or -1 with a message in `report`; then the process may be half locked in and must end.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int musacoder_sandbox_enter(const char* policy_json, char* report, size_t report_size);

/* What this machine offers, as the same JSON; tried in a child process. */
int musacoder_sandbox_probe(char* report, size_t report_size);

#ifdef __cplusplus
}
#endif

"""libmusacoder_sandbox.so, called in a forked child: from here on the process sees only what the policy allows."""

import ctypes
import json

_REPORT_BYTES = 16 << 10


class Sandbox:
    """Loads the library once, in the zygote. enter(policy: dict) -> features in force; raises OSError with the reason."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._enter = self._library.musacoder_sandbox_enter
        self._enter.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
        self._enter.restype = ctypes.c_int

    def enter(self, policy):
        report = ctypes.create_string_buffer(_REPORT_BYTES)
        code = self._enter(json.dumps(policy).encode(), report, _REPORT_BYTES)
        text = report.value.decode("utf-8", "replace")
        if code != 0:
            raise OSError(text or "no reason given")
        return list(json.loads(text)["features"])


class NoSandbox:
    """For tests of the runner itself: nothing is confined, and the features say so by being empty."""

    def enter(self, policy):
        del policy
        return []

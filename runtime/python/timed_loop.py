"""Times calls on the device back to back: one loop for the candidate and for the reference, so that their times compare.

    loop = TimedLoop(flush_bytes=256 << 20)
    first_ms, calls = loop.warm(lambda: model(x), cap_s=2.0)
    ms = loop.run([(restore, lambda: model(x), keep)] * 10)      # ms[k]: milliseconds of call k

Each step: `restore()`, a memset of `flush_bytes` (it pushes what the last call left out of the L2 cache), start event, `call()`,
end event, `keep(result)`. Nothing waits for the device in between. The memset, and an idle kernel of some 150 microseconds after it, keep the device
busy while the host queues the call, so that launch latency is hidden and what is timed is work on the device; a call that
keeps the host busy for longer than that is timed with the rest of it.

Without a GPU (tests) the host's clock takes the place of the events. Needs torch and nothing else; not thread-safe.
"""

import contextlib
import time
import types

import torch

STABLE = 0.03          # a call is warm when the last three agree this well,
HEAD_START_CYCLES = 300_000   # of the idle kernel, in clock cycles of the device
RESOLUTION_MS = 0.002  # or to within what events resolve (about half a microsecond each)



def _bound(gpu):
    """Bound here: code that is timed later may replace attributes of torch.cuda."""
    return types.SimpleNamespace(Event=gpu.Event, synchronize=gpu.synchronize, stream=gpu.stream, sleep=getattr(gpu, "_sleep", None))


_GPUS = {name: _bound(getattr(torch, name)) for name in ("cuda", "musa") if hasattr(getattr(torch, name, None), "Event")}


class TimedLoop:
    """
    flush_bytes: size of the buffer that is overwritten before each call; 0 for none. Twice the L2 cache is sensible.
    stream: the torch.cuda.Stream on which everything is queued; None for the current one.
    device: torch.device; None for the GPU where there is one, else the host.
    internal: a function that makes a context around the loop's own work (restore, flush, keep), for a ledger that must not
        book it to the call.
    clock: seconds, for the first call and wherever there are no events.
    """

    def __init__(self, flush_bytes, stream=None, device=None, internal=contextlib.nullcontext, clock=time.perf_counter):
        self.device = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
        self.gpu = _GPUS.get(self.device.type)   # None: the host
        self.stream, self.internal, self.clock = stream, internal, clock
        with self.internal():
            self.buffer = torch.empty(max(0, int(flush_bytes)), dtype=torch.uint8, device=self.device)

    def _queue(self):
        return self.gpu.stream(self.stream) if self.gpu and self.stream is not None else contextlib.nullcontext()

    def wait(self):
        """Until the device has done all that was queued; errors of kernels surface here."""
        if self.gpu:
            self.gpu.synchronize(self.device)

    def _before(self, restore):
        with self.internal():
            if restore is not None:
                restore()
            if self.buffer.numel():
                self.buffer.zero_()
            if self.gpu and self.gpu.sleep:
                self.gpu.sleep(HEAD_START_CYCLES)

    def warm(self, call, cap_s, restore=None):
        """Calls until the last three times agree, or `cap_s` seconds have passed; at least once.

        Returns (milliseconds of the very first call on the host's clock, device included; number of calls).
        """
        began = self.clock()
        with self._queue():
            with self.internal():
                if restore is not None:
                    restore()
            self.wait()
            started = self.clock()
            call()
            self.wait()
            first_ms = (self.clock() - started) * 1e3
        times = []
        while self.clock() - began < cap_s and not self._stable(times):
            times += self.run([(restore, call, None)])
        return first_ms, 1 + len(times)

    @staticmethod
    def _stable(times):
        last = times[-3:]
        return len(last) == 3 and max(last) - min(last) <= max(STABLE * min(last), RESOLUTION_MS)

    def run(self, steps):
        """Milliseconds of each call. `steps`: list of (restore, call, keep); restore and keep may be None."""
        events = [(self.gpu.Event(enable_timing=True), self.gpu.Event(enable_timing=True)) for _ in steps] if self.gpu else []
        times = []
        with self._queue():
            for k, (restore, call, keep) in enumerate(steps):
                self._before(restore)
                if self.gpu:
                    events[k][0].record()
                    result = call()
                    events[k][1].record()
                else:
                    started = self.clock()
                    result = call()
                    times.append((self.clock() - started) * 1e3)
                if keep is not None:
                    with self.internal():
                        keep(result)
                del result
        self.wait()
        return [start.elapsed_time(end) for start, end in events] if self.gpu else times

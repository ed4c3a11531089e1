"""The one block of device memory that the candidate's process maps, and what lies where in it.

    plan = Plan()
    x = plan.add(tensor.nbytes, "input 0")       # Slot(offset, nbytes, label)
    arena.fit(plan.bytes)                         # grows on demand; a new generation has another handle
    arena.poison(plan)                            # guard zones and slots
    arena.view(x, torch.float32).copy_(…)
    arena.damage(plan)                            # "" or what lies where a guard zone was written to

The block comes from cudaMalloc itself, not from torch's allocator, so that its IPC handle (cudaIpcGetMemHandle) exports it
and nothing else. Every tensor begins at a multiple of 512 bytes and has a guard zone of at least 4 KiB on each side. Poison
is the 16-bit pattern 0x7FF5: NaN in float16, bfloat16, float32 and float64, and an unlikely integer.

A generation that was outgrown stays allocated until `sweep`: freeing memory that another process still maps is undefined.
"""

import ctypes
import mmap
import os

import gpu_vendor
import torch

from ..errors import TaskError

ALIGN = 512
GUARD = 4096
POISON = 0x7FF5
GRAIN = 2 << 20          # the arena's size is a multiple of this: whole pages of the device, one allocation a block
SLACK = 1 << 20          # room for moving everything by a multiple of ALIGN


class Slot:
    """`nbytes` at `offset` of the arena."""

    def __init__(self, offset, nbytes, label):
        self.offset, self.nbytes, self.label = offset, nbytes, label

    def node(self):
        return {"arena": self.offset, "nbytes": self.nbytes}


class Plan:
    """Where tensors lie, from `shift` bytes on. Guarded slots have a guard zone on both sides."""

    def __init__(self, shift=0):
        self.at = shift
        self.start = shift
        self.guards = []          # (begin, end, slot before or None, slot after or None)
        self.slots = []
        self._last = None         # the guarded slot before, while its guard is open

    def add(self, nbytes, label, guarded=True):
        begin = self.at
        if guarded:
            offset = _up(begin + GUARD)
            slot = Slot(offset, nbytes, label)
            self.guards.append((begin, offset, self._last, slot))
            self._last = slot
        else:
            self.close()
            offset = _up(self.at)
            slot = Slot(offset, nbytes, label)
        self.slots.append(slot)
        self.at = offset + nbytes
        return slot

    def close(self):
        """Ends the last guarded slot with its guard zone."""
        if self._last is not None:
            end = _up(self.at + GUARD)
            self.guards.append((self.at, end, self._last, None))
            self._last, self.at = None, end
        return self

    @property
    def bytes(self):
        """The arena's size for this plan, room for moving it included."""
        return _up(self.at + GUARD) - self.start + SLACK


def _up(n):
    return -(-n // ALIGN) * ALIGN


class _GpuBlock:
    """`nbytes` of cudaMalloc (or musaMalloc) on torch's device, as a uint8 tensor."""

    def __init__(self, nbytes, device):
        self.vendor = vendor = gpu_vendor.of(device)
        gpu = vendor.torch()
        gpu.init()
        self.device, self.nbytes = torch.device(vendor.type, gpu.current_device() if device.index is None else device.index), nbytes
        try:
            self.runtime = vendor.runtime()
        except OSError as error:
            raise TaskError("infra:device", str(error)) from None
        pointer = ctypes.c_void_p()
        with gpu.device(self.device):
            torch.zeros(1, device=self.device)         # the context is torch's
            code = vendor.call(self.runtime, "Malloc", ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        if code:
            vendor.call(self.runtime, "GetLastError")
            raise TaskError("infra:device_memory" if code == 2 else "infra:device",
                            f"{vendor.type}Malloc of {nbytes} bytes for the arena: {vendor.error_name(self.runtime, code)}")
        self.pointer = pointer.value
        handle = (ctypes.c_ubyte * 64)()
        code = vendor.call(self.runtime, "IpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(self.pointer))
        self.exported = {"handle": bytes(handle).hex()}
        if code:  # nobody can map it then, and the judge must know why
            vendor.call(self.runtime, "GetLastError")
            self.exported = {"handle": "", "handle_error": vendor.error_name(self.runtime, code)}
        self.data = self._view()
        if self.data.data_ptr() != self.pointer:
            raise TaskError("infra:device", "torch copied the arena instead of viewing it")

    def _view(self):
        if self.vendor.type != "cuda":   # torch's array interface is CUDA's; the shim wraps any device's memory
            return _shim(self.vendor).from_device(self.pointer, [self.nbytes], [1], torch.uint8)
        self.__cuda_array_interface__ = {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.pointer, False), "version": 2,
                                         "strides": None}
        return torch.as_tensor(self, device=self.device)

    def free(self):
        self.vendor.torch().synchronize(self.device)
        self.data = None
        self.vendor.call(self.runtime, "Free", ctypes.c_void_p(self.pointer))


def _shim(vendor):
    """torch.ops.musacoder over the vendor's device."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))   # not realpath: lib/ lies beside the link
    ctypes.CDLL(os.environ.get(vendor.shim_variable) or os.path.join(os.path.dirname(here), "lib", vendor.shim))
    return torch.ops.musacoder


class _HostBlock:
    """A file of the run folder, mapped: the arena where there is no GPU, for tests."""

    def __init__(self, nbytes, run_dir, generation):
        name = f"arena_{generation}.bin"
        self.path, self.nbytes = os.path.join(run_dir, name), nbytes
        with open(self.path, "w+b") as file:
            file.truncate(nbytes)
            self.map = mmap.mmap(file.fileno(), nbytes)
        self.data = torch.frombuffer(self.map, dtype=torch.uint8)
        self.exported = {"handle": "", "file": name}

    def free(self):
        self.data = None
        os.unlink(self.path)


class Arena:
    def __init__(self, device, run_dir):
        self.device, self.run_dir = torch.device(device), run_dir
        self.generation = 0
        self.block = None
        self.retired = []
        self.owner = None          # what was laid out last: only that can be compared
        self._pattern = None

    def fit(self, nbytes):
        """At least `nbytes`; growing replaces the block by a new generation. Errors: infra:device_memory."""
        if self.block is not None and self.block.nbytes >= nbytes:
            return
        self.owner = None
        if self.block is not None:
            # The one before last: whoever mapped it was ended before the last one was laid out.
            while len(self.retired) > 0:
                self.retired.pop(0).free()
            self.retired.append(self.block)
            self.block = None
        size = -(-nbytes // GRAIN) * GRAIN
        self.generation += 1
        if vendor := gpu_vendor.of(self.device):
            vendor.torch().empty_cache()
            self.block = _GpuBlock(size, self.device)
        else:
            self.block = _HostBlock(size, self.run_dir, self.generation)

    def sweep(self):
        """Frees outgrown generations. Only when no candidate's process is left that mapped them."""
        for block in self.retired:
            block.free()
        self.retired = []

    def drop(self):
        """Frees everything, the present generation too."""
        self.owner = None
        if self.block is not None:
            self.retired.append(self.block)
            self.block = None
        self.sweep()

    def node(self):
        return {"id": self.generation, "bytes": self.block.nbytes, **self.block.exported}

    def held(self):
        return sum(b.nbytes for b in (*self.retired, *([self.block] if self.block is not None else [])))

    # ---- bytes ----

    def range(self, begin, end):
        return self.block.data[begin:end]

    def view(self, slot, dtype):
        """The slot as a flat tensor."""
        return self.range(slot.offset, slot.offset + slot.nbytes).view(dtype)

    def pattern(self, begin, count):
        """`count` bytes of poison as they lie from `begin` on; at most a few guard zones long."""
        if self._pattern is None or self._pattern.numel() < count + 2:
            longest = max(2 * (GUARD + ALIGN), count + 2)
            self._pattern = torch.full((longest // 2 + 1,), POISON, dtype=torch.int16, device=self.device).view(torch.uint8)
        return self._pattern[begin % 2:begin % 2 + count]

    def poison(self, plan, slots=()):
        """Fills the plan's guard zones, and the slots named."""
        for begin, end, _, _ in plan.guards:
            self.range(begin, end).copy_(self.pattern(begin, end - begin))
        for slot in slots:
            data = self.range(slot.offset, slot.offset + slot.nbytes)
            whole = slot.nbytes // 2 * 2
            data[:whole].view(torch.int16).fill_(POISON)
            data[whole:].copy_(self.pattern(slot.offset + whole, slot.nbytes - whole))

    def damage(self, plan):
        """An empty string, or a sentence about the first guard zone that is no longer poison. Waits for the device once."""
        if not plan.guards:
            return ""
        changed = torch.stack([(self.range(b, e) != self.pattern(b, e - b)).any() for b, e, _, _ in plan.guards]).tolist()
        for (begin, end, before, after), touched in zip(plan.guards, changed, strict=True):
            if not touched:
                continue
            places = (self.range(begin, end) != self.pattern(begin, end - begin)).nonzero().reshape(-1)
            first, last = int(places[0]), end - begin - 1 - int(places[-1])
            if before is not None and (after is None or first <= last):
                return (f"memory past the end of {before.label} was written to: the first changed byte lies {first} bytes past it "
                        f"({places.numel()} bytes changed)")
            return (f"memory before the start of {after.label} was written to: the nearest changed byte lies {last + 1} bytes before "
                    f"it ({places.numel()} bytes changed)")
        return ""

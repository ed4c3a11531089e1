"""The reference runner as its client sees it, and the candidate's side of its device mode played by the client itself.

Used by tests and by bench/task/device_reference.py; needs torch, not pytest.
"""

import ctypes
import json
import mmap
import os
import pathlib
import socket
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runtime" / "python"))

import gpu_vendor  # noqa: E402
from musaref.tree import DTYPES, dtype_name  # noqa: E402


class Runner:
    """The real process behind its socket. `ask(op=…)` → the reply, a dict."""

    def __init__(self, run_dir, timeout_s=120):
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen([sys.executable, str(ROOT / "runtime" / "python" / "reference_runner.py"), "--fd",
                                         str(theirs.fileno()), "--run-dir", str(run_dir)], pass_fds=[theirs.fileno()],
                                        stdout=subprocess.PIPE)
        theirs.close()
        ours.settimeout(timeout_s)
        self.file = ours.makefile("rwb")

    def ask(self, **request):
        self.file.write(json.dumps(request).encode() + b"\n")
        self.file.flush()
        return json.loads(self.file.readline())

    def end(self):
        self.file.close()
        out, _ = self.process.communicate(timeout=30)
        return out


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class _Mapped:
    """Another process's device memory (cudaIpcOpenMemHandle) as a uint8 tensor."""

    def __init__(self, node, device):
        torch.zeros(1, device=device)
        self.runtime = gpu_vendor.CUDA.runtime()
        handle = _Handle.from_buffer_copy(bytes.fromhex(node["handle"]))
        pointer = ctypes.c_void_p()
        self.runtime.cudaIpcOpenMemHandle.argtypes = [ctypes.POINTER(ctypes.c_void_p), _Handle, ctypes.c_uint]
        code = self.runtime.cudaIpcOpenMemHandle(ctypes.byref(pointer), handle, 1)
        if code:
            raise RuntimeError(f"cudaIpcOpenMemHandle: {gpu_vendor.CUDA.error_name(self.runtime, code)} {node.get('handle_error', '')}")
        self.pointer = pointer.value
        self.__cuda_array_interface__ = {"shape": (node["bytes"],), "typestr": "|u1", "data": (self.pointer, False), "version": 2,
                                         "strides": None}
        self.data = torch.as_tensor(self, device=device)

    def close(self):
        self.data = None
        self.runtime.cudaIpcCloseMemHandle(ctypes.c_void_p(self.pointer))


class DeviceJudge:
    """Asks the runner in device mode ("host" or "cuda") and plays the candidate's process.

        judge = DeviceJudge(run_dir)
        handle = judge.open(code)["handle"]
        judge.trial(handle, index=0, seed=1, candidate=torch.relu)["pass"]
    """

    def __init__(self, run_dir, device="host", timeout_s=120):
        self.run_dir, self.mode = str(run_dir), device
        self.device = torch.device("cpu" if device == "host" else device)
        self.runner = Runner(run_dir, timeout_s)
        self.maps = {}

    def ask(self, **request):
        return self.runner.ask(**request)

    def good(self, **request):
        reply = self.ask(**request)
        assert reply["ok"], reply
        return reply

    def open(self, code, **more):
        return self.good(op="open", task="t", code=code, device=self.mode, **more)

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def arena(self, node):
        """All bytes of the arena; generations stay mapped until `end`."""
        if node["id"] not in self.maps:
            if self.device.type == "cuda":
                self.maps[node["id"]] = _Mapped(node, self.device)
            else:
                with open(os.path.join(self.run_dir, node["file"]), "r+b") as file:
                    self.maps[node["id"]] = torch.frombuffer(mmap.mmap(file.fileno(), node["bytes"]), dtype=torch.uint8)
        found = self.maps[node["id"]]
        return found if isinstance(found, torch.Tensor) else found.data

    def value(self, node, arena):
        """The value of a tree; its tensors are views of the arena."""
        kind = node["t"]
        if kind == "tensor":
            data = arena[node["arena"]:node["arena"] + node["nbytes"]].view(DTYPES[node["dtype"]])
            return data.as_strided(node["shape"], node["strides"])
        if kind in ("list", "tuple"):
            return [self.value(item, arena) for item in node["items"]]
        if kind == "dict":
            return {k: self.value(item, arena) for k, item in zip(node["keys"], node["items"], strict=True)}
        return node.get("v")

    def claims(self, outputs, slots, arena):
        """Copies outputs to their slots and tells so; what does not fit gets no slot."""
        count = iter(range(len(slots)))

        def claim(value):
            if isinstance(value, torch.Tensor):
                node = {"t": "tensor", "dtype": dtype_name(value.dtype), "shape": list(value.shape), "strides": list(value.stride()),
                        "device": "cuda"}
                at = next(count, None)
                if at is not None and value.numel() * value.element_size() == slots[at]["nbytes"]:
                    begin = slots[at]["arena"]
                    arena[begin:begin + slots[at]["nbytes"]].copy_(value.detach().contiguous().reshape(-1).view(torch.uint8))
                    node["slot"] = at
                return node
            if isinstance(value, (list, tuple)):
                return {"t": "tuple" if isinstance(value, tuple) else "list", "items": [claim(v) for v in value]}
            if isinstance(value, dict):
                return {"t": "dict", "keys": list(value), "items": [claim(v) for v in value.values()]}
            if value is None:
                return {"t": "none"}
            return {"t": type(value).__name__, "v": value}
        tree = claim(outputs)
        self.synchronize()
        return tree

    def trial(self, handle, index, seed, candidate, spoil=None, **more):
        """The reply to `compare` for what the candidate makes of the trial's inputs; None when the trial is skipped."""
        trial = self.good(op="trial", handle=handle, index=index, seed=seed, **more)
        if trial["skipped"]:
            return None
        arena = self.arena(trial["arena"])
        inputs = self.value(trial["inputs"], arena)
        with torch.no_grad():
            outputs = candidate(*inputs)
        tree = self.claims(outputs, trial["outputs"], arena)
        if spoil is not None:
            spoil(trial, arena, tree)
        return self.good(op="compare", handle=handle, index=index, outputs=tree)

    def timed(self, handle, candidate, calls=4, seed=7, spoil=None, **more):
        """(the reply to `compare_timed`, the reply to `timed`) for candidate(k, *inputs) → outputs of call k."""
        timed = self.good(op="timed", handle=handle, calls=calls, seed=seed, **more)
        arena = self.arena(timed["arena"])
        place = self.value(timed["place"], arena)
        claims = []
        for k in range(calls):
            self._copy(timed["sets"][k % len(timed["sets"])], timed["place"], arena)
            with torch.no_grad():
                claims.append(self.claims(candidate(k, *place), timed["outputs"][k], arena))
        if spoil is not None:
            spoil(timed, arena, claims)
        return self.good(op="compare_timed", handle=handle, claims=claims), timed

    def _copy(self, source, target, arena):
        if source["t"] == "tensor":
            n = source["nbytes"]
            arena[target["arena"]:target["arena"] + n].copy_(arena[source["arena"]:source["arena"] + n])
        for a, b in zip(source.get("items", ()), target.get("items", ()), strict=True):
            self._copy(a, b, arena)

    def end(self):
        """What the runner's process printed, which should be nothing."""
        for mapped in self.maps.values():
            if isinstance(mapped, _Mapped):
                mapped.close()
        self.maps.clear()
        return self.runner.end()

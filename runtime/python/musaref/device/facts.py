"""What the device is: the `device` block of docs/protocols.md §2, and its free memory."""

import os
import re

import gpu_vendor
import torch


def driver_version():
    """"580.95.05" as the kernel module tells it, else the driver's CUDA version ("13.0"), else an empty string."""
    try:
        with open("/proc/driver/nvidia/version") as file:
            found = re.search(r"(?:Kernel Module|NVRM version)\D*?(?:x86_64|aarch64)?\D*?(\d+\.\d+(?:\.\d+)?)", file.read())
        if found:
            return found.group(1)
    except OSError:
        pass
    try:
        version = torch._C._cuda_getDriverVersion()
    except (AttributeError, RuntimeError):
        return ""
    return f"{version // 1000}.{version % 1000 // 10}"


def describe(device):
    """`name`, `uuid`, `driver`, `capability`, `memory_bytes`, `l2_bytes`, `sms`, `torch`, `cuda`."""
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda or ""}
    vendor = gpu_vendor.of(torch.device(device))
    if vendor is None:
        return {"name": "host", "uuid": "", "driver": "", "capability": "0.0", "memory_bytes": total_bytes(device), "l2_bytes": 0,
                "sms": torch.get_num_threads(), **versions}
    if vendor.type == "musa":
        versions["cuda"] = f"MUSA {getattr(torch.version, 'musa', None) or ''}".strip()
    facts = vendor.torch().get_device_properties(device)
    return {"name": facts.name, "uuid": str(getattr(facts, "uuid", "")), "driver": driver_version(),
            "capability": f"{facts.major}.{facts.minor}", "memory_bytes": facts.total_memory,
            "l2_bytes": int(getattr(facts, "L2_cache_size", 0)), "bytes_per_s": _bandwidth(facts), "sms": facts.multi_processor_count,
            "max_hz": 1e3 * getattr(facts, "clock_rate", 0), **versions}


def _bandwidth(facts):
    """Peak bytes a second of the memory: twice its clock (in kHz) times the width of its bus (in bits); 0 where unknown."""
    return 2e3 * getattr(facts, "memory_clock_rate", 0) * getattr(facts, "memory_bus_width", 0) / 8


def total_bytes(device):
    if vendor := gpu_vendor.of(torch.device(device)):
        return vendor.torch().get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_bytes(device):
    """What can still be allocated: free on the device, and what torch's allocator holds without using it."""
    if vendor := gpu_vendor.of(torch.device(device)):
        gpu = vendor.torch()
        free, _ = gpu.mem_get_info(device)
        return free + gpu.memory_reserved(device) - gpu.memory_allocated(device)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

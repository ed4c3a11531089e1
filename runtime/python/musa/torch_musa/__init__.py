"""torch_musa for candidates in the MUSA dialect on the virtual GPU: the vendor's names over torch_device.

Only on the path of runner processes of that dialect. On a real Moore Threads GPU the vendor's own package is used.
"""

import torch

__version__ = "2.7.1"

for _name in ("is_available", "device_count", "current_device", "set_device", "synchronize", "get_device_name",
              "get_device_properties", "get_device_capability", "can_device_access_peer", "current_stream", "default_stream",
              "set_stream", "stream", "Stream", "ExternalStream", "Event", "device", "device_of", "empty_cache",
              "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "mem_get_info",
              "manual_seed", "manual_seed_all", "initial_seed", "get_rng_state", "set_rng_state", "is_bf16_supported"):
    globals()[_name] = getattr(torch.musa, _name)

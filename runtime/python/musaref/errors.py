"""Failures that have a name: every one ends as `invalid_task:<why>` or `infra:<why>` in a reply."""

import errno
import traceback


class TaskError(Exception):
    """The task is at fault (or, with an `infra:` status, the runner's surroundings)."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


class TaskTimeout(BaseException):
    """Raised by the alarm. Derives from BaseException so that `except Exception` in task code lets it through."""


class NetworkRefused(OSError):
    """Task code tried to open a network connection."""


_UNAVAILABLE = {
    "NetworkRefused", "URLError", "HTTPError", "ConnectionError", "LocalEntryNotFoundError", "OfflineModeIsEnabled",
    "RepositoryNotFoundError", "MaxRetryError", "ConnectTimeout", "gaierror",
}
_DEVICE_MEMORY = ("CUDA out of memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
                  "CUFFT_ALLOC_FAILED")
_DEVICE = ("CUDA error", "CUDNN_STATUS_EXECUTION_FAILED")
_REFUSED_BY_LIBRARY = ("CUBLAS_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_INVALID_VALUE", "CUBLAS_STATUS_ARCH_MISMATCH")
_MEMORY = ("can't allocate memory", "not enough memory", "Cannot allocate memory", "Storage size calculation overflowed")


def _chain(error):
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def where(error):
    """`line 12 in forward` of the innermost task frame, or an empty string."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<task"):
            return f"line {frame.lineno} in {frame.name}"
    return ""


def device_fault(error):
    """`infra:device_memory` or `infra:device` for what torch raises when a GPU is full or its context is dead, else ""."""
    text = str(error) if isinstance(error, RuntimeError) else ""
    if type(error).__name__ == "OutOfMemoryError" or any(m in text for m in _DEVICE_MEMORY):
        return "infra:device_memory"
    if type(error).__name__ == "AcceleratorError" or (any(m in text for m in _DEVICE) and
                                                      not any(m in text for m in _REFUSED_BY_LIBRARY)):
        return "infra:device"
    return ""


def classify(error, stage):
    """A TaskError for whatever task code raised at `stage` (load, get_inputs, __init__, forward, …)."""
    if isinstance(error, TaskError):
        return error
    if isinstance(error, TaskTimeout):
        return TaskError("invalid_task:timeout", f"{stage} took longer than {error.args[0]:g} s")
    place = where(error)
    text = f"{type(error).__name__}: {str(error).strip()[:1500]}" if str(error) else type(error).__name__
    message = f"{stage}: {text}" + (f" ({place})" if place else "")
    for link in _chain(error):
        fault = device_fault(link)
        if fault:
            return TaskError(fault, message)
    for link in _chain(error):
        if type(link).__name__ in _UNAVAILABLE or any(k.__name__ in _UNAVAILABLE for k in type(link).__mro__):
            return TaskError("invalid_task:unavailable", f"the task needs the network: {message}")
    for link in _chain(error):
        if isinstance(link, ModuleNotFoundError):
            return TaskError("invalid_task:missing_module", f"the task needs the Python module '{link.name}': {message}")
    if isinstance(error, (MemoryError, RecursionError)) or any(m in str(error) for m in _MEMORY):
        kind = "memory" if not isinstance(error, RecursionError) else "exception"
        return TaskError(f"invalid_task:{kind}", message)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and not place:
        return TaskError("infra:disk", message)
    if isinstance(error, SyntaxError) and stage == "load":
        return TaskError("invalid_task:syntax", f"{message} at line {error.lineno}")
    return TaskError("invalid_task:exception", message)

"""Exceptions of a candidate -> the protocol's exception event. Survives hostile exceptions (`__str__` that raises, …)."""

import os
import traceback as _traceback

_RUNTIME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
MAX_MESSAGE = 16 << 10
MAX_TRACEBACK = 32 << 10
_TracebackException = _traceback.TracebackException
_extract = _traceback.extract_tb
_format = _traceback.format_list


def _clip(text, limit):
    return text if len(text) <= limit else text[:limit // 2] + "\n[…]\n" + text[-limit // 2:]


def _printable(text):
    return text.encode("utf-8", "replace").decode("utf-8")


def message_of(error):
    try:
        return _clip(_printable(str(error)), MAX_MESSAGE)
    except BaseException as other:  # noqa: BLE001  the candidate owns __str__
        return f"(its message cannot be shown: {type(other).__name__})"


def describe(error, filename):
    """type, message, traceback (from the candidate's first frame, without frames of this runtime), line (innermost line in
    `filename` or None)."""
    line = None
    try:
        frames = [frame for frame in _extract(error.__traceback__, limit=-64) if not frame.filename.startswith(_RUNTIME)]
        lines = [i for i, frame in enumerate(frames) if frame.filename == filename]
        if lines:
            line = frames[lines[-1]].lineno
        frames = frames[lines[0]:] if lines else []
        if isinstance(error, SyntaxError) and error.filename == filename:
            line = error.lineno
        text = "".join(_format(frames)) + "".join(
            _TracebackException(type(error), error, None, lookup_lines=False).format_exception_only())
    except BaseException as other:  # noqa: BLE001
        text = f"(the traceback cannot be shown: {type(other).__name__})"
    name = getattr(type(error), "__name__", "Exception")
    return {"type": _printable(str(name))[:200], "message": message_of(error),
            "traceback": _clip(_printable(text), MAX_TRACEBACK), "line": line}

"""One JSON object a line over a socket.

The functions that the channel needs are looked up once, at import: code of a candidate that later replaces attributes of
`json` or `socket` changes nothing here.
"""

import json

MAX_OUT = 4 << 20    # one line to the judge, docs/protocols.md
MAX_IN = 64 << 20    # one line from the judge: candidate sources and trees

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


class TooLong(ValueError):
    """A message is longer than a line of the protocol may be."""


class Channel:
    """send(dict) and receive() -> dict, or None at the end of the stream. Not thread safe."""

    def __init__(self, sock):
        self._send = sock.sendall
        self._recv = sock.recv
        self._fileno = sock.fileno
        self._buffer = bytearray()

    def fileno(self):
        return self._fileno()

    def send(self, message, limit=MAX_OUT):
        line = _encode(message).encode("ascii") + b"\n"
        if len(line) > limit:
            raise TooLong(f"a message of {len(line)} bytes is over the limit of {limit}")
        self._send(line)

    def receive(self):
        start = 0
        while True:
            end = self._buffer.find(b"\n", start)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[:end + 1]
                return _decode(line.decode("utf-8"))
            start = len(self._buffer)
            if start > MAX_IN:
                raise TooLong(f"a request is over the limit of {MAX_IN} bytes")
            chunk = self._recv(1 << 20)
            if not chunk:
                return None
            self._buffer += chunk

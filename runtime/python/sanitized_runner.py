"""One candidate's process below compute-sanitizer: what the zygote executes in place of running the candidate itself.

    compute-sanitizer … python3 -I sanitized_runner.py --fd N --request '{"writable": …}'

The zygote has confined the process already; this imports torch anew, since the sanitizer must be there before CUDA is, and then
speaks the same protocol on the same socket as every candidate's process (docs/protocols.md, section 3).
"""

import argparse
import json
import os
import socket
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="socket of the judge")
    parser.add_argument("--request", required=True, help="the spawn request, as JSON")
    parser.add_argument("--path", action="append", default=[], help="folder to import from, first")
    arguments = parser.parse_args()
    sys.path.insert(0, _HERE)
    for path in arguments.path[::-1]:
        sys.path.insert(0, path)
    sock = socket.socket(fileno=arguments.fd)
    sock.set_inheritable(False)

    import torch
    import torch.utils.cpp_extension  # noqa: F401
    torch.set_num_threads(1)
    import torch_sanitized
    from musarun import extensions, runner
    extensions.install()
    torch_sanitized.install()
    runner.run_candidate(sock, -1, json.loads(arguments.request), torch_sanitized)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)

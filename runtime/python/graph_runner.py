#!/usr/bin/env python3
"""Looks at task files and users' modules for the data factory: JSON lines on --fd, one request, one reply (docs/data.md).

    {"op": "graph", "code": "…"}     → {"ok": true, "hash", "family", "ops", "shapes", "hint", "nodes"}
    {"op": "cases", "code": "…"}     → {"ok": true, "cases": […], "dropped": […]}
    {"op": "harvest", "code": "…"}   → {"ok": true, "tasks": [{"name", "code"}], "dropped": [{"name", "reason"}]}

What it executes was written by others: the caller starts it in the sandbox (src/synth/pipeline/graph_worker.h).
"""

import argparse
import json
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def graph(request):
    from musagraph.canonical import canonical_hash
    from musagraph.describe import family_of, hint, shape_information
    from musagraph.trace import trace_task
    found = trace_task(request["code"], bool(request.get("symbols", True)))
    return {"hash": canonical_hash(found), "family": family_of(found), "ops": sorted(found["ops"]), "shapes": shape_information(found), "hint": hint(found),
            "nodes": len(found["nodes"])}


def cases(request):
    from musagraph.cases import propose
    return propose(request["code"], int(request.get("seed", 0)))


def harvest(request):
    from musagraph.harvest import harvest as tasks_of
    return tasks_of(request["code"], request.get("path", "module.py"))


def answer(line):
    from musaref.server import alarm
    try:
        request = json.loads(line)
        with alarm(float(request.get("timeout_s") or 60)):
            return {"ok": True, **{"graph": graph, "cases": cases, "harvest": harvest}[request["op"]](request)}
    except BaseException as error:  # noqa: BLE001  task code may raise anything; the loop goes on
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"ok": False, "error": type(error).__name__, "message": str(error)[:500]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    fd = parser.parse_args().fd
    os.set_inheritable(fd, False)
    import torch
    torch.set_num_threads(1)
    channel = socket.socket(fileno=fd)
    reader = channel.makefile("rb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    for line in reader:
        channel.sendall(json.dumps(answer(line)).encode() + b"\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What does it cost to verify every timed call?

    python3 bench/cuda/verification_cost.py verdicts.jsonl … --out cost.json
    python3 bench/cuda/verification_cost.py --rows rows.jsonl --budget 60      # judges them first

From verdicts with measured time. Of a timed call the verdict has: the candidate's own time, `outer_ms` (a call and all that lies
beside it in the hand-over: inputs and state put in place, the cache flushed, the outputs copied away; the unverified time) and
`verify_ms` (comparing its outputs with the reference's, which includes computing those). The cost is verify_ms / outer_ms, by
decade of the candidate's time, and beside it the share that all timed calls' comparing has in the verdict's seconds of the GPU.
That every call has inputs of its own costs too (making them, before the hand-over); it is in neither figure.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

import common

DECADES = [("≥ 10 ms", 10, float("inf")), ("1 – 10 ms", 1, 10), ("100 µs – 1 ms", 0.1, 1), ("10 – 100 µs", 0.01, 0.1), ("< 10 µs", 0, 0.01)]
LANE_STAGES = ("reference", "run", "compare", "time")


def cost_of(verdict):
    """The figures of one verdict; None where no time was measured."""
    timing = verdict.get("timing") or {}
    if not timing.get("measured") or not timing.get("outer_ms") or not timing.get("verified_calls"):
        return None
    lane = sum(verdict.get("seconds", {}).get(stage, 0.0) for stage in LANE_STAGES)
    verifying = timing["verify_ms"] * timing["verified_calls"] / 1e3
    return {"task": verdict.get("task_id") or verdict.get("task"), "name": verdict.get("name", ""), "candidate_ms": timing["candidate"]["median"],
            "outer_ms": timing["outer_ms"], "verify_ms": timing["verify_ms"], "share": timing["verify_ms"] / timing["outer_ms"],
            "verified_calls": timing["verified_calls"], "verify_s": verifying, "lane_s": lane, "lane_share": verifying / lane if lane else None}


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def summarize(costs):
    lines = []
    for name, low, high in [("all", 0, float("inf")), *DECADES]:
        some = [c for c in costs if low <= c["candidate_ms"] < high]
        if some:
            shares, lanes = [c["share"] for c in some], [c["lane_share"] for c in some if c["lane_share"] is not None]
            lines.append({"candidate": name, "verdicts": len(some), "outer_ms": statistics.median(c["outer_ms"] for c in some),
                          "verify_ms": statistics.median(c["verify_ms"] for c in some), "share_median": statistics.median(shares),
                          "share_p90": quantile(shares, 0.9), "share_of_sums": sum(c["verify_ms"] for c in some) / sum(c["outer_ms"] for c in some),
                          "lane_share_median": statistics.median(lanes) if lanes else None})
    return lines


def percent(value):
    return None if value is None else f"{100 * value:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_program_options(parser)
    parser.add_argument("verdicts", nargs="*", help="files of verdicts")
    parser.add_argument("--rows", help="judge these instead")
    parser.add_argument("--timed-calls", type=int, default=50)
    parser.add_argument("--budget", type=float, default=60, help="seconds for judging --rows")
    parser.add_argument("--out", help="JSON with everything")
    options = parser.parse_args()
    if bool(options.rows) == bool(options.verdicts):
        parser.error("give files of verdicts, or --rows")
    verdicts = [verdict for path in options.verdicts for verdict in common.read_jsonl(path)]
    if options.rows:
        with tempfile.TemporaryDirectory(prefix="cost-") as folder:
            batch = common.Batch(options.musacoder, common.read_jsonl(options.rows), pathlib.Path(folder),
                                 ["--baselines", "none", "--timed-calls", str(options.timed_calls)], options.lanes, options.backend)
            verdicts, run = batch.judge(options.budget)
            common.say(f"{len(verdicts)} verdicts in {run['seconds']:.1f} s{', cut at the time limit' if run['cut'] else ''}")
    costs = [cost for cost in map(cost_of, verdicts) if cost]
    if not costs:
        common.say(f"none of {len(verdicts)} verdicts has a measured time")
        return 1
    lines = summarize(costs)
    common.say(f"{len(costs)} of {len(verdicts)} verdicts have a measured time; medians, milliseconds a call\n")
    common.table(["candidate", "verdicts", "outer ms", "verify ms", "verify / outer, %", "p90, %", "of the sums, %", "of the GPU's time for a verdict, %"],
                 [(line["candidate"], line["verdicts"], f"{line['outer_ms']:.3f}", f"{line['verify_ms']:.3f}", percent(line["share_median"]),
                   percent(line["share_p90"]), percent(line["share_of_sums"]), percent(line["lane_share_median"])) for line in lines])
    common.write_json(options.out, {"program": "verification_cost.py", "gpu": common.gpu_name(), "summary": lines, "verdicts": costs})
    return 0


if __name__ == "__main__":
    sys.exit(main())

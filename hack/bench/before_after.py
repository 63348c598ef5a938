#!/usr/bin/env python3
"""Plan the same inputs with two builds of berth, one after the other in one run, and print ratios.

usage: before_after.py BEFORE AFTER FOLDER [--runs N] [--effort low,default,high] [--only NAME,NAME] [--limit SECONDS]

BEFORE and AFTER are programs. FOLDER has an input NAME.json and its catalogue NAME-types.json for each case, as
`different.py`, `deployments.py` and `karpenter_mix.go` write them. Of N runs of each (taken in turns, so that a busy machine
is busy for both) the least CPU seconds of the whole process and the least peak of memory count. The exit code is 1 where
a case is dearer, leaves more pods out, or takes more than 1.1 times the seconds; seconds below 0.2 are too few to tell.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SLOWER, TOO_FEW = 1.1, 0.2
SUMMARY = "import json, sys; print(json.dumps(json.load(sys.stdin)['summary']))"


def plan(binary, case, effort, limit):
    """The summary of a plan, CPU seconds and peak MiB; nothing where it takes too long, or is none."""
    types = case.with_name(f"{case.stem}-types.json")
    command = [binary, "plan", "-f", case, "--instance-types", types, "--effort", effort, "-o", "json"]
    with tempfile.TemporaryFile() as out:
        # Seconds of CPU, so that others on the machine do not stop what is measured.
        child = subprocess.Popen(["prlimit", f"--cpu={limit}", *command], stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):
            return None
        out.seek(0)
        # A child begins with the peak of its parent, so whole plans are read elsewhere.
        summary = subprocess.run([sys.executable, "-c", SUMMARY], stdin=out, capture_output=True, check=True).stdout
        return json.loads(summary), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def best(runs):
    runs = [run for run in runs if run]
    return (runs[0][0], min(run[1] for run in runs), min(run[2] for run in runs)) if runs else None


def is_worse(before, after):
    (was, seconds, _), (now, seconds_now, _) = before, after
    if now["unschedulable"] != was["unschedulable"]:
        return now["unschedulable"] > was["unschedulable"]
    is_dearer = now["hourlyCost"] > was["hourlyCost"] * (1 + 1e-9)
    return is_dearer or (seconds_now > TOO_FEW and seconds_now > seconds * SLOWER)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--effort", default="low,default,high")
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=int, default=120, help="CPU seconds of one plan")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    cases = [case for case in sorted(options.folder.glob("*.json")) if case.with_name(f"{case.stem}-types.json").exists()]
    cases = [case for case in cases if not only or case.stem in only]
    if not cases:
        sys.exit(f"no NAME.json beside a NAME-types.json in {options.folder}")
    print("| case | before s | after s | ratio | before MiB | after MiB | ratio | before $/h | after $/h | ratio | |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    worse = 0
    for case in cases:
        for effort in options.effort.split(","):
            runs = [[], []]
            for _ in range(options.runs):
                for at, binary in enumerate((options.before, options.after)):
                    runs[at].append(plan(binary, case, effort, options.limit))
            before, after = map(best, runs)
            name = f"{case.stem}, {effort}"
            if not before or not after:
                which = " and ".join(name for name, of in (("before", before), ("after", after)) if not of)
                print(f"| {name} | | | | | | | | | | no plan {which} |", flush=True)
                worse += not after
                continue
            is_bad = is_worse(before, after)
            worse += is_bad
            (was, s, mib), (now, s_now, mib_now) = before, after
            cost, cost_now = was["hourlyCost"], now["hourlyCost"]
            of_cost = cost_now / cost if cost else 1
            print(
                f"| {name} | {s:.3f} | {s_now:.3f} | {s_now / max(s, 0.001):.2f} | {mib:.0f} | {mib_now:.0f} "
                f"| {mib_now / mib:.2f} | {cost:,.4f} | {cost_now:,.4f} | {of_cost:.4f} | {'worse' if is_bad else ''} |",
                flush=True,
            )
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Run Berth and Karpenter's scheduler on the same input files and print them side by side as a Markdown table.

usage: compare.py [options] NAME=TYPES,FILE[,FILE...] ...

Each case names an instance catalogue and one or more manifest files. A run is a process of its own; its peak memory is
that of the process, its wall time includes start, reading and printing. "Solve" is what each planner says of itself:
Berth from the parsed input to the finished plan, Karpenter NewTopology, NewScheduler and every Solve, loops included.
"CPU s" are Karpenter's of user and system time for that, over all its threads, and the collector's; Berth solves on one
thread with `--effort low` and `default`, so that its seconds are at least its CPU time.
Every run uses the whole machine unless it limits itself, so nothing runs in parallel.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ["case", "planner", "solve s", "CPU s", "process s", "pods/s", "speed", "CPU", "placed", "left", "nodes", "$/h", "over bound",
           "slots used", "peak MiB"]
# What each --karpenter-mode adds to the command line, and how the table calls it.
KARPENTER_MODES = {
    "strict": ("Karpenter, one Solve", ["--mode", "oneshot", "--reserved", "strict"]),
    "fallback": ("Karpenter, one Solve, fallback", ["--mode", "oneshot", "--reserved", "fallback"]),
    "loops": ("Karpenter, strict loops", ["--mode", "strict-loops"]),
}


def run(command):
    """Run to the end; return (exit code, standard output, wall seconds, peak bytes of that process)."""
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return child.returncode, out.read(), wall, peak


def inputs(case):
    flags = ["--instance-types", case["types"]]
    for path in case["files"]:
        flags += ["-f", path]
    return flags


def measure(command, read):
    """One row; exit codes 0 and 1 carry a plan, any other is reported as it is."""
    code, out, wall, peak = run(command)
    row = {"process": wall, "peak": peak, "exit": code}
    if code in (0, 1):
        row.update(read(json.loads(out)))
    return row


def read_karpenter(plan):
    slots = plan["reservedSlots"]
    return {"solve": plan["seconds"]["total"], "cpu": plan["seconds"]["cpu"], "pods": plan["pods"], "placed": plan["placed"], "nodes": plan["nodeClaims"],
            "cost": plan["hourlyCost"], "used": slots["used"], "slots": slots["total"], "finished": plan["finished"],
            "loops": plan["loops"]}


def read_berth(plan):
    s = plan["summary"]
    slots = s["reservedSlots"]
    return {"solve": s["solveSeconds"], "cpu": s["solveSeconds"], "pods": s["pods"], "placed": s["placed"], "nodes": s["nodeClaims"],
            "cost": s["hourlyCost"], "used": slots["used"], "slots": slots["total"], "finished": True}


def best_of(count, command, read):
    """The fastest of several runs; memory is the highest."""
    rows = [measure(command, read) for _ in range(count)]
    best = min(rows, key=lambda r: r.get("solve") or r["process"])
    best["peak"] = max(r["peak"] for r in rows)
    return best


def bound_of(case, script):
    """The last number that the script prints for TYPES and FILE."""
    out = subprocess.run([sys.executable, script, case["types"], case["files"][0]], capture_output=True, text=True, check=True).stdout
    numbers = []
    for word in out.replace(",", " ").split():
        try:
            numbers.append(float(word))
        except ValueError:
            continue
    return numbers[-1] if numbers else None


def seconds(value):
    return "" if value is None else f"{value:,.4f}" if value < 1 else f"{value:,.1f}"


def cells(name, planner, row, baseline, bound):
    if "pods" not in row:
        return [name, planner, f"failed, exit {row['exit']}"] + [""] * 11 + [f"{row['peak'] / 2**20:,.0f}"]
    solve = row["solve"]
    rate = row["placed"] / solve if solve else None
    base = baseline["placed"] / baseline["solve"] if baseline and baseline.get("solve") else None
    cpu = row["cpu"] / row["placed"] if row["placed"] else None
    base_cpu = baseline["cpu"] / baseline["placed"] if baseline and baseline.get("placed") else None
    if not row["finished"]:
        planner += " (stopped)"
    if row.get("loops", 1) > 1:
        planner += f", {row['loops']} loops"
    return [
        name, planner,
        seconds(solve), seconds(row["cpu"]),
        f"{row['process']:,.2f}",
        "" if rate is None else f"{rate:,.0f}",
        "" if rate is None or base is None else f"{rate / base:,.4g}x",
        "" if not cpu or base_cpu is None else f"{base_cpu / cpu:,.4g}x less",
        f"{row['placed']:,}", f"{row['pods'] - row['placed']:,}", f"{row['nodes']:,}", f"{row['cost']:,.2f}",
        "" if not bound or row["placed"] < row["pods"] else f"{row['cost'] / bound:.3f}",
        f"{row['used']} of {row['slots']}" if row["slots"] else "",
        f"{row['peak'] / 2**20:,.0f}",
    ]


def build_karpenter(directory):
    binary = os.path.join(directory, "compare")
    subprocess.run(["go", "build", "-o", binary, "."], cwd=HERE, check=True)
    return binary


def parse_case(text):
    name, _, rest = text.partition("=")
    types, *files = rest.split(",")
    if not name or not files:
        raise argparse.ArgumentTypeError(f"expected NAME=TYPES,FILE, found {text!r}")
    return {"name": name, "types": types, "files": files}


def parse_bound(text):
    name, _, value = text.rpartition("=")
    return name, float(value)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases", nargs="+", type=parse_case, metavar="NAME=TYPES,FILE")
    ap.add_argument("--berth", default=os.path.join(HERE, "..", "..", "target", "release", "berth"), help="the release binary")
    ap.add_argument("--effort", action="append", help="of Berth; may be repeated (default: low and default)")
    ap.add_argument("--karpenter", help="this folder's program; built when not given")
    ap.add_argument("--karpenter-mode", action="append", choices=[*KARPENTER_MODES, "none"],
                    help="may be repeated (default: strict); the first is what speed is measured against")
    ap.add_argument("--workers", type=int, default=5, help="of Karpenter, whose benchmark has 5")
    ap.add_argument("--max-seconds", type=float, default=0, help="stop Karpenter after so long; 0 is no limit")
    ap.add_argument("--bound", action="append", type=parse_bound, default=[], metavar="[NAME=]N", help="a lower bound on $/h")
    ap.add_argument("--bound-script", help="prints a lower bound for TYPES FILE; used where --bound gives none")
    ap.add_argument("--repeat", type=int, default=1, help="runs of each planner, of which the fastest counts")
    ap.add_argument("--json", help="also write the measured rows to this file")
    a = ap.parse_args()
    bounds = dict(a.bound)
    modes = [m for m in a.karpenter_mode or ["strict"] if m != "none"]
    measured = []
    with tempfile.TemporaryDirectory() as scratch:
        karpenter = a.karpenter or (modes and build_karpenter(scratch))
        print("| " + " | ".join(COLUMNS) + " |")
        print("|" + "|".join("---" if c in ("case", "planner") else "--:" for c in COLUMNS) + "|", flush=True)
        for case in a.cases:
            bound = bounds.get(case["name"], bounds.get(""))
            if bound is None and a.bound_script:
                bound = bound_of(case, a.bound_script)
            planners = []
            for mode in modes:
                title, flags = KARPENTER_MODES[mode]
                command = [karpenter, *inputs(case), *flags, "--workers", str(a.workers), "--max-seconds", str(a.max_seconds)]
                planners.append((title, command, read_karpenter))
            if os.path.exists(a.berth):
                for effort in a.effort or ["low", "default"]:
                    command = [a.berth, "plan", *inputs(case), "-o", "json", "--timings", "--effort", effort]
                    planners.append((f"Berth, effort {effort}", command, read_berth))
            else:
                print(f"compare.py: no Berth binary at {a.berth}", file=sys.stderr)
            baseline = None
            for title, command, read in planners:
                row = best_of(a.repeat, command, read)
                if baseline is None and read is read_karpenter:
                    baseline = row
                print("| " + " | ".join(cells(case["name"], title, row, baseline, bound)) + " |", flush=True)
                measured.append({"case": case["name"], "planner": title, "bound": bound, **row})
    if a.json:
        with open(a.json, "w") as f:
            json.dump(measured, f, indent=2)


if __name__ == "__main__":
    main()

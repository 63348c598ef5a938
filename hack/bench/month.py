#!/usr/bin/env python3
"""A month of a composed trace in `berth simulate`: consolidation off, by Karpenter's methods, and Berth's.

usage: month.py SHARED OUT [--berth PATH] [--concurrency N] [--days N] [--seed N] [--points N] [--look-pace N]

SHARED holds data/openb-default.csv.gz, data/ec2-us-east-1.csv and bench/convert.py. Writes to OUT the trace, catalogues
without reservations and with some for half of what is asked for at a time, a scenario for each, their reports (JSON and
HTML), and on standard output a table in Markdown. Beside the cost stands the fractional bound: what the pods that are there
by the trace cost at least at so many moments (`berth plan --bound`), slots that are paid for at 0; above it is what nodes
outside reservations cost at those moments. Same arguments, same files.
"""
import argparse
import bisect
import json
import resource
import subprocess
import sys
from pathlib import Path

VARIANTS = ["Never", "KarpentersMethods", "AsWritten"]
NAMES = {"Never": "off", "KarpentersMethods": "Karpenter's methods", "AsWritten": "Berth's"}
POOL = {
    "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
    "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.sh", "kind": "NodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                         {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}}}


def run(command, to=None, codes=(0,)):
    """CPU seconds of a command that may end with these codes."""
    before = cpu_of_children()
    done = subprocess.run(command, stdout=to, check=False)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    return cpu_of_children() - before


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_trace(path):
    """Templates by name, and pods as (arrival, end, template)."""
    templates, pods = {}, []
    with open(path) as lines:
        for line in lines:
            record = json.loads(line)
            if "template" in record:
                templates[record["template"]] = record["pod"]
            elif "create" in record:
                pods.append((record["at"], record["at"] + record.get("runsFor", float("inf")), record["create"]))
    return templates, pods


def bound_at(second, templates, pods, catalogue, arguments):
    """What the pods that are there cost at least, in dollars an hour."""
    there = [template for arrival, end, template in pods if arrival <= second < end]
    objects = [POOL]
    for number, template in enumerate(there):
        pod = json.loads(json.dumps(templates[template]))
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod["metadata"]["name"] = f"pod-{number}"
        objects.append(pod)
    manifests = arguments.out / "moment.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    command = [arguments.berth, "plan", "-f", manifests, "--instance-types", catalogue, "--bound", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"berth plan at {second} s: {done.stderr}")
    return json.loads(done.stdout)["summary"]["lowerBound"] or 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--berth", default="berth")
    parser.add_argument("--concurrency", type=int, default=1400)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--look-pace", type=int, default=100)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    data = arguments.shared / "data"
    trace = out / "month.jsonl"
    with open(trace, "w") as file:
        run([arguments.berth, "trace", "openb", data / "openb-default.csv.gz", "--seed", str(arguments.seed),
             "--concurrency", str(arguments.concurrency), "--days", str(arguments.days)], file)
    templates, pods = read_trace(trace)
    end = arguments.days * 86_400
    moments = [end * (point + 1) // (arguments.points + 1) for point in range(arguments.points)]

    print("| reservations | consolidation | cost $ | nodes $ | over the bound | slot-hours idle | evictions per pod-day "
          "| nodes at most | CPU s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, reserve in [("none", None), ("half", "0.5")]:
        convert = [sys.executable, arguments.shared / "bench" / "convert.py", data / "ec2-us-east-1.csv",
                   data / "openb-default.csv.gz", out / name, "--limit", str(arguments.concurrency), "--shuffle"]
        run(convert + (["--reserve", reserve] if reserve else []), subprocess.DEVNULL)
        catalogue = out / f"{name}-types.json"
        bounds = [bound_at(moment, templates, pods, catalogue, arguments) for moment in moments]
        scenario = {"apiVersion": "berth.sh/v1alpha1", "kind": "Scenario", "duration": f"{arguments.days * 24}h",
                    "seed": arguments.seed, "instanceTypes": catalogue.name, "traces": [trace.name],
                    "settings": {"lookPace": arguments.look_pace}}
        written = out / f"{name}.yaml"
        written.write_text(json.dumps(scenario))
        for variant in VARIANTS:
            report = out / f"{name}-{variant}.json"
            with open(report, "w") as file:
                cpu = run([arguments.berth, "simulate", written, "--vary", f"consolidation={variant}", "-o", "json"],
                          file, (0, 1))
            outcome = json.loads(report.read_text())["variants"][0]
            seconds = [sample["seconds"] for sample in outcome["samples"]]
            slots = sum(one["cost"] for one in outcome["reservations"]) / max(outcome["hours"], 1e-9)
            ratios = []
            for moment, bound in zip(moments, bounds):
                sample = outcome["samples"][max(bisect.bisect_right(seconds, moment) - 1, 0)]
                ratios.append((moment, sample["dollarsAnHour"] - slots, bound))
            (out / f"{name}-{variant}-bound.json").write_text(json.dumps(ratios))
            over = sum(cost for _, cost, _ in ratios) / max(sum(bound for _, _, bound in ratios), 1e-9) - 1
            idle = sum(one["idle"] for one in outcome["reservations"])
            print(f"| {name} | {NAMES[variant]} | {outcome['cost']['total']:,.0f} | {outcome['cost']['nodes']:,.0f} "
                  f"| {over:+.1%} | {idle:,.0f} | {outcome['pods']['evictionsPerPodDay']:.3f} "
                  f"| {outcome['nodes']['most']:,} | {cpu:,.0f} |", flush=True)


if __name__ == "__main__":
    main()

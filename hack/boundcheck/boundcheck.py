#!/usr/bin/env python3
"""Holds plans and bounds to the least cost there is, which HiGHS finds on small random cases.

usage: boundcheck.py --answers BINARY --berth BINARY [--cases N] [--from SEED] [--only packings|clusters|disruptions]

Every bound must be at most the least cost, and every plan, and what --disrupt leaves, cost at least that. Exit code 1 if any does not hold.
"""
import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile

import clusters
import disruptions
import packings

EFFORTS = ["low", "default", "high"]
# Relative: how inexact solvers are, and what bounds leave open at most by themselves (`Budget::gap`).
EXACT = 1e-6
NEAR = 1.1e-3


class Figures:
    """How far plans and bounds are from the least cost."""

    def __init__(self):
        self.plans, self.bounds, self.partial = [], [], 0

    def add(self, least, cost=None, bound=None):
        # Above nothing is no percentage: counted, and left out of the means.
        if cost is not None:
            self.plans.append(max(cost / least - 1, 0.0) if least > 1e-9 else None if cost > 1e-9 else 0.0)
        if bound is not None:
            self.bounds.append(1 - bound / least if least > 1e-9 else 0.0)

    def line(self, name):
        def part(gaps, near):
            if not gaps:
                return f"{'':>7} {'':>9} {'':>9} {'':>9}"
            known = [gap for gap in gaps if gap is not None]
            met = sum(gap <= near for gap in known) / len(gaps)
            return f"{len(gaps):>7} {met:>9.1%} {sum(known) / max(len(known), 1):>9.3%} {max(known, default=0):>9.2%}"

        return f"{name:<24} {part(self.plans, EXACT)}  {part(self.bounds, NEAR)}  {self.partial:>7}"


def check(name, least, cost, bound):
    """Sentences of what does not hold."""
    found = []
    if least is not None and bound is not None and bound > least * (1 + EXACT) + 1e-9:
        found.append(f"{name}: a bound of {bound}, and {least} is possible")
    if cost is not None and least is None:
        found.append(f"{name}: a plan of {cost}, where there is none")
    elif cost is not None and cost < least * (1 - EXACT) - 1e-9:
        found.append(f"{name}: a plan of {cost}, where none costs less than {least}")
    return found


def solve_packing(seed, answer, seconds):
    problem = packings.random_problem(random.Random(f"packing {seed}"))
    name = f"packing {seed}"
    found, cost, is_whole = packings.faults(problem, answer)
    found = [f"{name}: {fault}" for fault in found]
    try:
        least = packings.optimum(problem, seconds)
    except TimeoutError:
        return found, [], True
    found += check(name, least, cost if is_whole else None, answer["bound"])
    figures = []
    if least is not None:
        figures.append((f"packing {problem['effort']}", least, cost if is_whole else None, answer["bound"], not is_whole))
    return found, figures, False


def solve_cluster(seed, berth, seconds):
    case = clusters.random_case(random.Random(f"cluster {seed}"))
    found, figures, known, costs = [], [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("manifests.json", "types.json")]
        for file, content in zip(files, (clusters.manifests(case), clusters.catalogue(case))):
            with open(file, "w") as out:
                json.dump(content, out)
        for effort in EFFORTS:
            name = f"cluster {seed} --effort {effort}"
            command = [berth, "plan", "-f", files[0], "--instance-types", files[1], "--effort", effort, "--bound", "-o",
                       "json", *clusters.flags(case)]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode == 2 and "--max-share" in run.stderr:
                # No plan keeps these shares, which Berth says before it plans.
                return found, figures, False
            if run.returncode not in (0, 1):
                found.append(f"{name}: exit code {run.returncode}: {run.stderr.strip()}")
                continue
            plan = json.loads(run.stdout)
            summary = plan["summary"]
            placed = tuple(sum(pod.split("/")[1].rsplit("-", 1)[0] == app["name"] for claim in plan["nodeClaims"]
                               for pod in claim["pods"]) for app in case["apps"])
            if sum(placed) != summary["placed"]:
                found.append(f"{name}: {summary['placed']} pods are placed, {sum(placed)} are on claims")
            cost, bound = summary["hourlyCost"] + summary["nodeCost"], summary["lowerBound"]
            # Weights come before cost.
            is_exact = not any(pool["weight"] for pool in case["pools"])
            # Limits that allow no further node let nodes hold more than the skew; what cannot be launched then is not known here.
            crowded = frozenset(app["name"] for app in case["apps"] if clusters.is_crowded(app, plan["nodeClaims"]))
            key = placed, crowded
            if key not in known:
                try:
                    known[key] = clusters.optimum(case, placed, seconds, crowded)
                except TimeoutError:
                    return found, figures, True
            least = known[key]
            found += check(name, least, cost, bound)
            costs[effort] = (-sum(placed), cost)
            kind = "with shares" if case["shares"] else "without shares"
            if least is not None:
                figures.append((f"{effort}, {kind}", least, cost if is_exact else None, bound, False))
    if not any(pool["weight"] for pool in case["pools"]) and "low" in costs:
        for effort in EFFORTS[1:]:
            if effort in costs and costs[effort] > (costs["low"][0], costs["low"][1] + 1e-9):
                found.append(f"cluster {seed}: effort {effort} leaves more or is dearer than low: {costs}")
    return found, figures, False


def solve_disruption(seed, berth, seconds):
    case = disruptions.random_case(random.Random(f"disruption {seed}"))
    name = f"disruption {seed}"
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("manifests.json", "types.json")]
        for file, content in zip(files, (disruptions.manifests(case), disruptions.catalogue(case))):
            with open(file, "w") as out:
                json.dump(content, out)
        command = [berth, "plan", "-f", files[0], "--instance-types", files[1], "--disrupt", "--bound", "--eviction-price",
                   str(case["price"]), "-o", "json"]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        return [f"{name}: exit code {run.returncode}: {run.stderr.strip()}"], [], False
    disruption = json.loads(run.stdout)["disruption"]
    end, bound = disruption["pricedHourlyCost"], disruption["lowerBound"]
    kept = {node["name"] for node in case["nodes"] if disruptions.stays(case, node)}
    gone = {node for command in disruption["commands"] for node in command["nodes"]}
    found = [f"{name}: {node} goes, which something keeps" for node in sorted(kept & gone)]
    try:
        least, reached = (disruptions.least(case, seconds, beside) for beside in (False, True))
    except TimeoutError:
        return found, [], True
    found += check(name, least, end, None) + check(name, reached, None, bound)
    kind = "with limits" if any(pool["limits"] for pool in case["pools"]) else "without limits"
    # Of nodes on reservations list prices decide, as a slot that comes free is worth something to others.
    is_exact = not any(pool["weight"] for pool in case["pools"]) and not any(node["reservation"] for node in case["nodes"])
    return found, [(f"--disrupt, {kind}", reached, end if is_exact else None, bound, False)], False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", required=True, help="the example answers of berth-packing")
    parser.add_argument("--berth", required=True)
    parser.add_argument("--cases", type=int, default=50, help="of each kind")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED")
    parser.add_argument("--only", choices=["packings", "clusters", "disruptions"])
    parser.add_argument("--seconds", type=int, default=60, help="what HiGHS may take for a case, which is skipped beyond")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.cases)
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        runs = []
        if options.only in (None, "packings"):
            problems = [packings.random_problem(random.Random(f"packing {seed}")) for seed in seeds]
            answers = packings.answers(options.answers, problems)
            runs += [pool.submit(solve_packing, seed, answer, options.seconds) for seed, answer in zip(seeds, answers)]
        if options.only in (None, "clusters"):
            runs += [pool.submit(solve_cluster, seed, options.berth, options.seconds) for seed in seeds]
        if options.only in (None, "disruptions"):
            runs += [pool.submit(solve_disruption, seed, options.berth, options.seconds) for seed in seeds]
        faults, by_name, skipped = [], {}, 0
        for run in runs:
            found, figures, is_skipped = run.result()
            faults += found
            skipped += is_skipped
            for name, least, cost, bound, is_partial in figures:
                known = by_name.setdefault(name, Figures())
                known.add(least, cost, bound)
                known.partial += is_partial
    print(f"{'':<24} {'plans':>7} {'optimal':>9} {'mean over':>9} {'worst':>9}  {'bounds':>7} {'reached':>9} "
          f"{'mean gap':>9} {'worst':>9}  {'partial':>7}")
    for name in sorted(by_name):
        print(by_name[name].line(name))
    if skipped:
        print(f"{skipped} cases took HiGHS longer than {options.seconds} s and were skipped")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

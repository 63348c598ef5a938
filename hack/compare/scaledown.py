#!/usr/bin/env python3
"""Karpenter's own scale-down test in simulated time: the load of a cluster goes from 100 to 75, 50 and 25%.

usage: scaledown.py TYPES.json [--nodes N,N…] [--berth PROGRAM] [--karpenter PROGRAM] [--karpenter-nodes N,N…]
                    [--phase MINUTES] [--boot SECONDS]

TYPES.json is an instance catalogue that has the types of FAMILIES. For each size a workload is made that fills about so
many nodes of up to 16 CPUs, as single pods that each step takes away at random: `berth simulate` plays it (launch, boot,
drain and all), with a phase for each step. Told are, from the first step down to the end: what the nodes cost; how long
pods waited for a place, all together; and for each step how long it took until the cost changed no more.

`compare --consolidate` runs Karpenter's library from its own plan of the same pods and takes away the same ones. It decides
and moves without any time passing, so time is what a cluster adds at least: each command waits 15 seconds for validation,
after its decision's CPU seconds. That boots, drains and pods that wait take no time favours it.
"""
import argparse
import json
import pathlib
import random
import resource
import subprocess
import tempfile

FAMILIES = ["c6i", "m6i", "r6i"]
SIZES = ["xlarge", "2xlarge", "4xlarge"]
STEPS = [0.75, 0.5, 0.25]
VALIDATION = 15


def one(key, *values):
    return {"key": key, "operator": "In", "values": list(values)}


def pool():
    types = [f"{family}.{size}" for family in FAMILIES for size in SIZES]
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                       "budgets": [{"nodes": "100%"}]},
        "template": {"spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}, "expireAfter": "Never",
            "requirements": [one("kubernetes.io/arch", "amd64"), one("kubernetes.io/os", "linux"),
                             one("karpenter.sh/capacity-type", "on-demand"),
                             one("node.kubernetes.io/instance-type", *types)]}}}}


def pods(n_nodes):
    """So many that they ask for 90% of the CPUs of so many nodes of 16."""
    rng = random.Random(f"scale down {n_nodes}")
    shapes = [(rng.choice([250, 500, 1000, 2000, 4000]), rng.choice([2, 3, 4, 6])) for _ in range(40)]
    made, asked = [], 0
    while asked < n_nodes * 16_000 * 0.9:
        cpu, memory = rng.choice(shapes)
        asked += cpu
        spec = {"containers": [{"name": "a", "image": "a", "resources": {
            "requests": {"cpu": f"{cpu}m", "memory": f"{cpu * memory * 1024 // 1000}Mi"}}}]}
        made.append((f"p-{len(made):05}", spec))
    rng.shuffle(made)
    return made


def deployment(name, spec):
    """Of one pod, so that a pod that is evicted is made again, and each can be taken away by itself."""
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": spec}}}


def run(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def berth(args, folder, made):
    phase = args.phase * 60
    lines = [{"apiVersion": "berth.sh/v1alpha1", "kind": "Trace"}]
    for step, keep in enumerate(STEPS, 1):
        first = int(len(made) * keep)
        last = int(len(made) * ([1.0] + STEPS)[step - 1])
        lines += [{"at": step * phase, "scale": {"kind": "Deployment", "namespace": "default", "name": name,
                                                 "replicas": 0}} for name, _ in made[first:last]]
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    objects = [pool(), *(deployment(name, spec) for name, spec in made)]
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    scenario = {"apiVersion": "berth.sh/v1alpha1", "kind": "Scenario", "duration": f"{phase * (len(STEPS) + 1)}s", "seed": 1,
                "manifests": ["objects.json"], "instanceTypes": str(pathlib.Path(args.types).resolve()),
                "settings": {"lookPace": args.look_pace}, "cloud": {"bootDelay": f"{args.boot}s"}, "traces": ["steps.jsonl"]}
    (folder / "scenario.json").write_text(json.dumps(scenario))
    report, seconds = run([args.berth, "simulate", folder / "scenario.json", "-o", "json"])
    [variant] = report["variants"]
    samples = variant["samples"]
    width = samples[1]["seconds"] - samples[0]["seconds"]
    after = [sample for sample in samples if sample["seconds"] >= phase]
    print(f"| {args.now} | Berth | {nodes_of(before_step(samples, phase))} | "
          f"{sum(sample['dollarsAnHour'] for sample in after[:-1]) * width / 3600:.2f} | "
          f"{sum(sample['pending'] for sample in after) * width:.0f} | "
          + " | ".join(settled(samples, step * phase, phase) for step in range(1, len(STEPS) + 1))
          + f" | {variant['pods']['evictions']} | {seconds:.1f} |", flush=True)


def before_step(samples, at):
    return [sample for sample in samples if sample["seconds"] < at][-1]


def nodes_of(sample):
    nodes = sample["nodes"]
    return sum(sample["nodes"])


def settled(samples, begin, phase):
    """What the cost is at the end of a phase, and since when."""
    of_phase = [sample for sample in samples if begin <= sample["seconds"] < begin + phase]
    last = of_phase[-1]["dollarsAnHour"]
    since = begin
    for before, sample in zip(of_phase, of_phase[1:]):
        if abs(before["dollarsAnHour"] - last) > 1e-6:
            since = sample["seconds"]
    return f"${last:.2f} in {since - begin:.0f} s"


def karpenter(args, folder, made):
    items = [pool(), *({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                        "spec": spec} for name, spec in made)]
    (folder / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (folder / "order").write_text("".join(f"default/{name}\n" for name, _ in made))
    report, seconds = run([args.karpenter, "-f", folder / "pods.json", "--instance-types", args.types, "--consolidate",
                           "--keep", ",".join(map(str, STEPS)), "--order", folder / "order"])
    phase, cost, ends = args.phase * 60, report["startedHourlyCost"], []
    spent, cpu, evictions = 0.0, 0.0, 0
    for step in range(len(STEPS)):
        at = 0.0
        for one_pass in (one_pass for one_pass in report["passes"] if one_pass["step"] == step):
            takes = VALIDATION + one_pass["cpuSeconds"] - cpu
            cpu = one_pass["cpuSeconds"]
            if at + takes <= phase:
                spent += cost * takes
                at, cost, evictions = at + takes, one_pass["hourlyCost"], one_pass["evictions"]
            else:
                ends.append(None)
                break
        spent += cost * (phase - at)
        if len(ends) == step:
            ends.append(f"${cost:.2f} in {at:.0f} s")
        elif ends[-1] is None:
            raise SystemExit(f"step {step}: Karpenter has not settled after {args.phase} minutes; give more with --phase")
    print(f"| {args.now} | Karpenter | {report['nodes']} | {spent / 3600:.2f} | | {' | '.join(ends)} | {evictions} | "
          f"{seconds:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types")
    parser.add_argument("--nodes", default="100,500,1000,2000")
    parser.add_argument("--berth", default="berth", help="the program; empty to leave it out")
    parser.add_argument("--karpenter", default="", help="compare of this folder, as build.sh builds it")
    parser.add_argument("--karpenter-nodes", default="100")
    parser.add_argument("--look-pace", type=int, default=100, help="see docs/simulate.md; 0 lets looks take no time")
    parser.add_argument("--phase", type=int, default=30)
    parser.add_argument("--boot", type=int, default=45)
    args = parser.parse_args()
    steps = " | ".join(f"at {keep:.0%}" for keep in STEPS)
    print(f"| about | | nodes | $ in all | pending pod-seconds | {steps} | evictions | CPU s |")
    print("|--:|---|--:|--:|--:|" + "---|" * len(STEPS) + "--:|--:|")
    for size in map(int, args.nodes.split(",")):
        args.now = f"{size:,}"
        made = pods(size)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            if args.berth:
                berth(args, folder, made)
            if args.karpenter and str(size) in args.karpenter_nodes.split(","):
                karpenter(args, folder, made)


if __name__ == "__main__":
    main()

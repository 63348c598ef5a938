#!/usr/bin/env python3
"""Write many Deployments of varied shapes, three NodePools, and a large catalogue with reservations.

usage: deployments.py CATALOGUE OUT [--pods N] [--deployments D] [--reservations R] [--seed S] [--single-pods yaml|json]

CATALOGUE is a catalogue file (JSON, in the shape of Karpenter's KWOK provider), or a CSV with the columns type, arch,
gpu_name, gpu_count, alloc_cpu, alloc_mem, alloc_pods, usd_per_h, of which it makes one with three zones, on-demand and
spot. OUT-types.json is that catalogue with R reservations added. OUT.json is a List of the NodePools and Deployments;
with --single-pods the pods stand alone instead, as OUT.yaml (one document each) or OUT.jsonl (one line each), written
as a stream. The shapes depend on the seed and D alone: more pods only means more replicas of the shapes that have no
limit per node. Same arguments, same files.
"""
import argparse
import csv
import json
import random

ZONES = ["us-east-1a", "us-east-1b", "us-east-1c"]
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
GPU = "nvidia.com/gpu"
NOT_NVIDIA = {"radeon-pro-v520"}
UNIT = {"Ki": 2**-20, "Mi": 2**-10, "Gi": 1, "Ti": 2**10}
# Pods that exclude each other from a node, and pods with GPUs, belong to small Deployments.
MAX_REPLICAS_PER_HOST, MAX_REPLICAS_GPU = 20, 8


def requirement(key, *values):
    return {"key": key, "operator": "In", "values": list(values)}


def offering(capacity_type, zone, price):
    return {"Price": price, "Available": True, "Requirements": [requirement(CAPACITY_TYPE, capacity_type), requirement(ZONE, zone)]}


def read_catalogue(path, rng):
    if not path.endswith(".csv"):
        with open(path) as f:
            return json.load(f)
    types = []
    with open(path) as f:
        for r in csv.DictReader(f):
            if not r["usd_per_h"] or not r["alloc_cpu"]:
                continue
            resources = {"cpu": r["alloc_cpu"], "memory": r["alloc_mem"], "pods": r["alloc_pods"]}
            if int(r["gpu_count"] or 0) and r["gpu_name"] not in NOT_NVIDIA:
                resources[GPU] = r["gpu_count"]
            price, offerings = float(r["usd_per_h"]), []
            for zone in ZONES:
                offerings.append(offering("on-demand", zone, price))
                offerings.append(offering("spot", zone, round(price * rng.uniform(0.28, 0.75), 5)))
            types.append({"name": r["type"], "architecture": r["arch"], "operatingSystems": ["linux"],
                          "resources": resources, "offerings": offerings})
    return types


def value_of(an_offering, key):
    return next((r["values"][0] for r in an_offering["Requirements"] if r["key"] == key), None)


def add_reservations(types, count, rng):
    """Reservations of 1 to 40 instances of any type; GPU types seldom. A price is on-demand / 10,000,000, as in AWS."""
    plain = [t for t in types if GPU not in t["resources"]]
    gpu = [t for t in types if GPU in t["resources"]]
    for n in range(count):
        t = rng.choice(gpu if gpu and n % 15 == 14 else plain)
        on_demand = [o for o in t["offerings"] if value_of(o, CAPACITY_TYPE) == "on-demand"]
        if not on_demand:
            continue
        base = rng.choice(on_demand)
        made = offering("reserved", value_of(base, ZONE), base["Price"] / 1e7)
        made["Requirements"].append(requirement("karpenter.sh/reservation-id", f"cr-{n:04d}"))
        made["ReservationCapacity"] = rng.choice([1, 2, 3, 5, 8, 13, 20, 40])
        t["offerings"].append(made)


def node_pools():
    def pool(name, requirements, taints):
        spec = {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
                "requirements": requirements, "expireAfter": "720h"}
        if taints:
            spec["taints"] = taints
        return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {"spec": spec}}}
    any_type = requirement(CAPACITY_TYPE, "reserved", "spot", "on-demand")
    return [
        pool("arm64", [any_type, requirement(ARCH, "arm64")], [{"key": ARCH, "value": "arm64", "effect": "NoSchedule"}]),
        pool("default", [any_type, requirement(ARCH, "amd64")], []),
        pool("gpu", [any_type, requirement(ARCH, "amd64")], [{"key": GPU, "effect": "NoSchedule"}]),
    ]


def shape(i, rng):
    """A pod template and the most replicas that suit it (None: any number)."""
    app = f"app-{i:04d}"
    labels = {"app": app, "team": f"team-{rng.randrange(40):02d}"}
    cpu = rng.choices([50, 100, 200, 250, 500, 750, 1000, 1500, 2000, 4000, 8000], [8, 16, 10, 14, 18, 6, 12, 4, 7, 3, 2])[0]
    mib = max(64, int(cpu * rng.choice([0.5, 1, 1, 2, 2, 2, 4, 4, 8]) * 1.024) // 16 * 16 + 16 * rng.randrange(8))
    requests, limits, most = {"cpu": f"{cpu}m", "memory": f"{mib}Mi"}, {}, None
    spec = {"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]}
    selector, tolerations = {}, []
    what = rng.random()
    if what < 0.03:
        requests[GPU] = limits[GPU] = str(rng.choice([1, 1, 1, 2, 4]))
        tolerations.append({"key": GPU, "operator": "Exists", "effect": "NoSchedule"})
        most = MAX_REPLICAS_GPU
    elif what < 0.15:
        selector[ARCH] = "arm64"
        tolerations.append({"key": ARCH, "operator": "Equal", "value": "arm64", "effect": "NoSchedule"})
    if limits:
        spec["containers"][0]["resources"]["limits"] = limits
    if rng.random() < 0.08:
        selector[CAPACITY_TYPE] = rng.choice(["on-demand", "spot"])
    where = rng.random()
    if where < 0.08:
        selector[ZONE] = rng.choice(ZONES)
    elif where < 0.20:
        spec["topologySpreadConstraints"] = [spread(ZONE, app, rng.choice([1, 1, 2]))]
    elif where < 0.24:
        spec["topologySpreadConstraints"] = [spread(HOSTNAME, app, 1)]
        most = min(most or MAX_REPLICAS_PER_HOST, MAX_REPLICAS_PER_HOST)
    elif where < 0.28:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}]}}
        most = min(most or MAX_REPLICAS_PER_HOST, MAX_REPLICAS_PER_HOST)
    if selector:
        spec["nodeSelector"] = selector
    if tolerations:
        spec["tolerations"] = tolerations
    return app, {"metadata": {"labels": labels}, "spec": spec}, most


def spread(key, app, skew):
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}


def replicas(limits, pods, rng):
    """Split the pods over the shapes in proportion to log-normal weights, one each at least, within the limits."""
    weights = [rng.lognormvariate(0, 1.2) for _ in limits]
    counts = [1] * len(limits)
    open_ = list(range(len(limits)))
    left = pods - len(limits)
    while left > 0 and open_:
        total = sum(weights[i] for i in open_)
        before = left
        for i in list(open_):
            add = min(left, int(before * weights[i] / total))
            if limits[i] is not None and counts[i] + add >= limits[i]:
                add = min(left, limits[i] - counts[i])
                open_.remove(i)
            counts[i] += add
            left -= add
        if left == before or left < len(open_):
            for i in open_:
                if left > 0 and (limits[i] is None or counts[i] < limits[i]):
                    counts[i] += 1
                    left -= 1
    return counts


def yaml_lines(value, indent):
    """The small part of YAML that manifests need: scalars as JSON, which YAML reads alike."""
    pad = "  " * indent
    if isinstance(value, dict):
        for key, v in value.items():
            key = json.dumps(key) if "/" in key else key
            if isinstance(v, (dict, list)) and v:
                yield f"{pad}{key}:"
                yield from yaml_lines(v, indent + 1)
            else:
                yield f"{pad}{key}: {json.dumps(v)}"
    else:
        for v in value:
            if isinstance(v, dict):
                lines = list(yaml_lines(v, indent + 1))
                yield f"{pad}- {lines[0].lstrip()}"
                yield from lines[1:]
            else:
                yield f"{pad}- {json.dumps(v)}"


def write_single(out, form, pools, shapes, counts):
    mark = "NAME-OF-THE-POD"
    with open(f"{out}.yaml" if form == "yaml" else f"{out}.jsonl", "w") as f:
        def put(obj):
            return "---\n" + "\n".join(yaml_lines(obj, 0)) + "\n" if form == "yaml" else json.dumps(obj) + "\n"
        for pool in pools:
            f.write(put(pool))
        for (app, template, _), n in zip(shapes, counts):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": mark, "namespace": "default", **template["metadata"]},
                   "spec": template["spec"]}
            before, after = put(pod).split(mark)
            for k in range(n):
                f.write(f"{before}{app}-{k}{after}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("catalogue")
    ap.add_argument("out")
    ap.add_argument("--pods", type=int, default=10_000)
    ap.add_argument("--deployments", type=int, default=2_000)
    ap.add_argument("--reservations", type=int, default=300)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--single-pods", choices=["yaml", "json"])
    a = ap.parse_args()
    if a.pods < a.deployments:
        ap.error("--pods must be at least --deployments")
    types = read_catalogue(a.catalogue, random.Random(f"{a.seed} catalogue"))
    add_reservations(types, a.reservations, random.Random(f"{a.seed} reservations"))
    rng = random.Random(f"{a.seed} shapes")
    shapes = [shape(i, rng) for i in range(a.deployments)]
    counts = replicas([most for _, _, most in shapes], a.pods, random.Random(f"{a.seed} replicas"))
    with open(a.out + "-types.json", "w") as f:
        json.dump(types, f)
    pools = node_pools()
    if a.single_pods:
        write_single(a.out, a.single_pods, pools, shapes, counts)
    else:
        items = pools + [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
             "spec": {"replicas": n, "selector": {"matchLabels": {"app": app}}, "template": template}}
            for (app, template, _), n in zip(shapes, counts)]
        with open(a.out + ".json", "w") as f:
            json.dump({"apiVersion": "v1", "kind": "List", "items": items}, f)
    print(len(types), "types,", a.reservations, "reservations,", len(shapes), "deployments,", sum(counts), "pods")


if __name__ == "__main__":
    main()

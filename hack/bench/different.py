#!/usr/bin/env python3
"""Write pods that are all different, with several resources, and a catalogue that has these.

usage: different.py OUT [--pods N] [--resources R] [--types T] [--seed S]

OUT.json is a List of a NodePool and N single Pods, each with random requests of cpu, memory and R-2 resources of its own
vendor. OUT-types.json has T types of random shapes in one zone, priced by what they hold with up to a fifth more or less.
Same arguments, same files.
"""
import argparse
import json
import random

RESOURCES = ["cpu", "memory"] + [f"example.com/part-{part}" for part in range(8)]


def amounts(counts):
    """Counts in units of 100m, 200Mi and one."""
    texts = [f"{counts[0] * 100}m", f"{counts[1] * 200}Mi"] + [str(count) for count in counts[2:]]
    return dict(zip(RESOURCES, texts))


def instance_type(rng, name, resources):
    size = rng.choice([40, 80, 160, 320])
    counts = [round(size * rng.choice([0.5, 1, 1, 2])) for _ in range(resources)]
    price = round(sum(counts) / resources / 800 * rng.uniform(0.8, 1.2), 4)
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
    ]
    return {
        "name": name,
        "offerings": [{"Price": price, "Available": True, "Requirements": requirements}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {**amounts(counts), "pods": "110"},
    }


def pod(rng, index, resources):
    # No count is 0 or above what the least type may have.
    requests = amounts([rng.randint(1, 20) for _ in range(resources)])
    container = {"name": "work", "image": "example.com/work:1", "resources": {"requests": requests}}
    if resources > 2:
        container["resources"]["limits"] = {key: requests[key] for key in RESOURCES[2:resources]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"work-{index}"}, "spec": {"containers": [container]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--resources", type=int, default=5, choices=range(2, len(RESOURCES) + 1), metavar="2..10")
    parser.add_argument("--types", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
                }
            }
        },
    }
    types = [instance_type(rng, f"type-{index}", options.resources) for index in range(options.types)]
    items = [pool] + [pod(rng, index, options.resources) for index in range(options.pods)]
    with open(f"{options.out}-types.json", "w") as file:
        json.dump(types, file)
    with open(f"{options.out}.json", "w") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": items}, file)


if __name__ == "__main__":
    main()

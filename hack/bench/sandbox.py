#!/usr/bin/env python3
"""Write Deployments for `berth sandbox`, with a NodePool and a node class whose machines join at once.

usage: sandbox.py OUT [--pods N] [--deployments N] [--constrained SHARE] [--nodes N] [--running N] [--seed N]

Of the Deployments, SHARE (0 to 1) have a constraint: a third of those each is spread over zones, keeps its pods in one zone, or
has no two of them on a node. With --nodes that many nodes of 32 CPUs stand already, and --running pods run on them in turn.
"""
import argparse
import json
import random

POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": {"spec": {
    "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
    "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}}}}
CLASS = {"apiVersion": "berth.sh/v1alpha1", "kind": "FakeNodeClass", "metadata": {"name": "default"},
         "spec": {"registrationDelay": "0s"}}


def constraint(chance, share, labels):
    selector = {"matchLabels": labels}

    def required(key):
        return {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}]}
    if chance < share / 3:
        return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                                               "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]}
    if chance < 2 * share / 3:
        return {"affinity": {"podAffinity": required("topology.kubernetes.io/zone")}}
    if chance < share:
        return {"affinity": {"podAntiAffinity": required("kubernetes.io/hostname")}}
    return {}


def deployment(index, replicas, share, rng):
    labels = {"app": f"app-{index}"}
    requests = {"cpu": f"{rng.choice([100, 250, 500, 1000])}m", "memory": f"{rng.choice([128, 256, 512, 1024])}Mi"}
    container = {"name": "c", "image": f"registry.example/app-{index}:1", "resources": {"requests": requests}}
    spec = {"containers": [container], **constraint(rng.random(), share, labels)}
    return {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": f"app-{index}", "namespace": "default", "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": spec}}}


def standing(n_nodes, n_running):
    def about(name, **more):
        return {"name": name, **more}
    for index in range(n_nodes):
        name, amounts = f"node-{index:05}", {"cpu": "32", "memory": "128Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                  "topology.kubernetes.io/zone": f"zone-{'abc'[index % 3]}"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": about(name, labels=labels),
               "status": {"capacity": amounts, "allocatable": amounts}}
    container = {"name": "c", "image": "registry.example/old:1", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}
    for index in range(n_running):
        app = f"old-{index % 1000}"
        yield {"apiVersion": "v1", "kind": "Pod",
               "metadata": about(f"{app}-{index:06}", namespace="default", labels={"app": app}),
               "spec": {"nodeName": f"node-{index % n_nodes:05}", "containers": [container]}}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--pods", type=int, default=10_000)
    ap.add_argument("--deployments", type=int, default=100)
    ap.add_argument("--constrained", type=float, default=0.0)
    ap.add_argument("--nodes", type=int, default=0)
    ap.add_argument("--running", type=int, default=0)
    ap.add_argument("--seed", type=int, default=7)
    a = ap.parse_args()
    rng, items, left = random.Random(a.seed), [POOL, CLASS], a.pods
    items.extend(standing(a.nodes, a.running))
    for index in range(a.deployments):
        replicas = left // (a.deployments - index)
        left -= replicas
        items.append(deployment(index, replicas, a.constrained, rng))
    with open(a.out, "w") as out:
        json.dump({"apiVersion": "v1", "kind": "List", "items": items}, out)


if __name__ == "__main__":
    main()

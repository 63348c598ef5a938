#!/usr/bin/env python3
"""Write nodes that stand and pods that wait, for schedulers to be timed on.

usage: standing.py CASE OUT.json [--nodes N] [--pods P] [--apps A] [--order runs|mixed] [--seed S]

CASE is one of
  plain          pods that want room alone
  zone-spread    maxSkew 1 over three zones
  anti-affinity  at most one pod of an app on a node
  affinity       all pods of an app in one zone
  reservations   half as many Reservations as pods, each holding room on a node for two pods of an app, who draw from it;
                 to kube-scheduler, which knows no Reservations, they are plain pods
OUT.json is one List of Nodes, Reservations and Pods. Everything fits. With --order runs the pods of an app come one after
the other, as kube-scheduler likes them; mixed shuffles them. Same arguments, same file.
"""
import argparse
import json
import random

ZONES = ["zone-a", "zone-b", "zone-c"]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SIZES = [("m.2xlarge", 8, 32), ("m.4xlarge", 16, 64), ("r.2xlarge", 8, 64), ("c.4xlarge", 16, 32)]
APPS = {"plain": 50, "zone-spread": 10, "anti-affinity": 10, "affinity": 10, "reservations": 50}


def node(i):
    name, (kind, cpu, memory) = f"node-{i:05d}", SIZES[i // len(ZONES) % len(SIZES)]
    room = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    labels = {HOSTNAME: name, ZONE: ZONES[i % len(ZONES)], "node.kubernetes.io/instance-type": kind,
              "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}


def constraint(case, app):
    """The part of a pod's spec by which the cases differ."""
    selector = {"matchLabels": {"app": app}}
    term = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE if case == "affinity" else HOSTNAME, "labelSelector": selector}]}
    return {
        "zone-spread": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]},
        "anti-affinity": {"affinity": {"podAntiAffinity": term}},
        "affinity": {"affinity": {"podAffinity": term}},
    }.get(case, {})


def containers(requests):
    return [{"name": "main", "image": "registry.example/app", "resources": {"requests": requests}}]


def amounts(cpu, memory):
    return {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}


def reservation(i, app, requests, nodes):
    cpu, memory = requests
    room = amounts(2 * cpu, 2 * memory)
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": f"room-{i:05d}"},
            "spec": {"ttl": "0s", "allocateOnce": False, "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
                     "template": {"spec": {"containers": containers(room)}}},
            "status": {"phase": "Available", "nodeName": f"node-{i % nodes:05d}", "allocatable": room, "conditions": [
                {"type": "Scheduled", "status": "True", "reason": "Scheduled"}, {"type": "Ready", "status": "True", "reason": "Available"}]}}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("case", choices=sorted(APPS))
    ap.add_argument("out")
    ap.add_argument("--nodes", type=int, default=5_000)
    ap.add_argument("--pods", type=int, default=10_000)
    ap.add_argument("--apps", type=int)
    ap.add_argument("--order", choices=["runs", "mixed"], default="runs")
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    rng = random.Random(a.seed)
    apps = [f"app-{i:03d}" for i in range(a.apps or APPS[a.case])]
    shapes = {app: (cpu := rng.choice([50, 100, 200, 250, 400, 500, 750, 1000]), cpu * rng.choice([1, 2, 2, 4])) for app in apps}
    # Pods and Reservations are dealt out so that two pods follow each Reservation of their app.
    owners = [apps[i * len(apps) // a.pods] for i in range(a.pods)]
    items = [node(i) for i in range(a.nodes)]
    if a.case == "reservations":
        items += [reservation(i, app, shapes[app], a.nodes) for i, app in enumerate(owners[::2])]
    pods = []
    for i, app in enumerate(owners):
        spec = {"containers": containers(amounts(*shapes[app])), **constraint(a.case, app)}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{i:05d}", "namespace": "default", "labels": {"app": app}},
                     "spec": spec})
    if a.order == "mixed":
        rng.shuffle(pods)
    with open(a.out, "w") as out:
        json.dump({"apiVersion": "v1", "kind": "List", "items": items + pods}, out)
    print(f"{a.case}: {a.nodes} nodes, {a.pods} pods of {len(apps)} apps")


if __name__ == "__main__":
    main()

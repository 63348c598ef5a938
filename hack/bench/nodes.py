#!/usr/bin/env python3
"""Write clusters of nodes that stand, and pods for a scheduler to place on them.

usage: nodes.py CASE OUT [--nodes N] [--running N] [--pods N] [--apps N] [--seed N]

CASE is plain, zone-spread, host-anti-affinity, pod-affinity, preemption, full, reservations or distinct-reservations.
Writes OUT, a List of Nodes, of running and of pending Pods. With preemption and full the nodes have no room left, each app
asks for an amount of its own, and pods are more important than those that run, or not. With reservations it has half as
many pending Reservations as pods, two owners to each, and with distinct-reservations each is for an app of its own,
whatever N; OUT.pods.json is then the same cluster for a
scheduler without Reservations, where a pod like each of them comes first.
"""
import argparse
import json
import random

ZONES = ["zone-a", "zone-b", "zone-c"]
# CPU in milli and memory in MiB.
SHAPES = [(100, 128), (250, 256), (250, 1024), (500, 512), (500, 2048), (1000, 1024), (1000, 4096), (2000, 4096)]
CROWDED = ["preemption", "full"]
SIZES = [(8000, 32), (16000, 64), (32000, 128)]


def node(index, rng):
    name, (cpu, memory) = f"node-{index:05}", rng.choice(SIZES)
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONES[index % len(ZONES)],
              "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts}}


def spec(shape, **more):
    cpu, memory = shape
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}], **more}


def pod(name, app, pod_spec, status="Pending"):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
            "spec": pod_spec, "status": {"phase": status}}


def crowd(a, rng):
    """Nodes that are full of unimportant pods."""
    for index in range(a.nodes):
        made = node(index, rng)
        yield made
        amounts = made["status"]["allocatable"]
        shares = sorted(rng.uniform(0.05, 0.95) for _ in range(a.running - 1))
        for at, (begin, end) in enumerate(zip([0.0, *shares], [*shares, 1.0])):
            cpu, memory = (int((end - begin) * size) for size in (int(amounts["cpu"][:-1]), int(amounts["memory"][:-2]) * 1024))
            on_node = spec((cpu, memory), nodeName=made["metadata"]["name"], priority=-10 * rng.randint(1, 3))
            running = pod(f"running-{index}-{at}", f"old-{rng.randrange(a.apps)}", on_node, "Running")
            running["status"]["startTime"] = f"2026-01-01T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z"
            yield running


def constraints(case, app):
    selector = {"matchLabels": {"app": app}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if case == "zone-spread":
        return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                                              "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]}
    if case == "host-anti-affinity":
        return {"affinity": {"podAntiAffinity": {required: [
            {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}]}}}
    if case == "pod-affinity":
        return {"affinity": {"podAffinity": {required: [
            {"labelSelector": selector, "topologyKey": "topology.kubernetes.io/zone"}]}}}
    return {}


def reservation(name, app, shape):
    cpu, memory = shape
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": name},
            "spec": {"template": {"metadata": {"namespace": "default"}, "spec": spec((2 * cpu, 2 * memory))},
                     "owners": [{"labelSelector": {"matchLabels": {"app": app}}}], "allocateOnce": False, "ttl": "0s"}}


def standing(a, rng):
    for index in range(a.nodes):
        yield node(index, rng)
    for index in range(a.running * a.nodes):
        on_node = spec(rng.choice(SHAPES), nodeName=f"node-{index // a.running:05}")
        yield pod(f"running-{index}", f"old-{index % a.apps}", on_node, "Running")


def pending(a, shapes):
    for index in range(a.pods):
        app = f"app-{index % a.apps}"
        more = {"priority": 1000 if a.case == "preemption" else -1000} if a.case in CROWDED else constraints(a.case, app)
        yield pod(f"pod-{index}", app, spec(shapes[app], **more))


def rooms(a, shapes, make):
    for index in range(a.pods // 2):
        app = f"app-{index % a.apps}"
        yield make(f"room-{index:05}", app, shapes[app])


def stand_in(name, app, shape):
    return pod(name, f"of-{app}", spec(tuple(2 * amount for amount in shape)))


def write(path, *parts):
    with open(path, "w") as f:
        f.write('{"apiVersion": "v1", "kind": "List", "items": [')
        for index, item in enumerate(item for part in parts for item in part):
            f.write(",\n" if index else "\n")
            json.dump(item, f)
        f.write("\n]}\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("case", choices=["plain", "zone-spread", "host-anti-affinity", "pod-affinity", *CROWDED,
                                     "reservations", "distinct-reservations"])
    ap.add_argument("out")
    ap.add_argument("--nodes", type=int, default=5_000)
    ap.add_argument("--running", type=int, default=2, help="pods that run on each node")
    ap.add_argument("--pods", type=int, default=10_000)
    ap.add_argument("--apps", type=int, default=100)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    if a.case == "distinct-reservations":
        a.apps = max(a.pods // 2, 1)
    rng = random.Random(a.seed)
    shapes = {f"app-{index}": rng.choice(SHAPES) for index in range(a.apps)}
    if a.case in CROWDED:
        shapes = {app: (1000 + index, 1024) for index, app in enumerate(shapes)}
    stand = crowd if a.case in CROWDED else standing
    has_rooms = a.case.endswith("reservations")
    reservations = rooms(a, shapes, reservation) if has_rooms else []
    write(a.out, stand(a, random.Random(a.seed)), reservations, pending(a, shapes))
    if has_rooms:
        write(a.out + ".pods.json", standing(a, random.Random(a.seed)), rooms(a, shapes, stand_in), pending(a, shapes))
    print(a.nodes, "nodes,", a.pods, "pods,", a.pods // 2 if has_rooms else 0, "Reservations")


if __name__ == "__main__":
    main()

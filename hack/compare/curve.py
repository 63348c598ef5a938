#!/usr/bin/env python3
"""Cost over evictions: Berth's disruption beside Karpenter's, from the same cluster.

usage: curve.py KARPENTER.json CLUSTER.json TYPES.json [--berth PROGRAM] [--prices N,N…] [--berth-args ARGS]

KARPENTER.json is what `compare --consolidate --dump CLUSTER.json` printed. Berth is asked once for each price of an
eviction; after each of its commands so many pods have moved, and the nodes cost so much. What it reaches at a number of
evictions is the cheapest of all those. Slots that nodes of the cluster are on are not free.

`nobody below` is what no choice of nodes can go below with so many evictions: to save what a node costs, all its pods have to
move, and what takes its place costs no less than nothing. So it is the cost at first less the largest sum of node prices
whose pods are no more than the evictions, where one node may count in part.
"""
import argparse
import json
import resource
import subprocess
import tempfile

RESERVATION_KEYS = ("karpenter.sh/reservation-id", "berth.sh/capacity-reservation-id",
                    "karpenter.k8s.aws/capacity-reservation-id")


def left_of_reservations(types, cluster):
    """The catalogue with what nodes of the cluster leave free of each reservation: `types` counts slots before there
    were nodes, and a catalogue says what is free."""
    taken = {}
    for item in cluster["items"]:
        labels = item["metadata"].get("labels", {}) if item["kind"] == "Node" else {}
        if labels.get("karpenter.sh/capacity-type") == "reserved":
            name = next((labels[key] for key in RESERVATION_KEYS if key in labels), None)
            taken[name] = taken.get(name, 0) + 1
    for offering in (offering for of_type in types for offering in of_type["offerings"]):
        names = [requirement["values"][0] for requirement in offering["Requirements"] if requirement["key"] in RESERVATION_KEYS]
        if names:
            offering["ReservationCapacity"] -= taken.pop(names[0], 0)
            if offering["ReservationCapacity"] < 0:
                raise SystemExit(f"reservation {names[0]}: more nodes than slots")
    if taken:
        raise SystemExit(f"{sorted(map(str, taken))}: no such reservation in the catalogue")
    return types


def prices_and_pods(types, cluster):
    """What each node costs, reserved as 0, and how many pods are on it."""
    prices = {}
    for of_type in types:
        for offering in of_type["offerings"]:
            known = {requirement["key"]: requirement["values"][0] for requirement in offering["Requirements"]}
            where = (of_type["name"], known.get("karpenter.sh/capacity-type"), known.get("topology.kubernetes.io/zone"))
            prices[where] = 0 if where[1] == "reserved" else offering["Price"]
    nodes = {}
    for node in (item for item in cluster["items"] if item["kind"] == "Node"):
        labels = node["metadata"]["labels"]
        where = tuple(labels.get(key) for key in ("node.kubernetes.io/instance-type", "karpenter.sh/capacity-type",
                                                  "topology.kubernetes.io/zone"))
        nodes[node["metadata"]["name"]] = [prices[where], 0]
    for pod in (item for item in cluster["items"] if item["kind"] == "Pod"):
        nodes[pod["spec"]["nodeName"]][1] += 1
    return list(nodes.values())


def nobody_below(nodes, evictions):
    left = sum(price for price, _ in nodes)
    for price, pods in sorted(nodes, key=lambda node: node[1] / node[0] if node[0] else float("inf")):
        if pods > evictions:
            return left - price * evictions / pods
        left -= price
        evictions -= pods
    return left


def berth(args, price):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [args.berth, "plan", "-f", args.cluster, "--instance-types", args.types, "--disrupt", "--eviction-price",
               str(price), "-o", "json", *args.berth_args.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    disruption = json.loads(done.stdout)["disruption"]
    settled = disruption["settledHourlyCost"]
    saved = sum(command["savings"] for command in disruption["commands"])
    points, cost, evictions = [(0, settled + saved)], settled + saved, 0
    for command in disruption["commands"]:
        cost -= command["savings"]
        evictions += command["evictions"]
        points.append((evictions, cost))
    return points, len(disruption["commands"]), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("karpenter")
    parser.add_argument("cluster")
    parser.add_argument("types")
    parser.add_argument("--berth", default="berth")
    parser.add_argument("--prices", default="0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1,1.1,1.2,1.4,1.7,2")
    parser.add_argument("--berth-args", default="", help="further arguments of berth plan")
    args = parser.parse_args()
    with open(args.karpenter) as file:
        peer = json.load(file)
    with open(args.types) as types, open(args.cluster) as cluster:
        types, cluster = json.load(types), json.load(cluster)
    nodes = prices_and_pods(types, cluster)
    left = left_of_reservations(types, cluster)
    file = tempfile.NamedTemporaryFile("w", suffix=".json")
    json.dump(left, file)
    file.flush()
    args.types = file.name
    ours = []
    print(f"{peer['pods']} pods on {peer['nodes']} nodes at ${peer['startedHourlyCost']:.2f}/h")
    for price in args.prices.split(","):
        points, commands, seconds = berth(args, price)
        ours += points
        evictions, cost = points[-1]
        print(f"Berth at ${price} an eviction: ${cost:.2f}/h after {evictions} evictions, {commands} commands, {seconds:.1f} CPU s",
              flush=True)
    last = peer["passes"][-1]
    print(f"Karpenter: ${last['hourlyCost']:.2f}/h after {last['evictions']} evictions, {len(peer['passes'])} passes, "
          f"{last['cpuSeconds']:.1f} CPU s{'' if peer['settled'] else ', not settled'}")
    print("\n| evictions | Karpenter $/h | Berth $/h | less by | nobody below | less by |\n|---|---|---|---|---|---|")
    step = max(1, len(peer["passes"]) // 8)
    for at in [*peer["passes"][step - 1::step], last]:
        best = min(cost for evictions, cost in ours if evictions <= at["evictions"])
        least, peer_cost = nobody_below(nodes, at["evictions"]), at["hourlyCost"]
        print(f"| {at['evictions']} | {peer_cost:.2f} | {best:.2f} | {100 * (1 - best / peer_cost):.1f}% "
              f"| {least:.2f} | {100 * (1 - least / peer_cost):.1f}% |")


if __name__ == "__main__":
    main()

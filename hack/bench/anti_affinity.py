#!/usr/bin/env python3
"""Write pods that exclude each other by hostname, and a catalogue with one reservation of one instance.

usage: anti_affinity.py OUT [--pods N] [--reserved-only]

Writes OUT.json, a List of a NodePool and a Deployment of N replicas, and OUT-types.json, three types in two zones.
Expected: one node on the reservation and N-1 elsewhere in one pass; with --reserved-only, which lets the NodePool use
reserved capacity alone, one pod placed and N-1 unschedulable for that reason.
"""
import argparse
import json

ZONES = ["zone-a", "zone-b"]
TYPES = [("s.large", "2", "8Gi", 0.10), ("s.xlarge", "4", "16Gi", 0.20), ("s.2xlarge", "8", "32Gi", 0.40)]
RESERVED_TYPE = "s.xlarge"


def requirement(key, *values):
    return {"key": key, "operator": "In", "values": list(values)}


def offering(capacity_type, zone, price, **more):
    requirements = [requirement("karpenter.sh/capacity-type", capacity_type), requirement("topology.kubernetes.io/zone", zone)]
    if "reservation" in more:
        requirements.append(requirement("karpenter.sh/reservation-id", more["reservation"]))
        return {"Price": price, "Available": True, "ReservationCapacity": 1, "Requirements": requirements}
    return {"Price": price, "Available": True, "Requirements": requirements}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--pods", type=int, default=10_000)
    ap.add_argument("--reserved-only", action="store_true")
    a = ap.parse_args()
    types = []
    for name, cpu, memory, price in TYPES:
        offerings = [offering("on-demand", z, price) for z in ZONES]
        if name == RESERVED_TYPE:
            offerings.append(offering("reserved", ZONES[0], price / 1e7, reservation="cr-single"))
        types.append({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
                      "resources": {"cpu": cpu, "memory": memory, "pods": "110"}, "offerings": offerings})
    capacity_types = ["reserved"] if a.reserved_only else ["reserved", "on-demand"]
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
        "requirements": [requirement("karpenter.sh/capacity-type", *capacity_types)], "expireAfter": "720h"}}}}
    labels = {"app": "lonely"}
    spec = {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]}}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lonely", "namespace": "default"},
                  "spec": {"replicas": a.pods, "selector": {"matchLabels": labels},
                           "template": {"metadata": {"labels": labels}, "spec": spec}}}
    with open(a.out + "-types.json", "w") as f:
        json.dump(types, f)
    with open(a.out + ".json", "w") as f:
        json.dump({"apiVersion": "v1", "kind": "List", "items": [pool, deployment]}, f)
    print(len(types), "types,", a.pods, "pods, 1 reservation of 1")


if __name__ == "__main__":
    main()

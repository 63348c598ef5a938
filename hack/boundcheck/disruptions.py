"""Random small clusters of `berth plan --disrupt --bound`, and the least that consolidation may leave.

The program knows which nodes stay and what comes to them, and what new nodes hold. It is exact about sizes, hosts that
pods of an app may not share, slots of reservations, what PodDisruptionBudgets and do-not-disrupt keep, and the price of an
eviction. It is solved twice. Where limits of a NodePool count only what is there at the end, no end may cost less. Where
they count nodes that go beside those that come, as no command could avoid, that end can be reached: a bound is not above it.
Weights of NodePools it leaves out, as bounds do.
"""
import itertools

from exact import Program, fillings

ZONE, CAPACITY, RESERVATION = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type", "berth.sh/capacity-reservation-id"
KEEP = "karpenter.sh/do-not-disrupt"


def random_case(rng):
    """Types, pools, apps and nodes, in whole milli-CPU and MiB."""
    types = []
    for at in range(rng.randint(2, 4)):
        cpu = rng.choice([1000, 2000, 3000, 4000, 6000])
        memory = cpu * rng.choice([1, 2, 4]) * 1024 // 1000
        price = round((cpu / 1000 * 0.03 + memory / 1024 * 0.006) * rng.uniform(0.7, 1.3), 4)
        types.append({"name": f"t{at}", "cpu": cpu, "memory": memory, "pods": rng.choice([3, 5, 20, 110]), "price": price})
    slots = [{"name": f"cr-{at}", "type": rng.randrange(len(types)), "free": rng.randint(0, 2)}
             for at in range(rng.choice([0, 0, 1, 2]))]
    apps = []
    for at in range(rng.randint(1, 4)):
        apps.append({"name": f"app-{at}", "cpu": rng.randint(2, 18) * 100, "memory": rng.randint(2, 18) * 128,
                     "apart": rng.random() < 0.25, "allowed": rng.choice([None] * 5 + [0, 1, 2])})
    pools = [{"name": f"pool-{at}", "limits": {}, "weight": 0, "slots": rng.random() < 0.8} for at in range(rng.choice([1, 1, 2]))]
    if len(pools) > 1 and rng.random() < 0.5:
        pools[1]["weight"] = 10
    nodes = []
    is_alike = rng.random() < 0.3
    for at in range(rng.randint(2, 8 if is_alike else 6)):
        if is_alike and nodes and rng.random() < 0.7:
            nodes.append(rng.choice(nodes) | {"name": f"n{at}", "keep": None})
            continue
        of = rng.randrange(len(types))
        one = types[of]
        pool = rng.randrange(len(pools))
        mine = [slot["name"] for slot in slots if slot["type"] == of and pools[pool]["slots"]]
        reservation = rng.choice(mine) if mine and rng.random() < 0.5 else None
        holds, room = [0] * len(apps), [one["cpu"], one["memory"], one["pods"]]
        for _ in range(rng.choice([0, 1, 2, 3, 4, 6])):
            index = rng.randrange(len(apps))
            app = apps[index]
            size = [app["cpu"], app["memory"], 1]
            if all(need <= there for need, there in zip(size, room)) and not (app["apart"] and holds[index]):
                holds[index] += 1
                room = [there - need for need, there in zip(size, room)]
        nodes.append({"name": f"n{at}", "type": of, "pool": pool, "holds": holds, "room": room,
                      "reservation": reservation, "keep": rng.choice([None] * 8 + ["node", "pod"])})
    for at, pool in enumerate(pools):
        there = [types[node["type"]]["cpu"] / 1000 for node in nodes if node["pool"] == at]
        if rng.random() < 0.35:
            pool["limits"]["cpu"] = int(sum(there)) + rng.randint(0, 6)
        if rng.random() < 0.25:
            pool["limits"]["nodes"] = len(there) + rng.randint(0, 2)
    return {"types": types, "slots": slots, "apps": apps, "pools": pools, "nodes": nodes,
            "price": rng.choice([0, 0, 0.005, 0.01, 0.02, 0.05])}


def catalogue(case):
    """The instance catalogue file."""

    def offering(price, **labels):
        return {"Price": price, "Requirements": [{"key": key, "operator": "In", "values": [value]}
                                                 for key, value in labels.items()]}

    made = []
    for at, one in enumerate(case["types"]):
        offerings = [offering(one["price"], **{CAPACITY: "on-demand", ZONE: "zone-a"})]
        offerings += [offering(one["price"], **{CAPACITY: "reserved", ZONE: "zone-a", RESERVATION: slot["name"]})
                      | {"ReservationCapacity": slot["free"]} for slot in case["slots"] if slot["type"] == at]
        made.append({"name": one["name"], "architecture": "amd64", "operatingSystems": ["linux"],
                     "resources": {"cpu": f"{one['cpu']}m", "memory": f"{one['memory']}Mi", "pods": str(one["pods"])},
                     "offerings": offerings})
    return made


def manifests(case):
    """The List that `berth plan` reads."""
    items = []
    for pool in case["pools"]:
        kinds = ["on-demand"] + ["reserved"] * pool["slots"]
        spec = {"template": {"spec": {
            "nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"}, "expireAfter": "Never",
            "requirements": [{"key": CAPACITY, "operator": "In", "values": kinds}]}},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                           "budgets": [{"nodes": "100%"}]}}
        if pool["limits"]:
            spec["limits"] = {name: str(limit) for name, limit in pool["limits"].items()}
        if pool["weight"]:
            spec["weight"] = pool["weight"]
        items.append({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool["name"]}, "spec": spec})
    for app in case["apps"]:
        if app["allowed"] is not None:
            count = sum(node["holds"][case["apps"].index(app)] for node in case["nodes"])
            items.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                          "metadata": {"name": app["name"], "namespace": "default"},
                          "spec": {"minAvailable": max(count - app["allowed"], 0),
                                   "selector": {"matchLabels": {"app": app["name"]}}}})
    for node in case["nodes"]:
        one = case["types"][node["type"]]
        room = {"cpu": f"{one['cpu']}m", "memory": f"{one['memory']}Mi", "pods": str(one["pods"])}
        items.append({"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": node["name"], "annotations": {KEEP: "true"} if node["keep"] == "node" else {}, "labels": {
                "karpenter.sh/nodepool": case["pools"][node["pool"]]["name"], ZONE: "zone-a",
                CAPACITY: "reserved" if node["reservation"] else "on-demand",
                **({RESERVATION: node["reservation"]} if node["reservation"] else {}),
                "karpenter.sh/initialized": "true", "karpenter.sh/registered": "true", "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux", "kubernetes.io/hostname": node["name"],
                "node.kubernetes.io/instance-type": one["name"]}},
            "spec": {"providerID": f"check:///{node['name']}"}, "status": {"capacity": room, "allocatable": room}})
        is_first = True
        for app, count in zip(case["apps"], node["holds"]):
            for at in range(count):
                items.append(_pod(app, node, at, node["keep"] == "pod" and is_first))
                is_first = False
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _pod(app, node, at, is_kept):
    name = f"{app['name']}-{node['name']}-{at}"
    requests = {"cpu": f"{app['cpu']}m", "memory": f"{app['memory']}Mi"}
    spec = {"nodeName": node["name"], "containers": [{"name": "a", "image": "a", "resources": {"requests": requests}}]}
    if app["apart"]:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app["name"]}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": name, "namespace": "default", "uid": name, "labels": {"app": app["name"]},
        "annotations": {KEEP: "true"} if is_kept else {},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app["name"], "uid": app["name"],
                             "controller": True}]}, "spec": spec, "status": {"phase": "Running"}}


def stays(case, node):
    """Whether something keeps a node whatever that costs."""
    is_kept = node["keep"] == "node" or node["keep"] == "pod" and any(node["holds"])
    return is_kept or any(count and app["allowed"] == 0 for count, app in zip(node["holds"], case["apps"]))


def least(case, seconds, beside):
    """The least that all nodes cost in the end, the price of what is disrupted included. `beside` says that limits count
    nodes that go as well as those that come."""
    apps, types, program = case["apps"], case["types"], Program()
    sizes = [[app["cpu"], app["memory"], 1] for app in apps]
    totals = [sum(node["holds"][at] for node in case["nodes"]) for at in range(len(apps))]
    of_app, limits, slots, left = [{} for _ in apps], {}, {}, {}
    cost_of = lambda node: 0.0 if node["reservation"] else types[node["type"]]["price"]

    def count(pool, one, uses, times=1):
        for name, limit in case["pools"][pool]["limits"].items():
            amount = 1 if name == "nodes" else one["cpu"] / 1000
            limits.setdefault((pool, name), (limit, {}))[1][uses] = amount * times

    for node in case["nodes"]:
        one, mine = types[node["type"]], {}
        others = [total - held for total, held in zip(totals, node["holds"])]
        allows = lambda filling, node=node: all(
            not app["apart"] or not more or held + more <= 1 for app, held, more in zip(apps, node["holds"], filling))
        for filling in [tuple([0] * len(apps)), *fillings(others, sizes, node["room"], allows)]:
            uses = program.variable(cost_of(node), upper=1)
            mine[uses] = 1
            for at, (held, more) in enumerate(zip(node["holds"], filling)):
                if held + more:
                    of_app[at][uses] = held + more
            if not beside:
                count(node["pool"], one, uses)
        if not stays(case, node):
            # Empty nodes go at any price.
            disrupted = 1 + sum(node["holds"]) if any(node["holds"]) else 0
            goes = program.variable(case["price"] * disrupted, upper=1)
            mine[goes] = 1
            # Its slot is free then.
            left.setdefault(node["reservation"], []).append(goes)
        program.row(mine, 1, 1)
    if beside:
        always = program.variable(0.0, upper=1)
        program.row({always: 1}, 1, 1)
        for (pool, known) in enumerate(case["pools"]):
            for name in known["limits"]:
                there = [1 if name == "nodes" else types[node["type"]]["cpu"] / 1000
                         for node in case["nodes"] if node["pool"] == pool]
                limits[(pool, name)] = (known["limits"][name], {always: sum(there)})
    supplies = [(None, at, None) for at in range(len(types))]
    supplies += [(slot["name"], slot["type"], slot["free"]) for slot in case["slots"]]
    for pool, (reservation, at, free) in itertools.product(range(len(case["pools"])), supplies):
        if reservation and not case["pools"][pool]["slots"]:
            continue
        one = types[at]
        allows = lambda filling: all(not app["apart"] or n <= 1 for app, n in zip(apps, filling))
        for filling in fillings(totals, sizes, [one["cpu"], one["memory"], one["pods"]], allows):
            uses = program.variable(0.0 if reservation else one["price"])
            for app, n in enumerate(filling):
                if n:
                    of_app[app][uses] = n
            count(pool, one, uses)
            if reservation:
                slots.setdefault(reservation, (free, {goes: -1 for goes in left.get(reservation, [])}))[1][uses] = 1
    for terms, total in zip(of_app, totals):
        program.row(terms, total, total)
    for limit, terms in itertools.chain(limits.values(), slots.values()):
        program.row(terms, at_most=limit)
    found = program.solve(seconds)
    return found and found[0]

"""Random small inputs of `berth plan`, and the least that any plan of the same pods may cost.

The program knows a node's offering and filling, so that it is exact about: sizes, DaemonSets, selectors, taints,
reservations and other finite supplies, limits, node cost, host ports, anti-affinity, affinity and spreads over nodes and
over zones, GPU types only for pods that ask for GPUs, and shares. Spreads over nodes are as Berth and Karpenter read them:
a node could always be launched that holds none; but for apps that are told to be crowded, as limits allow no further node: the
least cost of these leaves such spreads out. Weights of NodePools it leaves out, as bounds do.
"""
import itertools

from exact import Program, fillings

ZONES = ["zone-a", "zone-b", "zone-c"]
CAPACITY_TYPES = ["on-demand", "spot", "reserved"]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY, RESERVATION = "karpenter.sh/capacity-type", "berth.sh/capacity-reservation-id"
GPU = "nvidia.com/gpu"
ALL = 10**9


def random_case(rng):
    """Types, pools, apps and flags, in whole milli-CPU and MiB."""
    zones = ZONES[: rng.choice([1, 2, 2, 3])]
    types, n_types = [], rng.randint(2, 4)
    for at in range(n_types):
        cpu = rng.choice([1000, 2000, 3000, 4000, 6000])
        memory = cpu * rng.choice([1, 2, 4]) * 1024 // 1000
        gpus = rng.choice([0] * 5 + [1, 2])
        each = (cpu / 1000 * 0.03 + memory / 1024 * 0.006 + gpus * 0.05) * rng.uniform(0.7, 1.3)
        types.append({"name": f"t{at}", "cpu": cpu, "memory": memory, "gpus": gpus,
                      "pods": rng.choice([3, 5, 20, 110]), "price": round(each, 4), "offerings": []})
    for one in types:
        spot = rng.random() < 0.6
        for zone in zones:
            price = round(one["price"] * rng.choice([1, 1, rng.uniform(0.9, 1.1)]), 4)
            there = rng.choice([None] * 6 + [rng.randint(1, 3)])
            one["offerings"].append({"zone": zone, "type": "on-demand", "price": price, "there": there, "id": None})
            if spot:
                price = round(one["price"] * rng.uniform(0.3, 0.8), 4)
                one["offerings"].append({"zone": zone, "type": "spot", "price": price, "there": None, "id": None})
    reservations = {}
    for at in range(rng.choice([0, 0, 1, 2, 3])):
        one, zone, name = rng.choice(types), rng.choice(zones), f"cr-{at}"
        if all(known["zone"] != zone or known["type"] != "reserved" for known in one["offerings"]):
            reservations[name] = rng.randint(1, 3)
            one["offerings"].append({"zone": zone, "type": "reserved", "price": one["price"],
                                     "there": reservations[name], "id": name})
    pools = []
    for at in range(rng.choice([1, 1, 2])):
        kinds = rng.choice([["on-demand", "reserved"], ["on-demand", "spot", "reserved"], ["on-demand"],
                            ["on-demand", "spot"]])
        limits = {}
        if rng.random() < 0.35:
            limits["cpu"] = rng.randint(4, 30)
        if rng.random() < 0.2:
            limits["nodes"] = rng.randint(1, 8)
        pools.append({"name": f"pool-{at}", "types": kinds, "limits": limits, "tainted": at > 0 and rng.random() < 0.4,
                      "weight": 0})
    if len(pools) > 1 and rng.random() < 0.15:
        pools[0]["weight"] = 10
    apps, n_pods = [], 0
    for at in range(rng.randint(1, 5)):
        replicas = rng.randint(1, 7)
        if n_pods + replicas > 18:
            break
        n_pods += replicas
        app = {"name": f"app-{at}", "replicas": replicas, "cpu": rng.randint(2, 24) * 100,
               "memory": rng.randint(2, 24) * 128, "gpus": 0, "rules": [], "zones": None, "types": None,
               "tolerates": rng.random() < 0.5, "port": None}
        if rng.random() < 0.25 and any(one["gpus"] for one in types):
            app["gpus"] = 1
        kind = rng.random()
        if kind < 0.12:
            app["rules"].append(("spread", ZONE, rng.randint(1, 2)))
        elif kind < 0.22:
            app["rules"].append(("spread", HOST, rng.randint(1, 2)))
        elif kind < 0.32:
            app["rules"].append(("apart", HOST, app["name"]))
        elif kind < 0.42 and at:
            app["rules"].append(("apart", HOST, f"app-{rng.randrange(at)}"))
        elif kind < 0.47:
            app["rules"].append(("together", ZONE, app["name"]))
        elif kind < 0.52:
            app["rules"].append(("together", HOST, app["name"]))
        elif kind < 0.57:
            app["rules"].append(("apart", ZONE, app["name"]))
        elif kind < 0.62:
            app["port"] = 8080
        elif kind < 0.70:
            app["zones"] = rng.sample(zones, rng.randint(1, len(zones)))
        elif kind < 0.76:
            app["types"] = rng.choice([["on-demand"], ["spot", "on-demand"], ["on-demand", "reserved"]])
        apps.append(app)
    shares = []
    if rng.random() < 0.3:
        key = rng.choice(["zone", "instanceType", "capacityType=spot", "capacityType=spot"])
        shares.append((key, rng.choice([30, 40, 50, 60, 75])))
        if rng.random() < 0.3 and key != "zone":
            shares.append(("zone", rng.choice([50, 60, 75])))
    daemon = {"cpu": 100, "memory": 128} if rng.random() < 0.3 else None
    node_cost = rng.choice([0, 0, 0, 0.01, 0.05])
    return {"zones": zones, "types": types, "reservations": reservations, "pools": pools, "apps": apps,
            "shares": shares, "daemon": daemon, "nodeCost": node_cost}


def catalogue(case):
    """The instance catalogue file."""

    def offering(one):
        keys = {CAPACITY: one["type"], ZONE: one["zone"]} | ({RESERVATION: one["id"]} if one["id"] else {})
        requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in keys.items()]
        supply = {"ReservationCapacity" if one["id"] else "Available": one["there"]} if one["there"] is not None else {}
        return {"Price": one["price"], "Requirements": requirements} | supply

    def resources(one):
        gpus = {GPU: str(one["gpus"])} if one["gpus"] else {}
        return {"cpu": f"{one['cpu']}m", "memory": f"{one['memory']}Mi", "pods": str(one["pods"])} | gpus

    return [{"name": one["name"], "architecture": "amd64", "operatingSystems": ["linux"], "resources": resources(one),
             "offerings": [offering(each) for each in one["offerings"]]} for one in case["types"]]


def manifests(case):
    """The List that `berth plan` reads."""
    items = [_pool(pool) for pool in case["pools"]] + [_deployment(app) for app in case["apps"]]
    if case["daemon"]:
        template = _template("agent", case["daemon"] | {"gpus": 0})
        template["spec"]["tolerations"] = [{"operator": "Exists"}]
        items.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
                      "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def flags(case):
    """Those of `berth plan`."""
    shares = itertools.chain.from_iterable(["--max-share", f"{key}={share}%"] for key, share in case["shares"])
    return [*shares, "--node-cost", str(case["nodeCost"])]


def _pool(pool):
    spec = {"nodeClassRef": {"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
            "requirements": [{"key": CAPACITY, "operator": "In", "values": pool["types"]}]}
    if pool["tainted"]:
        spec["taints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    rest = {"limits": {name: str(limit) for name, limit in pool["limits"].items()}} if pool["limits"] else {}
    if pool["weight"]:
        rest["weight"] = pool["weight"]
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool["name"]},
            "spec": {"template": {"spec": spec}} | rest}


def _template(name, app):
    requests = {"cpu": f"{app['cpu']}m", "memory": f"{app['memory']}Mi"} | ({GPU: "1"} if app["gpus"] else {})
    limits = {"limits": {GPU: "1"}} if app["gpus"] else {}
    container = {"name": "a", "image": "a", "resources": {"requests": requests} | limits}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def _deployment(app):
    template = _template(app["name"], app)
    spec, affinity = template["spec"], {}
    if app["port"]:
        spec["containers"][0]["ports"] = [{"containerPort": app["port"], "hostPort": app["port"]}]
    if app["tolerates"]:
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    for kind, key, of in app["rules"]:
        if kind == "spread":
            spec["topologySpreadConstraints"] = [
                {"maxSkew": of, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": app["name"]}}}]
            continue
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": of}}}
        name = "podAntiAffinity" if kind == "apart" else "podAffinity"
        affinity[name] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    among = [{"key": key, "operator": "In", "values": app[name]}
             for key, name in [(ZONE, "zones"), (CAPACITY, "types")] if app[name]]
    if among:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": among}]}}
    if affinity:
        spec["affinity"] = affinity
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app["name"]},
            "spec": {"replicas": app["replicas"], "selector": {"matchLabels": {"app": app["name"]}},
                     "template": template}}


def is_crowded(app, claims):
    """Whether a node holds more pods of an app than its spread over nodes has as skew."""
    skews = [of for kind, key, of in app["rules"] if kind == "spread" and key == HOST]
    mine = lambda pod: pod.split("/")[1].rsplit("-", 1)[0] == app["name"]
    return any(sum(map(mine, claim["pods"])) > of for of in skews for claim in claims)


def optimum(case, placed, seconds, crowded=frozenset()):
    """The least cost of new nodes for so many pods of each app, node cost included; None if there is no plan."""
    apps = case["apps"]
    program = Program()
    of_app, of_zone = [{} for _ in apps], [{zone: {} for zone in case["zones"]} for _ in apps]
    supplies, limits, cells = {}, {}, {}
    for pool, one in itertools.product(case["pools"], case["types"]):
        for at, offering in enumerate(one["offerings"]):
            if offering["type"] not in pool["types"]:
                continue
            price = 0.0 if offering["type"] == "reserved" else offering["price"]
            for filling in _fillings(case, placed, pool, one, offering, crowded):
                uses = program.variable(price + case["nodeCost"])
                for index, n in enumerate(filling):
                    if n:
                        of_app[index][uses] = n
                        of_zone[index][offering["zone"]][uses] = n
                if offering["there"] is not None:
                    supply = offering["id"] or (one["name"], at)
                    supplies.setdefault(supply, (offering["there"], {}))[1][uses] = 1
                for name, limit in pool["limits"].items():
                    amount = 1 if name == "nodes" else one["cpu"] / 1000
                    limits.setdefault((pool["name"], name), (limit, {}))[1][uses] = amount
                for rule, (key, share) in enumerate(case["shares"]):
                    value = {"zone": offering["zone"], "instanceType": one["name"],
                             "capacityType=spot": offering["type"]}[key]
                    if "=" not in key or value == key.split("=")[1]:
                        cells.setdefault((rule, value), (share, []))[1].append((uses, filling))
    for terms, count in zip(of_app, placed):
        program.row(terms, count, count)
    for there, terms in itertools.chain(supplies.values(), limits.values()):
        program.row(terms, at_most=there)
    for index, app in enumerate(apps):
        if placed[index]:
            _rules_of_zones(program, app, of_zone[index], placed[index])
    total = sum(n * app["cpu"] for n, app in zip(placed, apps))
    for share, uses in cells.values():
        _share(program, apps, placed, share, total, uses)
    found = program.solve(seconds)
    return found and found[0]


def _fillings(case, placed, pool, one, offering, crowded):
    apps, daemon = case["apps"], case["daemon"] or {"cpu": 0, "memory": 0}
    room = [one["cpu"] - daemon["cpu"], one["memory"] - daemon["memory"], one["gpus"],
            one["pods"] - bool(case["daemon"])]
    sizes = [[app["cpu"], app["memory"], app["gpus"], 1] for app in apps]

    def admits(app):
        return ((app["tolerates"] or not pool["tainted"]) and offering["zone"] in (app["zones"] or ZONES)
                and offering["type"] in (app["types"] or CAPACITY_TYPES))

    names = {app["name"]: at for at, app in enumerate(apps)}

    def allows(filling):
        if sum(n for n, app in zip(filling, apps) if app["port"]) > 1:
            return False
        if one["gpus"] and offering["type"] != "reserved" and not any(n and app["gpus"] for n, app in zip(filling, apps)):
            return False
        for n, app, of_all in zip(filling, apps, placed):
            for kind, key, of in app["rules"] if n else []:
                if key == HOST and (kind == "spread" and n > of and app["name"] not in crowded or kind == "together" and n < of_all
                                    or kind == "apart" and filling[names[of]] > (of == app["name"])):
                    return False
        return True

    counts = [n if admits(app) else 0 for n, app in zip(placed, apps)]
    return fillings(counts, sizes, room, allows)


def _rules_of_zones(program, app, by_zone, count):
    for kind, key, of in app["rules"]:
        if key != ZONE:
            continue
        if kind == "apart":
            for terms in by_zone.values():
                program.row(terms, at_most=1)
        elif kind == "spread":
            # The emptiest zone has so many; no zone has more than that and the skew.
            emptiest = program.variable(upper=count)
            for terms in by_zone.values():
                program.row(terms | {emptiest: -1}, at_least=0, at_most=of)
        elif kind == "together":
            chosen = [program.variable(upper=1) for _ in by_zone]
            program.row({each: 1 for each in chosen}, 1, 1)
            for each, terms in zip(chosen, by_zone.values()):
                program.row(terms | {each: -count}, at_most=0)


def _share(program, apps, placed, share, total, uses):
    """Without its smallest pod a value has less than its share of what is requested."""
    load = {each: sum(n * app["cpu"] for n, app in zip(filling, apps)) for each, filling in uses}
    for index, app in enumerate(apps):
        terms = {each: filling[index] for each, filling in uses if filling[index]}
        if not terms:
            continue
        is_there = program.variable(upper=1)
        program.row(terms | {is_there: -placed[index]}, at_most=0)
        # Whole milli-CPUs below a bound that need not be whole.
        most = -(-share * total // 100) - 1 + app["cpu"]
        program.row(load | {is_there: total}, at_most=most + total)

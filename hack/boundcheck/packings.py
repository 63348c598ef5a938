"""Random small packing problems, their least cost by trying all patterns at once, and what berth-packing makes of them.

A problem and an answer are objects of JSON as `src/packing/examples/answers.rs` reads and writes them.
"""
import json
import subprocess

from exact import Program, fillings


def random_problem(rng):
    n_items, n_resources = rng.randint(1, 5), rng.randint(1, 3)
    largest = rng.choice([6, 10, 40])
    items = []
    for _ in range(n_items):
        size = [rng.randint(0, largest) for _ in range(n_resources)]
        items.append({"count": rng.randint(1, 6), "size": size, "atMost": rng.choice([None] * 4 + [1, 2])})
    stocks, bins = [], []
    for at in range(rng.randint(1, 4)):
        # The first is for every item, mostly.
        is_for_all = at == 0 and rng.random() < 0.85
        room = [rng.randint(largest if is_for_all else largest // 2, largest * 3) for _ in range(n_resources)]
        admits = [item for item in range(n_items) if is_for_all or rng.random() < 0.85]
        draws, is_finite = [], not is_for_all and rng.random() < 0.5
        if is_finite:
            draws.append([len(stocks), 1.0])
            stocks.append(float(rng.randint(0, 3)))
        about = sum(room) / largest / n_resources
        cost = 0.0 if is_finite and rng.random() < 0.5 else round(about * rng.uniform(0.5, 1.6) + 0.01, 3)
        bins.append({"cost": cost, "room": room, "admits": admits, "draws": draws, "loads": []})
    if rng.random() < 0.4:
        # A limit over several types of bins, each of which uses so much of it.
        limit = len(stocks)
        stocks.append(float(rng.randint(6, 40)))
        for one in rng.sample(bins, rng.randint(1, len(bins))):
            one["draws"].append([limit, float(rng.randint(1, 6))])
    for item in items:
        item["load"] = float(rng.randint(0, 4))
    for _ in range(rng.choice([0, 0, 1, 2])):
        # A stock that items draw from in some bins.
        for one in rng.sample(bins, rng.randint(1, len(bins))):
            one["loads"].append(len(stocks))
        stocks.append(float(rng.randint(6, 40)))
    some = lambda: [at for at in range(n_items) if rng.random() < 0.5]
    rules = [{"subjects": some(), "counted": some(), "atMost": rng.randint(0, 2)} for _ in range(rng.choice([0, 0, 1, 2]))]
    needs = []
    if rng.random() < 0.35:
        needs.append({"bins": [at for at in range(len(bins)) if at and rng.random() < 0.7], "items": some()})
    return {"items": items, "bins": bins, "stocks": stocks, "rules": rules, "needs": needs,
            "effort": rng.choice(["quick", "default", "thorough"])}


def is_allowed(problem, index, filling):
    """Whether a bin may be filled so, its room aside."""
    items, one = problem["items"], problem["bins"][index]
    for at, n in enumerate(filling):
        if n and (at not in one["admits"] or n > (items[at]["atMost"] or n)):
            return False
    for rule in problem["rules"]:
        if any(filling[at] for at in rule["subjects"]) and sum(filling[at] for at in rule["counted"]) > rule["atMost"]:
            return False
    return all(index not in need["bins"] or any(filling[at] for at in need["items"]) for need in problem["needs"])


def drawn(problem, one, filling):
    """What a bin filled so draws from which stocks."""
    load = sum(n * item["load"] for n, item in zip(filling, problem["items"]))
    return [*one["draws"], *([stock, load] for stock in one["loads"])]


def optimum(problem, seconds):
    """The least cost of a packing of all items, or None if there is none."""
    counts, sizes = [item["count"] for item in problem["items"]], [item["size"] for item in problem["items"]]
    program, of_item = Program(), [{} for _ in counts]
    of_stock = [{} for _ in problem["stocks"]]
    for index, one in enumerate(problem["bins"]):
        for filling in fillings(counts, sizes, one["room"], lambda f, index=index: is_allowed(problem, index, f)):
            uses = program.variable(one["cost"])
            for at, n in enumerate(filling):
                if n:
                    of_item[at][uses] = n
            for stock, amount in drawn(problem, one, filling):
                of_stock[stock][uses] = of_stock[stock].get(uses, 0) + amount
    for terms, count in zip(of_item, counts):
        program.row(terms, count, count)
    for terms, there in zip(of_stock, problem["stocks"]):
        program.row(terms, at_most=there)
    found = program.solve(seconds)
    return found and found[0]


def answers(binary, problems):
    """What berth-packing answers to each problem."""
    lines = "".join(json.dumps(problem) + "\n" for problem in problems)
    out = subprocess.run([binary], input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def faults(problem, answer):
    """What is wrong with a plan as a packing, in sentences; and whether it packs everything."""
    found = []
    left = [item["count"] for item in problem["items"]]
    stocks = list(problem["stocks"])
    cost = 0.0
    for part in answer["plan"]:
        one, filling = problem["bins"][part["bin"]], [0] * len(left)
        for at, n in part["items"]:
            filling[at] = n
        takes = [sum(n * item["size"][r] for n, item in zip(filling, problem["items"])) for r in range(len(one["room"]))]
        if any(take > there for take, there in zip(takes, one["room"])) or not is_allowed(problem, part["bin"], filling):
            found.append(f"a bin may not be filled so: {part}")
        for at, n in part["items"]:
            left[at] -= n * part["bins"]
        for stock, amount in drawn(problem, one, filling):
            stocks[stock] -= amount * part["bins"]
        cost += one["cost"] * part["bins"]
    if any(there < -1e-6 for there in stocks):
        found.append(f"a stock is overdrawn: {stocks}")
    if any(there < 0 for there in left):
        found.append(f"more is packed than there is: {left}")
    return found, cost, not any(left)

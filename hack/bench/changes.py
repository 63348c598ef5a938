#!/usr/bin/env python3
"""Change pods of a running `berth sandbox` at a steady rate, and say what that costs it.

usage: changes.py KUBECONFIG --pid PID [--rate N] [--seconds N] [--metrics URL]

Half of the changes create a pod without a node, the other half delete one that was created ten seconds before. Before and
after, and while it does so, the CPU time of the process is read from /proc. With --metrics, prints how long pods took from
their event to their Binding request (`scheduler_pod_scheduling_sli_duration_seconds`) as the share below each bound.
"""
import argparse
import base64
import collections
import http.client
import json
import os
import re
import ssl
import time
import urllib.parse
import urllib.request


def connect(path):
    config = json.load(open(path))
    cluster = config["clusters"][0]["cluster"]
    url = urllib.parse.urlparse(cluster["server"])
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)
    return connection, {"Authorization": "Bearer " + config["users"][0]["user"]["token"], "Content-Type": "application/json"}


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) / 2**20


def scheduled(url):
    if not url:
        return {}
    text = urllib.request.urlopen(url).read().decode()
    found = re.findall(r'scheduler_pod_scheduling_sli_duration_seconds_bucket\{[^}]*le="([^"]+)"\}\s+([0-9.]+)', text)
    return {float(bound.replace("+Inf", "inf")): float(n) for bound, n in found}


def idle(pid, seconds):
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("kubeconfig")
    ap.add_argument("--pid", type=int, required=True)
    ap.add_argument("--rate", type=float, default=50)
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--idle", type=float, default=60, help="seconds without a change that are measured first")
    ap.add_argument("--metrics")
    a = ap.parse_args()
    print(f"idle: {idle(a.pid, a.idle):.3f} of a core, {resident(a.pid):.2f} GiB", flush=True)
    connection, headers = connect(a.kubeconfig)

    def call(method, path, body=None):
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300 and answer.status != 404:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]}")

    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "registry.example/new:1", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}
    known, made, n_late = collections.deque(), 0, 0
    before, cpu, start = scheduled(a.metrics), cpu_seconds(a.pid), time.time()
    while (now := time.time()) < start + a.seconds:
        if known and known[0][0] < now - 10:
            call("DELETE", f"{pods}/{known.popleft()[1]}")
        name = f"new-{os.getpid()}-{made}"
        call("POST", pods, {"metadata": {"name": name, "labels": {"app": "new"}}, "spec": {"containers": [container]}})
        known.append((now, name))
        made += 1
        wait = start + made * 2 / a.rate - time.time()
        n_late += wait < 0
        time.sleep(max(wait, 0))
    took = time.time() - start
    print(f"{made} pods made in {took:.0f} s ({n_late} late): {(cpu_seconds(a.pid) - cpu) / took:.2f} of a core, "
          f"{resident(a.pid):.2f} GiB", flush=True)
    time.sleep(2)
    after = scheduled(a.metrics)
    counts = {bound: n - before.get(bound, 0) for bound, n in sorted(after.items())}
    n_all = counts.get(float("inf"), 0)
    for bound, n in counts.items():
        if n_all and (n > 0 or bound >= 0.05):
            print(f"  bound within {bound:g} s: {100 * n / n_all:.2f}%")
            if n == n_all:
                break


if __name__ == "__main__":
    main()

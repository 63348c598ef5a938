#!/usr/bin/env python3
"""Karpenter and Berth live, side by side: from pending pods to bound ones, and what that asks of the API server.

usage: live.py [--pods N,…] [--world real|memory|both] [--sides SIDE,…] [--berth PATH] [--stage PATH] [--delay SECONDS]

Each case has a cluster of its own, which ends with it: either the real control plane of hack/testenv, or Berth's API server in
memory with the built-in controllers. Both sides get the same NodePool, the instance types of Karpenter's KWOK provider, the
same Deployments, nodes that join after the same delay, and stand-in kubelets that make them ready; both wait one second for
more pods, ten at most. The sides:

  karpenter    Karpenter's own KWOK program (kwok.sh), and kube-scheduler, which binds
  berth        berth run --provider fake, its cloud as a process of its own, and kube-scheduler, which binds
  berth-binds  the same without kube-scheduler: Berth binds

Printed is a table: nodes and dollars an hour; seconds from the first pod to half of all bindings and to the last; API calls of
the autoscaler (and, after a plus, of kube-scheduler) for each pod, and of the autoscaler for each node; CPU seconds of both.
Watches and Leases are left out; the calls of kubelets, of the cloud and of controllers are nobody's. Karpenter makes the Node
objects itself, as its provider has no machines. With --calls the autoscaler's calls are listed by verb and resource.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "hack" / "bench"))
from sandbox import deployment  # noqa: E402

PATIENCE = 900
DEPLOYMENTS = 10
# Larger types are left out, so that there are nodes to count.
MOST_CPUS = 16
# What Karpenter's KWOK provider keeps of each machine.
KEPT = {"cpu": 100, "memory": 10}
POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
          "rules": [{"level": "Metadata"}]}


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def cpu_seconds(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Program:
    """A process that ends with its case."""

    def __init__(self, command, log, **more):
        self.log, self.lines = log, queue.SimpleQueue()
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=open(log, "w"), text=True, **more)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Takes in all that it says: a program that logs to a pipe which nobody reads stands still once that is full."""
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def line(self, beside=()):
        """Its next line. Nobody answers for programs that have ended, so they are told of."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                line = self.lines.get(timeout=1)
                if not line:
                    self.give_up("said nothing more")
                return line
            for program in beside:
                program.assert_runs()
        self.give_up(f"said nothing for {PATIENCE} s")

    def ask(self, command, beside=()):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self.line(beside))

    def assert_runs(self):
        if self.process.poll() is not None:
            self.give_up(f"ended with {self.process.returncode}")

    def give_up(self, why):
        raise SystemExit(f"live.py: {self.process.args[0]} {why}:\n{pathlib.Path(self.log).read_text()[-4000:]}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def node_pool(group, kind, types):
    def one(key, *values):
        return {"key": key, "operator": "In", "values": list(values)}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "disruption": {"consolidateAfter": "Never"},
        "template": {"spec": {
            "nodeClassRef": {"group": group, "kind": kind, "name": "default"}, "expireAfter": "Never",
            "requirements": [one("kubernetes.io/arch", "amd64"), one("kubernetes.io/os", "linux"),
                             one("karpenter.sh/capacity-type", "on-demand"),
                             one("node.kubernetes.io/instance-type", *types)]}}}}


def work(n_pods):
    rng = random.Random(7)
    counts = [n_pods // DEPLOYMENTS + (index < n_pods % DEPLOYMENTS) for index in range(DEPLOYMENTS)]
    return [deployment(index, count, 0.0, rng) for index, count in enumerate(counts) if count]


def net(text, kept, unit):
    """A quantity of the catalogue without what the provider keeps."""
    if unit == "cpu":
        milli = int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)
        return f"{milli - kept}m"
    scale = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
    return f"{int(float(text[:-2]) * scale[text[-2:]]) - kept}Mi"


class Case:
    def __init__(self, args, tools, world, side, n_pods, folder):
        self.args, self.tools, self.world, self.side, self.n_pods = args, tools, world, side, n_pods
        self.folder, self.programs, self.audit = folder, [], folder / "audit.log"

    def start(self, name, command, **more):
        program = Program(command, self.folder / f"{name}.log", **more)
        self.programs.append(program)
        return program

    def kubectl(self, *command, **more):
        return run(str(self.tools["testenv"]), "kubectl", "--kubeconfig", str(self.kubeconfig), *command, **more)

    def apply(self, objects):
        items = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", "-f", "-", input=items)

    def wait_for(self, what, done):
        until = time.monotonic() + PATIENCE
        while not done():
            for program in self.programs:
                program.assert_runs()
            if time.monotonic() > until:
                raise SystemExit(f"live.py: not within {PATIENCE} s: {what}")
            time.sleep(0.2)

    def kubeconfig_as(self, user):
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        for entry in config["users"]:
            entry["user"].update({"as": user, "as-groups": ["system:masters"]})
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def start_world(self):
        """The API server, controllers, kubelets, and the scheduler where it binds."""
        binds = self.side != "berth-binds"
        if self.world == "real":
            (self.folder / "audit.json").write_text(json.dumps(POLICY))
            flags = [f"--apiserver-flag=--audit-policy-file={self.folder / 'audit.json'}",
                     f"--apiserver-flag=--audit-log-path={self.audit}"]
            plane = self.start("testenv", [self.tools["testenv"], "start", "--controller-manager", *flags,
                                           *(["--scheduler"] if binds else [])])
            told = json.loads(plane.line())
            self.kubeconfig = pathlib.Path(told["kubeconfig"])
            self.scheduler = told["components"].get("kube-scheduler", {}).get("pid")
            self.stage = self.start("stage", [self.tools["stage"], self.kubeconfig])
            self.stage.line()
            return
        self.stage = self.start("stage", [self.tools["stage"], "memory"])
        text = self.stage.line()
        while True:
            with contextlib.suppress(json.JSONDecodeError):
                json.loads(text)
                break
            text += self.stage.line()
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(text)
        self.scheduler = None
        if binds:
            config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                      "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 5000, "burst": 5000},
                      "leaderElection": {"leaderElect": False}}
            (self.folder / "scheduler.json").write_text(json.dumps(config))
            # Programs call themselves by the name that they were started as.
            program = self.start("kube-scheduler", ["kube-scheduler", "--secure-port=0",
                                                    f"--config={self.folder / 'scheduler.json'}"],
                                 executable=str(self.tools["testenv"]))
            self.scheduler = program.process.pid

    def start_side(self):
        """The autoscaler with its definitions, its node class and the NodePool; its process."""
        delay = f"{self.args.delay}s"
        if self.side == "karpenter":
            self.kubectl("apply", "--server-side", "-f", str(self.tools["karpenter"] / "crds"))
            self.wait_for("KWOKNodeClass is served", lambda: self.has("kwoknodeclasses.karpenter.kwok.sh"))
            self.apply([{"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
                         "metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": delay}},
                        node_pool("karpenter.kwok.sh", "KWOKNodeClass", self.tools["small"])])
            # It ends when it cannot renew its Lease within ten seconds, as on a machine that is busy with other work.
            environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "DISABLE_LEADER_ELECTION": "true",
                           "SYSTEM_NAMESPACE": "kube-system", "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
            return self.start("karpenter", [self.tools["karpenter"] / "kwok"], env=environment).process.pid
        definitions = run(str(self.tools["berth"]), "crds")
        self.kubectl("apply", "--server-side", "-f", "-", input=definitions)
        self.wait_for("FakeNodeClass is served", lambda: self.has("fakenodeclasses.berth.sh"))
        self.apply([{"apiVersion": "berth.sh/v1alpha1", "kind": "FakeNodeClass", "metadata": {"name": "default"},
                     "spec": {"registrationDelay": delay}}, node_pool("berth.sh", "FakeNodeClass", self.tools["small"])])
        cloud = self.start("cloud", [self.tools["berth"], "cloud", "--kubeconfig", self.kubeconfig_as("cloud"),
                                     "--instance-types", self.tools["types"], "--boot-delay", "0"])
        address = cloud.line().rsplit(None, 1)[1]
        names = ["--scheduler-names", "*"] if self.side == "berth-binds" else []
        berth = self.start("berth", [self.tools["berth"], "run", "--provider", "fake", "--cloud-address", address,
                                     "--kubeconfig", self.kubeconfig_as("berth"), *names])
        return berth.process.pid

    def has(self, definition):
        text = self.kubectl("get", "crd", definition, "-o", "json", "--ignore-not-found")
        conditions = json.loads(text or "{}").get("status", {}).get("conditions", [])
        return any(own["type"] == "Established" and own["status"] == "True" for own in conditions)

    def is_pool_ready(self):
        status = json.loads(self.kubectl("get", "nodepool", "default", "-o", "json")).get("status", {})
        return any(own["type"] == "Ready" and own["status"] == "True" for own in status.get("conditions", []))

    def calls(self):
        """Requests so far, by who asks (user and program), verb and resource."""
        counts = collections.Counter()
        if self.world == "memory":
            for key, n in self.stage.ask("calls").items():
                user, program, verb, resource = key.split(" ")
                counts[user, program, verb, resource] += n
            return counts
        with open(self.audit) as lines:
            for line in lines:
                with contextlib.suppress(json.JSONDecodeError):
                    event = json.loads(line)
                    of = event.get("objectRef", {})
                    user = event.get("impersonatedUser", event["user"])["username"]
                    resource = "/".join(part for part in (of.get("resource", "-"), of.get("subresource")) if part)
                    counts[user, event.get("userAgent", "").split("/")[0], event["verb"].upper(), resource] += 1
        return counts

    def play(self):
        self.start_world()
        pid = self.start_side()
        self.wait_for("the NodePool is ready", self.is_pool_ready)
        # It has listed everything, and asked what there is to buy.
        time.sleep(10)
        before, used = self.calls(), (cpu_seconds(pid), cpu_seconds(self.scheduler))
        self.apply(work(self.n_pods))
        bound = self.stage.ask(f"bound {self.n_pods}", self.programs)
        self.stage.ask(f"running {self.n_pods}", self.programs)
        # Events and conditions that follow from it.
        time.sleep(10)
        calls = self.calls()
        calls.subtract(before)
        used = [after - before for after, before in zip((cpu_seconds(pid), cpu_seconds(self.scheduler)), used)]
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        types = [node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes]
        own, scheduler = collections.Counter(), 0
        for (user, program, verb, resource), n in calls.items():
            if verb == "WATCH" or resource.startswith("leases") or n == 0:
                continue
            if user == "berth" or program.startswith("karpenter"):
                own[verb, resource] += n
            elif "scheduler" in user or "scheduler" in program:
                scheduler += n
        return {"nodes": len(nodes), "cost": sum(self.tools["prices"][of_type] for of_type in types), "bound": bound,
                "own": own, "scheduler": scheduler, "cpu": used}

    def end(self):
        for program in reversed(self.programs):
            program.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", default="500,1000")
    parser.add_argument("--world", choices=["real", "memory", "both"], default="both")
    parser.add_argument("--sides", default="karpenter,berth,berth-binds")
    parser.add_argument("--berth", type=pathlib.Path, default=ROOT / "target/release/berth")
    parser.add_argument("--stage", type=pathlib.Path, default=ROOT / "target/release/examples/stage")
    parser.add_argument("--delay", type=int, default=2)
    parser.add_argument("--calls", action="store_true")
    args = parser.parse_args()
    for program in (args.berth, args.stage):
        if not program.exists():
            parser.error(f"{program} is not there: cargo build --release -p berth; cargo build --release -p berth-apiserver "
                         "--features listener --example stage")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-live-"))
    try:
        karpenter = pathlib.Path(run(str(HERE / "kwok.sh")).strip())
        module = run("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter", cwd=HERE).strip()
        catalogue = json.loads((pathlib.Path(module) / "kwok/cloudprovider/instance_types.json").read_text())
        prices, small = {}, []
        for of_type in catalogue:
            resources = of_type["resources"]
            if float(resources["cpu"]) <= MOST_CPUS and of_type["name"].endswith("-amd64-linux"):
                small.append(of_type["name"])
            for key, kept in KEPT.items():
                resources[key] = net(resources[key], kept, key)
            for offering in of_type["offerings"]:
                values = {own["key"]: own["values"] for own in offering["Requirements"]}
                if values["karpenter.sh/capacity-type"] == ["on-demand"]:
                    prices[of_type["name"]] = offering["Price"]
        types = folder / "types.json"
        types.write_text(json.dumps(catalogue))
        tools = {"karpenter": karpenter, "testenv": run(str(ROOT / "hack/go-build.sh"), "testenv").strip(),
                 "berth": args.berth.resolve(), "stage": args.stage.resolve(), "types": types, "prices": prices,
                 "small": small}
        print("| API server | pods | | nodes | $/h | half bound s | all bound s | calls a pod | calls a node | CPU s |")
        print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
        for world in ["real", "memory"] if args.world == "both" else [args.world]:
            for n_pods in [int(text) for text in args.pods.split(",")]:
                for side in args.sides.split(","):
                    place = folder / f"{world}-{n_pods}-{side}"
                    place.mkdir()
                    case = Case(args, tools, world, side, n_pods, place)
                    try:
                        told = case.play()
                    finally:
                        case.end()
                    own = sum(told["own"].values())
                    calls, cpu = f"{own / n_pods:.2f}", f"{told['cpu'][0]:.1f}"
                    if side != "berth-binds":
                        calls, cpu = f"{calls} + {told['scheduler'] / n_pods:.2f}", f"{cpu} + {told['cpu'][1]:.1f}"
                    print(f"| {world} | {n_pods:,} | {side} | {told['nodes']} | {told['cost']:.2f} | "
                          f"{told['bound']['half']:.1f} | {told['bound']['last']:.1f} | {calls} | "
                          f"{own / max(told['nodes'], 1):.1f} | {cpu} |", flush=True)
                    if args.calls:
                        for (verb, resource), n in told["own"].most_common():
                            print(f"    {n:6} {verb} {resource}", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Berth's scheduler, kube-scheduler's framework in process, and kube-scheduler in a control plane, one after the other on
# the same files: pods a second, and how many times faster Berth is.
#
#   hack/bench/schedule.sh [--control-plane] [FOLDER [CASE…]]
#
# FOLDER keeps the clusters between runs (default: a new temporary folder). CASES are those of nodes.py. All nodes are
# scored. kube-scheduler is stopped after LIMIT a case (default 60s, 0 for never), and its pods a second are of those that
# it came to; it slows down as pods with constraints come to be on the nodes, which is to its advantage. "With set-up" is
# from the parsed objects on, for both. On a busy machine read the ratio by CPU time: Berth uses one processor and
# kube-scheduler all, and short runs are interrupted less. NODES and PODS are 5000 and 10000. Needs Go and Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

control_plane=
if [[ ${1-} == --control-plane ]]; then control_plane=1; shift; fi
folder=${1:-$(mktemp -d)}
shift || true
cases=("$@")
((${#cases[@]})) || cases=(plain zone-spread host-anti-affinity pod-affinity reservations distinct-reservations)
nodes=${NODES:-5000} pods=${PODS:-10000} limit=${LIMIT:-60s}

schedcompare=$(hack/schedcompare/build.sh)
testenv=
if [[ -n $control_plane ]]; then testenv=$(hack/testenv/build.sh); fi
cargo build --quiet --release -p berth-properties --bin schedule
schedule=${CARGO_TARGET_DIR:-target}/release/schedule

mkdir -p "$folder"
config=$folder/all-nodes.yaml
cat >"$config" <<'YAML'
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
YAML

header=1
for case in "${cases[@]}"; do
    file=$folder/$case-$nodes-$pods.json
    [[ -f $file ]] || hack/bench/nodes.py "$case" "$file" --nodes "$nodes" --pods "$pods" >/dev/null
    # To kube-scheduler a Reservation is a pod that comes first.
    theirs=$file
    if [[ -f $file.pods.json ]]; then theirs=$file.pods.json; fi
    berth=$("$schedule" -f "$file")
    framework=$("$schedcompare" -f "$theirs" --bench --max-time "$limit")
    through=null
    if [[ -n $control_plane ]]; then
        # $KUBECONFIG is for the shell that testenv starts.
        # shellcheck disable=SC2016
        through=$("$testenv" run --scheduler --scheduler-config "$config" -- \
            sh -c 'exec "$0" --bench --through "$KUBECONFIG" -f "$1" --max-time "$2"' "$schedcompare" "$theirs" "$limit")
    fi
    python3 - "$header" "$case" "$berth" "$framework" "$through" <<'PYTHON'
import json
import sys

header, case, *runs = sys.argv[1:]
berth, framework, through = map(json.loads, runs)


def with_setup(run):
    return run["pods"] / (run["seconds"] + run["setupSeconds"])


def tried(run):
    return f"{run['pods']:,}" + ("" if run.get("finished", True) else " (limit)")


def per_cpu_second(run):
    return run["pods"] / run["cpuSeconds"] if run["cpuSeconds"] else float("nan")


row = [case, tried(berth), f"{berth['scheduled']:,}", f"{berth['podsPerSecond']:,.0f}", tried(framework),
       f"{framework['scheduled']:,}", f"{framework['podsPerSecond']:,.1f}", f"{berth['podsPerSecond'] / framework['podsPerSecond']:,.0f}x",
       f"{with_setup(berth) / with_setup(framework):,.0f}x", f"{per_cpu_second(berth) / per_cpu_second(framework):,.0f}x"]
titles = ["case", "pods", "placed", "Berth/s", "pods", "placed", "framework/s", "speed", "with set-up", "by CPU time"]
if through:
    titles += ["pods", "placed", "control plane/s", "speed"]
    row += [tried(through), f"{through['scheduled']:,}", f"{through['podsPerSecond']:,.1f}", f"{berth['podsPerSecond'] / through['podsPerSecond']:,.0f}x"]
if header == "1":
    print("| " + " | ".join(titles) + " |\n|---|" + "--:|" * (len(titles) - 1))
print("| " + " | ".join(row) + " |", flush=True)
PYTHON
    header=
done

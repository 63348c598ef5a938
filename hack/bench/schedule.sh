#!/usr/bin/env bash
# Berth's scheduler and kube-scheduler's framework, one after the other on the same files: pods a second.
#
#   hack/bench/schedule.sh [FOLDER [CASE…]]
#
# FOLDER keeps the clusters between runs (default: a new temporary folder). kube-scheduler, at 100% of the nodes scored, is
# stopped after LIMIT (default 60s) a case; its pods a second are of those that it came to.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-$(mktemp -d)}
shift || true
cases=("$@")
((${#cases[@]})) || cases=(plain zone-spread host-anti-affinity pod-affinity reservations)

schedcompare=$(hack/schedcompare/build.sh)
cargo build --quiet --release -p berth-properties --bin schedule
schedule=${CARGO_TARGET_DIR:-target}/release/schedule

printf '%-20s %10s %10s %12s %10s %12s %8s\n' case nodes pods berth/s scheduled kube/s ratio
for case in "${cases[@]}"; do
    file=$folder/$case.json
    [[ -f $file ]] || hack/bench/nodes.py "$case" "$file" >/dev/null
    theirs_file=$file
    if [[ -f $file.pods.json ]]; then theirs_file=$file.pods.json; fi
    ours=$("$schedule" -f "$file")
    theirs=$("$schedcompare" -f "$theirs_file" --bench --max-time "${LIMIT:-60s}" 2>/dev/null)
    python3 - "$case" "$ours" "$theirs" <<'PYTHON'
import json, sys

case, ours, theirs = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
ratio = ours["podsPerSecond"] / theirs["podsPerSecond"]
print(f"{case:20} {ours['nodes']:10} {ours['pods']:10} {ours['podsPerSecond']:12.0f} {ours['scheduled']:10}"
      f" {theirs['podsPerSecond']:12.0f} {ratio:7.0f}x", flush=True)
PYTHON
done

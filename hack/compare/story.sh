#!/usr/bin/env bash
# Three figures for one workload: what Karpenter, first fit and Berth's search would pay, over what any plan must pay.
#
#   hack/compare/story.sh [PODS [OUT]]     needs Go, Python and a few minutes; OUT keeps the generated files
set -euo pipefail
cd "$(dirname "$0")/../.."
pods=${1:-10000}
out=${2:-$(mktemp -d)}

cargo build --release --quiet
(cd hack/compare && go build -o compare .)
berth=${CARGO_TARGET_DIR:-target}/release/berth
mkdir -p "$out"
"$berth" catalog -o json >"$out/catalogue.json"
python3 hack/bench/deployments.py "$out/catalogue.json" "$out/story" --pods "$pods" --deployments 40 \
    --reservations 6 --seed 2
# Some pods have no place in this input, which is exit code 1.
"$berth" plan -f "$out/story.json" --instance-types "$out/story-types.json" --effort high --bound -o json \
    >"$out/plan.json" || [[ $? == 1 ]]
bound=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["summary"]["lowerBound"])' "$out/plan.json")
echo "No plan that places as many costs less than \$$bound/h."
hack/compare/compare.py "story=$out/story-types.json,$out/story.json" --berth "$berth" --bound "$bound" \
    --karpenter-mode fallback --effort low --effort default --effort high

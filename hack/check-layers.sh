#!/usr/bin/env bash
# Holds the rooms apart: who may depend on whom, and what pure crates may not know.
set -euo pipefail
cd "$(dirname "$0")/.."
# Features unified over the workspace would give every crate the tree of all of them.
unset CARGO_RESOLVER_FEATURE_UNIFICATION

fail=0
complain() {
    echo "check-layers: $*" >&2
    fail=1
}

# Berth's crates that each crate may use. Whoever adds a line to it moves a wall: see the README's architecture.
declare -A allowed=(
    [berth-quantity]=""
    [berth-schedule]=""
    [berth-surplus]=""
    [berth-model]="berth-quantity"
    [berth-api]="berth-quantity"
    [berth-catalogue]="berth-quantity"
    [berth-manifests]="berth-api berth-quantity berth-schedule"
    [berth-convert]="berth-api berth-catalogue berth-model berth-quantity berth-surplus"
    [berth-state]="berth-api berth-catalogue berth-convert berth-model berth-quantity"
    [berth-scheduling]="berth-model"
    [berth-packing]=""
    [berth-provisioning]="berth-model berth-packing berth-scheduling"
    [berth-decisions]="berth-api berth-catalogue berth-convert berth-model berth-provisioning berth-quantity berth-scheduling berth-state"
    [berth-disruption]="berth-api berth-decisions berth-model berth-packing berth-schedule berth-scheduling berth-state"
    [berth-cloudprovider]="berth-api berth-catalogue berth-quantity"
    [berth-cloudprovider-fake]="berth-api berth-catalogue berth-cloudprovider berth-quantity"
    [berth-cloudprovider-remote]="berth-api berth-catalogue berth-cloudprovider berth-listen"
    [berth-cloudprovider-aws]="berth-api berth-catalogue berth-cloudprovider berth-quantity"
    [berth-controllers]="berth-api berth-catalogue berth-cloudprovider berth-convert berth-decisions berth-disruption berth-model berth-plan berth-provisioning berth-quantity berth-scheduling berth-state"
    [berth-sandbox]="berth-api berth-apiserver berth-catalogue berth-cloudprovider berth-cloudprovider-fake berth-controller-manager berth-controllers berth-convert berth-kubelet berth-manifests berth-plan berth-quantity"
    [berth-listen]=""
    [berth-slim]=""
    [berth-telemetry]="berth-controllers berth-listen"
    [berth-simulate]="berth-api berth-catalogue berth-cloudprovider berth-cloudprovider-fake berth-controller-manager berth-controllers berth-kubelet berth-manifests berth-sandbox berth-slim"
    [berth-page]="berth-api berth-listen berth-plan berth-quantity berth-slim"
    [berth-controller-manager]="berth-quantity berth-schedule berth-surplus"
    [berth-kubelet]="berth-api berth-quantity"
    [berth-plan]="berth-api berth-catalogue berth-cloudprovider-aws berth-cloudprovider-fake berth-convert berth-decisions berth-disruption berth-manifests berth-model berth-provisioning berth-quantity berth-scheduling berth-state"
    [berth-apiserver]="berth-quantity berth-schedule"
    [berth]="berth-api berth-catalogue berth-cloudprovider-aws berth-cloudprovider-fake berth-cloudprovider-remote berth-manifests berth-quantity berth-cloudprovider berth-controllers berth-page berth-plan berth-sandbox berth-simulate berth-telemetry"
)
pure=(quantity surplus catalogue model convert state scheduling packing provisioning decisions disruption)

# Names of the crates in a crate's tree of normal dependencies, itself aside.
tree() {
    cargo tree --quiet --locked -p "$1" -e normal --prefix none "${@:2}" | awk 'NR > 1 {print $1}' | sort -u
}

for crate in "${!allowed[@]}"; do
    while read -r used; do
        [[ " ${allowed[$crate]} " == *" $used "* ]] || complain "$crate must not depend on $used"
    done < <(tree "$crate" --depth 1 | grep '^berth' || true)
done

for room in "${pure[@]}"; do
    client=$(tree "berth-$room" | grep -xE '(kube|tokio|hyper|http|reqwest|tower|rand)(-.*)?' || true)
    [[ -z $client ]] || complain "berth-$room is pure, but its tree has" $client
    # Tests and docs may do as they like; a clock, a file or the environment in the code itself is a way in.
    ambient=$(grep -rnE '\b(SystemTime|Instant|thread_rng|std::(fs|net|env|process))\b' "src/$room/src" |
        grep -vE '^[^:]*(tests?\.rs|/tests/)|:[0-9]+: *//' || true)
    # Whoever may choose many names can choose such as share one hash, where nobody draws a key.
    unkeyed=$(grep -rnE 'Fx(Hash|Index)(Map|Set)<\(*([A-Za-z]+, *)*(&(.[a-z]+ )?str\b|(Arc|Box|Rc)<str>|String\b)' "src/$room/src" |
        grep -vE '^[^:]*(tests?\.rs|/tests/)|:[0-9]+: *//' || true)
    [[ -z $unkeyed ]] || complain "berth-$room hashes texts without a key; berth_model::KeyedMap has one:"$'\n'"$unkeyed"
    [[ -z $ambient ]] || complain "berth-$room is pure, but reads a clock or the world:"$'\n'"$ambient"
done

[[ $fail == 0 ]] && echo "check-layers: ${#allowed[@]} crates keep to their rooms"
exit $fail

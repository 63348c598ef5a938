#!/usr/bin/env bash
# Installs published manifests by client side and by server side apply, and deletes them again, on the API server in memory
# and on the real one, and shows what differs in between: which objects there are, and what kubectl said.
#
#   hack/published.sh PATH...       folders or files for kubectl; what a folder has in setup/ comes first
#
# It needs Go (hack/testenv), and the example `serve` of berth-apiserver, which it builds.
set -euo pipefail
[[ $# -gt 0 ]] || { echo "published.sh: expected folders or files of manifests" >&2; exit 2; }
mapfile -t paths < <(realpath -- "$@")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

testenv=$(hack/go-build.sh testenv)
serve=${BERTH_SERVE-}
if [[ -z $serve ]]; then
    cargo build --quiet --locked -p berth-apiserver --features listener --example serve
    serve=${CARGO_TARGET_DIR:-target}/debug/examples/serve
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$testenv" "$work/kubectl"
export PATH=$work:$PATH

# What the real control plane has for its own parts: its roles, and the certificate of each namespace.
beside='^Role(Binding)? +kube-(public|system) +system:|extension-apiserver-authentication-reader|kube-root-ca.crt|legacy-service-account-token'

# All objects by kind, namespace and name; what controllers name is counted.
inventory() {
    local kinds
    kinds=$(kubectl api-resources --verbs=list -o name | grep -vE '^(events|leases|componentstatuses|apiservices|flowschemas|prioritylevel|ipaddresses|servicecidrs|clusterrole)' | sort | paste -sd,)
    kubectl get "$kinds" -A --no-headers -o custom-columns=K:.kind,N:.metadata.namespace,NAME:.metadata.name 2>/dev/null |
        grep -vE "$beside" |
        sed -E 's/ +/ /g; s/-[bcdfghjklmnpqrstvwxz2456789]{7,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?$/-HASH/; s/-[bcdfghjklmnpqrstvwxz2456789]{5}$/-NAME/' |
        sort | uniq -c
}

# Waits until the inventory stays.
settled() {
    local before now
    before=$(inventory)
    while sleep 3; now=$(inventory); [[ $now != "$before" ]]; do before=$now; done
    echo "$now"
}

play() {
    kubectl create namespace published
    kubectl config set-context --current --namespace published >/dev/null
    local mode
    for mode in --server-side=false --server-side; do
        echo "== apply $mode"
        for path in "${paths[@]}"; do
            if [[ -d $path/setup ]]; then
                # Some definitions are larger than the annotation of a client side apply may be.
                kubectl apply --server-side -f "$path/setup"
                kubectl wait crd --all --for=condition=Established --timeout=60s >/dev/null
            fi
            kubectl apply "$mode" -f "$path" || true
        done
        echo "== there is"
        settled
        for path in "${paths[@]}"; do
            kubectl delete --ignore-not-found --timeout=120s -f "$path" || true
            if [[ -d $path/setup ]]; then kubectl delete --ignore-not-found --timeout=120s -f "$path/setup" || true; fi
        done
        echo "== after it was deleted there is"
        settled
    done
}

export KUBECACHEDIR=$work/cache
real() { export KUBECONFIG=$work/real.kubeconfig; play; }
ours() { export KUBECONFIG=$work/ours.kubeconfig; play; }

mkfifo "$work/stop"
"$serve" <"$work/stop" >"$work/ours.kubeconfig" &
exec 8>"$work/stop"
mkfifo "$work/stop.real"
"$testenv" start --controller-manager <"$work/stop.real" >"$work/real.json" &
exec 9>"$work/stop.real"
until [[ -s $work/ours.kubeconfig && -s $work/real.json ]]; do sleep 0.2; done
cp "$(sed -E 's/.*"kubeconfig":"([^"]*)".*/\1/' "$work/real.json")" "$work/real.kubeconfig"
ours >"$work/ours" 2>&1 8>&- 9>&- &
real >"$work/real" 2>&1 8>&- 9>&-
wait $!
exec 8>&- 9>&-
wait
echo "$(grep -c . "$work/ours") lines; real (-) and ours (+):"
diff -U0 "$work/real" "$work/ours" | grep -v '^@@\|^---\|^+++' || echo "no difference"

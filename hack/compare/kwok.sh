#!/usr/bin/env bash
# Builds Karpenter's own KWOK program once, of the release that go.mod names, and prints the folder that holds it:
#
#   hack/compare/kwok.sh        FOLDER/kwok is the program, FOLDER/crds are its definitions
#
# It is kept under ${XDG_CACHE_HOME:-~/.cache}/berth/karpenter-kwok, by its release and the Go toolchain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v go >/dev/null || { echo "kwok.sh: Karpenter needs Go, and there is no go in the PATH" >&2; exit 1; }
module=sigs.k8s.io/karpenter
version=$(go list -m -f '{{.Version}}' $module)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth/karpenter-kwok/$version-$(go env GOVERSION)

if [[ ! -x $folder/kwok ]]; then
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    if command -v flock >/dev/null; then flock 9; fi
fi
if [[ ! -x $folder/kwok ]]; then
    echo "kwok.sh: building $module/kwok $version, minutes from a cold Go build cache" >&2
    GOBIN=$folder/new go install "$module/kwok@$version" >&2
    source=$(go list -m -f '{{.Dir}}' $module)
    mkdir -p "$folder/crds"
    install -m 644 "$source"/kwok/charts/crds/*.yaml "$source"/kwok/apis/crds/*.yaml "$folder/crds"
    # Last, as it says that all is there.
    mv "$folder/new/kwok" "$folder/kwok"
fi
echo "$folder"

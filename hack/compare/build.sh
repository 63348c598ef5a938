#!/usr/bin/env bash
# Builds compare for `--consolidate` on a busy machine: `go build` with one change of Karpenter's library.
#
#   hack/compare/build.sh [FILE]        compare is what is built where no FILE is named
#
# Karpenter gives consolidation of several nodes a minute of the wall clock (a context's deadline), so that its commands
# depend on what else runs. Here that limit is a day; each pass says its CPU seconds, so that those are seen that a
# minute would have cut short. The other limit, three minutes for single nodes, asks a clock that counts CPU time.
# The changed library is kept under ${XDG_CACHE_HOME:-~/.cache}/berth/karpenter-unhurried, by its release.
set -euo pipefail
output=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/compare}")
cd "$(dirname "${BASH_SOURCE[0]}")"

module=sigs.k8s.io/karpenter
version=$(go list -m -f '{{.Version}}' $module)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth/karpenter-unhurried/$version
limit='const MultiNodeConsolidationTimeoutDuration ='
mkdir -p "$folder"
exec 9>"$folder/lock"
if command -v flock >/dev/null; then flock 9; fi
if [[ ! -e $folder/ready ]]; then
    cp -r "$(go list -m -f '{{.Dir}}' $module)" "$folder/module"
    chmod -R u+w "$folder/module"
    file=$folder/module/pkg/controllers/disruption/multinodeconsolidation.go
    grep -q "^$limit 1 \* time.Minute$" "$file" || { echo "build.sh: no limit of a minute in $file" >&2; exit 1; }
    sed -i "s/^$limit .*/$limit 24 * time.Hour/" "$file"
    touch "$folder/ready"
fi
cp go.mod go.sum "$folder"
go mod edit -replace "$module=$folder/module" "$folder/go.mod"
go build -modfile "$folder/go.mod" -o "$output" .

#!/usr/bin/env bash
# Builds a Go program of this folder once and prints where it is:
#
#   hack/go-build.sh [--cached] testenv|schedcompare
#
# The binary is kept under ${XDG_CACHE_HOME:-~/.cache}/berth/NAME/HASH/NAME, where the hash is of its sources, the module's
# versions and the Go toolchain, and is reused while these are the same. Callers at the same time build once. With --cached
# nothing is built: the exit code is 3 where there is no binary of these sources yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

cached=
if [[ ${1-} == --cached ]]; then cached=1; shift; fi
name=${1:?expected the name of a program: testenv or schedcompare}
[[ -f $name/main.go ]] || { echo "go-build: no program $name in $PWD" >&2; exit 2; }
command -v go >/dev/null || { echo "go-build: $name needs Go 1.25 or later, and there is no go in the PATH" >&2; exit 1; }

sources=$(find "$name" go.mod go.sum go-build.sh -type f \( -name '*.go' -o -name 'go.*' -o -name '*.sh' \) ! -name '*_test.go' | LC_ALL=C sort)
hash=$({ go env GOVERSION GOOS GOARCH; xargs -d '\n' sha256sum <<<"$sources"; } | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth/$name
binary=$folder/$hash/$name

if [[ ! -x $binary && -n $cached ]]; then
    echo "go-build: no $name of these sources has been built; $PWD/$name/build.sh does" >&2
    exit 3
fi
if [[ ! -x $binary ]]; then
    mkdir -p "$folder/$hash"
    exec 9>"$folder/$hash/lock"
    if command -v flock >/dev/null; then flock 9; fi
fi
if [[ ! -x $binary ]]; then
    kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
    minor=${kubernetes#v*.}
    # Without a version kubectl cannot read that of the server.
    package=k8s.io/component-base/version
    trap 'rm -f "$binary.$$"' EXIT
    echo "go-build: building $name with Kubernetes $kubernetes, minutes from a cold Go build cache" >&2
    go build -buildvcs=false -o "$binary.$$" -ldflags "-s -w -X $package.gitVersion=$kubernetes
        -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" "./$name" >&2
    mv "$binary.$$" "$binary"
    # All but the four that were asked for last.
    ls -td "$folder"/*/ | tail -n +5 | xargs -r -d '\n' rm -rf
fi
touch "$folder/$hash"
echo "$binary"

#!/usr/bin/env bash
# Every check of the project, cheapest first; stops at the first that fails. `.ci/run` runs it.
#
#   hack/test.sh          everything
#   hack/test.sh tests    the tests alone
#   hack/test.sh quick    format, spelling, clippy and tests of the crates that differ from main: before a commit
#
# At its end it names what it skipped for want of a tool.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    echo
    echo "== $*"
}

skipped=()

# Names what was skipped; where something was, the run is not the whole of it.
report() {
    for what in "${skipped[@]}"; do
        echo "skipped: $what" >&2
    done
}

# Needs the tool of https://github.com/crate-ci/typos; _typos.toml has the words that are right.
spelling() {
    if command -v typos >/dev/null; then
        step spelling
        typos
    else
        skipped+=("spelling: typos is not installed")
    fi
}

# The packages with a file that differs from main, a line each.
changed_packages() {
    local base
    base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || echo HEAD)
    { git diff --name-only "$base"; git ls-files --others --exclude-standard; } | while read -r file; do
        folder=$(dirname "$file")
        while [[ $folder != . && ! -f $folder/Cargo.toml ]]; do folder=$(dirname "$folder"); done
        [[ $folder == . ]] || sed -n 's/^name = "\(berth[a-z-]*\)"$/\1/p' "$folder/Cargo.toml" | head -1
    done | sort -u
}

case ${1:-all} in
all | tests) ;;
quick)
    step format
    cargo fmt --all --check
    spelling
    hack/check-unused.sh
    mapfile -t packages < <(changed_packages)
    if [[ ${#packages[@]} == 0 ]]; then
        echo "no crate differs from main"
    else
        step "clippy and tests of ${packages[*]}"
        named=("${packages[@]/#/-p}")
        cargo clippy --locked --quiet "${named[@]}" --all-targets -- -D warnings
        cargo test --locked --quiet "${named[@]}"
    fi
    report
    exit
    ;;
*)
    echo "test.sh: unknown argument $1: expected all, tests or quick" >&2
    exit 2
    ;;
esac

if [[ ${1:-all} == all ]]; then
    step format
    cargo fmt --all --check

    spelling

    step "layers and dependencies"
    hack/check-layers.sh
    hack/check-unused.sh

    if command -v go >/dev/null; then
        step "Go: hack/compare and hack/bench"
        unformatted=$(gofmt -l hack)
        [[ -z $unformatted ]] || { echo "not formatted: $unformatted" >&2; exit 1; }
        (cd hack/compare && go vet ./... && go build -o /dev/null . && go test ./...)

        step "Go: hack/testenv and hack/schedcompare"
        # Named, so that the tests below cannot pass for want of them.
        BERTH_TESTENV=$(hack/go-build.sh testenv)
        BERTH_SCHEDCOMPARE=$(hack/go-build.sh schedcompare)
        export BERTH_TESTENV BERTH_SCHEDCOMPARE
        (cd hack && go vet ./... && go test -timeout 30m ./...)
    else
        skipped+=("Go: not installed, so nothing is compared with Karpenter, kube-scheduler and the real API server")
    fi

    step clippy
    cargo clippy --locked --workspace --all-targets --quiet -- -D warnings

    step documentation
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
fi

step tests
cargo test --locked --workspace

if command -v python3 >/dev/null; then
    step "plans and bounds beside HiGHS"
    # What the tests have built.
    BERTH_BUILT=${CARGO_TARGET_DIR:-target}/debug hack/boundcheck/run.sh --cases 50
else
    skipped+=("plans and bounds beside HiGHS: Python is not installed")
fi

# Last, as the SDK takes longest where it is not in the cache: whoever has little time leaves it out then, and says so.
if [[ -n ${BERTH_AWS_WITHIN_MINUTES-} && $SECONDS -gt $((BERTH_AWS_WITHIN_MINUTES * 60)) ]]; then
    skipped+=("AWS: $((SECONDS / 60)) minutes have passed, more than BERTH_AWS_WITHIN_MINUTES; hack/aws.sh runs it")
else
    step "AWS: the SDK and EC2 on loopback"
    hack/aws.sh
fi

report

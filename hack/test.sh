#!/usr/bin/env bash
# Every check of the project, cheapest first; stops at the first that fails. `.ci/run` runs it.
#
#   hack/test.sh          everything
#   hack/test.sh tests    the tests alone
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    echo
    echo "== $*"
}

if [[ ${1:-all} == all ]]; then
    step format
    cargo fmt --all --check

    step layers
    hack/check-layers.sh

    if command -v go >/dev/null; then
        step "Go: hack/compare and hack/bench"
        unformatted=$(gofmt -l hack)
        [[ -z $unformatted ]] || { echo "not formatted: $unformatted" >&2; exit 1; }
        (cd hack/compare && go vet ./... && go build -o /dev/null . && go test ./...)

        step "Go: hack/testenv and hack/schedcompare"
        hack/go-build.sh testenv
        # Named, so that the tests below cannot pass for want of it.
        BERTH_SCHEDCOMPARE=$(hack/go-build.sh schedcompare)
        export BERTH_SCHEDCOMPARE
        (cd hack && go vet ./... && go test -timeout 30m ./...)
    fi

    step clippy
    cargo clippy --locked --workspace --all-targets --quiet -- -D warnings

    step documentation
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
fi

step tests
cargo test --locked --workspace

step "AWS: the SDK and EC2 on loopback"
hack/aws.sh

if command -v python3 >/dev/null; then
    step "plans and bounds beside HiGHS"
    # What the tests have built.
    BERTH_BUILT=${CARGO_TARGET_DIR:-target}/debug hack/boundcheck/run.sh --cases 50
fi

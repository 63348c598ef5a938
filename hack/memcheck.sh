#!/usr/bin/env bash
# Runs the program as users build it, but for its allocator, under valgrind: no read or write outside of what is allocated.
#
# Our own code has no `unsafe`, so what this finds comes of a library or of the compiler (rust-lang/rust#155241 was found in a
# test so). Needs valgrind; some ten minutes beside the build. Arguments are commands to check in place of those below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v valgrind >/dev/null; then
    echo "memcheck: needs valgrind, and there is none in the PATH" >&2
    exit 2
fi
target=${CARGO_TARGET_DIR:-target}/memcheck
CARGO_TARGET_DIR=$target cargo build --release --locked --package berth --no-default-features

failed=0
check() {
    local code=0 report
    report=$(mktemp)
    valgrind --quiet --error-exitcode=99 --num-callers=25 --log-file="$report" \
        "$target/release/berth" "$@" >/dev/null 2>&1 || code=$?
    # 0 and 1 are answers; 2 is an input that cannot be used; from 128 on a signal ended it.
    if [[ $code -gt 1 ]]; then
        echo "memcheck: exit code $code: berth $*"
        head -40 "$report"
        failed=1
    else
        echo "memcheck: clean: berth $*"
    fi
    rm -f "$report"
}

if [[ $# -gt 0 ]]; then
    check "$@"
    exit $failed
fi
for folder in examples/guide-* examples/one-slot examples/reserved-* examples/room examples/three-pools; do
    check plan -f "$folder" --now 2026-01-01T00:00:00Z
done
check plan -f examples/disruption --disrupt --now 2026-01-01T00:00:00Z
check plan -f examples/three-pools --effort high --bound -o json --now 2026-01-01T00:00:00Z
check simulate examples/simulate/two-days.yaml
check sandbox --exit-when-settled
exit $failed

#!/usr/bin/env bash
# Builds, lints and tests what needs AWS' SDK: `berth catalog --provider aws`, against EC2 on loopback (hack/ec2).
#
# From nothing this takes some 22 minutes of CPU (12 of them for the SDK), 8 GB of memory and 3 GB of disk. What is built is
# kept under ${XDG_CACHE_HOME:-~/.cache}/berth/aws-sdk, apart from target/, so that the SDK is compiled again only when its
# version or features change. BERTH_SKIP_AWS=1 leaves all of this out. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -n ${BERTH_SKIP_AWS-} ]]; then
    echo "aws: left out, as BERTH_SKIP_AWS is set"
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "aws: left out, as the emulator of EC2 needs Python 3 and there is no python3 in the PATH"
    exit 0
fi
hack/ec2/run.sh --test

export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/berth/aws-sdk
# Clippy in place of rustc for our own crates: `cargo clippy` beside `cargo test` would compile the SDK twice.
RUSTC_WORKSPACE_WRAPPER=$(command -v clippy-driver || rustup which clippy-driver)
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS="-Dwarnings__CLIPPY_HACKERY__"
cargo test --locked -p berth -p berth-cloudprovider-aws --features sdk,aws \
    --lib --test aws "$@"

#!/usr/bin/env bash
# Holds plans and bounds to the least cost there is, on small random cases. Arguments go to boundcheck.py:
#
#   hack/boundcheck/run.sh --cases 1000
#
# HiGHS comes from PyPI, into ${XDG_CACHE_HOME:-~/.cache}/berth/boundcheck/HASH, where the hash is of its pinned version and
# of Python's. BERTH_PROFILE=release builds Berth optimised; BERTH_BUILT names a folder of binaries that are built already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD

hash=$({ python3 --version; cat requirements.txt; } | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth/boundcheck/$hash
mkdir -p "$folder"
(
    if command -v flock >/dev/null; then flock 9; fi
    if [[ ! -e $folder/ready ]]; then
        python3 -m venv --clear "$folder/venv"
        "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
        touch "$folder/ready"
    fi
) 9>"$folder/lock"

cd ../..
built=${BERTH_BUILT-}
if [[ -z $built ]]; then
    profile=${BERTH_PROFILE:-dev}
    cargo build --locked --quiet --profile "$profile" -p berth
    cargo build --locked --quiet --profile "$profile" -p berth-packing --example answers
    built=${CARGO_TARGET_DIR:-target}/${profile/dev/debug}
fi
PYTHONDONTWRITEBYTECODE=1 exec "$folder/venv/bin/python" "$here/boundcheck.py" \
    --berth "$built/berth" --answers "$built/examples/answers" "$@"

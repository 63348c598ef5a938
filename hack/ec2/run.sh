#!/usr/bin/env bash
# EC2 on loopback: arguments go to serve.py; `run.sh --test` runs the emulator's own tests in its place.
#
# moto and botocore come from PyPI, into ${XDG_CACHE_HOME:-~/.cache}/berth/ec2/HASH, where the hash is of their pinned
# versions and of Python's. With BERTH_EC2_CACHED=1 nothing is installed: the exit code is 3 where that was not done yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v python3 >/dev/null || { echo "ec2: needs Python 3, and there is no python3 in the PATH" >&2; exit 3; }
hash=$({ python3 --version; cat requirements.txt; } | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth/ec2/$hash
if [[ ! -e $folder/ready ]]; then
    [[ -z ${BERTH_EC2_CACHED-} ]] || { echo "ec2: the emulator is not installed; hack/ec2/run.sh --test does" >&2; exit 3; }
    mkdir -p "$folder"
    (
        if command -v flock >/dev/null; then flock 9; fi
        if [[ ! -e $folder/ready ]]; then
            echo "ec2: installing moto, once" >&2
            python3 -m venv --clear "$folder/venv"
            "$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements.txt >&2
            touch "$folder/ready"
        fi
    ) 9>"$folder/lock"
fi
export PYTHONDONTWRITEBYTECODE=1
if [[ ${1-} == --test ]]; then
    exec "$folder/venv/bin/python" test_emulator.py --folder "$folder"
fi
exec "$folder/venv/bin/python" serve.py --folder "$folder" "$@"

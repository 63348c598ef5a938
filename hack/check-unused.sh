#!/usr/bin/env bash
# Names every dependency of a crate that no file of it mentions; exits with 1 if there is one.
#
# As cargo-machete, for what this workspace needs: a dependency is mentioned by its name in a .rs file of the crate.
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
while read -r manifest; do
    folder=$(dirname "$manifest")
    # `name.workspace = true` or `name = …` below a heading of dependencies.
    dependencies=$(awk '
        /^\[/ { is_list = /dependencies\]$/ }
        is_list && match($0, /^[A-Za-z0-9_-]+/) { print substr($0, RSTART, RLENGTH) }
    ' "$manifest" | sort -u)
    mapfile -t files < <(git ls-files --cached --others --exclude-standard -- "$folder" | grep '\.rs$')
    # Tests may take a file of another crate in, by its path.
    while IFS=: read -r file path; do
        files+=("$(dirname "$file")/$path")
    done < <(grep -oHE '#\[path = "[^"]+"' "${files[@]}" /dev/null | sed -E 's/:#\[path = "(.*)"$/:\1/')
    words=$(grep -ohE '\b[a-z][a-z0-9_]*\b' "${files[@]}" /dev/null | sort -u)
    for dependency in $dependencies; do
        if ! grep -qx "${dependency//-/_}" <<<"$words"; then
            echo "$manifest: nothing in $folder uses $dependency" >&2
            found=1
        fi
    done
done < <(git ls-files '*Cargo.toml' | grep -v '^Cargo.toml$')
exit $found

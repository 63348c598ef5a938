#!/usr/bin/env bash
# Prints the path of the schedcompare binary; builds it first where it is not yet cached.
exec "$(dirname "${BASH_SOURCE[0]}")/../go-build.sh" schedcompare

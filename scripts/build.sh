#!/usr/bin/env bash
# Configures build/PRESET if that was not done yet, and builds targets there (default: all).
# Usage: scripts/build.sh PRESET [-DNAME=VALUE ...] [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
options=()
while [[ ${1:-} == -D* ]]; do
    options+=("$1")
    shift
done
if [ ! -f "build/$preset/build.ninja" ] || [ ${#options[@]} -gt 0 ]; then
    mkdir -p build
    if ! cmake --preset "$preset" "${options[@]}" > "build/$preset.log" 2>&1; then
        cat "build/$preset.log" >&2
        rm -f "build/$preset/build.ninja"
        exit 1
    fi
fi
exec ninja -C "build/$preset" "$@"

#!/usr/bin/env bash
# Cross-compiles the kernels for aarch64 and runs check_neon under an emulator: NEON against ref bit
# for bit, and ref against what it computes on this machine. Prints "ok: N cases".
# Usage: tests/neon/run.sh [FOLDER of the objects, default build/neon]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/neon}
flags=(-std=gnu17 -D_GNU_SOURCE -O3 -ffp-contract=off -fno-math-errno -Iinclude -Isrc -Itests
    -Wall -Wextra -Wshadow -Wconversion -Werror)
# Of base what stands on the C library alone: no other library is there for the other machine.
mapfile -t sources < <(grep -LE '^#include (<json-c/|<openssl/|"base/j)' src/base/*.c)
sources+=(src/kernels/*.c src/kernels/ref/*.c tests/neon/check_neon.c)

# build FOLDER COMPILER [FLAGS ...]: the sources, and those of ISA folders given as NAME.c, linked.
build() {
    local folder=$1 source object objects=()
    shift
    mkdir -p "$folder"
    for source in "${sources[@]}" "${isa_sources[@]}"; do
        object=$folder/${source//\//_}.o
        objects+=("$object")
        local isa=()
        [[ $source != src/kernels/neon/* ]] || isa=(-march=armv8.2-a+dotprod)
        "$@" "${flags[@]}" "${isa[@]}" -c "$source" -o "$object"
    done
    "$@" "${objects[@]}" -o "$folder/check_neon" -lm -lpthread
}

isa_sources=(src/kernels/neon/*.c)
build "$out/aarch64" aarch64-linux-gnu-gcc
isa_sources=()
build "$out/here" "${CC:-cc}" -DFORGE_REF_ONLY

here=$("$out/here/check_neon" | grep '^ref ')
there=$(qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu "$out/aarch64/check_neon") || {
    echo "$there"
    exit 1
}
if [[ $there != "$here"$'\n'* ]]; then
    echo "plain C kernels differ: here $here, on aarch64 ${there%%$'\n'*}" >&2
    exit 1
fi
if [[ ! $there =~ neon\ (ok:\ [0-9]+\ cases) ]]; then
    echo "no NEON kernels were run: $there" >&2
    exit 1
fi
echo "${BASH_REMATCH[1]}"

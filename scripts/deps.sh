#!/usr/bin/env bash
# Finds what building ("build") or also testing ("test") Forge needs and this machine lacks. With apt it installs that:
# as root directly, else through sudo. Elsewhere, or when it can't become root, it prints the names of the packages and
# exits 7. Does nothing, and quickly, when nothing is missing.
# Usage: scripts/deps.sh [build|test]
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-build}

# Check                 Debian           Fedora             Arch
build_needs='
cmd:cmake               cmake            cmake              cmake
cmd:ninja               ninja-build      ninja-build        ninja
cmd:gcc                 gcc              gcc                gcc
header:stdio.h          libc6-dev        glibc-devel        glibc
cmd:pkg-config          pkg-config       pkgconf-pkg-config pkgconf
lib:libpcre2-8          libpcre2-dev     pcre2-devel        pcre2
lib:libutf8proc         libutf8proc-dev  utf8proc-devel     libutf8proc
lib:json-c              libjson-c-dev    json-c-devel       json-c
lib:libedit             libedit-dev      libedit-devel      libedit
lib:libcrypto           libssl-dev       openssl-devel      openssl
lib:openblas            libopenblas-dev  openblas-devel     openblas
lib:lapacke             liblapacke-dev   lapack-devel       lapacke
lib:cmocka              libcmocka-dev    libcmocka-devel    cmocka
python:venv,ensurepip   python3-venv     python3            python
'
test_needs='
cmd:git                 git              git                git
cmd:clang               clang            clang              clang
cmd:clang-format        clang-format     clang-tools-extra  clang
cmd:clang-tidy          clang-tidy       clang-tools-extra  clang
sanitizers:gcc          gcc              libasan,libubsan   gcc
fuzzer:clang            @clang-runtime   compiler-rt        compiler-rt
'
# For the kernels of another architecture; where there is no apt, scripts/check.sh does without.
cross_needs='
cross:aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu,libc6-dev-arm64-cross
cmd:qemu-aarch64        qemu-user
'

# True when the thing named by $1 is there. Compilers are asked by using them.
present() {
    local kind=${1%%:*} name=${1#*:}
    case $kind in
    cmd) command -v "$name" > /dev/null ;;
    lib) command -v pkg-config > /dev/null && pkg-config --exists "$name" ;;
    header) echo "#include <$name>" | gcc -E - > /dev/null 2>&1 ;;
    python) python3 -c "import $name" > /dev/null 2>&1 ;;
    cross) compiles $'#include <stdio.h>\nint main(void) { return puts(""); }' "$name" ;;
    sanitizers) compiles 'int main(void) { return 0; }' "$name" -fsanitize=address,undefined ;;
    fuzzer)
        compiles 'int LLVMFuzzerTestOneInput(const char *d, long n) { return !d + !n; }' \
            "$name" -fsanitize=fuzzer,address,undefined
        ;;
    esac
}

compiles() {
    local source=$1 compiler=$2
    shift 2
    command -v "$compiler" > /dev/null && echo "$source" | "$compiler" -w "$@" -x c -o /dev/null - > /dev/null 2>&1
}

# Prints the rows of the tables whose check fails.
missing_rows() {
    local table=$build_needs check rest
    [ "$what" = test ] && table+=$test_needs
    [ "$what" = test ] && [ "$(uname -m)" = x86_64 ] && command -v apt-get > /dev/null && table+=$cross_needs
    while read -r check rest; do
        if [ -n "$check" ] && ! present "$check"; then echo "$check $rest"; fi
    done <<< "$table"
}

# The package with clang's runtime has its version in its name on some releases and another name on others.
clang_runtime() {
    local major name
    major=$(apt-cache show clang 2> /dev/null | sed -n 's/^Depends:.*clang-\([0-9]*\).*/\1/p' | head -n 1)
    for name in "libclang-rt-$major-dev" libclang-rt-dev "libclang-common-$major-dev"; do
        if apt-cache show "$name" > /dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo > /dev/null && { [ -t 0 ] || sudo -n true 2> /dev/null; }; }
}

case $what in
build | test) ;;
*)
    echo "usage: scripts/deps.sh [build|test]" >&2
    exit 2
    ;;
esac

rows=$(missing_rows)
[ -n "$rows" ] || exit 0
names() { awk -v column="$1" '{ print $column }' <<< "$rows" | tr ',' '\n' | sort -u | tr '\n' ' '; }

if ! command -v apt-get > /dev/null; then
    {
        echo "Forge needs packages that are not here. By the names of some distributions:"
        echo "  Debian, Ubuntu: $(names 2 | sed 's/@clang-runtime/libclang-rt-dev/')"
        echo "  Fedora:         $(names 3)"
        echo "  Arch:           $(names 4)"
    } >&2
    exit 7
fi

if ! can_be_root; then
    echo "Forge needs packages that are not here. As root:" >&2
    echo "  apt-get install $(names 2 | sed 's/@clang-runtime/libclang-rt-dev/')" >&2
    exit 7
fi

echo "Installing what is missing: $(names 2 | sed 's/@clang-runtime/the runtime of clang/')" >&2
log=build/deps.log
mkdir -p build
: > "$log"
apt() { # what it says, some hundred lines, matters only when it fails
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" < /dev/null >> "$log" 2>&1
}
apt update || echo "apt-get update failed ($log); trying with the package lists that are here" >&2
packages=$(names 2)
case $packages in *@clang-runtime*) packages=${packages//@clang-runtime/$(clang_runtime)} ;; esac
# shellcheck disable=SC2086 # one word per package
if ! apt install --no-install-recommends $packages; then
    cat "$log" >&2
    exit 7
fi

rows=$(missing_rows)
if [ -n "$rows" ]; then
    echo "still missing after the installation: $(names 1)" >&2
    exit 7
fi

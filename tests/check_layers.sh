#!/usr/bin/env bash
# Checks the directions of #include in src/ against the table below, and compiles every header alone. Prints each offence as
# FILE:LINE; exits 1 when there is one. Usage: check_layers.sh [ROOT of the tree]
set -euo pipefail
root=$(cd "${1:-$(dirname "$0")/..}" && pwd)
cd "$root"

# A module may include itself, the public headers (forge/) and what stands here.
declare -A may=(
    [base]=""
    [kernels]="base"
    [format]="base"
    [text]="base format"
    [quant]="base kernels format"
    [model]="base kernels format quant"
    [bundle]="base kernels format text quant model"
    [runtime]="base kernels format text quant model bundle"
    [spec]="base kernels format text quant model bundle runtime"
    [api]="base kernels format text quant model bundle runtime spec"
    [serve]="base kernels format text quant model bundle runtime spec"
    [eval]="base kernels format text quant model bundle runtime spec"
    [corpus]="base kernels format text quant model bundle runtime spec"
    [train]="base kernels format text quant model bundle runtime spec"
    [cli]="base kernels format text quant model bundle runtime spec api serve eval corpus train"
)
# Libraries, by the start of the header's name, and the modules that own them; cli may name all, for their versions.
declare -A owner=(
    [json-c/]="base format model text"
    [openssl/]="base"
    [pcre2]="text"
    [utf8proc]="text"
    [histedit]=""
    [microhttpd]="serve"
    [curl/]="runtime"
    [cblas]="train quant eval"
    [lapacke]="train quant"
    [mpi]="train"
)
# The C library and Linux, as far as it may come up. Anything else in <> must have an owner above.
known='^(assert|complex|cpuid|ctype|dirent|dlfcn|errno|fcntl|float|fnmatch|ftw|getopt|glob|immintrin|arm_neon|inttypes|langinfo|libgen|limits|locale|malloc|math|netdb|omp|poll|pthread|pwd|sched|semaphore|setjmp|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|termios|time|unistd|wchar|wctype|(sys|linux|netinet|arpa|asm|gnu)/[a-z0-9_-]+)\.h$'

included='include[[:space:]]*[<"]([^>"]*)[>"]'

offences=0
offence() {
    echo "$1" >&2
    offences=$((offences + 1))
}
has() { [[ " $1 " == *" $2 "* ]]; }

while IFS=: read -r file line text; do
    module=${file#src/}
    module=${module%%/*}
    if [ -z "${may[$module]+known}" ]; then
        offence "$file: src/$module is no module of the table"
        continue
    fi
    [[ $text =~ $included ]] || continue
    header=${BASH_REMATCH[1]}
    if [[ $text == *\<* ]]; then
        owned=""
        for start in "${!owner[@]}"; do
            [[ $header == "$start"* ]] || continue
            owned=yes
            has "${owner[$start]} cli" "$module" || offence "$file:$line: <$header> belongs to: ${owner[$start]}"
        done
        [ -n "$owned" ] || [[ $header =~ $known ]] || offence "$file:$line: <$header> is not in the table of libraries"
        continue
    fi
    target=${header%%/*}
    if [ "$target" = "$header" ]; then # a neighbour in the same folder
        [ -f "$(dirname "$file")/$header" ] || offence "$file:$line: \"$header\" is not beside it; write module/header.h"
    elif [ "$target" = .. ]; then
        offence "$file:$line: \"$header\": write module/header.h"
    elif [ "$target" != forge ] && [ "$target" != "$module" ] && ! has "${may[$module]}" "$target"; then
        offence "$file:$line: $module must not include $header"
    fi
done < <(grep -rnE --include='*.[ch]' '^[[:space:]]*#[[:space:]]*include' src)

# The public API stands on the C library alone.
while IFS=: read -r file line text; do
    [[ $text =~ $included ]] || continue
    header=${BASH_REMATCH[1]}
    [[ $text == *\<* && $header =~ $known ]] || [[ $header == forge/* ]] ||
        offence "$file:$line: the public API must not include $header"
done < <(grep -rnE --include='*.h' '^[[:space:]]*#[[:space:]]*include' include)

# Every header, alone; those of an instruction set with its flags.
flags=$(pkg-config --cflags json-c libcrypto libpcre2-8 libutf8proc openblas lapacke libedit)
while read -r header; do
    isa=""
    case $header in
    src/kernels/avx2/*) isa="-mavx2 -mfma -mf16c" ;;
    src/kernels/avx512/* | src/kernels/amx/*)
        isa="-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mavx512vbmi -mavx512vnni -mavx2 -mfma -mf16c -mamx-tile -mamx-int8" ;;
    src/kernels/neon/*) [ "$(uname -m)" = aarch64 ] || continue ;;
    esac
    [[ -z $isa || $(uname -m) == x86_64 ]] || continue
    # shellcheck disable=SC2086 # lists of flags
    gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only $isa $flags -Iinclude -Isrc \
        -include "$header" -x c /dev/null || offence "$header does not compile alone"
done < <(find include src -name '*.h' | sort)

[ "$offences" = 0 ] || {
    echo "$offences offences against the layers" >&2
    exit 1
}

#!/usr/bin/env bash
# Checks the tree as CI does and closes with one line, "N passed, N failed"; exits 1 when something failed. A step that fails
# does not keep the later ones from running. Each test of the suite counts as one, in each build; so does each other step.
# Usage: scripts/check.sh [STEP ...], of: release asan clang format tidy neon mutation fuzz. Default: all, in that order.
# FUZZ_SECONDS (60): time of each fuzz target. CHECK_JOBS: tests or tools at a time, default the number of CPUs.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${CHECK_JOBS:-$(nproc)}
passed=0
failed=0
failures=()

count() { # a step's name and status
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        failures+=("$1")
    fi
}

# Builds a preset and runs the suite in it.
suite() {
    local preset=$1 log line
    shift
    echo "== tests, $preset build"
    scripts/build.sh "$preset" "$@"
    local built=$?
    count "build of $preset" $built
    [ $built = 0 ] || return
    log=build/$preset.tests.log
    ctest --test-dir "build/$preset" -j "$jobs" --timeout 1800 --output-on-failure --no-tests=error 2>&1 | tee "$log"
    line=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log")
    if [[ $line =~ ([0-9]+)\ tests\ failed\ out\ of\ ([0-9]+) ]]; then
        failed=$((failed + BASH_REMATCH[1]))
        passed=$((passed + BASH_REMATCH[2] - BASH_REMATCH[1]))
        [ "${BASH_REMATCH[1]}" = 0 ] || failures+=("${BASH_REMATCH[1]} tests of $preset")
    else
        count "tests of $preset" 1
    fi
}

# As users build it, but with gcc's warnings as errors.
step_release() { suite release -DFORGE_WERROR=ON; }

# Asserts, ASan and UBSan. Not with warnings as errors: instrumented code makes gcc see conversions that are not there.
step_asan() {
    export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1
    suite asan
}

step_clang() {
    echo "== clang, warnings are errors"
    scripts/build.sh clang
    count "build with clang" $?
}

step_format() {
    echo "== format"
    scripts/c_files.sh | xargs clang-format --dry-run --Werror
    count "format (make fmt)" $?
}

# Header files are looked at through the sources that include them. The sources of NEON: step neon.
step_tidy() {
    echo "== clang-tidy"
    scripts/build.sh clang || true # its compile_commands.json
    scripts/c_files.sh | grep '\.c$' | grep -E '^(src|bench)/' | grep -v '^src/kernels/neon/' |
        xargs -P "$jobs" -n 4 clang-tidy -p build/clang --quiet 2> build/tidy.log
    local status=$?
    [ $status = 0 ] || grep -v 'warnings generated' build/tidy.log >&2
    count "clang-tidy" $status
}

# The kernels on another architecture: cross-compiled, run under an emulator, and looked at by clang-tidy.
step_neon() {
    echo "== NEON kernels for aarch64, emulated"
    local tool
    for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
        if ! command -v "$tool" > /dev/null; then
            echo "skipped: $tool is not installed"
            return
        fi
    done
    tests/neon/run.sh
    count "NEON kernels" $?
    clang-tidy --quiet src/kernels/neon/*.c -- --target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include \
        -march=armv8.2-a+dotprod -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc 2> build/neon/tidy.log
    local status=$?
    [ $status = 0 ] || grep -v 'warnings generated' build/neon/tidy.log >&2
    count "clang-tidy of the NEON kernels" $status
}

# Deliberate mistakes in the forward pass: the test of the logits must fail on each.
step_mutation() {
    echo "== mutations of the forward pass"
    tests/mutation/run.sh
    count "mutations" $?
}

fuzz_one() { # a target; its finds go to build/fuzz/finds
    local name=${1##*/} seconds=${FUZZ_SECONDS:-60}
    local short=${name#fuzz_} work
    work=$(mktemp -d)
    local seeds=()
    [ -d "tests/fuzz/corpus/$short" ] && seeds=("tests/fuzz/corpus/$short")
    if "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="build/fuzz/finds/$name-" \
        -print_final_stats=1 "$work" "${seeds[@]}" > "build/fuzz/$name.log" 2>&1; then
        echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log") inputs in $seconds s"
        rm -rf "$work"
    else
        tail -n 60 "build/fuzz/$name.log"
        echo "$name FAILED; the input is in build/fuzz/finds"
        rm -rf "$work"
        return 1
    fi
}
export -f fuzz_one

step_fuzz() {
    echo "== fuzz targets, ${FUZZ_SECONDS:-60} s each"
    scripts/build.sh fuzz
    local built=$?
    count "build of the fuzz targets" $built
    [ $built = 0 ] || return
    mkdir -p build/fuzz/finds
    local pids=() names=() target i
    for target in build/fuzz/fuzz_*; do
        [ -x "$target" ] && [ -f "$target" ] || continue
        if [ ${#pids[@]} -ge 2 ]; then # two at a time
            wait "${pids[0]}"
            count "${names[0]##*/}" $?
            pids=("${pids[@]:1}")
            names=("${names[@]:1}")
        fi
        fuzz_one "$target" &
        pids+=($!)
        names+=("$target")
    done
    for i in "${!pids[@]}"; do
        wait "${pids[$i]}"
        count "${names[$i]##*/}" $?
    done
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(release asan clang format tidy neon mutation fuzz)
for step in "${steps[@]}"; do
    if ! declare -F "step_$step" > /dev/null; then
        echo "no such step: $step" >&2
        exit 2
    fi
done
for step in "${steps[@]}"; do
    start=$SECONDS
    "step_$step"
    echo "== $step: $((SECONDS - start)) s"
done
echo
for name in "${failures[@]}"; do
    echo "failed: $name"
done
echo "$passed passed, $failed failed" | tee build/check.result
[ $failed = 0 ]

# What the tests of forge quantize share; sourced by them. `name` is the test's.
FORGE_THREADS=1
export FORGE_THREADS

fail() {
    echo "$name: $*" >&2
    exit 1
}

# Exit code, and a word that standard error must hold.
refused() { # CODE WORD COMMAND...
    local code=$1 word=$2 rc=0
    shift 2
    "$@" > "$TMP/out" 2> "$TMP/err" || rc=$?
    [ "$rc" = "$code" ] || fail "exit $rc instead of $code: $* ($(cat "$TMP/err"))"
    grep -q -e "$word" "$TMP/err" || fail "no '$word' in: $(cat "$TMP/err")"
}

# Everything that an export holds, but the times.
listing() {
    (cd "$1" && find . -type f ! -name timing.json ! -path ./.forge/lock -exec sha256sum {} + | sort -k 2)
}

same() { # EXPORT EXPORT WHAT
    diff <(listing "$1") <(listing "$2") > "$TMP/diff" || fail "$3: $(cat "$TMP/diff")"
}

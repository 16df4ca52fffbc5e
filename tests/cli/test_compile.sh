# forge compile and forge cache on small bundles: lines, exit codes, killed and interrupted at random moments, damage, locks.
fail() {
    echo "$*" >&2
    exit 1
}
# Exit code of a command, its output in $TMP/out and $TMP/err.
code_of() {
    local rc=0
    "$@" > "$TMP/out" 2> "$TMP/err" || rc=$?
    echo $rc
}
expect() { # CODE TEXT COMMAND: TEXT is a pattern that stdout or stderr must have
    local want=$1 text=$2 got
    shift 2
    got=$(code_of "$@")
    [ "$got" = "$want" ] || fail "exit $got, not $want: $* $(cat "$TMP/err")"
    grep -qE -- "$text" "$TMP/out" "$TMP/err" || fail "no '$text' in: $(cat "$TMP/out" "$TMP/err")"
}
sums() { (cd "$FORGE_STATE/builds" && find tiles plans -type f | sort | xargs sha256sum); }
files() { find "$FORGE_STATE/builds" -type f 2> /dev/null; }

bundle=$TMP/hybrid
"$FORGE" bench --shape tiny-hybrid --dir "$bundle" --no-run > "$TMP/out" 2> "$TMP/err"
tiles=$FORGE_STATE/builds/tiles

# What is said. Everything goes to stderr.
expect 0 estimated "$FORGE" compile --build "$bundle" --dry-run
[ -z "$(files)" ] || fail "a dry run wrote: $(files)"
expect 0 . "$FORGE" compile --build "$bundle"
[ ! -s "$TMP/out" ] || fail "stdout: $(cat "$TMP/out")"
isa=$(sed -n 's/^\[compile\] 3 of 3 packages to specialize for \([a-z0-9]*\), numerics fast, tile abi 1; .*/\1/p' "$TMP/err")
time='([0-9]+h[0-9]{2}m|[0-9]+m[0-9]{2}s|[0-9]+s)'
while read -r pattern; do
    grep -qE "^\[compile\] $pattern\$" "$TMP/err" || fail "no line '$pattern' in: $(cat "$TMP/err")"
done << LINES
3 of 3 packages to specialize for $isa, numerics fast, tile abi 1; entries 256 512 1K; [0-9.]+ MB to write, [0-9.]+ [MGT]B free
estimated $time in total; safe to stop at any time: finished packages are kept
compiling chunk_L00-03 \(1/3\): expected $time, total left $time
compiled chunk_L00-03 in $time \(1/3 done\); $time left
compiled head in $time \(3/3 done\); 0s left
done in $time: 3 packages ready for $isa
LINES
sums > "$TMP/good"
[ "$(wc -l < "$TMP/good")" = 4 ] || fail "files: $(cat "$TMP/good")"

# Again, when the packages are older than a moment: their hashes are kept, and one line is said.
touch -d '1 hour ago' "$bundle"/forge/*.safetensors
expect 0 hashing "$FORGE" compile --build "$bundle"
expect 0 . "$FORGE" compile --build "$bundle/forge"
[ "$(cat "$TMP/err")" = "[compile] 3 packages ready for $isa" ] || fail "$(cat "$TMP/err")"
expect 0 'nothing to write' "$FORGE" compile --build "$bundle" --dry-run
expect 0 '"status": "ok".*"compiled": 0' "$FORGE" compile --build "$bundle" --json
expect 0 '^\{"event": "compiled".*"name": "chunk_L04-07"' "$FORGE" compile --build "$bundle" --json --force --jobs 3
expect 0 . env FORGE_COMPILE_HEARTBEAT_S=0.001 "$FORGE" compile --build "$bundle" --force
grep -qE "^\[compile\] chunk_L00-03 \(1/3\): $time so far \(expected $time\); $time left in total\$" "$TMP/err" ||
    fail "no heartbeat: $(cat "$TMP/err")"
sums | cmp - "$TMP/good" || fail "other bytes after --force"
[ "$(code_of "$FORGE" -q compile --build "$bundle")" = 0 ] || fail "-q: $(cat "$TMP/err")"
[ ! -s "$TMP/err" ] || fail "-q said: $(cat "$TMP/err")"

# Contexts share tile files; every level makes the same ones.
before=$(stat -c %i "$tiles"/*.fgt)
expect 0 . "$FORGE" compile --build "$bundle" --ctx 512
[ "$before" = "$(stat -c %i "$tiles"/*.fgt)" ] || fail "a tile file was written again"
for level in $("$FORGE" version --json | sed 's/.*"isa": \[\([^]]*\)\].*/\1/; s/[",]//g'); do
    expect 0 "ready for $level" env FORGE_ISA="$level" "$FORGE" compile --build "$bundle" --force
    (cd "$FORGE_STATE/builds" && grep tiles/ "$TMP/good" | sha256sum -c --quiet) || fail "$level: other tiles"
done

# The cache.
expect 0 "^$FORGE_STATE/builds\$" "$FORGE" cache path
expect 0 '^tiles ' "$FORGE" cache list
expect 0 '"kind": "tiles"' "$FORGE" cache list --json
expect 0 '^ok ' "$FORGE" cache verify
expect 2 'builds or --all' "$FORGE" cache clear
expect 0 'would remove' "$FORGE" cache clear --all --dry-run
[ -n "$(files)" ] || fail "a dry run removed files"
expect 0 'removed 0 files' "$FORGE" cache clear --builds --older 3 --yes
expect 0 removed "$FORGE" cache clear --builds --yes
[ -z "$(files)" ] || fail "left: $(files)"

# Damage is found and mended; what is no package of the manifest is refused.
"$FORGE" compile --build "$bundle" 2> /dev/null
tile=$(find "$tiles" -name '*.fgt' | sort | head -1)
printf 'X' | dd of="$tile" bs=1 seek=20000 conv=notrunc status=none
expect 3 'DAMAGED|block 0' "$FORGE" cache verify
expect 0 'damaged, made again' "$FORGE" compile --build "$bundle"
sums | cmp - "$TMP/good" || fail "not mended"
expect 2 'expected 256, 512, 1024, found 300' "$FORGE" compile --build "$bundle" --ctx 300
expect 2 manifest "$FORGE" compile --build "$TMP/nowhere"
expect 2 FORGE_COMPILE_HEARTBEAT_S env FORGE_COMPILE_HEARTBEAT_S=soon "$FORGE" compile --build "$bundle"
cp -r "$bundle" "$TMP/mixed"
package=$TMP/mixed/forge/chunk_L04-07.safetensors
size=$(stat -c %s "$package")
byte=$(od -An -tu1 -j $((size / 2)) -N 1 "$package" | tr -d ' ')
printf "\\$(printf %o $((byte ^ 1)))" | dd of="$package" bs=1 seek=$((size / 2)) conv=notrunc status=none
got=$(code_of "$FORGE" compile --build "$TMP/mixed")
[ "$got" = 3 ] || [ "$got" = 2 ] || fail "a changed package: exit $got"

# A lock that somebody else has.
"$FORGE" cache clear --all --yes > /dev/null
"$FORGE" compile --build "$bundle" 2> /dev/null
rm "$tile"
exec 9> "$tile.lock"
flock -x 9
expect 6 'another process has it' "$FORGE" compile --build "$bundle" 9>&-
exec 9>&-
expect 0 '1 of 3' "$FORGE" compile --build "$bundle"
sums | cmp - "$TMP/good" || fail "other bytes after a lock"

# Killed and interrupted at random moments: the next run finishes, and the bytes are those of an undisturbed one.
for i in $(seq 1 10); do
    "$FORGE" cache clear --all --yes > /dev/null
    for signal in KILL KILL INT TERM; do
        "$FORGE" compile --build "$bundle" > /dev/null 2>&1 &
        pid=$!
        sleep "0.$(printf %03d $((RANDOM % 60 + i * 4)))"
        kill -$signal $pid 2> /dev/null || true
        rc=0
        wait $pid 2> /dev/null || rc=$?
        case $signal$rc in
        KILL0 | KILL137 | INT0 | INT130 | TERM0 | TERM143) ;;
        *) fail "$signal: exit $rc" ;;
        esac
    done
    expect 0 . "$FORGE" compile --build "$bundle"
    sums | cmp - "$TMP/good" || fail "other bytes after a kill"
done
"$FORGE" cache clear --all --yes > /dev/null
[ -z "$(files)" ] || fail "left: $(files)"

# An export of a real checkpoint, converted.
"$FORGE" quantize --model "$GOLDEN/models/chat-tiny" --method rtn --output "$TMP/export" > /dev/null 2>&1
"$FORGE" convert --export "$TMP/export" --model "$GOLDEN/models/chat-tiny" -o "$TMP/bundles" > /dev/null 2>&1
expect 0 'packages ready' "$FORGE" compile --build "$TMP/bundles/export"

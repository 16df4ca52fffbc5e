# forge quantize --method rtn: resumes after being killed at any moment with the same bytes, for any number of
# threads; exit codes; what it refuses; what it leaves alone.
model=$GOLDEN/models/a-s0
name=test_quantize
. "$GOLDEN/../cli/quantize_common.sh"

quantize() { # OUTPUT OPTIONS...
    local out=$1
    shift
    "$FORGE" quantize --method rtn --model "$model" --output "$out" --plan "$TMP/plan.json" "$@"
}

# Every format, factors everywhere.
cat > "$TMP/plan.json" << 'END'
{"schema": "forge.plan/1",
 "defaults": {"mlp": "v2x64", "mixer": "v2x16", "kv": "int8", "head": "lut4", "lr_rank": 4, "lr_parts": ["gdn", "attn", "mlp"]},
 "overrides": {"0.mlp": "lut4", "1.down": "f16", "1.qkv": "bf16", "2.basis": "plain", "3.lr_rank": 0}}
END

start=$(date +%s%N)
quantize "$TMP/ref" > "$TMP/stdout" 2> "$TMP/stderr"
took=$((($(date +%s%N) - start) / 1000000)) # ms: the kills below are spread over it
[ "$(cat "$TMP/stdout")" = "$TMP/ref" ] || fail "stdout: $(cat "$TMP/stdout")"
grep -q '^memory: ' "$TMP/stderr" || fail "memory was not printed before the start"
grep -q '^plan .*26 matrices' "$TMP/stderr" || fail "the plan was not printed before the start"
for i in 0 1 2 3; do
    [ -f "$TMP/ref/layer_0$i.safetensors" ] && [ -f "$TMP/ref/layer_0${i}_mixer.safetensors" ] || fail "layer $i"
done
[ "$(find "$TMP/ref" -maxdepth 1 -name 'l*.safetensors' | wc -l)" = 9 ] || fail "2 L + 1 files"
for f in small.safetensors embed_tokens.safetensors config.json export.json state/progress.json state/timing.json; do
    [ -f "$TMP/ref/$f" ] || fail "no $f"
done
cmp "$model/config.json" "$TMP/ref/config.json"

# Threads, kernels, output elsewhere: the same bytes.
quantize "$TMP/two" --threads 2 -q > /dev/null
same "$TMP/ref" "$TMP/two" "two threads"
FORGE_ISA=ref quantize "$TMP/ref-isa" -q > /dev/null
same "$TMP/ref" "$TMP/ref-isa" "plain C"

# Killed at 20 moments, spread over the job with some chance: the next run finishes, and nothing tells.
RANDOM=7
killed=0
for i in $(seq 20); do
    rm -rf "$TMP/cut"
    "$FORGE" quantize --method rtn --model "$model" --output "$TMP/cut" --plan "$TMP/plan.json" -q > /dev/null &
    job=$!
    at=$((took * (100 * i + RANDOM % 100) / 2200))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "$job" 2> /dev/null && killed=$((killed + 1))
    wait "$job" 2> /dev/null || true
    quantize "$TMP/cut" -q --threads $((1 + i % 2)) > /dev/null
    same "$TMP/ref" "$TMP/cut" "killed at moment $i"
done

# Killed at places: after the N-th file has its name.
for n in 1 2 5 8 9 10 11; do
    rm -rf "$TMP/cut"
    mkdir -p "$TMP/cut/state"
    cp -r "$TMP/ref/.forge" "$TMP/cut/"
    : > "$TMP/cut/state/.progress.json.0123abcd" # temporary files of a killed run
    i=0
    journal=$(sed -e 's/{"file"/\n&/g' "$TMP/ref/state/progress.json" | sed -n "1,$((n + 1))p" | tr -d '\n' | sed -e 's/, *$//')
    [ "$n" = 11 ] || journal="$journal]}"
    printf '%s\n' "$journal" > "$TMP/cut/state/progress.json"
    for f in $(grep -o '"file": *"[^"]*"' "$TMP/cut/state/progress.json" | cut -d '"' -f 4); do
        cp "$TMP/ref/$f" "$TMP/cut/"
        i=$((i + 1))
    done
    [ "$i" = "$n" ] || fail "made a state of $i files instead of $n"
    : > "$TMP/cut/.layer_00.safetensors.deadbeef"
    quantize "$TMP/cut" > /dev/null 2> "$TMP/stderr"
    grep -q "^$n of 11 files are finished" "$TMP/stderr" || fail "did not go on: $(cat "$TMP/stderr")"
    same "$TMP/ref" "$TMP/cut" "continued after $n files"
done

# A finished file that is gone or cut is made again.
rm "$TMP/cut/layer_01.safetensors" "$TMP/cut/export.json"
truncate -s -1 "$TMP/cut/lm_head.safetensors"
quantize "$TMP/cut" -q > /dev/null
same "$TMP/ref" "$TMP/cut" "damaged"

# Finished: nothing to do, nothing changes, reports still come.
quantize "$TMP/ref" --report "$TMP/report.json" --json > "$TMP/json" 2> "$TMP/stderr"
grep -q 'nothing is left to do' "$TMP/stderr" || fail "finished job: $(cat "$TMP/stderr")"
grep -q '"status": *"ok"' "$TMP/json" || fail "json: $(cat "$TMP/json")"
grep -q '"digest"' "$TMP/report.json" || fail "report without digest"
same "$TMP/ref" "$TMP/two" "a finished job run again"

# Ctrl-C leaves a state that goes on.
rm -rf "$TMP/cut"
for wait in 0.05 0.02 0.01 0.1; do
    "$FORGE" quantize --method rtn --model "$model" --output "$TMP/cut" --plan "$TMP/plan.json" -q > /dev/null 2> "$TMP/err" &
    job=$!
    sleep $wait
    kill -INT "$job" 2> /dev/null || true
    rc=0
    wait "$job" || rc=$?
    case $rc in
    0 | 130) ;;
    *) fail "exit $rc after SIGINT: $(cat "$TMP/err")" ;;
    esac
done
quantize "$TMP/cut" -q > /dev/null
same "$TMP/ref" "$TMP/cut" "after Ctrl-C"

# Other options on the same directory: refused by name with both values, until --restart.
refused 3 'lr-iters.*now 3, then 2' quantize "$TMP/cut" --lr-iters 3
refused 3 'unpacked' quantize "$TMP/cut" --unpacked
refused 3 'kmeans-seed' quantize "$TMP/cut" --kmeans-seed 2
refused 3 'plan' quantize "$TMP/cut" --basis plain
refused 3 'layers' quantize "$TMP/cut" --layers 1
refused 3 'only' quantize "$TMP/cut" --only '*.down'
refused 3 'model' "$FORGE" quantize --method rtn --model "$GOLDEN/models/a-s1" --output "$TMP/cut" --plan "$TMP/plan.json"
refused 3 'row-weight' quantize "$TMP/cut" --row-weight 0
same "$TMP/ref" "$TMP/cut" "refused runs"
quantize "$TMP/cut" --restart --layers 1-2 --only '*.down' -q > /dev/null
[ "$(cd "$TMP/cut" && echo *)" = "config.json export.json layer_01.safetensors layer_02.safetensors state" ] ||
    fail "left after --restart: $(ls "$TMP/cut")"
quantize "$TMP/cut" --no-resume -q > /dev/null
same "$TMP/ref" "$TMP/cut" "restarted"

# Locks: the second run is refused while the first holds the directory.
(
    flock -n 9 || exit 1
    refused 6 'lock' quantize "$TMP/cut" --restart
) 9> "$TMP/cut/.forge/lock" || fail "lock"
same "$TMP/ref" "$TMP/cut" "locked"

# What is not ours is left alone.
mkdir "$TMP/other"
echo mine > "$TMP/other/notes.txt"
refused 2 'other content' quantize "$TMP/other"
refused 2 'other content' quantize "$TMP/other" --restart
[ "$(cd "$TMP/other" && ls -A)" = notes.txt ] || fail "wrote into a foreign directory"

# A dry run touches nothing, and still checks.
quantize "$TMP/dry" --dry-run --json > "$TMP/json" 2> /dev/null
[ ! -e "$TMP/dry" ] || fail "the dry run wrote"
grep -q '"dry_run": *true' "$TMP/json" && grep -q '"memory_bytes"' "$TMP/json" || fail "$(cat "$TMP/json")"
refused 2 '9.gate' "$FORGE" quantize --method rtn --model "$model" --output "$TMP/dry" --dry-run --plan <(echo '{"9.gate": "lut4"}')
refused 5 'memory' quantize "$TMP/dry" --memory 1M
[ ! -e "$TMP/dry" ] || fail "a refused run wrote"

# Usage.
refused 2 '--output' "$FORGE" quantize --model "$model"
refused 2 '--out' "$FORGE" quantize --model "$model" --output "$TMP/x" --out "$TMP/y"
refused 2 'rtn' "$FORGE" quantize --model "$model" --output "$TMP/x" --method awq
refused 2 '--layers' quantize "$TMP/x" --layers 2-1
refused 2 '--layers' quantize "$TMP/x" --layers 4
refused 2 '--layers' quantize "$TMP/x" --layers 1-x
refused 2 '--only' quantize "$TMP/x" --only 'nothing*'
refused 2 '--lr-rank' quantize "$TMP/x" --lr-rank some
refused 2 '--lr-parts' quantize "$TMP/x" --lr-parts head
refused 2 '--lr-dtype' quantize "$TMP/x" --lr-dtype i4
refused 2 'release-0.3' "$FORGE" quantize --method rtn --model "$model" --output "$TMP/x" --plan release-0.3
refused 2 'nowhere' "$FORGE" quantize --method rtn --model "$TMP/nowhere" --output "$TMP/x"
refused 2 'quantized' "$FORGE" quantize --method rtn --model "$TMP/ref" --output "$TMP/x"
[ ! -e "$TMP/x" ] || fail "a refused run made its directory"

# Plans on the line.
[ "$("$FORGE" plan size -m "$GOLDEN/configs/qwen3.8-27b.json" --json |
    grep -o '"\(weight\|factor\)_bytes": *[0-9]*' | head -2 | tr -d ' ')" = '"weight_bytes":10138907232
"factor_bytes":316669952' ] || fail "sizes of release-0.2"
"$FORGE" plan size -m "$GOLDEN/configs/qwen3.8-27b.json" > "$TMP/out"
for n in 100350720 28879040 34117760 57714784 57710656 636195872 10138907232 316669952 10455577184 2542796800; do
    grep -qw "$n" "$TMP/out" || fail "no $n in forge plan size"
done
"$FORGE" plan show --plan release-0.1 > "$TMP/shown.json"
[ "$("$FORGE" plan size --plan "$TMP/shown.json" -m "$GOLDEN/configs/qwen3.8-27b.json" | grep -c 9737787552)" = 1 ] ||
    fail "a shown plan means something else"
[ "$("$FORGE" plan show -m "$model" | wc -l)" = 28 ] || fail "forge plan show"
refused 2 'model.layers' "$FORGE" plan size --plan u48 -m "$model"
echo "killed $killed of 20 while running, of $took ms"

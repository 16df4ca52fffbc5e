# forge quantize --method gptq: the same bytes after being killed at any moment, for any number of
# threads, kernels and batches; what it refuses; that its exports run and are nearer than rounding.
model=$GOLDEN/models/chat-tiny
name=test_quantize_gptq
. "$GOLDEN/../cli/quantize_common.sh"

quantize() { # OUTPUT OPTIONS...
    local out=$1
    shift
    "$FORGE" quantize --model "$model" --output "$out" --plan "$TMP/plan.json" --text "$TMP/text.txt:9" --seq 64 --holdout 2 "$@"
}

# The job is the program itself, so that waiting for it means that it has let go of the directory.
exec_in_background() { # OUTPUT
    "$FORGE" quantize --model "$model" --output "$1" --plan "$TMP/plan.json" --text "$TMP/text.txt:9" --seq 64 --holdout 2 -q > /dev/null &
}

cat > "$TMP/plan.json" << 'END'
{"schema": "forge.plan/1",
 "defaults": {"mlp": "v2x64", "mixer": "lut4", "kv": "int8", "head": "lut4", "lr_rank": 2, "lr_parts": ["gdn", "attn"]},
 "overrides": {"0.down": "v2x16", "1.up": "bf16"}}
END
for i in $(seq 80); do
    echo "Line $i: the quick brown fox counts to $((i * i)) and jumps over $((i % 7)) lazy dogs."
done > "$TMP/text.txt"

start=$(date +%s%N)
quantize "$TMP/ref" --report "$TMP/report.json" > "$TMP/stdout" 2> "$TMP/stderr"
took=$((($(date +%s%N) - start) / 1000000)) # ms: the kills below are spread over it
grep -q '^calibration: 9 rows of 64 tokens, 2 of them held out' "$TMP/stderr" || fail "$(cat "$TMP/stderr")"
for key in rel_err_h rel_err_h_rtn held_snr_db damp lr_left mlp_snr_db seconds; do
    grep -q "\"$key\"" "$TMP/report.json" || fail "no $key in the report"
done
[ -z "$(find "$TMP/ref/state" -name '*.safetensors')" ] || fail "state was left behind"
"$FORGE" digest "$TMP/ref" > /dev/null
"$FORGE" eval logits --model "$TMP/ref" --tokens 1,2,3 --out "$TMP/l.npy" > /dev/null

quantize "$TMP/two" --threads 2 --batch 3 -q > /dev/null
same "$TMP/ref" "$TMP/two" "two threads"
FORGE_ISA=ref quantize "$TMP/ref-isa" --batch 1 -q > /dev/null
same "$TMP/ref" "$TMP/ref-isa" "plain C"

# Killed at 20 moments, spread over the job with some chance.
RANDOM=11
killed=0
for i in $(seq 20); do
    rm -rf "$TMP/cut"
    exec_in_background "$TMP/cut"
    job=$!
    at=$((took * (100 * i + RANDOM % 100) / 2200))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "$job" 2> /dev/null && killed=$((killed + 1))
    wait "$job" 2> /dev/null || true
    quantize "$TMP/cut" -q --threads $((1 + i % 2)) > /dev/null
    same "$TMP/ref" "$TMP/cut" "killed at moment $i"
done

# Other options on the same directory.
refused 3 'damp' quantize "$TMP/cut" --damp 0.02
refused 3 'order' quantize "$TMP/cut" --order none
refused 3 'refine' quantize "$TMP/cut" --refine 1
refused 3 'lr-fit' quantize "$TMP/cut" --lr-fit full
refused 3 'calib' quantize "$TMP/cut" --holdout 1
refused 3 'calib' quantize "$TMP/cut" --ncal 8
refused 3 'method' "$FORGE" quantize --model "$model" --output "$TMP/cut" --plan "$TMP/plan.json" --method rtn
same "$TMP/ref" "$TMP/cut" "refused runs"

# Options that must give something else, and work.
for o in "--order none" "--aw 0" "--refine 2" "--lr-fit diag" "--lr-fit full" "--lr-split balanced" "--lr-dtype i8" "--state-dtype bf16"; do
    rm -rf "$TMP/other"
    # shellcheck disable=SC2086 # two words
    quantize "$TMP/other" $o -q > /dev/null
    [ "$("$FORGE" digest "$TMP/other")" != "$("$FORGE" digest "$TMP/ref")" ] || fail "$o changes nothing"
done

# Factors in INT8: half the bytes and four for each component, the same bytes every way, the same logits from export, bundle and tiles.
quantize "$TMP/i8" --lr-dtype i8 -q > /dev/null
quantize "$TMP/i8-two" --lr-dtype i8 -q --threads 2 --batch 3 > /dev/null
same "$TMP/i8" "$TMP/i8-two" "INT8 factors, two threads"
FORGE_ISA=ref quantize "$TMP/i8-ref" --lr-dtype i8 -q > /dev/null
same "$TMP/i8" "$TMP/i8-ref" "INT8 factors, plain C"
refused 3 'plan' quantize "$TMP/i8" -q
"$FORGE" plan size --model "$model" --plan "$TMP/plan.json" --lr-dtype i8 --json > "$TMP/size.json"
grep -q '"factor_bytes": 664, "total_bytes"' "$TMP/size.json" || fail "the plan has other bytes" # (1216 in F16) / 2 + 4 * 2 * 7
grep -qE '"bytes": \{"weights": [0-9]+, "factors": 664, "embed"' "$TMP/i8/export.json" || fail "the export has other bytes than the plan"
grep -q '"lr_dtype": "i8"' "$TMP/i8/export.json" || fail "export.json does not say how factors are stored"
! grep -q lr_dtype "$TMP/ref/export.json" || fail "export.json of F16 factors is another"
"$FORGE" inspect "$TMP/i8" --json | grep -q '"bytes": 664' || fail "inspect counts other bytes"
"$FORGE" inspect "$TMP/i8" --verify > /dev/null
"$FORGE" convert --export "$TMP/i8" --output "$TMP/bundles" -q > /dev/null
"$FORGE" compile --build "$TMP/bundles/i8" -q
[ "$("$FORGE" digest "$TMP/i8")" = "$("$FORGE" digest "$TMP/bundles/i8")" ] || fail "packages have another digest"
logits() { # MODEL OUT OPTIONS...
    "$FORGE" eval logits --model "$1" --out "$2" --tokens 5,6,7,8,9 --kv-cache-dtype f32 -q "${@:3}"
}
for numerics in exact fast; do
    logits "$TMP/i8" "$TMP/a.npy" --numerics $numerics
    logits "$TMP/bundles/i8" "$TMP/b.npy" --numerics $numerics --rows 4 --threads 2
    FORGE_ISA=ref logits "$TMP/bundles/i8" "$TMP/c.npy" --numerics $numerics --rows 1
    cmp "$TMP/a.npy" "$TMP/b.npy" || fail "other logits from packages: $numerics"
    cmp "$TMP/a.npy" "$TMP/c.npy" || fail "other logits in plain C: $numerics"
done

# Calibration that can't be.
refused 2 '--calib' "$FORGE" quantize --model "$model" --output "$TMP/x"
refused 2 'rows' quantize "$TMP/x" --text "$TMP/text.txt:9999"
refused 2 'rows' quantize "$TMP/x" --ncal 2
refused 2 '--text' quantize "$TMP/x" --text "$TMP/text.txt:0"
refused 2 'nowhere' quantize "$TMP/x" --calib "$TMP/nowhere.safetensors"
echo short > "$TMP/short.safetensors"
refused 2 'short' quantize "$TMP/x" --calib "$TMP/short.safetensors"
refused 5 'memory' quantize "$TMP/x" --memory 1M
[ ! -e "$TMP/x" ] || fail "a refused run made its directory"
echo "killed $killed of 20 while running, of $took ms"

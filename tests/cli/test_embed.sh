# forge quantize --embed: what is said and written, and read by the other commands; the same bytes after kill -9.
model=$GOLDEN/models/c-s0 # tied
untied=$GOLDEN/models/a-s0
name=test_embed
. "$GOLDEN/../cli/quantize_common.sh"

logits() { # MODEL FILE OPTIONS...
    local from=$1 to=$2
    shift 2
    "$FORGE" eval logits -m "$from" --tokens 5,7,9,40,111,0,5 --kv-cache-dtype f32 --out "$to" "$@" > /dev/null 2>&1 || fail "logits of $from"
}

# Sizes: 112 tokens, 32 wide.
"$FORGE" plan size -m "$model" --embed f16 | grep -q '^embedding (F16) *7168 ' || fail "size of f16"
"$FORGE" plan size -m "$model" --embed int8 | grep -q '^embedding (INT8) *3808 ' || fail "size of int8"
"$FORGE" plan size -m "$model" --embed head | grep -q '^embedding *is the head$' || fail "size of head"
"$FORGE" plan size -m "$model" --embed head --json | grep -q '"embed": "head", "embed_bytes": 0' || fail "JSON size"
"$FORGE" plan show -m "$model" --embed int8 | grep -q '^embed_tokens .* int8 ' || fail "show"
"$FORGE" plan show --plan all-lut4 --embed head > "$TMP/plan.json"
grep -q '"embed": "head"' "$TMP/plan.json" || fail "the plan does not say it"
"$FORGE" plan size -m "$model" --plan "$TMP/plan.json" | grep -q 'is the head' || fail "the plan means something else"
refused 2 'defaults.embed' "$FORGE" plan size -m "$untied" --plan "$TMP/plan.json"
refused 2 'defaults.embed' "$FORGE" quantize -m "$untied" --method rtn --embed head -o "$TMP/x"
refused 2 'embed' "$FORGE" quantize -m "$model" --method rtn --embed lut4 -o "$TMP/x"
[ ! -e "$TMP/x" ] || fail "a refused run made its directory"

# Written and read, as an export and as a bundle.
for e in int8 head; do
    "$FORGE" quantize -m "$model" --method rtn --plan all-lut4 --embed $e -o "$TMP/$e" > /dev/null 2> "$TMP/err" || fail "quantize $e"
    "$FORGE" convert --export "$TMP/$e" --output "$TMP/bundles" -q > /dev/null || fail "convert $e"
    bundle=$TMP/bundles/$e
    "$FORGE" inspect "$bundle" --verify > /dev/null || fail "verify $e"
    [ ! -e "$bundle/model/embed_tokens_fp16.npy" ] || fail "an FP16 embedding in $bundle"
    [ "$("$FORGE" digest "$TMP/$e")" = "$("$FORGE" digest "$bundle")" ] || fail "digests of $e"
    logits "$TMP/$e" "$TMP/$e.npy"
    logits "$bundle" "$TMP/b.npy" --threads 2
    cmp "$TMP/$e.npy" "$TMP/b.npy" || fail "logits of the bundle of $e"
    logits "$bundle" "$TMP/b.npy" --rows 1
    cmp "$TMP/$e.npy" "$TMP/b.npy" || fail "logits of $e, row by row"
    FORGE_ISA=ref logits "$bundle" "$TMP/b.npy"
    cmp "$TMP/$e.npy" "$TMP/b.npy" || fail "logits of $e in plain C"
done
"$FORGE" inspect "$TMP/int8" | grep -q '^embedding *I8 \[112, 32\]$' || fail "inspect int8"
"$FORGE" inspect "$TMP/int8" --json | grep -q '"embedding_dtype": "I8"' || fail "inspect int8 as JSON"
"$FORGE" inspect "$TMP/head" | grep -q '^embedding *is the head$' || fail "inspect head"
"$FORGE" inspect "$TMP/bundles/head" | grep -q '^embedding *is the head$' || fail "inspect the bundle of head"
"$FORGE" inspect "$TMP/bundles/int8" | grep -q '^embedding .*embed_tokens_int8.safetensors$' || fail "inspect the bundle of int8"
[ ! -e "$TMP/head/embed_tokens.safetensors" ] || fail "an embedding beside the head"
cmp -s "$TMP/int8.npy" "$TMP/head.npy" && fail "int8 and head give the same logits"

# Files that are missing.
cp -r "$TMP/head" "$TMP/broken"
rm "$TMP/broken/lm_head.safetensors"
refused 2 'lm_head' "$FORGE" eval logits -m "$TMP/broken" --tokens 1 --out "$TMP/b.npy"
cp -r "$TMP/bundles/int8" "$TMP/broken-bundle"
rm "$TMP/broken-bundle/model/embed_tokens_int8.safetensors"
refused 2 'embed_tokens_int8' "$FORGE" eval logits -m "$TMP/broken-bundle" --tokens 1 --out "$TMP/b.npy"

# Killed at moments spread over the job, the head first: nothing tells.
ids=""
for i in $(seq 400); do ids+=$(printf '\\x%02x\\0\\0\\0' $(((i * i + 7 * i) % 112))); done
header='{"__metadata__":{"schema":"forge.rows/1"},"ids":{"dtype":"I32","shape":[10,40],"data_offsets":[0,1600]}}'
while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
# shellcheck disable=SC2059 # escapes
{
    printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0"
    printf '%s' "$header"
    printf "$ids"
} > "$TMP/rows.safetensors"
gptq() { # OUTPUT OPTIONS...
    local out=$1
    shift
    "$FORGE" quantize -m "$model" --calib "$TMP/rows.safetensors" --seq 40 --embed head -o "$out" "$@"
}
start=$(date +%s%N)
gptq "$TMP/ref" -q > /dev/null
took=$((($(date +%s%N) - start) / 1000000)) # ms
[ -z "$(find "$TMP/ref/state" -name '*.safetensors')" ] || fail "state was left behind"
RANDOM=3
killed=0
for i in $(seq 8); do
    rm -rf "$TMP/cut"
    "$FORGE" quantize -m "$model" --calib "$TMP/rows.safetensors" --seq 40 --embed head -o "$TMP/cut" -q > /dev/null &
    job=$!
    at=$((took * (100 * i + RANDOM % 100) / 1000))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "$job" 2> /dev/null && killed=$((killed + 1))
    wait "$job" 2> /dev/null || true
    gptq "$TMP/cut" -q --threads $((1 + i % 2)) > /dev/null
    diff <(listing "$TMP/ref") <(listing "$TMP/cut") > "$TMP/diff" || fail "killed at moment $i: $(cat "$TMP/diff")"
done
refused 3 'plan' "$FORGE" quantize -m "$model" --calib "$TMP/rows.safetensors" --seq 40 --embed int8 -o "$TMP/cut"
echo "killed $killed of 8 while running, of $took ms"

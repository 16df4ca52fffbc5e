# forge plan measure, solve, verify: tables that grow and go on, budgets, plans that mean what they
# say, what is written back, refusals.
model=$GOLDEN/models/a-s0
FORGE_THREADS=1
export FORGE_THREADS
cd "$TMP"

fail() {
    echo "test_plan: $*" >&2
    exit 1
}

# Exit code, and words that standard error must hold.
refused() { # CODE WORDS COMMAND...
    local code=$1 words=$2 rc=0
    shift 2
    "$FORGE" plan "$@" -q > out 2> err < /dev/null || rc=$?
    [ "$rc" = "$code" ] || fail "exit $rc instead of $code: $* ($(cat err))"
    grep -q -e "$words" err || fail "no '$words' in: $(cat err)"
    [ ! -s out ] || fail "stdout of a refusal: $*"
    [ "$(grep -vc '^hint: ' err)" = 1 ] || fail "not one line: $(cat err)"
}

# The first value of "KEY" in a JSON text of one line.
first() { # FILE KEY
    grep -o "\"$2\": *[^,}]*" "$1" | head -1 | sed 's/^[^:]*: *//'
}

# Value of a row of a table.
value() { # FILE UNIT FORMAT METRIC
    grep -o "{\"unit\": \"$2\", \"format\": \"$3\", \"metric\": \"$4\", \"value\": [^,}]*" "$1" | sed 's/.*: //'
}

u32() { # NUMBER
    printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255))
}

# Random rows of token ids.
rows() { # FILE ROWS SEQ SEED
    local i data="" n=$(($2 * $3)) header
    header="{\"__metadata__\":{\"schema\":\"forge.rows/1\"},\"ids\":{\"dtype\":\"I32\",\"shape\":[$2,$3],\"data_offsets\":[0,$((n * 4))]}}"
    while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
    RANDOM=$4
    for ((i = 0; i < n; i++)); do
        printf -v byte '\\x%02x\\x00\\x00\\x00' $((RANDOM % 96))
        data+=$byte
    done
    # shellcheck disable=SC2059 # escapes
    printf "$(u32 ${#header})\\x00\\x00\\x00\\x00" > "$1"
    printf '%s' "$header" >> "$1"
    # shellcheck disable=SC2059
    printf "$data" >> "$1"
}

rows calib 12 48 1
rows other 12 48 2
rows trace 5 24 3
"$FORGE" teacher -m "$model" --rows trace --topk 96 --out teacher -q > /dev/null || fail "teacher"

measure() { # KIND OUT OPTIONS...
    local kind=$1 out=$2
    shift 2
    "$FORGE" plan measure --kind "$kind" -m "$model" --out "$out" --calib calib --seq 48 --holdout 0 -q "$@"
}
compare=(--work work --trace trace --teacher teacher --band-layers 2)

# ---- errors of matrices

measure err err.json --dry-run > out || fail "--dry-run"
[ "$(cat out)" = "err.json: 0 figures, 260 to be measured" ] && [ ! -e err.json ] || fail "--dry-run: $(cat out)"
measure err err.json > out || fail "measure err"
[ "$(cat out)" = "err.json: 260 figures, 260 of them new" ] || fail "figures: $(cat out)" # 26 matrices, 5 formats, 2
for unit in 0.gate 3.o 2.out head; do
    coarse=$(value err.json $unit v2x16 rel_err_h) fine=$(value err.json $unit lut4 rel_err_h)
    awk "BEGIN { exit !($coarse > $fine && $fine > 0) }" || fail "$unit: $coarse, $fine"
done
cp err.json before.json
measure err err.json > out
[ "$(cat out)" = "err.json: 260 figures, 0 of them new" ] || fail "measured again: $(cat out)"
cmp -s err.json before.json || fail "a table without news was written"
measure err some.json --only '*.down' --formats lut4 > /dev/null
[ "$(grep -o '"unit"' some.json | wc -l)" = 8 ] || fail "--only: $(cat some.json)"
[ "$(value some.json 1.down lut4 rel_err_h)" = "$(value err.json 1.down lut4 rel_err_h)" ] || fail "one of many differs"
# With rows that are held out, errors per token too; and a table without them gets them.
tokens() { "$FORGE" plan measure --kind err -m "$model" --out tokens.json --calib calib --seq 48 --only 1.down -q "$@" > out; }
tokens --holdout 1 --formats v2x16,lut4 && [ "$(cat out)" = "tokens.json: 6 figures, 6 of them new" ] || fail "per token: $(cat out)"
coarse=$(value tokens.json 1.down v2x16 rel_err_t) fine=$(value tokens.json 1.down lut4 rel_err_t)
awk "BEGIN { exit !($coarse > $fine && $fine > 0) }" || fail "per token: $coarse, $fine"
tokens --holdout 1 && [ "$(cat out)" = "tokens.json: 15 figures, 9 of them new" ] || fail "per token, the rest: $(cat out)"
refused 3 'trace_sha256' measure --kind err -m "$model" --out some.json --calib other --seq 48 --holdout 0
measure err some.json --calib other --restart > /dev/null || fail "--restart"
refused 2 'formats that lose' measure --kind err -m "$model" --out x --calib calib --seq 48 --formats bf16
refused 2 '--kind' measure -m "$model" --out x --calib calib
[ ! -e x ] || fail "a refusal left a table"

# ---- parts of the model

measure band sens.json "${compare[@]}" --dry-run > out || fail "--dry-run"
[ "$(cat out)" = "sens.json: 0 figures, 5 to be measured" ] && [ ! -e work ] || fail "--dry-run: $(cat out)"
measure band sens.json "${compare[@]}" > out || fail "measure band"
[ "$(cat out)" = "sens.json: 5 figures, 5 of them new" ] || fail "bands: $(cat out)"
grep -q '"unit": "mixer:2-3", "format": "v2x16", "metric": "kl", "value": [0-9.e-]*, "ci95": \[[^]]*\], "tokens": 115, "trace_sha256": "[0-9a-f]\{64\}"' sens.json ||
    fail "a row: $(cat sens.json)"
[ "$(find work -name q_topk_lp.npy | wc -l)" = 0 ] || fail "log-probabilities are left"
measure layer sens.json "${compare[@]}" > out || fail "measure layer"
[ "$(cat out)" = "sens.json: 13 figures, 8 of them new" ] || fail "layers: $(cat out)"
measure band sens.json "${compare[@]}" > out
[ "$(cat out)" = "sens.json: 13 figures, 0 of them new" ] || fail "measured again: $(cat out)"

# A part that is kept as it is does nothing: the rest really is the checkpoint's.
measure band kept.json "${compare[@]}" --formats bf16 > /dev/null || fail "kept"
for unit in mlp:0-1 mlp:2-3 mixer:0-1 mixer:2-3 head; do
    kl=$(value kept.json $unit bf16 kl)
    limit=1e-9
    [ "$unit" != mixer:2-3 ] || limit=1e-4 # keys and values are INT8, as the plan has them
    awk "BEGIN { exit !($kl < $limit) }" || fail "$unit kept has a KL of $kl"
    kl=$(value sens.json $unit v2x16 kl)
    awk "BEGIN { exit !($kl > 1e-6) }" || fail "$unit at two bits has a KL of $kl"
done

# A given export is used; killed at any moment the same command goes on to the same figures.
mv work/v2x16 given
rm -rf work
measure band given.json "${compare[@]}" --export v2x16=given > /dev/null || fail "--export"
for moment in 0.05 0.15 0.25 0.4; do
    rm -rf work cut.json
    "$FORGE" plan measure --kind band -m "$model" --out cut.json --calib calib --seq 48 --holdout 0 "${compare[@]}" -q > /dev/null 2>&1 &
    job=$!
    sleep $moment
    kill -9 $job 2> /dev/null || true
    wait $job 2> /dev/null || true
    measure band cut.json "${compare[@]}" > /dev/null || fail "going on after $moment s"
    for unit in mlp:0-1 mlp:2-3 mixer:0-1 mixer:2-3 head; do
        want=$(value sens.json $unit v2x16 kl)
        [ "$(value cut.json $unit v2x16 kl)" = "$want" ] || fail "$unit after a kill at $moment s"
        [ "$(value given.json $unit v2x16 kl)" = "$want" ] || fail "$unit of a given export"
    done
done
refused 2 '--teacher' measure --kind band -m "$model" --out x --work work --trace trace
refused 2 '--trace' measure --kind layer -m "$model" --out x --work work --teacher teacher
refused 2 '--work' measure --kind band -m "$model" --out x --trace trace --teacher teacher
refused 2 '--export' measure --kind band -m "$model" --out x --work work --trace trace --teacher teacher --export given
refused 3 'teacher' measure --kind band -m "$model" --out x --work work --trace calib --teacher teacher
refused 3 'model' measure --kind band -m "$GOLDEN/models/a-s1" --out x --work work --trace trace --teacher teacher --export v2x16=given
refused 2 'layer_00' measure --kind band -m "$model" --out x --work work2 --trace trace --teacher teacher --export v2x16=teacher

# ---- plans

size() { # PLAN: bytes of weights and factors
    "$FORGE" plan size -m "$model" --plan "$1" --json > size.json
    first size.json total_bytes
}

solve() { # OUT OPTIONS...
    local out=$1
    shift
    "$FORGE" plan solve -m "$model" --sens err.json --sens sens.json --out "$out" "$@"
}

base=$(size release-0.2)
solve plan.json --budget-bytes $((base - 2000)) --dry-run > dry || fail "--dry-run"
[ ! -e plan.json ] || fail "--dry-run wrote a plan"
solve plan.json --budget-bytes $((base - 2000)) > out || fail "solve"
cmp dry out || fail "--dry-run says something else"
grep -q '^23 of 26 matrices are chosen; errors of 23 measured in every format' out || fail "inputs: $(cat out)"
grep -q '4 bands, 4 with losses of each layer; head measured; rho 1$' out || fail "bands: $(cat out)"
grep -q 'no plan costs less' out || fail "exactness: $(cat out)"
bytes=$(size plan.json)
[ "$bytes" -le $((base - 2000)) ] || fail "$bytes bytes are over the budget"
[ "$(first plan.json weights)" = "$(first size.json weight_bytes)" ] || fail "bytes in the file"
grep -q "\"inputs\": \[\"err.json [0-9a-f]\{64\}\", \"sens.json [0-9a-f]\{64\}\"\]" plan.json || fail "inputs: $(cat plan.json)"
"$FORGE" plan show -m "$model" --plan plan.json > show
[ "$(grep -c ' int8 ' show)" = 2 ] || fail "keys and values: $(cat show)"
grep -q '^lm_head .* lut4 ' show || fail "the head: $(cat show)"
"$FORGE" plan show --plan plan.json > again.json
"$FORGE" plan show -m "$model" --plan again.json | cmp - show || fail "the plan came back another"

solve more.json --budget-bytes $((base + 4000)) --json > json || fail "more room"
first json exact | grep -q true || fail "not exact: $(cat json)"
awk "BEGIN { exit !($(first more.json kl) <= $(first plan.json kl)) }" || fail "more room, more damage"
solve match.json --match release-0.2 --uniform layer -q > /dev/null || fail "match"
bytes=$(size match.json)
[ "$bytes" -le $((base + base / 1000)) ] || fail "$bytes bytes match $base"
for layer in 0 1 2 3; do
    [ "$("$FORGE" plan show -m "$model" --plan match.json | grep "^layers.$layer.mlp" | awk '{print $4}' | sort -u | wc -l)" = 1 ] ||
        fail "layer $layer is not uniform"
done
solve own.json --budget-bytes $((base + 4000)) --free kv,head --allow lut4,int8 > /dev/null || fail "--free"
"$FORGE" plan show -m "$model" --plan own.json | grep -q 'mlp.gate_proj .* v2x64 ' || fail "what is not free moved"
"$FORGE" quantize -m "$model" --plan plan.json --method rtn --output q -q > /dev/null || fail "quantize by it"

"$FORGE" plan measure --kind speed -m "$model" --out speed.json -q > out || fail "measure speed"
[ "$(cat out)" = "speed.json: 130 figures, 130 of them new" ] || fail "times: $(cat out)"
solve fast.json --budget-bytes $((base + 4000)) --speed speed.json --budget-ms 1000 > out || fail "--speed"
grep -q 'ms per row' out || fail "times: $(cat out)"
refused 2 'field budget' solve -m "$model" --sens sens.json --out x --budget-bytes $((base + 4000)) --speed speed.json --budget-ms 0.0001
refused 2 '--speed' solve -m "$model" --sens sens.json --out x --budget-gib 1 --budget-ms 1
refused 2 '0.gate' solve -m "$model" --sens sens.json --out x --budget-gib 1 --speed sens.json

refused 2 'one of --budget-gib' solve -m "$model" --sens sens.json --out x
refused 2 'more than one' solve -m "$model" --sens sens.json --out x --budget-gib 1 --match u48
refused 2 'at least [0-9]* bytes' solve -m "$model" --sens sens.json --out x --budget-bytes 1000
refused 2 '9.7X' solve -m "$model" --sens sens.json --out x --budget-bytes 9.7X
refused 2 'lut5' solve -m "$model" --sens sens.json --out x --budget-gib 1 --allow v2x16,lut5
refused 2 '--free' solve -m "$model" --sens sens.json --out x --budget-gib 1 --free mlp,kvs
refused 2 '--sens' solve -m "$model" --out x --budget-gib 1
refused 2 'nothing.json' solve -m "$model" --sens nothing.json --out x --budget-gib 1
refused 2 'model.layers' solve -m "$model" --sens sens.json --out x --match release-0.1
refused 2 'model\.' solve -m "$GOLDEN/models/chat-tiny" --sens sens.json --out x --budget-gib 1
echo '{"schema": "forge.sens/1", "rows": [{"unit": "9.gate", "format": "lut4", "metric": "kl", "value": 1}]}' > strange
refused 2 'strange, field 9.gate' solve -m "$model" --sens strange --out x --budget-gib 1
echo '{"schema": "forge.sens/1", "rows": [{"unit": "0.gate", "format": "lut4", "metric": "kl", "value": -1}]}' > strange
refused 2 'strange, field rows.0..value' solve -m "$model" --sens strange --out x --budget-gib 1
mkdir dir
refused 2 'dir' solve -m "$model" --sens sens.json --out dir --budget-gib 1
[ ! -e x ] || fail "a refusal left a plan"

# ---- what a plan really does

verify() { # PLAN OPTIONS...
    local plan=$1
    shift
    "$FORGE" plan verify --plan "$plan" -m "$model" --calib calib --seq 48 --holdout 0 --trace trace --teacher teacher -q "$@"
}
verify plan.json --work verified --dry-run > out && [ ! -s out ] && [ ! -e verified ] || fail "--dry-run"
verify plan.json --work verified > out || fail "verify"
grep -q '^KL [0-9.e-]* \[.*\] over 115 positions' out || fail "verified: $(cat out)"
kl=$(grep -o '"verified": {"kl": [^,]*' plan.json | sed 's/.*: //')
rho=$(grep -o '"verified": {.*' plan.json | grep -o '"rho": [^,]*' | sed 's/.*: //')
[ -n "$kl" ] && [ -n "$rho" ] || fail "nothing was written back: $(cat plan.json)"
awk "BEGIN { r = $rho * $(first plan.json kl) / $kl; exit !(r > 0.999999 && r < 1.000001) }" || fail "rho: $rho"
[ "$(first verified/report/summary.json mean_kl)" = "$kl" ] || fail "not the report's KL"
"$FORGE" plan show -m "$model" --plan plan.json | cmp - show || fail "verifying changed the plan"
verify plan.json --work verified --json > json || fail "verify again"
[ "$(first json kl)" = "$kl" ] || fail "another KL: $(cat json)"
solve next.json --from plan.json --budget-bytes $((base - 2000)) > out || fail "solve from a verified plan"
grep -q "rho $(printf %.4g "$rho")" out || fail "rho is not taken over: $(cat out)"
refused 2 '--out' verify --plan all-lut4 -m "$model" --calib calib --seq 48 --work w --trace trace --teacher teacher
verify all-lut4 --work lut4 --out lut4.json > out || fail "verify by name"
grep -q 'predicts no KL' out || fail "a prediction of none: $(cat out)"
refused 2 '--calib' verify --plan plan.json -m "$model" --work w --trace trace --teacher teacher

# forge teacher, forge eval kl, kl compare, kl --matrix: the control, reports, what a kill at any moment
# leaves, identities that do not fit, exit codes.
model=$GOLDEN/models/a-s0
student=$GOLDEN/models/a-s1
FORGE_THREADS=1
export FORGE_THREADS

fail() {
    echo "test_eval_kl: $*" >&2
    exit 1
}

# Exit code, and words that standard error must hold.
refused() { # CODE WORDS COMMAND...
    local code=$1 words=$2 rc=0
    shift 2
    "$FORGE" "$@" -q > "$TMP/out" 2> "$TMP/err" < /dev/null || rc=$?
    [ "$rc" = "$code" ] || fail "exit $rc instead of $code: $* ($(cat "$TMP/err"))"
    grep -q -e "$words" "$TMP/err" || fail "no '$words' in: $(cat "$TMP/err")"
    [ ! -s "$TMP/out" ] || fail "stdout of a refusal: $*"
    [ "$(grep -vc '^hint: ' "$TMP/err")" = 1 ] || fail "not one line: $(cat "$TMP/err")"
}

# The first value of "KEY" in a JSON text of one line.
first() { # FILE KEY
    grep -o "\"$2\": *[^,}]*" "$1" | head -1 | sed 's/^[^:]*: *//'
}

# ---- files of sequences, made here

u32() { # NUMBER...
    local v
    for v in "$@"; do
        printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((v & 255)) $((v >> 8 & 255)) $((v >> 16 & 255)) $((v >> 24 & 255))
    done
}

# A safetensors file of a header and data that are printf escapes.
safetensors() { # FILE HEADER DATA
    local header=$2
    while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
    # shellcheck disable=SC2059 # escapes
    printf "$(u32 ${#header} 0)" > "$1"
    printf '%s' "$header" >> "$1"
    # shellcheck disable=SC2059
    printf "$3" >> "$1"
}

ids() { # COUNT SEED
    local i data=""
    RANDOM=$2
    for ((i = 0; i < $1; i++)); do
        printf -v byte '\\x%02x\\x00\\x00\\x00' $((RANDOM % 96))
        data+=$byte
    done
    printf '%s' "$data"
}

rows() { # FILE ROWS SEQ SEED
    local bytes=$(($2 * $3 * 4))
    safetensors "$1" "{\"__metadata__\":{\"schema\":\"forge.rows/1\"},\"ids\":{\"dtype\":\"I32\",\"shape\":[$2,$3],\"data_offsets\":[0,$bytes]}}" \
        "$(ids $(($2 * $3)) "$4")"
}

# Sequences of the given lengths; the prompts are of 3 tokens, the labels take turns.
trace() { # FILE SEED LENGTH...
    local file=$1 seed=$2 n total=0 l a b c label="" plens=""
    shift 2
    n=$#
    for l in "$@"; do
        label+="\\x0$((total % 2))"
        plens+=$(u32 3)
        total=$((total + l))
    done
    a=$((total * 4)) b=$((a + n * 4)) c=$((b + n * 4))
    safetensors "$file" "{\"__metadata__\":{\"schema\":\"forge.trace/1\",\"labels\":\"[\\\"code\\\",\\\"prose\\\"]\"},\"ids\":{\"dtype\":\"I32\",\"shape\":[$total],\"data_offsets\":[0,$a]},\"lengths\":{\"dtype\":\"I32\",\"shape\":[$n],\"data_offsets\":[$a,$b]},\"plens\":{\"dtype\":\"I32\",\"shape\":[$n],\"data_offsets\":[$b,$c]},\"label\":{\"dtype\":\"U8\",\"shape\":[$n],\"data_offsets\":[$c,$((c + n))]}}" \
        "$(ids $total "$seed")$(u32 "$@")$plens$label"
}

rows "$TMP/rows" 400 12 1
rows "$TMP/more" 70 12 2
lengths="31 40 7 64 25 50 33 80 12 45 29 71"
# shellcheck disable=SC2086 # a list
trace "$TMP/trace" 3 $lengths
# shellcheck disable=SC2086
trace "$TMP/trace2" 4 $lengths

# Everything in a directory but times: of the summary and the lines all other members.
listing() {
    (
        cd "$1"
        find . -type f ! -path './.forge/*' ! -name summary.json ! -name sequences.jsonl -exec sha256sum {} + | sort -k 2
        for f in summary.json sequences.jsonl; do
            [ ! -f $f ] || sed -e 's/"\(seconds\|date\|command\)": *[^,}]*[,}]//g' $f
        done
    )
}
same() {
    diff <(listing "$1") <(listing "$2") > "$TMP/diff" || fail "$3: $(cat "$TMP/diff")"
}

# ---- the teacher

"$FORGE" teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/t-rows" -q > "$TMP/out" || fail "teacher"
grep -q '5170 positions of 470 sequences, the best 16 of each, 8 shards' "$TMP/out" || fail "teacher: $(cat "$TMP/out")"
start=$(date +%s%N)
"$FORGE" teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/t-two" --threads 2 -q --json > "$TMP/json" || fail "teacher"
took=$((($(date +%s%N) - start) / 1000000)) # ms: the kills below are spread over it
[ "$(first "$TMP/json" status)" = '"ok"' ] && [ "$(first "$TMP/json" shards)" = 8 ] || fail "json: $(cat "$TMP/json")"
same "$TMP/t-rows" "$TMP/t-two" "two threads"

RANDOM=11
for i in $(seq 20); do
    rm -rf "$TMP/cut"
    "$FORGE" teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/cut" -q > /dev/null &
    job=$!
    at=$((took * (100 * i + RANDOM % 100) / 2200))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "$job" 2> /dev/null || true
    wait "$job" 2> /dev/null || true
    "$FORGE" teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/cut" -q --threads $((1 + i % 2)) > /dev/null
    same "$TMP/t-rows" "$TMP/cut" "teacher killed at moment $i"
done
# Ctrl-C, too.
rm -rf "$TMP/cut"
for wait in 0.02 0.05 0.01 0.1; do
    "$FORGE" teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/cut" -q > /dev/null 2> "$TMP/err" &
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
"$FORGE" teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/cut" -q > /dev/null
same "$TMP/t-rows" "$TMP/cut" "teacher after Ctrl-C"

refused 3 'topk.*now 17, then 16' teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 17 --out "$TMP/cut"
refused 3 'field rows' teacher -m "$model" --rows "$TMP/rows" --topk 16 --out "$TMP/cut"
refused 3 'field model' teacher -m "$student" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/cut"
refused 2 'one of --rows and --trace, found none' teacher -m "$model" --out "$TMP/x"
refused 2 'one of --rows and --trace, found both' teacher -m "$model" --rows "$TMP/rows" --trace "$TMP/trace" --out "$TMP/x"
refused 2 'all of 80 tokens' teacher -m "$model" --rows "$TMP/trace" --out "$TMP/x"
refused 2 "$TMP/none" teacher -m "$model" --rows "$TMP/none" --out "$TMP/x"
refused 2 'topk' teacher -m "$model" --rows "$TMP/rows" --topk 0 --out "$TMP/x"
refused 2 'other content' teacher -m "$model" --rows "$TMP/rows" --out "$TMP"
[ ! -e "$TMP/x" ] || fail "a refused command made its output"
(
    flock -n 9 || exit 1
    refused 6 'lock' teacher -m "$model" --rows "$TMP/rows" --rows "$TMP/more" --topk 16 --out "$TMP/cut"
) 9> "$TMP/cut/.forge/lock" || fail "lock"

# ---- the control

"$FORGE" teacher -m "$model" --trace "$TMP/trace" --topk 24 --out "$TMP/t" -q > /dev/null || fail "teacher --trace"
kl() { # OUT OPTIONS...
    local out=$1
    shift
    "$FORGE" eval kl --teacher "$TMP/t" --trace "$TMP/trace" --out "$out" -q "$@"
}
for n in 1 4 8 64; do
    kl "$TMP/control-$n" -m "$model" --rows $n > "$TMP/out" || fail "control"
    grep -q 'KL-24 against .*; control$' "$TMP/out" || fail "control: $(cat "$TMP/out")"
    grep -q '^all  *12  *475  *0\.00000 ' "$TMP/out" || fail "control: $(cat "$TMP/out")"
    grep -q '100.00%' "$TMP/out" || fail "control: $(cat "$TMP/out")"
    for f in kl.npy agreement.npy nll.npy q_topk_lp.npy; do
        cmp "$TMP/control-1/$f" "$TMP/control-$n/$f" || fail "--rows $n changes $f"
    done
done

# ---- a student, its report, and kills

kl "$TMP/b" -m "$student" > "$TMP/out" || fail "eval kl"
for word in all code prose; do
    grep -q "^$word " "$TMP/out" || fail "no line of $word: $(cat "$TMP/out")"
done
kl "$TMP/b" -m "$student" --json > "$TMP/json" || fail "eval kl again"
cmp "$TMP/json" "$TMP/b/summary.json" || fail "--json is not the report"
[ "$(wc -l < "$TMP/json")" = 1 ] || fail "not one line of JSON"
for key in schema kind model model_digest plan numerics backend kv_cache trace_sha256 reference_sha256 tokenizer_sha256 topk \
    options sequences positions mean_kl mean_kl_ci95 median_kl p95_kl p99_kl max_kl top1 ppl ref_ppl domains size_bytes \
    rows seconds machine command date forge; do
    grep -q "\"$key\": " "$TMP/json" || fail "no $key in the summary"
done
[ "$(wc -l < "$TMP/b/sequences.jsonl")" = 12 ] || fail "lines: $(cat "$TMP/b/sequences.jsonl")"
[ "$(first "$TMP/json" positions)" = 475 ] || fail "positions"
[ -z "$(ls "$TMP/b/state" | grep -v '^job.json$')" ] || fail "left in state: $(ls "$TMP/b/state")"

start=$(date +%s%N)
kl "$TMP/b2" -m "$student" --threads 2 > /dev/null
took=$((($(date +%s%N) - start) / 1000000))
diff <(listing "$TMP/b" | sed 's/"threads": *2/"threads": 1/g') <(listing "$TMP/b2" | sed 's/"threads": *2/"threads": 1/g') > /dev/null ||
    fail "two threads"
for i in $(seq 20); do
    rm -rf "$TMP/cut"
    "$FORGE" eval kl --teacher "$TMP/t" --trace "$TMP/trace" --out "$TMP/cut" -q -m "$student" > /dev/null &
    job=$!
    at=$((took * (100 * i + RANDOM % 100) / 2200))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "$job" 2> /dev/null || true
    wait "$job" 2> /dev/null || true
    kl "$TMP/cut" -m "$student" > /dev/null
    same "$TMP/b" "$TMP/cut" "eval kl killed at moment $i"
done

# Without teacher, over the whole vocabulary; with it, more than the tokens of the teacher tell.
"$FORGE" eval kl -m "$student" --reference "$model" --trace "$TMP/trace" --out "$TMP/full" -q --json > "$TMP/full.json" || fail "full"
[ "$(first "$TMP/full.json" full)" = true ] || fail "full"
[ ! -e "$TMP/full/q_topk_lp.npy" ] || fail "full has the teacher's tokens"
awk -v a="$(first "$TMP/json" mean_kl)" -v b="$(first "$TMP/full.json" mean_kl)" 'BEGIN { exit !(a < b && a > 0.5 * b) }' ||
    fail "KL-24 $(first "$TMP/json" mean_kl), whole $(first "$TMP/full.json" mean_kl)"
kl "$TMP/part" -m "$student" --skip-prefix 5 --answers-only --topk 8 --seqs 3 --json > "$TMP/part.json" || fail "options"
[ "$(first "$TMP/part.json" positions)" = $((25 + 34 + 1)) ] || fail "positions of options"
[ "$(first "$TMP/part.json" answers_only)" = true ] || fail "options in the report"

# ---- the matrix

kl "$TMP/m" -m "$student" --matrix > "$TMP/out" || fail "matrix"
grep -q '^quantization  *exact, f32  *teacher exact, f32 ' "$TMP/out" || fail "matrix: $(cat "$TMP/out")"
grep -q '^cache  *exact, kv8  *exact, fp16 ' "$TMP/out" || fail "matrix: $(cat "$TMP/out")"
grep -q '^execution  *fast, fp16  *exact, fp16 ' "$TMP/out" || fail "matrix: $(cat "$TMP/out")"
cmp "$TMP/m/quantization/kl.npy" "$TMP/b/kl.npy" || fail "quantization is not the plain measurement"
kl "$TMP/m" -m "$student" --matrix --json > "$TMP/json" || fail "matrix again"
cmp <(sed 's/"date"[^,]*,//;s/"command"[^,]*,//' "$TMP/json") <(sed 's/"date"[^,]*,//;s/"command"[^,]*,//' "$TMP/m/matrix.json") ||
    fail "matrix.json"

# ---- comparison

"$FORGE" eval kl compare "$TMP/b" "$TMP/control-1" > "$TMP/out" || fail "compare"
grep -q '^all .* 12  *0  better$' "$TMP/out" || fail "compare: $(cat "$TMP/out")"
grep -q '^KL(a || b): mean ' "$TMP/out" || fail "compare: $(cat "$TMP/out")"
"$FORGE" eval kl compare --a "$TMP/b" --b "$TMP/b" --teacher "$TMP/t" --json --report "$TMP/report" > "$TMP/json" || fail "compare with itself"
cmp "$TMP/json" "$TMP/report" || fail "--report and --json differ"
[ "$(first "$TMP/json" change)" = 0.0 ] && [ "$(first "$TMP/json" verdict)" = '"undecided"' ] || fail "itself: $(cat "$TMP/json")"
refused 2 'options.skip_prefix\|options.topk' eval kl compare "$TMP/b" "$TMP/part"
refused 3 'reference_sha256' eval kl compare "$TMP/b" "$TMP/full"
refused 3 'reference_sha256' eval kl compare "$TMP/b" "$TMP/b" --teacher "$TMP/t-rows"
refused 2 'two report directories, or --a and --b, found one' eval kl compare "$TMP/b"
refused 2 'found both' eval kl compare "$TMP/b" --b "$TMP/b"
refused 2 "$TMP/t/summary.json" eval kl compare "$TMP/b" "$TMP/t"
refused 2 'no option of kl before compare' eval kl -m x compare "$TMP/b" "$TMP/b"

# ---- what does not belong together

refused 3 'rows_sha256' eval kl -m "$student" --teacher "$TMP/t" --trace "$TMP/trace2" --out "$TMP/x"
refused 3 'rows_sha256' eval kl -m "$student" --teacher "$TMP/t" --trace "$TMP/trace" --trace "$TMP/trace2" --out "$TMP/x"
refused 3 'vocab' eval kl -m "$GOLDEN/models/chat-tiny" --teacher "$TMP/t" --trace "$TMP/trace" --out "$TMP/x"
refused 3 'skip-prefix.*now 1, then 0' eval kl -m "$student" --teacher "$TMP/t" --trace "$TMP/trace" --out "$TMP/b" --skip-prefix 1
refused 2 'one of\|a cache' eval kl -m "$student" --trace "$TMP/trace" --out "$TMP/x"
refused 2 'found both' eval kl -m "$student" --teacher "$TMP/t" --reference "$model" --trace "$TMP/trace" --out "$TMP/x"
refused 2 'full' eval kl -m "$student" --teacher "$TMP/t" --full --trace "$TMP/trace" --out "$TMP/x"
refused 2 'topk' eval kl -m "$student" --teacher "$TMP/t" --topk 25 --trace "$TMP/trace" --out "$TMP/x"
refused 2 'positions to score' eval kl -m "$student" --teacher "$TMP/t" --skip-prefix 100 --trace "$TMP/trace" --out "$TMP/x"
refused 2 'index.json' eval kl -m "$student" --teacher "$TMP/b" --trace "$TMP/trace" --out "$TMP/x"
[ ! -e "$TMP/x" ] || fail "a refused command made its output"
# A tokenizer that is another one.
"$FORGE" teacher -m "$GOLDEN/models/chat-tiny" --trace "$TMP/trace" --topk 8 --out "$TMP/t-chat" -q > /dev/null || fail "teacher of chat-tiny"
sed 's/"tokenizer_sha256": "./"tokenizer_sha256": "0/' "$TMP/t-chat/index.json" > "$TMP/index"
sed 's/"tokenizer_sha256": "./"tokenizer_sha256": "1/' "$TMP/t-chat/index.json" > "$TMP/index1"
for f in index index1; do
    cp "$TMP/$f" "$TMP/t-chat/index.json"
    "$FORGE" eval kl -m "$GOLDEN/models/chat-tiny" --teacher "$TMP/t-chat" --trace "$TMP/trace" --out "$TMP/y-$f" -q > /dev/null 2> "$TMP/err" && continue
    grep -q 'tokenizer_sha256' "$TMP/err" || fail "another tokenizer: $(cat "$TMP/err")"
    tokenizer=refused
done
[ "${tokenizer:-}" = refused ] || fail "another tokenizer was taken"
# A shard with one other byte, and one that is cut.
cp -r "$TMP/t" "$TMP/bad"
printf '\1' | dd of="$TMP/bad/teacher-00000.safetensors" bs=1 seek=2000 conv=notrunc 2> /dev/null
refused 3 'teacher-00000.safetensors, field sha256' eval kl -m "$student" --teacher "$TMP/bad" --trace "$TMP/trace" --out "$TMP/z"
truncate -s -1 "$TMP/bad/teacher-00000.safetensors"
refused 3 'teacher-00000.safetensors, field size' eval kl -m "$student" --teacher "$TMP/bad" --trace "$TMP/trace" --out "$TMP/z"
rm "$TMP/bad/teacher-00000.safetensors"
refused 2 'teacher-00000.safetensors' eval kl -m "$student" --teacher "$TMP/bad" --trace "$TMP/trace" --out "$TMP/z"

# forge eval ppl and niah: what they print, their reports, what they refuse, what a signal leaves.
model=$GOLDEN/models/chat-tiny
bare=$GOLDEN/models/a-s0
FORGE_THREADS=1
export FORGE_THREADS

fail() {
    echo "test_eval: $*" >&2
    exit 1
}

# Exit code, and words that standard error must hold.
refused() { # CODE WORDS COMMAND...
    local code=$1 words=$2 rc=0
    shift 2
    "$FORGE" eval "$@" > "$TMP/out" 2> "$TMP/err" < /dev/null || rc=$?
    [ "$rc" = "$code" ] || fail "exit $rc instead of $code: $* ($(cat "$TMP/err"))"
    grep -q -e "$words" "$TMP/err" || fail "no '$words' in: $(cat "$TMP/err")"
    [ ! -s "$TMP/out" ] || fail "stdout of a refusal: $*"
}

# The first value of "KEY" in a JSON text of one line.
first() { # FILE KEY
    grep -o "\"$2\": *[^,}]*" "$1" | head -1 | sed 's/^[^:]*: *//'
}

i=0
while [ $i -lt 60 ]; do
    echo "Line $i of a text: the ferry leaves at noon, the mill is closed on Sundays."
    i=$((i + 1))
done > "$TMP/text"

# ---- perplexity

"$FORGE" eval ppl -m "$model" --text "$TMP/text" --window 500 -q > "$TMP/out" || fail "ppl"
grep -q '^exact numerics, f32, attention stored$' "$TMP/out" || fail "settings: $(cat "$TMP/out")"
grep -q '^all ' "$TMP/out" && grep -q '^last quarters ' "$TMP/out" || fail "figures: $(cat "$TMP/out")"

"$FORGE" eval ppl -m "$model" --text "$TMP/text" --window 500 --stride 250 --kv-cache-dtype kv8 --against kv8 -q \
    --report "$TMP/report" --json > "$TMP/json" || fail "ppl --against"
cmp "$TMP/json" "$TMP/report" || fail "--report and --json differ"
[ "$(wc -l < "$TMP/json")" = 1 ] || fail "not one line of JSON"
for key in mean_kl median_kl p99_kl max_kl; do
    [ "$(first "$TMP/json" $key)" = 0.0 ] || fail "$key of equal settings: $(first "$TMP/json" $key)"
done
[ "$(first "$TMP/json" top1)" = 1.0 ] || fail "top1 of equal settings"
[ "$(first "$TMP/json" stride)" = 250 ] || fail "stride in the report"
grep -q '"files_sha256": *"[0-9a-f]\{64\}"' "$TMP/json" || fail "no digest of the model"
grep -q '"tokens_sha256": *"[0-9a-f]\{64\}"' "$TMP/json" || fail "no digest of the tokens"

"$FORGE" eval ppl -m "$model" --text "$TMP/text" --window 500 --limit 1000 --against fp16,fast --json -q > "$TMP/json" ||
    fail "ppl against fp16,fast"
[ "$(first "$TMP/json" mean_kl)" != 0.0 ] || fail "fp16 and fast have no distance from f32 and exact"
grep -q '"against": *{"numerics": *"fast", *"kv_cache_dtype": *"fp16"' "$TMP/json" || fail "settings of the reference: $(cat "$TMP/json")"
# The side that does not say its format keeps the first one's.
"$FORGE" eval ppl -m "$model" --text "$TMP/text" --window 500 --limit 1000 --against fast --json -q > "$TMP/json" ||
    fail "ppl against fast"
grep -q '"against": *{"numerics": *"fast", *"kv_cache_dtype": *"f32"' "$TMP/json" || fail "inherited: $(cat "$TMP/json")"
for mode in seed c2t; do
    "$FORGE" eval ppl -m "$model" --text "$TMP/text" --window 500 --limit 1000 --kv-cache-dtype v8 --attention $mode \
        --against stored --json -q > "$TMP/json" || fail "attention $mode"
    [ "$(first "$TMP/json" mean_kl)" != 0.0 ] || fail "attention $mode has no distance from stored"
done
# Tokens, as a list and from a file, and from the standard input as text.
"$FORGE" eval ppl -m "$bare" --tokens 1,2,3,4,5 -q > "$TMP/out" || fail "--tokens LIST"
"$FORGE" eval ppl -m "$bare" --tokens "$bare/tokens.npy" --window 200 -q > "$TMP/out" || fail "--tokens FILE"
grep -q '^3 of 3 windows of 200 tokens' "$TMP/out" || fail "windows: $(cat "$TMP/out")"
"$FORGE" eval ppl -m "$model" --text - --window 500 -q < "$TMP/text" > "$TMP/out" || fail "--text -"

printf 'caf\351 and more text than two tokens' > "$TMP/latin1"
"$FORGE" eval ppl -m "$model" --text "$TMP/latin1" --replace-invalid -q > "$TMP/out" || fail "--replace-invalid"
: > "$TMP/empty"
refused 2 'one of --text and --tokens, found none' ppl -m "$model"
refused 2 'one of --text and --tokens, found both' ppl -m "$model" --text "$TMP/text" --tokens 1,2
refused 2 "$TMP/none" ppl -m "$model" --text "$TMP/none"
refused 2 'byte 3' ppl -m "$model" --text "$TMP/latin1"
refused 2 'at least 2 tokens' ppl -m "$model" --text "$TMP/empty"
refused 2 'at least 2 tokens' ppl -m "$bare" --tokens 7
refused 2 'token 1: expected 0 to 95, found 96' ppl -m "$bare" --tokens 1,96
refused 2 '1,x' ppl -m "$bare" --tokens 1,x
refused 2 'window' ppl -m "$model" --text "$TMP/text" --window 1
refused 2 'window' ppl -m "$model" --text "$TMP/text" --window 600 --ctx 500
refused 2 'stride' ppl -m "$model" --text "$TMP/text" --window 500 --stride 501
refused 2 'rows' ppl -m "$model" --text "$TMP/text" --rows 0
refused 2 'against: expected words among' ppl -m "$model" --text "$TMP/text" --against fp32
refused 2 'against: expected words among' ppl -m "$model" --text "$TMP/text" --against ''
refused 2 'against: expected words among' ppl -m "$model" --text "$TMP/text" --against kv8,,
refused 2 'attention' ppl -m "$model" --text "$TMP/text" --attention c2
refused 2 'kv-cache-dtype' ppl -m "$model" --text "$TMP/text" --kv-cache-dtype q4
refused 2 'tokenizer' ppl -m "$bare" --text "$TMP/text"
refused 2 "$TMP/none" ppl -m "$TMP/none" --text "$TMP/text"
refused 2 "$TMP/none/report" ppl -m "$model" --text "$TMP/text" --window 500 --report "$TMP/none/report"

# ---- facts in long prompts

"$FORGE" eval niah -m "$model" --lengths 1K,2K --depths 0,100 --trials 2 --reply 8 -q --report "$TMP/report" > "$TMP/out" ||
    fail "niah"
[ "$(grep -c '^ *[0-9]*% *0/0/0/2 ' "$TMP/out")" = 2 ] || fail "table: $(cat "$TMP/out")"
[ "$(grep -o '"answer_tokens"' "$TMP/report" | wc -l)" = 8 ] || fail "cases in the report"
grep -q 'not a RULER score' "$TMP/out" || fail "no word on RULER: $(cat "$TMP/out")"
grep -q '"note": *"[^"]*not a RULER score' "$TMP/report" || fail "no word on RULER in the report"
grep -q '"files_sha256": *"[0-9a-f]\{64\}"' "$TMP/report" || fail "no digest of the model"
[ "$(grep -o '"prompt_sha256": *"[0-9a-f]\{64\}"' "$TMP/report" | sort -u | wc -l)" = 8 ] || fail "digests of the prompts"
[ "$(first "$TMP/report" text)" = null ] || fail "a text in the report"
# Six codes in a text: one case per length and trial, half the text before the middle ones.
"$FORGE" eval niah -m "$model" --multi 6 --text "$TMP/text" --lengths 2K,3K --trials 2 --reply 8 -q --report "$TMP/report" > "$TMP/out" ||
    fail "niah --multi --text"
[ "$(grep -c '^ *spread  *0/12 0/2 .* 0/12 0/2 ' "$TMP/out")" = 1 ] || fail "table: $(cat "$TMP/out")"
[ "$(grep -o '"answer_tokens"' "$TMP/report" | wc -l)" = 4 ] || fail "cases with several codes"
[ "$(grep -o '"code": *"[0-9]\{7\}"' "$TMP/report" | wc -l)" = 24 ] || fail "codes in the report"
grep -q '"text_tokens_sha256": *"[0-9a-f]\{64\}"' "$TMP/report" || fail "no digest of the text"
[ "$(first "$TMP/report" codes)" = 6 ] || fail "number of codes"
# Of a reply that is not limited: 64 tokens, more for many codes.
for with in '64 --depths 50' '64 --multi 2' '144 --multi 6' '9 --multi 6 --reply 9'; do
    # shellcheck disable=SC2086 # options
    "$FORGE" eval niah -m "$model" --lengths 1500 --trials 1 -q --json ${with#* } > "$TMP/json" || fail "niah $with"
    [ "$(first "$TMP/json" reply_max)" = "${with%% *}" ] || fail "longest reply of $with: $(first "$TMP/json" reply_max)"
done
# Lengths that are not given: those of the list that the context holds, else the context.
for with in '1300:1300' '8K:8192' '20000:8192 16384'; do
    "$FORGE" eval niah -m "$model" --ctx "${with%%:*}" --depths 50 --trials 1 --reply 1 -q --json > "$TMP/json" || fail "niah --ctx $with"
    got=$(sed 's/"cases": *\[.*//' "$TMP/json" | grep -o '"length": *[0-9]*' | sed 's/.*[: ]//' | tr '\n' ' ')
    [ "$got" = "${with#*:} " ] || fail "usual lengths of $with: $got"
done
# The same bits in every context and for every number of threads.
for with in '' '--ctx 3000' '--ctx 64K' '--threads 2'; do
    # shellcheck disable=SC2086 # options
    "$FORGE" eval niah -m "$model" --lengths 1K,2K --depths 50 --trials 1 --reply 8 -q --json $with > "$TMP/json" || fail "niah $with"
    grep -o '"reply": *"[^"]*"\|"answer_logprob": *[^,}]*' "$TMP/json" > "$TMP/now"
    [ -s "$TMP/now" ] || fail "no replies"
    [ ! -f "$TMP/before" ] || cmp "$TMP/before" "$TMP/now" || fail "results depend on $with"
    mv "$TMP/now" "$TMP/before"
done
"$FORGE" eval niah -m "$model" --raw --lengths 1K --depths 50 --trials 1 --kv-cache-dtype v8 --numerics fast -q > "$TMP/out" || fail "niah --raw"
grep -q '^fast numerics, v8, attention stored, raw$' "$TMP/out" || fail "settings: $(cat "$TMP/out")"

refused 2 'depths' niah -m "$model" --depths 101
refused 2 'depths' niah -m "$model" --depths 10,
refused 2 'lengths' niah -m "$model" --lengths 4K,x
refused 2 'length: expected at least' niah -m "$model" --lengths 100
refused 2 'length: expected at most 2000' niah -m "$model" --lengths 4000 --ctx 2000
refused 2 'trials' niah -m "$model" --trials 0
refused 2 'multi' niah -m "$model" --multi 1
refused 2 'multi' niah -m "$model" --multi 17
refused 2 'depths: expected none with --multi' niah -m "$model" --multi 6 --depths 50
refused 2 "file $TMP/text, field text: expected at least [0-9]* tokens for length 16384, found [0-9]*\$" \
    niah -m "$model" --lengths 1K,16K --text "$TMP/text"
refused 2 "$TMP/none" niah -m "$model" --text "$TMP/none"
refused 2 'byte 3' niah -m "$model" --text "$TMP/latin1"
refused 2 'tokens for length 1024, found 0' niah -m "$model" --lengths 1K --text "$TMP/empty"
refused 2 'tokenizer' niah -m "$bare" --lengths 512

# ---- a signal: 130, whatever it came upon. It is caught before the text is read.

mkfifo "$TMP/pipe"
"$FORGE" eval ppl -m "$model" --text "$TMP/pipe" --window 500 -q > "$TMP/out" 2> "$TMP/err" &
pid=$!
exec 3> "$TMP/pipe"
caught() { # is SIGINT in the mask of caught signals?
    local mask
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$pid/status")
    [ $((0x$mask & 2)) != 0 ]
}
until caught; do
    kill -0 $pid || fail "ended before its text came: $(cat "$TMP/err")"
done
kill -INT $pid
cat "$TMP/text" >&3
exec 3>&-
rc=0
wait $pid || rc=$?
[ "$rc" = 130 ] || fail "exit $rc after SIGINT: $(cat "$TMP/err")"

# forge corpus: from prompts to rows, a trace and a check; killed while sampling; exit codes; JSON.
model=$GOLDEN/models/chat-tiny
FORGE_THREADS=1
export FORGE_THREADS
cd "$TMP"

fail() {
    echo "test_corpus: $*" >&2
    exit 1
}

# Exit code, and a word that standard error must hold.
refused() { # CODE WORD COMMAND...
    local code=$1 word=$2 rc=0
    shift 2
    "$@" > out 2> err || rc=$?
    [ "$rc" = "$code" ] || fail "exit $rc instead of $code: $* ($(cat err))"
    grep -q -e "$word" err || fail "no '$word' in: $(cat err)"
    [ "$(grep -vc -e '^hint: ' -e '^warn: ' err)" = 1 ] || fail "more than a line: $(cat err)"
}

corpus() { "$FORGE" corpus "$@"; }

# Prompts.
corpus prompts --n 40 --out p.jsonl > out
grep -q '40 prompts, 12 code, 8 agentic, 8 multilingual, 6 math, 6 rare' out || fail "$(cat out)"
corpus prompts --n 40 --out q.jsonl --json > out
cmp p.jsonl q.jsonl
grep -q "\"sha256\": \"$(sha256sum < p.jsonl | cut -d ' ' -f 1)\"" out || fail "digest: $(cat out)"
corpus prompts --set dev --out dev.jsonl > /dev/null
[ "$(wc -l < dev.jsonl)" = 64 ] || fail "dev"
refused 2 '--n' corpus prompts --set dev --n 5 --out x.jsonl
refused 2 '--set' corpus prompts --set test --out x.jsonl
[ ! -e x.jsonl ] || fail "a refused run wrote"

# Sampling, killed again and again: the same bytes as in one go, whatever the threads.
generate() { corpus generate -m "$model" --prompts p.jsonl --max-new 40 --no-progress "$@"; }
generate --out ref > out
grep -q '^ref: 40 sequences' out || fail "$(cat out)"
start=$(date +%s%N)
generate --out two --threads 2 -q > /dev/null
took=$((($(date +%s%N) - start) / 1000000))
cmp ref/sequences.jsonl two/sequences.jsonl
start_one() { # in the background, as a process that kill reaches
    "$FORGE" corpus generate -m "$model" --prompts p.jsonl --max-new 40 --no-progress --out "$1" -q > /dev/null 2> err &
}
killed=0
for i in 1 2 3 4 5 6; do
    start_one cut
    job=$!
    at=$((took * i / 7))
    sleep "$((at / 1000)).$(printf %03d $((at % 1000)))"
    kill -9 "$job" 2> /dev/null && killed=$((killed + 1))
    wait "$job" 2> /dev/null || true
done
printf '{"id": "half a li' >> cut/sequences.jsonl
generate --out cut > /dev/null
cmp ref/sequences.jsonl cut/sequences.jsonl
cmp ref/generate.json cut/generate.json
generate --out cut --json > out
grep -q '"sequences_found": 40' out || fail "$(cat out)"

# Ctrl-C keeps what is done.
rc=0
start_one int
job=$!
sleep 0.05
kill -INT "$job" 2> /dev/null || true
wait "$job" || rc=$?
case $rc in
0 | 130) ;;
*) fail "exit $rc after SIGINT: $(cat err)" ;;
esac
generate --out int > /dev/null
cmp ref/sequences.jsonl int/sequences.jsonl

generate --out dry --dry-run > out
grep -q '^40 prompts of [0-9]* tokens, at most 1600' out || fail "$(cat out)"
corpus evalset -m "$model" --set held --out dry --dry-run --json > out
grep -q '"prompts": 128' out || fail "$(cat out)"
[ ! -e dry ] && [ ! -e dry.work ] || fail "a dry run wrote"
refused 3 '--seed.*now 1, then 0' generate --out cut --seed 1
refused 3 'prompts' corpus generate -m "$model" --prompts dev.jsonl --max-new 40 --out cut
generate --out cut --seed 1 --restart > /dev/null
! cmp -s ref/sequences.jsonl cut/sequences.jsonl || fail "another seed gives the same"
(
    flock -n 9 || exit 1
    refused 6 'lock' generate --out ref
) 9> ref/.forge/lock || fail "lock"
mkdir other
echo mine > other/notes
refused 2 'other content' generate --out other
refused 2 'nowhere' corpus generate -m "$model" --prompts nowhere.jsonl --out x
echo '{"id": "a", "messages": [{"role": "user"}]}' > odd.jsonl
echo '{"id": "b"}' >> odd.jsonl
refused 2 'line 2, messages' corpus generate -m "$model" --prompts odd.jsonl --out x
[ ! -e x ] || fail "a refused run made its directory"

# Packing.
corpus pack --from ref --out train.safetensors --holdout-out valid.safetensors --seq 128 --holdout 0.2 > out
grep -q '^train.safetensors: [0-9]* rows of 128' out || fail "$(cat out)"
corpus pack --from ref --trace trace.safetensors --json > out
grep -q '"sequences": 40' out || fail "$(cat out)"
grep -q "\"sha256\": \"$(sha256sum < trace.safetensors | cut -d ' ' -f 1)\"" out || fail "$(cat out)"
refused 2 'holdout-out' corpus pack --from ref --out x.safetensors
refused 2 '--trace' corpus pack --from ref --out x.safetensors --trace y.safetensors
refused 2 '--from' corpus pack --out x.safetensors --holdout 0
refused 2 'generate.json' corpus pack --from other --out x.safetensors --holdout 0
mkdir part
cp -r ref part/ref
sed -e 's/"complete": true/"complete": false/' ref/generate.json > part/ref/generate.json
refused 2 'finished' corpus pack --from part/ref --out x.safetensors --holdout 0
corpus pack --from part/ref --partial --out x.safetensors --holdout 0 --seq 64 > /dev/null
corpus pack --from ref --out y.safetensors --holdout 0 --seq 64 > /dev/null
cmp x.safetensors y.safetensors

# Rows.
for i in $(seq 200); do echo "line $i of a text, which has some words"; done > text.txt
corpus rows -m "$model" --from text.txt:4 --from y.safetensors:3 --from text.txt --seq 64 --out rows.safetensors --json > out
grep -q '"kind": "text", "rows": 4' out || fail "$(cat out)"
grep -q '"kind": "rows", "rows": 3' out || fail "$(cat out)"
corpus rows -m "$model" --from text.txt:10 --seq 64 --out a.safetensors --holdout-every 5 --holdout-out b.safetensors > out
grep -q '10 rows, 2 of them held out' out || fail "$(cat out)"
refused 2 'expected 999 rows of 64 tokens' corpus rows -m "$model" --from text.txt:999 --seq 64 --out x.st
refused 2 '--from' corpus rows -m "$model" --out x.st
refused 2 '--holdout-every' corpus rows -m "$model" --from text.txt --out x.st --holdout-every 3
printf 'bad \xff byte and more, and more, and more' > bad.txt
refused 2 'byte 4' corpus rows -m "$model" --from bad.txt --seq 8 --out x.st
[ ! -e x.st ] || fail "a refused run wrote"
corpus rows -m "$model" --from bad.txt --seq 8 --out x.st --replace-invalid > /dev/null

# A set of evaluation, and whether training is apart from it.
evalset() { corpus evalset -m "$model" --set dev --max-new 6 --no-progress "$@"; }
evalset --out dev.safetensors > out
grep -q '^dev.safetensors: 64 sequences, .*16 code' out || fail "$(cat out)"
cp dev.safetensors first.safetensors
evalset --out dev.safetensors --json > out
grep -q '"sequences_found": 64' out || fail "$(cat out)"
cmp dev.safetensors first.safetensors
refused 3 '--max-new' evalset --out dev.safetensors --max-new 7
corpus check --prompts p.jsonl > out
grep -q '40 prompts against 448 of evaluation: 0 violations' out || fail "$(cat out)"
rc=0
corpus check --prompts dev.jsonl --json > out || rc=$?
[ "$rc" = 1 ] || fail "exit $rc: $(cat out)"
grep -q '"status": "failed"' out && grep -q '"rule": "shared_words", "id": "dev-code-00000"' out || fail "$(cat out)"
corpus check -m "$model" --rows train.safetensors --trace dev.safetensors --share 100 > out
grep -q 'stand in the rows' out || fail "$(cat out)"
rc=0
corpus check -m "$model" --rows train.safetensors --trace trace.safetensors > out || rc=$?
[ "$rc" = 1 ] || fail "rows of the trace itself pass: $(cat out)"
grep -q 'too many' out || fail "$(cat out)"
refused 2 '--model' corpus check --rows train.safetensors --trace trace.safetensors
refused 2 '--trace' corpus check -m "$model" --rows train.safetensors
refused 2 'nothing to check' corpus check
echo "killed $killed of 6 while sampling, of $took ms"

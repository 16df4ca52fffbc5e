# forge bench on a small synthetic bundle: what is printed, files that stay, exit codes. No figure is judged.
quick=(--quick --runs 2 --warmup 0)

fails() { # CODE TEXT COMMAND...
    local code=$1 text=$2 rc=0
    shift 2
    "$@" > "$TMP/out" 2> "$TMP/err" || rc=$?
    [ "$rc" = "$code" ] || { echo "$*: exit $rc, expected $code"; cat "$TMP/err"; exit 1; }
    grep -q -e "$text" "$TMP/err" || { echo "$*: no '$text' in:"; cat "$TMP/err"; exit 1; }
}

has() { # FILE TEXT...
    local file=$1 text
    shift
    for text in "$@"; do
        grep -q -F -e "$text" "$file" || { echo "no '$text' in:"; cat "$file"; exit 1; }
    done
}

# The bundle is written once, to the state directory or where --dir says.
"$FORGE" bench --shape tiny-hybrid --no-run > "$TMP/path"
bundle=$(cat "$TMP/path")
[ "$bundle" = "$FORGE_STATE/bench/tiny-hybrid" ]
[ -f "$bundle/forge/manifest.json" ]
before=$(cd "$bundle" && find . -type f -newer model/config.json -o -type f | sort | xargs stat -c '%n %i %Y')
"$FORGE" bench --shape tiny-hybrid --no-run --json > "$TMP/made.json"
has "$TMP/made.json" '"status": "ok"' '"shape": "tiny-hybrid"' '"seed": 0'
after=$(cd "$bundle" && find . -type f -newer model/config.json -o -type f | sort | xargs stat -c '%n %i %Y')
[ "$before" = "$after" ]
fails 2 'another one' "$FORGE" bench --shape tiny-hybrid --seed 1 --no-run
"$FORGE" bench --shape tiny-hybrid --seed 1 --no-run --dir "$TMP/other" > /dev/null
cmp -s "$bundle/forge/head.safetensors" "$TMP/other/forge/head.safetensors" && exit 1

# Every measurement of a model.
"$FORGE" bench --shape tiny-hybrid "${quick[@]}" --json > "$TMP/rows.json" 2> "$TMP/err"
has "$TMP/err" 'budget' 'RSS'
has "$TMP/rows.json" '"command": "rows"' '"rows": 64' '"weights_digest": "' '"rss_after_bytes":' '"read_share":' \
    '"median":' '"p90":' '"ratio":' '"ceilings": {"read_bytes_per_second":' '"clock_changed":' '"load_average":'
[ "$(wc -l < "$TMP/rows.json")" = 1 ]
"$FORGE" bench rows --bundle "$bundle" "${quick[@]}" --rows 1,8 --at 100 --baseline "$TMP/rows.json" > "$TMP/table" 2> /dev/null
has "$TMP/table" 'rows' 'GB/s'
"$FORGE" bench rows --bundle "$bundle" "${quick[@]}" --rows 1,8 --logits last --baseline "$TMP/rows.json" --json \
    > "$TMP/again.json" 2> /dev/null
has "$TMP/again.json" '"baseline_ratio":'
"$FORGE" bench prefill --bundle "$bundle" "${quick[@]}" --ctx 10,100 --csv > "$TMP/csv" 2> /dev/null
[ "$(wc -l < "$TMP/csv")" = 3 ]
has "$TMP/csv" 'name,rows,ctx,' 'prefill,100,0,100,2,'
"$FORGE" bench decode --bundle "$bundle" "${quick[@]}" --ctx 0,100 --tokens 3 --json > "$TMP/decode.json" 2> /dev/null
has "$TMP/decode.json" '"ctx": 100' '"tokens_per_second":' '"history": "made up"' '"kv_cache_dtype": "kv8"'
"$FORGE" bench decode --bundle "$bundle" "${quick[@]}" --ctx 100,20 --tokens 3 --history prompt --kv-cache-dtype fp16 > "$TMP/table" 2> /dev/null
has "$TMP/table" 'keys and values in fp16; positions before what is timed: from a prompt'
"$FORGE" bench prefill --bundle "$bundle" "${quick[@]}" --ctx 10 --at 300 --csv > "$TMP/csv" 2> /dev/null
has "$TMP/csv" 'prefill,10,300,10,2,'
"$FORGE" bench memory --bundle "$bundle" --quick --json > "$TMP/memory.json" 2> /dev/null
has "$TMP/memory.json" '"contexts": [{"ctx": 256, "table_bytes": ' '{"ctx": 512, ' '{"ctx": 1024, ' '"difference": '
"$FORGE" bench memory --bundle "$bundle" --quick --ctx 300 > "$TMP/table" 2> /dev/null
has "$TMP/table" 'measured' '      512 '
"$FORGE" bench load --bundle "$bundle" "${quick[@]}" --json > "$TMP/load.json" 2> /dev/null
has "$TMP/load.json" '"name": "load"'
"$FORGE" bench --contention --bundle "$bundle" "${quick[@]}" --tokens 2 --json > "$TMP/contention.json" 2> /dev/null
has "$TMP/contention.json" '"kept_share":' '"command": "contention"'
"$FORGE" bench kernels --quick --runs 1 --warmup 0 --json > "$TMP/kernels.json" 2> /dev/null
has "$TMP/kernels.json" '"name": "p6"' '"name": "p4x2"' '"name": "p4"' '"name": "i8"' '"name": "rotate"' '"name": "quantize"' \
    '"name": "attention kv8"' '"name": "attention kv8 exact"' '"name": "attention v8"' '"name": "attention fp16"' \
    '"name": "deltanet"' '"name": "deltanet tried"' '"name": "bf16"'

# What can go wrong.
fails 2 'a model' "$FORGE" bench
fails 2 'kernels, rows, prefill' "$FORGE" bench speed
fails 2 '--shape' "$FORGE" bench --shape qwen3.8-28b
fails 2 '--shape' "$FORGE" bench --shape tiny-hybrid --bundle "$bundle"
for list in 0 '' 1,,2 a 1,x 5000 1,; do
    fails 2 '--rows' "$FORGE" bench rows --bundle "$bundle" --rows "$list"
done
fails 2 'command' "$FORGE" bench decode --bundle "$bundle" "${quick[@]}" --tokens 1 --baseline "$TMP/rows.json"
fails 2 '--kv-cache-dtype' "$FORGE" bench decode --bundle "$bundle" "${quick[@]}" --kv-cache-dtype kv4
fails 2 'positions' "$FORGE" bench decode --bundle "$bundle" "${quick[@]}" --ctx 1M
fails 2 'none' "$FORGE" bench --bundle "$TMP/none"
truncate -s 64T "$TMP/huge.gguf" 2> /dev/null || truncate -s 15T "$TMP/huge.gguf"
fails 5 'memory' "$FORGE" bench --model "$TMP/huge.gguf"
fails 2 'huge.gguf' "$FORGE" bench --model "$TMP/huge.gguf" --allow-paging

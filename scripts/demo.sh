#!/usr/bin/env bash
# The main job on a real model that nobody here made: fetch SmolLM2, import its GGUF, complete a sentence, answer a question.
# Exits 0 only if the model says what it should.
set -euo pipefail
cd "$(dirname "$0")/.."
forge=${FORGE:-build/release/forge}
models=${FORGE_DEMO_DIR:-build/models}
model=$models/SmolLM2-135M-Instruct

gguf=$(scripts/fetch_smollm2.sh "$models")
if [ ! -f "$model/config.json" ]; then
    "$forge" import "$gguf" --output "$model" --dtype f16
fi

reply=$(mktemp)
trap 'rm -f "$reply"' EXIT

ask() { # the word that the reply must have, and the prompt with its options
    local word=$1 status=0
    shift
    "$forge" generate --model "$model" --temperature 0 --stats "$@" > "$reply" 2>&1 || status=$?
    cat "$reply"
    [ $status = 0 ] || exit 1
    if ! grep -q "$word" "$reply"; then
        echo "the model did not say $word" >&2
        exit 1
    fi
}

echo "== The capital of France is ..."
ask Paris --raw -p "The capital of France is" -n 16
echo "== What is the capital of Italy?"
ask Rome -p "What is the capital of Italy? Answer in one sentence." -n 40

#!/usr/bin/env bash
# The main job on a real model that nobody here made: fetch SmolLM2, import its GGUF, complete a sentence, hold a short
# conversation. Exits 0 only if the model says what it should.
set -euo pipefail
cd "$(dirname "$0")/.."
forge=${FORGE:-build/release/forge}
models=${FORGE_DEMO_DIR:-build/models}
model=$models/SmolLM2-135M-Instruct

gguf=$(scripts/fetch_smollm2.sh "$models")
if [ ! -f "$model/config.json" ]; then
    "$forge" import "$gguf" --output "$model" --dtype f16
fi

echo "== The capital of France is ..."
text=$("$forge" generate --model "$model" --raw -p "The capital of France is" -n 16 --temperature 0 --stats)
echo "$text"
case $text in
*Paris*) ;;
*)
    echo "the model did not say Paris" >&2
    exit 1
    ;;
esac

echo "== What is the capital of Italy?"
text=$("$forge" generate --model "$model" -p "What is the capital of Italy? Answer in one sentence." -n 40 --temperature 0 --stats)
echo "$text"
case $text in
*Rome*) ;;
*)
    echo "the model did not say Rome" >&2
    exit 1
    ;;
esac

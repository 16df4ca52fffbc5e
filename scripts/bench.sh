#!/usr/bin/env bash
# Runs every bench in build/release: the kernels on their own, the model and the tokenizer on SmolLM2, which is fetched.
# Figures to keep go into bench/RESULTS.md with machine, command and date.
set -euo pipefail
cd "$(dirname "$0")/.."
models=${FORGE_DEMO_DIR:-build/models}
model=$models/SmolLM2-135M-Instruct
gguf=$(scripts/fetch_smollm2.sh "$models")
[ -f "$model/config.json" ] || build/release/forge import "$gguf" --output "$model" --dtype f16
for bench in build/release/bench_*; do
    [ -x "$bench" ] && [ -f "$bench" ] || continue
    echo "== ${bench##*/}"
    case $bench in
    *bench_model) "$bench" --model "$model" ;;
    *bench_tokenizer) "$bench" "$model" ;;
    *) "$bench" ;;
    esac
done

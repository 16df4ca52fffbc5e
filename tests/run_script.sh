#!/usr/bin/env bash
# Runs one shell test with $FORGE (the binary), $GOLDEN, and a scratch folder $TMP that goes away at the end.
set -euo pipefail
FORGE=$(realpath "$1")
GOLDEN=$(cd "$(dirname "$0")/golden" && pwd)
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
export FORGE GOLDEN TMP
export FORGE_STATE="$TMP/state"
bash -euo pipefail "$2"

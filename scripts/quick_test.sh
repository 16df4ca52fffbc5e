#!/usr/bin/env bash
# One minute with a real model, as a check: the demo's answers must be right. Ends in PASS or FAIL.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
if scripts/demo.sh; then
    echo "PASS ($((SECONDS - start)) s)"
else
    echo "FAIL"
    exit 1
fi

#!/usr/bin/env bash
# Prints the C sources and headers of the tree, one per line.
set -euo pipefail
cd "$(dirname "$0")/.."
find include src tests bench -name '*.[ch]' | sort

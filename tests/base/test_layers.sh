#!/usr/bin/env bash
# The layers of the house: which module may include which, that base knows nothing but the C library and its three helpers,
# and that every header compiles alone.
exec "$(dirname "${BASH_SOURCE[0]}")/../check_layers.sh"

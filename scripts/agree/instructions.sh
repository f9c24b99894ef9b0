#!/usr/bin/env bash
# Instructions by function, as QEMU's plugin counts them, against the kernel's function_graph: scripts/agree/instructions.sh
# shellcheck source=scripts/agree/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

echo '== Instructions of functions: QEMU'"'"'s plugin and function_graph'
if ! command -v qemu-system-x86_64 >/dev/null; then left_out 'it takes qemu-system-x86_64'; fi
export TOLLGATE_SKIPPED="$directory/skipped"
if ! cargo test --quiet --locked -p tollgate-qemu --test boots -- --nocapture >"$directory/boots" 2>&1; then
    tail -n 20 "$directory/boots"
    exit 1
fi
if [[ -s $TOLLGATE_SKIPPED ]]; then left_out "$(head -n 1 "$TOLLGATE_SKIPPED")"; fi
grep 'function_graph' "$directory/boots" | sed 's/^/  /'

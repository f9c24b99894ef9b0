#!/usr/bin/env bash
# Holds what Tollgate measures against independent tools, on the same run, and prints both figures. Each part is a script in scripts/agree that
# can be run by itself:
#   queues        waits in queues by gates           against the kernel's raw trace events (tracefs)
#   round_trips   round trips by `tollgate observe`  against sockperf
#   known_costs   a span of `tollgate observe`       against a delay at tc and netfilter rules of a known cost
#   instructions  instructions by function           against the kernel's function_graph, in QEMU
# Takes root and an idle machine. Exit codes: 0 all that could be held agree, 1 some differ, 2 nothing could be held.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

held=0
differ=()
for part in queues round_trips known_costs instructions; do
    status=0
    "scripts/agree/$part.sh" || status=$?
    case $status in
        0) held=$((held + 1)) ;;
        77) ;;
        *) held=$((held + 1)) differ+=("$part") ;;
    esac
done

echo "agree: $held of 4 parts held, ${#differ[@]} differ${differ[*]:+: ${differ[*]}}"
if [[ $held -eq 0 ]]; then exit 2; fi
[[ ${#differ[@]} -eq 0 ]]

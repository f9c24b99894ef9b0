#!/usr/bin/env bash
# Holds what Tollgate measures against independent tools, on the same run, and prints both figures:
#   waits in queues by gates        against the kernel's raw trace events (tracefs)
#   messages by `tollgate observe`  against sockperf
#   instructions by function        against the kernel's function_graph, in QEMU
# Takes root and an idle machine. Exit codes: 0 all that could be held agree, 1 some differ by more than 5 %, 2 nothing could be held.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly port=7021
directory=$(mktemp -d)
pids=()
mounted=''
clean() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    if [[ -n $mounted ]]; then umount "$mounted" || true; fi
    rm -rf "$directory"
}
trap clean EXIT

held=0
differ=0
left_out() { echo "  left out: $*"; }

echo '== Waits in queues: gates and tracefs'
if [[ $EUID -ne 0 ]]; then
    left_out 'it takes root'
else
    if [[ ! -d /sys/kernel/tracing/instances ]]; then
        mount -t tracefs tracefs /sys/kernel/tracing && mounted=/sys/kernel/tracing
    fi
    cargo build --quiet --release --locked -p tollgate-workload --features tollgate-kernel/bpf --example agree
    status=0
    "${CARGO_TARGET_DIR:-target}/release/examples/agree" || status=$?
    case $status in
        0) held=$((held + 1)) ;;
        1) held=$((held + 1)) differ=$((differ + 1)) ;;
        *) left_out 'see above' ;;
    esac
fi

echo '== Messages: observe and sockperf'
if ! command -v sockperf >/dev/null || [[ $EUID -ne 0 ]]; then
    left_out 'it takes root and sockperf'
else
    cargo build --quiet --release --locked -p tollgate
    sockperf server --tcp -i 127.0.0.1 -p "$port" >/dev/null 2>&1 &
    pids+=($!)
    sleep 0.5
    # All of sockperf's run lies within that of observe, whose gates are on all the time: both tell of the same messages.
    "${CARGO_TARGET_DIR:-target}/release/tollgate" observe --quiet --always --port "$port" --for 8s --json "$directory/observe" &
    observer=$!
    pids+=("$observer")
    sleep 1.5
    sockperf ping-pong --tcp -i 127.0.0.1 -p "$port" -t 5 -m 64 >"$directory/sockperf" 2>&1
    wait "$observer"
    # sockperf tells half a round trip; what observe follows is a message from TCP of its sender to the return of its reader's call.
    awk '
        FILENAME ~ /sockperf$/ && /avg-latency=/ { sub(/.*avg-latency=/, ""); theirs["mean"] = $1 + 0 }
        FILENAME ~ /sockperf$/ && /percentile 50.000 =/ { theirs["median"] = $NF + 0 }
        /"name": "send to receive"/ { here = 1 }
        here && /"mean_ns"/ { gsub(/[^0-9.]/, "", $2); ours["mean"] = $2 / 1000 }
        here && /"p50_ns"/ { gsub(/[^0-9.]/, "", $2); ours["median"] = $2 / 1000; here = 0 }
        END {
            split("mean median", names, " ")
            for (i = 1; i <= 2; i++) {
                name = names[i]
                if (!theirs[name] || !ours[name]) { print "  nothing was told"; exit 2 }
                apart = 100 * (ours[name] / theirs[name] - 1)
                printf "  %-6s  observe %7.2f us  sockperf %7.2f us  apart %+.2f %%\n", name, ours[name], theirs[name], apart
                if (apart > 5 || apart < -5) bad = 1
            }
            exit bad
        }' "$directory/sockperf" "$directory/observe" && status=0 || status=$?
    case $status in
        0) held=$((held + 1)) ;;
        1) held=$((held + 1)) differ=$((differ + 1)) ;;
        *) left_out 'see above' ;;
    esac
fi

echo '== Instructions of functions: QEMU'"'"'s plugin and function_graph'
if ! command -v qemu-system-x86_64 >/dev/null; then
    left_out 'it takes qemu-system-x86'
elif cargo test --quiet --locked -p tollgate-qemu --test boots -- --nocapture >"$directory/boots" 2>&1; then
    if grep -q 'left out' "$directory/boots"; then
        left_out "$(grep -m 1 'left out' "$directory/boots")"
    else
        grep 'function_graph' "$directory/boots" | sed 's/^/  /'
        held=$((held + 1))
    fi
else
    tail -n 20 "$directory/boots"
    held=$((held + 1)) differ=$((differ + 1))
fi

echo "agree: $held held, $differ differ by more than 5 %"
if [[ $held -eq 0 ]]; then exit 2; fi
[[ $differ -eq 0 ]]

#!/usr/bin/env bash
# Holds what Tollgate measures against independent tools, on the same run, and prints both figures:
#   waits in queues by gates           against the kernel's raw trace events (tracefs)
#   round trips by `tollgate observe`  against sockperf
#   instructions by function           against the kernel's function_graph, in QEMU
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

# A round trip of sockperf is two messages, each from TCP of its sender to the return of its reader's call (`send to receive`), and two turns
# from there to the next send (`receive to send`). observe takes off what its gates cost. Where they follow every message sockperf's round
# trips have that in them, so it is added again; by default few messages meet a gate, and nothing is.
readonly rounds=3 seconds=3

# The figures of an observation as shell words: NAME.mean=NS NAME.median=NS followed=NS
figures() {
    awk '
        /"name":/ { name = $0; sub(/.*"name": "/, "", name); sub(/".*/, "", name) }
        name == "send to receive" && /"(mean|p50)_ns"/ { tell("message") }
        name == "receive to send" && /"(mean|p50)_ns"/ { tell("turn") }
        /"followed_ns"/ { gsub(/[^0-9.]/, "", $2); print "followed", $2 }
        function tell(of) {
            kind = /mean/ ? "mean" : "median"
            gsub(/[^0-9.]/, "", $2)
            print of "." kind, $2
        }' "$1"
}

# sockperf's round trips in nanoseconds: mean NS, median NS
round_trips() {
    awk '
        /avg-rtt=/ { sub(/.*avg-rtt=/, ""); print "theirs.mean", ($1 + 0) * 1000 }
        /percentile 50.000 =/ { print "theirs.median", $NF * 1000 }' "$1"
}

# Lets sockperf talk over so many processors at a rate while observe looks on in a way; the figures of both go to a file.
talk() {
    local cores=$1 rate=$2 to=$3 server observer
    shift 3
    taskset -c 0 sockperf server --tcp -i 127.0.0.1 -p "$port" >/dev/null 2>&1 &
    server=$!
    pids+=("$server")
    sleep 0.5
    # All of sockperf's run lies within that of observe: both tell of the same messages.
    "${CARGO_TARGET_DIR:-target}/release/tollgate" observe --quiet --json "$directory/observe" "$@" &
    observer=$!
    pids+=("$observer")
    sleep 1
    taskset -c $((cores - 1)) sockperf ping-pong --tcp -i 127.0.0.1 -p "$port" -t "$seconds" -m 64 --full-rtt --mps "$rate" \
        >"$directory/sockperf" 2>&1
    kill -TERM "$observer"
    wait "$observer"
    kill "$server"
    wait "$server" 2>/dev/null || true
    { figures "$directory/observe"; round_trips "$directory/sockperf"; } >"$to"
}

# How far the sum is from sockperf's round trip in each round, by mean and by median. The middle round counts.
hold() {
    local what=$1 added=$2 turns=$3 kind
    shift 3
    for kind in mean median; do
        for round in "$@"; do
            { cat "$round.$turns"; echo own; cat "$round"; } | awk -v kind="$kind" -v added="$added" '
                /^own/ { own = 1 }
                !own && $1 == "turn." kind { turn = $2 }
                own { is[$1] = $2 }
                END {
                    if (!turn || !is["message." kind] || !is["theirs." kind]) exit
                    ours = 2 * (is["message." kind] + turn + (added == "added" ? is["followed"] : 0))
                    printf "%.3f %.2f %.2f\n", 100 * (ours / is["theirs." kind] - 1), ours / 1000, is["theirs." kind] / 1000
                }'
        done | sort -n | awk -v what="$what" -v kind="$kind" '
            { apart[NR] = $1; ours[NR] = $2; theirs[NR] = $3 }
            END {
                if (!NR) { printf "  %-46s %-6s  nothing was told\n", what, kind; exit }
                middle = int((NR + 1) / 2)
                is = apart[middle] <= 5 && apart[middle] >= -5 ? "within" : "beyond"
                printf "  %-46s %-6s %9.2f %9.2f  %+6.1f %%  (%+.1f to %+.1f)  %s 5 %%\n", \
                    what, kind, ours[middle], theirs[middle], apart[middle], apart[1], apart[NR], is
            }'
    done
}

echo '== Round trips: observe and sockperf'
if ! command -v sockperf >/dev/null || ! command -v taskset >/dev/null || [[ $EUID -ne 0 ]]; then
    left_out 'it takes root, sockperf and taskset'
elif [[ $(nproc) -lt 2 ]]; then
    left_out 'it takes two processors'
else
    cargo build --quiet --release --locked -p tollgate
    for cores in 1 2; do
        for rate in max 10000; do
            for ((round = 1; round <= rounds; round++)); do
                at="$directory/round-$cores-$rate-$round"
                talk "$cores" "$rate" "$at.default" --port "$port"
                talk "$cores" "$rate" "$at.every" --port "$port" --always --sample 1
                # At a given rate the client waits before it sends. Its turn is taken to be as long as that of the server, to which
                # the requests go.
                if [[ $rate != max ]]; then
                    talk "$cores" "$rate" "$at.requests" --filter "dst port $port"
                fi
                for way in default every; do
                    if [[ $rate == max ]]; then
                        cp "$at.$way" "$at.$way.turns"
                    else
                        cp "$at.requests" "$at.$way.turns"
                    fi
                done
            done
        done
    done
    {
        printf '  %-46s %-6s %9s %9s  %8s  of %d rounds\n' '' '' 'observe' 'sockperf' 'apart' "$rounds"
        for cores in 1 2; do
            for rate in max 10000; do
                speed=$([[ $rate == max ]] && echo 'back to back' || echo '10,000 a second')
                [[ $cores == 1 ]] && on='1 core' || on='2 cores'
                hold "$on, $speed, sampled by default" none turns "$directory/round-$cores-$rate-"*.default
                hold "$on, $speed, each message followed" added turns "$directory/round-$cores-$rate-"*.every
            done
        done
    } | tee "$directory/agreement"
    held=$((held + 1))
    if grep -q -e 'beyond 5 %' -e 'nothing was told' "$directory/agreement"; then differ=$((differ + 1)); fi
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

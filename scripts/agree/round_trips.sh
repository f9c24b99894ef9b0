#!/usr/bin/env bash
# Round trips by `tollgate observe` against those by sockperf, of the same messages: scripts/agree/round_trips.sh
# shellcheck source=scripts/agree/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A round trip of sockperf is two messages, each from TCP of its sender to the return of its reader's call (`send to receive`), and two turns
# from there to the next send (`receive to send`). observe takes off what its gates cost. Where they follow every message sockperf's round
# trips have that in them, so it is added again; by default few messages meet a gate, and nothing is. Means are held: a request and its answer
# take different times, so the median of both together is no half of a round trip.
readonly rounds=3 seconds=3

# The figures of an observation: message NS, turn NS, each with its half-width in NS behind it, and followed NS.
figures() {
    awk '
        function number(text) { gsub(/[^0-9.]/, "", text); return text + 0 }
        /"name":/ { of = /"send to receive"/ ? "message" : /"receive to send"/ ? "turn" : "" }
        of && /"mean_ns"/ { mean = number($2) }
        of && /"interval_ns"/ { getline; getline; print of, mean, number($1) - mean }
        /"followed_ns"/ { print "followed", number($2) }' "$1"
}

# Lets sockperf talk over so many processors at a rate while observe looks on in a way; the figures of both go to a file.
talk() {
    local cores=$1 rate=$2 to=$3 server observer
    shift 3
    taskset -c 0 sockperf server --tcp -i 127.0.0.1 -p "$port" >/dev/null 2>&1 &
    server=$!
    sleep 0.5
    # All of sockperf's run lies within that of observe: both tell of the same messages.
    "$tollgate" observe --quiet --json "$directory/observe" "$@" &
    observer=$!
    sleep 1
    taskset -c $((cores - 1)) sockperf ping-pong --tcp -i 127.0.0.1 -p "$port" -t "$seconds" -m 64 --full-rtt --mps "$rate" \
        >"$directory/sockperf" 2>&1
    kill -TERM "$observer"
    wait "$observer"
    kill "$server"
    wait "$server" 2>/dev/null || true
    { figures "$directory/observe"; round_trips "$directory/sockperf"; } >"$to"
}

# How far the sum is from sockperf's round trip in the middle one of the rounds, and whether that is within 5 % or the sum's 95 % interval.
hold() {
    local what=$1 added=$2 turns=$3 round
    shift 3
    for round in "$@"; do
        { cat "$round.$turns"; echo own; cat "$round"; } | awk -v added="$added" '
            /^own/ { own = 1 }
            !own && $1 == "turn" { turn = $2; half += 2 * $3 }
            own && $1 == "message" { half += 2 * $3 }
            own { is[$1] = $2 }
            END {
                if (!turn || !is["message"] || !is["theirs.mean"]) exit
                ours = 2 * (is["message"] + turn + (added == "added" ? is["followed"] : 0))
                print 100 * (ours / is["theirs.mean"] - 1), ours / 1000, half / 1000, is["theirs.mean"] / 1000
            }'
    done | sort -n | awk -v what="$what" '
        { apart[NR] = $1; ours[NR] = $2; half[NR] = $3; theirs[NR] = $4 }
        END {
            if (!NR) { printf "  %-46s nothing was told\n", what; exit }
            middle = int((NR + 1) / 2)
            bar = 100 * half[middle] / theirs[middle]
            if (bar < 5) bar = 5
            is = apart[middle] <= bar && -apart[middle] <= bar ? "within" : "beyond"
            printf "  %-46s %9.2f +- %-6.2f %9.2f  %+6.1f %%  (%+.1f to %+.1f)  %s %.1f %%\n", \
                what, ours[middle], half[middle], theirs[middle], apart[middle], apart[1], apart[NR], is, bar
        }'
}

echo '== Round trips: observe and sockperf'
need sockperf taskset
if [[ $(nproc) -lt 2 ]]; then left_out 'it takes two processors'; fi
cargo build --quiet --release --locked -p tollgate
for cores in 1 2; do
    for rate in max 10000; do
        for ((round = 1; round <= rounds; round++)); do
            at="$directory/round-$cores-$rate-$round"
            talk "$cores" "$rate" "$at.default" --port "$port"
            talk "$cores" "$rate" "$at.every" --port "$port" --no-duty-cycle --sample 1
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
    printf '  %-46s %9s +- %-6s %9s  %8s  in %d rounds\n' 'us' 'observe' '95 %' 'sockperf' 'apart' "$rounds"
    for cores in 1 2; do
        for rate in max 10000; do
            speed=$([[ $rate == max ]] && echo 'back to back' || echo '10,000 a second')
            [[ $cores == 1 ]] && on='1 core' || on='2 cores'
            hold "$on, $speed, sampled by default" none turns "$directory/round-$cores-$rate-"*.default
            hold "$on, $speed, each message followed" added turns "$directory/round-$cores-$rate-"*.every
        done
    done
} | tee "$directory/agreement"
if grep -q -e ' beyond ' -e 'nothing was told' "$directory/agreement"; then exit 1; fi

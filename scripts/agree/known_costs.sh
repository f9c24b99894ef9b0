#!/usr/bin/env bash
# A span of `tollgate observe` against costs of a known size on its way: scripts/agree/known_costs.sh
# A delay at tc has to be shown as it is, and 500 netfilter rules as the round trip without gates shows them: within 10 % or the 95 % interval of
# the rounds. Medians count, since both costs are the same for every message and a disturbed second is not. Rules also slow down what runs after
# them, by its caches: the round trip without gates shows that, and the span does not. ROUNDS=N makes so many rounds instead of 9.
# shellcheck source=scripts/agree/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly known_rounds=${ROUNDS:-9} delay_ns=2000 rules=500
# The hook of tc and netfilter's PREROUTING lie between the gates of this span.
readonly span='ip receive'

# programs FILE: programs for tc that take delay_ns and no time, in the sections tc/delay and tc/none.
programs() {
    cat >"$1.c" <<PROGRAM
static unsigned long long (*const now)(void) = (void *)5; /* bpf_ktime_get_ns */
__attribute__((section("tc/none"), used)) int none(void *packet)
{
	return -1; /* TC_ACT_UNSPEC: as if it were not there */
}
__attribute__((section("tc/delay"), used)) int delay(void *packet)
{
	unsigned long long until = now() + $delay_ns;
	/* A reading takes more than 10 ns. */
	for (int reading = 0; reading < 2000; reading++)
		if (now() >= until)
			break;
	return -1;
}
char terms[] __attribute__((section("license"), used)) = "GPL";
PROGRAM
    clang -O2 -g -target bpf -c "$1.c" -o "$1"
}

# at_tc none|delay: the program that every packet passes at tc.
at_tc() {
    tc filter replace dev lo ingress prio 1 handle 1 bpf direct-action object-file "$directory/programs" section "tc/$1"
}

# change WHAT on|off: puts a known cost into the namespace, or takes it away.
change() {
    case $1-$2 in
        delay-on) at_tc delay ;;
        delay-off) at_tc none ;;
        rules-on)
            {
                echo 'add table ip tollgate'
                echo 'add chain ip tollgate rules { type filter hook prerouting priority 0; }'
                for ((rule = 1; rule <= rules; rule++)); do
                    echo "add rule ip tollgate rules ip saddr 192.0.2.$((rule % 254 + 1)) drop"
                done
            } | nft -f -
            ;;
        rules-off) nft delete table ip tollgate ;;
    esac
}

# talk SECONDS: sockperf talks for so long on one core, so that a round trip grows by twice what a message does.
talk() {
    taskset -c 0 sockperf ping-pong --tcp -i 127.0.0.1 -p "$port" -t "$1" -m 64 --full-rtt >"$directory/sockperf" 2>&1
}

# tell STATE: the span by observe and half a round trip without gates, in nanoseconds.
tell() {
    local observer
    talk 1
    echo "$1 trip $(round_trips "$directory/sockperf" | awk '$1 == "theirs.median" { print $2 / 2 }')"
    "$tollgate" observe --quiet --port "$port" --json "$directory/observe" &
    observer=$!
    sleep 0.5
    talk 1
    kill -TERM "$observer"
    wait "$observer"
    echo "$1 span $(awk -v span="$span" '
        /"name":/ { name = $2 } /"direction":/ { at = name " " $2; gsub(/[",]/, "", at) }
        /"p50_ns":/ && at == span { gsub(/,/, "", $2); print $2; exit }' "$directory/observe")"
}

# growth WHAT: a round, as one line: by how much the span grows, and half a round trip without gates, in nanoseconds.
growth() {
    tell off >"$directory/round"
    change "$1" on
    tell on >>"$directory/round"
    change "$1" off
    awk '
        { is[$1 " " $2] = $3; told += NF == 3 }
        END { if (told == 4) print is["on span"] - is["off span"], is["on trip"] - is["off trip"]; else exit 1 }' "$directory/round"
}

# hold ROUNDS WHAT KNOWN: the median of both growths over the rounds with its 95 % interval, and whether the span grows as it should: by KNOWN, or where that
# is 0 by half a round trip. An interval of more than a quarter to a side tells nothing.
hold() {
    local file=$1 what=$2 known=$3 at
    for at in 1 2; do
        # Ranks of the interval by the binomial distribution: from 9 values on it leaves out one at each end, and from 12 on two.
        cut -d ' ' -f "$at" "$file" | sort -n | awk '
            { is[NR] = $1 }
            END {
                low = NR >= 12 ? 3 : NR >= 9 ? 2 : 1
                print (is[int((NR + 1) / 2)] + is[int(NR / 2) + 1]) / 2, is[low], is[NR + 1 - low]
            }'
    done | awk -v what="$what" -v known="$known" '
        { median[NR] = $1; low[NR] = $2; high[NR] = $3; half[NR] = ($3 - $2) / 2 }
        END {
            should = known ? known : median[2]
            within = known ? half[1] : sqrt(half[1] * half[1] + half[2] * half[2])
            apart = median[1] - should
            if (within > should / 4) is = "the rounds differ too much to tell"
            else {
                if (within < 0.1 * should) within = 0.1 * should
                is = sprintf("%s %.0f ns", apart <= within && -apart <= within ? "within" : "beyond", within)
            }
            printf "  %-24s span %.0f ns (%.0f to %.0f), half a round trip %.0f ns (%.0f to %.0f); apart %+.0f ns, %s\n", \
                what, median[1], low[1], high[1], median[2], low[2], high[2], apart, is
        }'
}

# All goes on in a network namespace that goes with the last process in it, so that nobody else meets the costs.
if [[ ${1:-} != inside ]]; then
    echo '== Known costs: a delay at tc and netfilter rules, by observe'
    need sockperf taskset unshare ip tc nft clang
    cargo build --quiet --release --locked -p tollgate
    rm -rf "$directory"
    exec unshare --net "$0" inside
fi
ip link set lo up
tc qdisc add dev lo clsact
programs "$directory/programs"
at_tc none
taskset -c 0 sockperf server --tcp -i 127.0.0.1 -p "$port" >/dev/null 2>&1 &
sleep 0.5
for what in delay rules; do
    for ((round = 1; round <= known_rounds; round++)); do growth "$what"; done >"$directory/growth-$what"
done
{
    hold "$directory/growth-delay" "a delay of $delay_ns ns at tc" "$delay_ns"
    hold "$directory/growth-rules" "$rules netfilter rules" 0
} | tee "$directory/known"
if [[ $(grep -c ', within' "$directory/known") -ne 2 ]]; then exit 1; fi

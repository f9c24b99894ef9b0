# shellcheck shell=bash disable=SC2034 # The parts use these variables.
# What the parts of `make agree` share: sourced by each of them, never run. It owns a directory and the background jobs of the part; both go when
# the part ends. A part ends with 0 where all agrees, 1 where something differs, and 77 where nothing could be held.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly tollgate="${CARGO_TARGET_DIR:-target}/release/tollgate"
directory=$(mktemp -d)
mounted=''
clean() {
    local pid
    for pid in $(jobs -pr); do kill "$pid" || true; done
    if [[ -n $mounted ]]; then umount "$mounted" || true; fi
    rm -rf "$directory"
}
trap clean EXIT

left_out() {
    echo "  left out: $*"
    exit 77
}

# need COMMAND...: leaves the part out without root or one of the commands.
need() {
    local command
    if [[ $EUID -ne 0 ]]; then left_out 'it takes root'; fi
    for command in "$@"; do
        if ! command -v "$command" >/dev/null; then left_out "it takes $command"; fi
    done
}

# The port that sockperf's server listens at.
readonly port=7021

# sockperf's round trips in nanoseconds: mean NS, median NS
round_trips() {
    awk '
        /avg-rtt=/ { sub(/.*avg-rtt=/, ""); print "theirs.mean", ($1 + 0) * 1000 }
        /percentile 50.000 =/ { print "theirs.median", $NF * 1000 }' "$1"
}

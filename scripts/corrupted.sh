#!/usr/bin/env bash
# Gives our stack corrupted frames, ten million unless told otherwise: scripts/corrupted.sh [FRAMES]
#
# It counts by damage what the Internet checksum sees, and what an application reads. The exit code is 1 when it read wrong bytes that the
# checksum could have seen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly frames=${1:-10000000}
if [[ $# -gt 1 || ! $frames =~ ^[1-9][0-9]*$ ]]; then
    echo 'usage: scripts/corrupted.sh [FRAMES]' >&2
    exit 2
fi
cargo run --release --quiet --locked -p tollgate-workload --example corrupted -- "$frames" || exit 1

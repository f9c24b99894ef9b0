#!/usr/bin/env bash
# Soaks our stack: connections that come and go while links fail, addresses change and peers misbehave: scripts/soak.sh [SECONDS]
#
# Ten million corrupted frames come first (scripts/corrupted.sh). Then it runs for an hour unless told otherwise, with the assertions of
# debug builds, and works in namespaces of its own. A tenth of the time goes to the simulations of every scenario with each value of each
# mechanism, with seeds that make test does not have. Transfers of 5 GB from and to nginx come last, on top of
# the time. The exit code is 1 when it found a defect.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly seconds=${1:-3600}
if [[ $# -gt 1 || ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo 'usage: scripts/soak.sh [SECONDS]' >&2
    exit 2
fi
if [[ $EUID -ne 0 ]]; then
    echo 'soak: it takes root to make network namespaces: run sudo make soak' >&2
    exit 1
fi
status=0
scripts/corrupted.sh || status=1
simulated=$((seconds / 10))
cargo run --profile soak --quiet --locked -p tollgate-stack --example simulate -- \
    --matrix --seed 3 --for "$simulated" --keep-going || status=1
TOLLGATE_SOAK_SECONDS=$((seconds - simulated)) \
    cargo test --profile soak --quiet --locked -p tollgate-service --test soak -- --nocapture || status=1
# Sequence numbers wrap at 4 GiB: 5 GB each way, over both versions of IP.
TOLLGATE_PEERS_BYTES=5000000000 \
    cargo test --profile soak --quiet --locked -p tollgate-service --test peers -- nginx_serves || status=1
exit "$status"

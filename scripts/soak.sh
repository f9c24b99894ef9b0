#!/usr/bin/env bash
# Soaks our stack: connections that come and go while links fail, addresses change and peers misbehave: scripts/soak.sh [SECONDS]
#
# It runs for an hour unless told otherwise, with the assertions of debug builds, and works in namespaces of its own. The exit code is 1
# when it found a defect.
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
TOLLGATE_SOAK_SECONDS=$seconds cargo test --profile soak --quiet --locked -p tollgate-service --test soak -- --nocapture || exit 1

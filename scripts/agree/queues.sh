#!/usr/bin/env bash
# Waits in queues by gates against those by the kernel's raw trace events, of the same packets: scripts/agree/queues.sh
# shellcheck source=scripts/agree/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

echo '== Waits in queues: gates and tracefs'
need tc
if [[ ! -d /sys/kernel/tracing/instances ]]; then
    mount -t tracefs tracefs /sys/kernel/tracing && mounted=/sys/kernel/tracing
fi
cargo build --quiet --release --locked -p tollgate-workload --features tollgate-kernel/bpf --example agree
status=0
"${CARGO_TARGET_DIR:-target}/release/examples/agree" || status=$?
if [[ $status -eq 2 ]]; then left_out 'see above'; fi
exit "$status"

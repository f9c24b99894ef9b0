#!/usr/bin/env bash
# Runs every test of the workspace: unit and integration tests, documentation tests, and the NEON kernels under qemu.
# The last line gives the totals. The exit code is 0 only when nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [[ -t 1 ]]; then export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-always}; fi

failed=()
# part NAME COMMAND...: runs one part, shows its output, keeps it for the totals, and remembers whether it failed.
part() {
    local name=$1
    shift
    if ! "$@" </dev/null 2>&1 | tee -a "$log"; then failed+=("$name"); fi
}

read -r -a features <<<"$(scripts/features.sh workspace)"
# Left out of the command unless asked for, since it takes long to build.
features+=(--features tollgate/sql)
part 'tests' cargo test --workspace "${features[@]}" --locked --no-fail-fast --lib --bins --tests --examples
part 'documentation tests' cargo test --workspace "${features[@]}" --locked --no-fail-fast --doc

neon='not run'
if [[ ! -x scripts/neon-test.sh ]]; then
    echo 'test: left out: the NEON kernels, since scripts/neon-test.sh is not there'
elif ! command -v qemu-aarch64 >/dev/null && ! command -v qemu-aarch64-static >/dev/null; then
    echo 'test: left out: the NEON kernels, since qemu-user is not installed'
else
    # The script says why when it cannot run here, and then exits with 77.
    status=0
    scripts/neon-test.sh </dev/null || status=$?
    case $status in
        0) neon='passed' ;;
        77) neon='not run' ;;
        *)
            neon='failed'
            failed+=('NEON kernels')
            ;;
    esac
fi

# cargo's lines: "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"
totals=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
    /^test result: / {
        programs++
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failures += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
    }
    END { printf "%d passed; %d failed; %d ignored; in %d programs", passed, failures, ignored, programs }')
if [[ ${#failed[@]} -gt 0 ]]; then
    printf -v names '%s, ' "${failed[@]}"
    echo "test: FAILED (${names%, }). $totals; NEON $neon"
    exit 1
fi
echo "test: ok. $totals; NEON $neon"

#!/usr/bin/env bash
# Runs every test of the workspace: unit and integration tests, random scripts and simulations, documentation tests, and the NEON kernels under qemu.
# The last line gives the totals; tests that skipped themselves are counted apart from those that passed, with their reasons.
# The exit code is 0 only when nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
# Tests that this machine cannot run add a line each: "skipped: PACKAGE TEST: REASON" (crates/skip).
TOLLGATE_SKIPPED=$(mktemp)
export TOLLGATE_SKIPPED
trap 'rm -f "$log" "$TOLLGATE_SKIPPED"' EXIT
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
# Some of the defects that these find show in one run of a thousand: optimised code, with its assertions, makes thirty times as many.
part 'random scripts' cargo run --quiet --profile soak --locked -p tollgate-stack --example random -- everything --seeds 200
part 'simulations' cargo run --quiet --profile soak --locked -p tollgate-stack --example simulate -- --seeds 20 --keep-going
# Every scenario with each value of each mechanism.
part 'matrix of simulations' cargo run --quiet --profile soak --locked -p tollgate-stack --example simulate -- --matrix --seeds 3 --keep-going
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
# A test is skipped once, whatever it says on the way. Reasons come with how many tests each has left out.
skipped=$(sort "$TOLLGATE_SKIPPED" | awk '{ key = $2 " " $3 } !(key in seen) { seen[key]; n++ } END { print n + 0 }')
reasons=$(sort "$TOLLGATE_SKIPPED" | awk '
    { key = $2 " " $3 }
    key in seen { next }
    { seen[key]; sub(/^skipped: [^ ]+ [^ ]+ /, ""); count[$0]++ }
    END { for (reason in count) printf "%s%d %s", separator++ ? "; " : "", count[reason], reason }')
totals=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | REASONS=$reasons awk -v skipped="$skipped" '
    /^test result: / {
        programs++
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failures += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
    }
    END {
        printf "%d passed; %d failed; %d ignored; %d skipped", passed - skipped, failures, ignored, skipped
        if (skipped) printf " (%s)", ENVIRON["REASONS"]
        printf "; in %d programs", programs
    }')
if [[ ${#failed[@]} -gt 0 ]]; then
    printf -v names '%s, ' "${failed[@]}"
    echo "test: FAILED (${names%, }). $totals; NEON $neon"
    exit 1
fi
echo "test: ok. $totals; NEON $neon"

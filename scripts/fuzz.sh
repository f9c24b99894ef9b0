#!/usr/bin/env bash
# Runs every fuzz target of the workspace for a short while: scripts/fuzz.sh [SECONDS], 60 unless told.
# Fuzz targets live in fuzz/ directories, made by `cargo fuzz init`, at the top or in a crate. What they are built into, and the
# inputs that they find, lie in target/fuzz; an input that fails is kept in target/fuzz/artifacts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Pinned, so that a new release cannot turn a clean tree into a failing one.
readonly fuzz_version=0.13.2

seconds=${1:-60}
if [[ $# -gt 1 || ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo 'usage: scripts/fuzz.sh [SECONDS], where SECONDS is a whole number above 0' >&2
    exit 2
fi
fuzz=$(scripts/tool.sh cargo-fuzz "$fuzz_version")
kept=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
# The address sanitizer's flag is not stable yet. With this the compiler that builds everything else takes it, too, so no nightly
# one has to be there; nothing but the targets is built so.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$kept

runs=0
for manifest in fuzz/Cargo.toml crates/*/fuzz/Cargo.toml; do
    [[ -f $manifest ]] || continue
    directory=$(dirname "$manifest")
    listed=$("$fuzz" fuzz list --fuzz-dir "$directory")
    while read -r name; do
        [[ -n $name ]] || continue
        echo "fuzz: $directory: $name for $seconds s"
        corpus=$kept/corpus/$name artifacts=$kept/artifacts/$name
        mkdir -p "$corpus" "$artifacts"
        "$fuzz" fuzz run --fuzz-dir "$directory" "$name" "$corpus" -- \
            -max_total_time="$seconds" -artifact_prefix="$artifacts/" </dev/null
        runs=$((runs + 1))
    done <<<"$listed"
done
if [[ $runs -eq 0 ]]; then
    echo 'fuzz: no fuzz target was found in fuzz/ or crates/*/fuzz/: nothing was run' >&2
    exit 1
fi
echo "fuzz: ok. $runs targets, $seconds s each, no crash"

#!/usr/bin/env bash
# Runs every fuzz target of the workspace for a short while: scripts/fuzz.sh [SECONDS], 60 unless told.
# Fuzz targets live in fuzz/ directories, made by `cargo fuzz init`, at the top or in a crate.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
if [[ $# -gt 1 || ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo 'usage: scripts/fuzz.sh [SECONDS], where SECONDS is a whole number above 0' >&2
    exit 2
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo 'fuzz: cargo fuzz was looked for and not found: run cargo install cargo-fuzz, then make fuzz again' >&2
    exit 1
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo 'fuzz: fuzzing takes a nightly compiler, and none was found: run rustup toolchain install nightly' >&2
    exit 1
fi

runs=0
for manifest in fuzz/Cargo.toml crates/*/fuzz/Cargo.toml; do
    [[ -f $manifest ]] || continue
    directory=$(dirname "$manifest")
    listed=$(cargo +nightly fuzz list --fuzz-dir "$directory")
    while read -r name; do
        [[ -n $name ]] || continue
        echo "fuzz: $directory: $name for $seconds s"
        cargo +nightly fuzz run --fuzz-dir "$directory" "$name" -- -max_total_time="$seconds" </dev/null
        runs=$((runs + 1))
    done <<<"$listed"
done
if [[ $runs -eq 0 ]]; then
    echo 'fuzz: no fuzz target was found in fuzz/ or crates/*/fuzz/: nothing was run' >&2
    exit 1
fi
echo "fuzz: ok. $runs targets, $seconds s each, no crash"

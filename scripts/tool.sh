#!/usr/bin/env bash
# Prints the path of a cargo tool in a pinned version, and builds it on first use: scripts/tool.sh NAME VERSION
# It comes from crates.io into target/tools; one of that version on the PATH is taken as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $# -ne 2 ]]; then
    echo 'usage: scripts/tool.sh NAME VERSION, as in scripts/tool.sh cargo-deny 0.20.2' >&2
    exit 2
fi
name=$1
version=$2
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools

for candidate in "$(command -v "$name" || true)" "$tools/bin/$name"; do
    if [[ -x $candidate && $("$candidate" --version) == "$name $version" ]]; then
        echo "$candidate"
        exit 0
    fi
done
echo "tool: building $name $version into $tools (once; one to three minutes)" >&2
# A plain build without optimisation takes a fraction of the time, and what such tools do takes a second all the same.
if ! env -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$tools/build-$name" \
    cargo install "$name" --version "=$version" --locked --quiet --root "$tools" </dev/null >&2; then
    echo "tool: cargo install $name --version $version --locked failed (see above);" \
        "mend that, or put $name $version on the PATH" >&2
    exit 1
fi
rm -rf "$tools/build-$name"
echo "$tools/bin/$name"

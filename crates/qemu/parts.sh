#!/usr/bin/env bash
# Builds what runs inside of QEMU and of its guest, and prints where both are, one to a line: crates/qemu/parts.sh DIRECTORY
#
# The first line is the guest's program, linked statically, since the guest has no libraries; the second is the plugin.
set -euo pipefail

if [[ $# -ne 1 ]]; then
    printf 'usage: %s DIRECTORY, in which the build is kept\n' "$0" >&2
    exit 2
fi
mkdir -p "$1"
directory=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export CARGO_TARGET_DIR=$directory

readonly triple=x86_64-unknown-linux-gnu
# Optimised like any program of today, but without the long link of a release: their speed is not what is measured.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
RUSTFLAGS='-Ctarget-feature=+crt-static -Cstrip=debuginfo' \
    cargo build --quiet --release --locked --target "$triple" -p tollgate-qemu-guest >&2
RUSTFLAGS='' cargo build --quiet --release --locked -p tollgate-qemu-plugin >&2
printf '%s\n' "$directory/$triple/release/tollgate-qemu-guest" "$directory/release/libtollgate_qemu_plugin.so"

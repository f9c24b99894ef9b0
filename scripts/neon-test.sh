#!/bin/sh
# Runs the tests of tollgate-checksum for aarch64, NEON kernel included, under qemu's user-mode emulation.
# Installs what is missing (Debian: qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross; rustup: the
# aarch64-unknown-linux-gnu standard library) and says so.
set -eu
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

fail() {
    echo "neon-test: $1" >&2
    exit 1
}

missing=
command -v qemu-aarch64 >/dev/null || missing="$missing qemu-user"
command -v aarch64-linux-gnu-gcc >/dev/null || missing="$missing gcc-aarch64-linux-gnu"
[ -e /usr/aarch64-linux-gnu/lib/libc.so ] || missing="$missing libc6-dev-arm64-cross"
if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || fail "needs$missing; install them, or run this as root, which does"
    echo "neon-test: installing$missing" >&2
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $missing >&2 \
        || fail "apt-get could not install$missing; try apt-get update first"
fi
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    command -v rustup >/dev/null || fail "needs rustup to get the standard library for $target"
    echo "neon-test: adding the Rust standard library for $target" >&2
    rustup target add "$target" >&2 || fail "rustup could not add $target"
fi

CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
exec cargo test -p tollgate-checksum --target "$target" --release --lib --tests "$@"

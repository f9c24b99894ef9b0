#!/usr/bin/env bash
# Prints the flags with which cargo leaves out what cannot be built here: scripts/features.sh command|workspace
#
# The gates of the Linux kernel need clang, make, pkg-config, and the headers of libelf and zlib (scripts/setup.sh installs
# them). Where all are there, nothing is printed.
set -euo pipefail

# there PATTERN...: whether one of the file patterns is found.
there() {
    local pattern
    for pattern in "$@"; do
        if compgen -G "$pattern" >/dev/null; then return 0; fi
    done
    return 1
}

case ${1:-} in
    command) without=(--no-default-features) ;;
    # Every default feature of the workspace but the gates.
    workspace) without=(--no-default-features --features 'tollgate-budget/bench,tollgate-gate/std,tollgate-qemu/host') ;;
    *)
        echo 'usage: scripts/features.sh command|workspace' >&2
        exit 2
        ;;
esac

missing=()
for program in "${CLANG:-clang}" make pkg-config; do
    command -v "$program" >/dev/null || missing+=("$program")
done
there '/usr/include/libelf.h' '/usr/include/*/libelf.h' || missing+=(libelf.h)
there '/usr/include/zlib.h' '/usr/include/*/zlib.h' || missing+=(zlib.h)
if [[ ${#missing[@]} -gt 0 ]]; then
    printf -v list '%s, ' "${missing[@]}"
    echo "features: left out: the gates of the Linux kernel, since these are missing: ${list%, }" >&2
    echo "${without[@]}"
fi

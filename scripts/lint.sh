#!/usr/bin/env bash
# Formatting, clippy with warnings denied, links of the documentation, wording, shell scripts, and licences, sources and advisories of the
# dependencies.
# Every check runs, whatever the others say. The exit code is 0 only when each of them passed or was left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# cargo-deny is pinned, so that a new release cannot turn a clean tree into a failing one.
readonly deny_version=0.20.2
advisories=https://github.com/rustsec/advisory-db

failed=()
# check NAME COMMAND...: runs one check and remembers whether it failed.
check() {
    local name=$1
    shift
    echo "lint: $name"
    if ! "$@" </dev/null; then failed+=("$name"); fi
}
leave_out() { echo "lint: left out: $*"; }

# component NAME: adds a part of the Rust toolchain that a minimal installation lacks.
component() {
    local command=$1 name=$2
    if cargo "$command" --version >/dev/null 2>&1; then return 0; fi
    if command -v rustup >/dev/null; then
        echo "lint: installing $name: rustup component add $name"
        if rustup component add "$name" </dev/null; then return 0; fi
    fi
    echo "lint: cargo $command is not there, and rustup could not add it: install the component $name of Rust" >&2
    return 1
}

# compile_with_clippy FLAG...: compiles what is not compiled yet. Cargo shows again what was said of the rest; any warning fails.
compile_with_clippy() {
    local said status=0
    said=$(mktemp)
    cargo build --workspace "$@" --all-targets --locked --keep-going 2>&1 | tee "$said" || status=1
    if grep -q '^warning' "$said"; then status=1; fi
    rm -f "$said"
    return "$status"
}

if component fmt rustfmt; then check 'formatting' cargo fmt --all --check; else failed+=('formatting'); fi
read -r -a features <<<"$(scripts/features.sh workspace)"
# Left out of the command unless asked for, since it takes long to build.
features+=(--features tollgate/sql)
if component clippy clippy; then
    if [[ ${RUSTC_WORKSPACE_WRAPPER:-} == clippy-driver ]]; then
        check 'clippy, while compiling' compile_with_clippy "${features[@]}"
    else
        check 'clippy' cargo clippy --workspace "${features[@]}" --all-targets --locked --keep-going -- -D warnings
        # Where all is compiled instead, the dependencies would have to be checked for this alone.
        check 'documentation: links' env RUSTDOCFLAGS='-D warnings' \
            cargo doc --workspace "${features[@]}" --no-deps --locked --keep-going
    fi
else
    failed+=('clippy')
fi

# With the features of the whole workspace, so that nothing is compiled a second time.
check 'wording: sentences, private words, names' cargo test --workspace "${features[@]}" --locked --quiet --test prose

if command -v shellcheck >/dev/null; then
    check 'shell scripts' shellcheck -x .ci/run scripts/*.sh scripts/*/*.sh crates/*/*.sh
else
    leave_out 'shell scripts, since shellcheck is not installed'
fi

if deny=$(scripts/tool.sh cargo-deny "$deny_version"); then
    check 'dependencies: licences, sources, bans' "$deny" --locked --all-features check --hide-inclusion-graph licenses sources bans
    if timeout 120 "$deny" --locked fetch db </dev/null >/dev/null 2>&1; then
        check 'dependencies: advisories' "$deny" --locked --all-features check --hide-inclusion-graph --disable-fetch advisories
    else
        leave_out "advisories, since their database at $advisories could not be fetched"
    fi
else
    failed+=('dependencies')
fi

if [[ ${#failed[@]} -gt 0 ]]; then
    printf -v names '%s, ' "${failed[@]}"
    echo "lint: FAILED (${names%, })"
    exit 1
fi
echo 'lint: ok'

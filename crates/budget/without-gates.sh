#!/usr/bin/env bash
# Builds tollgate-budget from a copy of the workspace in which every call of the stack's recorder is removed, and prints
# where it is: crates/budget/without-gates.sh DIRECTORY
#
# `tollgate-budget check --without-gates PROGRAM` then shows that gates which are off cost nothing.
set -euo pipefail

if [[ $# -ne 1 ]]; then
    printf 'usage: %s DIRECTORY, in which the copy and its build are kept\n' "$0" >&2
    exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
copy=$directory/source

# All of the workspace, since cargo reads every manifest; only what the program is made of is built.
new=$directory/new
rm -rf "$new"
mkdir -p "$new" "$copy"
cp "$root/Cargo.toml" "$root/Cargo.lock" "$new/"
cp -R "$root/crates" "$new/"

# A call is a statement of its own, on one line or, as rustfmt breaks it, from the parenthesis to the one that closes it.
while IFS= read -r file; do
    if grep -q 'rec\.pass(' "$file"; then
        sed -e '/^ *\(self\.\)\{0,1\}rec\.pass(.*);$/d' -e '/^ *\(self\.\)\{0,1\}rec\.pass($/,/^ *);$/d' "$file" >"$file.new"
        mv "$file.new" "$file"
    fi
done < <(find "$new/crates/stack/src" -name '*.rs')
if grep -rn 'rec\.pass(' "$new/crates/stack/src" >&2; then
    printf 'without-gates: these calls are no statements of their own and stay\n' >&2
    exit 1
fi

# Only what differs from the last copy gets a new time, so that cargo builds what has changed and nothing else.
while IFS= read -r file; do
    [[ -e $new/$file ]] || rm "$copy/$file"
done < <(cd "$copy" && find . -type f)
while IFS= read -r file; do
    if ! cmp -s "$new/$file" "$copy/$file"; then
        mkdir -p "$copy/$(dirname "$file")"
        cp "$new/$file" "$copy/$file"
    fi
done < <(cd "$new" && find . -type f)

cd "$copy"
CARGO_TARGET_DIR=$directory/target RUSTFLAGS="${RUSTFLAGS:-} -Awarnings" \
    cargo build --quiet --release -p tollgate-budget --no-default-features --bin tollgate-budget >&2
printf '%s\n' "$directory/target/release/tollgate-budget"

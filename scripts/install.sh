#!/usr/bin/env bash
# Installs the command with its manual pages and completions, or removes them: scripts/install.sh PROGRAM|--remove PREFIX
#
# A file from an older version that this one does not have (a page of a command that is gone) is removed, too.
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo 'usage: scripts/install.sh PROGRAM|--remove PREFIX' >&2
    exit 2
fi
program=$1 prefix=$2
bash=$prefix/share/bash-completion/completions/tollgate
zsh=$prefix/share/zsh/site-functions/_tollgate
fish=$prefix/share/fish/vendor_completions.d/tollgate.fish
man=$prefix/share/man/man1

# What is installed stays until there is something to take its place.
if [[ $program != --remove && ! -x $program ]]; then
    echo "install: there is no command $program: build it with make report" >&2
    exit 1
fi
rm -f "$prefix/bin/tollgate" "$bash" "$zsh" "$fish" "$man"/tollgate.1 "$man"/tollgate-*.1
if [[ $program == --remove ]]; then
    echo "removed tollgate from $prefix"
    exit
fi
install -D -m 755 "$program" "$prefix/bin/tollgate"
mkdir -p "$man"
"$program" man "$man"
for shell in bash zsh fish; do
    mkdir -p "$(dirname "${!shell}")"
    "$program" completions "$shell" >"${!shell}"
done
echo "installed tollgate under $prefix: bin, share/man/man1, completions for bash, zsh and fish"

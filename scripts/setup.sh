#!/usr/bin/env bash
# Makes sure that what `make TARGET` needs from the system is there: scripts/setup.sh TARGET
#
# As root on a system with apt-get, missing packages are installed, with one line for each. Otherwise one line for each
# says what is left out. The exit code is 1 only when TARGET cannot go on at all; 2 for a wrong call.
set -euo pipefail

readonly targets='report test lint budget bench agree captures qemu fuzz soak'

# One line for each package: package | proof that it is there | what it is for | needed by
# The proof is a command or a file pattern (with a slash); of several, one is enough.
# A target marked with `!` cannot go on without the package; the others leave something out.
readonly packages='
gcc               | cc                                                     | linking Rust programs                     | report! test! lint! budget! bench! agree! captures! qemu! fuzz! soak!
libc6-dev         | /usr/lib/*/crt1.o /usr/lib64/crt1.o /usr/lib/crt1.o    | linking Rust programs                     | report! test! lint! budget! bench! agree! captures! qemu! fuzz! soak!
g++               | c++                                                    | the fuzzing engine, which is in C++       | fuzz!
clang             | clang                                                  | the gates of the Linux kernel             | report test lint agree qemu
libelf-dev        | /usr/include/libelf.h /usr/include/*/libelf.h          | the gates of the Linux kernel             | report test lint agree qemu
zlib1g-dev        | /usr/include/zlib.h /usr/include/*/zlib.h              | the gates of the Linux kernel             | report test lint agree qemu
pkg-config        | pkg-config                                             | the gates of the Linux kernel             | report test lint agree qemu
make              | make                                                   | the gates of the Linux kernel             | report test lint agree qemu
iproute2          | tc                                                     | devices of kernel-veth, and delays at tc  | report test agree soak!
nftables          | nft                                                    | netfilter rules of a known cost           | agree
util-linux        | unshare                                                | namespaces and pinned processes           | test agree soak!
valgrind          | valgrind                                               | instruction counts by Callgrind           | report test budget! bench qemu
chromium          | chromium                                               | the test that renders the HTML report     | test
fonts-dejavu-core | /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf        | letters in the rendered HTML report       | test
tshark            | tshark                                                 | the test that reads captures in Wireshark | test captures!
python3-pip       | pip pip3                                               | the captures of Python packages           | captures
bzip2             | bzip2                                                  | the captures of Wireshark                 | captures
xz-utils          | xz                                                     | the captures of dnscap                    | captures
curl              | curl                                                   | the tests that fetch by curl              | test
nginx-light       | /usr/sbin/nginx                                        | the tests with a web server               | test
wrk               | wrk                                                    | the test of many connections of HTTP      | test
iperf3            | iperf3                                                 | the test of streams through the forwarder | test
redis-server      | redis-server                                           | the test of redis through the forwarder   | test
redis-tools       | redis-benchmark                                        | the test of redis through the forwarder   | test
openssh-server    | /usr/sbin/sshd                                         | the test of ssh through the forwarder     | test
openssh-client    | ssh                                                    | the test of ssh through the forwarder     | test
qemu-user         | qemu-aarch64 qemu-aarch64-static                       | the tests of the NEON kernels             | test
qemu-system-x86   | qemu-system-x86_64                                     | counts in Linux, and tests on Linux 6.1    | test agree qemu!
sockperf          | sockperf                                               | round trips by an independent tool        | agree
cpio              | cpio                                                   | the test of the file system of a guest    | test
dnsmasq-base      | /usr/sbin/dnsmasq                                      | the test of our DHCP client               | test
shellcheck        | shellcheck                                             | the check of the shell scripts            | lint
'

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}

# is_there PROOF...: whether one of the commands or file patterns is found.
is_there() {
    local proof
    for proof in "$@"; do
        case $proof in
            /*) if compgen -G "$proof" >/dev/null; then return 0; fi ;;
            *) if command -v "$proof" >/dev/null; then return 0; fi ;;
        esac
    done
    return 1
}

target=${1:-}
if [[ $# -ne 1 || " $targets " != *" $target "* ]]; then
    printf 'usage: scripts/setup.sh TARGET, where TARGET is one of: %s\n' "$targets" >&2
    exit 2
fi

# The compiler comes from the user, not from the system: it is looked for and never installed.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$root/Cargo.toml")
advice="install Rust $wanted or later from https://rustup.rs, then run make $target again"
command -v cargo >/dev/null || fail "cargo was looked for on the PATH and not found: $advice."
command -v rustc >/dev/null || fail "rustc was looked for on the PATH and not found: $advice."
rustc=$(rustc --version) || fail "rustc --version failed: $advice."
found=${rustc#rustc }
found=${found%%[ -]*}
if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) != "$wanted" ]]; then
    fail "this is Rust $found, and Tollgate needs $wanted: $advice."
fi

# What is missing for this target.
missing=()
declare -A proofs=() purposes=() required=()
while IFS='|' read -r package proof purpose users; do
    package=$(trim "$package")
    [[ -n $package ]] || continue
    [[ " $users " == *" $target "* || " $users " == *" $target! "* ]] || continue
    read -r -a list <<<"$proof"
    is_there "${list[@]}" && continue
    missing+=("$package")
    proofs[$package]=$proof
    purposes[$package]=$(trim "$purpose")
    if [[ " $users " == *" $target! "* ]]; then required[$package]=yes; fi
done <<<"$packages"
[[ ${#missing[@]} -gt 0 ]] || exit 0

# Install, if that is possible here; what went wrong is kept for each package and said at the end.
log=$(mktemp)
trap 'rm -f "$log"; let_start' EXIT
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l NEEDRESTART_SUSPEND=1
apt() { apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1; }
install() { apt install --no-install-recommends "$@"; }
# The first complaint of the last call of apt-get.
complaint() { grep -m 1 '^E:' "$log" || tail -n 1 "$log"; }

# A server that is installed for a test is not started, now or at the next boot: Debian asks this program whether it may be
# (invoke-rc.d(8), policy-rc.d). What is there already is put back afterwards.
readonly policy=/usr/sbin/policy-rc.d
policy_before=
keep_from_starting() {
    if [[ -e $policy || -L $policy ]]; then
        policy_before=$(mktemp -u "$policy.XXXXXX")
        mv "$policy" "$policy_before"
    else
        policy_before=none
    fi
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}
let_start() {
    [[ -n $policy_before ]] || return 0
    rm -f "$policy"
    [[ $policy_before == none ]] || mv "$policy_before" "$policy"
    policy_before=
}
# keep_disabled PACKAGE: its services do not start at the next boot.
keep_disabled() {
    local unit
    while read -r unit; do
        unit=${unit##*/}
        [[ $unit != *@* ]] || continue
        if [[ $unit == *.service ]]; then
            if command -v systemctl >/dev/null; then systemctl disable "$unit" >/dev/null 2>&1 || true; fi
        else
            update-rc.d "$unit" disable >/dev/null 2>&1 || true
        fi
    done < <(dpkg -L "$1" 2>/dev/null | grep -E '/systemd/system/[^/]+\.service$|^/etc/init\.d/[^/]+$')
}

declare -A complaints=()
if ! command -v apt-get >/dev/null; then
    reason='there is no apt-get here'
    remedy='install %s with the package manager of this system'
elif [[ $EUID -ne 0 ]]; then
    reason='installing it takes root'
    remedy='run sudo apt-get install --no-install-recommends %s'
else
    reason='apt-get could not install it'
    remedy='mend what apt-get says and try again, or run apt-get install %s'
    for package in "${missing[@]}"; do
        say "installing $package: ${purposes[$package]}"
    done
    # When the lists cannot be updated, those already here may still name packages that can be fetched.
    apt update || true
    keep_from_starting
    if ! install "${missing[@]}"; then
        # One package that cannot be had must not keep out the others.
        for package in "${missing[@]}"; do
            install "$package" || complaints[$package]=$(complaint)
        done
    fi
    let_start
    for package in "${missing[@]}"; do keep_disabled "$package"; done
fi

hash -r
stop=
for package in "${missing[@]}"; do
    read -r -a list <<<"${proofs[$package]}"
    is_there "${list[@]}" && continue
    why=$reason${complaints[$package]:+ (${complaints[$package]})}
    todo=${remedy//%s/$package}
    if [[ -n ${required[$package]:-} ]]; then
        printf 'setup: %s is missing and %s; make %s cannot go on without it (%s): %s.\n' \
            "$package" "$why" "$target" "${purposes[$package]}" "$todo" >&2
        stop=yes
    else
        say "$package is missing and $why; left out: ${purposes[$package]}. To have it, $todo."
    fi
done
[[ -z $stop ]]

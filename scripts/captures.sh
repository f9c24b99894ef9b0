#!/usr/bin/env bash
# Fetches the captures that other projects' packages bring along, in pinned versions: scripts/captures.sh DIRECTORY
#
# Each project's captures lie in DIRECTORY/PROJECT afterwards; those that are there already are kept. Packages come from
# where apt-get, pip, cargo and go are told to look. What cannot be fetched is left out, with a line that says why.
# The exit code is 1 when there are none at all; 2 for a wrong call.
set -euo pipefail

# One line for each project: project | client | package | version | SHA-256 of the archive (go: its own sum) | folders
# For Debian the version is the upstream one of the release below, whose archive never changes.
readonly projects='
wireshark     | apt   | wireshark                  | 4.0.17  | 62fd1491b6211d1651a16a45ead15808970b3a6a9ebde2537f96722af47aaaa5 | test/captures
tcpdump       | apt   | tcpdump                    | 4.99.3  | ad75a6ed3dc0d9732945b2e5483cb41dc8b4b528a169315e499c6861952e73b3 | tests
libpcap       | apt   | libpcap                    | 1.10.3  | 2a8885c403516cf7b0933ed4b14d6caa30e02052489ebd414dc75ac52e7559e6 | tests
ndpi          | apt   | ndpi                       | 4.2     | e54ce8fe13adc5d747be7553513657fae78f796e0bd459e122c280cc06ce4daf | tests/pcap
tcpflow       | apt   | tcpflow                    | 1.6.1   | c1c88513473e12011c0c00bba88dd02013ea3b813b08088f250cbf82b8f42358 | tests samplePcaps
dnscap        | apt   | dnscap                     | 2.1.1   | 808040a5388c8b3281e905cba3ec4a17d6451ac1aa369b58e06da4e2c65a8acd | src/test
dpkt          | apt   | python-dpkt                | 1.9.8   | 9990639e19a9c8f1db4af453b7e6a45ef2995ec03e13bac35b9824839fd46867 | examples/data
scapy         | pip   | scapy                      | 2.4.1   | 71b8608a756f5df91387932e2b341557f2c66d2c2cebdfd07b2b0c07059ca065 | test/pcaps
python-pcapng | pip   | python-pcapng              | 2.1.1   | 6477e72513165954e56d5836ebbd43ac7f8d28c4640f78d63d6506d1692ddc74 | test_data
pcap-parser   | cargo | pcap-parser                | 0.17.0  | 1099a3a64b376c536394622c9e5ea8ecfac3e3e44f88857b1e7da114135d3df4 | assets
rust-pcap     | cargo | pcap                       | 2.5.0   | d033f537690268aafc38d7ecd5783dfc0a31ac5888da00014f887af16f312a51 | tests/data
gopacket      | go    | github.com/google/gopacket | v1.1.19 | h1:ves8RnFZPGiFnTS0uPQStjwru6uO6h+nlr9j6fL7kF8=                  | pcap pcapgo
'
# The Debian release whose packages are taken, whatever release this system is.
readonly release=bookworm
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

if [[ $# -ne 1 ]]; then
    echo 'usage: scripts/captures.sh DIRECTORY, which holds a folder for each project afterwards' >&2
    exit 2
fi
mkdir -p "$1/.fetched"
directory=$(cd "$1" && pwd)
work=$(mktemp -d "$directory/.work.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
log=$work/log

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}
say() { printf 'captures: %s\n' "$*"; }
# The first complaint of a client, without addresses.
complaint() { { grep -iE '^(E:|error|go: )' "$log" || cat "$log"; } | head -n 1 | sed -E 's#[a-z]+://[^ ]*#(address)#g' | cut -c 1-160; }

# Each of these puts the archive of a package into $work and prints its path; or fails, with a complaint in $log.

# apt-get, told by a configuration of its own to look for source packages, so the system's stays as it is.
apt() {
    apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@" >>"$log" 2>&1
}
# Writes that configuration, once, and reads the lists of packages.
apt_ready() {
    if [[ -f $work/apt ]]; then
        cat "$work/apt" >>"$log"
        [[ ! -s $work/apt ]]
        return
    fi
    local signed='' uri suite
    if [[ -f $keyring ]]; then signed="[signed-by=$keyring] "; fi
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    # shellcheck disable=SC2016 # apt-get fills in the fields.
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>>"$log" |
        while read -r uri suite; do
            # The others, for updates, have newer versions than these, or the same ones.
            if [[ $suite != *-* ]]; then echo "deb-src $signed$uri $release main"; fi
        done | sort -u >"$work/sources.list"
    if [[ ! -s $work/sources.list ]]; then
        echo 'error: apt-get names no source of packages' >>"$log"
    elif apt -o APT::Update::Error-Mode=any update; then
        : >"$work/apt"
        return
    fi
    # The next package fails for the same reason.
    cp "$log" "$work/apt"
    return 1
}
fetch_apt() {
    local package=$1 version=$2
    apt_ready || return 1
    (cd "$work" && apt source --download-only --tar-only "$package") || return 1
    compgen -G "$work/${package}_$version.orig.tar.*" && return 0
    echo "error: $release has another version than $version" >>"$log"
    return 1
}

# pip checks the sum before it looks into the archive.
fetch_pip() {
    local package=$1 version=$2 sum=$3
    printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$sum" >"$work/requirements"
    python3 -m pip download --quiet --no-deps --no-binary "$package" --require-hashes \
        --dest "$work" --requirement "$work/requirements" >>"$log" 2>&1 || return 1
    compgen -G "$work/$package-$version.tar.gz"
}

# cargo keeps the archive in its cache when it shows a package.
fetch_cargo() {
    local package=$1 version=$2
    (cd "$work" && cargo info --quiet "$package@$version") >>"$log" 2>&1 || return 1
    compgen -G "${CARGO_HOME:-$HOME/.cargo}/registry/cache/*/$package-$version.crate" | head -n 1
}

# go unpacks what it fetches; its sum is over names and contents.
fetch_go() {
    local package=$1 version=$2 sum=$3 found
    (cd "$work" && GOFLAGS=-modcacherw GOMODCACHE=$work/go GOSUMDB=off go mod download -json "$package@$version") \
        >"$work/go.json" 2>>"$log" || {
        sed -n 's/^\t"Error": "\(.*\)"$/error: \1/p' "$work/go.json" >>"$log"
        return 1
    }
    found=$(sed -n 's/^\t"Sum": "\(.*\)",\{0,1\}$/\1/p' "$work/go.json")
    if [[ $found != "$sum" ]]; then
        echo "error: the sum is $found" >>"$log"
        return 1
    fi
    sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' "$work/go.json"
}

# take PROJECT ARCHIVE SUM FOLDER...: checks the archive and moves its captures to where they stay.
take() {
    local project=$1 archive=$2 sum=$3 folder unpacked=$work/unpacked
    shift 3
    rm -rf "$unpacked" "$work/kept"
    mkdir -p "$unpacked" "$work/kept"
    if [[ -d $archive ]]; then
        unpacked=$archive
    else
        if ! echo "$sum  $archive" | sha256sum --check --status; then
            echo 'error: the archive is not the one that was expected' >>"$log"
            return 1
        fi
        tar --extract --file "$archive" --directory "$unpacked" --strip-components 1 --no-same-owner >>"$log" 2>&1 || return 1
    fi
    for folder in "$@"; do
        mkdir -p "$work/kept/$(dirname "$folder")"
        cp -r "$unpacked/$folder" "$work/kept/$folder" 2>>"$log" || return 1
    done
    rm -rf "${directory:?}/$project"
    mv "$work/kept" "$directory/$project"
}

there=0
while IFS='|' read -r project client package version sum folders; do
    project=$(trim "$project")
    [[ -n $project ]] || continue
    client=$(trim "$client")
    package=$(trim "$package")
    version=$(trim "$version")
    sum=$(trim "$sum")
    read -r -a list <<<"$folders"
    mark="$sum ${list[*]}"
    if [[ -d $directory/$project && -f $directory/.fetched/$project && $(<"$directory/.fetched/$project") == "$mark" ]]; then
        there=$((there + 1))
        continue
    fi
    command=$client
    case $client in
        apt) command=apt-get ;;
        pip) command=python3 ;;
    esac
    if ! command -v "$command" >/dev/null; then
        say "left out: $project, since $command is not there"
        continue
    fi
    say "fetching $package $version by $command"
    : >"$log"
    if archive=$("fetch_$client" "$package" "$version" "$sum") && take "$project" "$archive" "$sum" "${list[@]}"; then
        printf '%s\n' "$mark" >"$directory/.fetched/$project"
        there=$((there + 1))
    else
        rm -rf "${directory:?}/$project" "$directory/.fetched/$project"
        say "left out: $project, since $command could not fetch $package $version: $(complaint)"
    fi
done <<<"$projects"

if [[ $there -eq 0 ]]; then
    echo "captures: none could be fetched (see above); where registries can be reached, run make captures again" >&2
    exit 1
fi
say "$there projects are there"

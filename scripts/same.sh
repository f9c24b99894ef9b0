#!/usr/bin/env bash
# How often `tollgate compare` tells two runs of the same thing apart: makes fresh runs of each command, the commands in turn, compares
# every two runs of a command, and counts the pairs and the rows that were told apart.
#
#   scripts/same.sh [RUNS [COMMAND...]]      a command in one argument each, without --json: 'rr --for 5s'
#
# TOLLGATE=PROGRAM  the command [default: what cargo has built]
# UNDER='chrt -f 10'  what each run is started by [default: nothing]
# KEEP=DIRECTORY  where runs are kept; runs that are there already are compared too [default: they are deleted]
# Exit codes: 0 at most 5 of 100 pairs of each command had a row told apart; 1 more had; 2 a run or a comparison failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly threshold='5%'
readonly allowed=5 # of 100 pairs

runs=${1:-20}
if [[ $# -gt 0 ]]; then shift; fi
if [[ $# -gt 0 ]]; then
    commands=("$@")
else
    commands=('rr --for 5s' 'crr --for 5s' 'stream --for 5s' 'experiment run wolman-transmit --for 5s' 'report --quick')
fi
tollgate=${TOLLGATE:-${CARGO_TARGET_DIR:-target}/release/tollgate}
read -r -a under <<<"${UNDER:-}"

fail() {
    echo "same: $*" >&2
    exit 2
}
[[ $runs =~ ^[0-9]+$ ]] || fail "the number of runs was to be a number, and is '$runs'"
[[ -x $tollgate ]] || fail "there is no command $tollgate: build it with cargo build --release --locked -p tollgate"

if [[ -n ${KEEP:-} ]]; then
    directory=$KEEP
    mkdir -p "$directory"
else
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
fi

# name COMMAND: the command as a file's name.
name() { tr -cs 'a-z0-9\n' '-' <<<"$1"; }

stamp=$(date +%s)
for ((run = 1; run <= runs; run++)); do
    for command in "${commands[@]}"; do
        read -r -a words <<<"$command"
        # The HTML file that `report` writes by itself goes with the runs.
        if [[ ${words[0]} == report ]]; then words+=(--out "$directory/report.html"); fi
        file=$(printf '%s/%s.%s-%03d.json' "$directory" "$(name "$command")" "$stamp" "$run")
        "${under[@]}" "$tollgate" --quiet "${words[@]}" --json "$file" >/dev/null || fail "'$command' failed"
    done
done

# Of the JSON of a comparison: how many rows were judged, then a line for each that was told apart by more than the threshold.
told_apart() {
    awk '
        function value(line) { sub(/^[^:]*: /, "", line); gsub(/^"|"?,?$/, "", line); return line }
        /^  "judged"/ { print value($0) }
        /^  "paths"/ { paths = 1 }
        /^  "rows"/ { paths = 0 }
        paths { next }
        /^      "experiment"/ { experiment = value($0) }
        /^      "table"/ { table = value($0) }
        /^      "row"/ { row = value($0) }
        /^      "column"/ { column = value($0) }
        /^      "change"/ { change = value($0) }
        /^        "type": "(regression|improvement)"/ { printf "%s, %s: %s, %s\t%+.1f %%\n", experiment, table, row, column, 100 * change }'
}

worst=0
for command in "${commands[@]}"; do
    files=("$directory/$(name "$command")".*.json)
    pairs=0 regressions=0 apart=0 rows=0 judged=0
    list=$(mktemp)
    for ((i = 0; i < ${#files[@]}; i++)); do
        for ((j = i + 1; j < ${#files[@]}; j++)); do
            status=0
            comparison=$("$tollgate" compare "${files[i]}" "${files[j]}" --fail-on "$threshold" --json -) || status=$?
            if [[ $status -gt 1 ]]; then fail "comparing ${files[i]} with ${files[j]} failed"; fi
            { read -r judged; mapfile -t told; } < <(told_apart <<<"$comparison")
            pairs=$((pairs + 1))
            regressions=$((regressions + status))
            rows=$((rows + judged))
            if [[ ${#told[@]} -gt 0 ]]; then
                apart=$((apart + 1))
                printf '%s\n' "${told[@]}" >>"$list"
            fi
        done
    done
    flagged=$(wc -l <"$list")
    echo "$command: ${#files[@]} runs, $pairs pairs; exit code 1 for $regressions, a row told apart in $apart; $flagged of $rows rows that were judged"
    cut -f 1 "$list" | sort | uniq -c | sort -rn | head -n 10
    rm -f "$list"
    if [[ $((100 * apart)) -gt $((allowed * pairs)) ]]; then worst=1; fi
done
exit "$worst"

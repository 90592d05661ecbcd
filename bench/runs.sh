#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs recorded steps at several capacities under every policy and prints the tables of docs/runs.md.
# Usage: bench/runs.sh DAO TRACE... ; settings by the environment, see below.
set -eu
: "${DAO_RUNS_CAPACITIES:=90% 70% 50% smallest}"
: "${DAO_RUNS_POLICIES:=lru belady weighted_lru weighted_belady window size}"
: "${DAO_RUNS_OPTIONS:=--time-scale 0.05 --link-in 2GB/s --link-out 2GB/s --verify}"

dao=$1
shift
json=$(mktemp)
trap 'rm -f "$json"' EXIT
wrong=0

# field NAME: a number or word of the JSON object in $json.
field() {
    sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$json"
}

mega() {
    echo "$1" | awk '{ printf "%.1f", $1 / 1000000 }'
}

percent() {
    echo "$1" | awk '{ print $1 + 0 }'
}

milli() {
    echo "$1" | awk '{ printf "%.0f", $1 * 1000 }'
}

run() {
    # shellcheck disable=SC2086 # a list of options
    "$dao" run "$@" $DAO_RUNS_OPTIONS --json >"$json" 2>/dev/null
}

for trace in "$@"; do
    "$dao" info "$trace" --json >"$json"
    smallest=$(field smallest_capacity_bytes)
    printf '\n### %s\n\nPeak %s MB, largest operator %s MB, %s operators. `%s`\n\n' "$(field model)" \
        "$(mega "$(field peak_bytes)")" "$(mega "$smallest")" "$(field operators)" "$DAO_RUNS_OPTIONS"
    echo "| capacity | policy | evictions | without a copy | MB in | MB out | reads verified | mismatches" \
        "| step ms | unlimited ms | ratio |"
    echo "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for capacity in $DAO_RUNS_CAPACITIES; do
        [ "$capacity" != smallest ] || capacity=$smallest
        for policy in $DAO_RUNS_POLICIES; do
            run "$trace" --capacity "$capacity" --policy "$policy" || wrong=$((wrong + 1))
            printf '| %s %% | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.2f |\n' \
                "$(percent "$(field capacity_percent)")" "$policy" \
                "$(field evictions)" "$(field clean_evictions)" \
                "$(mega "$(field bytes_in)")" "$(mega "$(field bytes_out)")" \
                "$(field reads_verified)" "$(field mismatches)" \
                "$(milli "$(field step_s)")" "$(milli "$(field unlimited_s)")" "$(field slowdown)"
        done
    done
done
[ "$wrong" -eq 0 ] || echo "$wrong runs failed" >&2
[ "$wrong" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_recorded.sh DAO PROGRAM [PRELOADED]: what DAO_RECORD writes is what the command reads, also of a
# process that is killed, and of malloc() of any program.
set -eu
dao=$1 program=$2 preloaded=${3:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "$0: $*" >&2
    exit 1
}

# The program's figures by another way: its lines summed in the order of time.
peak_of() {
    sort -s -t, -n -k1,1 "$1" | awk -F, -v place="$2" '
        $3 == place && $2 == "alloc" { live += $5; if (live > peak) peak = live }
        $3 == place && $2 == "free" { live -= $5 }
        END { print peak }'
}

peak_read() {
    "$dao" info --json "$1" --device "$2" | sed -n 's/.*"peak_bytes": *\([0-9]*\).*/\1/p' | head -n 1
}

DAO_RECORD=$folder/a-%p.csv "$program" > "$folder/out"
set -- "$folder"/a-*.csv
[ $# = 1 ] && [ -f "$1" ] || fail "the file is not named by its process"
file=$1
"$dao" info "$file" > "$folder/info"
grep -q 'what a process did with its memory' "$folder/info" || fail "it is not recognised"
for place in $(tail -n +2 "$file" | cut -d, -f3 | sort -u); do
    wanted=$(peak_of "$file" "$place")
    [ "$(peak_read "$file" "$place")" = "$wanted" ] || fail "the peak of $place is not $wanted"
done
"$dao" plan "$file" > /dev/null
"$dao" replay "$file" > /dev/null
"$dao" fit "$file" --memory 8GiB | grep -q '^It fits' || fail "it does not fit into 8 GiB"

# A line that was cut off, as of a full disk, is left out.
head -c $(($(wc -c < "$file") - 20)) "$file" > "$folder/cut.csv"
"$dao" info "$folder/cut.csv" > /dev/null

[ -z "$preloaded" ] && exit 0
size=3000000
DAO_RECORD=$folder/m.csv LD_PRELOAD=$preloaded python3 -c "
import os, signal
kept = bytearray($size)
if os.fork() == 0:
    child = bytearray($size)
    os._exit(0)
os.wait()
os.environ.pop('LD_PRELOAD')
os.kill(os.getpid(), signal.SIGKILL)" || true
count=$(grep -c ",alloc,.*,$((size + 1))," "$folder/m.csv")
[ "$count" = 1 ] || fail "a killed process has left $count of its block"
"$dao" info "$folder/m.csv" > /dev/null

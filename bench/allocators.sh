#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tables of docs/allocators.md, with the limits beside the results.
# Usage: bench/allocators.sh [counts|times] [BUILD] ; BUILD is a release build (default: build/release).
#   counts   what no load changes: instructions, capacities, calls, bytes; ratios to a plain pair of the run
#   times    what is in ns, and all strategies and peers: on a quiet machine
# Without either both are taken. DAO_BENCH_TRACES is the folder of recorded steps (default: examples/traces).
set -eu
cd "$(dirname "$0")/.."
. bench/document.sh
doc=docs/allocators.md
kind=all
case ${1:-} in
counts | times)
    kind=$1
    shift
    ;;
esac
build=${1:-build/release}
: "${DAO_BENCH_TRACES:=examples/traces}"
DAO_BENCH=$build/dao-bench
# jemalloc wants room for the variables of threads, which a program that loads it late has not by itself.
GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.rtld.optional_static_tls=16384}
export DAO_BENCH_TRACES DAO_BENCH GLIBC_TUNABLES
json=$work/json
load=$(cut -d' ' -f1 /proc/loadavg)

# limit TRACE COLUMN: of bench/alloc/bench_limits.h; 1 lock pairs, 2 capacity, 3 capacity with remapping, 4 in
# segments, 5 bytes a block. Empty: none.
limit() {
    case $1 in
    torch:*) set -- torch: "$2" ;;
    esac
    sed -n "s/^ *X(\"$1\", *\([^)]*\)).*/\1/p" bench/alloc/bench_limits.h | awk -F', *' -v \
        column="$2" \
        '$column != 0 { print " (" $column ")" }'
}

# rows: the JSON array as lines of trace, strategy and the figures, "-" for null.
rows() {
    awk -F'": *' '/^ *"/ {
            value = $2
            gsub(/[",]/, "", value)
            line = line (line == "" ? "" : " ") (value == "null" ? "-" : value)
        }
        /^ *}/ { print line; line = "" }' "$json"
}

bench() {
    "$build/dao-bench" alloc --torch-steps "$DAO_BENCH_TRACES" --json "$@" >"$json" 2>/dev/null
}

# at: when, where and of what the tables of one kind are.
at() {
    processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1)
    echo "Taken on $(date -u +%Y-%m-%d) at commit $(git rev-parse --short HEAD), on $processor, $(nproc)" \
        "processors, under a load of $load as it began."
}

counts() {
    most=$(limit_of "")
    echo "| trace | instructions ($most) | footprint | capacity | with remapping | driver calls" \
        "| pages moved at 1.2 | bytes a block |"
    echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    bench --strategy good_fit --figures memory --seeds 3
    rows | while read -r trace _ _ _ _ _ _ _ footprint capacity remap calls pages packed _; do
        echo "| $trace | $(bench/instructions "$trace" | sed 's/.* //') | $footprint |" \
            "$capacity$(limit "$trace" 2) | $remap$(limit "$trace" 3) | $calls | $pages |" \
            "$packed$(limit "$trace" 5) |"
    done
}

# limit_of NAME: of instructions, of pairs of that kind.
limit_of() { sed -n "s/^#define DAO_BENCH_INSTRUCTIONS$1_MAX *//p" bench/alloc/bench_limits.h; }

ordered() {
    echo "| trace | plain | one stream ($(limit_of _STREAM)) | eight streams ($(limit_of _STREAMS))" \
        "| one stream, time over plain | eight streams, time over plain |"
    echo "| --- | ---: | ---: | ---: | ---: | ---: |"
    for trace in a2 b1k b10k c d; do
        row=$trace
        for streams in 0 1 8; do
            row="$row | $(DAO_BENCH_STREAMS=$streams bench/instructions "$trace" | sed 's/.* //')"
        done
        for streams in 1 8; do
            bench --strategy good_fit --trace "$trace" --streams "$streams"
            row="$row | $(rows | awk '{ printf "%.2f", $3 / $NF }')"
        done
        echo "| $row |"
    done
}

cases() {
    echo "| case | figure | at most |"
    echo "| --- | ---: | ---: |"
    bench --cases
    rows | while read -r name figure most; do
        echo "| $name | $figure | $most |"
    done
}

segments() {
    echo "| trace | ample ($(limit_of _SEGMENTS)) | tight ($(limit_of _SEGMENTS_TIGHT)) | capacity |"
    echo "| --- | ---: | ---: | ---: |"
    for trace in a2 c cd bert i3; do
        row=$trace
        for percent in 400 110; do
            row="$row | $(DAO_BENCH_SEGMENTS=$percent bench/instructions "$trace" | sed 's/.* //')"
        done
        bench --strategy good_fit --segments --figures memory --seeds 10 --trace "$trace"
        echo "| $row | $(rows | cut -d' ' -f10)$(limit "$trace" 4) |"
    done
}

speed() {
    echo "| trace | ns a pair | of a lock | lock pairs | p99 ns | p99.9 ns | p99.99 ns | max ns |"
    echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    bench --strategy good_fit --figures speed --seeds 3
    rows | while read -r trace _ ns lock p99 p999 p9999 max _; do
        locks=$(echo "$ns $lock" | awk '{ printf "%.2f", $1 / $2 }')
        echo "| $trace | $ns | $lock | $locks$(limit "$trace" 1) | $p99 | $p999 | $p9999 | $max |"
    done
}

strategies() {
    echo "| trace | strategy | ns a pair | p99 ns | p99.9 ns | footprint | capacity | with remapping" \
        "| driver calls |"
    echo "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    bench
    rows | while read -r trace strategy ns _ p99 p999 _ _ footprint capacity remap calls _; do
        echo "| $trace | $strategy | $ns | $p99 | $p999 | $footprint | $capacity | $remap | $calls |"
    done
}

threads() {
    echo "| trace | strategy | ns a pair | scaling | processor time | overlap |"
    echo "| --- | --- | ---: | ---: | ---: | ---: |"
    for trace in a1 a2 b1k; do
        bench --threads 2 --trace "$trace"
        rows | while read -r _ strategy _ _ _ _ _ _ _ _ _ _ _ _ _ ns scaling cpu overlap; do
            echo "| $trace | $strategy | $ns | $scaling | $cpu | $overlap |"
        done
    done
}

if [ "$kind" != times ]; then
    for name in counts ordered cases segments; do
        section "$name" "$name"
    done
    section counted at
fi
if [ "$kind" != counts ]; then
    for name in speed strategies threads; do
        section "$name" "$name"
    done
    section timed at
fi

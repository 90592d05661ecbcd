#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints docs/allocators.md: every strategy and every trace, with the limits beside the results.
# Usage: bench/allocators.sh [BUILD] >docs/allocators.md ; BUILD is a release build (default: build/release).
# DAO_BENCH_TRACES is the folder of recorded steps (default: examples/traces).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/release}
: "${DAO_BENCH_TRACES:=$root/examples/traces}"
DAO_BENCH=$build/dao-bench
# jemalloc wants room for the variables of threads, which a program that loads it late has not by itself.
GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.rtld.optional_static_tls=16384}
export DAO_BENCH_TRACES DAO_BENCH GLIBC_TUNABLES
json=$(mktemp)
trap 'rm -f "$json"' EXIT

# limit TRACE COLUMN: of bench/alloc/bench_limits.h; 1 lock pairs, 2 capacity, 3 capacity with remapping, 4 in
# segments. Empty: none.
limit() {
    case $1 in
    torch:*) set -- torch: "$2" ;;
    esac
    sed -n "s/^ *X(\"$1\", *\([^)]*\)).*/\1/p" "$root/bench/alloc/bench_limits.h" | awk -F', *' -v \
        column="$2" \
        '$column != 0 { print " (" $column ")" }'
}

# rows: the JSON array as lines of trace, strategy and the thirteen figures, "-" for null.
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

cat <<TEXT
# Allocators, measured

Printed by \`bench/allocators.sh\` on $(date -u +%Y-%m-%d) at commit
$(git -C "$root" rev-parse --short HEAD), on
$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1), $(nproc) processors, under a load of
$(cut -d' ' -f1 /proc/loadavg) as it began: where that is more than the processors, others' work shares the
caches, and pairs of a lock, measured in turns with the traces, say more than ns. In brackets stands what is
wanted. Instructions and capacities do not depend on the load: \`ctest --preset release -L gate\` holds
them.

The traces are described in \`dao-bench alloc --help\` and at the head of
[bench/traces/made_trace.c](../bench/traces/made_trace.c). The device only keeps books, so that what is
measured is the library. A trace is replayed by one thread beside an idle one; ns are processor time without
the empty call, the median of the rounds. Footprint is peak reserved over peak live on a device that is
large enough. Bytes a block are of host memory, after the build-up of traces with 10,000 live blocks and
more, those of the device's pages included. Capacity is the smallest device on which the whole trace
succeeds over peak live, as one contiguous segment and with 2 MiB pages that can be remapped; for a1 it
would speak of the page alone, and for b100k it is not searched. Without remapping, good fit chooses
holes by cost where more than half of the device is used (allocators/range/range.c).

## The default strategy

\`dao-bench alloc --strategy good_fit --seeds 3\` and \`bench/instructions\`

| trace | instructions | ns a pair | of a lock | lock pairs | p99 ns | p99.9 ns | p99.99 ns | max ns \
| footprint | capacity | with remapping | driver calls | pages moved at 1.2 | bytes a block |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
TEXT
bench --strategy good_fit --seeds 3
most=$(sed -n 's/^#define DAO_BENCH_INSTRUCTIONS_MAX *//p' "$root/bench/alloc/bench_limits.h")
rows | while read -r trace _ ns lock p99 p999 p9999 max footprint capacity remap calls pages packed _; do
    instructions=$("$root/bench/instructions" "$trace" | sed 's/.* //')
    locks=$(echo "$ns $lock" | awk '{ printf "%.2f", $1 / $2 }')
    echo \
        "| $trace | $instructions ($most) | $ns | $lock | $locks$(limit "$trace" 1) | $p99 | $p999 |" \
        "$p9999 | $max | $footprint |" \
        "$capacity$(limit "$trace" 2) | $remap$(limit "$trace" 3) | $calls | $pages (0) |" \
        "$packed$(limit "$trace" 5) |"
done

limit_of() { sed -n "s/^#define DAO_BENCH_INSTRUCTIONS_$1_MAX *//p" "$root/bench/alloc/bench_limits.h"; }
cat <<TEXT

## In stream order

\`DAO_BENCH_STREAMS=1 bench/instructions\`, and with 8: instructions of a pair of \`dao_alloc_async()\` and
\`dao_free_async()\` on idle streams, a slot of the trace on each in turns. With several streams every free
records an event, whose own cost is the driver's. The limits in brackets hold for all traces but b10k.

| trace | plain | one stream ($(limit_of STREAM)) | eight streams ($(limit_of STREAMS)) |
| --- | ---: | ---: | ---: |
TEXT
for trace in a2 b1k b10k c d; do
    row=$trace
    for streams in 0 1 8; do
        row="$row | $(DAO_BENCH_STREAMS=$streams "$root/bench/instructions" "$trace" | sed 's/.* //')"
    done
    echo "| $row |"
done

cat <<TEXT

\`dao-bench alloc --streams N\`: time of such a pair, over a plain one of the same trace and run.

| trace | streams | ns a pair | plain | ratio | p99.9 ns | max ns |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
TEXT
for trace in a2 b10k e100k; do
    for streams in 1 8; do
        bench --strategy good_fit --trace "$trace" --streams "$streams"
        rows | while read -r _ _ ns _ _ p999 _ max _ _ _ _ _ _ _ plain; do
            ratio=$(echo "$ns $plain" | awk '{ printf "%.2f", $1 / $2 }')
            echo "| $trace | $streams | $ns | $plain | $ratio | $p999 | $max |"
        done
    done
done

cat <<TEXT

## Of no trace

\`dao-bench alloc --cases\`

| case | figure | at most |
| --- | ---: | ---: |
TEXT
bench --cases
rows | while read -r name figure most; do
    echo "| $name | $figure | $most |"
done

cat <<TEXT

## In segments

Where the device has no page mapping, or pools of the driver serve a place, it grows in segments.
\`DAO_BENCH_SEGMENTS=400 bench/instructions\`, and with 110: plain pairs on a device of four times the peak,
and of 1.1 times, where more than half is used and a hole is chosen by cost. Capacity is that of
\`dao-bench alloc --segments --figures memory --seeds 10\`.

| trace | ample ($(limit_of SEGMENTS)) | tight ($(limit_of SEGMENTS_TIGHT)) | capacity |
| --- | ---: | ---: | ---: |
TEXT
for trace in a2 c cd bert i3; do
    row=$trace
    for percent in 400 110; do
        row="$row | $(DAO_BENCH_SEGMENTS=$percent "$root/bench/instructions" "$trace" | sed 's/.* //')"
    done
    bench --strategy good_fit --segments --figures memory --seeds 10 --trace "$trace"
    echo "| $row | $(rows | cut -d' ' -f10)$(limit "$trace" 4) |"
done

cat <<TEXT

## All strategies, and allocators of the host

\`dao-bench alloc\`. Allocators of the host have no device; they give large blocks a mapping each, of which
a process has too few for b10k and b100k.

| trace | strategy | ns a pair | p99 ns | p99.9 ns | footprint | capacity | with remapping | driver calls |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
TEXT
bench
rows | while read -r trace strategy ns _ p99 p999 _ _ footprint capacity remap calls _; do
    echo "| $trace | $strategy | $ns | $p99 | $p999 | $footprint | $capacity | $remap | $calls |"
done

cat <<TEXT

## Two threads on one place

\`dao-bench alloc --threads 2\`: the replay included, each thread on a processor of its own, in short slices
of which the fastest round counts: what else runs on the processors only makes a slice slower. Scaling is
against one of the two threads alone by the clock on the wall; wanted are 1.8 for a1 and a2 and 1.2 for b1k.
Processor time is that of a pair beside the other thread over that of a pair alone: 1 where they cost each
other nothing. Overlap is the least part of a slice in which both ran.

| trace | strategy | ns a pair | scaling | processor time | overlap |
| --- | --- | ---: | ---: | ---: | ---: |
TEXT
for trace in a1 a2 b1k; do
    bench --threads 2 --trace "$trace"
    rows | while read -r _ strategy _ _ _ _ _ _ _ _ _ _ _ _ _ ns scaling cpu overlap; do
        echo "| $trace | $strategy | $ns | $scaling | $cpu | $overlap |"
    done
done

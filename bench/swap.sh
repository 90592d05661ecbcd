#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Takes the figures of docs/swap.md anew and puts them between its marks. Takes some twenty minutes, on a
# machine that has nothing else to do: the set `device` runs for real.
# Usage: bench/swap.sh [BUILD] ; BUILD is a release build (default: build/release). DAO_BENCH_DATA as in
# bench/document.sh.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
doc=docs/swap.md
. bench/document.sh

# swap_set NAME: a set's table, as the command prints it.
swap_set() {
    echo '```text'
    "$build/dao-bench" swap --data "$DAO_BENCH_DATA" --set "$1"
    echo '```'
}

ours() { swap_set ours; }
g10() { swap_set g10; }
upstream() { swap_set upstream; }
links() { swap_set links; }
device() { swap_set device; }

for name in taken ours g10 upstream links device; do
    section "$name" "$name"
done

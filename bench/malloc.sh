#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of docs/malloc.md: peak resident memory of programs over several allocators.
# Usage: bench/malloc.sh [FOLDER]; FOLDER has libdao_malloc.so (default: build/release/integrations).
# Needs python3; programs and allocators that are not installed are left out.
set -eu
cd "$(dirname "$0")/.."
. bench/document.sh
doc=docs/malloc.md
front=$(realpath "${1:-build/release/integrations}")/libdao_malloc.so
[ -e "$front" ] || { echo "bench/malloc.sh: build the preset release first" >&2; exit 2; }
tar cf "$work/data" allocators runtime planning tools tests docs

# A row a program: the median of runs in turns, and how much that is over glibc's.
table() {
    python3 - "$front" "$work/data" <<'TABLE'
import os, shutil, sys

front, data = sys.argv[1:]
allocators = [("glibc", ""), ("libdao_malloc", front), ("jemalloc", "libjemalloc.so.2"),
              ("mimalloc", "libmimalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4")]
buffers = ("let a = []; for (let i = 0; i < 20000; i++) {"
           " a.push(Buffer.alloc(100 + i * 7919 % 60000)); if (a.length > 500) a.shift(); }")
programs = [("node, nothing", ["node", "-e", "0"]), ("node, 500 buffers live", ["node", "-e", buffers]),
            ("xz -1", ["xz", "-1", "-c", "-T1", data]), ("zstd -5", ["zstd", "-5", "-q", "-c", "-T1", data])]
runs = 5

def peak(arguments, library):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if library:
            os.environ["LD_PRELOAD"] = library
        os.execvp(arguments[0], arguments)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"bench/malloc.sh: {arguments[0]} over {library} ended with {status}")
    return usage.ru_maxrss

def is_there(library):
    return library == "" or os.system(f"LD_PRELOAD={library} true 2>&1 | grep -q cannot") != 0

allocators = [row for row in allocators if is_there(row[1])]
print("| program, MiB |", " | ".join(name for name, _ in allocators), "|")
print("| --- |" + " ---: |" * len(allocators))
for name, arguments in programs:
    if shutil.which(arguments[0]) is None:
        continue
    peaks = [[] for _ in allocators]
    for _ in range(runs):
        for row, (_, library) in zip(peaks, allocators):
            row.append(peak(arguments, library))
    middle = [sorted(row)[runs // 2] for row in peaks]
    cells = [f"{kib / 1024:.1f} ({100 * (kib / middle[0] - 1):+.0f} %)" for kib in middle]
    print("|", name, "|", " | ".join(cells), "|")
TABLE
}

section resident table

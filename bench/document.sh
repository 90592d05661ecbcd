# SPDX-License-Identifier: Apache-2.0
# Read by scripts that put figures between the marks of a document, in the project's root: they set `doc`, and
# `build`, a release build. DAO_BENCH_DATA is the folder of recorded steps and instances (default:
# ../shared/data beside the project).
# shellcheck shell=sh disable=SC2154 # doc and build
: "${DAO_BENCH_DATA:=../shared/data}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# section NAME COMMAND: puts what the command prints between the marks of that name.
section() {
    "$2" >"$work/section"
    awk -v name="$1" -v file="$work/section" '
        $0 == "<!-- end: " name " -->" { inside = 0 }
        !inside { print }
        $0 == "<!-- begin: " name " -->" {
            inside = 1
            print ""
            while ((getline line < file) > 0) print line
            print ""
        }' "$doc" >"$work/doc"
    cp "$work/doc" "$doc"
}

# cached NAME: the value of a variable of the build.
cached() {
    sed -n "s/^$1:[^=]*=//p" "$build/CMakeCache.txt"
}

# compiler: what made the build, and with which options.
compiler() {
    kind=$(cached CMAKE_BUILD_TYPE | tr '[:lower:]' '[:upper:]')
    echo "$("$(cached CMAKE_C_COMPILER)" --version | head -1) $(cached "CMAKE_C_FLAGS_$kind")"
}

# taken: when and where.
taken() {
    processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1)
    echo "Taken on $(date -u +%Y-%m-%d) on one thread of an $processor" \
        "with $(nproc) processors, $(compiler); seconds are processor time."
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2086,SC2046 # lists of words
# The house rules that a compiler does not check. Prints each breach as FILE:LINE: RULE, and fails if there is one.
# Usage: test_house.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2

layers="include base planning backends allocators runtime tools"
max_lines=910
breaches=$(mktemp) || exit 2
trap 'rm -f "$breaches"' EXIT

# sources FOLDER...: the C files in those folders that exist.
sources() {
    for folder in "$@"; do
        [ ! -d "$folder" ] || find "$folder" -name '*.[ch]' -o -name '*.hpp' -o -name '*.cpp'
    done | sort
}

# code FILE: its lines as FILE:LINE: TEXT, with comments blanked out.
code() {
    awk -v file="$1" '
        {
            text = $0
            out = ""
            while (text != "") {
                if (inside) {
                    at = index(text, "*/")
                    if (at == 0) { text = ""; break }
                    text = substr(text, at + 2)
                    inside = 0
                    continue
                }
                at = match(text, /\/[*\/]/)
                if (at == 0) { out = out text; break }
                out = out substr(text, 1, at - 1)
                if (substr(text, at, 2) == "//") break
                text = substr(text, at + 2)
                inside = 1
            }
            if (out ~ /[^ \t]/) print file ":" FNR ": " out
        }' "$1"
}

# breach RULE: turns FILE:LINE: TEXT into a breach of that rule.
breach() {
    sed -E "s|^([^:]+:[0-9]+): *(.*)|\1: $1: \2|" >>"$breaches"
}

# What the system gives comes through base/, with its fault points; tests may go round it.
only_base_calls_the_system() {
    for file in $(sources include planning backends allocators runtime tools); do
        case $file in *.hpp) continue ;; esac # there free() is dao::free()
        code "$file" | grep -E '\b(pthread|PTHREAD)_[A-Za-z_]+|\b(clock_gettime|nanosleep)\b|(^|[^A-Za-z0-9_>.])(malloc|calloc|realloc|free)\(' |
            breach "only base/ calls this"
    done
}

# libdao is linked with libc alone: what -O2 makes instructions of is a call of libm without it.
libdao_needs_no_libm() {
    for file in $(sources include base planning backends allocators runtime); do
        code "$file" | grep -E '\b(ceil|floor|l*round|trunc|sqrt|cbrt|pow|exp2?|log2?|log10|fmod|fmin|fmax|ldexp)[fl]?\(' |
            breach "libdao is not linked with libm"
    done
}

# Functions whose first parameter is a place take one of any type in C: by dao/typed.h, or by a macro beside them.
places_have_any_type() {
    for file in include/dao/*.h; do
        tr '\n' ' ' <"$file" | grep -oE '\bdao_[a-z_]+\(dao_place_t place' | cut -d '(' -f 1 | while read -r function; do
            case $function in dao_place_from_place) continue ;; esac
            grep -qE "#define $function\(" include/dao/typed.h "$file" ||
                echo "$file:1: $function()" | breach "dao/typed.h lacks"
        done
    done
}

# The README shows examples/first.c as it is built.
readme_shows_the_first_program() {
    sed -n '/^```c$/,/^```$/p' README.md | sed '1s/.*/\/* SPDX-License-Identifier: Apache-2.0 *\//;$d' |
        cmp -s - examples/first.c ||
        echo "README.md:1: its first program is not examples/first.c" >>"$breaches"
}

# A vendor's header stays in its own folder.
vendor_headers_stay_at_home() {
    for file in $(sources $layers tests bench examples); do
        case $file in
        backends/cuda/* | backends/hip/* | tests/loopback/names/cuda.c | tests/loopback/names/hip.c | \
            tests/support/backends/capture_cuda.c | tests/support/backends/capture_hip.c | tests/support/backends/hold_cuda.c | \
            tests/support/backends/hold_hip.c | tests/backends/test_cuda_batch.c) ;;
        *)
            code "$file" | grep -E '# *include *[<"](cuda|hip/|nvml|nv[A-Z]|hsa|rocm)' |
                breach "a vendor's header outside its folder"
            ;;
        esac
    done
}

# rank FOLDER-OR-FILE: the layer's number, from the bottom.
rank() {
    case $1 in
    base/*) echo 0 ;;
    planning/* | backends/*) echo 1 ;; # beside each other: neither knows the other
    allocators/*) echo 2 ;;
    runtime/executor/*) echo 4 ;;
    runtime/*) echo 3 ;;
    tools/* | bench/*) echo 5 ;;
    *) echo 9 ;;
    esac
}

# An include points to the same layer or down, by its path from the root.
includes_point_down() {
    for file in $(sources base planning backends allocators runtime tools); do
        own=$(rank "$file")
        code "$file" | sed -n -E 's|^([^:]+:[0-9]+): *# *include *"([^"]+)".*|\1 \2|p' | while read -r at path; do
            if [ "$(rank "$path")" -gt "$own" ]; then
                echo "$at: $path" | breach "an include points up"
            fi
            case $file:$path in
            planning/*:backends/* | backends/*:planning/*) echo "$at: $path" | breach "planning and backends are apart" ;;
            esac
            case $own:$path in
            [234]:backends/backend.h) ;;
            [234]:backends/*) echo "$at: $path" | breach "backends are known by backend.h alone" ;;
            esac
        done
    done
    for file in $(sources include); do
        code "$file" | grep -E '# *include *"' | breach "public headers include <dao/...> alone"
    done
}

every_test_is_registered() {
    find tests -name 'test_*' -type f | while read -r file; do
        name=$(basename "${file%.*}")
        if ! grep -qw "$name" $(find tests -name CMakeLists.txt); then
            echo "$file:1: $name" | breach "in no CMakeLists.txt of tests/"
        fi
    done
}

no_file_is_long() {
    for file in $(sources $layers tests bench examples integrations) dev .ci/run; do
        [ -e "$file" ] || continue
        lines=$(wc -l <"$file")
        [ "$lines" -le "$max_lines" ] || echo "$file:$lines: $lines lines" | breach "over $max_lines lines"
    done
}

every_file_names_its_license() {
    git ls-files -- '*.[ch]' '*.hpp' '*.cpp' '*.cu' '*.sh' '*.py' '*.cmake' '*CMakeLists.txt' dev .ci/run |
        while read -r file; do
            head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
                echo "$file:1: no SPDX line" | breach "no license"
        done
}

everything_is_formatted() {
    for formatter in clang-format clang-format-14 none; do
        case $($formatter --version 2>/dev/null) in
        *" 14."*) break ;;
        esac
    done
    if [ "$formatter" = none ]; then
        echo "skipped: formatting (clang-format 14 is not installed)"
        return
    fi
    "$formatter" --dry-run $(sources $layers tests bench examples integrations) 2>&1 |
        sed -n -E 's|^([^:]+:[0-9]+):[0-9]+: warning: .*|\1: ./dev format mends it|p' | sort -u | breach "not formatted"
}

readme_shows_the_first_program
only_base_calls_the_system
libdao_needs_no_libm
places_have_any_type
vendor_headers_stay_at_home
includes_point_down
every_test_is_registered
no_file_is_long
every_file_names_its_license
everything_is_formatted

if [ -s "$breaches" ]; then
    cat "$breaches"
    echo "$(wc -l <"$breaches") breaches of the house rules"
    exit 1
fi
echo "the house rules hold"

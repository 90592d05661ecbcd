#!/bin/sh
# Takes the figures of docs/planning.md anew and puts them between its marks. Takes some ten minutes.
# Usage: bench/plan.sh [BUILD] ; BUILD is a release build (default: build/release). DAO_BENCH_DATA as in bench/document.sh.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
doc=docs/planning.md
. bench/document.sh

# rows FIELD...: those fields of the objects of a JSON array, a row of a table each.
rows() {
    awk -v fields="$*" -F'": *|":' 'BEGIN { count = split(fields, names, " ") }
        /^ *"/ {
            key = $1
            value = substr($0, index($0, "\":") + 2)
            gsub(/[ "]/, "", key)
            sub(/^ */, "", value)
            sub(/,$/, "", value)
            gsub(/"/, "", value)
            values[key] = value
        }
        /^ *}/ {
            line = "|"
            for (i = 1; i <= count; i++) line = line " " values[names[i]] " |"
            gsub(/ true /, " yes ", line)
            gsub(/ false /, " no ", line)
            gsub(/ null /, " - ", line)
            gsub(/  /, " ", line)
            print line
        }'
}

# figures: every figure with its limits.
figures() {
    echo "| figure | instance | buffers | peak | ratio | proved | CPU s | B a buffer | look ms | at most | over |"
    echo "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- | --- |"
    "$build/dao" bench plan --data "$DAO_BENCH_DATA" --json >"$work/json"
    rows figure instance buffers peak_bytes ratio proved cpu_s bytes_per_buffer look_ms at_most over <"$work/json"
}

# instances: a name and a file each, those that are here.
instances() {
    while read -r name file; do
        [ ! -r "$file" ] || echo "$name $file"
    done <<TEXT
mobilenet_v2 examples/traces/mobilenet_v2/mobilenet_v2.4.events.csv
gpt2_small $DAO_BENCH_DATA/torch-steps/gpt2_small/gpt2_small.1.events.csv
resnet50 $DAO_BENCH_DATA/torch-steps/resnet50/resnet50.8.events.csv
lstm $DAO_BENCH_DATA/torch-steps/lstm/lstm.8.events.csv
moe $DAO_BENCH_DATA/torch-steps/moe/moe.8.events.csv
A $DAO_BENCH_DATA/minimalloc/A.1048576.csv
H $DAO_BENCH_DATA/minimalloc/H.1048576.csv
TEXT
}

# ways: the ratio of every strategy and method on each of them.
ways() {
    instances >"$work/instances"
    line="| method |"
    rule="| --- |"
    while read -r name file; do
        "$build/dao" plan "$file" --method all --json >"$work/$name"
        rows method <"$work/$name" >"$work/methods"
        rows ratio <"$work/$name" | tr -d '|' >"$work/$name.ratios"
        line="$line $name |"
        rule="$rule ---: |"
    done <"$work/instances"
    echo "$line"
    echo "$rule"
    number=0
    while read -r method; do
        number=$((number + 1))
        while read -r name _; do
            method="$method$(sed -n "${number}p" "$work/$name.ratios")|"
        done <"$work/instances"
        echo "$method"
    done <"$work/methods"
}

section taken taken
section figures figures
section ways ways

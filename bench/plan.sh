#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Takes the figures of docs/planning.md and of docs/lifetimes.md anew and puts them between their marks. Takes
# some ten minutes, with `step_plan` two: that is those of docs/lifetimes.md alone.
# Usage: bench/plan.sh [BUILD [step_plans]] ; BUILD is a release build (default: build/release).
# DAO_BENCH_DATA as in bench/document.sh.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
. bench/document.sh

# rows FIELD...: those fields of the objects of a JSON array that have all of them, a row of a table each.
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
            for (i = 1; i <= count; i++) {
                if (!(names[i] in values)) line = ""
                if (line != "") line = line " " values[names[i]] " |"
            }
            split("", values)
            if (line == "") next
            gsub(/ true /, " yes ", line)
            gsub(/ false /, " no ", line)
            gsub(/ null /, " - ", line)
            gsub(/  /, " ", line)
            print line
        }'
}

# figures: every figure of the planner with its limits.
figures() {
    echo "| figure | instance | buffers | peak | ratio | proved | CPU s | B a buffer | look ms | at most" \
        "| over |"
    echo "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- | --- |"
    rows figure instance buffers peak_bytes ratio proved cpu_s bytes_per_buffer look_ms at_most over \
        <"$work/json"
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

# measure [FIGURE]: takes the figures, or that one alone.
measure() {
    "$build/dao-bench" plan --data "$DAO_BENCH_DATA" ${1:+--figure "$1"} --json >"$work/json"
}

# matrix HEAD: lines of a file, the first columns, a cell, blocks, overlaps and what is over a limit, with
# tabs between: a row for each of the first columns, which are headed so, and a column a file.
matrix() {
    awk -F'\t' -v head="$1" '{
            sub(/.*\//, "", $1)
            sub(/\..*/, "", $1)
            if (!($1 in is_model)) models[++model_count] = $1
            if (!($2 in is_key)) keys[++key_count] = $2
            is_model[$1] = is_key[$2] = 1
            cells[$1, $2] = $3
            blocks[$2] += $4
            overlaps[$2] += $5
            if ($6 != "") over[$2] = over[$2] (over[$2] != "" ? "; " : "") $1 ": " $6
        }
        END {
            rule = head
            gsub(/[^|]+/, " --- ", rule)
            for (m = 1; m <= model_count; m++) {
                head = head " | " models[m]
                rule = rule "| ---: "
            }
            print "| " head " | overlaps | over |"
            print "|" rule "| ---: | --- |"
            for (k = 1; k <= key_count; k++) {
                line = "| " keys[k] " |"
                for (m = 1; m <= model_count; m++) line = line " " cells[models[m], keys[k]] " |"
                print line " " overlaps[keys[k]] " of " blocks[keys[k]] " |" (keys[k] in over ? " " \
                    over[keys[k]] : "") " |"
            }
        }'
}

# served: recorded and equal steps.
served() {
    rows figure instance place steps_served served total_ratio blocks overlaps over <"$work/json" |
        awk -F' *[|] *' -v OFS='\t' '$2 == "served" {
            print $3, $4 " | " $5, sprintf("%.4f at %.4f", $6, $7), $8, $9, $10 }' |
        matrix "place | steps"
}

# deviating: steps that deviate.
deviating() {
    rows instance place reserved_ratio last_reserved_ratio served_mean cells blocks overlaps over \
        <"$work/json" |
        awk -F' *[|] *' -v OFS='\t' \
            '{ print $2, $3 " | " $7, sprintf("%.3f, %.3f, %.2f", $4, $5, $6), $8, $9, $10 }' |
        matrix "place | cells"
}

# shapes: steps of several shapes in random order.
shapes() {
    rows figure instance place steps_served served_mean served blocks overlaps over <"$work/json" |
        awk -F' *[|] *' -v OFS='\t' '$2 == "shapes" {
            print $3, $4 " | " $5, sprintf("%.4f, %.4f", $6, $7), $8, $9, $10 }' |
        matrix "place | steps"
}

doc=docs/lifetimes.md
if [ "${2:-all}" = step_plans ]; then
    measure served
    section served served
    measure deviating
    section deviating deviating
    measure shapes
    section shapes shapes
    exit
fi
measure
section served served
section deviating deviating
section shapes shapes
doc=docs/planning.md
section taken taken
section figures figures
section ways ways

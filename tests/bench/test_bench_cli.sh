#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The dao-bench command as a user meets it: exit codes, messages, fields of the JSON output.
# Usage: test_bench_cli.sh DAO_BENCH SOURCE_DIR
program=$1
source=$2
trace=$2/examples/traces/mobilenet_v2
. "$2/tests/support/cli.sh"

expect 0 "usage: dao-bench COMMAND"
expect 0 "usage: dao-bench COMMAND" --help
expect 0 "dao-bench 0." --version
expect 0 "usage: dao-bench plan" help plan
expect 2 '"now" is one argument too many' help plan now
expect 2 'unknown command "aloc"; did you mean "alloc"?' aloc

expect 2 '"some" is no set: there are ours, g10, upstream, links, recompute, again, device, all' \
    swap --set some
expect 1 "nothing was checked" swap --set ours --data "$folder" --check
expect 0 "step" swap --data "$folder"
awk '$1 == "ResNet50" && $2 == "50%" { # ours, and no other gets through with less
         found = 1
         for (i = 4; i <= 12; i++) if ($i != "-" && $i < $3) exit 1
     } END { if (!found) exit 1 }' "$folder/out" || fail "networks are made, and ours adds least"

# A step of eight layers whose activations do not fit, under a name that the set looks for: 64 MB each, made
# in 100 us, so that over 16 GB/s it is cheaper to make them again.
mkdir "$folder/swap-traces"
{
    echo "T 10"
    for i in 0 1 2 3 4 5 6 7 8; do echo "$i 64000000 $((i == 0)) -"; done
    echo "9 64000000 0 -"
    echo "K 16 8"
    for i in 1 2 3 4 5 6 7 8; do echo "100 2 $((i - 1)):1 $i:2"; done
    echo "100 2 8:1 9:2"
    for i in 7 6 5 4 3 2 1; do echo "100 2 $i:1 9:3"; done
} > "$folder/swap-traces/resnet101.tr"
expect 0 "0 of 6 cells are slower than swapping alone" swap --set recompute --data "$folder"
grep -q '^resnet101 *16 *50% ' "$folder/out" || fail "a row a link and capacity"
awk '$1 == "resnet101" && $2 == 16 && $3 == "50%" {
         found = 1
         if (!($6 < $4 && $7 <= $6 && $7 >= 1)) exit 1
     } END { if (!found) exit 1 }' "$folder/out" || fail "running again pays over 16 GB/s"
expect 0 '"over_bound_ratio":' swap --set recompute --data "$folder" --json
rm -r "$folder/swap-traces"
expect 2 'unknown command "free"' free
expect 2 "--trace: \"e1\" is no trace" alloc --trace e1
expect 2 "is no trace" alloc --trace torch:
expect 2 "--strategy: \"worst_fit\" is no strategy" alloc --strategy worst_fit
expect 2 "--figures: \"some\" is no kind: there are speed, memory, all" alloc --figures some
expect 2 '--rounds: "0" is no number from 1' alloc --rounds 0
expect 2 '--percent: "99" is no number from 100' alloc --percent 99
expect 2 "without --check" alloc --percent 120 --check
expect 2 "--percent is for speed: without --figures memory" alloc --percent 120 --figures memory
expect 0 "good_fit" alloc --trace a1 --figures speed --strategy good_fit --rounds 1 --percent 120
expect 2 "--seed: \"-1\" is no number" alloc --seed -1
expect 2 "--seeds: \"17\" is no number from 1 to 16" alloc --seeds 17
expect 2 "--threads: \"1\" is no number from 2" alloc --threads 1
expect 2 "--threads takes figures of its own" alloc --threads 2 --check
expect 0 '"threads_scaling"' alloc --trace a1 --strategy good_fit --threads 2 --json
expect 2 '--pairs: "0" is no number from 1' alloc --trace a1 --pairs 0
expect 2 "--pairs is for one --trace" alloc --pairs 100
expect 0 "100" alloc --trace a1 --pairs 100
[ "$(cat "$folder/out")" = 100 ] || fail "the pairs that were replayed"
expect 2 "--streams takes the time of one seed" alloc --trace a2 --streams 2 --seeds 2
expect 0 '"plain_ns"' alloc --trace a2 --streams 2 --strategy good_fit --rounds 1 --json
expect 2 "--cases are of good_fit and of no trace" alloc --cases --trace a2
expect 2 '--streams: "33" is no number' alloc --trace a2 --pairs 100 --streams 33
expect 0 "100" alloc --trace a2 --pairs 100 --streams 3
expect 1 "No such file" alloc --trace torch:none --torch-steps "$folder"
expect 0 "glibc" alloc --trace a1 --figures speed --strategy glibc --rounds 1
expect 0 '"good_fit"' alloc --trace a1 --figures speed --strategy good_fit --rounds 1 --json
for field in trace strategy ns_per_pair lock_ns p99_ns p999_ns p9999_ns max_ns footprint_ratio \
    capacity_ratio capacity_ratio_remap driver_calls metadata_packed_bytes metadata_bytes \
    remapped_pages; do
    has $field
done
grep -q '"capacity_ratio": *null' "$folder/out" || fail "capacity_ratio of a1"
[ "$(head -1 "$folder/out")" = "[" ] || fail "no array"

expect 0 "usage: dao-bench plan" plan --help
expect 2 \
    '"easy" is no figure: there are hard, open, capacity, recorded, public, synthetic, million, bins' \
    plan --figure easy
expect 2 '--seeds: "0" is no number from 1 to' plan --seeds 0
expect 2 '--seeds is for the figure "deviating"' plan --figure served --seeds 2
expect 2 '--data: "/nowhere" cannot be read' plan --data /nowhere
expect 2 '--budget: "0" is no number of seconds' plan --budget 0
expect 0 "usage: dao-bench gpu" gpu --help
expect 2 'unknown command "nonsense"' help nonsense
expect 2 '"nonsense" is one argument too many' alloc --json nonsense
expect 2 '--copy: "0" is no number from 1' gpu --copy 0
expect 2 '--device: "x" is no number from 0' gpu --device x
expect 1 "device:63" gpu --device 63
expect 0 '"reference":"a page is taken new"' gpu --copy 1 --json
rows="no limit 8 40 0 0 0 3 0 - - 2.5 yes\\n50 %% 4 50 1 1 18 20 9 1.08 1.10 2.5"
expect 0 '"ratio":1.2500' gpu --copy 1 --json --training "printf '$rows yes\\n'"
expect 0 "at 50 %, planned, / forecast" gpu --copy 1 --training "printf '$rows yes\\n'"
expect 1 "others in less memory" gpu --copy 1 --training "printf '$rows NO\\n'"
expect 1 "the training failed" gpu --copy 1 --training false
expect 1 "printed no row" gpu --copy 1 --training true
expect 0 '"instance":"cut:60:1"' plan --figure hard --data "$folder" --budget 0.01 --json
for field in figure method buffers peak_bytes bound_bytes ratio proved cpu_s bytes_per_buffer at_most; do
    has $field
done
expect 0 "0 figures, 0 over a limit" plan --figure open --data "$folder"
expect 0 'nothing was measured: no file of "open" is in' plan --figure open --data "$folder" --json
expect 1 'nothing was measured: no file of "open" is in' plan --figure open --data "$folder" --check
grep -q "2 left out" "$folder/out" || fail "what was left out is not counted"
# Where nothing stands in for the files.
(cd "$folder" && "$program" plan --figure recorded --data . --check >out 2>err)
[ $? -eq 1 ] || fail "recorded steps out of nothing"
grep -q 'nothing was measured: no file of "recorded"' "$folder/err" \
    || fail "no reason for recorded steps out of nothing"
mkdir -p "$folder/data/torch-steps"
ln -s "$trace" "$folder/data/torch-steps/mobilenet_v2"
expect 0 "served at least 0.995, total/bound 1.002, no overlaps" plan --figure served --data "$folder/data" \
    --check
grep -q "0 over a limit" "$folder/out" || fail "the example is not served"
grep -q "^served .* device:0  *equal 2\.\. " "$folder/out" || fail "no row of equal steps"
grep -q "16 left out" "$folder/out" || fail "four models should be left out"
expect 0 '"device:0"' plan --figure served --data "$folder/data" --json
for field in figure instance place steps_served served total_ratio blocks overlaps at_most over; do
    has $field
done
expect 0 '"device:0"' plan --figure deviating --data "$folder/data" --budget 0.000001 --seeds 2 --json
for field in cells cells_over reserved_ratio last_reserved_ratio served_mean blocks overlaps at_most over; do
    has $field
done
[ "$(number cells | sort -u)" = 1 ] || fail "more cells than there was time for"

finish

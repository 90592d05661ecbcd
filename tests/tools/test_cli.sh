#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The dao command as a user meets it: exit codes, messages, fields of the JSON output.
# Usage: test_cli.sh DAO SOURCE_DIR
program=$1
source=$2
trace=$2/examples/traces/mobilenet_v2
. "$2/tests/support/cli.sh"

expect 0 "usage: dao COMMAND"
expect 0 "usage: dao COMMAND" --help
expect 0 "usage: dao COMMAND" help
expect 0 "usage: dao COMMAND" help help
expect 0 "usage: dao COMMAND" help --help
expect 0 "dao 0." --version
expect 0 "usage: dao run TRACE" help run
expect 2 '"now" is one argument too many' help run now
expect 0 "usage: dao run TRACE" run --help
expect 0 "usage: dao info [FILE]" info -h

expect 2 'unknown command "rnu"; did you mean "run"?' rnu
expect 2 'unknown command "frobnicate"' frobnicate
expect 2 'unknown command "bench"' bench
expect 2 'unknown option "--frob"' --frob
expect 2 'unknown command "nope"' help nope
expect 2 "TRACE is missing" run
expect 2 "one argument too many" run a b
expect 2 'did you mean "--capacity"?' run "$trace" --capacty 50%
expect 2 'did you mean "--policy"?' run "$trace" --polcy=lru
expect 2 'unknown option "-x"' run "$trace" -x
expect 2 'did you mean "-o"?' plan "$trace" --o plan.csv
expect 2 'unknown option "--=3"' run "$trace" --=3
expect 2 '"--capacity" needs a value' run "$trace" --capacity
expect 2 '"--json" takes no value' run "$trace" --json=yes
expect 2 '"--json" is given twice' run "$trace" --json --json
expect 2 "such as 50% or 180MiB" run "$trace" --capacity 0.5
expect 2 "no percentage" run "$trace" --capacity 0%
expect 2 "--capacity:" run "$trace" --capacity lots
expect 2 '"best" is no policy' run "$trace" --policy best
expect 2 '"user" is no policy: there are belady, lru, weighted_lru' run "$trace" --policy user
expect 2 "--link-in:" run "$trace" --link-in fast
expect 2 "--time-scale:" run "$trace" --time-scale -1
for scale in nan inf 1e3 0x1p3 " 1" +1 1001 . 1.2.3; do
    expect 2 "--time-scale: \"$scale\" is no number from 0 to 1000" run "$trace" --time-scale "$scale"
done
expect 2 "--link-in: 0 is nothing" run "$trace" --link-in 0
expect 2 "--link-out: 0 is nothing" run "$trace" --link-out 0GB/s
expect 2 "--host: 0 is nothing" run "$trace" --host 0
expect 2 "does not fit 64 bits" run "$trace" --link-in 99999999TiB/s
for capacity in -5 1e9 lots 64mibs 0x10 . "50 %" % 50%% " 50%" 50.%; do
    expect 2 "such as 50% or 180MiB" run "$trace" --capacity "$capacity"
done
expect 2 'no scheme: there are online, learn, hybrid, recompute, plan, described' run "$trace" --scheme best
expect 2 "are not for a planned step" run "$trace" --scheme plan --policy lru
expect 2 "--streams is not for --scheme hybrid, as operators" run "$trace" --scheme hybrid --streams
expect 2 "--streams is for schemes of the executor and plans of copies, not for --scheme recompute" \
    simulate "$trace" --scheme recompute --streams
expect 2 "--explain is for kernels one behind the other" simulate "$trace" --streams --explain
expect 2 "an argument is empty" run ""
expect 2 "an argument is empty" info ""
expect 2 '"twice" is no mode' run "$trace" --mode twice
expect 2 "--host:" run "$trace" --host much
expect 2 "need --file" run "$trace" --host 1GiB --file-in 1GB/s
expect 2 "--file needs --host" run "$trace" --file "$folder"
expect 2 '--file-engine: "aio" is no engine' run "$trace" --host 1GiB --file "$folder" --file-engine aio
expect 2 "--file-limit: 0 is nothing" run "$trace" --host 1GiB --file "$folder" --file-limit 0

# What is wrong with a step behind its last line is said with the name of the file, too.
printf 'dao-step 1\ntensor w 18446744073709551615\ntensor x 9\nop f 1 <w <x\nend\n' >"$folder/huge.dao"
expect 1 'huge.dao: tensor w' info "$folder/huge.dao"
expect 1 'huge.dao: "w" has more than' fit "$folder/huge.dao" --memory 1GiB
expect 1 'huge.dao: "w" has more than' convert "$folder/huge.dao" -o "$folder/huge.csv"
expect 1 'huge.dao: "w" has more than' report "$folder/huge.dao" -o "$folder/huge.html"

# Output that cannot be written is a failure with a reason, whatever is printed.
for arguments in --help --version "help run" "run --help" info "info --json" "info $trace" \
    "info $trace --json"; do
    # shellcheck disable=SC2086
    "$program" $arguments >/dev/full 2>"$folder/err"
    got=$?
    [ $got -eq 1 ] || fail "dao $arguments >/dev/full: exit code $got"
    grep -q "could not be written: No space left" "$folder/err" || fail "dao $arguments >/dev/full: no reason"
    # shellcheck disable=SC2086
    "$program" $arguments >&- 2>"$folder/err"
    got=$?
    [ $got -eq 1 ] || fail "dao $arguments >&-: exit code $got"
    grep -q "could not be written" "$folder/err" || fail "dao $arguments >&-: no message"
done

# So is a page, most of which is refused long before its end.
expect 1 "could not be written: No space left" report "$trace/mobilenet_v2.4.events.csv" -o /dev/full

# Tables and sentences fit 80 columns where there is no terminal, and say all that they have to.
cat >"$folder/names.dao" <<'END'
dao-step 1
tensor w1 4096000
tensor a 3000000
op one 100 module=encoder.0.mlp.linear_projection_of_all_that_there_is <w1 >a
tensor w2 4096000
tensor b 3000000
op aten::_scaled_dot_product_flash_attention 200 module=encoder.0.self_attention <w2 <a >b -a
tensor c 3000000
op three 50 <b *w1 >c -b -c
end
END
narrow() {
    expect "$@"
    wide=$(awk 'length > 80' "$folder/out")
    [ -z "$wide" ] || fail "dao $*: wider than 80 columns: $wide"
}
narrow 0 "ratio" simulate "$folder/names.dao" --scheme all --capacity 80%
narrow 0 "in encoder.0.self_attention" simulate "$folder/names.dao" --explain --capacity 80%
narrow 3 "With swapping it fits" fit "$folder/names.dao" --memory 12MB
narrow 0 "policies: " plan "$folder/names.dao" --method bins
narrow 0 "bins" plan "$folder/names.dao" --method all
narrow 0 "written" report "$folder/names.dao" -o "$folder/names.html"
# What is read is not written over, under another name either.
ln "$folder/names.dao" "$folder/same.dao"
cp "$folder/names.dao" "$folder/before.dao"
for output in names same; do
    for command in "report -o" "report --flame" "convert -o" "plan -o" "plan --svg" \
        "simulate --scheme plan --capacity 80% --trace" "run --capacity 80% --trace"; do
        # shellcheck disable=SC2086
        expect 2 "is the file that is read: write another one" $command "$folder/$output.dao" \
            "$folder/names.dao"
    done
done
cmp "$folder/names.dao" "$folder/before.dao" || fail "a file that is read was written over"
narrow 0 "ratio" run "$folder/names.dao" --capacity 80%
narrow 0 "step" replay "$trace/mobilenet_v2.4.events.csv"

# Does it fit?
expect 0 "It fits: it needs 13.5 MiB if its memory is planned (13.5 MiB live" \
    fit "$folder/names.dao" --memory 8GiB --reserve 600MiB
expect 3 "It does not fit: it needs 13.5 MiB" fit "$folder/names.dao" --memory 13MB
expect 3 "With swapping it fits, within " fit "$folder/names.dao" --memory 12MB --link 25GB/s --json
has sentence
has slow_down
# With pages, as dao simulate takes them: a step that takes twice as long at static addresses.
awk 'BEGIN {
    split("30 6 22 10 6 10", weight); split("30 14 34 14 46 34", output)
    print "dao-step 1"
    for (i = 1; i <= 6; i++) {
        printf "tensor w%d %d tag=parameter\ntensor a%d %d\n", i, weight[i] * 2 ^ 20, i, output[i] * 2 ^ 20
    }
    for (i = 1; i <= 6; i++) printf "op f%d 500 <w%d %s >a%d\n", i, i, (i > 1 ? "<a" (i - 1) : ""), i
    print "backward"
    for (i = 6; i >= 1; i--) printf "op b%d 500 *w%d <a%d -a%d\n", i, i, i, i
    print "end"
}' >"$folder/pages.dao"
expect 3 "With swapping it fits" fit "$folder/pages.dao" --memory 90MiB --link 10GB/s --json
fit_s=$(number step_s)
expect 0 '"plan"' simulate "$folder/pages.dao" --scheme plan --capacity 90MiB --link-in 10GB/s --json
[ "$(number step_s)" = "$fit_s" ] || fail "dao fit says $fit_s s"
expect 4 "It does not fit with swapping" fit "$folder/names.dao" --memory 1MiB
cat >"$folder/pure.dao" <<'END'
dao-step 1
tensor a 8388608
tensor b 8388608
tensor c 8388608
op f 100 pure >a
op g 100 pure <a >b
op h 100 pure <b >c -b
op i 100 <c <a -c -a
end
END
expect 3 "With recomputing as well a step then takes 25.0 % longer (no plan" \
    fit "$folder/pure.dao" --memory 17MiB --link 1GB/s --json
has again_slow_down
# The step with operators that run again is a file that all commands read, and takes what its plan says.
again="--recompute --capacity 17MiB --link 1GB/s"
# shellcheck disable=SC2086 # words
expect 0 "kernels run again    1" plan "$folder/pure.dao" $again -o "$folder/longer.dao"
# shellcheck disable=SC2086 # words
expect 0 "op f 100 pure >a@2" plan "$folder/pure.dao" $again -o -
expect 0 "0.500      0.500  1.000      0.0      0.0" \
    simulate "$folder/longer.dao" --scheme plan --capacity 17MiB --link-in 1GB/s
# A gradient that an operator drops, and no kernel uses, is released where it was.
cat >"$folder/drops.dao" <<'END'
dao-step 1
tensor w 1048576 tag=parameter
tensor old 1048576 tag=gradient
tensor a 1048576
tensor g 1048576 tag=gradient
op f 100 pure <w >a -old
op b 100 pure <a >g -a
op s 100 *w <g
end
END
expect 0 "used of it" plan "$folder/drops.dao" --recompute --capacity 4MiB -o "$folder/dropped.dao"
expect 0 "peak                 3145728 " info "$folder/dropped.dao"
expect 2 "--recompute needs --capacity" plan "$folder/pure.dao" --recompute
expect 2 "--link is for --recompute" plan "$folder/pure.dao" --link 1GB/s
# shellcheck disable=SC2086 # words
expect 2 "--svg is not for --recompute" plan "$folder/pure.dao" $again --svg "$folder/x.svg"
expect 1 "No such file" plan "$folder/none.dao" --recompute --capacity 17MiB
expect 0 "PyTorch reserves" fit "$folder/names.dao" --device h200
expect 2 "--memory SIZE or --device DEVICE is missing" fit "$trace"
expect 2 "--reserve leaves nothing" fit "$trace" --memory 1GiB --reserve 1GiB
expect 2 '"h300" is no device: there are' fit "$trace" --device h300
printf 'id,lower,upper,size\na,0,3,4096\nb,1,2,8192\n' >"$folder/x.csv"
expect 4 "so whether it fits with swapping is not known" fit "$folder/x.csv" --memory 8KiB
expect 0 "It fits: it needs 12.0 KiB if its memory is planned (12.0 KiB live" \
    fit "$folder/x.csv" --memory 4MiB
for option in "--link 1GB/s" "--host 1GiB" "--slow-down 1.2"; do
    # shellcheck disable=SC2086 # words
    expect 1 "x.csv: ${option%% *} is for a step: this does not tell which" fit "$folder/x.csv" \
        --memory 8KiB $option
done
# Blocks without a history are held as they were held.
cat >"$folder/blocks.json" <<'END'
{"segments": [{"address": 4096, "total_size": 62914560, "blocks": [{"size": 512, "state": "active_allocated"},
{"size": 62914048, "state": "inactive"}]}], "device_traces": []}
END
expect 0 "PyTorch reserves     62914560" fit "$folder/blocks.json" --memory 8GiB

expect 2 "FILE or --generate is missing" plan
expect 2 "FILE or --generate, one of them" plan "$folder/x.csv" --generate tf:100
expect 2 "one argument too many" plan a b
expect 2 '--method: "worst" is no method' plan --generate tf:100 --method worst
expect 2 '--generate: "xy:100" is not KIND:COUNT' plan --generate xy:100
expect 2 "-o and --svg are one file" plan --generate tf:100 -o a --svg a
for out in -o --svg; do
    expect 2 "only one of -o -, --svg - and --json can go" plan --generate tf:100 "$out" - --json
done
expect 2 "--batch is for a FILE" plan --generate tf:100 --batch 4
expect 2 'did you mean "--budget"?' plan --generate tf:100 --budgte 1
expect 2 'option "-o" needs a value: -o PLAN' plan --generate tf:100 -o
expect 2 'option "-o" is given twice' plan --generate tf:100 -o a -o b
expect 2 'unknown option "--o"' plan --generate tf:100 --o a
for budget in 0 -1 1e3 nan 1000001 . " 1"; do
    expect 2 "--budget: \"$budget\" is no number of seconds" plan --generate tf:100 --budget "$budget"
done
for work in 0 -1 1.5 1e3 99999999999999999999 x; do
    expect 2 "--work: \"$work\" is no number of steps" plan --generate tf:100 --work "$work"
done
expect 2 "--capacity:" plan --generate tf:100 --capacity lots
expect 2 '--capacity: 0 is nothing' plan --generate tf:100 --capacity 0
expect 2 '--align: "48" is no power of two' plan --generate tf:100 --align 48
expect 2 "--align: \"8GiB\" is not from 1 to" plan --generate tf:100 --align 8GiB
expect 1 "/nowhere: No such file" plan /nowhere
# A file that cannot be written is told before the work.
for output in -o --svg; do
    expect 1 "/nowhere/plan: No such file" plan --generate tf:100 $output /nowhere/plan
    [ ! -s "$folder/out" ] || fail "what is planned for $output /nowhere/plan"
done
expect 1 "$folder: Is a directory" plan --generate tf:100 -o "$folder"
expect 1 "$folder/names/plan: Not a directory" plan --generate tf:100 -o "$folder/names/plan"
expect 1 "/nowhere/x: No such file" run "$trace" --trace /nowhere/x
expect 1 "there is no plan to write" plan --generate tf:100 --method oracle -o "$folder/plan"
printf 'id,lower,upper,size\na,0,3,4\nb,3,2,4\n' >"$folder/x.csv"
expect 1 "x.csv:3:5: the life ends before it begins" plan "$folder/x.csv"
printf 'id,lower,upper,size,alignment,offset\na,0,3,4,8,4\n' >"$folder/x.csv"
expect 1 "x.csv: buffer 0 is fixed at 4, no multiple of its alignment 8" plan "$folder/x.csv"
printf 'id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,1,4,2\n' >"$folder/x.csv"
expect 0 "3 buffers, bound 6 bytes" plan "$folder/x.csv" --verify -o "$folder/plan.csv" --svg \
    "$folder/plan.svg"
[ "$(head -1 "$folder/plan.csv")" = "id,lower,upper,size,offset" ] || fail "the plan's first line"
[ "$(wc -l <"$folder/plan.csv")" -eq 4 ] || fail "the plan's lines"
grep -q "</svg>" "$folder/plan.svg" || fail "no picture"
expect 0 '"ratio":1.00000' plan "$folder/plan.csv" --verify --method start_first_fit --json
expect 0 "bound 10 bytes" plan "$folder/x.csv" --closed
expect 0 "bound 66 bytes" plan "$folder/x.csv" --align 64
for period in 0 1.5 4611686018427387905; do
    expect 2 "--period: \"$period\" is no time from 1 to 4611686018427387904" plan "$folder/x.csv" --period \
        "$period"
done
expect 0 "bound 6 bytes" plan "$folder/x.csv" --period 4611686018427387904
expect 2 '--margin: "0" is no time from 1 to 18446744073709551615' plan "$folder/x.csv" --margin 0
printf 'id,lower,upper,size\na,0,2,4\nb,2,4,4\nc,3,5,2\n' >"$folder/y.csv"
expect 0 "bound 6 bytes" plan "$folder/y.csv"
expect 0 "bound 10 bytes" plan "$folder/y.csv" --margin 2 --verify
expect 0 "bound 8 bytes" plan "$folder/y.csv" --margin 1 --verify --method all
expect 1 "with a period of 3" plan "$folder/y.csv" --period 3
expect 0 "bound 6 bytes" plan "$folder/y.csv" --period 4 --verify --method all
expect 0 "6 bytes: everything fits" plan "$folder/x.csv" --capacity 6
expect 0 "5 bytes: it cannot fit" plan "$folder/x.csv" --capacity 5
expect 0 "1 do not fit" plan "$folder/x.csv" --capacity 5
printf 'id,lower,upper,size,pool\na,0,3,4,1\nb,3,9,4,\nc,1,4,2,0\n' >"$folder/z.csv"
expect 0 "3 buffers, bound 6 bytes, 2 pools" plan "$folder/z.csv" --verify --method all
expect 0 "pools: 2 4 0" plan "$folder/z.csv" --pools 3,4,none --verify --method size_first_fit -o \
    "$folder/plan.csv" \
    --svg "$folder/plan.svg"
[ "$(head -1 "$folder/plan.csv")" = "id,lower,upper,size,pool,offset" ] \
    || fail "the first line of a plan with pools"
expect 0 '"pool_peak_bytes"' plan "$folder/plan.csv" --verify --json
expect 0 "1 do not fit (2 bytes)  pools: 0 4" plan "$folder/z.csv" --pools 1,4 --verify
expect 1 "plan.csv: buffer 0 is fixed up to 4, its pool holds 3" plan "$folder/plan.csv" --pools 3,3
expect 1 "z.csv: buffer 0 is for pool 1, there are 1" plan "$folder/z.csv" --capacity 8
expect 2 "--capacity or --pools, one of them" plan "$folder/z.csv" --capacity 8 --pools 8
expect 2 '--pools: ""' plan "$folder/z.csv" --pools 8,
expect 2 '--pools: "0" is not from 1 to' plan "$folder/z.csv" --pools 0
expect 2 "is no number of bytes" plan "$folder/z.csv" --pools \
    0000000000000000000000000000000000000000000000000001
expect 2 "--pools: there can be 64" plan "$folder/z.csv" --pools "$(printf '1,%.0s' $(seq 64))1"
expect 0 '"proved":true' plan "$trace/mobilenet_v2.4.events.csv" --json --work 1000000
for field in method buffers peak_bytes bound_bytes ratio proved cpu_s bytes_per_buffer; do
    has $field
done
expect 0 '"peak_bytes":320085204' plan "$trace/mobilenet_v2.4.events.csv" --json --method oracle
expect 0 "362281164" plan "$trace" --method oracle
expect 0 "baseline_python" plan --generate rnd:500 --method all --budget 0.05 --verify

expect 1 "No such file" run /nowhere
expect 1 "No such file" info "$folder/nothing"
mkdir "$folder/odd"
for file in "$trace"/*.json; do
    cp "$file" "$folder/odd/$(printf 'm\033[31m\nn')${file#*mobilenet_v2/mobilenet_v2}"
done
expect 0 "m?[31m?n" info "$folder/odd"
odd=$(printf '%s/l\033[31m\377' "$folder")
printf 'id,lower,upper,size\na,1,5,10\n' >"$odd"
expect 0 "l?[31m?: 1 buffers" plan "$odd"
expect 0 "l?[31m?" report "$odd" -o "$folder/odd.html"
{
    echo Kind,Operation,Agent_Id,Allocation_Size,Address
    printf ',MEMORY_ALLOCATION_ALLOCATE,A\033[31m\377,8,0x1\n'
} >"$odd"
expect 0 "A?[31m?" info "$odd"
echo '[' >"$folder/x.io_info.json"
echo '{}' >"$folder/x.1.tensor_size.json"
expect 1 "x.io_info.json:2:1: the file ends here" info "$folder"
expect 1 "is no batch" info "$folder" --batch a/b
expect 1 "has no batches" info "${trace%/*}/gpt6.7b.tr" --batch 4
expect 2 "--batch is for a FILE" info --batch 4
expect 2 "--device is for a FILE" info --device 0
for command in "info" "plan" "convert -o $folder/chosen.csv" "fit --memory 8GiB"; do
    choose=--device
    [ "$command" != "fit --memory 8GiB" ] || choose=--of
    # shellcheck disable=SC2086 # words of a command
    expect 1 "has no devices to choose from" $command "$trace" $choose 0
    # shellcheck disable=SC2086
    expect 1 "has no batches to choose from" $command "$folder/x.csv" --batch 4
done
expect 1 "has no devices to choose from" report "$trace" -o "$folder/chosen.html" --of 0

# Every command takes a folder, and refuses one without a step in the same words; and a pipe by its name.
mkdir "$folder/no_step" "$folder/chain"
awk -v name="$folder/chain/chain" 'BEGIN {
    for (i = 0; i < 16; i++) {
        kept = i < 8 ? i + 1 : 16 - i
        reads = i == 0 ? 0 : i < 8 ? "0," i : kept
        line = "{\"op\":\"" i "th:f\",\"id\":" i ",\"inputs\":[" reads "],\"outputs\":[" (i < 8 ? kept : "")
        line = line "],\"mutates\":[" (i < 8 ? "" : 0) "],\"temporary\":[],\"release\":["
        io = io (i > 0 ? "," : "") line (i < 8 ? "" : kept) "]}"
        cost = cost (i > 0 ? "," : "") "\"" i "\":0.5"
        resize = resize (i > 0 ? "," : "") "[]"
        if (i < 9) size = size (i > 0 ? "," : "") "\"" i "\":8192"
    }
    print "[" io "]" >(name ".io_info.json")
    print "{" size "}" >(name ".1.tensor_size.json")
    print "{" cost "}" >(name ".1.cost_info.json")
    print "[" resize "]" >(name ".1.resize_info.json")
}'
cp "${trace%/*}/gpt6.7b.tr" "$folder/no_step"
mkfifo "$folder/pipe"
for command in info plan replay "fit --memory 8GiB" simulate run "report -o $folder/of.html" \
    "convert -o $folder/of.csv"; do
    # shellcheck disable=SC2086 # words of a command
    expect 1 "no_step: this folder is no step in four JSON files" $command "$folder/no_step"
    # shellcheck disable=SC2086
    expect 1 "pipe: this is not a regular file; - reads standard input" $command "$folder/pipe"
    # shellcheck disable=SC2086
    expect 0 "" $command "$folder/chain"
done
expect 1 "x.tr: No such file" info "$folder/x.tr"
expect 0 "gpt6.7b" info "${trace%/*}/gpt6.7b.tr"

# Other tools' files, known by what is in them; "-" is standard input.
cat >"$folder/rmm" <<EOF
Thread,Time,Action,Pointer,Size,Stream
1,12:00:00.000001,allocate,0x7f00,256,0x0
1,12:00:00.000002,allocate,0x8000,128,0x0
1,12:00:00.000003,free,0x7f00,256,0x0
EOF
expect 0 "a log of RMM" info "$folder/rmm"
expect 0 "384" info "$folder/rmm" --json
narrow 0 "2 in the window, 1 of those never freed" plan "$folder/rmm"
expect 1 "no device 7; there are: 0" plan "$folder/rmm" --device 7
expect 1 "not which operator reads and writes what" simulate "$folder/rmm"
expect 0 "one that repeats" replay "$folder/rmm"
printf 'Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:0,allocate failure,(nil),8,0\n' >"$folder/refused"
expect 1 "there is no allocation or free in it to replay" replay "$folder/refused"
narrow 0 "not for" info "$folder/rmm"
expect 0 "one that repeats" replay "$trace"
printf 'id,lower,upper,size\na,0,2,4096\nb,1,3,8192\nc,2,4,4096\n' >"$folder/lives.csv"
expect 0 '"hits":3' replay "$folder/lives.csv" --json --record 1 --serve 2..
printf 'id,lower,upper,size\na,0:0,1:0,4096\nb,1:0,2:0,8192\n' >"$folder/clocks.csv"
expect 1 "lives by several clocks have no order" replay "$folder/clocks.csv"
gzip -c "$folder/lives.csv" | gzip -c >"$folder/twice"
expect 1 "packed twice; unpack it once" info "$folder/twice"
expect_input() {
    input=$1
    shift
    expect "$@" <"$input"
}
expect_input "$folder/rmm" 0 "a log of RMM" info -
expect_input "${trace%/*}/gpt6.7b.tr" 0 "operators" info -
gzip -c "$folder/rmm" >"$folder/rmm.packed"
expect_input "$folder/rmm.packed" 0 "2 in the window" plan -

# A step in virtual time: the same arguments print the same.
forth_and_back() {
    awk -v count="$1" 'BEGIN {
        print "T", count + 1; print "0 1000000 1 w"
        for (i = 1; i <= count; i++) print i, 1000000, 0, "a" i
        print "K", 2 * count, count; print "20 2 0:3 1:2"
        for (i = 2; i <= count; i++) print 20, 2, i - 1 ":1", i ":2"
        for (i = count; i >= 1; i--) print 20, 2, i ":1", "0:3"
    }'
}
small_step=$folder/forth_and_back.tr
forth_and_back 40 >"$small_step"
smallest_step=$folder/short.tr # each scheme runs it with many capacities
forth_and_back 8 >"$smallest_step"
updating_step=$folder/updating.tr
awk 'BEGIN {
    print "T 40"
    for (i = 0; i < 20; i++) print i, 1000000, 1, "w" i
    for (i = 0; i < 20; i++) print 20 + i, 1000000, 0, "a" i
    print "K 40 20"
    for (i = 0; i < 20; i++) print 20, 2, i ":1", 20 + i ":2"
    for (i = 19; i >= 0; i--) print 20, 2, 20 + i ":1", i ":3"
}' >"$updating_step"
gpt=${trace%/*}/gpt6.7b.tr
expect 2 '"best" is no scheme: there are plan' simulate "$gpt" --scheme best
expect 2 "--link-in: 0 is nothing" simulate "$gpt" --link-in 0
expect 2 "--host: 0 is nothing" simulate "$gpt" --host 0 --file-in 5GB/s
expect 2 "--latency:" simulate "$gpt" --latency long
expect 2 '--steps: "0" is no number from 1' simulate "$gpt" --steps 0
expect 2 '--window: "few" is no number from 1' simulate "$gpt" --window few
expect 2 "--ahead:" simulate "$gpt" --ahead soon
expect 2 "--threshold and --all-maps are for feature maps" simulate "$gpt" --all-maps
expect 2 "not for --scheme lru" simulate "$gpt" --scheme lru --threshold 3
expect 2 "--steps is not for --scheme async" simulate "$gpt" --scheme async --steps 3
expect 2 "--window and --ahead are for schemes of the executor" simulate "$gpt" --scheme plan --window 5
expect 2 "not for --scheme sync" simulate "$gpt" --scheme sync --ahead 30ms
expect 2 "--ahead: 0 is nothing" simulate "$gpt" --ahead 0
expect 2 "need --host" simulate "$gpt" --file-in 5GB/s
expect 2 "--file-out needs --file-in" simulate "$gpt" --host 1GB --file-out 5GB/s
expect 2 '--slow-down: "0.5" is no factor' simulate "$gpt" --slow-down 0.5
expect 2 "is no range of capacities" simulate "$gpt" --sweep 20%..90%
expect 2 "is no range of capacities" simulate "$gpt" --sweep 90..20
expect 2 "is no range of capacities" simulate "$gpt" --sweep 2GiB..8GiB
expect 2 "is no range of capacities" simulate "$gpt" --sweep 8GiB
expect 2 "is no range of capacities" simulate "$gpt" --sweep 8GiB..0GiB
expect 2 "--capacity is what --sweep" simulate "$gpt" --sweep 90%..80% --capacity 50%
expect 2 "both choose the capacity" simulate "$gpt" --sweep 90%..80% --slow-down 2
expect 1 "give at least --capacity " simulate "$small_step" --capacity 1MB
expect 1 "more than the capacity of 1; give at least --capacity " simulate "$small_step" --capacity 1
printf 'dao-step 1\ntensor a 2199023255552\nop f 10 >a\nend\n' >"$folder/huge.dao"
expect 1 "huge.dao: a device of 2.0 TiB cannot be simulated" simulate "$folder/huge.dao" --capacity 100%
expect 1 "huge.dao: the buffers take more than" convert "$folder/huge.dao" -o "$folder/huge.pickle"
expect 4 "The largest kernel uses 2.0 TiB: with less than 2.0 TiB nothing helps." \
    fit "$folder/huge.dao" --memory 8GiB --json
expect 1 "to copy in and out what each kernel uses" simulate "$gpt" --link-in 1B/s
expect 0 "script-async" simulate "$small_step" --scheme all --host 1KB
expect 1 'kernel "38th:clone" (number 38)' simulate "$trace" --scheme lru --host 1KB
expect 1 "leave --host out" simulate "$small_step" --scheme async --host 1GB
expect 0 "faster file by" simulate "$small_step" --scheme plan --explain --host 1KB --file-in 1GB/s
expect 0 '"buy":' simulate "$small_step" --scheme plan --explain --host 1KB --file-in 1GB/s --json
has stalls
has window_filled_by
has faster_file_gain_s
expect 0 '"online"' simulate "$small_step" --json
[ "$(head -1 "$folder/out")" = "[" ] || fail "no array"
for field in scheme fraction capacity_bytes smallest_capacity_bytes step_s bound_s ratio compute_s bytes_in \
    bytes_out \
    plan_s; do
    has $field
done
cp "$folder/out" "$folder/first"
expect 0 '"online"' simulate "$small_step" --json
cmp -s "$folder/first" "$folder/out" || fail "two simulations differ"
expect 0 "90.0%" simulate "$small_step" --sweep 90%..20% --half-duplex --latency 1us --link-out 10GB/s
expect 0 "below the smallest capacity" simulate "$small_step" --sweep 100MB..1MB
[ "$(grep -c '^online' "$folder/out")" -eq 9 ] || fail "a sweep of sizes has nine rows"
# What a plan of less memory does, one of more does as well: no row is slower than one below it.
cat >"$folder/growing.dao" <<'STEP'
dao-step 1
model m
tensor w0 129017 tag=parameter
tensor w1 121320 tag=parameter
tensor w2 289580 tag=parameter
tensor w3 134133 tag=parameter
tensor t0 3987
op k0 1.000 <w3 *w2 >t0 -t0
op k1 0.000 <w2 <w3 +t:44036 -t
tensor t1 243363
op k2 10.000 >t1
tensor t2 288234
op k3 100.000 >t2
tensor t3 282929
op k0 10.000 >t3
op k1 307.709 <w0 *t1 <t2
backward
tensor t4 386570
op k2 1000.000 <w2 *t1 <w1 >t4 +t:173099 -t -t3
op k3 571.081 *w3 <t4
op k0 0.000 pure <t2 <t1
tensor t5 253848
op k1 1000.000 pure <t2 >t5
op end 1 -t1 -t2 -t4 -t5
end
STEP
for scheme in plan hybrid; do
    expect 0 '"step_s"' simulate "$folder/growing.dao" --scheme $scheme --sweep 2002KiB..1187KiB --json \
        --link-in 1GB/s --latency 1us --half-duplex
    number step_s >"$folder/steps"
    [ "$(wc -l <"$folder/steps")" -eq 9 ] || fail "a sweep of $scheme has nine steps"
    sort -g "$folder/steps" | cmp -s "$folder/steps" || fail "$scheme: more memory is slower"
done
expect 0 compute_s simulate "$small_step" --capacity 100% --json
kernels=$(number compute_s)
expect 0 compute_s simulate "$small_step" --capacity 100% --json --time-scale 2
[ "$(number compute_s)" = "$(echo "$kernels" | awk '{ printf "%.9f", 2 * $1 }')" ] || fail "--time-scale 2"
expect 0 "buy" simulate "$small_step" --explain --steps 1 --window 1
for scheme in hybrid dtr online; do
    expect 0 compute_s simulate "$small_step" --json --scheme $scheme
    again="$(number again_count) $(number again_s)"
    case $scheme:$again in
    online:" " | hybrid:[0-9]*" "[0-9]* | dtr:[1-9]*" "[0-9]*) ;;
    *) fail "$scheme runs again: $again" ;;
    esac
done
expect 0 "the scheme itself loses 1.9% against the bound" simulate "$small_step" --explain --steps 1
expect 0 "the step is 21.9% below the bound, which is that of steps in a row" simulate "$updating_step" \
    --explain \
    --steps 1 --capacity 60% --link-in 100GB/s --link-out 10GB/s --latency 0
for flag in --static --pages; do
    expect 2 "are for schemes that plan, not for --scheme online" simulate "$small_step" $flag
    expect 2 "are for schemes that plan, not for --scheme lru" simulate "$small_step" $flag --scheme lru
    expect 2 "are for schemes that plan, not for --scheme online" run "$small_step" $flag
    expect 0 "hybrid" simulate "$small_step" $flag --scheme hybrid
    expect 0 "capuchin" simulate "$small_step" $flag --scheme capuchin
    expect 0 "described" simulate "$small_step" $flag --scheme described
done
# Nothing can run a step without operators.
printf 'dao-step 1\ntensor w 1024\nend\n' >"$folder/empty.dao"
for command in run "run --scheme plan" "run --scheme learn" simulate "fit --memory 1GiB"; do
    # shellcheck disable=SC2086 # words
    expect 1 "empty.dao: the step has no operators" $command "$folder/empty.dao"
done
# Kernels without times: there is nothing to compare with.
printf 'dao-step 1\ntensor y 4096\nop k 0 >y\nop l 0 <y -y\nend\n' >"$folder/timeless.dao"
expect 0 '"ratio":null' simulate "$folder/timeless.dao" --json --capacity 100%
expect 0 "0.000      0.000      -" simulate "$folder/timeless.dao" --capacity 100%
sed 's/4096/0/; s/op k 0/op k 5/' "$folder/timeless.dao" >"$folder/weightless.dao"
expect 0 '"fraction":0.000000000' simulate "$folder/weightless.dao" --json --capacity 4KiB
expect 1 "those of this step take none" simulate "$folder/timeless.dao" --slow-down 1.2
expect 0 "lru" simulate "$small_step" --slow-down 1.5 --scheme lru --link-in 1TB/s
expect 0 "script-async" simulate "$small_step" --scheme all
expect 0 "7.4%" simulate "$small_step" --scheme async --slow-down 3 --link-in 100GB/s
expect 0 "left out: " simulate "$smallest_step" --scheme all --slow-down 1.5
expect 0 "script-async" simulate "$smallest_step" --scheme all --slow-down 1.5 --json
expect 0 "left out: " simulate "$small_step" --scheme async --sweep 90%..10%
expect 0 "nothing can be explained" simulate "$small_step" --scheme script-sync --explain
expect 0 "on demand; least recently used first" simulate --help
expect 0 '"half-sync"' simulate "$small_step" --scheme half-sync --all-maps --threshold 39 --json
expect 1 "cannot end at operator 80 of 80" simulate "$small_step" --scheme async --threshold 80
expect 1 "more than the capacity" simulate "$small_step" --scheme async --capacity 4MB

expect 0 "version" info
expect 0 '"backend"' info --json
has version
has devices
expect 0 "362281164 (345.5 MiB)" info "$trace"
expect 0 '"mobilenet_v2"' info "$trace/mobilenet_v2.io_info.json" --json --batch=4
for field in model operators tensors peak_bytes persistent_bytes largest_operator smallest_capacity_bytes; do
    has $field
done
smallest=$(number smallest_capacity_bytes)
[ "$(number peak_bytes)" = 362281164 ] || fail "peak_bytes"

expect 1 "needs $smallest bytes at once" run "$trace" --capacity $((smallest - 1))
expect 1 "needs $smallest bytes at once" run "$trace" --policy all --capacity $((smallest - 1))
[ ! -s "$folder/out" ] || fail "a table over a refusal"
grep -q 'operator [0-9]* "' "$folder/err" || fail "the refusal names no operator"

# Steps that are served from a plan: the recorded ones of the trace are all alike but for two requests.
events="$trace/mobilenet_v2.4.events.csv"
expect 0 "total/bound" replay "$events"
expect 0 '"total_ratio"' replay "$events" --record 1 --serve 2.. --json
for field in step served hits missed unplanned total_ratio minor_faults; do
    has $field
done
expect 0 '"unplanned"' replay "$events" --mode bins --serve 2 --json
expect 0 "reserved/alone" replay "$events" --deviate 2.5 --kinds sizes,extra --repeats 2 --seed 7
cp "$folder/out" "$folder/first"
expect 0 "reserved/alone" replay "$events" --deviate 2.5 --kinds sizes,extra --repeats 2 --seed 7
[ "$(cut -c 1-50 "$folder/first")" = "$(cut -c 1-50 "$folder/out")" ] \
    || fail "equal seeds deviate differently"
expect 0 '"reserved_ratio"' replay "$events" --place device:0 --deviate 0 --json
expect 2 "no number from 0 to 100" replay "$events" --deviate 101
expect 2 "no number from 0 to 100" replay "$events" --deviate 1x
expect 2 "no number from 1 to" replay "$events" --deviate 1 --repeats 2.5
expect 2 "no number" replay "$events" --deviate 1 --seed q
expect 0 "   12    1.0000" replay "$events" --deviate 0 --repeats 11 --record 1..9
expect 2 "no kind of deviation" replay "$events" --deviate 1 --kinds some
expect 2 "no number from 1 to" replay "$events" --deviate 1 --repeats 0
expect 2 "are for --deviate" replay "$events" --seed 3
expect 1 "none is left to be served" replay "$events" --record 1..9
expect 2 "behind the recorded ones" replay "$events" --record 1..2 --serve 2..
expect 2 "not A or A..B" replay "$events" --record 0
# A plan has offsets, what was not planned has no column for them. Blank lines may stand before the first.
printf '\n  \nid,lower,upper,size\na,0,3,4\n' >"$folder/plain.csv"
expect 0 "" convert "$folder/plain.csv" -o "$folder/copy.csv" --to lifetimes
[ "$(cat "$folder/copy.csv")" = "$(printf 'id,lower,upper,size\na,0,3,4')" ] || fail "lifetimes"
expect 2 '"fast" is no mode: there are offsets, bins' replay "$events" --mode fast
expect 1 "No such file" replay "$folder/nothing.csv"

# Steps are run.
expect 0 '"mobilenet_v2"' run "$trace" --json --verify --check
for field in model operators tensors peak_bytes capacity_bytes smallest_capacity_bytes policy evictions \
    bytes_in \
    bytes_out reads_verified mismatches step_s unlimited_s; do
    has $field
done
[ "$(number operators)" = 2366 ] || fail "operators"
[ "$(number tensors)" = 2524 ] || fail "tensors"
[ "$(number capacity_bytes)" = 181183616 ] || fail "capacity_bytes"
[ "$(number mismatches)" = 0 ] || fail "mismatches"
[ "$(number evictions)" -gt 0 ] || fail "no evictions"
[ "$(number reads_verified)" -ge 4472 ] || fail "reads_verified"
grep -q '"policy": *"belady"' "$folder/out" || fail "policy"
# A step so small that rounding makes its one operator larger than the peak, and memory beyond all bounds.
mkdir "$folder/small"
echo '{"0": 100}' >"$folder/small/s.1.tensor_size.json"
echo '[{"op": "a", "id": 0, "inputs": ["0"], "outputs": [], "release": []}]' >"$folder/small/s.io_info.json"
echo '[[]]' >"$folder/small/s.1.resize_info.json"
echo '{"0": 1}' >"$folder/small/s.1.cost_info.json"
for part in tensor_size resize_info cost_info; do
    expect 1 "a part of a step in four JSON files; name their folder" info "$folder/small/s.1.$part.json"
done
expect 1 "No such file" info "$folder/small/s.2.cost_info.json"
printf '%s\n' 'dao-step 1' 'tensor a 4096' 'tensor b 4096' 'op one 1 >a' 'op two 1 stream=7 <a >b' end \
    >"$folder/streams.dao"
expect 0 '"streams":1' run "$folder/streams.dao" --json --capacity 100%
expect 0 '"streams":2' run "$folder/streams.dao" --json --capacity 100% --streams
expect 0 "kernels on 2 compute streams" simulate "$folder/streams.dao" --capacity 100% --streams
printf '%s\n' 'dao-step 1' 'tensor a 4096' 'tensor b 4096' 'op one 1 <a' 'op two 3 stream=7 <b' end \
    >"$folder/streams.dao"
expect 0 '"streams":2' simulate "$folder/streams.dao" --json --capacity 100% --streams
[ "$(number step_s)" = 0.000003000 ] || fail "a step of two streams takes what its longer one does"
[ "$(number bound_s)" = 0.000003000 ] || fail "and so does its bound"
expect 0 '"step_s":0.000004000' simulate "$folder/streams.dao" --json --capacity 100%
printf '%s\n' 'dao-step 1' 'tensor w 1000' 'tensor v 1000' 'tensor b 1000' 'op x 10 <w >b' 'op y 10 *b <v' \
    'op z 10 <b -b' end >"$folder/odd.dao"
expect 0 '"capacity_bytes":3072' simulate "$folder/odd.dao" --json --capacity 100% # sizes rounded up to 256
expect 0 '"capacity_bytes":3072' run "$folder/odd.dao" --json --capacity 100%
[ "$(number evictions)" = 0 ] || fail "something moves in all of the peak"
expect 0 '"mismatches":0' run "$folder/small" --json --capacity 100%
[ "$(number capacity_bytes)" = 256 ] || fail "capacity_bytes of a small step"
expect 1 "needs 256 bytes" run "$folder/small" --capacity 99%
expect 1 "needs 256 bytes" run "$folder/small" --capacity 255
expect 0 '"mismatches":0' run "$folder/small" --json --capacity 16777215TiB
[ "$(number capacity_bytes)" = 18446742974197923840 ] || fail "capacity_bytes of a large device"
expect 0 "reads verified" run --capacity=90% --policy lru --mode=queue -- "$folder/names.dao"
expect 0 "reads verified" run --capacity=90% --scheme hybrid --verify --check-repeatable \
    -- "$folder/names.dao"
expect 2 "needs --scheme hybrid" run --check-repeatable -- "$trace"
# A step that no machine has the memory for is refused before anything is written.
awk 'BEGIN {
    print "T 64"; for (i = 0; i < 64; i++) print i, "1000000000000", 1, "w" i
    print "K 1 1"; print "5 1 0:1"
}' >"$folder/huge.tr"
expect 1 '"dao simulate" runs it in virtual time' run "$folder/huge.tr"
expect 1 "the rest goes to the file" run "$folder/huge.tr" --host 1GB --file "$folder"
# With a file what goes there does not count: this one comes as far as its tensors, which are too large for
# --host.
awk 'BEGIN {
    print "T 16384"; print "0 4096 1 s"; for (i = 1; i < 16384; i++) print i, 256000000, 1, "w" i
    print "K 1 1"; print "5 1 0:1"
}' >"$folder/wide.tr"
expect 1 "cannot be written" run "$folder/wide.tr" --scheme learn --capacity 4096 --host 1 --file "$folder" \
    --file-limit 4096
printf 'T 2\n0 4096 1 w\n1 4096 0 y\nK 2 1\n5 2 0:1 1:2\n5 2 1:1 0:3\n' >"$folder/two.tr"
expect 0 '"mismatches":0' run "$folder/two.tr" --json --verify --capacity 100%
[ "$(number reads_verified)" = 4 ] || fail "reads of a .tr file"
! grep -q '_ms"' "$folder/out" || fail "a time of a run is not in seconds"
expect 0 '"recorded_s":0.000010000' info "$folder/two.tr" --json
expect 0 '"mismatches":0' run "$folder/two.tr" --json --scheme plan --capacity 100% --link-in 1GB/s
for field in scheme step_s forecast_s replayed_s bound_s ratio forecast_ratio replayed_ratio bytes_in \
    bytes_out plan_s; do
    has $field
done
[ "$(number reads_verified)" = 15 ] || fail "reads of five planned steps"
printf 'T 2\n0 4096 1 w\n1 4096 1 v\nK 2 1\n5 1 0:1\n5 1 1:1\n' >"$folder/turns.tr"
expect 0 '"mismatches":0' run "$folder/turns.tr" --json --scheme plan --capacity 4096 --host 1 --file \
    "$folder" --file-in 1GB/s
for field in file_bytes_in file_bytes_out file_in_bytes_per_second file_out_bytes_per_second file_copy_s; do
    has $field
done
[ "$(number file_bytes_in)" = 8192 ] || fail "bytes of a planned step from its file"
expect 1 "the host" run "$folder/turns.tr" --scheme plan --capacity 4096 --host 1
expect 2 "--host is not for --scheme hybrid" run "$folder/turns.tr" --scheme hybrid --host 1
expect 2 "--mode is not for steps that are learnt" run "$folder/turns.tr" --scheme hybrid --mode queue
expect 1 "without copies" run "$folder/turns.tr" --scheme recompute --capacity 4096
expect 0 '"bytes_in":0,' run "$folder/turns.tr" --json --scheme recompute --capacity 8192 --verify
expect 0 '"mismatches":0' run "$folder/turns.tr" --json --scheme hybrid --capacity 4096 --verify \
    --check
has runs_again
expect 0 '"plan_hits":1' run "$folder/turns.tr" --json --scheme described --capacity 4096 --verify --check
expect 2 "described before it runs" run "$folder/turns.tr" --scheme described --mode queue
expect 0 '"mismatches":0' run "$folder/turns.tr" --json --scheme learn --capacity 4096 --host 1 --file \
    "$folder"
has file_bytes_in

finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dao report: the numbers in the page make the figures of --json; where a browser is, it shows them.
# Usage: test_report.sh DAO SOURCE_DIR PYTHON [PICTURES BROWSER [SPEEDSCOPE]]
program=$1
source=$2
python=$3
pictures=${4:-}
browser=${5:-}
speedscope=${6:-}
. "$2/tests/support/cli.sh"
checker=$2/tests/tools/report/check_report.py
pages=$folder/pages
mkdir "$pages"

# right KIND ARGUMENT...: the checker has nothing to say.
right() {
    "$python" "$checker" "$@" >"$folder/out" 2>"$folder/err" || fail "check_report.py $*"
}

# page NAME ARGUMENT...: a page of these files, and its figures.
page() {
    name=$1
    shift
    expect 0 peak_bytes report "$@" -o "$pages/$name.html" --json
    cp "$folder/out" "$pages/$name.json"
    right data "$pages/$name.html" "$pages/$name.json"
}

# A small training step with all that our own form can say, and names that a page must not take for its own.
cat >"$folder/step.dao" <<'END'
dao-step 1
model small
batch 4
tensor w1 4096000 tag=parameter name=encoder.0.weight
tensor w2 2048000 tag=parameter name=encoder.1.weight
tensor x 1000000 tag=input
tensor a1 3000000 tag=activation name=</script><b>
op aten::linear 900 module=encoder.0.mlp pure <w1 <x >a1 +t:100000 -t
tensor a2 2500000 tag=activation
op aten::gelu 300 module=encoder.0.mlp pure <a1 >a2
tensor a3 1500000 tag=activation
op aten::linear 700 module=encoder.1 pure <w2 <a2 >a3
tensor loss 4
op aten::mse_loss 100 module=loss <a3 >loss
backward
tensor g3 1500000 tag=gradient
op mse_loss_backward 100 module=loss <a3 <loss >g3 -loss
tensor g2 2500000 tag=gradient
tensor gw2 2048000 tag=gradient
op linear_backward 1200 module=encoder.1 <w2 <a2 <g3 >g2 >gw2 -g3 -a3
tensor g1 3000000 tag=gradient
op gelu_backward 300 module=encoder.0.mlp <a1 <g2 >g1 -g2 -a2
tensor gw1 4096000 tag=gradient
op linear_backward 1500 module=encoder.0.mlp <w1 <x <g1 >gw1 -g1 -a1
op sgd 200 module=optimizer *w1 *w2 <gw1 <gw2 -gw1 -gw2 -x
end
END
page step "$folder/step.dao" --capacity 75% --link 1GB/s
grep -q '"stalls":' "$pages/step.json" || fail "a step in less memory waits for nothing"
grep -q '"name":"encoder.0.mlp"' "$pages/step.json" || fail "no module holds anything"

# Files that tell less: lives alone; two of them beside each other.
expect 0 written convert "$folder/step.dao" -o "$folder/step.pickle"
expect 0 written convert "$folder/step.dao" -o "$folder/step.csv"
page two "$folder/step.pickle" "$folder/step.csv"
page events "$source/examples/traces/mobilenet_v2/mobilenet_v2.4.events.csv"

# A flame graph.
expect 0 written report "$folder/step.dao" --flame "$folder/flame.json"
expect 0 peak_bytes info "$folder/step.dao" --json
right flame "$folder/flame.json" "$(number peak_bytes)"
grep -q '"name":"mlp"' "$folder/flame.json" || fail "no part of a module is a frame"

# In a browser: these pages, five models, a million events; what is for Speedscope.
if [ -n "$browser" ]; then
    for model in "$source/examples/traces/mobilenet_v2" "$source"/tests/support/models/steps/*.dao; do
        name=${model##*/}
        page "${name%.dao}" "$model" --capacity 60% --link 12GB/s
    done
    awk 'BEGIN {
        srand(7); print "id,lower,upper,size"
        for (i = 0; i < 500000; i++) {
            begin = 2 * i + int(2 * rand())
            printf "layer.%d.mlp.%d,%d,%d,%d\n", 60 * rand(), i, begin,
                begin + 1 - 2000 * log(1 - rand()), 1 + int(16777216 * rand())
        }
    }' >"$folder/million.csv"
    expect 0 peak_bytes report "$folder/million.csv" -o "$pages/million.html" --json
    mv "$folder/out" "$pages/million.json"
    cp "$folder/flame.json" "$pages/step.flame"
    printf '%s\n' "alive at the peak" mlp encoder >"$pages/step.words"
    expect 0 plan simulate "$source/tests/support/models/steps/lstm.dao" --scheme plan --capacity 60% \
        --trace "$pages/lstm.trace"
    printf '%s\n' "plan (pid 1), kernels" '2332th:mm {"index":2332}' >"$pages/lstm.words"
    "$python" "$source/tests/tools/report/show_pages.py" "$pages" "$pictures" "$browser" $speedscope \
        2>"$folder/err" || fail "show_pages.py"
fi

# Pools lie on top of each other.
printf 'id,lower,upper,size,alignment,pool\na,0,3,100,64,0\nb,1,4,50,64,1\nc,2,5,70,64,0\nd,2,6,33,32,1\n' \
    >"$folder/pools.csv"
page pools "$folder/pools.csv"
expect 0 '"planned_bytes":295' fit "$folder/pools.csv" --memory 1KiB --json

# What cannot be.
expect 2 "-o OUT is missing" report "$folder/step.dao"
expect 2 "-o and --flame are one file" report "$folder/step.dao" -o "$folder/x" --flame "$folder/x"
expect 2 "is for one FILE" report "$folder/step.dao" "$folder/step.dao" --flame "$folder/flame.json"
expect 2 "can go to standard output" report "$folder/step.dao" -o - --json
expect 1 "--capacity is for a step: this does not tell" report "$folder/step.csv" --capacity 50% --json
for option in "--link 1GB/s" "--device h100" "--host 1GiB"; do
    # shellcheck disable=SC2086 # words
    expect 1 "step.csv: ${option%% *} is for a step: this does not" report "$folder/step.csv" --json $option
done
printf 'dao-step 1\ntensor y 4096\nop k 0 >y -y\nend\n' >"$folder/timeless.dao"
expect 1 "--link is for a step with times: this one has none" report "$folder/timeless.dao" --json \
    --link 1GB/s
expect 1 "No such file" report "$folder/nothing" -o "$folder/page.html"
expect 1 "" report "$folder/step.dao" -o "$folder/no/such/folder.html"
finish

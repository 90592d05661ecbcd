#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dao convert: each form as the programs take it that it is for, and back again with the same peak.
# Usage: test_convert.sh DAO SOURCE_DIR PYTHON
program=$1
source=$2
python=$3
. "$2/tests/support/cli.sh"
checker=$2/tests/tools/write/check_forms.py
viewer=/usr/lib/python3/dist-packages/torch/cuda/_memory_viz.py

# ours KIND FILE PEAK: the checker has nothing to say.
ours() {
    "$python" "$checker" "$@" >"$folder/out" 2>"$folder/err" || fail "check_forms.py $*"
}

# back FILE PEAK: dao reads it, with this peak.
back() {
    expect 0 peak_bytes info "$1" --json
    [ "$(number peak_bytes)" = "$2" ] || fail "$1: peak $(number peak_bytes), not $2"
}

# whole FILE NAME: FILE to each form that lifetimes are enough for, and back.
whole() {
    expect 0 peak_bytes info "$1" --json
    peak=$(number peak_bytes)
    for ending in csv events.csv pickle rmm.csv json; do
        expect 0 '"buffers":' convert "$1" -o "$folder/$2.$ending" --json
        [ "$(number peak_bytes)" = "$peak" ] || fail "$1 to $ending: another peak"
        back "$folder/$2.$ending" "$peak"
    done
    ours snapshot "$folder/$2.pickle" "$peak"
    ours chrome "$folder/$2.json" "$peak"
    ours rmm "$folder/$2.rmm.csv" "$peak"
    if [ -f "$viewer" ]; then # Debian's PyTorch
        ours segments "$folder/$2.pickle" "$folder/segments.pickle"
        "$python" "$viewer" stats "$folder/segments.pickle" >"$folder/out" 2>"$folder/err" \
            || fail "_memory_viz.py stats of $2"
    fi
}

# A step with all that our own form can say.
cat >"$folder/all.dao" <<'END'
# a remark
dao-step 1
model m
batch 4
tensor w 4096 tag=parameter name=conv%201.weight
tensor x 1000 tag=input
tensor y 512
tensor y.row 128 of=y at=128
op aten::conv 12.5 at=1.25 stream=1 module=a.b pure <w <x >y ^x +t:100 +u:50 -t
tensor z 256
op fill 3 =y.row -x
backward
op grad 4 <y.row *w >z -y
end
END
whole "$folder/all.dao" all

# Operators whose workspaces have one word, as recorded ones have, and one that looks like what is made of it.
cat >"$folder/words.dao" <<'END'
dao-step 1
tensor a 1024
op x 1 <a +t:1024 -t
op y 1 <a +t:2048 -t
op z 1 <a +t@6:512 -t@6
end
END
whole "$folder/words.dao" words
whole "$source/examples/traces/resnet101.tr" kernels
for ending in csv events.csv pickle rmm.csv json; do
    whole "$folder/all.$ending" "all-$ending"
done
grep -q '"name":"aten::conv","ts":1.250,"dur":12.500' "$folder/all.json" || fail "the recorded begin"

# Our own form: written, read and written again it is the same text, and the step the same step.
for trace in "$source/examples/traces/mobilenet_v2" "$source/examples/traces/resnet101.tr" \
    "$folder/all.dao"; do
    expect 0 "a step of dao's own form" convert "$trace" -o "$folder/1.dao"
    expect 0 "a step of dao's own form" convert "$folder/1.dao" -o "$folder/2.dao"
    cmp -s "$folder/1.dao" "$folder/2.dao" || fail "$trace: written again it is another text"
    for file in "$trace" "$folder/1.dao"; do
        "$program" simulate "$file" --capacity 100% --steps 1 --json >"$folder/simulated" 2>"$folder/err"
        [ -s "$folder/simulated" ] || fail "$file: it cannot be simulated"
        cksum <"$folder/simulated" >>"$folder/sums"
    done
    [ "$(sort -u "$folder/sums" | wc -l)" -eq 1 ] || fail "$trace: simulated it is another step"
    rm "$folder/sums"
done
grep -q '^op aten::conv 12.5 at=1.25 stream=1 module=a.b pure <w <x >y ^x +t:100 +u:50 -t$' "$folder/1.dao" \
    || fail "what the form can say is not all there"
expect 0 "mismatches           0" run "$folder/1.dao" --capacity 100%
expect 0 "method" plan "$folder/1.dao"
gzip -k "$folder/1.dao"
expect 0 "a step of dao" info "$folder/1.dao.gz"
expect 0 "a step as kernels" convert "$folder/1.dao" -o "$folder/1.tr" --to tr
back "$folder/1.tr" 6120

# Runs, real and simulated, as traces.
cat >"$folder/swap.dao" <<'END'
dao-step 1
tensor w1 4096000
tensor a 3000000
op one 100 module=m.1 <w1 >a
tensor w2 4096000
tensor b 3000000
op two 200 <w2 <a >b -a
tensor c 3000000
op "three" 50 <b *w1 >c -b -c
end
END
for scheme in plan online learn; do
    expect 0 '"step_s"' simulate "$folder/swap.dao" --scheme $scheme --capacity 80% --trace "$folder/trace" \
        --json
    ours run "$folder/trace" 3
    expect 0 '"mismatches":0' run "$folder/swap.dao" --scheme $scheme --capacity 80% \
        --trace "$folder/trace" --json
    ours run "$folder/trace" 3
done
expect 0 '"step_s"' simulate "$folder/swap.dao" --scheme plan --capacity 80% --host 5MB --file-in 1GB/s \
    --trace "$folder/trace" --json
grep -q '"name":"file"' "$folder/trace" || fail "a trace without the file"
expect 2 "is for one --scheme" simulate "$folder/swap.dao" --scheme all --trace "$folder/trace"
expect 2 "not for --sweep" simulate "$folder/swap.dao" --sweep 90%..80% --trace "$folder/trace"
expect 2 "is for one policy" run "$folder/swap.dao" --policy all --trace "$folder/trace"
expect 1 "no times of single kernels" simulate "$folder/swap.dao" --scheme script-sync --threshold 1 \
    --trace "$folder/trace"
expect 1 "No such file" simulate "$folder/swap.dao" --capacity 80% --trace /nowhere/x.json

expect 2 "-o OUT is missing" convert "$folder/1.dao"
expect 2 "has no ending that tells a form" convert "$folder/1.dao" -o "$folder/x"
expect 2 "would both go to standard output" convert "$folder/1.dao" -o - --to rmm --json
expect 2 '"xml" is no form: there are dao, tr' convert "$folder/1.dao" -o "$folder/x" --to xml
expect 1 "not which operator reads" convert "$folder/all.csv" -o "$folder/x.dao"
expect 1 "No such file" convert "$folder/1.dao" -o /nowhere/x.dao
expect 1 "could not be written" convert "$folder/1.dao" -o /dev/full --to rmm
expect 1 "/dev/full: the file could not be written: No space" \
    convert "$folder/1.dao" -o /dev/full --to snapshot
# What cannot be written whole leaves what was there; what can takes its place, behind links, with its rights.
mkdir "$folder/kept"
echo old >"$folder/kept/x.csv"
chmod 640 "$folder/kept/x.csv"
ln -s x.csv "$folder/kept/link.csv"
(
    ulimit -f 1
    "$program" convert "$source/examples/traces/resnet101.tr" -o "$folder/kept/x.csv"
) >/dev/null 2>"$folder/err" && fail "more was written than may be"
grep -q "x.csv: the file could not be written: File too large" "$folder/err" || fail "no reason of the limit"
[ "$(cat "$folder/kept/x.csv")" = old ] || fail "half a file is left"
expect 0 written convert "$folder/1.dao" -o "$folder/kept/link.csv"
[ -L "$folder/kept/link.csv" ] && grep -q id,lower "$folder/kept/x.csv" || fail "not behind the link"
[ "$(ls "$folder/kept")" = "$(printf 'link.csv\nx.csv')" ] || fail "more files than before"
[ "$(stat -c %a "$folder/kept/x.csv")" = 640 ] || fail "other rights"
expect 0 "id,lower,upper,size" convert "$folder/1.dao" -o - --to lifetimes
finish

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_written_step.sh DAO TRAIN: what dao_executor_step_write() writes of a training is what the command
# reads, and runs with less memory without a wrong byte.
set -eu
dao=$1 train=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "$0: $*" >&2
    exit 1
}

"$train" --layers 2 --width 32 --steps 4 --percents 100 --write "$folder/step.dao" > "$folder/out"
count=$("$dao" info "$folder/step.dao" | sed -n 's/^operators  *//p')
[ "$count" = "$(grep -c '^op ' "$folder/step.dao")" ] ||
    fail "info does not count its operators"
grep -q '^op linear_backward [1-9][0-9.]* ' "$folder/step.dao" || fail "its kernels were not measured"
"$dao" plan "$folder/step.dao" > /dev/null
"$dao" simulate "$folder/step.dao" --capacity 60% > /dev/null
status=0
"$dao" fit "$folder/step.dao" --memory 1GiB > "$folder/fit" || status=$?
[ "$status" = 0 ] && grep -q '^It fits' "$folder/fit" || fail "it does not fit into 1 GiB"
"$dao" run --verify "$folder/step.dao" --capacity 60% | grep -q '^mismatches  *0$' ||
    fail "it has wrong bytes"

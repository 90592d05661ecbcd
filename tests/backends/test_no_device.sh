#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The commands of a build for cuda or hip start where there is no driver or no device, and say so in words;
# what needs a device ends with 1. test_no_device.sh DAO DAO_BENCH
set -eu
dao=$1
bench=$2

said=$("$dao" info)
if ! echo "$said" | grep -q "^devices  *0$"; then
    echo "skipped: there is a device"
    exit 77
fi
echo "$said"
echo "$said" | grep -q "^reason  *there is no .* device"
code=0
said=$("$bench" gpu 2>&1) || code=$?
echo "$said"
[ "$code" -eq 1 ]
echo "$said" | grep -q "there is no .* device"

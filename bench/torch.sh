#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of docs/pytorch.md: PyTorch trains on the CPU over several allocators. Usage: bench/torch.sh
# [FOLDER] ; FOLDER has the plug-ins (default: build/release/integrations). Needs python3-torch, libjemalloc2,
# and a fast BLAS such as libopenblas0-pthread, or the transformer takes minutes a step.
set -eu
cd "$(dirname "$0")/.."
folder=$(realpath "${1:-build/release/integrations}")
plugin=$folder/libdao_torch_cpu.so
front=$folder/libdao_malloc.so
jemalloc=libjemalloc.so.2
# as PyTorch's performance guide advises
jemalloc_settings=oversize_threshold:1,background_thread:true,metadata_thp:auto
jemalloc_settings=$jemalloc_settings,dirty_decay_ms:-1,muzzy_decay_ms:-1
export OPENBLAS_NUM_THREADS=1

train() {
    /usr/bin/python3 examples/torch_train.py --steps 15 "$@"
}

for model in "--model mobilenet --batch 32 --side 96" "--model transformer --batch 16 --side 128"; do
    # shellcheck disable=SC2086 # a list of words
    {
        train $model
        LD_PRELOAD=$jemalloc train $model
        echo "MALLOC_CONF=$jemalloc_settings"
        LD_PRELOAD=$jemalloc MALLOC_CONF=$jemalloc_settings train $model
        LD_PRELOAD=$front train $model
        DAO_STEP_PLAN=offsets DAO_STEP_PLAN_START=1 DAO_STEP_PLAN_STABLE=1 LD_PRELOAD=$front train $model \
            --serve
        train $model --plugin "$plugin"
        train $model --plugin "$plugin" --serve
    }
done

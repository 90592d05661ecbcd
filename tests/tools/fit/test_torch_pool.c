/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch's caching allocator would reserve: each rule by a case that is known by hand; random requests
   against a model that walks a list of all blocks; limits; memory that runs out; and recorded snapshots,
   whose reserved bytes are met. */
#include "base/numbers/random.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/fit/torch_pool.h"
#include "tools/read/events/read_lifetimes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dao_torch_pool_t *pool;

static void begin(uint64_t limit_bytes)
{
    CU_ASSERT_EQUAL_FATAL(dao_torch_pool_create(limit_bytes, &pool), DAO_OK);
}

static uint32_t take(uint64_t size_bytes)
{
    uint32_t block = 0;
    CU_ASSERT_EQUAL(dao_torch_pool_alloc(pool, size_bytes, &block), DAO_OK);
    CU_ASSERT_TRUE(dao_torch_pool_is_valid(pool));
    return block;
}

static void give(uint32_t block)
{
    CU_ASSERT_EQUAL(dao_torch_pool_free(pool, block), DAO_OK);
    CU_ASSERT_TRUE(dao_torch_pool_is_valid(pool));
}

static uint64_t reserved(void)
{
    return dao_torch_pool_reserved(pool);
}

/* ---- the rules ---- */

static void segments_have_three_sizes(void)
{
    begin(UINT64_MAX);
    (void)take(1);
    CU_ASSERT_EQUAL(reserved(), 2 * MIB);
    (void)take(MIB); /* small still: the first segment has 2 MiB - 512 left */
    CU_ASSERT_EQUAL(reserved(), 2 * MIB);
    (void)take(MIB + 1);
    CU_ASSERT_EQUAL(reserved(), 22 * MIB);
    (void)take(10 * MIB);
    CU_ASSERT_EQUAL(reserved(), 22 * MIB); /* from the rest of the 20 MiB */
    (void)take(10 * MIB);
    CU_ASSERT_EQUAL(reserved(), 32 * MIB);
    (void)take(11 * MIB + 1);
    CU_ASSERT_EQUAL(reserved(), 44 * MIB);
    dao_torch_pool_destroy(pool);
}

static void a_large_block_is_not_split_for_a_mebibyte(void)
{
    begin(UINT64_MAX);
    uint32_t block = take(20 * MIB);
    give(block);
    (void)take(19 * MIB); /* a MiB is left over: it stays with the block */
    (void)take(MIB + 1);
    CU_ASSERT_EQUAL(reserved(), 40 * MIB);
    dao_torch_pool_destroy(pool);
}

static void the_smallest_block_that_is_enough_is_taken(void)
{
    begin(UINT64_MAX);
    uint32_t large = take(40 * MIB), middle = take(24 * MIB);
    give(large);
    give(middle);
    (void)take(24 * MIB);
    (void)take(40 * MIB);
    CU_ASSERT_EQUAL(reserved(), 64 * MIB);
    dao_torch_pool_destroy(pool);
}

static void small_and_large_blocks_do_not_mix(void)
{
    begin(UINT64_MAX);
    give(take(30 * MIB));
    (void)take(512 * KIB);
    CU_ASSERT_EQUAL(reserved(), 32 * MIB);
    dao_torch_pool_destroy(pool);
}

static void neighbours_merge(void)
{
    begin(UINT64_MAX);
    uint32_t blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = take(5 * MIB); /* all of one segment */
    }
    CU_ASSERT_EQUAL(reserved(), 20 * MIB);
    give(blocks[1]);
    give(blocks[3]);
    give(blocks[2]);
    (void)take(15 * MIB);
    CU_ASSERT_EQUAL(reserved(), 20 * MIB);
    dao_torch_pool_destroy(pool);
}

static void at_the_limit_free_segments_go_back(void)
{
    begin(64 * MIB);
    uint32_t first = take(30 * MIB), second = take(30 * MIB), third = 0;
    give(first);
    CU_ASSERT_EQUAL(dao_torch_pool_alloc(pool, 36 * MIB, &third), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(reserved(), 30 * MIB); /* what went back stays so */
    (void)take(34 * MIB);
    CU_ASSERT_EQUAL(reserved(), 64 * MIB);
    CU_ASSERT_EQUAL(dao_torch_pool_alloc(pool, 1, &third), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_torch_pool_alloc(pool, UINT64_MAX, &third), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_torch_pool_peak(pool), 64 * MIB);
    give(second);
    (void)take(1);
    CU_ASSERT_EQUAL(reserved(), 36 * MIB);
    dao_torch_pool_destroy(pool);
}

/* ---- a model ---- */

enum { MODEL_BLOCKS = 600, REQUESTS = 3000 };

/* All blocks in the order of their addresses, looked through from the first one each time. */
typedef struct model_block {
    uint64_t size_bytes;
    int segment;
    bool is_free, is_small;
} model_block_t;

static struct {
    model_block_t blocks[MODEL_BLOCKS];
    size_t count;
    int segments;
    uint64_t reserved_bytes;
} model;

static void insert(size_t at, model_block_t block)
{
    memmove(&model.blocks[at + 1], &model.blocks[at], (model.count - at) * sizeof(block));
    model.blocks[at] = block;
    model.count++;
    CU_ASSERT_FATAL(model.count < MODEL_BLOCKS);
}

/* Returns the index of the block that was taken. */
static size_t model_take(uint64_t size_bytes)
{
    uint64_t rounded = (size_bytes + 511) / 512 * 512;
    bool is_small = rounded <= MIB;
    size_t best = model.count;
    for (size_t i = 0; i < model.count; i++) {
        const model_block_t *block = &model.blocks[i];
        if (block->is_free && block->is_small == is_small && block->size_bytes >= rounded &&
            (best == model.count || block->size_bytes < model.blocks[best].size_bytes)) {
            best = i;
        }
    }
    if (best == model.count) {
        uint64_t bytes = is_small             ? 2 * MIB
                         : rounded < 10 * MIB ? 20 * MIB
                                              : (rounded + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
        insert(model.count, (model_block_t){bytes, model.segments++, true, is_small});
        model.reserved_bytes += bytes;
    }
    model_block_t *block = &model.blocks[best];
    uint64_t left = block->size_bytes - rounded;
    block->is_free = false;
    if (is_small ? left >= 512 : left > MIB) {
        block->size_bytes = rounded;
        insert(best + 1, (model_block_t){left, block->segment, true, is_small});
    }
    return best;
}

static void model_join(size_t at)
{
    if (at + 1 < model.count && model.blocks[at].is_free && model.blocks[at + 1].is_free &&
        model.blocks[at].segment == model.blocks[at + 1].segment) {
        model.blocks[at].size_bytes += model.blocks[at + 1].size_bytes;
        model.count--;
        memmove(&model.blocks[at + 1], &model.blocks[at + 2], (model.count - at - 1) * sizeof(model_block_t));
    }
}

/* Frees the n-th used block of the model. Returns its number among the used ones. */
static void model_give(size_t nth)
{
    size_t at = 0;
    for (; model.blocks[at].is_free || nth > 0; at++) {
        nth -= !model.blocks[at].is_free;
    }
    model.blocks[at].is_free = true;
    model_join(at);
    if (at > 0) {
        model_join(at - 1);
    }
}

/* Used blocks before one, in the order of addresses. */
static size_t used_before(size_t at)
{
    size_t count = 0;
    for (size_t i = 0; i < at; i++) {
        count += !model.blocks[i].is_free;
    }
    return count;
}

static void random_requests_reserve_what_the_model_does(void)
{
    uint64_t state = dao_test_seed("the model of PyTorch's allocator", 3);
    uint32_t live[MODEL_BLOCKS]; /* in the order of addresses, as the model's */
    size_t live_count = 0;
    memset(&model, 0, sizeof(model));
    begin(UINT64_MAX);
    for (int i = 0; i < REQUESTS; i++) {
        if (live_count < 200 && dao_random_below(&state, 100) < (live_count < 100 ? 60 : 45)) {
            uint64_t most = (uint64_t)1 << dao_random_between(&state, 4, 26);
            uint64_t size_bytes = 1 + dao_random_below(&state, most);
            size_t at = used_before(model_take(size_bytes));
            memmove(&live[at + 1], &live[at], (live_count - at) * sizeof(live[0]));
            live[at] = take(size_bytes);
            live_count++;
        } else if (live_count > 0) {
            size_t at = dao_random_below(&state, live_count);
            model_give(at);
            give(live[at]);
            live_count--;
            memmove(&live[at], &live[at + 1], (live_count - at) * sizeof(live[0]));
        }
        CU_ASSERT_EQUAL_FATAL(reserved(), model.reserved_bytes);
    }
    dao_torch_pool_destroy(pool);
}

#if defined(DAO_FAULTS)
static void memory_that_runs_out_is_told(void)
{
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t point = 0; status != DAO_OK && point < 100; point++) {
        uint32_t block = 0;
        pool = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, point, false);
        status = dao_torch_pool_create(UINT64_MAX, &pool);
        status = status == DAO_OK ? dao_torch_pool_alloc(pool, 1, &block) : status;
        status = status == DAO_OK ? dao_torch_pool_free(pool, block) : status;
        (void)dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
        dao_torch_pool_destroy(pool);
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
}
#endif

/* ---- recorded snapshots ---- */

/* Their figures lie beside the project; the first three begin with an empty device and are met exactly. */
static void recorded_snapshots_are_met(void)
{
    static const struct {
        const char *name;
        double most; /* part that the reserved bytes may be off */
    } files[] = {{"cs336_fwd_fp32_2026.pickle.gz", 0},
                 {"cs336_infer_ctx512_2026.pickle.gz", 0},
                 {"cs336_small_2026.pickle", 0},
                 {"cs336_step_b_2026.pickle.gz", 0.03},
                 {"cs336_train_ctx128_2026.pickle.gz", 0.03},
                 {"llm_oom_2023.pickle.gz", 0.03}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[512];
        dao_plan_input_t lifetimes;
        dao_history_t history;
        dao_torch_run_t run;
        (void)snprintf(path, sizeof(path), DAO_TEST_SOURCE_DIR "/../shared/data/torch-snapshot/%s",
                       files[i].name);
        if (access(path, R_OK) != 0) {
            (void)printf("    %s is not there\n", files[i].name);
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(path, &(dao_read_choice_t){0}, &lifetimes), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_history_of_lifetimes(&lifetimes, &history), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_torch_pool_run(&history, UINT64_MAX, &run), DAO_OK);
        double recorded = (double)lifetimes.counts.reserved_bytes;
        double off = ((double)run.reserved_bytes - recorded) / recorded;
        CU_ASSERT_TRUE(run.fits && off <= files[i].most && off >= -files[i].most);
        CU_ASSERT_EQUAL(dao_torch_pool_run(&history, run.peak_bytes, &run), DAO_OK);
        CU_ASSERT_TRUE(run.fits);
        CU_ASSERT_EQUAL(dao_torch_pool_run(&history, run.peak_bytes / 2, &run), DAO_OK);
        CU_ASSERT_FALSE(run.fits);
        dao_history_finish(&history);
        dao_plan_input_finish(&lifetimes);
    }
}

static CU_TestInfo tests[] = {
    {"segments have three sizes", segments_have_three_sizes},
    {"a large block is not split for a mebibyte", a_large_block_is_not_split_for_a_mebibyte},
    {"the smallest block that is enough is taken", the_smallest_block_that_is_enough_is_taken},
    {"small and large blocks do not mix", small_and_large_blocks_do_not_mix},
    {"neighbours merge", neighbours_merge},
    {"at the limit free segments go back", at_the_limit_free_segments_go_back},
    {"random requests reserve what the model does", random_requests_reserve_what_the_model_does},
#if defined(DAO_FAULTS)
    {"memory that runs out is told", memory_that_runs_out_is_told},
#endif
    {"recorded snapshots are met", recorded_snapshots_are_met},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"torch_pool", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

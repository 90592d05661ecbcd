/* SPDX-License-Identifier: Apache-2.0 */
/* Stream order and leases in front of allocators that have neither, at random against a model: nobody gets
   bytes that a stream may use still, or that a lease keeps. */
#include "base/numbers/random.h"
#include "tests/allocators/layers/ordered_kinds.h"

#include <string.h>

#define MODEL_BLOCK_COUNT 48u
#define MODEL_STEP_COUNT  3000u
#define MODEL_LEASE_COUNT 3u
#define MODEL_SIZE_MAX    (300 * KIB)

/* A block that lives, or that was freed and nobody has been given since. */
typedef struct model_block {
    char *address; /* NULL: none */
    size_t size_bytes;
    bool is_live;
    int stream;                                  /* or -1 */
    uint64_t serial;                             /* of the lease it was allocated under; 0: none */
    uint64_t waits_for[CONTROLLED_STREAM_COUNT]; /* pieces of work of each stream that may use it */
} model_block_t;

typedef struct model {
    uint64_t seed;
    model_block_t blocks[MODEL_BLOCK_COUNT];
    bool is_marked[MODEL_BLOCK_COUNT][CONTROLLED_STREAM_COUNT];
    uint64_t queued[CONTROLLED_STREAM_COUNT], ended[CONTROLLED_STREAM_COUNT]; /* pieces of work */
    uint32_t leases[MODEL_LEASE_COUNT];                                       /* 0: none */
    uint64_t serials[MODEL_LEASE_COUNT];
    uint64_t last_serial;
    uint64_t served_count, reused_count;
} model_t;

static uint32_t pick(model_t *model, uint32_t count)
{
    return (uint32_t)(dao_random_next(&model->seed) % count);
}

static bool lease_lasts(const model_t *model, uint64_t serial)
{
    for (size_t i = 0; i < MODEL_LEASE_COUNT; i++) {
        if (serial != 0 && model->serials[i] == serial) {
            return true;
        }
    }
    return false;
}

/* What a grant may be, given a block that was freed before it and lies in its bytes. */
static void check_reuse(const model_t *model, const model_block_t *freed, const model_block_t *now,
                        const dao_stream_fence_t *fence)
{
    CU_ASSERT_TRUE(!lease_lasts(model, freed->serial) || freed->serial == now->serial);
    for (int i = 0; i < (int)CONTROLLED_STREAM_COUNT; i++) {
        bool is_waited_for = (fence->streams & UINT64_C(1) << ordered_streams.numbers[i]) != 0;
        CU_ASSERT_TRUE(freed->waits_for[i] <= model->ended[i] || i == now->stream || is_waited_for);
    }
}

/* Adds a grant. Freed blocks in its bytes are forgotten: whoever has them now waits for what they waited
   for. */
static void model_add(model_t *model, model_block_t *slot, const model_block_t *now,
                      const dao_stream_fence_t *fence)
{
    for (size_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[i];
        bool overlaps = block->address != NULL && block->address < now->address + now->size_bytes &&
                        now->address < block->address + block->size_bytes;
        if (!overlaps) {
            continue;
        }
        CU_ASSERT_FALSE_FATAL(block->is_live);
        check_reuse(model, block, now, fence);
        model->reused_count++;
        *block = (model_block_t){0};
    }
    *slot = *now;
    memset(model->is_marked[slot - model->blocks], 0, sizeof(model->is_marked[0]));
    model->served_count++;
}

static void model_alloc(model_t *model, model_block_t *slot)
{
    uint32_t lease_slot = pick(model, 2 * MODEL_LEASE_COUNT);
    bool is_leased = lease_slot < MODEL_LEASE_COUNT && model->leases[lease_slot] != 0;
    model_block_t now = {.size_bytes = (1 + pick(model, 6)) * MODEL_SIZE_MAX / 6,
                         .is_live = true,
                         .stream = (int)pick(model, CONTROLLED_STREAM_COUNT + 1) - 1,
                         .serial = is_leased ? model->serials[lease_slot] : 0};
    dao_block_grant_t grant = {0};
    dao_status_t status =
        ordered_try_take(now.size_bytes, now.stream, is_leased ? model->leases[lease_slot] : 0, &grant);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_LIMIT);
    if (status == DAO_OK) {
        now.address = grant.address;
        model_add(model, slot, &now, &grant.fence);
    }
}

/* Frees a block behind a stream and those that were marked on it; or, once all have ended, at once. */
static void model_free(model_t *model, model_block_t *block)
{
    bool *marks = model->is_marked[block - model->blocks];
    int stream = (int)pick(model, CONTROLLED_STREAM_COUNT + 1) - 1;
    block->is_live = false;
    if (stream >= 0) {
        dao_stream_fence_t fence = controlled_streams_mark(&ordered_streams, (uint32_t)stream);
        model->queued[stream]++;
        CU_ASSERT_EQUAL(ordered->ops->free(ordered, block->address, &fence), DAO_OK);
        for (int i = 0; i < (int)CONTROLLED_STREAM_COUNT; i++) {
            bool is_user = i == stream || marks[i];
            block->waits_for[i] = is_user ? model->queued[i] : 0;
            CU_ASSERT_TRUE(!is_user || (fence.streams & UINT64_C(1) << ordered_streams.numbers[i]) != 0);
        }
    } else {
        ordered_give(block->address, -1);
    }
}

static void model_mark(model_t *model, model_block_t *block)
{
    uint32_t stream = pick(model, CONTROLLED_STREAM_COUNT);
    dao_stream_fences_share(ordered_streams.fences, ordered_streams.numbers[stream]);
    dao_status_t status = ordered->ops->stream_mark(ordered, block->address, ordered_streams.numbers[stream]);
    CU_ASSERT_EQUAL(status, block->stream >= 0 ? DAO_OK : DAO_ERR_UNSUPPORTED);
    model->is_marked[block - model->blocks][stream] |= status == DAO_OK;
}

static void model_lease(model_t *model, uint32_t slot)
{
    if (model->leases[slot] == 0) {
        model->leases[slot] = ordered_lease_begin();
        model->serials[slot] = ++model->last_serial;
    } else {
        uint32_t lease = model->leases[slot];
        model->leases[slot] = 0;
        model->serials[slot] = 0;
        ordered->ops->lease_end(ordered, lease);
    }
}

static void model_step(model_t *model)
{
    model_block_t *block = &model->blocks[pick(model, MODEL_BLOCK_COUNT)];
    uint32_t draw = pick(model, 40);
    if (draw == 0) {
        model_lease(model, pick(model, MODEL_LEASE_COUNT));
    } else if (draw < 4) {
        uint32_t stream = pick(model, CONTROLLED_STREAM_COUNT);
        controlled_streams_finish(stream);
        model->ended[stream] = model->queued[stream];
    } else if (draw == 4) {
        size_t released_bytes;
        CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
    } else if (!block->is_live) {
        model_alloc(model, block); /* what waited there is checked no more */
    } else if (draw < 10) {
        model_mark(model, block);
    } else {
        model_free(model, block);
    }
}

static void model_check(const model_t *model)
{
    uint64_t requested_bytes = 0, live_count = 0;
    for (size_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        live_count += model->blocks[i].is_live;
        requested_bytes += model->blocks[i].is_live ? model->blocks[i].size_bytes : 0;
    }
    dao_stats_t stats = ordered_stats_now();
    CU_ASSERT_EQUAL(stats.live_count, live_count);
    CU_ASSERT_EQUAL(stats.requested_bytes, requested_bytes);
    CU_ASSERT_TRUE(stats.used_bytes >= requested_bytes && stats.reserved_bytes >= stats.used_bytes);
}

static void nobody_gets_what_a_stream_or_a_lease_has(void)
{
    uint64_t seed = dao_test_seed("ordered, model", 91);
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        static model_t model;
        model = (model_t){.seed = seed};
        ordered_begin(k, 12 * MIB);
        for (size_t i = 0; i < MODEL_STEP_COUNT; i++) {
            model_step(&model);
            model_check(&model);
        }
        CU_ASSERT_TRUE(model.served_count > MODEL_STEP_COUNT / 10);
        CU_ASSERT_TRUE(model.reused_count > 0);
        ordered_end(); /* with live blocks, waiting ones and leases */
    }
}

static CU_TestInfo tests[] = {
    {"nobody gets what a stream or a lease has", nobody_gets_what_a_stream_or_a_lease_has},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ordered, at random", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

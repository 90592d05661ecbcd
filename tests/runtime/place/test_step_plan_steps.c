/* SPDX-License-Identifier: Apache-2.0 */
/* When a plan is made and when it serves, at each kind of place: settings of steps, first ones in which
   there is nothing to be planned, blocks that outlive the plan that they came from, frees that are put off;
   arenas of one block, and who is served from them. */
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCK_COUNT = 20, LARGE_COUNT = 6, FREE_STEP_COUNT = 60, TEXT_BYTES = 1 << 14 };

static const dao_place_t places[] = {
    {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_DEVICE, 0}};

#define PLACE_COUNT (sizeof(places) / sizeof(places[0]))

static dao_place_t place;

static void must(dao_status_t status)
{
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
}

static void begin_at(size_t index, const dao_step_plan_config_t *step_plan)
{
    dao_place_config_t config = {.step_plan = *step_plan};
    place = places[index];
    must(dao_init(&(dao_config_t){.cpu = {.device_count = 1, .device_bytes = 256 * MIB}}));
    must(dao_place_configure(place, &config));
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_used(place), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_step_plan_stats_t stats_now(void)
{
    dao_step_plan_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_step_plan_stats_get(place, &stats), DAO_OK);
    return stats;
}

static void take_all(void *blocks[BLOCK_COUNT], size_t size_bytes)
{
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        blocks[i] = dao_alloc(place, size_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
}

static void give_from(void *blocks[BLOCK_COUNT], uint32_t first)
{
    for (uint32_t i = first; i < BLOCK_COUNT; i++) {
        must(dao_free(place, blocks[i]));
    }
}

static void whole_step(void)
{
    void *blocks[BLOCK_COUNT];
    DAO_STEP(place);
    take_all(blocks, MIB);
    give_from(blocks, 0);
}

/* ---- sentences ---- */

static void a_block_of_code_is_an_iteration_at_several_places(void)
{
    dao_place_config_t config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}};
    begin_at(0, &config.step_plan);
    must(dao_place_configure(dao_device_place(0), &config));
    for (uint64_t step = 1; step <= 3; step++) {
        dao_step_plan_stats_t stats;
        {
            DAO_STEP(place);
            DAO_STEP(dao_device_place(0));
            {
                DAO_STEP(place); /* a part of it */
            }
            CU_ASSERT_EQUAL(dao_step_plan_reset(place), DAO_ERR_BUSY);
        }
        must(dao_step_plan_stats_get(dao_device_place(0), &stats));
        CU_ASSERT_EQUAL(stats.step_count, step);
        CU_ASSERT_EQUAL(stats_now().step_count, step);
    }
    {
        DAO_STEP(dao_device_place(99)); /* never begins, and ends none */
    }
    CU_ASSERT_EQUAL(stats_now().step_count, 3);
    end();
}

/* Learns equal steps, which are stable only after 20; they serve from step `first_served` on. */
static void learn_until(uint32_t max_count, uint32_t stop_step, uint32_t first_served)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS,
                                              .stable_count = 20,
                                              .max_count = max_count,
                                              .stop_step = stop_step});
        for (uint32_t step = 1; step < first_served; step++) {
            whole_step();
            CU_ASSERT_EQUAL(stats_now().learn_count, step);
            CU_ASSERT_FALSE(stats_now().has_plan);
        }
        whole_step();
        CU_ASSERT_EQUAL(stats_now().learn_count, first_served - 1);
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
        end();
    }
}

static void every_step_counts_until_a_plan_serves(void)
{
    learn_until(9, 0, 11);
    learn_until(0, 0, 23); /* the first is new, and more than 20 change nothing */
}

static void what_was_learnt_serves_once_nothing_more_is(void)
{
    learn_until(0, 7, 7);
}

/* The first step makes what all others use: nothing of it can be planned. */
static void a_step_without_a_plan_is_not_the_last_to_be_learnt(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        void *weights[BLOCK_COUNT];
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .trusts_program = true});
        must(dao_step_begin(place));
        take_all(weights, MIB);
        must(dao_step_end(place));
        whole_step();
        CU_ASSERT_EQUAL(stats_now().plan_bytes, 0);
        whole_step();
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
        give_from(weights, 0);
        end();
    }
}

/* As where a large workspace is tried before a small one. */
static void a_request_that_fails_is_not_planned(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .trusts_program = true});
        must(dao_limit_set(place, 128 * MIB));
        whole_step();
        for (int step = 0; step < 6; step++) {
            void *blocks[BLOCK_COUNT];
            must(dao_step_begin(place));
            take_all(blocks, MIB);
            CU_ASSERT_PTR_NULL(dao_alloc(place, 200 * MIB));
            give_from(blocks, 0);
            must(dao_step_end(place));
            CU_ASSERT_TRUE(stats_now().plan_bytes <= (BLOCK_COUNT + 1) * MIB);
            CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
        }
        end();
    }
}

typedef struct text {
    char bytes[TEXT_BYTES];
    size_t length;
} text_t;

static dao_status_t text_add(const char *line, size_t length, void *user)
{
    text_t *text = user;
    CU_ASSERT_FATAL(text->length + length <= sizeof(text->bytes));
    memcpy(text->bytes + text->length, line, length);
    text->length += length;
    return DAO_OK;
}

/* Its place is the first that bins which are new hand out. */
static void a_block_that_stays_costs_its_bin_no_other_place(void)
{
    static text_t text;
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        void *blocks[BLOCK_COUNT];
        text.length = 0;
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_BINS});
        whole_step();
        must(dao_step_begin(place));
        take_all(blocks, MIB);
        give_from(blocks, 1);
        must(dao_step_end(place));
        must(dao_step_plan_save(place, text_add, &text));
        must(dao_step_plan_load(place, text.bytes, text.length));
        whole_step();
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT - 1);
        CU_ASSERT_EQUAL(stats_now().latest.missed_count, 1);
        must(dao_free(place, blocks[0]));
        end();
    }
}

static void more_frees_are_retired_than_there_was_room_for(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        void *blocks[BLOCK_COUNT];
        begin_at(i, &(dao_step_plan_config_t){
                        .mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 1, .defers_frees = true});
        must(dao_step_begin(place));
        take_all(blocks, MIB);
        size_t used_bytes = dao_used(place);
        give_from(blocks, 0);
        CU_ASSERT_EQUAL(dao_used(place), used_bytes);
        must(dao_step_end(place));
        end();
    }
}

static void frees_that_were_retired_are_no_leaks(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        void *blocks[BLOCK_COUNT];
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .defers_frees = true});
        must(dao_step_begin(place));
        take_all(blocks, MIB);
        give_from(blocks, 0);
        CU_ASSERT_TRUE(dao_used(place) > 0);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* within the step */
    }
}

/* ---- arenas of one block ---- */

enum { PINNED = 1 };

/* Runs equal steps in pinned memory until they are served. */
static void earn_an_arena(void)
{
    enum { NOT_SERVED = 2, SERVED = 4 };
    begin_at(PINNED, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    for (uint32_t step = 1; step <= SERVED && stats_now().latest.hit_count == 0; step++) {
        CU_ASSERT(step > NOT_SERVED || stats_now().arena_bytes == 0);
        whole_step();
    }
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
}

static void a_block_serves_who_keeps_to_the_plan(void)
{
    earn_an_arena();
    for (uint32_t step = 0; step < 4; step++) {
        void *one_more = dao_alloc(place, KIB);
        whole_step();
        must(dao_free(place, one_more));
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
    }
    CU_ASSERT_EQUAL(stats_now().given_up_count, 0);
    end();
}

static void a_block_does_not_serve_who_never_repeats(void)
{
    enum { STEP_COUNT = 12 };
    begin_at(PINNED, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        void *blocks[BLOCK_COUNT];
        must(dao_step_begin(place));
        take_all(blocks, (1 + step) * MIB);
        give_from(blocks, 0);
        must(dao_step_end(place));
        CU_ASSERT_FALSE(stats_now().has_plan);
        CU_ASSERT_EQUAL(stats_now().arena_bytes, 0);
    }
    CU_ASSERT_TRUE(stats_now().learn_count < STEP_COUNT); /* it is looked at less and less */
    end();
}

/* However it changes, what was learnt by then serves. */
static void a_block_serves_what_there_is_once_nothing_more_is_learnt(void)
{
    enum { STOP = 10, STEP_COUNT = 12 };
    for (uint32_t stop = 2; stop <= STOP; stop++) {
        begin_at(PINNED, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .stop_step = stop});
        for (uint32_t step = 1; step <= STEP_COUNT; step++) {
            void *blocks[BLOCK_COUNT];
            must(dao_step_begin(place));
            take_all(blocks, step * 100 * KIB);
            give_from(blocks, 0);
            must(dao_step_end(place));
        }
        CU_ASSERT_EQUAL(stats_now().plan_count, 1);
        end();
    }
}

static void a_block_is_not_lost_by_requests_that_fail(void)
{
    enum { TRY_COUNT = 40 };
    earn_an_arena();
    must(dao_limit_set(place, 128 * MIB));
    for (uint32_t step = 0; step < 3; step++) {
        void *blocks[BLOCK_COUNT];
        must(dao_step_begin(place));
        take_all(blocks, MIB);
        for (uint32_t i = 0; i < TRY_COUNT; i++) {
            CU_ASSERT_PTR_NULL(dao_alloc(place, 200 * MIB));
        }
        give_from(blocks, 0);
        must(dao_step_end(place));
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
    }
    CU_ASSERT_EQUAL(stats_now().given_up_count, 0);
    end();
}

/* Frees every other block, which leaves holes, and takes blocks that fit into none of them. */
static void take_between_holes(void *blocks[BLOCK_COUNT], void *large[LARGE_COUNT])
{
    take_all(blocks, MIB);
    for (uint32_t i = 0; i < BLOCK_COUNT; i += 2) {
        must(dao_free(place, blocks[i]));
        blocks[i] = NULL;
    }
    for (uint32_t i = 0; i < LARGE_COUNT; i++) {
        large[i] = dao_alloc(place, MIB + MIB / 2);
        CU_ASSERT_PTR_NOT_NULL(large[i]);
    }
}

static void give_large(void *const large[LARGE_COUNT])
{
    for (uint32_t i = 0; i < LARGE_COUNT; i++) {
        must(dao_free(place, large[i]));
    }
}

/* Holes that nothing fits into: a place in pages takes more than ever for no more that lives. */
static void who_departs_loses_a_plan_that_costs_pages(void)
{
    enum { DEVICE = 2, PROOF_COUNT = 5 }; /* one step that is learnt, and twice the two that change nothing */
    for (int is_trusted = 0; is_trusted <= 1; is_trusted++) {
        void *blocks[BLOCK_COUNT], *large[LARGE_COUNT];
        begin_at(DEVICE,
                 &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .trusts_program = is_trusted != 0});
        whole_step();
        whole_step();
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
        must(dao_step_begin(place));
        take_between_holes(blocks, large);
        must(dao_step_end(place));
        CU_ASSERT_EQUAL(stats_now().given_up_count, is_trusted ? 0 : 1);
        give_from(blocks, 0);
        give_large(large);
        for (uint32_t step = 1; step <= PROOF_COUNT; step++) {
            whole_step();
            CU_ASSERT_TRUE(stats_now().latest.hit_count == 0 || is_trusted);
        }
        whole_step(); /* it is seen to keep to its steps again */
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
        end();
    }
}

/* The same holes, in a step whose plan is new: what the place would have without it is known then, and that
   is as much. */
static void a_plan_is_kept_where_the_place_would_grow_without_it(void)
{
    enum { DEVICE = 2 };
    void *blocks[BLOCK_COUNT], *large[LARGE_COUNT];
    begin_at(DEVICE, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    whole_step();
    must(dao_step_begin(place));
    take_between_holes(blocks, large);
    must(dao_step_end(place));
    CU_ASSERT_TRUE(stats_now().latest.hit_count < stats_now().latest.request_count);
    CU_ASSERT_EQUAL(stats_now().given_up_count, 0);
    give_from(blocks, 0);
    give_large(large);
    end();
}

static void departing_step(void)
{
    enum { EXTRA_COUNT = 4 };
    void *extra[EXTRA_COUNT];
    must(dao_step_begin(place));
    for (uint32_t i = 0; i < EXTRA_COUNT; i++) {
        extra[i] = dao_alloc(place, MIB);
    }
    whole_step();
    for (uint32_t i = 0; i < EXTRA_COUNT; i++) {
        must(dao_free(place, extra[i]));
    }
    must(dao_step_end(place));
    CU_ASSERT_EQUAL(stats_now().given_up_count, 0);
}

/* What others have come to take there is no cost of the plan: neither of one that was kept to so far, nor of
   one that was not, where what the place would have without it is known from each block. */
static void who_departs_keeps_a_plan_that_costs_nothing(void)
{
    enum { DEVICE = 2 };
    for (int has_departed = 0; has_departed <= 1; has_departed++) {
        begin_at(DEVICE, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
        whole_step();
        if (has_departed) {
            departing_step();
            CU_ASSERT_TRUE(stats_now().latest.hit_count < stats_now().latest.request_count);
        } else {
            whole_step();
        }
        void *weights = dao_alloc(place, 64 * MIB);
        CU_ASSERT_PTR_NOT_NULL(weights);
        departing_step();
        CU_ASSERT_TRUE(has_departed || stats_now().latest.hit_count < stats_now().latest.request_count);
        must(dao_free(place, weights));
        departing_step(); /* without them, which is no cost either */
        end();
    }
}

typedef struct held {
    dao_plan_run_func_t run;
    void *argument;
} held_t;

static void hold(dao_plan_run_func_t run, void *argument, void *user)
{
    *(held_t *)user = (held_t){run, argument};
}

static void run_held(held_t *held)
{
    if (held->run != NULL) {
        held_t now = *held;
        *held = (held_t){0};
        now.run(now.argument);
    }
}

/* A plan is given up while the next one is being made: that one does not serve, either. */
static void who_departs_loses_the_plan_that_is_made(void)
{
    enum { LARGE_BYTES = 100 << 20, STEP_COUNT = 4 };
    held_t held = {0};
    begin_at(PINNED, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS,
                                               .worker = DAO_STEP_PLAN_WORKER_SUBMIT,
                                               .submit = hold,
                                               .submit_user = &held});
    for (uint32_t step = 0; step < 2 * STEP_COUNT && stats_now().latest.hit_count == 0; step++) {
        whole_step();
        run_held(&held);
    }
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT);
    must(dao_step_begin(place)); /* a little beside the plan: it is made anew */
    must(dao_free(place, dao_alloc(place, 100 * KIB)));
    must(dao_step_end(place));
    for (uint32_t step = 0; step < STEP_COUNT && held.run == NULL; step++) {
        must(dao_step_begin(place));
        must(dao_free(place, dao_alloc(place, 100 * KIB)));
        must(dao_step_end(place));
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(held.run);
    must(dao_step_begin(place));
    must(dao_free(place, dao_alloc(place, LARGE_BYTES)));
    must(dao_step_end(place));
    CU_ASSERT_EQUAL(stats_now().given_up_count, 1);
    run_held(&held);
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        whole_step();
        CU_ASSERT_FALSE(stats_now().has_plan);
    }
    end();
}

static uint64_t reserved_now(void)
{
    dao_stats_t stats;
    must(dao_stats_get(place, &stats));
    return stats.reserved_bytes;
}

/* As long as something lives in its arena, which cannot be given back, the plan serves on. */
static void who_departs_loses_the_plan_once_its_arena_is_empty(void)
{
    enum { LARGE_BYTES = 100 << 20 };
    earn_an_arena();
    must(dao_step_begin(place));
    void *large = dao_alloc(place, LARGE_BYTES); /* nobody has room for it */
    void *left = dao_alloc(place, MIB);
    must(dao_free(place, large));
    must(dao_step_end(place));
    CU_ASSERT_TRUE(stats_now().has_plan);
    uint64_t before_bytes = reserved_now();
    whole_step();
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT - 1);
    CU_ASSERT_EQUAL(stats_now().given_up_count, 0);
    CU_ASSERT_TRUE(reserved_now() <= before_bytes);
    must(dao_free(place, left));
    must(dao_step_begin(place));
    CU_ASSERT_EQUAL(stats_now().given_up_count, 1);
    CU_ASSERT_FALSE(stats_now().has_plan);
    CU_ASSERT_EQUAL(stats_now().arena_bytes, 0);
    CU_ASSERT_EQUAL(reserved_now(), 0); /* what the program makes itself suits it better */
    must(dao_step_end(place));
    end();
}

/* A block that stays keeps the arena, but the plan not for ever: what is left of the arena is for all. */
static void who_departs_loses_the_plan_at_last(void)
{
    enum { LARGE_BYTES = 100 << 20, STEP_COUNT = 17 };
    earn_an_arena();
    must(dao_step_begin(place));
    void *large = dao_alloc(place, LARGE_BYTES);
    void *left = dao_alloc(place, MIB);
    must(dao_free(place, large));
    must(dao_step_end(place));
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        whole_step();
    }
    CU_ASSERT_EQUAL(stats_now().given_up_count, 1);
    CU_ASSERT_FALSE(stats_now().has_plan);
    CU_ASSERT_TRUE(stats_now().arena_bytes > 0);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 0);
    CU_ASSERT_TRUE(stats_now().latest.borrowed_count > 0);
    must(dao_free(place, left));
    whole_step();
    CU_ASSERT_EQUAL(stats_now().arena_bytes, 0);
    end();
}

/* What is idle and too small goes back before the place grows. */
static void who_departs_does_not_take_both(void)
{
    enum { SMALL_BYTES = 50 << 20, LARGE_BYTES = 100 << 20 };
    earn_an_arena();
    uint64_t before_bytes = reserved_now();
    void *blocks[BLOCK_COUNT];
    must(dao_step_begin(place));
    take_all(blocks, MIB);
    must(dao_free(place, dao_alloc(place, SMALL_BYTES)));
    CU_ASSERT_EQUAL(reserved_now(), before_bytes + SMALL_BYTES);
    must(dao_free(place, dao_alloc(place, LARGE_BYTES)));
    CU_ASSERT_EQUAL(reserved_now(), before_bytes + LARGE_BYTES);
    give_from(blocks, 0);
    must(dao_step_end(place));
    end();
}

/* Runs equal steps until they are served; gives how many were not. */
static uint32_t earn_again(void)
{
    enum { STEP_COUNT_MAX = 200 };
    uint32_t count = 0;
    for (whole_step(); stats_now().latest.hit_count == 0 && count < STEP_COUNT_MAX; count++) {
        whole_step();
    }
    return count;
}

static void who_departs_has_to_prove_more(void)
{
    enum { LARGE_BYTES = 100 << 20, TIMES = 3 };
    static const uint32_t first_runs[TIMES] = {4, 8, 16}; /* equal steps behind a new one */
    earn_an_arena();
    for (uint32_t i = 0; i < TIMES; i++) {
        must(dao_step_begin(place));
        must(dao_free(place, dao_alloc(place, LARGE_BYTES)));
        must(dao_step_end(place));
        CU_ASSERT_EQUAL(stats_now().given_up_count, i + 1);
        CU_ASSERT_EQUAL(earn_again(), 1 + first_runs[i]);
    }
    end();
}

/* Runs steps with a large buffer, of which the first so many have sizes of their own, until one is served;
   gives how many of the others it took. */
static uint32_t equal_steps_until_served(size_t large_bytes, uint32_t changed_count)
{
    uint32_t equal_count = 0;
    begin_at(PINNED, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    for (uint32_t step = 0; stats_now().latest.hit_count == 0 && equal_count < 100; step++) {
        uint32_t size_step = step < changed_count ? step : changed_count;
        void *blocks[BLOCK_COUNT];
        must(dao_step_begin(place));
        void *large = dao_alloc(place, large_bytes);
        take_all(blocks, MIB + size_step * KIB);
        give_from(blocks, 0);
        must(dao_free(place, large));
        must(dao_step_end(place));
        equal_count += step >= changed_count;
    }
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, BLOCK_COUNT + 1);
    end();
    return equal_count;
}

/* Without room for its largest buffer beside the arena, if that finds its place taken, or for one more. */
static void a_large_buffer_is_planned_later(void)
{
    enum { PROOF_COUNT = 8 };
    static const size_t large_bytes[] = {64 * MIB, 18 * MIB}; /* regions have 64 MiB */
    for (size_t i = 0; i < sizeof(large_bytes) / sizeof(large_bytes[0]); i++) {
        CU_ASSERT_EQUAL(equal_steps_until_served(large_bytes[i], 0),
                        PROOF_COUNT + 2); /* the first is new, the last is served */
        CU_ASSERT_TRUE(equal_steps_until_served(large_bytes[i], 5) >= 2 * PROOF_COUNT);
    }
}

/* Weights with holes between them waste a part of the place's pages, for which a plan is not to blame: the
   recorded step had as much. */
static void what_was_given_back_before_a_plan_counts(void)
{
    static const size_t paged[] = {0, 2};
    for (size_t i = 0; i < sizeof(paged) / sizeof(paged[0]); i++) {
        void *weights[BLOCK_COUNT], *holes[BLOCK_COUNT], *blocks[BLOCK_COUNT];
        begin_at(paged[i], &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
        for (uint32_t k = 0; k < BLOCK_COUNT; k++) {
            weights[k] = dao_alloc(place, 5 * MIB / 4);
            holes[k] = dao_alloc(place, 5 * MIB / 4);
        }
        give_from(holes, 0);
        for (uint32_t step = 0; step < 4; step++) {
            must(dao_step_begin(place));
            take_all(blocks, 4 * MIB);
            give_from(blocks, 0);
            must(dao_step_end(place));
            CU_ASSERT_EQUAL(stats_now().latest.hit_count, step == 0 ? 0 : BLOCK_COUNT);
            must(dao_trim(place, 0, NULL));
        }
        dao_stats_t stats;
        must(dao_stats_get(place, &stats));
        CU_ASSERT_TRUE(stats.peak_used_bytes <= stats.peak_reserved_bytes);
        give_from(weights, 0);
        end();
    }
}

/* ---- threads ---- */

enum { WORKER_COUNT = 6, ROUND_COUNT = 5, IDLE_COUNT_MAX = 3 };

/* Workers that are begun anew in each step and ask in turn, each for its own sizes. */
typedef struct team {
    _Atomic uint32_t turn;
    uint32_t worker_count;
    _Atomic uint32_t started_count;
    atomic_bool is_over; /* for threads that do nothing */
} team_t;

typedef struct worker {
    team_t *team;
    uint32_t number;
    dao_thread_t thread;
} worker_t;

static void await_turn(team_t *team, uint32_t turn)
{
    while (atomic_load(&team->turn) != turn) {
        dao_thread_yield();
    }
}

static void *work(void *user)
{
    worker_t *worker = user;
    team_t *team = worker->team;
    void *blocks[ROUND_COUNT];
    for (uint32_t i = 0; i < 2 * ROUND_COUNT; i++) {
        uint32_t round = i % ROUND_COUNT, turn = i * team->worker_count + worker->number;
        await_turn(team, turn);
        if (i < ROUND_COUNT) {
            blocks[round] = dao_alloc(place, (1 + 7 * worker->number + round) * 64 * KIB);
        } else if (dao_free(place, blocks[round]) != DAO_OK) {
            break; /* the others wait for their turn: the test does not end */
        }
        atomic_store(&team->turn, turn + 1);
    }
    return NULL;
}

static void *do_nothing(void *user)
{
    team_t *team = user;
    atomic_fetch_add(&team->started_count, 1);
    while (!atomic_load(&team->is_over)) {
        dao_thread_yield();
    }
    return NULL;
}

/* A step of workers at one time. Idle threads beside them change which identities and stacks the system hands
   out. */
static void team_step(uint32_t idle_count)
{
    team_t team = {.worker_count = WORKER_COUNT};
    worker_t workers[WORKER_COUNT];
    dao_thread_t idle[IDLE_COUNT_MAX];
    for (uint32_t i = 0; i < idle_count; i++) {
        must(dao_thread_start(&idle[i], "idle", do_nothing, &team));
    }
    must(dao_step_begin(place));
    void *own = dao_alloc(place, 3 * MIB);
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        workers[i] = (worker_t){.team = &team, .number = i};
        must(dao_thread_start(&workers[i].thread, "works", work, &workers[i]));
    }
    for (uint32_t i = 0; i < WORKER_COUNT; i++) {
        dao_thread_join(&workers[i].thread);
    }
    must(dao_free(place, own));
    must(dao_step_end(place));
    atomic_store(&team.is_over, true);
    for (uint32_t i = 0; i < idle_count; i++) {
        dao_thread_join(&idle[i]);
    }
}

static void threads_that_are_begun_anew_are_served(void)
{
    enum { STEP_COUNT = 12 };
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .trusts_program = true});
        for (uint32_t step = 0; step < STEP_COUNT; step++) {
            team_step(step % (IDLE_COUNT_MAX + 1));
            CU_ASSERT_EQUAL(stats_now().latest.request_count, 1 + WORKER_COUNT * ROUND_COUNT);
            CU_ASSERT_EQUAL(stats_now().latest.hit_count, step == 0 ? 0 : 1 + WORKER_COUNT * ROUND_COUNT);
        }
        end();
    }
}

/* More than have a lane each, one after another: those that have ended make room within the step. */
static void many_threads_in_a_step_are_served(void)
{
    enum { STEP_COUNT = 4, THREAD_COUNT = 40 };
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .trusts_program = true});
        for (uint32_t step = 0; step < STEP_COUNT; step++) {
            must(dao_step_begin(place));
            for (uint32_t k = 0; k < THREAD_COUNT; k++) {
                team_t team = {.worker_count = 1};
                worker_t worker = {.team = &team};
                must(dao_thread_start(&worker.thread, "works", work, &worker));
                dao_thread_join(&worker.thread);
            }
            must(dao_step_end(place));
            CU_ASSERT_EQUAL(stats_now().latest.hit_count, step == 0 ? 0 : THREAD_COUNT * ROUND_COUNT);
        }
        end();
    }
}

/* Blocks of two steps that another thread frees, whenever it comes to it. */
typedef struct handover {
    _Atomic(void *) blocks[2 * BLOCK_COUNT];
    atomic_bool is_over;
    bool is_wrong; /* a free was refused */
} handover_t;

static void *free_what_comes(void *user)
{
    handover_t *handover = user;
    bool is_over = false;
    while (!is_over) {
        is_over = atomic_load(&handover->is_over);
        for (uint32_t i = 0; i < 2 * BLOCK_COUNT; i++) {
            void *block = atomic_exchange(&handover->blocks[i], NULL);
            handover->is_wrong |= dao_free(place, block) != DAO_OK;
        }
        dao_thread_yield();
    }
    return NULL;
}

/* Each step asks for other sizes, so that there is something to be learnt at each border, while blocks of the
   step before are freed. */
static void another_thread_frees_across_borders(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        handover_t handover = {.is_over = false};
        dao_thread_t thread;
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
        must(dao_free(place, dao_alloc(place, 1)));
        must(dao_thread_start(&thread, "frees", free_what_comes, &handover));
        for (size_t step = 0; step < FREE_STEP_COUNT; step++) {
            DAO_STEP(place);
            for (uint32_t k = 0; k < BLOCK_COUNT; k++) {
                _Atomic(void *) *slot = &handover.blocks[step % 2 * BLOCK_COUNT + k];
                while (atomic_load(slot) != NULL) {
                    dao_thread_yield();
                }
                void *block = dao_alloc(place, (1 + (step + k) % 7 * 3 + step) * 4 * KIB);
                CU_ASSERT_PTR_NOT_NULL(block);
                atomic_store(slot, block);
            }
        }
        atomic_store(&handover.is_over, true);
        dao_thread_join(&thread);
        CU_ASSERT_FALSE(handover.is_wrong);
        end();
    }
}

static CU_TestInfo tests[] = {
    {"a block of code is a step at several places", a_block_of_code_is_an_iteration_at_several_places},
    {"every step counts until a plan serves", every_step_counts_until_a_plan_serves},
    {"what was learnt serves once nothing more is", what_was_learnt_serves_once_nothing_more_is},
    {"a step without a plan is not the last to be learnt",
     a_step_without_a_plan_is_not_the_last_to_be_learnt},
    {"a request that fails is not planned", a_request_that_fails_is_not_planned},
    {"a block that stays costs its bin no other place", a_block_that_stays_costs_its_bin_no_other_place},
    {"more frees are retired than there was room for", more_frees_are_retired_than_there_was_room_for},
    {"frees that were retired are no leaks", frees_that_were_retired_are_no_leaks},
    {"a block serves who keeps to the plan", a_block_serves_who_keeps_to_the_plan},
    {"a block does not serve who never repeats", a_block_does_not_serve_who_never_repeats},
    {"a block serves what there is once nothing more is learnt",
     a_block_serves_what_there_is_once_nothing_more_is_learnt},
    {"a block is not lost by requests that fail", a_block_is_not_lost_by_requests_that_fail},
    {"who departs loses the plan once its arena is empty",
     who_departs_loses_the_plan_once_its_arena_is_empty},
    {"who departs loses the plan at last", who_departs_loses_the_plan_at_last},
    {"who departs does not take both", who_departs_does_not_take_both},
    {"who departs has to prove more", who_departs_has_to_prove_more},
    {"a large buffer is planned later", a_large_buffer_is_planned_later},
    {"who departs loses a plan that costs pages", who_departs_loses_a_plan_that_costs_pages},
    {"a plan is kept where the place would grow without it",
     a_plan_is_kept_where_the_place_would_grow_without_it},
    {"who departs keeps a plan that costs nothing", who_departs_keeps_a_plan_that_costs_nothing},
    {"what was given back before a plan counts", what_was_given_back_before_a_plan_counts},
    {"who departs loses the plan that is made", who_departs_loses_the_plan_that_is_made},
    {"threads that are begun anew are served", threads_that_are_begun_anew_are_served},
    {"many threads in a step are served", many_threads_in_a_step_are_served},
    {"another thread frees across borders", another_thread_frees_across_borders},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"steps with plans", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

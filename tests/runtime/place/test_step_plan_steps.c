/* SPDX-License-Identifier: Apache-2.0 */
/* When a plan is made and when it serves, at each kind of place: settings of steps, first ones in which
   there is nothing to be planned, blocks that outlive the plan that they came from, deferred frees. */
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <string.h>

enum { BLOCK_COUNT = 20, FREE_STEP_COUNT = 60, TEXT_BYTES = 1 << 14 };

static const dao_place_t places[] = {{DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_DEVICE, 0}};

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

static void a_block_of_code_is_a_step_at_several_places(void)
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
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
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
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
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

/* Weights with holes between them waste a part of the place's pages, for which a plan is not to blame: the
   recorded step had as much. */
static void what_was_given_back_before_a_plan_counts(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        void *weights[BLOCK_COUNT], *holes[BLOCK_COUNT], *blocks[BLOCK_COUNT];
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
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
    enum { STEP_COUNT = 16 };
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
        for (uint32_t step = 0; step < STEP_COUNT; step++) {
            team_step(step % (IDLE_COUNT_MAX + 1));
            CU_ASSERT_EQUAL(stats_now().latest.request_count, 1 + WORKER_COUNT * ROUND_COUNT);
            CU_ASSERT_EQUAL(stats_now().latest.hit_count, step == 0 ? 0 : 1 + WORKER_COUNT * ROUND_COUNT);
        }
        end();
    }
}

/* More than have a slot each, one after another: those that have ended make room within the step. */
static void many_threads_in_a_step_are_served(void)
{
    enum { STEP_COUNT = 12, THREAD_COUNT = 40 };
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        begin_at(i, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
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

/* Each step asks for other sizes, so that there is something to be learnt at each boundary, while blocks of
   the step before are freed. */
static void another_thread_frees_across_boundaries(void)
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
    {"a block of code is a step at several places", a_block_of_code_is_a_step_at_several_places},
    {"every step counts until a plan serves", every_step_counts_until_a_plan_serves},
    {"what was learnt serves once nothing more is", what_was_learnt_serves_once_nothing_more_is},
    {"a step without a plan is not the last to be learnt",
     a_step_without_a_plan_is_not_the_last_to_be_learnt},
    {"a request that fails is not planned", a_request_that_fails_is_not_planned},
    {"a block that stays costs its bin no other place", a_block_that_stays_costs_its_bin_no_other_place},
    {"more frees are retired than there was room for", more_frees_are_retired_than_there_was_room_for},
    {"frees that were retired are no leaks", frees_that_were_retired_are_no_leaks},
    {"what was given back before a plan counts", what_was_given_back_before_a_plan_counts},
    {"threads that are begun anew are served", threads_that_are_begun_anew_are_served},
    {"many threads in a step are served", many_threads_in_a_step_are_served},
    {"another thread frees across boundaries", another_thread_frees_across_boundaries},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"steps with plans", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* step plans by the public calls: settings, each kind of place, threads, streams, who makes the
   plans. */
#define _GNU_SOURCE /* setenv */
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_COUNT = 24, THREAD_COUNT = 4 };

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t places[] = {{DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_DEVICE, 0}};

static void must(dao_status_t status)
{
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
}

static void library_start(void)
{
    must(dao_init(&(dao_config_t){.cpu = {.device_count = 1, .device_bytes = 256 * MIB}}));
}

static void library_stop(void)
{
    CU_ASSERT_EQUAL(dao_used(host) + dao_used(device) + dao_used(pinned), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void serve_at(dao_place_t place, const dao_step_plan_config_t *step_plan)
{
    dao_place_config_t config = {.step_plan = *step_plan};
    must(dao_place_configure(place, &config));
}

static dao_step_plan_stats_t stats_of(dao_place_t place)
{
    dao_step_plan_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_step_plan_stats_get(place, &stats), DAO_OK);
    return stats;
}

static size_t block_bytes(uint32_t index)
{
    return 40 * KIB + index % 7 * 12 * KIB + index * 512;
}

/* A step of blocks of which half live to its end; bytes on the host are written and checked. */
static void run_step(dao_place_t place)
{
    unsigned char *blocks[BLOCK_COUNT];
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        blocks[i] = dao_alloc(place, block_bytes(i));
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
        if (place.kind != DAO_PLACE_KIND_DEVICE) {
            memset(blocks[i], (int)i, block_bytes(i));
        }
        if (i % 2 == 1) {
            must(dao_free(place, blocks[i]));
        }
    }
    for (uint32_t i = 0; i < BLOCK_COUNT; i += 2) {
        bool is_whole = place.kind == DAO_PLACE_KIND_DEVICE ||
                        (blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, block_bytes(i) - 1) == 0);
        CU_ASSERT_TRUE(is_whole);
        must(dao_free(place, blocks[i]));
    }
}

static void whole_step(dao_place_t place)
{
    DAO_STEP(place);
    run_step(place);
}

/* ---- sentences ---- */

static void places_in_pages_can_be_served(void)
{
    enum { STEP_COUNT = 4 };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        serve_at(places[i], &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .prefault = true});
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        for (uint64_t step = 0; step < STEP_COUNT; step++) {
            whole_step(places[i]);
        }
        dao_step_plan_stats_t stats = stats_of(places[i]);
        CU_ASSERT_TRUE(stats.has_plan);
        CU_ASSERT_EQUAL(stats.latest.hit_count, BLOCK_COUNT);
        CU_ASSERT_EQUAL(stats.step_count, STEP_COUNT);
    }
}

static void a_prefaulted_arena_counts_no_block(void)
{
    dao_stats_t stats[2];
    for (int i = 0; i < 2; i++) {
        library_stop();
        library_start();
        serve_at(host, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .prefault = i == 1});
        for (int step = 0; step < 4; step++) {
            whole_step(host);
        }
        CU_ASSERT_TRUE(stats_of(host).has_plan);
        must(dao_stats_get(host, &stats[i]));
    }
    CU_ASSERT_EQUAL(stats[1].alloc_count, stats[0].alloc_count);
    CU_ASSERT_EQUAL(stats[1].free_count, stats[0].free_count);
    CU_ASSERT_EQUAL(stats[1].peak_used_bytes, stats[0].peak_used_bytes);
    CU_ASSERT_EQUAL(stats[1].used_bytes, 0);
}

static dao_status_t misuse_while_writing(const char *text, size_t text_bytes, void *user)
{
    (void)text;
    (void)text_bytes;
    (void)user;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_REENTRANT);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        size_t released_bytes;
        dao_step_plan_stats_t stats;
        CU_ASSERT_EQUAL(dao_step_begin(places[i]), DAO_ERR_REENTRANT);
        CU_ASSERT_EQUAL(dao_step_plan_stats_get(places[i], &stats), DAO_ERR_REENTRANT);
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, &released_bytes), DAO_OK);
        run_step(places[i]);
    }
    return DAO_OK;
}

static void misuse_while_looking(const dao_step_plan_lifetime_t *lifetime, void *user)
{
    CU_ASSERT_TRUE(lifetime->size_bytes > 0);
    CU_ASSERT_EQUAL(misuse_while_writing("", 0, user), DAO_OK);
}

static dao_status_t refuse_text(const char *text, size_t text_bytes, void *user)
{
    (void)text;
    (void)text_bytes;
    (void)user;
    return DAO_ERR_IO;
}

/* Pinned memory comes in segments: what is idle of them nobody else could have. */
static void a_place_in_segments_goes_on_without(void)
{
    enum { STEP_COUNT = 3 };
    serve_at(pinned, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    for (uint64_t step = 0; step < STEP_COUNT; step++) {
        whole_step(pinned);
    }
    dao_step_plan_stats_t stats = stats_of(pinned);
    CU_ASSERT_FALSE(stats.has_plan);
    CU_ASSERT_EQUAL(stats.step_count, STEP_COUNT);
    CU_ASSERT_EQUAL(stats.all.request_count + stats.arena_bytes + stats.learn_count, 0);
    CU_ASSERT_EQUAL(dao_step_plan_save(pinned, refuse_text, NULL), DAO_ERR_NOT_READY);
}

static void a_plan_is_shown_to_who_may_do_all_but_serve_and_stop(void)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        serve_at(places[i], &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        whole_step(places[i]);
        whole_step(places[i]);
    }
    CU_ASSERT_EQUAL(dao_step_plan_save(host, misuse_while_writing, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_plan_save(host, refuse_text, NULL), DAO_ERR_IO);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_step_plan_save"));
    CU_ASSERT_EQUAL(dao_step_begin(host), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_plan_save(host, misuse_while_writing, NULL), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_step_end(host), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_plan_walk(host, misuse_while_looking, NULL), DAO_OK);
}

static void bins_serve_every_order(void)
{
    serve_at(host, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_BINS});
    whole_step(host);
    for (int step = 0; step < 4; step++) {
        void *blocks[BLOCK_COUNT];
        must(dao_step_begin(host));
        for (uint32_t i = 0; i < BLOCK_COUNT; i += 2) { /* in another order, and each freed at once */
            blocks[i] = dao_alloc(host, block_bytes(BLOCK_COUNT - 1 - i));
            CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
            must(dao_free(host, blocks[i]));
        }
        must(dao_free(host, dao_alloc(host, 90 * MIB)));
        must(dao_free(host, dao_alloc(host, 100)));
        must(dao_step_end(host));
        dao_step_plan_stats_t stats = stats_of(host);
        CU_ASSERT_TRUE(step > 0 || stats.latest.hit_count == BLOCK_COUNT / 2);
        CU_ASSERT_EQUAL(stats.latest.small_count, 1);
        CU_ASSERT_EQUAL(stats.latest.null_bin_count + stats.latest.hit_count + stats.latest.missed_count,
                        stats.latest.request_count);
        CU_ASSERT_TRUE(step > 0 || stats.latest.null_bin_count == 1);
    }
}

enum { BIN_STEP_COUNT = 6, BIN_BLOCK_COUNT = 200, BIN_LIVE_COUNT = 32 };

/* A step whose sizes differ a little from those of other steps; a tenth of its blocks are of sizes that no
   other step has. */
static void changing_step(dao_place_t place, uint64_t *state)
{
    void *live[BIN_LIVE_COUNT] = {NULL};
    DAO_STEP(place);
    for (uint32_t i = 0; i < BIN_BLOCK_COUNT + BIN_LIVE_COUNT; i++) {
        void **slot = &live[i % BIN_LIVE_COUNT];
        must(dao_free(place, *slot));
        uint64_t drawn = dao_random_next(state);
        size_t strange_bytes = drawn % 10 == 0 ? drawn / 10 % MIB : 0;
        *slot =
            i < BIN_BLOCK_COUNT ? dao_alloc(place, block_bytes(i % 40) + drawn % 128 + strange_bytes) : NULL;
    }
}

static void bins_serve_sizes_that_change(void)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint64_t state = dao_test_seed("bins at two places", 11);
        serve_at(places[i], &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_BINS});
        void *stays = dao_alloc(places[i], 3 * MIB);
        for (int step = 0; step < BIN_STEP_COUNT; step++) {
            changing_step(places[i], &state);
        }
        must(dao_free(places[i], stays));
        dao_step_counts_t all = stats_of(places[i]).all;
        CU_ASSERT_TRUE(stats_of(places[i]).has_plan);
        CU_ASSERT_TRUE(5 * all.hit_count >= 4 * (all.request_count - BIN_BLOCK_COUNT));
    }
}

static void a_place_that_is_not_configured_has_no_plans(void)
{
    dao_step_plan_stats_t stats;
    must(dao_step_begin(host));
    must(dao_step_end(host));
    CU_ASSERT_EQUAL(dao_step_plan_stats_get(host, &stats), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_step_plan_enable(host, true), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_step_plan_reset(host), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_step_plan_wait(host, 0), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_step_plan_load(host, "", 0), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_step_begin(dao_device_place(7)), DAO_ERR_NO_DEVICE);
}

static void wrong_settings_are_refused(void)
{
    static const dao_step_plan_config_t wrong[] = {
        {.mode = (dao_step_plan_mode_t)9},
        {.mode = (dao_step_plan_mode_t)-1},
        {.worker = DAO_STEP_PLAN_WORKER_SUBMIT},
        {.worker = (dao_step_plan_worker_t)3},
        {.method = DAO_PLAN_METHOD_COUNT},
        {.allocation_count = DAO_STEP_PLAN_ALLOCATION_COUNT_MAX + 1},
        {.mode = DAO_STEP_PLAN_BINS,
         .worker = DAO_STEP_PLAN_WORKER_THREAD}, /* a step's beginning makes them */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_place_config_t config = {.step_plan = wrong[i]};
        CU_ASSERT_EQUAL(dao_place_configure(host, &config), DAO_ERR_INVALID);
    }
    dao_step_plan_mode_t mode = DAO_STEP_PLAN_DEFAULT;
    CU_ASSERT_EQUAL(dao_step_plan_mode_parse("bins", &mode), DAO_OK);
    CU_ASSERT_EQUAL(mode, DAO_STEP_PLAN_BINS);
    CU_ASSERT_EQUAL(dao_step_plan_mode_parse("bin", &mode), DAO_ERR_INVALID);
    CU_ASSERT_STRING_EQUAL(dao_step_plan_mode_name(DAO_STEP_PLAN_OFFSETS), "offsets");
}

static void the_environment_says_what_a_config_does_not(void)
{
    library_stop();
    CU_ASSERT_EQUAL(setenv("DAO_STEP_PLAN", "slabs", 1), 0);
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(setenv("DAO_STEP_PLAN", "offsets", 1), 0);
    CU_ASSERT_EQUAL(setenv("DAO_STEP_PLAN_START", "x", 1), 0);
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(setenv("DAO_STEP_PLAN_START", "1", 1), 0);
    library_start();
    whole_step(host);
    CU_ASSERT_EQUAL(stats_of(host).learn_count, 0);
    whole_step(host);
    CU_ASSERT_EQUAL(stats_of(host).learn_count, 1);
    CU_ASSERT_EQUAL(unsetenv("DAO_STEP_PLAN") + unsetenv("DAO_STEP_PLAN_START"), 0);
}

static void a_thread_makes_the_plan(void)
{
    serve_at(host,
             &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .worker = DAO_STEP_PLAN_WORKER_THREAD});
    whole_step(host);
    must(dao_step_plan_wait(host, UINT64_MAX));
    whole_step(host);
    CU_ASSERT_EQUAL(stats_of(host).latest.hit_count, BLOCK_COUNT);
}

static dao_plan_run_func_t submitted_run;
static void *submitted_argument;

static void submit(dao_plan_run_func_t run, void *argument, void *user)
{
    (void)user;
    submitted_run = run;
    submitted_argument = argument;
}

static void run_what_was_submitted(void)
{
    while (submitted_run != NULL) {
        dao_plan_run_func_t run = submitted_run;
        submitted_run = NULL;
        run(submitted_argument);
    }
}

static void the_programs_executor_makes_the_plan(void)
{
    serve_at(host, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS,
                                             .worker = DAO_STEP_PLAN_WORKER_SUBMIT,
                                             .submit = submit});
    submitted_run = NULL;
    whole_step(host);
    CU_ASSERT_EQUAL(dao_step_plan_wait(host, 0), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(dao_step_plan_reset(host), DAO_ERR_BUSY);
    whole_step(host);
    CU_ASSERT_EQUAL(stats_of(host).latest.hit_count, 0);
    run_what_was_submitted();
    must(dao_step_plan_wait(host, UINT64_MAX));
    whole_step(host);
    CU_ASSERT_EQUAL(stats_of(host).latest.hit_count, BLOCK_COUNT);
}

/* What is refused within a step must not take the step's plans away. */
static void a_plan_that_is_done_within_a_step_waits_for_the_next(void)
{
    serve_at(host, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS,
                                             .worker = DAO_STEP_PLAN_WORKER_SUBMIT,
                                             .submit = submit});
    submitted_run = NULL;
    whole_step(host);
    run_what_was_submitted();
    whole_step(host); /* follows it; the next one is another, for which a plan is asked for */
    must(dao_step_begin(host));
    void *large = dao_alloc(host, 8 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    must(dao_free(host, large));
    must(dao_step_end(host));
    must(dao_step_begin(host));
    run_what_was_submitted();
    CU_ASSERT_EQUAL(dao_step_plan_reset(host), DAO_ERR_BUSY);
    run_step(host);
    must(dao_step_end(host));
    CU_ASSERT_EQUAL(stats_of(host).plan_count, 1);
    CU_ASSERT_EQUAL(stats_of(host).latest.hit_count, BLOCK_COUNT);
    must(dao_step_plan_reset(host));
    CU_ASSERT_EQUAL(stats_of(host).plan_count, 2);
}

static void keys_tell_requests_apart_in_any_order(void)
{
    serve_at(host, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    for (uint32_t step = 0; step < 3; step++) {
        void *blocks[BLOCK_COUNT];
        must(dao_step_begin(host));
        for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
            uint32_t index = step % 2 == 0 ? i : BLOCK_COUNT - 1 - i;
            CU_ASSERT_EQUAL(dao_step_plan_key_set(index + 1), 0);
            blocks[i] = dao_alloc(host, block_bytes(index));
            CU_ASSERT_EQUAL(dao_step_plan_key_set(0), index + 1);
        }
        for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
            must(dao_free(host, blocks[i]));
        }
        must(dao_step_end(host));
        CU_ASSERT_EQUAL(stats_of(host).latest.hit_count, step == 0 ? 0 : BLOCK_COUNT);
    }
}

static void note(const dao_step_plan_lifetime_t *lifetime, void *user)
{
    uint32_t *count = user;
    CU_ASSERT_EQUAL(lifetime->begin, *count);
    CU_ASSERT_EQUAL(lifetime->size_bytes, block_bytes(*count));
    CU_ASSERT_EQUAL(lifetime->end, *count % 2 == 1 ? *count + 1 : BLOCK_COUNT);
    CU_ASSERT_TRUE(lifetime->begin_ns > 0 && lifetime->end_ns >= lifetime->begin_ns);
    (*count)++;
}

static void lifetimes_can_be_looked_at(void)
{
    uint32_t count = 0;
    serve_at(host, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .records_time = true});
    whole_step(host);
    must(dao_step_plan_walk(host, note, &count));
    CU_ASSERT_EQUAL(count, BLOCK_COUNT);
    must(dao_step_begin(host));
    CU_ASSERT_EQUAL(dao_step_plan_walk(host, note, &count), DAO_ERR_BUSY);
    must(dao_step_end(host));
    CU_ASSERT_EQUAL(dao_step_end(host), DAO_ERR_INVALID);
}

static void a_hardened_place_is_served_behind_its_guards(void)
{
    dao_place_config_t config = {.hardening = DAO_HARDENING_GUARD,
                                 .step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}};
    must(dao_place_configure(host, &config));
    whole_step(host);
    whole_step(host);
    CU_ASSERT_EQUAL(stats_of(host).latest.hit_count, BLOCK_COUNT);
    must(dao_hardening_check(host));
}

/* ---- threads ---- */

static void *thread_run(void *user)
{
    (void)user;
    for (int step = 0; step < 20; step++) {
        whole_step(device);
        void *block = dao_alloc(device, 3 * MIB); /* outside of this thread's step, perhaps not of others' */
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        must(dao_free(device, block));
    }
    return NULL;
}

static void threads_share_steps(void)
{
    dao_thread_t threads[THREAD_COUNT];
    serve_at(device,
             &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .worker = DAO_STEP_PLAN_WORKER_THREAD});
    for (int i = 0; i < THREAD_COUNT; i++) {
        must(dao_thread_start(&threads[i], "steps", thread_run, NULL));
    }
    for (int i = 0; i < 30; i++) {
        dao_stats_t stats;
        CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
        (void)dao_used(device);
        (void)dao_trim(device, 0, NULL);
        dao_thread_yield();
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    must(dao_step_plan_wait(device, UINT64_MAX));
    CU_ASSERT_EQUAL(stats_of(device).all.dropped_count, 0);
}

/* ---- streams ---- */

static void fill_slowly(void *user)
{
    dao_sleep_until(dao_clock_ns() + 2000000);
    memset(user, 0xee, block_bytes(0));
}

/* A block that is freed in stream order goes to its own stream at once, and to others behind an event. */
static void the_order_of_streams_is_kept_in_the_arena(void)
{
    dao_stream_t *first = NULL, *second = NULL;
    serve_at(device, &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS});
    must(dao_stream_create(0, &first));
    must(dao_stream_create(0, &second));
    for (int step = 0; step < 6; step++) {
        unsigned char *block, *other;
        unsigned char bytes[16];
        must(dao_step_begin(device));
        block = dao_alloc_async(device, block_bytes(0), first);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        must(dao_stream_host_func(first, fill_slowly, block));
        must(dao_free_async(device, block, first));
        other = dao_alloc_async(device, block_bytes(0), second); /* the same place, behind the writes */
        CU_ASSERT_PTR_NOT_NULL_FATAL(other);
        must(dao_stream_host_func(second, fill_slowly, other));
        must(dao_stream_synchronize(second));
        must(dao_copy(host, bytes, device, other, sizeof(bytes)));
        CU_ASSERT_EQUAL(bytes[7], 0xee);
        must(dao_free_async(device, other, second));
        must(dao_step_end(device));
        CU_ASSERT_TRUE(step == 0 || stats_of(device).latest.hit_count == 2);
    }
    must(dao_stream_synchronize(first));
    dao_stream_destroy(first);
    dao_stream_destroy(second);
}

/* A block that follows no stream cannot be freed behind one: such a free is not deferred, which would lose
 * it. */
static void deferred_frees_in_stream_order_are_made(void)
{
    static const dao_step_plan_mode_t modes[] = {DAO_STEP_PLAN_OFFSETS, DAO_STEP_PLAN_BINS};
    for (int m = 0; m < 2; m++) {
        serve_at(device, &(dao_step_plan_config_t){
                             .mode = modes[m], .defers_frees = true, .smallest_bytes = m == 1 ? 1 : 0});
        for (uint32_t step = 0; step < 16; step++) {
            must(dao_step_begin(device));
            for (uint32_t i = 0; i < 200 + 50 * (step % 7); i++) {
                void *block = dao_alloc(device, m == 0 ? 1000 : 100 + (step * 37 + i * 11) % 3000);
                CU_ASSERT_PTR_NOT_NULL_FATAL(block);
                must(dao_free_async(device, block, NULL));
                CU_ASSERT_EQUAL(dao_free_async(device, block, NULL), DAO_ERR_DOUBLE_FREE);
            }
            must(dao_step_end(device));
            CU_ASSERT_EQUAL(dao_used(device), 0);
        }
        library_stop();
        library_start();
    }
}

static void a_deferred_free_hides_no_overflow(void)
{
    dao_place_config_t config = {.hardening = DAO_HARDENING_GUARD,
                                 .step_plan = {.mode = DAO_STEP_PLAN_OFFSETS, .defers_frees = true}};
    must(dao_place_configure(device, &config));
    must(dao_step_begin(device));
    char *block = dao_alloc(device, 1000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    block[1000] ^= 1;
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_ERR_CORRUPT);
    must(dao_step_end(device));
    CU_ASSERT_EQUAL(dao_hardening_check(device), DAO_ERR_CORRUPT);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_CORRUPT);
    library_start();
}

static CU_TestInfo tests[] = {
    {"places in pages can be served", places_in_pages_can_be_served},
    {"a place in segments goes on without", a_place_in_segments_goes_on_without},
    {"a prefaulted arena counts no block", a_prefaulted_arena_counts_no_block},
    {"a plan is shown to who may do all but serve and stop",
     a_plan_is_shown_to_who_may_do_all_but_serve_and_stop},
    {"bins serve every order", bins_serve_every_order},
    {"bins serve sizes that change", bins_serve_sizes_that_change},
    {"a place that is not configured has no plans", a_place_that_is_not_configured_has_no_plans},
    {"wrong settings are refused", wrong_settings_are_refused},
    {"the environment says what a config does not", the_environment_says_what_a_config_does_not},
    {"a thread makes the plan", a_thread_makes_the_plan},
    {"the program's executor makes the plan", the_programs_executor_makes_the_plan},
    {"a plan that is done within a step waits for the next",
     a_plan_that_is_done_within_a_step_waits_for_the_next},
    {"keys tell requests apart in any order", keys_tell_requests_apart_in_any_order},
    {"lifetimes can be looked at", lifetimes_can_be_looked_at},
    {"a hardened place is served behind its guards", a_hardened_place_is_served_behind_its_guards},
    {"deferred frees in stream order are made", deferred_frees_in_stream_order_are_made},
    {"a deferred free hides no overflow", a_deferred_free_hides_no_overflow},
    {"threads share steps", threads_share_steps},
    {"the order of streams is kept in the arena", the_order_of_streams_is_kept_in_the_arena},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"step_plan", NULL, NULL, library_start, library_stop, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tags: budgets, names, what each tag holds at a place, and its limits. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/pressure.h>
#include <dao/stats.h>
#include <dao/stream.h>
#include <dao/tag.h>

#include "allocators/accounting/budget.h"
#include "allocators/accounting/ledger.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define THREADS     6
#define PLACE_COUNT 3

static const dao_place_t places[PLACE_COUNT] = {
    {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};

/* Takes a status that a test does not care about. */
static void ignore(dao_status_t status)
{
    (void)status;
}

static dao_tag_t tag_named(const char *name)
{
    dao_tag_t tag = 0;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create(name, &tag), DAO_OK);
    return tag;
}

static void threads_run(void *(*function)(void *), void *users, size_t user_bytes)
{
    dao_thread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "tags", function, (char *)users + i * user_bytes),
                              DAO_OK);
    }
    for (size_t i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
    }
}

/* ---- budgets ---- */

static void a_budget_is_taken_to_the_last_byte_and_no_further(void)
{
    dao_budget_t budget = {0};
    CU_ASSERT_EQUAL(dao_budget_room(&budget), UINT64_MAX);
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 100));
    CU_ASSERT_TRUE(dao_budget_take(&budget, 60));
    CU_ASSERT_FALSE(dao_budget_take(&budget, 41));
    CU_ASSERT_FALSE(dao_budget_take(&budget, UINT64_MAX));
    CU_ASSERT_EQUAL(dao_budget_room(&budget), 40);
    CU_ASSERT_TRUE(dao_budget_take(&budget, 40));
    CU_ASSERT_EQUAL(dao_budget_room(&budget), 0);
    CU_ASSERT_EQUAL(budget.peak_bytes, 0);
    dao_budget_note(&budget);
    dao_budget_give(&budget, 30);
    dao_budget_note(&budget);
    CU_ASSERT_EQUAL(budget.used_bytes, 70);
    CU_ASSERT_EQUAL(budget.peak_bytes, 100);
    CU_ASSERT_FALSE(dao_budget_limit_set(&budget, 69));
    CU_ASSERT_EQUAL(budget.limit_bytes, 100);
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 70));
    CU_ASSERT_FALSE(dao_budget_take(&budget, 1));
    CU_ASSERT_TRUE(dao_budget_is_valid(&budget));
}

static void a_budget_without_a_limit_does_not_wrap_around(void)
{
    dao_budget_t budget = {0};
    CU_ASSERT_TRUE(dao_budget_take(&budget, UINT64_MAX - 1));
    CU_ASSERT_FALSE(dao_budget_take(&budget, 2));
    CU_ASSERT_TRUE(dao_budget_take(&budget, 1));
}

static dao_budget_t shared_budget;
static _Atomic uint64_t taken_count;

static void *take_until_refused(void *user)
{
    (void)user;
    while (dao_budget_take(&shared_budget, 3)) {
        dao_budget_note(&shared_budget);
        atomic_fetch_add(&taken_count, 1);
    }
    return NULL;
}

static void threads_take_a_budget_to_its_last_piece(void)
{
    char users[THREADS];
    shared_budget = (dao_budget_t){0};
    taken_count = 0;
    CU_ASSERT_TRUE(dao_budget_limit_set(&shared_budget, 30002));
    threads_run(take_until_refused, users, 1);
    CU_ASSERT_EQUAL(taken_count, 10000); /* a refusal made nobody else's smaller take fail */
    CU_ASSERT_EQUAL(shared_budget.peak_bytes, 30000);
    CU_ASSERT_TRUE(dao_budget_is_valid(&shared_budget));
}

static _Atomic uint64_t held_bytes; /* what was surely taken and not given back */
static _Atomic bool takes_end;

static void *take_and_give(void *user)
{
    uint64_t state = *(const uint64_t *)user;
    while (!atomic_load(&takes_end)) {
        uint64_t bytes = dao_random_next(&state) % 50 + 1;
        if (dao_budget_take(&shared_budget, bytes)) {
            atomic_fetch_add(&held_bytes, bytes);
            atomic_fetch_sub(&held_bytes, bytes);
            dao_budget_give(&shared_budget, bytes);
        }
    }
    return NULL;
}

static void a_limit_that_was_set_holds_at_once(void)
{
    uint64_t seeds[THREADS];
    dao_thread_t threads[THREADS];
    uint64_t state = dao_test_seed("a limit that was set holds at once", 11);
    shared_budget = (dao_budget_t){0};
    held_bytes = 0;
    takes_end = false;
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = dao_random_next(&state);
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "take", take_and_give, &seeds[i]), DAO_OK);
    }
    int set_count = 0;
    for (int i = 0; i < 2000 || set_count == 0; i++) {
        uint64_t limit_bytes = dao_random_next(&state) % 100 + 1;
        if (dao_budget_limit_set(&shared_budget, limit_bytes)) {
            set_count++;
            CU_ASSERT_TRUE(atomic_load(&held_bytes) <= limit_bytes);
        }
    }
    atomic_store(&takes_end, true);
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(shared_budget.used_bytes, 0);
}

/* ---- names ---- */

static void a_name_has_one_tag(void)
{
    dao_tag_t weights = tag_named("weights");
    dao_tag_t cache = tag_named("cache");
    CU_ASSERT_NOT_EQUAL(weights, 0);
    CU_ASSERT_NOT_EQUAL(weights, cache);
    CU_ASSERT_EQUAL(tag_named("weights"), weights);
    CU_ASSERT_STRING_EQUAL(dao_tag_name(weights), "weights");
    CU_ASSERT_STRING_EQUAL(dao_tag_name(0), "");
    CU_ASSERT_STRING_EQUAL(dao_tag_name(UINT32_MAX), "");
}

static void a_name_that_cannot_be_shown_is_refused(void)
{
    char longest[DAO_TAG_NAME_BYTES + 1];
    memset(longest, 'x', sizeof(longest));
    longest[DAO_TAG_NAME_BYTES] = '\0';
    dao_tag_t tag = 77;
    CU_ASSERT_EQUAL(dao_tag_create(longest, &tag), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_create("", &tag), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_create("two\nlines", &tag), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_create("\x7f", &tag), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_create(NULL, &tag), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_create("name", NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(tag, 77);
    longest[DAO_TAG_NAME_BYTES - 1] = '\0';
    CU_ASSERT_EQUAL(dao_tag_create(longest, &tag), DAO_OK);
    CU_ASSERT_STRING_EQUAL(dao_tag_name(tag), longest);
    CU_ASSERT_EQUAL(dao_tag_create("gewichte \xc3\xa4", &tag), DAO_OK);
}

#define SHARED_NAMES 40

typedef struct namer {
    dao_tag_t tags[SHARED_NAMES];
} namer_t;

static void *add_names(void *user)
{
    namer_t *namer = user;
    for (int i = 0; i < SHARED_NAMES; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "shared %d", i);
        if (dao_tag_create(name, &namer->tags[i]) != DAO_OK) {
            namer->tags[i] = 0;
        }
    }
    return NULL;
}

static void threads_that_add_a_name_get_the_same_tag(void)
{
    namer_t namers[THREADS];
    threads_run(add_names, namers, sizeof(namers[0]));
    for (int i = 0; i < SHARED_NAMES; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "shared %d", i);
        CU_ASSERT_STRING_EQUAL(dao_tag_name(namers[0].tags[i]), name);
        for (int j = 1; j < THREADS; j++) {
            CU_ASSERT_EQUAL(namers[j].tags[i], namers[0].tags[i]);
        }
    }
}

/* The last test: it uses up what the process has. */
static void the_table_of_names_ends_with_an_error(void)
{
    char name[32];
    dao_tag_t tag = 0;
    dao_status_t status = DAO_OK;
    uint32_t count = 0;
    for (; status == DAO_OK && count <= DAO_TAG_COUNT_MAX; count++) {
        (void)snprintf(name, sizeof(name), "one more %u", count);
        status = dao_tag_create(name, &tag);
    }
    CU_ASSERT_EQUAL(status, DAO_ERR_TOO_MANY);
    CU_ASSERT_EQUAL(tag, DAO_TAG_COUNT_MAX - 1);
    CU_ASSERT_EQUAL(tag_named("weights"), 1); /* those that are there are still found */
}

/* ---- at a place ---- */

static int place_begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK;
}

static int place_end(void)
{
    return dao_finalize() != DAO_OK;
}

static dao_tag_stats_t stats_of(dao_place_t place, dao_tag_t tag)
{
    dao_tag_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_tag_stats_get(place, tag, &stats), DAO_OK);
    return stats;
}

static void a_thread_counts_for_its_current_tag(void)
{
    dao_tag_t first = tag_named("first"), second = tag_named("second");
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_tag_set_current(first), 0);
        void *a = dao_alloc(places[i], 1000);
        CU_ASSERT_EQUAL(dao_tag_set_current(second), first);
        void *b = dao_alloc(places[i], 100 * KIB);
        CU_ASSERT_EQUAL(dao_tag_set_current(UINT32_MAX), second); /* no tag is nobody */
        void *c = dao_alloc(places[i], 10);
        CU_ASSERT_EQUAL(dao_tag_set_current(0), 0);
        CU_ASSERT_EQUAL(stats_of(places[i], first).used_bytes, 1024);
        CU_ASSERT_EQUAL(stats_of(places[i], second).used_bytes, 100 * KIB);
        CU_ASSERT_EQUAL(dao_free(places[i], a),
                        DAO_OK); /* for whom it was allocated, not for whom it is now */
        CU_ASSERT_EQUAL(dao_free(places[i], b), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], c), DAO_OK);
        dao_tag_stats_t stats = stats_of(places[i], first);
        CU_ASSERT_EQUAL(stats.used_bytes, 0);
        CU_ASSERT_EQUAL(stats.peak_used_bytes, 1024);
        CU_ASSERT_EQUAL(stats.live_count, 0);
        CU_ASSERT_EQUAL(stats.alloc_count, 1);
        CU_ASSERT_EQUAL(stats.free_count, 1);
    }
}

static void a_block_can_name_its_tag_and_alignment(void)
{
    dao_tag_t current = tag_named("current"), named = tag_named("named");
    CU_ASSERT_EQUAL(dao_tag_set_current(current), 0);
    for (int i = 0; i < PLACE_COUNT; i++) {
        for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
            dao_alloc_options_t options = {.alignment_bytes = alignment, .tag = named};
            void *between = dao_alloc(places[i], 300);
            void *block = dao_alloc_with(places[i], 100, &options);
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            CU_ASSERT_EQUAL((uintptr_t)block % alignment, 0);
            CU_ASSERT_EQUAL(stats_of(places[i], named).live_count, 1);
            CU_ASSERT_EQUAL(stats_of(places[i], current).live_count, 1);
            CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
            CU_ASSERT_EQUAL(dao_free(places[i], between), DAO_OK);
        }
        void *block = dao_alloc_with(places[i], 100, NULL);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(stats_of(places[i], current).live_count, 1);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_tag_set_current(0), current);
}

static void wrong_options_are_refused(void)
{
    static const size_t wrong_alignments[] = {3, 96, SIZE_MAX};
    for (size_t i = 0; i < 3; i++) {
        dao_alloc_options_t options = {.alignment_bytes = wrong_alignments[i]};
        CU_ASSERT_PTR_NULL(dao_alloc_with(places[2], 100, &options));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    }
    dao_alloc_options_t options = {.tag = DAO_TAG_COUNT_MAX};
    CU_ASSERT_PTR_NULL(dao_alloc_with(places[2], 100, &options));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    dao_tag_stats_t stats;
    CU_ASSERT_EQUAL(dao_tag_stats_get(places[0], 0, &stats), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_stats_get(places[0], DAO_TAG_COUNT_MAX, &stats), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_stats_get(places[0], 1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_limit_set(places[0], 0, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tag_walk(places[0], NULL, NULL), DAO_ERR_INVALID);
    dao_place_t nowhere = {DAO_PLACE_KIND_DEVICE, 2};
    dao_tag_t tag = tag_named("weights");
    CU_ASSERT_EQUAL(dao_tag_stats_get(nowhere, tag, &stats), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_tag_limit_set(nowhere, tag, 1), DAO_ERR_NO_DEVICE);
}

/* As what dao_free_async() frees does. */
static void a_handle_counts_until_its_release(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_tag_t tag = tag_named("handle");
    dao_stream_t *stream = NULL;
    dao_memory_t *memory = NULL;
    dao_gate_t gate;
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(dao_tag_set_current(tag), 0);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1 * MIB, stream, &memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_host_func(stream, dao_gate_wait, &gate), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(device, tag).used_bytes, 1 * MIB);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(device, tag).used_bytes, 0);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, tag, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, tag, 0), DAO_OK);
    dao_gate_open(&gate);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL(dao_tag_set_current(0), tag);
    dao_gate_finish(&gate);
}

/* Whatever was tried on the way: the place's cache is flushed. A callback, which would free a block of
   another tag, is not asked. */
static size_t free_another(dao_place_t place, size_t needed_bytes, void *user)
{
    void **block = user;
    CU_ASSERT_TRUE(needed_bytes > 0);
    CU_ASSERT_EQUAL(dao_free(place, *block), DAO_OK);
    *block = NULL;
    return 4096;
}

static void one_refused_request_is_counted_once(void)
{
    dao_tag_t tag = tag_named("refused");
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_free(places[i], dao_alloc(places[i], 1000)), DAO_OK); /* there is a slab */
        CU_ASSERT_EQUAL(dao_tag_limit_set(places[i], tag, 1 * MIB), DAO_OK);
        dao_alloc_options_t options = {.tag = tag};
        void *first = dao_alloc_with(places[i], 900 * KIB, &options);
        CU_ASSERT_PTR_NOT_NULL(first);
        for (uint64_t count = 1; count <= 3; count++) {
            uint64_t id = 0;
            void *other = dao_alloc(places[i], 4096);
            CU_ASSERT_EQUAL(dao_pressure_callback_add(places[i], free_another, &other, &id), DAO_OK);
            size_t size_bytes = count == 1 ? 900 * KIB : 200 * KIB;
            CU_ASSERT_PTR_NULL(dao_alloc_with(places[i], size_bytes, &options));
            CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
            CU_ASSERT_EQUAL(stats_of(places[i], tag).refused_count, count);
            CU_ASSERT_EQUAL(dao_pressure_callback_remove(id), DAO_OK);
            CU_ASSERT_PTR_NOT_NULL(other);
            CU_ASSERT_EQUAL(dao_free(places[i], other), DAO_OK);
        }
        CU_ASSERT_EQUAL(dao_tag_set_current(tag), 0);
        if (i > 0) { /* in stream order too */
            CU_ASSERT_PTR_NULL(dao_alloc_async(places[i], 200 * KIB, NULL));
            CU_ASSERT_EQUAL(stats_of(places[i], tag).refused_count, 4);
        }
        CU_ASSERT_EQUAL(dao_tag_set_current(0), tag);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], SIZE_MAX / 2)); /* for another reason, and for nobody */
        CU_ASSERT_EQUAL(stats_of(places[i], tag).refused_count, i > 0 ? 4 : 3);
        CU_ASSERT_EQUAL(dao_free(places[i], first), DAO_OK);
        CU_ASSERT_EQUAL(dao_tag_limit_set(places[i], tag, 0), DAO_OK);
    }
}

static dao_place_t hammered_place;
static dao_tag_t hammered_tag;

typedef struct taker {
    void *blocks[64];
    int count;
} taker_t;

static void *take_blocks(void *user)
{
    taker_t *taker = user;
    dao_alloc_options_t options = {.tag = hammered_tag};
    for (int i = 0; i < 64; i++) {
        void *block = dao_alloc_with(hammered_place, 4096, &options);
        if (block != NULL) {
            taker->blocks[taker->count++] = block;
        }
    }
    return NULL;
}

static void threads_fill_a_tag_to_its_last_block(void)
{
    hammered_tag = tag_named("hammered");
    for (int i = 0; i < PLACE_COUNT; i++) {
        static taker_t takers[THREADS];
        memset(takers, 0, sizeof(takers));
        hammered_place = places[i];
        CU_ASSERT_EQUAL(dao_tag_limit_set(places[i], hammered_tag, 100 * 4096 + 4095), DAO_OK);
        threads_run(take_blocks, takers, sizeof(takers[0]));
        int count = 0;
        for (int j = 0; j < THREADS; j++) {
            count += takers[j].count;
        }
        CU_ASSERT_EQUAL(count, 100);
        dao_tag_stats_t stats = stats_of(places[i], hammered_tag);
        CU_ASSERT_EQUAL(stats.used_bytes, 100 * 4096);
        CU_ASSERT_EQUAL(stats.peak_used_bytes, 100 * 4096);
        CU_ASSERT_EQUAL(stats.refused_count, THREADS * 64 - 100);
        for (int j = 0; j < THREADS; j++) {
            while (takers[j].count > 0) {
                CU_ASSERT_EQUAL(dao_free(places[i], takers[j].blocks[--takers[j].count]), DAO_OK);
            }
        }
        CU_ASSERT_EQUAL(stats_of(places[i], hammered_tag).used_bytes, 0);
    }
}

typedef struct seen {
    dao_tag_t last;
    uint64_t used_bytes;
    int count;
} seen_t;

static void see_tag(dao_tag_t tag, const dao_tag_stats_t *stats, void *user)
{
    seen_t *seen = user;
    CU_ASSERT_TRUE(tag > seen->last);
    CU_ASSERT_TRUE(stats->alloc_count > 0 || stats->limit_bytes > 0);
    seen->last = tag;
    seen->used_bytes += stats->used_bytes;
    seen->count++;
}

static void a_walk_shows_the_tags_of_a_place(void)
{
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, 1};
    dao_alloc_options_t one = {.tag = tag_named("one")}, two = {.tag = tag_named("two")};
    ignore(dao_tag_limit_set(place, tag_named("limited"), 5));
    void *a = dao_alloc_with(place, 1000, &one);
    void *b = dao_alloc_with(place, 5000, &two);
    void *c = dao_alloc(place, 700);
    seen_t seen = {0};
    CU_ASSERT_EQUAL(dao_tag_walk(place, see_tag, &seen), DAO_OK);
    CU_ASSERT_EQUAL(seen.count, 3);
    CU_ASSERT_EQUAL(seen.used_bytes, 1024 + 5120);
    CU_ASSERT_EQUAL(dao_used(place), seen.used_bytes + 768);
    CU_ASSERT_EQUAL(dao_free(place, a), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(place, b), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(place, c), DAO_OK);
}

/* Nobody ever had it: the place is full, not the tag. */
static void what_could_not_be_had_is_no_peak(void)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        dao_alloc_options_t options = {.tag = tag_named("peaks")};
        dao_tag_stats_t stats;
        CU_ASSERT_EQUAL(dao_limit_set(places[i], 32 * MIB), DAO_OK);
        void *block = dao_alloc_with(places[i], 1 * MIB, &options);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_PTR_NULL(dao_alloc_with(places[i], 64 * MIB, &options));
        CU_ASSERT_EQUAL(dao_tag_stats_get(places[i], options.tag, &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.peak_used_bytes, 1 * MIB);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_limit_set(places[i], 0), DAO_OK);
    }
}

static void stop_in_the_middle(dao_tag_t tag, const dao_tag_stats_t *stats, void *user)
{
    (void)tag;
    (void)stats;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_REENTRANT);
    (*(int *)user)++;
}

static void the_library_is_not_stopped_in_a_walk(void)
{
    int call_count = 0;
    CU_ASSERT_EQUAL(dao_tag_limit_set(places[0], tag_named("first"), 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(places[0], tag_named("second"), 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_walk(places[0], stop_in_the_middle, &call_count), DAO_OK);
    CU_ASSERT_TRUE(call_count >= 2);
    CU_ASSERT_EQUAL(dao_tag_limit_set(places[0], tag_named("first"), 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(places[0], tag_named("second"), 0), DAO_OK);
}

#if defined(DAO_FAULTS)
static void a_failure_leaves_no_charge_behind(void)
{
    dao_alloc_options_t options = {.tag = tag_named("failing")};
    static const size_t sizes[] = {100, 4096, 200 * KIB, 5 * MIB};
    for (int i = 0; i < PLACE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            uint64_t fired = 1;
            for (uint64_t n = 0; fired > 0; n++) {
                ignore(dao_trim(places[i], 0, NULL));
                dao_fault_arm(DAO_FAULT_ANY, n, true);
                void *block = dao_alloc_with(places[i], sizes[j], &options);
                fired = dao_fault_disarm();
                CU_ASSERT_EQUAL(stats_of(places[i], options.tag).live_count, block != NULL);
                CU_ASSERT_EQUAL(stats_of(places[i], options.tag).used_bytes > 0, block != NULL);
                CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
                CU_ASSERT_EQUAL(stats_of(places[i], options.tag).used_bytes, 0);
            }
        }
    }
    dao_tag_t tag = 77;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    CU_ASSERT_EQUAL(dao_tag_create("never heard of", &tag), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_EQUAL(tag, 77);
}

static void counters_that_cannot_be_had_count_nothing(void)
{
    dao_tag_t tag = tag_named("failing");
    dao_tags_t *tags;
    CU_ASSERT_EQUAL_FATAL(dao_tags_create(&tags), DAO_OK);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_EQUAL(dao_tags_charge(tags, tag, 100), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_tags_limit_set(tags, tag, 100), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_tags_limit_set(tags, tag, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 2);
    CU_ASSERT_EQUAL(dao_tags_room(tags, tag), UINT64_MAX);
    CU_ASSERT_TRUE(dao_tags_is_valid(tags));
    CU_ASSERT_EQUAL(dao_tags_limit_set(tags, tag, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_tags_charge(tags, tag, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_tags_room(tags, tag), 0);
    dao_tags_refund(tags, tag, 100);
    dao_tags_destroy(tags);
}
#endif

static CU_TestInfo budget_tests[] = {
    {"a budget is taken to the last byte and no further", a_budget_is_taken_to_the_last_byte_and_no_further},
    {"a budget without a limit does not wrap around", a_budget_without_a_limit_does_not_wrap_around},
    {"threads take a budget to its last piece", threads_take_a_budget_to_its_last_piece},
    {"a limit that was set holds at once", a_limit_that_was_set_holds_at_once},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo name_tests[] = {
    {"a name has one tag", a_name_has_one_tag},
    {"a name that cannot be shown is refused", a_name_that_cannot_be_shown_is_refused},
    {"threads that add a name get the same tag", threads_that_add_a_name_get_the_same_tag},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo place_tests[] = {
    {"a thread counts for its current tag", a_thread_counts_for_its_current_tag},
    {"a block can name its tag and alignment", a_block_can_name_its_tag_and_alignment},
    {"one refused request is counted once", one_refused_request_is_counted_once},
    {"wrong options are refused", wrong_options_are_refused},
    {"a handle counts until its release", a_handle_counts_until_its_release},
    {"threads fill a tag to its last block", threads_fill_a_tag_to_its_last_block},
    {"a walk shows the tags of a place", a_walk_shows_the_tags_of_a_place},
    {"what could not be had is no peak", what_could_not_be_had_is_no_peak},
    {"the library is not stopped in a walk", the_library_is_not_stopped_in_a_walk},
#if defined(DAO_FAULTS)
    {"a failure leaves no charge behind", a_failure_leaves_no_charge_behind},
    {"counters that cannot be had count nothing", counters_that_cannot_be_had_count_nothing},
#endif
    CU_TEST_INFO_NULL,
};

static CU_TestInfo last_tests[] = {
    {"the table of names ends with an error", the_table_of_names_ends_with_an_error},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"budgets", NULL, NULL, NULL, NULL, budget_tests},
                             {"tags, names", NULL, NULL, NULL, NULL, name_tests},
                             {"tags, at a place", place_begin, place_end, NULL, NULL, place_tests},
                             {"tags, the last name", NULL, NULL, NULL, NULL, last_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

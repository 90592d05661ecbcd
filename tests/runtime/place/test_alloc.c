/* SPDX-License-Identifier: Apache-2.0 */
/* Raw memory at every kind of place: what is right, and what is misused; limits and trimming. */
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stats.h>

#include "base/report/fault.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/five_places.h"
#include "tests/support/suite.h"

#include <string.h>

#include <dao/tensor.h>
#include <dao/typed.h> /* macros of the names above: last */

#define THREADS 8
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static void blocks_come_and_go_at_every_place(void)
{
    static const size_t sizes[] = {1, 100, 4096, 40000, 3 * MIB + 1};
    for (int i = 0; i < PLACE_COUNT; i++) {
        size_t used_before = dao_used(places[i]);
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            void *block = dao_alloc(places[i], sizes[j]);
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            CU_ASSERT_EQUAL((uintptr_t)block % (places[i].kind == DAO_PLACE_KIND_CPU ? 64 : 256), 0);
            CU_ASSERT_TRUE(dao_used(places[i]) >= used_before + sizes[j]);
            CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
            CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
        }
    }
}

static void typed_places_pick_the_same_allocators(void)
{
    void *on_host = dao_alloc(dao_cpu_place(), 10);
    void *pinned = dao_alloc(dao_pinned_place(1), 10);
    void *on_device = dao_alloc(dao_device_place(1), 10);
    CU_ASSERT_EQUAL(dao_used(dao_cpu_place()), (dao_used)(dao_place_of(dao_cpu_place())));
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(1)), (dao_used)(dao_place_of(dao_pinned_place(1))));
    CU_ASSERT_EQUAL(dao_used(dao_device_place(1)), (dao_used)(dao_place_of(dao_device_place(1))));
    CU_ASSERT_EQUAL((dao_free)(dao_place_of(dao_cpu_place()), on_host), DAO_OK);
    CU_ASSERT_EQUAL((dao_free)(dao_place_of(dao_pinned_place(1)), pinned), DAO_OK);
    CU_ASSERT_EQUAL((dao_free)(dao_place_of(dao_device_place(1)), on_device), DAO_OK);
}

/* Whether the host was used before or not. */
static void the_host_is_one_whatever_its_index_says(void)
{
    static const size_t sizes[] = {10, 1 * MIB};
    dao_cpu_place_t fifth = {5};
    for (int start = 0; start < 2; start++) {
        CU_ASSERT_TRUE(dao_place_equal(dao_place_of(fifth), host));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t used_before = dao_used(host);
            void *block = dao_alloc(fifth, sizes[i]);
            CU_ASSERT_PTR_NOT_NULL(block);
            CU_ASSERT_EQUAL(dao_used(fifth), dao_used(host));
            CU_ASSERT_TRUE(dao_used(fifth) >= used_before + sizes[i]);
            CU_ASSERT_EQUAL(dao_free(i == 0 ? fifth : dao_cpu_place(), block), DAO_OK);
            CU_ASSERT_EQUAL(dao_used(host), used_before);
        }
        places_stop();
        places_start();
    }
    CU_ASSERT_PTR_NULL(dao_alloc((dao_place_t){DAO_PLACE_KIND_CPU, 5}, 10)); /* that one has an index */
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
}

/* The preprocessor cuts them at their commas. */
static void places_may_be_compound_literals(void)
{
#define ON_HOST                                                                                              \
    (dao_place_t)                                                                                            \
    {                                                                                                        \
        DAO_PLACE_KIND_CPU, 0                                                                                \
    }
    unsigned char from[4] = {1, 2, 3, 4}, to[4] = {0};
    const dao_place_t *named = &host;
    void *on_device = dao_alloc((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, 4);
    size_t size = sizeof(from);
    CU_ASSERT_TRUE(dao_used((dao_place_t){.kind = DAO_PLACE_KIND_DEVICE, .index = 1}) > 0);
    CU_ASSERT_EQUAL(dao_copy((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, on_device, host, from, 4), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy((host), to, (dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, on_device, 4), DAO_OK);
    CU_ASSERT_EQUAL(to[3], 4);
    from[0] = 5;
    CU_ASSERT_EQUAL(dao_copy((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, on_device, ON_HOST, from, 4), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(*named, to, (dao_device_place_t){1}, on_device, 4), DAO_OK);
    CU_ASSERT_EQUAL(to[0], 5);
    from[1] = 6;
    CU_ASSERT_EQUAL(dao_copy((dao_device_place_t){1}, on_device, (*named), from, 4), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(dao_cpu_place(), to, (dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, on_device, 4),
                    DAO_OK);
    CU_ASSERT_EQUAL(to[1], 6);
    dao_stream_t *stream = NULL;
    from[2] = 7;
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    dao_copy_batch_t in = {1, &on_device, (const void *[]){from}, &size}, none = {0};
    dao_copy_batch_t out = {1, (void *[]){to}, (const void *[]){on_device}, &size};
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, (dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, ON_HOST, &in),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, dao_cpu_place(), dao_device_place(1), &out), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, (*named), (dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, &none),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, (dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, host, &none),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(from, to, sizeof(from)), 0);
    dao_stats_t stats;
    char text[DAO_PLACE_TEXT_BYTES];
    CU_ASSERT_EQUAL(dao_stats_get((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, &stats), DAO_OK);
    CU_ASSERT_STRING_EQUAL(dao_place_format((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, text), "device:1");
    CU_ASSERT_EQUAL(dao_trim((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_stats_reset_peaks((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}), DAO_OK);
    CU_ASSERT_EQUAL(dao_free((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, on_device), DAO_OK);
}

/* What follows a place may be one, too. */
static void arguments_may_be_compound_literals(void)
{
    unsigned char from[4] = {1, 2, 3, 4}, to[4] = {0};
    dao_device_place_t device = dao_device_place(1);
    dao_tensor_t *tensor = NULL;
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(device, DAO_TYPE_F32, 2, (int64_t[]){3, 4}, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_rank(tensor), 2);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    void *on_device = dao_alloc_with((device), 4, &(dao_alloc_options_t){.alignment_bytes = 4096, .tag = 0});
    CU_ASSERT_PTR_NOT_NULL_FATAL(on_device);
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy_batch(
                        stream, device, host,
                        &(dao_copy_batch_t){1, &on_device, (const void *[]){from}, (size_t[]){sizeof(from)}}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(host, to, device, on_device, sizeof(to)), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(from, to, sizeof(to)), 0);
    CU_ASSERT_EQUAL(dao_free(device, on_device), DAO_OK);
}

static void nothing_is_nothing(void)
{
    places_state_t before = places_state();
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_free(places[i], NULL), DAO_OK);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], 0));
        CU_ASSERT_EQUAL(dao_copy(places[i], NULL, places[0], NULL, 0), DAO_OK);
    }
    places_assert_unchanged(&before);
}

static void a_size_that_cannot_be_is_an_overflow_or_no_memory(void)
{
    places_state_t before = places_state();
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], SIZE_MAX));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_OVERFLOW);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], SIZE_MAX - 255));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_OVERFLOW);
    }
    CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(0), 65 * MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0"));
    places_assert_unchanged(&before);
}

static void addresses_that_are_none_are_refused_untouched(void)
{
    int on_stack = 0;
    for (int i = 0; i < PLACE_COUNT; i++) {
        char *block = dao_alloc(places[i], 100000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        places_state_t before = places_state();
        CU_ASSERT_EQUAL(dao_free(places[i], &on_stack), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], (void *)(uintptr_t)8), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], (void *)UINTPTR_MAX), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], block + 1), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], block + 4096), DAO_ERR_INTERIOR_POINTER);
        places_assert_unchanged(&before);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_ERR_DOUBLE_FREE);
    }
}

static void a_wrong_place_is_named_with_the_right_one(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        void *block = dao_alloc(places[i], 50000);
        char right_text[DAO_PLACE_TEXT_BYTES];
        (void)dao_place_format(places[i], right_text);
        places_state_t before = places_state();
        for (int j = 0; j < PLACE_COUNT; j++) {
            char wrong_text[DAO_PLACE_TEXT_BYTES];
            if (i != j) {
                CU_ASSERT_EQUAL(dao_free(places[j], block), DAO_ERR_WRONG_PLACE);
                CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), right_text));
                CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), dao_place_format(places[j], wrong_text)));
            }
        }
        CU_ASSERT_EQUAL(dao_free(dao_device_place(9), block), DAO_ERR_WRONG_PLACE);
        places_assert_unchanged(&before);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
    }
}

static void a_place_that_is_not_there_is_named(void)
{
    dao_place_t nowhere = {(dao_place_kind_t)5, 0};
    dao_place_t second_host = {DAO_PLACE_KIND_CPU, 1};
    dao_stats_t stats;
    int on_stack = 0;
    CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(2), 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao_alloc(dao_pinned_place(-1), 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao_alloc(nowhere, 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(dao_alloc(second_host, 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(2), &on_stack), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(2)), 0);
    CU_ASSERT_EQUAL(dao_trim(dao_place_of(dao_device_place(2)), 0, NULL), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_limit_set(dao_place_of(dao_device_place(2)), 0), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_stats_get(dao_place_of(dao_device_place(2)), &stats), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_stats_get(host, NULL), DAO_ERR_INVALID);
}

typedef struct race {
    dao_place_t place;
    void *block;
    _Atomic int ready_count;
    _Atomic int success_count;
} race_t;

static void *free_at_once(void *user)
{
    race_t *race = user;
    race->ready_count++;
    while (race->ready_count < 2) {
        dao_thread_yield();
    }
    dao_status_t status = dao_free(race->place, race->block);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_DOUBLE_FREE);
    race->success_count += status == DAO_OK;
    return NULL;
}

static void of_two_frees_at_once_one_succeeds(void)
{
    for (int round = 0; round < 20 * PLACE_COUNT; round++) {
        race_t race = {.place = places[round % PLACE_COUNT]};
        race.block = dao_alloc(race.place, 2000);
        dao_thread_t threads[2];
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "free", free_at_once, &race), DAO_OK);
        }
        dao_thread_join(&threads[0]);
        dao_thread_join(&threads[1]);
        CU_ASSERT_EQUAL(race.success_count, 1);
    }
}

static void *churn(void *user)
{
    uint64_t random = *(uint64_t *)user;
    void *blocks[32] = {NULL};
    int at[32] = {0};
    for (int i = 0; i < 1000; i++) {
        uint64_t draw = dao_random_next(&random);
        int slot = (int)(draw % 32);
        CU_ASSERT_EQUAL(dao_device_set_current((int32_t)(draw >> 8 & 1)), DAO_OK);
        if (blocks[slot] != NULL) {
            CU_ASSERT_EQUAL(dao_free(places[at[slot]], blocks[slot]), DAO_OK);
            blocks[slot] = NULL;
            continue;
        }
        at[slot] = (int)((draw >> 16) % PLACE_COUNT);
        blocks[slot] = dao_alloc(places[at[slot]], 1 + (draw >> 24) % 20000);
        CU_ASSERT_PTR_NOT_NULL(blocks[slot]);
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL(dao_memory_create(places[at[slot]], 1 + (draw >> 30) % 5000, NULL, &memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    for (int i = 0; i < 32; i++) {
        CU_ASSERT_EQUAL(dao_free(places[at[i]], blocks[i]), DAO_OK);
    }
    return NULL;
}

static void threads_share_all_places(void)
{
    uint64_t seed = dao_test_seed("threads_share_all_places", 7);
    uint64_t seeds[THREADS];
    dao_thread_t threads[THREADS];
    places_state_t before = places_state();
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = seed + (uint64_t)i;
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "churn", churn, &seeds[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
    }
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK); /* waits for frees that were deferred */
    }
    places_assert_unchanged(&before);
}

static void limits_hold_and_trimming_gives_back(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        dao_stats_t stats;
        size_t released = 1;
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, &released), DAO_OK);
        void *block = dao_alloc(places[i], MIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(dao_stats_get(places[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.requested_bytes, MIB);
        CU_ASSERT_EQUAL(stats.live_count, 1);
        CU_ASSERT_EQUAL(stats.used_bytes, dao_used(places[i]));
        CU_ASSERT_EQUAL(dao_limit_set(places[i], KIB), DAO_ERR_LIMIT);
        CU_ASSERT_EQUAL(dao_limit_set(places[i], (size_t)stats.reserved_bytes), DAO_OK);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], (size_t)stats.reserved_bytes + 1));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
        CU_ASSERT_EQUAL(dao_limit_set(places[i], 0), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_stats_reset_peaks(places[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, &released), DAO_OK);
        CU_ASSERT_TRUE(released >= MIB);
        CU_ASSERT_EQUAL(dao_stats_get(places[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
        CU_ASSERT_EQUAL(stats.peak_used_bytes, 0);
    }
}

#if defined(DAO_FAULTS)
static void alloc_survives_any_missing_resource(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        places_state_t before = places_state();
        void *block = NULL;
        for (uint64_t n = 0; block == NULL && n < 1000; n++) {
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            block = dao_alloc(places[i], 100 * KIB);
            uint64_t fired_count = dao_fault_disarm();
            CU_ASSERT_TRUE(block != NULL || fired_count > 0);
            if (block == NULL) {
                places_assert_unchanged(&before);
            }
        }
        dao_fault_arm(DAO_FAULT_ANY, 0, true); /* nor does a free */
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_fault_disarm(), 0);
        places_assert_unchanged(&before);
    }
}
#endif

static CU_TestInfo tests[] = {
    {"blocks come and go at every place", blocks_come_and_go_at_every_place},
    {"places may be compound literals", places_may_be_compound_literals},
    {"arguments may be compound literals", arguments_may_be_compound_literals},
    {"typed places pick the same allocators", typed_places_pick_the_same_allocators},
    {"the host is one whatever its index says", the_host_is_one_whatever_its_index_says},
    {"nothing is nothing", nothing_is_nothing},
    {"a size that cannot be is an overflow or no memory", a_size_that_cannot_be_is_an_overflow_or_no_memory},
    {"addresses that are none are refused untouched", addresses_that_are_none_are_refused_untouched},
    {"a wrong place is named with the right one", a_wrong_place_is_named_with_the_right_one},
    {"a place that is not there is named", a_place_that_is_not_there_is_named},
    {"of two frees at once one succeeds", of_two_frees_at_once_one_succeeds},
    {"threads share all places", threads_share_all_places},
    {"limits hold and trimming gives back", limits_hold_and_trimming_gives_back},
#if defined(DAO_FAULTS)
    {"alloc survives any missing resource", alloc_survives_any_missing_resource},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"alloc", places_start, places_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

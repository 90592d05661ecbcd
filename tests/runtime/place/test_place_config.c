/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about a place before it starts, through the public calls: that each setting is in effect, when
   it can be said, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include <dao/dao.h>

#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_BYTES (64 * MIB)

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

static const dao_place_t places[] = {
    {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_DEVICE, 0}};
#define PLACE_COUNT (sizeof(places) / sizeof(places[0]))

static const dao_strategy_t strategies[] = {DAO_STRATEGY_GOOD_FIT, DAO_STRATEGY_BEST_FIT,
                                            DAO_STRATEGY_BINARY_BUDDY, DAO_STRATEGY_SIZE_CLASS,
                                            DAO_STRATEGY_SYSTEM};
#define STRATEGY_COUNT (sizeof(strategies) / sizeof(strategies[0]))

/* ---- helpers ---- */

static const dao_backend_ops_t *wrapped;

static dao_status_t start_with(dao_strategy_t device_strategy)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = DEVICE_BYTES},
                           .device_strategy = device_strategy};
    return dao_context_start(&config, wrapped);
}

/* Two devices with pages; nothing is armed. */
static void begin(void)
{
    static const fault_config_t quiet;
    wrapped = fault_backend_wrap(dao_backend_ops(), &quiet);
    CU_ASSERT_EQUAL_FATAL(start_with(DAO_STRATEGY_DEFAULT), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* nothing is live */
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

/* Forgets all places, and what was said about them. */
static void again(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(start_with(DAO_STRATEGY_DEFAULT), DAO_OK);
}

static void configure(dao_place_t place, dao_place_config_t config)
{
    CU_ASSERT_EQUAL(dao_place_configure(place, &config), DAO_OK);
}

static void *take(dao_place_t place, size_t size_bytes)
{
    void *address = dao_alloc(place, size_bytes);
    CU_ASSERT_PTR_NOT_NULL(address);
    return address;
}

static void give(dao_place_t place, void *address)
{
    CU_ASSERT_EQUAL(dao_free(place, address), DAO_OK);
}

static dao_stats_t stats_of(dao_place_t place)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_OK);
    return stats;
}

/* Bytes that a request takes. */
static size_t block_bytes_for(dao_place_t place, size_t size_bytes)
{
    size_t before_bytes = dao_used(place);
    void *address = take(place, size_bytes);
    size_t block_bytes = dao_used(place) - before_bytes;
    give(place, address);
    return block_bytes;
}

/* Calls of the backend that give memory to a place; 0 for the host. */
static uint64_t backend_calls(dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_DEVICE
               ? fault_backend_calls(FAULT_CALL_MEMORY_ALLOC) + fault_backend_calls(FAULT_CALL_PAGES_CREATE)
           : place.kind == DAO_PLACE_KIND_PINNED ? fault_backend_calls(FAULT_CALL_PINNED_ALLOC)
                                                 : 0;
}

/* ---- names ---- */

static void every_strategy_has_a_name_that_is_read_back(void)
{
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        dao_strategy_t strategy = DAO_STRATEGY_DEFAULT;
        CU_ASSERT_EQUAL(dao_strategy_parse(dao_strategy_name(strategies[i]), &strategy), DAO_OK);
        CU_ASSERT_EQUAL(strategy, strategies[i]);
    }
    CU_ASSERT_STRING_EQUAL(dao_strategy_name(DAO_STRATEGY_SIZE_CLASS), "size_class");
    CU_ASSERT_STRING_EQUAL(dao_strategy_name(DAO_STRATEGY_DEFAULT), "default");
    CU_ASSERT_STRING_EQUAL(dao_strategy_name((dao_strategy_t)77), "unknown");
    static const char *const wrong[] = {"", "default", "Good_fit", "good_fit ", "system2", "buddy"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_strategy_t strategy = DAO_STRATEGY_SYSTEM;
        CU_ASSERT_EQUAL(dao_strategy_parse(wrong[i], &strategy), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(strategy, DAO_STRATEGY_SYSTEM);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "binary_buddy"));
    }
    dao_strategy_t strategy;
    CU_ASSERT_EQUAL(dao_strategy_parse(NULL, &strategy), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_strategy_parse("system", NULL), DAO_ERR_INVALID);
}

/* ---- each strategy is in effect ---- */

static void good_fit_is_the_default(void)
{
    CU_ASSERT_EQUAL(block_bytes_for(device, 5 * MIB + 1), 5 * MIB + 256);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_MEMORY_ALLOC), 0);
    CU_ASSERT_TRUE(fault_backend_calls(FAULT_CALL_PAGES_CREATE) > 0);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 3 * MIB + 1), 3 * MIB + 256);
    }
}

/* Two holes of one bin: the lower one is a little too large, the other just right. */
static bool takes_the_tight_hole(dao_place_t place)
{
    void *loose = take(place, 2 * MIB + 16 * KIB), *wall = take(place, 64 * KIB);
    void *tight = take(place, 2 * MIB), *end_wall = take(place, 64 * KIB);
    give(place, loose);
    give(place, tight);
    void *block = take(place, 2 * MIB);
    bool is_tight = block == tight;
    CU_ASSERT_TRUE(is_tight || block == loose);
    give(place, block);
    give(place, wall);
    give(place, end_wall);
    return is_tight;
}

static void best_fit_takes_the_smallest_hole(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_FALSE(takes_the_tight_hole(places[i]));
    }
    again();
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        configure(places[i], (dao_place_config_t){.strategy = DAO_STRATEGY_BEST_FIT});
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_TRUE(takes_the_tight_hole(places[i]));
    }
}

static void a_binary_buddy_gives_powers_of_two(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        configure(places[i], (dao_place_config_t){.strategy = DAO_STRATEGY_BINARY_BUDDY});
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 5 * MIB), 8 * MIB);
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 1), 256);
        CU_ASSERT_EQUAL(stats_of(places[i]).reserved_bytes, 64 * MIB);
        CU_ASSERT_EQUAL(backend_calls(places[i]), places[i].kind == DAO_PLACE_KIND_CPU ? 0 : 1);
    }
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_PAGES_CREATE), 0);
    again();
    configure(device, (dao_place_config_t){.strategy = DAO_STRATEGY_BINARY_BUDDY, .segment_bytes = 16 * MIB});
    CU_ASSERT_EQUAL(block_bytes_for(device, 5 * MIB), 8 * MIB);
    CU_ASSERT_EQUAL(stats_of(device).reserved_bytes, 16 * MIB);
}

static void size_classes_keep_blocks_of_their_sizes(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        configure(places[i], (dao_place_config_t){.strategy = DAO_STRATEGY_SIZE_CLASS});
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 300 * KIB), 1 * MIB);
        uint64_t calls = backend_calls(places[i]);
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 1 * MIB), 1 * MIB);
        CU_ASSERT_EQUAL(backend_calls(places[i]), calls);
        CU_ASSERT_EQUAL(stats_of(places[i]).reserved_bytes, 1 * MIB);
    }
}

static void pass_through_makes_a_call_for_every_block(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        configure(places[i], (dao_place_config_t){.strategy = DAO_STRATEGY_SYSTEM});
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (uint64_t n = 1; n <= 4; n++) {
            size_t granule = places[i].kind == DAO_PLACE_KIND_CPU ? 64 : 256;
            CU_ASSERT_EQUAL(block_bytes_for(places[i], 3 * MIB * (n % 2) + 1), 3 * MIB * (n % 2) + granule);
            CU_ASSERT_EQUAL(stats_of(places[i]).reserved_bytes, 0);
            CU_ASSERT_EQUAL(stats_of(places[i]).grow_count, n);
            CU_ASSERT_EQUAL(backend_calls(places[i]), places[i].kind == DAO_PLACE_KIND_CPU ? 0 : n);
        }
    }
}

static void memory_of_every_strategy_holds_bytes(void)
{
    static const size_t sizes[] = {1, 1000, 100 * KIB, 3 * MIB};
    for (size_t s = 0; s < STRATEGY_COUNT; s++) {
        again();
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            configure(places[i], (dao_place_config_t){.strategy = strategies[s]});
        }
        static char source[3 * MIB], result[3 * MIB];
        memset(source, (int)(0x30 + s), sizeof(source));
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            void *blocks[PLACE_COUNT];
            for (size_t i = 0; i < PLACE_COUNT; i++) {
                blocks[i] = take(places[i], sizes[k]);
            }
            CU_ASSERT_EQUAL(dao_copy(host, blocks[0], host, source, sizes[k]), DAO_OK);
            CU_ASSERT_EQUAL(dao_copy(pinned, blocks[1], host, blocks[0], sizes[k]), DAO_OK);
            CU_ASSERT_EQUAL(dao_copy(device, blocks[2], pinned, blocks[1], sizes[k]), DAO_OK);
            memset(result, 0, sizes[k]);
            CU_ASSERT_EQUAL(dao_copy(host, result, device, blocks[2], sizes[k]), DAO_OK);
            CU_ASSERT_EQUAL(memcmp(result, source, sizes[k]), 0);
            for (size_t i = 0; i < PLACE_COUNT; i++) {
                give(places[i], blocks[i]);
            }
        }
    }
}

static void wrong_frees_are_told_apart_by_every_strategy(void)
{
    for (size_t s = 0; s < STRATEGY_COUNT; s++) {
        again();
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            configure(places[i], (dao_place_config_t){.strategy = strategies[s]});
        }
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            dao_place_t other = places[(i + 1) % PLACE_COUNT];
            int foreign = 0;
            char *block = take(places[i], 100 * KIB);
            CU_ASSERT_EQUAL(dao_free(places[i], &foreign), DAO_ERR_FOREIGN_POINTER);
            CU_ASSERT_EQUAL(dao_free(places[i], block + 512), DAO_ERR_INTERIOR_POINTER);
            CU_ASSERT_EQUAL(dao_free(other, block), DAO_ERR_WRONG_PLACE);
            give(places[i], block);
            CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_ERR_DOUBLE_FREE);
        }
    }
}

/* Freed while another device is this thread's current one: the free goes through the queue of pinned
   memory. */
static void a_handle_to_pinned_memory_is_freed_later_by_every_strategy(void)
{
    for (size_t s = 0; s < STRATEGY_COUNT; s++) {
        again();
        configure(pinned, (dao_place_config_t){.strategy = strategies[s]});
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(pinned, 100 * KIB, NULL, &memory), DAO_OK);
        CU_ASSERT_TRUE(dao_used(pinned) >= 100 * KIB);
        CU_ASSERT_EQUAL(dao_device_set_current(1), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_device_set_current(0), DAO_OK);
        CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(pinned), 0);
    }
}

static void every_strategy_follows_streams(void)
{
    for (size_t s = 0; s < STRATEGY_COUNT; s++) {
        again();
        configure(device, (dao_place_config_t){.strategy = strategies[s]});
        void *block = dao_alloc_async(device, 100 * KIB, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(dao_record_stream(device, block, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_free_async(device, block, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(device), 0);
        CU_ASSERT_PTR_EQUAL(dao_alloc_async(device, 100 * KIB, NULL), block);
        give(device, block);
        block = take(device, 1000);
        CU_ASSERT_EQUAL(dao_free_async(device, block, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(device), 0);
    }
}

/* ---- sizes ---- */

static void the_first_memory_is_there_when_a_place_starts(void)
{
    for (size_t s = 0; s < 3; s++) { /* the others take none */
        again();
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            configure(places[i], (dao_place_config_t){.strategy = strategies[s], .initial_bytes = 32 * MIB});
        }
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            void *small = take(places[i], 64 * KIB);
            CU_ASSERT_EQUAL(stats_of(places[i]).reserved_bytes, 32 * MIB);
            CU_ASSERT_EQUAL(stats_of(places[i]).grow_count, 1);
            uint64_t calls = backend_calls(places[i]);
            void *large = take(places[i], 16 * MIB);
            CU_ASSERT_EQUAL(stats_of(places[i]).reserved_bytes, 32 * MIB);
            CU_ASSERT_EQUAL(backend_calls(places[i]), calls);
            give(places[i], small);
            give(places[i], large);
        }
    }
}

static void a_device_can_be_one_range_without_mapping(void)
{
    configure(device, (dao_place_config_t){.initial_bytes = DEVICE_BYTES, .no_page_mapping = true});
    void *low = take(device, DEVICE_BYTES / 4), *middle = take(device, DEVICE_BYTES / 4);
    void *high = take(device, DEVICE_BYTES / 2);
    CU_ASSERT_PTR_EQUAL((char *)low + DEVICE_BYTES / 4, middle);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_MEMORY_ALLOC), 1);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_PAGES_CREATE), 0);
    give(device, low);
    give(device, high);
    CU_ASSERT_PTR_NULL(dao_alloc(device, DEVICE_BYTES / 2 + 256)); /* two holes, and nothing is moved */
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stats_of(device).remap_count, 0);
    give(device, middle);
    give(device, take(device, DEVICE_BYTES));
    CU_ASSERT_EQUAL(stats_of(device).grow_count, 1);
}

/* Every second of small blocks is freed, which leaves holes of 3 MiB, and then as much is asked for in one
   piece as the limit has left. */
static void pages_of_the_host_have_no_holes_within_a_limit(void)
{
    enum { COUNT = 8 };
    for (int is_paged = 0; is_paged < 2; is_paged++) {
        again();
        configure(host, (dao_place_config_t){.limit_bytes = COUNT * 4 * MIB, .host_pages = is_paged == 1});
        void *blocks[COUNT];
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = take(host, 4 * MIB - 4 * KIB);
        }
        for (int i = 0; i < COUNT; i += 2) {
            give(host, blocks[i]);
        }
        void *large = dao_alloc(host, COUNT / 2 * 2 * MIB);
        CU_ASSERT_EQUAL(large != NULL, is_paged == 1);
        CU_ASSERT_TRUE(stats_of(host).reserved_bytes <= COUNT * 4 * MIB);
        give(host, large);
        for (int i = 1; i < COUNT; i += 2) {
            give(host, blocks[i]);
        }
    }
}

static void segments_grow_by_what_is_said(void)
{
    configure(host, (dao_place_config_t){.segment_bytes = 3 * MIB + 1});
    configure(pinned, (dao_place_config_t){.segment_bytes = 5 * MIB});
    configure(device, (dao_place_config_t){.segment_bytes = 6 * MIB, .no_page_mapping = true});
    static const size_t expected[] = {3 * MIB + 256, 5 * MIB, 6 * MIB};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        void *block = take(places[i], 1 * MIB);
        CU_ASSERT_EQUAL(stats_of(places[i]).reserved_bytes, expected[i]);
        give(places[i], block);
    }
}

static void a_limit_holds_from_the_start(void)
{
    for (size_t s = 0; s < STRATEGY_COUNT; s++) {
        again();
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            configure(places[i], (dao_place_config_t){.strategy = strategies[s], .limit_bytes = 8 * MIB});
        }
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            void *all = take(places[i], 8 * MIB);
            CU_ASSERT_EQUAL(stats_of(places[i]).limit_bytes, 8 * MIB);
            CU_ASSERT_PTR_NULL(dao_alloc(places[i], 1));
            CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
            CU_ASSERT_EQUAL(dao_limit_set(places[i], 0), DAO_OK);
            give(places[i], take(places[i], 1));
            give(places[i], all);
        }
    }
}

static void first_memory_that_is_not_there_fails_the_start_alone(void)
{
    dao_place_config_t config = {.initial_bytes = 2 * DEVICE_BYTES};
    configure(device, config);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_PTR_NULL(dao_alloc(device, 1));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "initial_bytes"));
    }
    config.initial_bytes = DEVICE_BYTES / 2;
    configure(device, config);
    give(device, take(device, 1));
    CU_ASSERT_EQUAL(stats_of(device).reserved_bytes, DEVICE_BYTES / 2);
}

/* ---- when ---- */

static void a_place_in_use_is_busy(void)
{
    static const dao_place_config_t system = {.strategy = DAO_STRATEGY_SYSTEM};
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_used(places[i]), 0); /* a question for figures is no use */
        CU_ASSERT_EQUAL(dao_free(places[i], &wrapped), DAO_ERR_FOREIGN_POINTER);
        configure(places[i], system);
    }
    configure(device, (dao_place_config_t){.strategy = DAO_STRATEGY_SIZE_CLASS});
    give(pinned, take(pinned, 100));
    CU_ASSERT_EQUAL(dao_place_configure(pinned, &system), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_place_configure(device, &system), DAO_ERR_BUSY); /* they start together */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0"));
    CU_ASSERT_EQUAL(block_bytes_for(device, 100), 32 * KIB);
    configure((dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, system); /* another device has not started */
    configure(host, (dao_place_config_t){.strategy = DAO_STRATEGY_BINARY_BUDDY});
    CU_ASSERT_EQUAL(block_bytes_for(host, 257), 512); /* the latter of two configs */
    CU_ASSERT_EQUAL(dao_place_configure(host, &system), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "cpu"));
}

static void a_stop_forgets_what_was_said(void)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        configure(places[i],
                  (dao_place_config_t){.strategy = DAO_STRATEGY_BINARY_BUDDY, .limit_bytes = 32 * MIB});
    }
    again();
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 5 * MIB), 5 * MIB);
        CU_ASSERT_EQUAL(stats_of(places[i]).limit_bytes, 0);
    }
}

static void a_stopped_library_takes_no_config(void)
{
    static const dao_place_config_t defaults;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(dao_place_configure(device, &defaults), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL_FATAL(start_with(DAO_STRATEGY_DEFAULT), DAO_OK);
}

/* ---- what is refused ---- */

static void a_config_that_cannot_be_is_refused_by_name(void)
{
    static const dao_place_t none = {(dao_place_kind_t)9, 0}, far = {DAO_PLACE_KIND_DEVICE, 2};
    const struct {
        dao_place_t place;
        dao_place_config_t config;
        dao_status_t status;
        const char *words;
    } cases[] = {
        {device, {.strategy = (dao_strategy_t)6}, DAO_ERR_INVALID, "strategy is 6"},
        {device, {.strategy = (dao_strategy_t)-1}, DAO_ERR_INVALID, "strategy is -1"},
        {device, {.strategy = DAO_STRATEGY_SYSTEM, .initial_bytes = 1}, DAO_ERR_INVALID, "initial_bytes"},
        {host, {.strategy = DAO_STRATEGY_SYSTEM, .segment_bytes = 1}, DAO_ERR_INVALID, "segment_bytes"},
        {pinned, {.strategy = DAO_STRATEGY_SIZE_CLASS, .initial_bytes = 1}, DAO_ERR_INVALID, "size_class"},
        {host, {.strategy = DAO_STRATEGY_SIZE_CLASS, .segment_bytes = 1}, DAO_ERR_INVALID, "size_class"},
        {device,
         {.strategy = DAO_STRATEGY_BINARY_BUDDY, .segment_bytes = 3 * MIB},
         DAO_ERR_INVALID,
         "power of two"},
        {device, {.strategy = DAO_STRATEGY_BINARY_BUDDY, .segment_bytes = 128}, DAO_ERR_INVALID, "256"},
        {device, {.initial_bytes = 9, .limit_bytes = 8}, DAO_ERR_INVALID, "limit_bytes"},
        {device, {.initial_bytes = 1024 * GIB + 1}, DAO_ERR_INVALID, "1 TiB"},
        {host, {.segment_bytes = SIZE_MAX}, DAO_ERR_INVALID, "1 TiB"},
        {host, {.no_page_mapping = true}, DAO_ERR_INVALID, "no_page_mapping"},
        {device, {.host_pages = true}, DAO_ERR_INVALID, "host_pages"},
        {device, {.host_page_bytes = 64 * KIB}, DAO_ERR_INVALID, "host_page_bytes"},
        {host, {.host_pages = true, .host_page_bytes = 32 * KIB}, DAO_ERR_INVALID, "65536"},
        {host, {.host_pages = true, .host_page_bytes = 4 * MIB}, DAO_ERR_INVALID, "2097152"},
        {host, {.host_pages = true, .host_page_bytes = 96 * KIB}, DAO_ERR_INVALID, "power of two"},
        {host, {.host_page_bytes = 64 * KIB}, DAO_ERR_INVALID, "host_pages, which is not set"},
        {host,
         {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}, .host_page_bytes = 64 * KIB},
         DAO_ERR_INVALID,
         "host_pages, which is not set"},
        {pinned, {.no_page_mapping = true}, DAO_ERR_INVALID, "pinned:0"},
        {device, {.small_bytes = 32 * KIB + 1}, DAO_ERR_INVALID, "32768"},
        {pinned, {.small_bytes = 32 * KIB + 1}, DAO_ERR_INVALID, "32768"},
        {device, {.strategy = DAO_STRATEGY_SYSTEM, .small_bytes = 1}, DAO_ERR_INVALID, "good_fit"},
        {host, {.small_bytes = 1}, DAO_ERR_INVALID, "device and pinned places"},
        {none, {0}, DAO_ERR_INVALID, "not a place"},
        {far, {0}, DAO_ERR_NO_DEVICE, "device:2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(dao_place_configure(cases[i].place, &cases[i].config), cases[i].status);
        CU_ASSERT_EQUAL(dao_last_status(), cases[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), cases[i].words));
    }
    CU_ASSERT_EQUAL(dao_place_configure(device, NULL), DAO_ERR_INVALID);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(block_bytes_for(places[i], 5 * MIB), 5 * MIB); /* nothing of it was kept */
        CU_ASSERT_EQUAL(stats_of(places[i]).limit_bytes, 0);
    }
}

static void pages_of_the_host_have_the_size_asked_for(void)
{
    for (size_t page_bytes = 64 * KIB; page_bytes <= 2 * MIB; page_bytes *= 2) {
        again();
        configure(host, (dao_place_config_t){.host_pages = true, .host_page_bytes = page_bytes});
        void *small = dao_alloc(host, 1), *large = dao_alloc(host, 5 * MIB + 1);
        CU_ASSERT_EQUAL(stats_of(host).reserved_bytes % page_bytes, 0);
        CU_ASSERT_TRUE(stats_of(host).reserved_bytes < 5 * MIB + 1 + 3 * page_bytes);
        CU_ASSERT_EQUAL(dao_free(host, small), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(host, large), DAO_OK);
    }
}

/* ---- the environment ---- */

static void the_environment_sets_the_strategy_of_devices(void)
{
    dao_place_t second = {DAO_PLACE_KIND_DEVICE, 1};
    CU_ASSERT_EQUAL(setenv("DAO_STRATEGY", "binary_buddy", 1), 0);
    again();
    configure(second, (dao_place_config_t){.strategy = DAO_STRATEGY_GOOD_FIT});
    configure(device, (dao_place_config_t){.limit_bytes = 32 * MIB}); /* names no strategy */
    CU_ASSERT_EQUAL(block_bytes_for(device, 5 * MIB), 8 * MIB);
    CU_ASSERT_EQUAL(block_bytes_for(second, 5 * MIB), 5 * MIB);
    CU_ASSERT_EQUAL(block_bytes_for(pinned, 5 * MIB), 5 * MIB);
    CU_ASSERT_EQUAL(block_bytes_for(host, 5 * MIB), 5 * MIB);

    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(start_with(DAO_STRATEGY_SIZE_CLASS), DAO_OK); /* what the program says is first */
    CU_ASSERT_EQUAL(block_bytes_for(second, 300 * KIB), 1 * MIB);
    dao_place_config_t initial = {.initial_bytes = 1 * MIB};
    CU_ASSERT_EQUAL(dao_place_configure(device, &initial), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "size_class"));
    CU_ASSERT_EQUAL(unsetenv("DAO_STRATEGY"), 0);
}

static void a_wrong_strategy_fails_the_start(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(setenv("DAO_STRATEGY", "fastest", 1), 0);
    CU_ASSERT_EQUAL(start_with(DAO_STRATEGY_DEFAULT), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_STRATEGY: \"fastest\""));
    CU_ASSERT_EQUAL(setenv("DAO_STRATEGY", "", 1), 0);
    CU_ASSERT_EQUAL(start_with((dao_strategy_t)99), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device_strategy is 99"));
    CU_ASSERT_EQUAL_FATAL(start_with(DAO_STRATEGY_DEFAULT), DAO_OK);
    CU_ASSERT_EQUAL(block_bytes_for(device, 5 * MIB), 5 * MIB);
    CU_ASSERT_EQUAL(unsetenv("DAO_STRATEGY"), 0);
}

/* ---- threads ---- */

typedef struct user {
    dao_place_t place;
    void *address;
} user_t;

static void *use_place(void *argument)
{
    user_t *user = argument;
    user->address = dao_alloc(user->place, 5 * MIB);
    return NULL;
}

/* Two first uses and a config at once: the config is in effect for both or was too late. */
static void a_config_races_with_the_first_use(void)
{
    static const dao_place_config_t buddy = {.strategy = DAO_STRATEGY_BINARY_BUDDY};
    for (size_t round = 0; round < 30; round++) {
        again();
        dao_place_t place = places[round % PLACE_COUNT];
        user_t users[2] = {{.place = place}, {.place = place}};
        dao_thread_t threads[2];
        for (size_t i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "use", use_place, &users[i]), DAO_OK);
        }
        dao_status_t status = dao_place_configure(place, &buddy);
        for (size_t i = 0; i < 2; i++) {
            dao_thread_join(&threads[i]);
        }
        CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_BUSY);
        CU_ASSERT_EQUAL(dao_used(place), 2 * (status == DAO_OK ? 8 * MIB : 5 * MIB));
        for (size_t i = 0; i < 2; i++) {
            give(place, users[i].address);
        }
    }
}

/* ---- the n-th call fails ---- */

/* What can fail: the backend or the system, at the n-th call; all is healed before anything is given back. */
typedef struct fault {
    bool is_backend;
    uint64_t skip_count;
    uint64_t fired_count;
} fault_t;

static void fault_arm(const fault_t *fault)
{
    if (fault->is_backend) {
        fault_backend_arm(FAULT_CALL_ANY, fault->skip_count, false);
    } else {
        dao_fault_arm(DAO_FAULT_ANY, fault->skip_count, false);
    }
}

static void fault_disarm(fault_t *fault)
{
    fault->fired_count = fault->is_backend ? fault_backend_disarm() : dao_fault_disarm();
}

/* Starts a place as configured and uses it; true if all went well. Whatever fails, nothing stays live. */
static bool start_and_use(dao_place_t place, const dao_place_config_t *config, fault_t *fault)
{
    void *blocks[3] = {NULL};
    fault_arm(fault);
    if (start_with(DAO_STRATEGY_DEFAULT) != DAO_OK) {
        fault_disarm(fault);
        return false;
    }
    bool is_ok = dao_place_configure(place, config) == DAO_OK;
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = dao_alloc(place, 100 * KIB << (2 * i));
        is_ok = is_ok && blocks[i] != NULL;
    }
    fault_disarm(fault);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_TRUE(blocks[i] == NULL || dao_free(place, blocks[i]) == DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_used(place), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    return is_ok;
}

static void every_refusal_while_a_place_starts_is_survived(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    uint64_t failed_count = 0;
    for (size_t k = 0; k < 2 * STRATEGY_COUNT * PLACE_COUNT; k++) {
        dao_strategy_t strategy = strategies[k % STRATEGY_COUNT];
        bool takes_blocks = strategy == DAO_STRATEGY_SIZE_CLASS || strategy == DAO_STRATEGY_SYSTEM;
        dao_place_config_t config = {.strategy = strategy, .initial_bytes = takes_blocks ? 0 : 4 * MIB};
        fault_t fault = {.is_backend = k < STRATEGY_COUNT * PLACE_COUNT};
        do {
            bool is_ok = start_and_use(places[k / STRATEGY_COUNT % PLACE_COUNT], &config, &fault);
            CU_ASSERT_TRUE(is_ok || fault.fired_count > 0);
            CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
            failed_count += !is_ok;
            fault.skip_count++;
        } while (fault.fired_count > 0 && fault.skip_count < 1000);
        CU_ASSERT_EQUAL(fault.fired_count, 0);
    }
    CU_ASSERT_TRUE(failed_count > 2 * STRATEGY_COUNT * PLACE_COUNT);
    CU_ASSERT_EQUAL_FATAL(start_with(DAO_STRATEGY_DEFAULT), DAO_OK); /* end() stops it */
}

/* The strategy system gives a block back as it leaves the quarantine, which a trim empties. */
static void a_trim_counts_what_leaves_the_quarantine(void)
{
    const dao_place_config_t config = {.strategy = DAO_STRATEGY_SYSTEM,
                                       .hardening = DAO_HARDENING_QUARANTINE};
    begin();
    CU_ASSERT_EQUAL(dao_place_configure(host, &config), DAO_OK);
    void *block = dao_alloc(host, 4 * MIB);
    CU_ASSERT_EQUAL(dao_free(host, block), DAO_OK);
    dao_stats_t before, after;
    CU_ASSERT_EQUAL(dao_stats_get(host, &before), DAO_OK);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_trim(host, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(dao_stats_get(host, &after), DAO_OK);
    CU_ASSERT_TRUE(released_bytes >= 4 * MIB);
    CU_ASSERT_EQUAL(before.reserved_bytes - after.reserved_bytes, released_bytes);
    end();
}

static CU_TestInfo tests[] = {
    {"a trim counts what leaves the quarantine", a_trim_counts_what_leaves_the_quarantine},
    {"every strategy has a name that is read back", every_strategy_has_a_name_that_is_read_back},
    {"good fit is the default", good_fit_is_the_default},
    {"best fit takes the smallest hole", best_fit_takes_the_smallest_hole},
    {"a binary buddy gives powers of two", a_binary_buddy_gives_powers_of_two},
    {"size classes keep blocks of their sizes", size_classes_keep_blocks_of_their_sizes},
    {"pass-through makes a call for every block", pass_through_makes_a_call_for_every_block},
    {"memory of every strategy holds bytes", memory_of_every_strategy_holds_bytes},
    {"wrong frees are told apart by every strategy", wrong_frees_are_told_apart_by_every_strategy},
    {"a handle to pinned memory is freed later by every strategy",
     a_handle_to_pinned_memory_is_freed_later_by_every_strategy},
    {"every strategy follows streams", every_strategy_follows_streams},
    {"the first memory is there when a place starts", the_first_memory_is_there_when_a_place_starts},
    {"a device can be one range without mapping", a_device_can_be_one_range_without_mapping},
    {"pages of the host have no holes within a limit", pages_of_the_host_have_no_holes_within_a_limit},
    {"segments grow by what is said", segments_grow_by_what_is_said},
    {"a limit holds from the start", a_limit_holds_from_the_start},
    {"first memory that is not there fails the start alone",
     first_memory_that_is_not_there_fails_the_start_alone},
    {"a place in use is busy", a_place_in_use_is_busy},
    {"a stop forgets what was said", a_stop_forgets_what_was_said},
    {"a stopped library takes no config", a_stopped_library_takes_no_config},
    {"a config that cannot be is refused by name", a_config_that_cannot_be_is_refused_by_name},
    {"pages of the host have the size asked for", pages_of_the_host_have_the_size_asked_for},
    {"the environment sets the strategy of devices", the_environment_sets_the_strategy_of_devices},
    {"a wrong strategy fails the start", a_wrong_strategy_fails_the_start},
    {"a config races with the first use", a_config_races_with_the_first_use},
    {"every refusal while a place starts is survived", every_refusal_while_a_place_starts_is_survived},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"place config", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

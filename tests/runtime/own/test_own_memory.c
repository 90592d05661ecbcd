/* SPDX-License-Identifier: Apache-2.0 */
/* Places of a program's own memory: the contract of allocators on two of them, what they have in common with
   other places, and tables that are wrong or fail. */
#include <dao/dao.h>

#include "tests/contract/allocator_contract.h"
#include "tests/runtime/own/own_tables.h"
#include "tests/support/suite.h"

#include "allocators/slow_path.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"

#include <stdlib.h>
#include <string.h>

static void must(dao_status_t status)
{
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
}

static uint32_t slow_path_count; /* before the start */

static void library_start(void)
{
    own_tables_begin();
    slow_path_count = atomic_load(&dao_slow_path_count);
    must(dao_init(&(dao_config_t){.cpu = {.device_count = 2, .device_bytes = 256 * MIB}}));
}

static void library_stop(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(atomic_load(&dao_slow_path_count), slow_path_count); /* fast paths are open again */
    own_tables_end();
}

static dao_place_t registered(const dao_own_memory_t *table)
{
    dao_place_t place = {DAO_PLACE_KIND_CPU, -1};
    must(dao_place_register(table, &place));
    return place;
}

static dao_stats_t stats_of(dao_place_t place)
{
    dao_stats_t stats = {0};
    must(dao_stats_get(place, &stats));
    return stats;
}

/* ---- the contract ---- */

static dao_status_t start_with(dao_own_memory_t (*table)(uint64_t), dao_allocator_t **out_allocator)
{
    own_tables_begin();
    dao_own_memory_t memory = table(256 * MIB);
    dao_runtime_t *runtime;
    dao_place_t place;
    dao_status_t status = dao_init(&(dao_config_t){.cpu = {.device_count = 1}});
    if (status == DAO_OK) {
        status = dao_place_register(&memory, &place);
        status = status == DAO_OK ? dao_runtime_borrow(place.index, &runtime) : status;
        if (status == DAO_OK) {
            *out_allocator = runtime->device_memory;
        } else {
            must(dao_finalize());
        }
    }
    if (status != DAO_OK) {
        own_tables_end();
    }
    return status;
}

static dao_status_t malloc_create(dao_allocator_t **out_allocator)
{
    return start_with(own_malloc_table, out_allocator);
}

static dao_status_t file_create(dao_allocator_t **out_allocator)
{
    return start_with(own_file_table, out_allocator);
}

static void contract_destroy(dao_allocator_t *allocator)
{
    (void)allocator; /* the library's; one test leaves blocks in it */
    dao_status_t status = dao_finalize();
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_BUSY);
    own_tables_end();
}

static void malloc_contract_begin(void)
{
    static const allocator_contract_t contract = {
        .create = malloc_create, .destroy = contract_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

static void file_contract_begin(void)
{
    static const allocator_contract_t contract = {
        .create = file_create, .destroy = contract_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

/* ---- as with other places ---- */

static void several_places_are_numbered_behind_the_devices(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t first = registered(&memory), second = registered(&memory);
    CU_ASSERT_TRUE(dao_place_equal(first, (dao_place_t){DAO_PLACE_KIND_DEVICE, 2}));
    CU_ASSERT_TRUE(dao_place_equal(second, (dao_place_t){DAO_PLACE_KIND_DEVICE, 3}));
    int32_t count = 0;
    must(dao_device_count(&count));
    CU_ASSERT_EQUAL(count, 2);
    dao_device_info_t info;
    must(dao_device_query(first.index, &info));
    CU_ASSERT_STRING_EQUAL(info.name, "malloc");
    CU_ASSERT_EQUAL(info.total_bytes, 64 * MIB);
    CU_ASSERT_TRUE(info.host_accessible);
    void *one = dao_alloc(first, MIB), *other = dao_alloc(second, 2 * MIB);
    CU_ASSERT_EQUAL(dao_used(first), MIB);
    CU_ASSERT_EQUAL(dao_used(second), 2 * MIB);
    CU_ASSERT_EQUAL(dao_free(first, other), DAO_ERR_WRONG_PLACE);
    must(dao_free(first, one));
    must(dao_free(second, other));
}

static void limits_tags_and_statistics_hold(void)
{
    dao_own_memory_t memory = own_file_table(128 * MIB);
    dao_place_t place = registered(&memory);
    dao_tag_t tag;
    must(dao_place_configure(place, &(dao_place_config_t){.limit_bytes = 8 * MIB}));
    must(dao_tag_create("weights", &tag));
    dao_tag_t before = dao_tag_set_current(tag);
    void *block = dao_alloc(place, 5 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    memset(block, 1, 5 * MIB);
    (void)dao_tag_set_current(before);
    dao_tag_stats_t of_tag;
    must(dao_tag_stats_get(place, tag, &of_tag));
    CU_ASSERT_EQUAL(of_tag.used_bytes, 5 * MIB);
    CU_ASSERT_PTR_NULL(dao_alloc(place, 5 * MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(stats_of(place).reserved_bytes, 6 * MIB);
    CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 6 * (long)MIB);
    must(dao_free(place, block));
    must(dao_trim(place, 0, NULL));
    CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 0);
}

static void free_pages_of_a_file_are_moved(void)
{
    dao_own_memory_t memory = own_file_table(16 * MIB);
    dao_place_t place = registered(&memory);
    unsigned char *blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = dao_alloc(place, 2 * MIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
        memset(blocks[i], i, 2 * MIB);
    }
    for (int i = 0; i < 8; i += 2) {
        must(dao_free(place, blocks[i]));
    }
    void *wide = dao_alloc(place, 8 * MIB); /* no two free pages are neighbours */
    CU_ASSERT_PTR_NOT_NULL_FATAL(wide);
    CU_ASSERT_EQUAL(stats_of(place).remap_device_count, 4);
    memset(wide, 9, 8 * MIB);
    for (int i = 1; i < 8; i += 2) {
        CU_ASSERT_TRUE(blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, 2 * MIB - 1) == 0);
        must(dao_free(place, blocks[i]));
    }
    must(dao_free(place, wide));
}

static void bytes_go_to_and_from_every_place(void)
{
    const dao_own_memory_t tables[] = {own_malloc_table(64 * MIB), own_chip_table(64 * MIB),
                                       own_file_table(64 * MIB)};
    enum { PLACE_COUNT = 5, BYTES = 70000 };
    dao_place_t places[PLACE_COUNT] = {{DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_CPU, 0}};
    static unsigned char drawn[BYTES], returned[BYTES];
    void *blocks[PLACE_COUNT];
    for (int i = 0; i < PLACE_COUNT; i++) {
        places[i] = i < 2 ? places[i] : registered(&tables[i - 2]);
        blocks[i] = dao_alloc(places[i], BYTES);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
    for (int i = 0; i < PLACE_COUNT; i++) {
        for (int j = 0; j < PLACE_COUNT; j++) {
            memset(drawn, i * PLACE_COUNT + j, BYTES);
            memset(returned, 0xee, BYTES);
            must(dao_copy((dao_place_t){DAO_PLACE_KIND_CPU, 0}, returned, places[0], blocks[0], 1));
            must(dao_copy(places[i], blocks[i], (dao_place_t){DAO_PLACE_KIND_CPU, 0}, drawn, BYTES));
            if (i != j) {
                must(dao_copy(places[j], blocks[j], places[i], blocks[i], BYTES));
            }
            must(dao_copy((dao_place_t){DAO_PLACE_KIND_CPU, 0}, returned, places[j], blocks[j], BYTES));
            CU_ASSERT_EQUAL(memcmp(drawn, returned, BYTES), 0);
        }
    }
    CU_ASSERT_TRUE(atomic_load(&own_tables.copy_count) > 0);
    for (int i = 0; i < PLACE_COUNT; i++) {
        must(dao_free(places[i], blocks[i]));
    }
}

static void a_place_on_a_device_follows_its_streams(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    memory.is_on_device = true;
    memory.device_index = 1;
    dao_place_t place = registered(&memory);
    dao_stream_t *stream, *elsewhere;
    must(dao_stream_create(1, &stream));
    must(dao_stream_create(0, &elsewhere));
    unsigned char *block = dao_alloc_async(place, MIB, stream);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, MIB, elsewhere));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    unsigned char host[100] = {7}, returned[100] = {0};
    dao_place_t cpu = {DAO_PLACE_KIND_CPU, 0};
    must(dao_stream_copy(stream, place, block, cpu, host, sizeof(host)));
    must(dao_stream_copy(stream, cpu, returned, place, block, sizeof(host)));
    must(dao_stream_synchronize(stream));
    CU_ASSERT_EQUAL(returned[0], 7);
    void *beside = dao_alloc(dao_device_place(1), MIB);
    must(dao_stream_copy(stream, (dao_place_t){DAO_PLACE_KIND_DEVICE, 1}, beside, place, block, 100));
    must(dao_free_async(place, block, stream));
    CU_ASSERT_PTR_EQUAL(dao_alloc_async(place, MIB, stream), block); /* in the stream's order, at once */
    must(dao_free_async(place, block, stream));
    must(dao_stream_synchronize(stream));
    must(dao_free(dao_device_place(1), beside));
    dao_peer_info_t reach;
    must(dao_peer_query(1, place.index, &reach));
    CU_ASSERT_TRUE(reach.can_reach);
    dao_stream_destroy(stream);
    dao_stream_destroy(elsewhere);
}

static void pinned_memory_is_known_where_a_device_has_it(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t alone = registered(&memory);
    memory.is_on_device = true;
    dao_place_t on_device = registered(&memory);
    void *of_device = dao_alloc(dao_pinned_place(on_device.index), MIB), *reached = NULL;
    must(dao_host_device_address_query(0, of_device, &reached));
    CU_ASSERT_PTR_NOT_NULL(reached);
    CU_ASSERT_EQUAL(dao_host_register(0, of_device, MIB), DAO_ERR_BUSY);
    void *of_host = dao_alloc(dao_pinned_place(alone.index), MIB); /* no device has locked it */
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, of_host, &reached), DAO_ERR_FOREIGN_POINTER);
    must(dao_host_register(0, of_host, MIB));
    must(dao_host_unregister(of_host));
    must(dao_free(dao_pinned_place(alone.index), of_host));
    must(dao_free(dao_pinned_place(on_device.index), of_device));
}

static void streams_of_the_program_order_its_blocks(void)
{
    dao_own_memory_t memory = own_chip_table(64 * MIB);
    dao_place_t place = registered(&memory);
    own_stream_t own_one = {0}, own_two = {0};
    dao_stream_t *one, *two, *again;
    must(dao_stream_adopt(place.index, &own_one, &one));
    must(dao_stream_adopt(place.index, &own_two, &two));
    must(dao_stream_adopt(place.index, &own_one, &again));
    CU_ASSERT_PTR_EQUAL(again, one);
    void *block = dao_alloc_async(place, MIB, one);
    void *wall = dao_alloc_async(place, MIB, one);
    atomic_store(&own_one.queued, 5);
    must(dao_free_async(place, block, one));
    CU_ASSERT_PTR_EQUAL(dao_alloc_async(place, MIB, one), block);
    must(dao_free_async(place, block, one));
    void *plain = dao_alloc(place, MIB); /* its work is not done */
    CU_ASSERT_PTR_NOT_EQUAL(plain, block);
    must(dao_limit_set(place, stats_of(place).reserved_bytes));
    void *rest = dao_alloc(place, stats_of(place).largest_hole_bytes);
    void *behind = dao_alloc_async(place, MIB, two); /* only the held block is left */
    CU_ASSERT_PTR_EQUAL(behind, block);
    CU_ASSERT_TRUE(atomic_load(&own_two.waited) > 0 || atomic_load(&own_one.done) == 5);
    must(dao_free_async(place, behind, two));
    must(dao_free_async(place, wall, one));
    must(dao_stream_synchronize(one));
    CU_ASSERT_EQUAL(atomic_load(&own_one.done), 5);
    must(dao_free(place, plain));
    must(dao_free(place, rest));
    dao_stream_destroy(again);
    dao_stream_destroy(one);
    dao_stream_destroy(two);
}

/* A stream that a thread destroys, with its handle, during the wait for another one. */
static struct {
    own_stream_t *awaited;
    dao_stream_t *stream;
    own_stream_t *handle;
    bool is_joined; /* before the wait is over */
    dao_thread_t thread;
} ending;

static void *end_stream(void *user)
{
    (void)user;
    dao_stream_destroy(ending.stream);
    free(ending.handle);
    return NULL;
}

static void let_another_end(own_stream_t *stream)
{
    if (stream == ending.awaited) {
        ending.awaited = NULL;
        must(dao_thread_start(&ending.thread, "ends", end_stream, NULL));
        if (ending.is_joined) {
            dao_thread_join(&ending.thread);
        }
    }
}

/* The second of three is waited for. */
static void synchronize_while_one_ends(dao_place_t place, size_t which)
{
    own_stream_t *handles[3];
    dao_stream_t *streams[3];
    for (size_t i = 0; i < 3; i++) {
        handles[i] = calloc(1, sizeof(*handles[i]));
        CU_ASSERT_PTR_NOT_NULL_FATAL(handles[i]);
        must(dao_stream_adopt(place.index, handles[i], &streams[i]));
        atomic_store(&handles[i]->queued, 1);
    }
    ending.awaited = handles[1];
    ending.stream = streams[which];
    ending.handle = handles[which];
    ending.is_joined = which != 1; /* to destroy that one is to wait for us */
    own_tables.waiting = let_another_end;
    must(dao_device_synchronize(place.index));
    CU_ASSERT_PTR_NULL(ending.awaited);
    if (!ending.is_joined) {
        dao_thread_join(&ending.thread);
    }
    own_tables.waiting = NULL;
    for (size_t i = 0; i < 3; i++) {
        if (i != which) {
            CU_ASSERT_EQUAL(atomic_load(&handles[i]->done), 1);
            dao_stream_destroy(streams[i]);
            free(handles[i]);
        }
    }
}

static void a_device_is_idle_though_a_stream_ends_meanwhile(void)
{
    dao_own_memory_t memory = own_chip_table(64 * MIB);
    dao_place_t place = registered(&memory);
    must(dao_free(place, dao_alloc(place, MIB))); /* it is started */
    for (size_t which = 0; which < 3; which++) {
        synchronize_while_one_ends(place, which);
    }
}

static void streams_of_the_library_are_done_at_once(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t place = registered(&memory);
    dao_stream_t *stream, *adopted = NULL;
    int number = 0;
    must(dao_stream_create(place.index, &stream));
    CU_ASSERT_EQUAL(dao_stream_adopt(place.index, &number, &adopted), DAO_ERR_UNSUPPORTED);
    unsigned char *block = dao_alloc_async(place, MIB, stream);
    must(dao_stream_fill(stream, block, 9, MIB));
    CU_ASSERT_EQUAL(block[MIB - 1], 9);
    must(dao_free_async(place, block, stream));
    dao_event_t *event;
    must(dao_event_create(place.index, &event));
    must(dao_event_record(event, stream));
    CU_ASSERT_EQUAL(dao_event_query(event), DAO_OK);
    dao_event_destroy(event);
    must(dao_device_synchronize(place.index));
    dao_stream_destroy(stream);
}

static dao_event_t *event_on(int32_t device_index)
{
    dao_event_t *event;
    must(dao_event_create(device_index, &event));
    return event;
}

static void streams_wait_for_events_that_they_can_meet(void)
{
    enum { HOST_COUNT = 2, ALONE = 3, OTHER = 4, END = 5 }; /* 0, 1 and 2, which is on 1, can meet */
    dao_own_memory_t on_device = own_malloc_table(64 * MIB), alone = own_chip_table(64 * MIB);
    on_device.is_on_device = true;
    on_device.device_index = 1;
    CU_ASSERT_EQUAL(registered(&on_device).index, HOST_COUNT);
    CU_ASSERT_EQUAL(registered(&alone).index, ALONE);
    CU_ASSERT_EQUAL(registered(&alone).index, OTHER);
    own_stream_t own[2] = {{0}, {0}};
    dao_stream_t *streams[END];
    dao_event_t *events[END];
    for (int32_t i = 0; i < END; i++) {
        must(i < ALONE ? dao_stream_get(i, DAO_STREAM_ROLE_COMPUTE, &streams[i])
                       : dao_stream_adopt(i, &own[i - ALONE], &streams[i]));
        events[i] = event_on(i);
        must(dao_event_record(events[i], streams[i]));
    }
    for (int32_t i = 0; i < END; i++) {
        for (int32_t j = 0; j < END; j++) {
            bool can_meet = i == j || (i < ALONE && j < ALONE);
            CU_ASSERT_EQUAL(dao_stream_wait_event(streams[i], events[j]),
                            can_meet ? DAO_OK : DAO_ERR_INVALID);
        }
    }
    CU_ASSERT_TRUE(atomic_load(&own[0].waited) == 1 && atomic_load(&own[1].waited) == 1);
    for (int32_t i = 0; i < END; i++) {
        dao_event_destroy(events[i]);
        if (i >= ALONE) {
            dao_stream_destroy(streams[i]);
        }
    }
}

static void steps_are_planned_where_there_are_pages(void)
{
    dao_own_memory_t memory = own_file_table(128 * MIB);
    dao_place_t place = registered(&memory);
    must(dao_place_configure(place, &(dao_place_config_t){.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}}));
    for (int step = 0; step < 4; step++) {
        void *blocks[12];
        must(dao_step_begin(place));
        for (size_t i = 0; i < 12; i++) {
            blocks[i] = dao_alloc(place, 100 * KIB * (i + 1));
        }
        for (size_t i = 0; i < 12; i++) {
            must(dao_free(place, blocks[i]));
        }
        must(dao_step_end(place));
    }
    dao_step_plan_stats_t stats;
    must(dao_step_plan_stats_get(place, &stats));
    CU_ASSERT_TRUE(stats.has_plan);
    CU_ASSERT_EQUAL(stats.latest.hit_count, 12);
}

static void a_handle_outlives_the_library(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t place = registered(&memory);
    dao_memory_t *handle;
    must(dao_memory_create(place, MIB, NULL, &handle));
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_TRUE(atomic_load(&own_tables.held_bytes) > 0);
    dao_memory_release(handle);
    CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 0);
    must(dao_init(NULL));
    CU_ASSERT_PTR_NULL(dao_alloc(place, 1)); /* it went with that start */
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
}

/* ---- misuse ---- */

static void wrong_tables_are_refused(void)
{
    dao_own_memory_t right = own_chip_table(64 * MIB), paged = own_file_table(64 * MIB), wrong;
    dao_place_t place = {DAO_PLACE_KIND_CPU, -1};
#define REFUSED(base, field, value, answer)                                                                  \
    wrong = (base);                                                                                          \
    wrong.field = (value);                                                                                   \
    CU_ASSERT_EQUAL(dao_place_register(&wrong, &place), answer);                                             \
    CU_ASSERT_EQUAL(place.index, -1)
    REFUSED(right, name, NULL, DAO_ERR_INVALID);
    REFUSED(right, name, "", DAO_ERR_INVALID);
    REFUSED(right, name, "0123456789012345678901234567890123456789012345678901234567890123", DAO_ERR_INVALID);
    REFUSED(right, obtain, NULL, DAO_ERR_INVALID);
    REFUSED(right, release, NULL, DAO_ERR_INVALID);
    REFUSED(right, capacity_bytes, 0, DAO_ERR_INVALID);
    REFUSED(right, capacity_bytes, UINT64_MAX, DAO_ERR_INVALID);
    REFUSED(right, alignment_bytes, 3, DAO_ERR_INVALID);
    REFUSED(right, event_query, NULL, DAO_ERR_INVALID);
    REFUSED(right, page_bytes, 4096, DAO_ERR_INVALID);
    REFUSED(right, is_on_device, true, DAO_ERR_INVALID);
    REFUSED(right, device_index, 1, DAO_ERR_INVALID);
    REFUSED(paged, page_unmap, NULL, DAO_ERR_INVALID);
    REFUSED(paged, page_bytes, 3 * MIB, DAO_ERR_INVALID);
    REFUSED(paged, page_bytes, 2 * GIB, DAO_ERR_INVALID);
    paged.is_on_device = true;
    REFUSED(paged, device_index, 2, DAO_ERR_NO_DEVICE);
    REFUSED(paged, device_index, -1, DAO_ERR_NO_DEVICE);
#undef REFUSED
    CU_ASSERT_EQUAL(dao_place_register(NULL, &place), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_place_register(&right, NULL), DAO_ERR_INVALID);
}

static void there_are_so_many_places(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    for (int i = 2; i < DAO_DEVICE_COUNT_MAX; i++) {
        CU_ASSERT_EQUAL(registered(&memory).index, i);
    }
    dao_place_t place;
    CU_ASSERT_EQUAL(dao_place_register(&memory, &place), DAO_ERR_TOO_MANY);
    must(dao_free(dao_device_place(DAO_DEVICE_COUNT_MAX - 1),
                  dao_alloc(dao_device_place(DAO_DEVICE_COUNT_MAX - 1), MIB)));
}

static void *host_block; /* the host is started, so that fast paths are open */

static void call_the_library(void)
{
    dao_place_t place;
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    CU_ASSERT_PTR_NULL(dao_alloc((dao_place_t){DAO_PLACE_KIND_CPU, 0}, 100));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_REENTRANT);
    CU_ASSERT_PTR_NULL(dao_alloc(dao_cpu_place(), 100));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_free(dao_cpu_place(), host_block), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_place_register(&memory, &place), DAO_ERR_REENTRANT);
}

static void a_table_that_calls_the_library_is_refused(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t place = registered(&memory);
    host_block = dao_alloc(dao_cpu_place(), 100);
    CU_ASSERT_PTR_NOT_NULL(host_block);
    own_tables.inside = call_the_library;
    void *block = dao_alloc(place, MIB);
    own_tables.inside = NULL;
    CU_ASSERT_PTR_NOT_NULL(block);
    must(dao_free(place, block));
    must(dao_free(dao_cpu_place(), host_block)); /* this thread may call again */
}

static void an_odd_address_is_refused(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t place = registered(&memory);
    own_tables.gives_odd = true;
    CU_ASSERT_PTR_NULL(dao_alloc(place, MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 0); /* it went back */
    own_tables.gives_odd = false;
    must(dao_free(place, dao_alloc(place, MIB)));
}

static void an_odd_reservation_is_refused(void)
{
    dao_own_memory_t memory = own_file_table(64 * MIB);
    dao_place_t place = registered(&memory);
    own_tables.gives_odd = true;
    CU_ASSERT_PTR_NULL(dao_alloc(place, MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BACKEND);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "reserve"));
    CU_ASSERT_EQUAL(atomic_load(&own_tables.reserved_bytes), 0); /* it went back */
    own_tables.gives_odd = false;
    must(dao_free(place, dao_alloc(place, MIB)));
}

static void the_capacity_is_never_exceeded(void)
{
    dao_own_memory_t memory = own_malloc_table(20 * MIB);
    dao_place_t place = registered(&memory);
    for (int i = 0; i < 3; i++) { /* what was released can be had again */
        void *block = dao_alloc(place, 20 * MIB);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_PTR_NULL(dao_alloc(place, MIB));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
        CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 20 * (long)MIB);
        must(dao_free(place, block));
        must(dao_trim(place, 0, NULL));
        CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 0);
    }
}

/* Each call of the table fails in turn: what fails is told, and nothing is lost. */
static void a_call_that_fails_loses_nothing(void)
{
    dao_own_memory_t (*const makers[])(uint64_t) = {own_malloc_table, own_chip_table, own_file_table};
    for (size_t i = 0; i < 3; i++) {
        bool is_done = false;
        for (long n = 0; n < 100 && !is_done; n++) {
            dao_own_memory_t memory = makers[i](64 * MIB);
            dao_place_t place = registered(&memory);
            atomic_store(&own_tables.fail_at, n);
            void *blocks[3];
            for (size_t j = 0; j < 3; j++) {
                blocks[j] = dao_alloc(place, 5 * MIB * (j + 1));
            }
            for (size_t j = 0; j < 3; j++) {
                must(dao_free(place, blocks[j]));
            }
            (void)dao_trim(place, 0, NULL);
            is_done = atomic_load(&own_tables.fail_at) >= 0;
            atomic_store(&own_tables.fail_at, -1);
            library_stop(); /* nothing is held */
            library_start();
        }
        CU_ASSERT_TRUE(is_done);
    }
}

static void count_call(void *user)
{
    ++*(int *)user;
}

/* Each kind of work, on a stream of the program's and on one of the library's. Returns the first error. */
static dao_status_t work_of_all_kinds(dao_place_t place, dao_stream_t *program, dao_stream_t *library)
{
    static unsigned char returned[MIB];
    const dao_place_t cpu = {DAO_PLACE_KIND_CPU, 0};
    dao_event_t *event = NULL;
    int call_count = 0;
    returned[MIB - 1] = 0;
    unsigned char *block = dao_alloc(place, MIB);
    dao_status_t status = block != NULL ? dao_event_create(place.index, &event) : dao_last_status();
    status = status == DAO_OK ? dao_stream_fill(program, block, 9, MIB) : status;
    status = status == DAO_OK ? dao_stream_copy(program, cpu, returned, place, block, MIB) : status;
    status = status == DAO_OK ? dao_stream_host_func(program, count_call, &call_count) : status;
    status = status == DAO_OK ? dao_event_record(event, program) : status;
    status = status == DAO_OK ? dao_stream_wait_event(program, event) : status;
    status = status == DAO_OK ? dao_stream_wait_event(library, event) : status;
    status = status == DAO_OK ? dao_event_synchronize(event) : status;
    status = status == DAO_OK ? dao_event_query(event) : status;
    status = status == DAO_OK ? dao_device_synchronize(place.index) : status;
    CU_ASSERT_TRUE(status != DAO_OK || (returned[MIB - 1] == 9 && call_count == 1));
    dao_event_destroy(event);
    dao_status_t freed = block != NULL ? dao_free(place, block) : DAO_OK;
    return status != DAO_OK ? status : freed;
}

static void work_that_fails_is_told_and_loses_nothing(void)
{
    bool is_done = false;
    for (long n = -1; n < 100 && !is_done; n++) { /* first without a failure */
        dao_own_memory_t memory = own_chip_table(64 * MIB);
        dao_place_t place = registered(&memory);
        own_stream_t own = {0};
        dao_stream_t *program, *library;
        must(dao_stream_adopt(place.index, &own, &program));
        must(dao_stream_create(place.index, &library));
        CU_ASSERT_PTR_EQUAL(dao_stream_native(program), &own);
        atomic_store(&own_tables.fail_at, n);
        dao_status_t status = work_of_all_kinds(place, program, library);
        is_done = n >= 0 && atomic_load(&own_tables.fail_at) >= 0;
        CU_ASSERT_TRUE(status == DAO_OK || (n >= 0 && !is_done));
        CU_ASSERT_TRUE(n >= 0 || atomic_load(&own.waited) > 0);
        atomic_store(&own_tables.fail_at, -1);
        CU_ASSERT_EQUAL(stats_of(place).used_bytes, 0);
        dao_stream_destroy(program);
        dao_stream_destroy(library);
        library_stop();
        library_start();
    }
    CU_ASSERT_TRUE(is_done);
}

static void events_of_own_memory_have_no_time(void)
{
    dao_own_memory_t memory = own_chip_table(64 * MIB);
    dao_place_t place = registered(&memory);
    own_stream_t own = {0};
    dao_stream_t *stream;
    dao_event_t *begin, *end;
    int64_t elapsed_ns = 77;
    must(dao_stream_adopt(place.index, &own, &stream));
    must(dao_event_create(place.index, &begin));
    must(dao_event_create(place.index, &end));
    must(dao_event_record(begin, stream));
    must(dao_event_record(end, stream));
    must(dao_event_synchronize(end));
    CU_ASSERT_EQUAL(dao_event_elapsed(begin, end, &elapsed_ns), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(elapsed_ns, 77);
    dao_event_destroy(begin);
    dao_event_destroy(end);
    dao_stream_destroy(stream);
}

static void what_other_processes_and_libraries_may_not_have_is_refused(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t place = registered(&memory);
    dao_memory_t *shared = NULL;
    CU_ASSERT_EQUAL(dao_memory_create_shared(place, MIB, &shared), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_peer_enable(0, place.index), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_peer_enable(place.index, 0), DAO_ERR_UNSUPPORTED);
    dao_peer_info_t reach;
    must(dao_peer_query(0, place.index, &reach));
    CU_ASSERT_FALSE(reach.can_reach);
    CU_ASSERT_EQUAL(dao_device_set_current(place.index), DAO_ERR_NO_DEVICE);
}

static CU_TestInfo tests[] = {
    {"several places are numbered behind the devices", several_places_are_numbered_behind_the_devices},
    {"limits, tags and statistics hold", limits_tags_and_statistics_hold},
    {"free pages of a file are moved", free_pages_of_a_file_are_moved},
    {"bytes go to and from every place", bytes_go_to_and_from_every_place},
    {"a place on a device follows its streams", a_place_on_a_device_follows_its_streams},
    {"pinned memory is known where a device has it", pinned_memory_is_known_where_a_device_has_it},
    {"streams of the program order its blocks", streams_of_the_program_order_its_blocks},
    {"a device is idle though a stream ends meanwhile", a_device_is_idle_though_a_stream_ends_meanwhile},
    {"streams of the library are done at once", streams_of_the_library_are_done_at_once},
    {"streams wait for events that they can meet", streams_wait_for_events_that_they_can_meet},
    {"steps are planned where there are pages", steps_are_planned_where_there_are_pages},
    {"a handle outlives the library", a_handle_outlives_the_library},
    {"wrong tables are refused", wrong_tables_are_refused},
    {"there are so many places", there_are_so_many_places},
    {"a table that calls the library is refused", a_table_that_calls_the_library_is_refused},
    {"an odd address is refused", an_odd_address_is_refused},
    {"an odd reservation is refused", an_odd_reservation_is_refused},
    {"the capacity is never exceeded", the_capacity_is_never_exceeded},
    {"a call that fails loses nothing", a_call_that_fails_loses_nothing},
    {"work that fails is told, and loses nothing", work_that_fails_is_told_and_loses_nothing},
    {"events of own memory have no time", events_of_own_memory_have_no_time},
    {"what other processes and libraries may not have is refused",
     what_other_processes_and_libraries_may_not_have_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"own malloc, contract", NULL, NULL, malloc_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"own file, contract", NULL, NULL, file_contract_begin, allocator_contract_end,
                              allocator_contract_tests},
                             {"own memory", NULL, NULL, library_start, library_stop, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

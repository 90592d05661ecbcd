/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks lie in slots that all threads may empty:

       thread 0 --put--> [ block | - | block | - ] --take--> thread 1: contents, free

   The ends of a block have a pattern of its own; whoever frees it looks at that first. */
#include "tests/scheduler/memory_program.h"

#include "base/numbers/random.h"
#include "base/schedule/schedule.h"
#include "tests/scheduler/baton.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_COUNT     4u
#define STREAM_COUNT   2u
#define EDGE_BYTES     48u /* of a block at each end, that have its pattern */
#define EVENT_COUNT    64u
#define LOOK_COUNT_MAX 16u /* OWN and WRONG make at most so many tries to meet */

typedef struct block {
    unsigned char *address;
    size_t size_bytes;
    unsigned char pattern;
} block_t;

static const memory_program_t *program;
static block_t *_Atomic slots[SLOT_COUNT];
static dao_stream_t *streams[STREAM_COUNT];
static dao_tag_t tag_number;
static void *_Atomic owned; /* the address of a handle; no other block is freed where WRONG is drawn */

/* ---- blocks ---- */

static size_t edge_of(const block_t *block)
{
    return block->size_bytes < EDGE_BYTES ? block->size_bytes : EDGE_BYTES;
}

/* A refusal is right where there is a limit. */
static bool may_refuse(void)
{
    dao_status_t status = dao_last_status();
    return program->limit_bytes != 0 && (status == DAO_ERR_LIMIT || status == DAO_ERR_NO_DEVICE_MEMORY);
}

static size_t draw_size(uint64_t *random)
{
    return 1 + (size_t)dao_random_below(random, program->size_bytes);
}

/* By the place's own type, whose calls have a fast path, or by that of all places. */
static void *place_alloc(size_t size_bytes, bool is_typed)
{
    if (is_typed && program->place.kind == DAO_PLACE_KIND_DEVICE) {
        return dao_alloc(dao_device_place(program->place.index), size_bytes);
    }
    return is_typed && program->place.kind == DAO_PLACE_KIND_CPU ? dao_alloc(dao_cpu_place(), size_bytes)
                                                                 : dao_alloc(program->place, size_bytes);
}

static dao_status_t place_free(void *address, bool is_typed)
{
    if (is_typed && program->place.kind == DAO_PLACE_KIND_DEVICE) {
        return dao_free(dao_device_place(program->place.index), address);
    }
    return is_typed && program->place.kind == DAO_PLACE_KIND_CPU ? dao_free(dao_cpu_place(), address)
                                                                 : dao_free(program->place, address);
}

/* Returns NULL if the limit refuses it. */
static block_t *block_create(uint64_t *random)
{
    block_t *block = malloc(sizeof(*block));
    BATON_CHECK(block != NULL);
    *block = (block_t){.size_bytes = draw_size(random), .pattern = (unsigned char)dao_random_next(random)};
    block->address = place_alloc(block->size_bytes, (block->pattern & 1) != 0);
    if (block->address == NULL) {
        BATON_CHECK(may_refuse());
        free(block);
        return NULL;
    }
    size_t edge = edge_of(block);
    memset(block->address, block->pattern, edge);
    memset(block->address + block->size_bytes - edge, block->pattern, edge);
    return block;
}

static void block_check(const block_t *block)
{
    for (size_t i = 0; i < edge_of(block); i++) {
        BATON_CHECK(block->address[i] == block->pattern);
        BATON_CHECK(block->address[block->size_bytes - 1 - i] == block->pattern);
    }
}

static void block_destroy(block_t *block)
{
    if (block != NULL) {
        block_check(block);
        BATON_CHECK(place_free(block->address, (block->pattern & 2) != 0) == DAO_OK);
        free(block);
    }
}

static block_t *exchange(uint64_t slot, block_t *block)
{
    dao_schedule_atomic(&slots[slot]);
    return atomic_exchange(&slots[slot], block);
}

/* ---- calls ---- */

static void put(uint64_t *random)
{
    block_destroy(exchange(dao_random_below(random, SLOT_COUNT), block_create(random)));
}

static void take(uint64_t *random)
{
    block_destroy(exchange(dao_random_below(random, SLOT_COUNT), NULL));
}

static void pass(uint64_t *random)
{
    block_t *own = block_create(random);
    put(random);
    take(random);
    block_destroy(own);
}

static void look(uint64_t *random)
{
    (void)random;
    dao_stats_t stats;
    BATON_CHECK(dao_stats_get(program->place, &stats) == DAO_OK);
    BATON_CHECK(stats.used_bytes <= stats.reserved_bytes || program->comes_late);
}

static void snapshot(uint64_t *random)
{
    (void)random;
    dao_snapshot_t *all = NULL;
    BATON_CHECK(dao_snapshot_create(program->place, &all) == DAO_OK);
    dao_snapshot_destroy(all);
}

static void trim(uint64_t *random)
{
    (void)random;
    BATON_CHECK(dao_trim(program->place, 0, NULL) == DAO_OK);
}

static void limit(uint64_t *random)
{
    size_t limit_bytes = dao_random_below(random, 2) == 0 ? program->limit_bytes : 0;
    dao_status_t status = dao_limit_set(program->place, limit_bytes);
    BATON_CHECK(status == DAO_OK || (status == DAO_ERR_LIMIT && limit_bytes != 0));
}

/* What a stream finds in a block that it alone should have written to. */
static void compare(void *user)
{
    block_t *block = user;
    block_check(block);
    free(block);
}

/* Queues a fill of the block and a look at it. */
static void use_on(dao_stream_t *stream, const block_t *block)
{
    block_t *copy = malloc(sizeof(*copy));
    BATON_CHECK(copy != NULL);
    *copy = *block;
    BATON_CHECK(dao_stream_fill(stream, block->address, block->pattern, block->size_bytes) == DAO_OK);
    BATON_CHECK(dao_stream_host_func(stream, compare, copy) == DAO_OK);
}

static bool block_order(block_t *block, dao_stream_t *stream, uint64_t *random)
{
    *block = (block_t){.size_bytes = draw_size(random), .pattern = (unsigned char)dao_random_next(random)};
    block->address = dao_alloc_async(program->place, block->size_bytes, stream);
    BATON_CHECK(block->address != NULL || may_refuse());
    return block->address != NULL;
}

static void order(uint64_t *random)
{
    dao_stream_t *stream = streams[dao_random_below(random, STREAM_COUNT)];
    block_t block;
    if (block_order(&block, stream, random)) {
        use_on(stream, &block);
        BATON_CHECK(dao_free_async(program->place, block.address, stream) == DAO_OK);
    }
}

static void record(uint64_t *random)
{
    block_t block;
    if (block_order(&block, streams[0], random)) {
        dao_event_t *event = NULL;
        BATON_CHECK(dao_event_create(program->place.index, &event) == DAO_OK);
        BATON_CHECK(dao_event_record(event, streams[0]) == DAO_OK);
        BATON_CHECK(dao_stream_wait_event(streams[1], event) == DAO_OK);
        use_on(streams[1], &block);
        BATON_CHECK(dao_record_stream(program->place, block.address, streams[1]) == DAO_OK);
        BATON_CHECK(dao_free_async(program->place, block.address, streams[0]) == DAO_OK);
        dao_event_destroy(event);
    }
}

static void synchronize(uint64_t *random)
{
    BATON_CHECK(dao_stream_synchronize(streams[dao_random_below(random, STREAM_COUNT)]) == DAO_OK);
}

static void step(uint64_t *random)
{
    BATON_CHECK(dao_step_begin(program->place) == DAO_OK);
    pass(random);
    BATON_CHECK(dao_step_end(program->place) == DAO_OK);
}

static void lease(uint64_t *random)
{
    dao_lease_t *held = NULL;
    BATON_CHECK(dao_lease_begin(program->place, &held) == DAO_OK);
    block_t *first = block_create(random);
    block_destroy(block_create(random));
    BATON_CHECK(dao_lease_commit(held) == DAO_OK);
    put(random);
    if (dao_random_below(random, 2) == 0) {
        BATON_CHECK(dao_lease_enter(held) == DAO_OK);
        put(random);
        BATON_CHECK(dao_lease_leave(held) == DAO_OK);
    }
    BATON_CHECK(dao_lease_release(held) == DAO_OK);
    block_destroy(first);
}

static void events(uint64_t *random)
{
    dao_memory_event_t found[EVENT_COUNT];
    size_t count = 0;
    uint64_t lost = 0;
    dao_status_t status = DAO_OK;
    switch (dao_random_below(random, 3)) {
    case 0:
        status = dao_events_start(program->place, EVENT_COUNT);
        break;
    case 1:
        status = dao_events_stop(program->place);
        break;
    default:
        status = dao_events_read(program->place, found, EVENT_COUNT, &count, &lost);
        BATON_CHECK(count <= EVENT_COUNT);
        break;
    }
    BATON_CHECK(status == DAO_OK || status == DAO_ERR_BUSY || status == DAO_ERR_NOT_READY);
}

static void tag(uint64_t *random)
{
    dao_tag_stats_t stats;
    dao_tag_t before = dao_tag_set_current(tag_number);
    put(random);
    (void)dao_tag_set_current(before); /* returns tag_number */
    BATON_CHECK(dao_tag_stats_get(program->place, tag_number, &stats) == DAO_OK);
}

static void *owned_now(void)
{
    dao_schedule_atomic(&owned);
    return atomic_load(&owned);
}

static void own(uint64_t *random)
{
    dao_memory_t *memory = NULL;
    BATON_CHECK(dao_memory_create(program->place, draw_size(random), NULL, &memory) == DAO_OK);
    atomic_store(&owned, dao_memory_address(memory));
    for (uint64_t left = dao_random_below(random, LOOK_COUNT_MAX); left > 0; left--) {
        (void)owned_now(); /* so that others get to free it */
    }
    BATON_CHECK(dao_memory_release(memory) == DAO_OK);
    dao_schedule_atomic(&owned);
    atomic_store(&owned, NULL);
}

static void wrong(uint64_t *random)
{
    uint64_t left = dao_random_below(random, LOOK_COUNT_MAX);
    for (void *address = owned_now(); address != NULL && left > 0; left--) {
        BATON_CHECK(dao_free(program->place, address) != DAO_OK);
        address = owned_now();
    }
}

/* ---- the program ---- */

static void (*const calls[])(uint64_t *random) = {
#define MEMORY_CALL_FUNCTION(name, function) function,
    MEMORY_CALL_LIST(MEMORY_CALL_FUNCTION)
#undef MEMORY_CALL_FUNCTION
};

/* Memory is short: a block that waits in a slot goes. */
static size_t give_way(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place, (void)needed_bytes, (void)user;
    for (uint64_t i = 0; i < SLOT_COUNT; i++) {
        block_t *block = exchange(i, NULL);
        if (block != NULL) {
            size_t size_bytes = block->size_bytes;
            block_destroy(block);
            return size_bytes;
        }
    }
    return 0;
}

void memory_program_begin(const void *user, uint64_t *random)
{
    program = user;
    dao_place_config_t config = program->config;
    config.limit_bytes = program->limit_bytes;
    BATON_CHECK(dao_init(&(dao_config_t){.cpu = {.device_bytes = UINT64_C(64) << 20}}) == DAO_OK);
    BATON_CHECK(dao_place_configure(program->place, &config) == DAO_OK);
    if ((program->calls & (CALL(ORDER) | CALL(RECORD) | CALL(SYNC))) != 0) {
        for (uint32_t i = 0; i < STREAM_COUNT; i++) {
            BATON_CHECK(dao_stream_create(program->place.index, &streams[i]) == DAO_OK);
        }
    }
    if ((program->calls & CALL(TAG)) != 0) {
        BATON_CHECK(dao_tag_create("program", &tag_number) == DAO_OK);
    }
    uint64_t id = 0;
    if (program->has_callback) {
        BATON_CHECK(dao_pressure_callback_add(program->place, give_way, NULL, &id) == DAO_OK);
    }
    if (!program->comes_late) {
        put(random);
        put(random);
    }
}

void memory_program_part(const void *user, uint32_t thread, uint64_t *random)
{
    (void)user, (void)thread;
    uint32_t kinds[MEMORY_CALL_COUNT];
    uint32_t kind_count = 0;
    for (uint32_t i = 0; i < MEMORY_CALL_COUNT; i++) {
        if ((program->calls >> i & 1) != 0 && !baton_leaves_out(i)) {
            kinds[kind_count++] = i;
        }
    }
    for (uint32_t i = 0; i < program->call_count && kind_count != 0; i++) {
        calls[kinds[dao_random_below(random, kind_count)]](random);
    }
}

void memory_program_end(const void *user)
{
    (void)user;
    for (uint64_t i = 0; i < SLOT_COUNT; i++) {
        block_destroy(exchange(i, NULL));
    }
    for (uint32_t i = 0; i < STREAM_COUNT && streams[i] != NULL; i++) {
        BATON_CHECK(dao_stream_synchronize(streams[i]) == DAO_OK);
        dao_stream_destroy(streams[i]);
    }
    BATON_CHECK(dao_limit_set(program->place, 0) == DAO_OK);
    BATON_CHECK(dao_trim(program->place, 0, NULL) == DAO_OK);
    dao_stats_t stats;
    BATON_CHECK(dao_stats_get(program->place, &stats) == DAO_OK);
    BATON_CHECK(stats.live_count == 0 && stats.used_bytes == 0 && stats.requested_bytes == 0);
    BATON_CHECK(stats.alloc_count == stats.free_count && stats.deferred_count == 0);
    BATON_CHECK(dao_used(program->place) == 0);
    if ((program->calls & CALL(TAG)) != 0) {
        dao_tag_stats_t tagged;
        BATON_CHECK(dao_tag_stats_get(program->place, tag_number, &tagged) == DAO_OK);
        BATON_CHECK(tagged.used_bytes == 0 && tagged.live_count == 0);
        BATON_CHECK(tagged.alloc_count == tagged.free_count);
    }
    if (program->config.hardening != 0) {
        BATON_CHECK(dao_hardening_check(program->place) == DAO_OK);
    }
    BATON_CHECK(dao_finalize() == DAO_OK);
}

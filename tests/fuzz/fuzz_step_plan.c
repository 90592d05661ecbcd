/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of step plans. The first byte of an input says what the others are:

       a program of steps        that repeats or deviates: other sizes, more or fewer requests, another order,
                                 frees a step late. Blocks never overlap, everything is freed, and the place
                                 takes hardly more than with the same requests without plans
       a more varied program     also with keys, alignments, failing requests, threads of one request each,
                                 nested steps, and plans that are disabled, reset, saved and loaded */
#include "allocators/paged/device_memory.h"
#include "allocators/pages/page_buddy.h"
#include "allocators/step_plan/planned.h"
#include "base/threads/sync.h"
#include "tests/fuzz/fuzz_text.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/suite.h"

#include <string.h>

/* ---- programs ---- */

enum { SIZE_SHIFT = 4, STEP_COUNT_MAX = 24, LIVE_COUNT_MAX = 512, STEPS_RUN_MAX = 24 };

#define CAPACITY_BYTES (2 * GIB)
#define PAGE_BYTES     (64 * KIB)

/* Programs whose first byte is at least this are varied. */
#define VARIED_FROM 128u

/* A place takes at most this part more than without plans, and some pages, which are much of so small
   programs: one at each edge of what lives, of the plan's part and of the rest. */
#define MORE_PART  20u
#define MORE_PAGES 6u

typedef struct live {
    char *address;
    char *alone_address; /* at the place without plans */
    size_t size_bytes;
    uint32_t free_at; /* the position before which it is freed */
} live_t;

typedef struct program {
    fuzz_input_t *input;
    dao_allocator_t *allocator;
    dao_allocator_t *alone; /* has the same requests, and no plan */
    uint32_t count;         /* positions of a step */
    size_t sizes[STEP_COUNT_MAX];
    uint32_t lives[STEP_COUNT_MAX];
    live_t live[LIVE_COUNT_MAX];
    uint32_t live_count;
    /* of a varied one */
    bool is_varied;
    bool was_controlled; /* its plans are not those that it has earned */
    size_t alignment_bytes;
    text_t *saved;
} program_t;

static size_t draw_size(fuzz_input_t *input)
{
    uint32_t byte = fuzz_byte(input);
    return (((size_t)1 << (6 + byte % 13)) + byte / 13 * 100) << SIZE_SHIFT;
}

/* A request at one of the two places. */
typedef struct asked {
    dao_allocator_t *allocator;
    dao_block_request_t request;
    dao_block_grant_t grant;
    dao_status_t status;
} asked_t;

static void *ask(void *user)
{
    asked_t *asked = user;
    asked->status = asked->allocator->ops->alloc(asked->allocator, &asked->request, &asked->grant);
    return NULL;
}

static char *take_at(const program_t *program, dao_allocator_t *allocator, size_t size_bytes,
                     bool has_own_thread)
{
    asked_t asked = {.allocator = allocator,
                     .request = {.size_bytes = size_bytes, .alignment_bytes = program->alignment_bytes}};
    dao_thread_t thread;
    if (has_own_thread) {
        FUZZ_REQUIRE(dao_thread_start(&thread, "asks", ask, &asked) == DAO_OK);
        dao_thread_join(&thread);
    } else {
        (void)ask(&asked);
    }
    FUZZ_REQUIRE(asked.status == DAO_OK);
    FUZZ_REQUIRE(program->alignment_bytes == 0 ||
                 (uintptr_t)asked.grant.address % program->alignment_bytes == 0);
    return asked.grant.address;
}

static void take_by(program_t *program, size_t size_bytes, uint32_t free_at, bool has_own_thread)
{
    if (program->live_count == LIVE_COUNT_MAX) {
        return;
    }
    char *address = take_at(program, program->allocator, size_bytes, has_own_thread);
    char *alone_address = take_at(program, program->alone, size_bytes, false);
    for (uint32_t i = 0; i < program->live_count; i++) {
        const live_t *other = &program->live[i];
        FUZZ_REQUIRE(address + size_bytes <= other->address || other->address + other->size_bytes <= address);
    }
    program->live[program->live_count++] = (live_t){
        .address = address, .alone_address = alone_address, .size_bytes = size_bytes, .free_at = free_at};
}

static void take(program_t *program, size_t size_bytes, uint32_t free_at)
{
    take_by(program, size_bytes, free_at, false);
}

/* Frees what is due before a position. */
static void give_due(program_t *program, uint32_t position)
{
    for (uint32_t i = program->live_count; i-- > 0;) {
        if (program->live[i].free_at <= position) {
            FUZZ_REQUIRE(dao_allocator_free(program->allocator, program->live[i].address) == DAO_OK);
            FUZZ_REQUIRE(dao_allocator_free(program->alone, program->live[i].alone_address) == DAO_OK);
            program->live[i] = program->live[--program->live_count];
        }
    }
}

/* What a varied program does before a position, besides asking. */
static void vary(program_t *program, uint32_t position)
{
    uint32_t byte = fuzz_byte(program->input);
    void *unused;
    program->alignment_bytes = byte % 16 == 1 ? (size_t)512 << byte / 16 % 8 : 0;
    if (byte % 16 == 2) { /* of few, so that they come again */
        (void)dao_planned_key_set(byte / 16 % 5);
    } else if (byte % 16 == 3) {
        FUZZ_REQUIRE(dao_allocator_alloc(program->allocator, 2 * CAPACITY_BYTES, &unused) != DAO_OK);
    } else if (byte % 16 == 4) {
        take_by(program, program->sizes[position], position + 1 + byte / 16 % 4, true);
    } else if (byte % 16 == 5) { /* of the step that is under way, until it ends */
        FUZZ_REQUIRE(dao_planned_begin(program->allocator) == DAO_OK);
        FUZZ_REQUIRE(dao_planned_end(program->allocator) == DAO_OK);
    } else if (byte == 6 || byte == 22) {
        program->was_controlled = true;
        dao_planned_enable(program->allocator, byte == 6);
    }
}

/* What a varied program does between its steps. Nobody learns meanwhile. */
static void control(program_t *program)
{
    uint32_t byte = fuzz_byte(program->input);
    size_t released_bytes;
    if (byte % 16 == 1) {
        FUZZ_REQUIRE(dao_planned_reset(program->allocator) == DAO_OK);
    } else if (byte % 16 == 2) {
        program->saved->length = 0;
        dao_status_t status = dao_planned_save(program->allocator, text_add, program->saved);
        FUZZ_REQUIRE(status == DAO_OK || (status == DAO_ERR_NOT_READY && program->saved->length == 0));
    } else if (byte % 16 == 3 && program->saved->length > 0) { /* of some steps ago */
        FUZZ_REQUIRE(dao_planned_load(program->allocator, program->saved->bytes, program->saved->length) ==
                     DAO_OK);
    } else if (byte % 16 == 4) {
        FUZZ_REQUIRE(program->allocator->ops->trim(program->allocator, 0, &released_bytes) == DAO_OK);
    } else if (byte % 16 == 5) {
        dao_planned_enable(program->allocator, true);
    }
    program->was_controlled |= byte % 16 == 1 || byte % 16 == 3;
}

/* What is asked for at a position, as planned or not. */
static void run_position(program_t *program, uint32_t position)
{
    uint32_t byte = fuzz_byte(program->input);
    size_t size_bytes = program->sizes[position];
    uint32_t free_at = position + program->lives[position];
    if (byte >= 240) { /* left out */
        return;
    }
    if (byte >= 224) {
        size_bytes = draw_size(program->input);
    } else if (byte >= 208) {
        take(program, draw_size(program->input), position + 1 + byte % 8);
    } else if (byte >= 192) { /* freed as the next step begins */
        free_at = UINT32_MAX;
    } else if (byte >= 176) { /* asked for in the place of another one */
        size_bytes = program->sizes[byte % program->count];
    }
    take(program, size_bytes, free_at);
}

static void run_step(program_t *program)
{
    FUZZ_REQUIRE(dao_planned_begin(program->allocator) == DAO_OK);
    for (uint32_t i = 0; i < program->live_count; i++) { /* what is over from the one before */
        program->live[i].free_at = 0;
    }
    for (uint32_t position = 0; position < program->count; position++) {
        give_due(program, position);
        if (program->is_varied) {
            vary(program, position);
        }
        run_position(program, position);
    }
    program->alignment_bytes = 0;
    (void)dao_planned_key_set(0);
    give_due(program, program->count);
    FUZZ_REQUIRE(dao_planned_end(program->allocator) == DAO_OK);
    FUZZ_REQUIRE(program->allocator->ops->is_valid(program->allocator));
}

static dao_allocator_t *create_device_memory(heap_backend_t *heap)
{
    dao_device_memory_config_t caching = {
        .ops = heap_backend_ops(heap), .device = heap_backend_device(heap), .name = "device:0"};
    dao_allocator_t *allocator;
    FUZZ_REQUIRE(dao_device_memory_create(&caching, &allocator) == DAO_OK);
    return allocator;
}

/* Returns the most that an allocator has taken. */
static uint64_t peak_of(dao_allocator_t *allocator)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    return stats.peak_reserved_bytes;
}

/* Ends a place, with all given back. */
static void end_place(dao_allocator_t *allocator, heap_backend_t *heap)
{
    FUZZ_REQUIRE(allocator->ops->used_get(allocator) == 0);
    allocator->ops->destroy(allocator);
    FUZZ_REQUIRE(heap_backend_destroy(heap));
}

static void run_program(fuzz_input_t *input, bool is_varied)
{
    static program_t program;
    static text_t saved;
    saved.length = 0;
    uint32_t kind = fuzz_byte(input);
    bool has_bins = kind / 2 % 4 == 0;
    heap_backend_t *heap = heap_backend_create(CAPACITY_BYTES, PAGE_BYTES);
    heap_backend_t *alone_heap = heap_backend_create(CAPACITY_BYTES, PAGE_BYTES);
    FUZZ_REQUIRE(heap != NULL && alone_heap != NULL);
    dao_planned_config_t config = {
        .name = "device:0",
        .step_plan = {.mode = has_bins ? DAO_STEP_PLAN_BINS : DAO_STEP_PLAN_OFFSETS,
                      .allocation_count = 2 * STEP_COUNT_MAX,
                      .smallest_bytes = 1,
                      .work_limit = 1000,
                      .defers_frees = kind / 8 % 4 == 0}};
    program = (program_t){.input = input,
                          .count = 2 + fuzz_byte(input) % (STEP_COUNT_MAX - 1),
                          .is_varied = is_varied,
                          .saved = &saved};
    program.alone = create_device_memory(alone_heap);
    FUZZ_REQUIRE(dao_planned_create(&config, create_device_memory(heap), &program.allocator) == DAO_OK);
    for (uint32_t i = 0; i < program.count; i++) {
        program.sizes[i] = draw_size(input);
        program.lives[i] = 1 + fuzz_byte(input) % 10;
    }
    for (uint32_t i = 0; i < STEPS_RUN_MAX && input->left > 0; i++) {
        run_step(&program);
        if (is_varied) {
            control(&program);
        }
    }
    give_due(&program, UINT32_MAX);
    if (!has_bins && !program.was_controlled &&
        !config.step_plan.defers_frees) { /* blocks of bins are larger; frees that are retired are memory */
        uint64_t alone_bytes = peak_of(program.alone);
        FUZZ_REQUIRE(peak_of(program.allocator) <=
                     alone_bytes + alone_bytes / MORE_PART + MORE_PAGES * DAO_PAGE_BYTES);
    }
    end_place(program.allocator, heap);
    end_place(program.alone, alone_heap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_input_t input = {.next = data, .left = size_bytes};
    run_program(&input, fuzz_byte(&input) >= VARIED_FROM);
    return 0;
}

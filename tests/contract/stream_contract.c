/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in stream order: who gets a block when, what it waits for, and that nobody ever sees another one's
   writes.

   Kernels are host functions on the cpu backend's streams: they write a block, or check that it is as it was
   left. Where a block is to go from one stream to another the place is limited to one page, so that there is
   nothing else to take. */
#include "tests/contract/stream_contract_internal.h"

#include <dao/dao.h>

#include "runtime/core/waiters.h"
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/backends/portion.h"
#include "tests/support/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE STREAM_CONTRACT_PAGE
#define MANY STREAM_CONTRACT_MANY

static const dao_place_t elsewhere = {DAO_PLACE_KIND_DEVICE, 1};
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static dao_place_t place; /* where the tests allocate; on device 0 */

dao_place_t stream_contract_place(void)
{
    return place;
}

static dao_stream_t *s, *t, *u;

/* ---- kernels ---- */

static _Atomic uint64_t wrong_count;
static _Atomic uint64_t kernel_count;

void stream_contract_count_wrong(void)
{
    atomic_fetch_add(&wrong_count, 1);
}

typedef struct kernel {
    size_t size_bytes;
    int expected; /* of every byte; -1: anything */
    int written;  /* to every byte; -1: nothing */
} kernel_t;

static void run_kernel(unsigned char *const *bytes, void *user)
{
    kernel_t *kernel = user;
    if (kernel->expected >= 0 &&
        !bytes_are_all(bytes[0], (unsigned char)kernel->expected, kernel->size_bytes)) {
        stream_contract_count_wrong();
    }
    if (kernel->written >= 0) {
        memset(bytes[0], kernel->written, kernel->size_bytes);
    }
    atomic_fetch_add(&kernel_count, 1);
    free(kernel);
}

dao_status_t stream_contract_launch(dao_stream_t *stream, void *block, size_t size_bytes, int expected,
                                    int written)
{
    kernel_t *kernel = malloc(sizeof(*kernel));
    if (kernel == NULL) {
        abort();
    }
    *kernel = (kernel_t){.size_bytes = size_bytes, .expected = expected, .written = written};
    dao_access_t access = expected < 0  ? DAO_ACCESS_WRITE
                          : written < 0 ? DAO_ACCESS_READ
                                        : DAO_ACCESS_READ_WRITE;
    device_operand_t operand = {place, block, written < 0 && expected < 0 ? 0 : size_bytes, access};
    dao_status_t status = device_launch(stream, &operand, 1, run_kernel, kernel);
    if (status != DAO_OK) {
        free(kernel);
    }
    return status;
}

static void must(dao_status_t status)
{
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
}

/* ---- start and stop ---- */

/* What the suite started with. */
static fault_config_t started;
static dao_place_config_t configured;

int stream_contract_start(dao_place_t where, const dao_place_config_t *config, const fault_config_t *faults)
{
    dao_config_t cpu = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    place = where;
    started = *faults;
    configured = *config;
    return dao_context_start(&cpu, fault_backend_wrap(dao_backend_ops(), &started)) != DAO_OK ||
           dao_place_configure(place, &configured) != DAO_OK;
}

/* The same once more. */
static int start_again(void)
{
    dao_place_config_t config = configured;
    fault_config_t faults = started;
    return stream_contract_start(place, &config, &faults);
}

int stream_contract_stop(void)
{
    bool is_fine = dao_finalize() == DAO_OK && fault_backend_live_count() == 0;
    return is_fine ? 0 : 1;
}

static dao_stream_t **const ours[] = {&s, &t, &u};

static void streams_destroy(void)
{
    for (int i = 0; i < 3; i++) {
        dao_stream_destroy(*ours[i]);
    }
}

void stream_contract_begin(void)
{
    for (int i = 0; i < 3; i++) {
        must(dao_stream_create(0, ours[i]));
    }
    atomic_store(&wrong_count, 0);
}

void stream_contract_end(void)
{
    streams_destroy();
    must(dao_limit_set(place, 0));
    must(dao_trim(place, 0, NULL));
    CU_ASSERT_EQUAL(dao_used(place), 0);
    CU_ASSERT_EQUAL(atomic_load(&wrong_count), 0);
}

/* ---- helpers ---- */

static void close_gate(dao_gate_t *gate, dao_stream_t *stream)
{
    dao_gate_init(gate);
    must(device_gate(stream, gate));
    dao_gate_await_reached(gate);
}

static void open_gate(dao_gate_t *gate, dao_stream_t *stream)
{
    dao_gate_open(gate);
    must(dao_stream_synchronize(stream));
    dao_gate_finish(gate);
}

/* Returns true if a block that is handed out again has the bytes that were left there: one of the system need
   not. */
static bool keeps_bytes(void)
{
    return configured.strategy != DAO_STRATEGY_SYSTEM;
}

static void *take(size_t size_bytes, dao_stream_t *stream)
{
    void *block = dao_alloc_async(place, size_bytes, stream);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    return block;
}

static void give(void *block, dao_stream_t *stream)
{
    CU_ASSERT_EQUAL(dao_free_async(place, block, stream), DAO_OK);
}

/* Limits the device to so many pages more than live blocks take. */
static void pages_are_left(size_t count)
{
    must(dao_trim(place, 0, NULL));
    dao_stats_t stats;
    must(dao_stats_get(place, &stats));
    must(dao_limit_set(place, stats.reserved_bytes + count * PAGE));
}

static void one_page_is_left(void)
{
    pages_are_left(1);
}

/* Makes it known that several streams free. */
static void be_several(void)
{
    give(take(PAGE, s), s);
    give(take(PAGE, t), t);
    must(dao_stream_synchronize(s));
    must(dao_stream_synchronize(t));
}

static uint64_t event_calls(void)
{
    return fault_backend_calls(FAULT_CALL_EVENT_CREATE) + fault_backend_calls(FAULT_CALL_EVENT_RECORD) +
           fault_backend_calls(FAULT_CALL_EVENT_QUERY) + fault_backend_calls(FAULT_CALL_EVENT_SYNCHRONIZE) +
           fault_backend_calls(FAULT_CALL_STREAM_WAIT_EVENT) +
           fault_backend_calls(FAULT_CALL_STREAM_SYNCHRONIZE);
}

/* ---- one stream ---- */

static void a_stream_takes_its_own_block_at_once(void)
{
    dao_gate_t gate;
    one_page_is_left();
    close_gate(&gate, s);
    uint64_t calls = event_calls();
    unsigned char *first = take(PAGE, s);
    must(stream_contract_launch(s, first, PAGE, -1, 1));
    give(first, s);
    unsigned char *second = take(PAGE, s);
    CU_ASSERT_PTR_EQUAL(second, first);
    CU_ASSERT_EQUAL(event_calls(), calls);
    must(stream_contract_launch(s, second, PAGE, 1, 2));
    open_gate(&gate, s);
    CU_ASSERT_EQUAL(device_byte(place, second + PAGE - 1), 2);
    give(second, s);
}

/* A program of one stream, the same each time. */
static void run_alone(void)
{
    uint64_t seed = 5;
    void *blocks[16] = {NULL};
    for (int i = 0; i < 2000; i++) {
        uint32_t slot = (uint32_t)(dao_random_next(&seed) % 16);
        if (blocks[slot] != NULL) {
            give(blocks[slot], s);
        }
        blocks[slot] = take((1 + dao_random_next(&seed) % 16) * 64 * KIB, s);
    }
    for (int i = 0; i < 16; i++) {
        give(blocks[i], s);
    }
}

static void a_stream_alone_costs_no_call_of_the_backend(void)
{
    run_alone();
    uint64_t calls = event_calls();
    run_alone();
    CU_ASSERT_EQUAL(event_calls(), calls);
}

/* ---- several streams ---- */

static dao_stream_t *many[MANY];

dao_stream_t *const *stream_contract_streams(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        must(i < 3 ? DAO_OK : dao_stream_create(0, &many[i]));
        many[i] = i < 3 ? *ours[i] : many[i];
        give(take(1000, many[i]), many[i]);
    }
    return many;
}

void stream_contract_streams_done(uint32_t count)
{
    for (uint32_t i = 3; i < count; i++) {
        dao_stream_destroy(many[i]);
    }
}

static void waits_on_the_device(dao_stream_t *first, dao_stream_t *second, dao_stream_t *apart)
{
    dao_gate_t gate;
    one_page_is_left();
    close_gate(&gate, first);
    unsigned char *block = take(PAGE, first);
    must(stream_contract_launch(first, block, PAGE, -1, 1));
    give(block, first);
    unsigned char *again = take(PAGE, second); /* the host does not wait: the gate is closed */
    CU_ASSERT_PTR_EQUAL(again, block);
    uint64_t kernels = atomic_load(&kernel_count);
    must(stream_contract_launch(second, again, PAGE, 1, 2));
    must(stream_contract_launch(apart, &kernels, 0, -1, -1)); /* an own stream goes on */
    must(dao_stream_synchronize(apart));
    CU_ASSERT_EQUAL(atomic_load(&kernel_count), kernels + 1);
    open_gate(&gate, first);
    must(dao_stream_synchronize(second));
    CU_ASSERT_EQUAL(device_byte(place, again + PAGE - 1), 2);
    give(again, second);
}

static void another_stream_waits_on_the_device(void)
{
    waits_on_the_device(s, t, u);
}

static void a_stream_of_many_waits_for_the_others(void)
{
    (void)stream_contract_streams(MANY);
    waits_on_the_device(many[MANY - 2], many[MANY - 1], s);
    stream_contract_streams_done(MANY);
}

static void another_stream_waits_for_nothing_after_the_free(void)
{
    dao_gate_t before;
    dao_gate_t after;
    one_page_is_left();
    be_several();
    close_gate(&before, s);
    unsigned char *block = take(PAGE, s);
    must(stream_contract_launch(s, block, PAGE, -1, 1));
    give(block, s);
    dao_gate_init(&after);
    must(device_gate(s, &after));
    block = take(PAGE, t);
    must(stream_contract_launch(t, block, PAGE, 1, 2));
    dao_gate_open(&before);
    must(dao_stream_synchronize(t)); /* s waits at the second gate */
    CU_ASSERT_EQUAL(device_byte(place, block), 2);
    dao_gate_await_reached(&after);
    dao_gate_open(&after);
    must(dao_stream_synchronize(s));
    dao_gate_finish(&before);
    dao_gate_finish(&after);
    give(block, t);
}

static void a_merged_block_carries_all_its_users(void)
{
    dao_gate_t gates[2];
    pages_are_left(2);
    unsigned char *first = take(PAGE, s);
    unsigned char *second = take(PAGE, t);
    close_gate(&gates[0], s);
    close_gate(&gates[1], t);
    must(stream_contract_launch(s, first, PAGE, -1, 1));
    must(stream_contract_launch(t, second, PAGE, -1, 2));
    give(first, s);
    give(second, t);
    unsigned char *both = take(2 * PAGE, u);
    CU_ASSERT_PTR_EQUAL(both, first < second ? first : second);
    must(stream_contract_launch(u, first, PAGE, 1, 3));
    must(stream_contract_launch(u, second, PAGE, 2, 3));
    uint64_t kernels = atomic_load(&kernel_count);
    open_gate(&gates[0], s);
    CU_ASSERT_EQUAL(atomic_load(&kernel_count), kernels + 1); /* the other user is not done */
    open_gate(&gates[1], t);
    must(dao_stream_synchronize(u));
    CU_ASSERT_TRUE(device_holds(place, both, 3, 2 * PAGE));
    give(both, u);
}

static void what_idle_streams_freed_is_one_hole_again(void)
{
    void *blocks[32];
    pages_are_left(2);
    for (int i = 0; i < 32; i++) {
        blocks[i] = take(PAGE / 16, i % 2 == 0 ? s : t);
    }
    for (int i = 0; i < 32; i++) {
        give(blocks[i], i % 2 == 0 ? s : t);
    }
    void *both = dao_alloc(place, 2 * PAGE);
    CU_ASSERT_PTR_NOT_NULL(both);
    CU_ASSERT_EQUAL(dao_free(place, both), DAO_OK);
    uint64_t calls = event_calls();
    both = take(2 * PAGE, u);
    CU_ASSERT_EQUAL(event_calls(), calls); /* nobody holds a part of it */
    give(both, u);
}

/* A real driver waits for all work of the device when memory is given back to it. The strategies of whole
   blocks do that as soon as they are short, or at once. */
static bool waits_for_all(void)
{
    bool is_so = configured.strategy > DAO_STRATEGY_BEST_FIT && portion_is_used();
    if (is_so) {
        (void)printf("    skipped: what is given back waits for the device\n");
    }
    return is_so;
}

static void a_hung_stream_holds_its_own_blocks_alone(void)
{
    dao_gate_t gate;
    if (waits_for_all()) {
        return;
    }
    be_several();
    unsigned char *hung = take(PAGE, s);
    give(take(PAGE, t), t);
    close_gate(&gate, s);
    must(stream_contract_launch(s, hung, PAGE, -1, 1));
    give(hung, s);
    for (int i = 0; i < 20; i++) {
        unsigned char *block = take(PAGE, t);
        must(stream_contract_launch(t, block, PAGE, -1, 2));
        give(block, t);
        must(dao_stream_synchronize(t)); /* it waits for nobody */
    }
    unsigned char *idle = dao_alloc(place, 8 * PAGE); /* nor does the host */
    CU_ASSERT_PTR_NOT_NULL_FATAL(idle);
    CU_ASSERT_TRUE(hung + PAGE <= idle || hung >= idle + 8 * PAGE);
    CU_ASSERT_EQUAL(dao_free(place, idle), DAO_OK);
    open_gate(&gate, s);
    CU_ASSERT_EQUAL(device_byte(place, hung), 1);
}

static void a_recorded_stream_is_waited_for(void)
{
    dao_gate_t gate;
    one_page_is_left();
    be_several();
    unsigned char *block = take(PAGE, s);
    must(stream_contract_launch(s, block, PAGE, -1, 1));
    must(dao_stream_synchronize(s));
    close_gate(&gate, u);
    CU_ASSERT_EQUAL(dao_record_stream(place, block, u), DAO_OK);
    must(stream_contract_launch(u, block, PAGE, 1, 2));
    give(block, s);
    unsigned char *again = take(PAGE, s); /* its own stream, but it is not the only one */
    CU_ASSERT_PTR_EQUAL(again, block);
    uint64_t kernels = atomic_load(&kernel_count);
    must(stream_contract_launch(s, again, PAGE, 2, 3));
    CU_ASSERT_EQUAL(atomic_load(&kernel_count), kernels);
    open_gate(&gate, u);
    must(dao_stream_synchronize(s));
    CU_ASSERT_EQUAL(device_byte(place, again), 3);
    give(again, s);
}

/* ---- together with dao_alloc() ---- */

static void open_later(void *user)
{
    dao_sleep_until(dao_clock_ns() + 20 * 1000 * 1000);
    dao_gate_open(user);
}

static void plain_memory_is_idle_and_is_waited_for_last(void)
{
    dao_gate_t gate;
    one_page_is_left();
    close_gate(&gate, s);
    unsigned char *block = take(PAGE, s);
    must(stream_contract_launch(s, block, PAGE, -1, 1));
    give(block, s);
    must(dao_stream_host_func(u, open_later, &gate));
    unsigned char *plain = dao_alloc(place, PAGE); /* waits on the host: nothing else is left */
    CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
    CU_ASSERT_TRUE(!keeps_bytes() || device_byte(place, plain + PAGE - 1) == 1);
    device_fill(place, plain, 9, PAGE);
    must(dao_stream_synchronize(s));
    CU_ASSERT_EQUAL(device_byte(place, plain), 9);
    CU_ASSERT_EQUAL(dao_free(place, plain), DAO_OK);
    must(dao_stream_synchronize(u));
    dao_gate_finish(&gate);
}

static void *alloc_a_page(void *user)
{
    *(void **)user = dao_alloc(place, PAGE);
    return NULL;
}

static void a_free_wakes_who_waits_for_memory(void)
{
    dao_thread_t thread;
    void *waited_for = NULL;
    one_page_is_left();
    must(dao_pressure_wait_set(place, UINT64_C(20) * 1000 * 1000 * 1000));
    void *block = take(PAGE, s);
    must(dao_thread_start(&thread, "waiter", alloc_a_page, &waited_for));
    while (atomic_load(&dao_waiter_count) == 0) {
        dao_thread_yield();
    }
    dao_sleep_until(dao_clock_ns() + 20 * 1000 * 1000); /* it has tried by then, most probably */
    give(block, s);
    dao_thread_join(&thread);
    CU_ASSERT_PTR_NOT_NULL(waited_for);
    CU_ASSERT_EQUAL(dao_free(place, waited_for), DAO_OK);
    must(dao_pressure_wait_set(place, 0));
}

static void blocks_may_be_allocated_one_way_and_freed_the_other(void)
{
    dao_gate_t gate;
    one_page_is_left();
    unsigned char *block = dao_alloc(place, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    close_gate(&gate, s);
    must(stream_contract_launch(s, block, PAGE, -1, 1));
    give(block, s);
    block = take(PAGE, t);
    must(stream_contract_launch(t, block, PAGE, 1, 2));
    open_gate(&gate, s);
    must(dao_stream_synchronize(t));
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    uint64_t calls = event_calls();
    block = dao_alloc(place, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(event_calls(), calls); /* it was free for all at once */
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
}

static void plain_memory_comes_back_when_the_host_has_waited(void)
{
    one_page_is_left();
    for (int i = 0; i < 2; i++) {
        give(take(PAGE, s), s);
        must(i == 0 ? dao_stream_synchronize(s) : dao_device_synchronize(0));
        uint64_t calls = event_calls();
        void *block = dao_alloc(place, PAGE);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(event_calls(), calls);
        CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    }
}

static void trim_gives_back_what_streams_held(void)
{
    be_several();
    must(stream_contract_launch(s, &wrong_count, 0, -1, -1));
    give(take(4 * PAGE, s), s);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_trim(place, 0, &released_bytes), DAO_OK);
    CU_ASSERT_TRUE(released_bytes >= 4 * PAGE);
    dao_stats_t stats;
    must(dao_stats_get(place, &stats));
    CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
}

/* Small blocks of dao_alloc() belong to threads: the free waits until the stream is done with one. */
static void a_small_block_of_dao_alloc_is_freed_in_order_too(void)
{
    give(take(PAGE, s), s); /* the stream is known: its frees take the fast path */
    unsigned char *small = dao_alloc(place, 1000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(small);
    for (int32_t i = 0; i < 50; i++) {
        must(stream_contract_launch(s, small, 1000, -1, (unsigned char)i));
    }
    CU_ASSERT_EQUAL(dao_free_async(place, small, s), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(place), 0);
    CU_ASSERT_EQUAL(dao_free_async(place, small, s), DAO_ERR_DOUBLE_FREE);
}

/* ---- streams come and go ---- */

static void a_stream_that_is_destroyed_holds_nothing(void)
{
    one_page_is_left();
    for (int i = 0; i < 200; i++) { /* more than there are numbers */
        dao_stream_t *stream = NULL;
        must(dao_stream_create(0, &stream));
        unsigned char *block = take(PAGE, stream);
        must(stream_contract_launch(stream, block, PAGE, -1, 1));
        give(block, stream);
        dao_stream_destroy(stream);
    }
    uint64_t calls = fault_backend_calls(FAULT_CALL_STREAM_WAIT_EVENT);
    unsigned char *block = take(PAGE, s);
    CU_ASSERT_EQUAL(device_byte(place, block), 1);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_STREAM_WAIT_EVENT), calls);
    give(block, s);
}

/* ---- arguments ---- */

static void wrong_arguments_are_refused(void)
{
    dao_stream_t *other = NULL;
    must(dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &other));
    void *block = take(1000, s);
    size_t used_bytes = dao_used(place);
    CU_ASSERT_PTR_NULL(dao_alloc_async(host, 1000, s));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, 1000, other));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:1"));
    CU_ASSERT_PTR_NULL(dao_alloc_async(dao_device_place(7), 1000, s));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, 0, s));
    CU_ASSERT_EQUAL(dao_free_async(place, NULL, s), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(host, block, s), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_free_async(place, block, other), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_free_async(place, &block, s), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_record_stream(place, block, other), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_record_stream(place, &block, s), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_record_stream(host, block, s), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_used(place), used_bytes);
    give(block, s);
    CU_ASSERT_EQUAL(dao_free_async(place, block, s), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_record_stream(place, block, s), DAO_ERR_FOREIGN_POINTER);
    block = dao_alloc(place, 1000);
    CU_ASSERT_EQUAL(dao_record_stream(place, block, s), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    block = dao_alloc(elsewhere, 1000);
    CU_ASSERT_EQUAL(dao_free_async(place, block, s), DAO_ERR_WRONG_PLACE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_free_async"));
    CU_ASSERT_EQUAL(dao_free(elsewhere, block), DAO_OK);
}

static void a_refusal_counts_for_its_tag(void)
{
    dao_tag_t tag = 0;
    dao_tag_stats_t before, after;
    must(dao_tag_create("refused", &tag));
    must(dao_tag_stats_get(place, tag, &before));
    must(dao_tag_limit_set(place, tag, PAGE / 2));
    (void)dao_tag_set_current(tag);
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, PAGE, s));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    (void)dao_tag_set_current(0);
    must(dao_tag_limit_set(place, tag, 0));
    must(dao_tag_stats_get(place, tag, &after));
    CU_ASSERT_EQUAL(after.refused_count, before.refused_count + 1);
}

static void no_stream_is_the_compute_stream(void)
{
    dao_stream_t *compute = NULL;
    must(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &compute));
    dao_gate_t gate;
    one_page_is_left();
    close_gate(&gate, compute);
    void *block = dao_alloc_async(dao_device_place(0), PAGE, NULL);
    CU_ASSERT_EQUAL(dao_free_async(dao_device_place(0), block, NULL), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc_async(dao_device_place(0), PAGE, compute), block);
    open_gate(&gate, compute);
    CU_ASSERT_EQUAL(dao_free_async(dao_device_place(0), block, compute), DAO_OK);
}

static void the_end_of_the_library_is_the_end_of_its_streams(void)
{
    dao_stream_t *old = NULL;
    CU_ASSERT_EQUAL_FATAL(start_again(), 0);
    must(dao_stream_create(0, &old));
    void *block = take(1000, old);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY); /* the stream and the block are live */
    CU_ASSERT_EQUAL(dao_free_async(place, block, old), DAO_ERR_SHUTDOWN);
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, 1000, old));
    dao_config_t cpu = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    must(dao_init(&cpu));
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, 1000, old));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_finalize"));
    dao_stream_destroy(old);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

/* ---- failures ---- */

/* A block goes from one stream to another; all is undone. The first error. A device that is lost in between
   touches no memory any more; this one goes on, so that its kernels must not touch any then. */
static dao_status_t hand_over(bool touches_memory)
{
    size_t size_bytes = touches_memory ? PAGE : 0;
    unsigned char *block = dao_alloc_async(place, PAGE, s);
    if (block == NULL) {
        return dao_last_status();
    }
    dao_status_t first = stream_contract_launch(s, block, size_bytes, -1, 1);
    give(block, s);
    block = dao_alloc_async(place, PAGE, t);
    if (block == NULL) {
        return dao_last_status();
    }
    dao_status_t second =
        stream_contract_launch(t, block, size_bytes, first == DAO_OK && keeps_bytes() ? 1 : -1, 2);
    CU_ASSERT_EQUAL(dao_record_stream(place, block, u), dao_device_health(0));
    give(block, t);
    block = dao_alloc(place, PAGE);
    if (block == NULL) {
        return dao_last_status();
    }
    CU_ASSERT_TRUE(second != DAO_OK || !keeps_bytes() || device_holds(place, block, 2, size_bytes));
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    return first != DAO_OK ? first : second;
}

/* A lost device is there again after a new start. */
static void mend(void)
{
    CU_ASSERT_EQUAL(atomic_load(&wrong_count), 0);
    streams_destroy();
    must(dao_finalize());
    CU_ASSERT_EQUAL_FATAL(start_again(), 0);
    stream_contract_begin();
    one_page_is_left();
    be_several();
}

static void one_call_fails(fault_call_t kind)
{
    uint64_t n = 0;
    bool has_failed = true;
    one_page_is_left();
    be_several();
    for (; has_failed && n < 200; n++) {
        fault_backend_arm(kind, n, false);
        dao_status_t status = hand_over(kind != FAULT_CALL_LOSS);
        has_failed = fault_backend_disarm() > 0;
        CU_ASSERT_TRUE(has_failed || status == DAO_OK);
        CU_ASSERT_EQUAL(dao_used(place), 0);
        if (dao_device_health(0) != DAO_OK) {
            mend();
        }
        must(dao_device_synchronize(0));
        CU_ASSERT_EQUAL(hand_over(true), DAO_OK);
    }
    CU_ASSERT_TRUE(n > 3 && n < 200);
}

static void a_block_that_cannot_be_waited_for_stays_held(void)
{
    dao_gate_t gate;
    one_page_is_left();
    be_several();
    close_gate(&gate, s);
    unsigned char *block = take(PAGE, s);
    must(stream_contract_launch(s, block, PAGE, -1, 1));
    give(block, s);
    fault_backend_arm(FAULT_CALL_STREAM_WAIT_EVENT, 0, false);
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, PAGE, t));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 1);
    CU_ASSERT_EQUAL(dao_used(place), 0);
    unsigned char *again = take(PAGE, t);
    must(stream_contract_launch(t, again, PAGE, 1, 2));
    open_gate(&gate, s);
    must(dao_stream_synchronize(t));
    give(again, t);
}

static void any_call_may_fail_and_the_device_be_lost(void)
{
    one_call_fails(FAULT_CALL_ANY);
    one_call_fails(FAULT_CALL_LOSS);
}

CU_TestInfo stream_contract_tests[] = {
    {"a small block of dao_alloc is freed in order, too", a_small_block_of_dao_alloc_is_freed_in_order_too},
    {"a hung stream holds its own blocks alone", a_hung_stream_holds_its_own_blocks_alone},
    {"trim gives back what streams held", trim_gives_back_what_streams_held},
    {"wrong arguments are refused", wrong_arguments_are_refused},
    {"a refusal counts for its tag", a_refusal_counts_for_its_tag},
    CU_TEST_INFO_NULL,
};

CU_TestInfo stream_contract_reuse_tests[] = {
    {"a stream that is destroyed holds nothing", a_stream_that_is_destroyed_holds_nothing},
    {"a stream takes its own block at once", a_stream_takes_its_own_block_at_once},
    {"another stream waits on the device", another_stream_waits_on_the_device},
    {"another stream waits for nothing after the free", another_stream_waits_for_nothing_after_the_free},
    {"a recorded stream is waited for", a_recorded_stream_is_waited_for},
    {"a stream of many waits for the others", a_stream_of_many_waits_for_the_others},
    {"plain memory is idle, and is waited for last", plain_memory_is_idle_and_is_waited_for_last},
    {"a free wakes who waits for memory", a_free_wakes_who_waits_for_memory},
    {"blocks may be allocated one way and freed the other",
     blocks_may_be_allocated_one_way_and_freed_the_other},
    {"plain memory comes back when the host has waited", plain_memory_comes_back_when_the_host_has_waited},
    {"no stream is the compute stream", no_stream_is_the_compute_stream},
    {"a block that cannot be waited for stays held", a_block_that_cannot_be_waited_for_stays_held},
    {"any call may fail, and the device be lost", any_call_may_fail_and_the_device_be_lost},
    CU_TEST_INFO_NULL,
};

CU_TestInfo stream_contract_range_tests[] = {
    {"a stream alone costs no call of the backend", a_stream_alone_costs_no_call_of_the_backend},
    {"a merged block carries all its users", a_merged_block_carries_all_its_users},
    {"what idle streams freed is one hole again", what_idle_streams_freed_is_one_hole_again},
    CU_TEST_INFO_NULL,
};

CU_TestInfo stream_contract_end_tests[] = {
    {"the end of the library is the end of its streams", the_end_of_the_library_is_the_end_of_its_streams},
    CU_TEST_INFO_NULL,
};

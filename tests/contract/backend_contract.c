/* SPDX-License-Identifier: Apache-2.0 */
/* What every backend owes. A test states one sentence of backends/backend.h.

   While a stream is held up by a gate, no memory is allocated or freed and no host function is queued
   elsewhere: some drivers wait for all work then, or run all host functions on one thread. */
#include "tests/contract/backend_contract_internal.h"

#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_backend_ops_t *ops;
static dao_config_t config;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *stream, *other;
static dao_device_info_t info;
contract_t contract;

void backend_contract_set(const dao_backend_ops_t *subject_ops, const dao_config_t *subject_config)
{
    ops = subject_ops;
    config = *subject_config;
}

void backend_contract_begin(void)
{
    NEED(ops->open(&config, &backend));
    NEED(ops->device_open(backend, 0, &device));
    NEED(ops->stream_create(device, &stream));
    NEED(ops->stream_create(device, &other));
    NEED(ops->device_query(device, &info));
    contract = (contract_t){ops, backend, device, stream, info};
}

void backend_contract_end(void)
{
    ops->stream_destroy(other);
    ops->stream_destroy(stream);
    ops->device_close(device);
    ops->close(backend);
}

/* Helpers. */

void test_need(dao_status_t status, const char *file, int line)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "%s:%d: %s: %s\n", file, line, dao_status_name(status), dao_last_message());
        abort();
    }
}

/* Streams held up by a host function that waits, in real time. */

static void *hold_by_function(dao_backend_stream_t *blocked)
{
    dao_gate_t *gate = malloc(sizeof(*gate));
    NEED(gate != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
    dao_gate_init(gate);
    NEED(ops->host_func(blocked, dao_gate_wait, gate));
    return gate;
}

static void await_function(void *gate)
{
    dao_gate_await_reached(gate);
}

static void open_gate(void *gate)
{
    dao_gate_open(gate);
}

static void free_gate(void *gate)
{
    dao_gate_finish(gate);
    free(gate);
}

static void sleep_for(dao_backend_device_t *sleeping, uint64_t duration_ns)
{
    (void)sleeping;
    dao_sleep_until(dao_clock_ns() + duration_ns);
}

static const backend_contract_time_t real_time = {hold_by_function, await_function, open_gate, free_gate,
                                                  sleep_for};
static const backend_contract_time_t *subject_time = &real_time;

void backend_contract_set_time(const backend_contract_time_t *time)
{
    subject_time = time;
}

static void *block(dao_backend_stream_t *blocked)
{
    return subject_time->hold(blocked);
}

void *contract_take(size_t size_bytes)
{
    void *address = NULL;
    NEED(ops->memory_alloc(device, size_bytes, &address));
    return address;
}

void contract_give(void *address, size_t size_bytes)
{
    NEED(ops->memory_free(device, address, size_bytes));
}

uint8_t *contract_take_pinned(size_t size_bytes)
{
    void *address = NULL;
    NEED(ops->pinned_alloc(device, size_bytes, &address));
    return address;
}

void contract_give_pinned(uint8_t *address, size_t size_bytes)
{
    NEED(ops->pinned_free(device, address, size_bytes));
}

static dao_backend_event_t *new_event(void)
{
    dao_backend_event_t *event = NULL;
    NEED(ops->event_create(device, true, &event));
    return event;
}

/* Fills with bytes that follow from the seed. */
void contract_draw(uint8_t *bytes, size_t size_bytes, uint64_t seed)
{
    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = (uint8_t)(seed * 37 + i * 7 + (i >> 8) * 13);
    }
}

bool contract_is_drawn(const uint8_t *bytes, size_t size_bytes, uint64_t seed)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != (uint8_t)(seed * 37 + i * 7 + (i >> 8) * 13)) {
            return false;
        }
    }
    return true;
}

static bool is_all(const uint8_t *bytes, size_t size_bytes, uint8_t value)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

void contract_copy_now(dao_copy_kind_t kind, void *dst, const void *src, size_t size_bytes)
{
    NEED(ops->copy(stream, kind, dst, src, size_bytes));
    NEED(ops->stream_synchronize(stream));
}

void *contract_at(void *address, size_t offset)
{
    return (char *)address + offset;
}

uint64_t contract_free_bytes(void)
{
    dao_device_info_t now;
    NEED(ops->device_query(device, &now));
    return now.free_bytes;
}

bool contract_has_pages(void)
{
    bool has = dao_backend_has_pages(ops) && info.page_bytes != 0;
    if (!has) {
        (void)printf("    skipped: %s has no virtual memory here\n", ops->name);
    }
    return has;
}

/* A driver keeps a part of a real device's memory to itself, and other programs take from it. A virtual
   device has what it was given. */
bool contract_has_exact_capacity(void)
{
    bool is_virtual =
        info.host_accessible || (config.cpu.device_bytes != 0 && info.total_bytes == config.cpu.device_bytes);
    if (!is_virtual) {
        (void)printf("    skipped: the capacity of %s is not ours alone\n", ops->name);
    }
    return is_virtual;
}

/* Opening. */

static void the_table_is_whole(void)
{
    CU_ASSERT_EQUAL(dao_backend_ops_check(ops), DAO_OK);
}

static void every_device_opens_and_closes_and_opens_again(void)
{
    int32_t count = 0;
    CU_ASSERT_EQUAL(ops->device_count(backend, &count), DAO_OK);
    CU_ASSERT_TRUE(count >= 1 && count <= DAO_DEVICE_COUNT_MAX);
    for (int32_t i = 1; i < 2 * count; i++) {
        dao_backend_device_t *opened = NULL;
        if (i % count == 0) {
            continue; /* open already */
        }
        CU_ASSERT_EQUAL(ops->device_open(backend, i % count, &opened), DAO_OK);
        CU_ASSERT_PTR_NOT_NULL_FATAL(opened);
        CU_ASSERT_EQUAL(ops->device_synchronize(opened), DAO_OK);
        ops->device_close(opened);
    }
}

static void a_device_that_is_not_there_is_refused(void)
{
    int32_t count = 0;
    NEED(ops->device_count(backend, &count));
    const int32_t indices[] = {-1, count, count + 1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
        dao_backend_device_t *opened = device;
        CU_ASSERT_EQUAL(ops->device_open(backend, indices[i], &opened), DAO_ERR_NO_DEVICE);
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
        CU_ASSERT_PTR_EQUAL(opened, device);
    }
}

static void a_query_describes_the_device(void)
{
    CU_ASSERT_TRUE(info.total_bytes > 0);
    CU_ASSERT_TRUE(info.free_bytes <= info.total_bytes);
    CU_ASSERT_TRUE(info.alignment_bytes >= 1);
    CU_ASSERT_EQUAL(info.alignment_bytes & (info.alignment_bytes - 1), 0);
    CU_ASSERT_EQUAL(info.page_bytes & (info.page_bytes - 1), 0);
    CU_ASSERT_TRUE(info.page_bytes == 0 || dao_backend_has_pages(ops));
    CU_ASSERT_TRUE(strlen(info.name) > 0 && strlen(info.name) < sizeof(info.name));
}

/* Memory. */

static void memory_is_aligned_and_apart(void)
{
    static const size_t sizes[] = {1, 3, 255, 256, 257, 4096, 65537, MIB + 1};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = contract_take(sizes[i]);
        CU_ASSERT_PTR_NOT_NULL(blocks[i]);
        CU_ASSERT_EQUAL((uintptr_t)blocks[i] % info.alignment_bytes, 0);
        for (size_t j = 0; j < i; j++) {
            CU_ASSERT_TRUE((uintptr_t)blocks[i] >= (uintptr_t)blocks[j] + sizes[j] ||
                           (uintptr_t)blocks[j] >= (uintptr_t)blocks[i] + sizes[i]);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        contract_give(blocks[i], sizes[i]);
    }
}

static void more_than_the_capacity_is_refused_and_nothing_changes(void)
{
    const size_t sizes[] = {(size_t)info.total_bytes + 1, 2 * (size_t)info.total_bytes, SIZE_MAX / 4};
    void *kept = contract_take(MIB);
    uint64_t before = contract_free_bytes();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *address = kept;
        CU_ASSERT_EQUAL(ops->memory_alloc(device, sizes[i], &address), DAO_ERR_NO_DEVICE_MEMORY);
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
        CU_ASSERT_PTR_EQUAL(address, kept);
    }
    if (info.host_accessible) {
        CU_ASSERT_EQUAL(contract_free_bytes(), before);
    }
    contract_give(kept, MIB);
}

static void exactly_the_capacity_can_be_taken(void)
{
    if (!contract_has_exact_capacity()) {
        return;
    }
    size_t half = (size_t)info.total_bytes / 2;
    size_t rest = (size_t)info.total_bytes - half;
    for (int round = 0; round < 3; round++) {
        void *address = NULL;
        void *first = contract_take(half);
        CU_ASSERT_EQUAL(contract_free_bytes(), rest);
        CU_ASSERT_EQUAL(ops->memory_alloc(device, rest + 1, &address), DAO_ERR_NO_DEVICE_MEMORY);
        void *second = contract_take(rest);
        CU_ASSERT_EQUAL(contract_free_bytes(), 0);
        CU_ASSERT_EQUAL(ops->memory_alloc(device, 1, &address), DAO_ERR_NO_DEVICE_MEMORY);
        contract_give(first, half);
        CU_ASSERT_EQUAL(contract_free_bytes(), half);
        contract_give(second, rest);
        CU_ASSERT_EQUAL(contract_free_bytes(), info.total_bytes);
        CU_ASSERT_PTR_NULL(address);
    }
    contract_give(contract_take((size_t)info.total_bytes), (size_t)info.total_bytes);
}

static void pinned_memory_is_the_hosts(void)
{
    static const size_t sizes[] = {1, 255, 257, 4097, MIB + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *pinned = contract_take_pinned(sizes[i]);
        CU_ASSERT_EQUAL((uintptr_t)pinned % 256, 0);
        contract_draw(pinned, sizes[i], i);
        CU_ASSERT_TRUE(contract_is_drawn(pinned, sizes[i], i));
        contract_give_pinned(pinned, sizes[i]);
    }
}

static void too_much_pinned_memory_is_refused(void)
{
    void *address = device;
    CU_ASSERT_EQUAL(ops->pinned_alloc(device, SIZE_MAX / 4, &address), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_PTR_EQUAL(address, device);
    contract_give_pinned(contract_take_pinned(MIB), MIB);
}

/* Copies. */

/* Host to device, within the device, back, at odd places: exactly the named bytes arrive. */
static void carry_round(void *front, void *back, uint8_t *host, size_t offset, size_t size_bytes)
{
    enum { MARGIN = 64 };
    uint8_t *out = host + MIB;
    memset(out, 0xee, size_bytes + (size_t)2 * MARGIN);
    contract_draw(host, size_bytes, offset + size_bytes);
    NEED(ops->copy(stream, DAO_COPY_KIND_H2D, contract_at(front, offset), host, size_bytes));
    NEED(ops->copy(stream, DAO_COPY_KIND_D2D, back, contract_at(front, offset), size_bytes));
    NEED(ops->copy(stream, DAO_COPY_KIND_D2H, out + MARGIN, back, size_bytes));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_TRUE(contract_is_drawn(out + MARGIN, size_bytes, offset + size_bytes));
    CU_ASSERT_TRUE(is_all(out, MARGIN, 0xee));
    CU_ASSERT_TRUE(is_all(out + MARGIN + size_bytes, MARGIN, 0xee));
}

static void copies_carry_exactly_their_bytes(void)
{
    static const size_t sizes[] = {1, 2, 255, 4096, 70001};
    static const size_t offsets[] = {0, 1, 7, 4095};
    uint8_t *host = contract_take_pinned(2 * MIB);
    void *front = contract_take(MIB), *back = contract_take(MIB);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t j = 0; j < sizeof(offsets) / sizeof(offsets[0]); j++) {
            carry_round(front, back, host, offsets[j], sizes[i]);
        }
    }
    contract_give(front, MIB);
    contract_give(back, MIB);
    contract_give_pinned(host, 2 * MIB);
}

static void ordinary_host_memory_can_be_copied(void)
{
    static uint8_t from[10007], by[10007], to[10007];
    void *there = contract_take(sizeof(from));
    contract_draw(from, sizeof(from), 5);
    NEED(ops->copy(stream, DAO_COPY_KIND_H2H, by, from, sizeof(from)));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_TRUE(contract_is_drawn(by, sizeof(by), 5));
    NEED(ops->copy(stream, DAO_COPY_KIND_H2D, there, by, sizeof(by)));
    NEED(ops->copy(stream, DAO_COPY_KIND_D2H, to, there, sizeof(to)));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_TRUE(contract_is_drawn(to, sizeof(to), 5));
    contract_give(there, sizeof(from));
}

static void a_fill_sets_exactly_its_range(void)
{
    enum { SIZE = 5000 };
    uint8_t *host = contract_take_pinned(SIZE);
    void *there = contract_take(SIZE);
    NEED(ops->fill(stream, there, 0x11, SIZE));
    NEED(ops->fill(stream, contract_at(there, 1001), 0xfe, 2003));
    NEED(ops->fill(stream, contract_at(there, SIZE - 1), 0, 1));
    contract_copy_now(DAO_COPY_KIND_D2H, host, there, SIZE);
    CU_ASSERT_TRUE(is_all(host, 1001, 0x11));
    CU_ASSERT_TRUE(is_all(host + 1001, 2003, 0xfe));
    CU_ASSERT_TRUE(is_all(host + 3004, SIZE - 3005, 0x11));
    CU_ASSERT_EQUAL(host[SIZE - 1], 0);
    contract_give(there, SIZE);
    contract_give_pinned(host, SIZE);
}

/* From device 0 to device 1 and back, queued on a stream of one and of the other. */
static void copy_to_the_peer_and_back(dao_backend_device_t *peer, dao_backend_stream_t *peer_stream)
{
    enum { SIZE = 100003 };
    void *far = NULL;
    void *near = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(SIZE);
    NEED(ops->memory_alloc(peer, SIZE, &far));
    dao_backend_stream_t *const streams[] = {stream, peer_stream};
    for (size_t i = 0; i < 2; i++) {
        contract_draw(host, SIZE, i);
        contract_copy_now(DAO_COPY_KIND_H2D, near, host, SIZE);
        CU_ASSERT_EQUAL(ops->copy_peer(streams[i], peer, far, device, near, SIZE), DAO_OK);
        NEED(ops->stream_synchronize(streams[i]));
        NEED(ops->fill(stream, near, 0, SIZE));
        NEED(ops->stream_synchronize(stream));
        CU_ASSERT_EQUAL(ops->copy_peer(streams[i], device, near, peer, far, SIZE), DAO_OK);
        NEED(ops->stream_synchronize(streams[i]));
        memset(host, 0, SIZE);
        contract_copy_now(DAO_COPY_KIND_D2H, host, near, SIZE);
        CU_ASSERT_TRUE(contract_is_drawn(host, SIZE, i));
    }
    NEED(ops->memory_free(peer, far, SIZE));
    contract_give_pinned(host, SIZE);
    contract_give(near, SIZE);
}

static void copies_between_devices_arrive(void)
{
    int32_t count = 0;
    NEED(ops->device_count(backend, &count));
    if (ops->copy_peer == NULL || count < 2) {
        (void)printf("    skipped: no copies between devices, or no two devices\n");
        return;
    }
    dao_backend_device_t *peer = NULL;
    dao_backend_stream_t *peer_stream = NULL;
    NEED(ops->device_open(backend, 1, &peer));
    NEED(ops->stream_create(peer, &peer_stream));
    copy_to_the_peer_and_back(peer, peer_stream);
    ops->stream_destroy(peer_stream);
    ops->device_close(peer);
}

/* One random step on `model` and, queued, on `there`. */
static void random_step(uint64_t *random, uint8_t *model, void *there, const uint8_t *source, size_t half)
{
    size_t size = (size_t)(dao_random_next(random) % half) + 1;
    size_t low = (size_t)(dao_random_next(random) % (half - size + 1));
    size_t high = half + (size_t)(dao_random_next(random) % (half - size + 1));
    switch (dao_random_next(random) % 4) {
    case 0:
        NEED(ops->fill(stream, contract_at(there, low), (uint8_t)size, size));
        memset(model + low, (uint8_t)size, size);
        break;
    case 1:
        NEED(ops->copy(stream, DAO_COPY_KIND_D2D, contract_at(there, high), contract_at(there, low), size));
        memcpy(model + high, model + low, size);
        break;
    case 2:
        NEED(ops->copy(stream, DAO_COPY_KIND_D2D, contract_at(there, low), contract_at(there, high), size));
        memcpy(model + low, model + high, size);
        break;
    default:
        NEED(ops->copy(stream, DAO_COPY_KIND_H2D, contract_at(there, high), source + low, size));
        memcpy(model + high, source + low, size);
        break;
    }
}

static void random_work_gives_what_a_model_gives(void)
{
    enum { HALF = 3001, STEPS = 500 };
    uint64_t random = dao_test_seed("random work", 20240611);
    static uint8_t model[2 * HALF];
    uint8_t *host = contract_take_pinned(4 * HALF);
    void *there = contract_take(2 * HALF);
    contract_draw(host, 2 * HALF, random);
    memset(model, 0, sizeof(model));
    NEED(ops->fill(stream, there, 0, 2 * HALF));
    for (int i = 0; i < STEPS; i++) {
        random_step(&random, model, there, host, HALF);
    }
    contract_copy_now(DAO_COPY_KIND_D2H, host + 2 * HALF, there, 2 * HALF);
    CU_ASSERT_EQUAL(memcmp(host + 2 * HALF, model, sizeof(model)), 0);
    contract_give(there, 2 * HALF);
    contract_give_pinned(host, 4 * HALF);
}

/* Streams. */

typedef struct order {
    size_t next;
    size_t wrong_count;
} order_t;

typedef struct turn {
    order_t *order;
    size_t index;
} turn_t;

static void take_turn(void *user)
{
    turn_t *turn = user;
    turn->order->wrong_count += turn->order->next != turn->index ? 1 : 0;
    turn->order->next++;
}

static void host_functions_run_in_order_however_many_wait(void)
{
    enum { COUNT = 1000 };
    static turn_t turns[COUNT];
    order_t order = {0, 0};
    void *gate = block(stream);
    for (size_t i = 0; i < COUNT; i++) {
        turns[i] = (turn_t){&order, i};
        CU_ASSERT_EQUAL(ops->host_func(stream, take_turn, &turns[i]), DAO_OK);
    }
    subject_time->open(gate);
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_EQUAL(order.next, COUNT);
    CU_ASSERT_EQUAL(order.wrong_count, 0);
    subject_time->drop(gate);
}

static void a_stream_runs_its_work_in_order(void)
{
    enum { SIZE = 4096, ROUNDS = 200 };
    void *there = contract_take(SIZE);
    uint8_t *host = contract_take_pinned((size_t)ROUNDS * SIZE);
    void *gate = block(stream);
    for (size_t i = 0; i < ROUNDS; i++) {
        NEED(ops->fill(stream, there, (uint8_t)(i + 1), SIZE));
        NEED(ops->copy(stream, DAO_COPY_KIND_D2H, host + i * SIZE, there, SIZE));
    }
    subject_time->open(gate);
    NEED(ops->stream_synchronize(stream));
    for (size_t i = 0; i < ROUNDS; i++) {
        CU_ASSERT_TRUE(is_all(host + i * SIZE, SIZE, (uint8_t)(i + 1)));
    }
    subject_time->drop(gate);
    contract_give_pinned(host, (size_t)ROUNDS * SIZE);
    contract_give(there, SIZE);
}

static void a_blocked_stream_does_not_hold_up_another(void)
{
    enum { SIZE = 4096 };
    void *there = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(SIZE);
    dao_backend_event_t *blocked = new_event();
    void *gate = block(stream);
    NEED(ops->event_record(blocked, stream));
    NEED(ops->fill(other, there, 0x42, SIZE));
    NEED(ops->copy(other, DAO_COPY_KIND_D2H, host, there, SIZE));
    NEED(ops->stream_synchronize(other));
    CU_ASSERT_TRUE(is_all(host, SIZE, 0x42));
    CU_ASSERT_EQUAL(ops->event_query(blocked), DAO_ERR_NOT_READY);
    subject_time->open(gate);
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_EQUAL(ops->event_query(blocked), DAO_OK);
    subject_time->drop(gate);
    ops->event_destroy(blocked);
    contract_give_pinned(host, SIZE);
    contract_give(there, SIZE);
}

static void a_device_is_synchronized_with_all_its_streams(void)
{
    enum { SIZE = 300001 };
    void *there = contract_take(2 * SIZE);
    uint8_t *host = contract_take_pinned(2 * SIZE);
    NEED(ops->fill(stream, there, 1, SIZE));
    NEED(ops->copy(stream, DAO_COPY_KIND_D2H, host, there, SIZE));
    NEED(ops->fill(other, contract_at(there, SIZE), 2, SIZE));
    NEED(ops->copy(other, DAO_COPY_KIND_D2H, host + SIZE, contract_at(there, SIZE), SIZE));
    CU_ASSERT_EQUAL(ops->device_synchronize(device), DAO_OK);
    CU_ASSERT_TRUE(is_all(host, SIZE, 1));
    CU_ASSERT_TRUE(is_all(host + SIZE, SIZE, 2));
    contract_give_pinned(host, 2 * SIZE);
    contract_give(there, 2 * SIZE);
}

static void destroying_a_stream_waits_for_its_work(void)
{
    enum { SIZE = 300001 };
    void *there = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(SIZE);
    dao_backend_stream_t *brief = NULL;
    NEED(ops->stream_create(device, &brief));
    for (uint8_t i = 0; i < 20; i++) {
        NEED(ops->fill(brief, there, i, SIZE));
    }
    NEED(ops->copy(brief, DAO_COPY_KIND_D2H, host, there, SIZE));
    ops->stream_destroy(brief);
    CU_ASSERT_TRUE(is_all(host, SIZE, 19));
    contract_give_pinned(host, SIZE);
    contract_give(there, SIZE);
}

/* Work goes through both handles in one order; the one that adopted goes, and the stream stays. */
static void an_adopted_stream_is_the_same_stream(void)
{
    enum { SIZE = 10007 };
    if (ops->stream_adopt == NULL) {
        (void)printf("    skipped: %s adopts no streams\n", ops->name);
        return;
    }
    void *there = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(SIZE);
    dao_backend_stream_t *adopted = NULL;
    NEED(ops->stream_adopt(device, ops->stream_native(stream), &adopted));
    CU_ASSERT_PTR_EQUAL(ops->stream_native(adopted), ops->stream_native(stream));
    void *gate = block(stream);
    NEED(ops->fill(stream, there, 1, SIZE));
    NEED(ops->fill(adopted, there, 2, SIZE / 2));
    NEED(ops->fill(stream, there, 3, 1));
    NEED(ops->copy(adopted, DAO_COPY_KIND_D2H, host, there, SIZE));
    subject_time->open(gate);
    NEED(ops->stream_synchronize(adopted));
    ops->stream_destroy(adopted);
    CU_ASSERT_EQUAL(host[0], 3);
    CU_ASSERT_TRUE(is_all(host + 1, SIZE / 2 - 1, 2));
    CU_ASSERT_TRUE(is_all(host + SIZE / 2, SIZE - SIZE / 2, 1));
    NEED(ops->fill(stream, there, 4, SIZE));
    NEED(ops->stream_synchronize(stream));
    subject_time->drop(gate);
    contract_give_pinned(host, SIZE);
    contract_give(there, SIZE);
}

typedef struct worker {
    dao_thread_t thread;
    uint8_t *host;
    uint8_t value;
    bool is_right;
} worker_t;

/* Memory and a stream of its own, used while other threads use theirs. */
static void *work_alone(void *user)
{
    enum { SIZE = 10007, ROUNDS = 30 };
    worker_t *worker = user;
    worker->is_right = true;
    for (int i = 0; i < ROUNDS; i++) {
        dao_backend_stream_t *own = NULL;
        dao_backend_event_t *event = new_event();
        void *there = contract_take(SIZE);
        NEED(ops->stream_create(device, &own));
        NEED(ops->fill(own, there, worker->value, SIZE));
        NEED(ops->copy(own, DAO_COPY_KIND_D2H, worker->host, there, SIZE));
        NEED(ops->event_record(event, own));
        NEED(ops->event_synchronize(event));
        worker->is_right = worker->is_right && is_all(worker->host, SIZE, worker->value);
        ops->event_destroy(event);
        ops->stream_destroy(own);
        contract_give(there, SIZE);
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void)
{
    enum { COUNT = 4, SIZE = 10007 };
    worker_t workers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        workers[i] = (worker_t){.host = contract_take_pinned(SIZE), .value = (uint8_t)(i + 1)};
    }
    for (int i = 0; i < COUNT; i++) {
        NEED(dao_thread_start(&workers[i].thread, "contract", work_alone, &workers[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        dao_thread_join(&workers[i].thread);
        CU_ASSERT_TRUE(workers[i].is_right);
        contract_give_pinned(workers[i].host, SIZE);
    }
}

/* Events. */

static void an_event_that_was_never_recorded_has_finished(void)
{
    dao_backend_event_t *event = new_event();
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_synchronize(event), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_wait_event(stream, event), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(stream), DAO_OK);
    ops->event_destroy(event);
}

static void an_event_finishes_with_the_work_before_it(void)
{
    dao_backend_event_t *event = new_event();
    void *gate = block(stream);
    CU_ASSERT_EQUAL(ops->event_record(event, stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_ERR_NOT_READY);
    subject_time->await_held(gate);
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_ERR_NOT_READY);
    subject_time->open(gate);
    CU_ASSERT_EQUAL(ops->event_synchronize(event), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_OK);
    subject_time->drop(gate);
    ops->event_destroy(event);
}

static void a_wait_orders_the_bytes_of_two_streams(void)
{
    enum { SIZE = 100003, ROUNDS = 20 };
    void *there = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(SIZE);
    dao_backend_event_t *written = new_event(), *read = new_event();
    void *gate = block(stream);
    for (uint8_t i = 1; i <= ROUNDS; i++) { /* the two streams take turns */
        NEED(ops->stream_wait_event(stream, read));
        NEED(ops->fill(stream, there, i, SIZE));
        NEED(ops->event_record(written, stream));
        NEED(ops->stream_wait_event(other, written));
        NEED(ops->copy(other, DAO_COPY_KIND_D2H, host, there, SIZE));
        NEED(ops->event_record(read, other));
    }
    NEED(ops->stream_wait_event(stream, read));
    NEED(ops->fill(stream, there, 0, SIZE));
    subject_time->open(gate);
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_TRUE(is_all(host, SIZE, ROUNDS));
    subject_time->drop(gate);
    ops->event_destroy(written);
    ops->event_destroy(read);
    contract_give_pinned(host, SIZE);
    contract_give(there, SIZE);
}

static void a_wait_is_not_moved_to_a_later_record(void)
{
    dao_backend_event_t *event = new_event();
    void *first = block(stream);
    NEED(ops->event_record(event, stream));
    NEED(ops->stream_wait_event(other, event));
    void *second = block(stream);
    NEED(ops->event_record(event, stream));
    subject_time->open(first);
    CU_ASSERT_EQUAL(ops->stream_synchronize(other), DAO_OK); /* hangs if it waits for the second record */
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_ERR_NOT_READY);
    subject_time->open(second);
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_OK);
    subject_time->drop(first);
    subject_time->drop(second);
    ops->event_destroy(event);
}

static void a_wait_is_not_released_by_a_later_record(void)
{
    dao_backend_stream_t *idle = NULL;
    dao_backend_event_t *event = new_event(), *after = new_event();
    NEED(ops->stream_create(device, &idle));
    void *gate = block(stream);
    NEED(ops->event_record(event, stream));
    NEED(ops->stream_wait_event(other, event));
    NEED(ops->event_record(after, other));
    NEED(ops->event_record(event, idle));
    CU_ASSERT_EQUAL(ops->event_synchronize(event), DAO_OK);
    subject_time->pass(device, 10000000); /* a wrong release is given time to show */
    CU_ASSERT_EQUAL(ops->event_query(after), DAO_ERR_NOT_READY);
    subject_time->open(gate);
    CU_ASSERT_EQUAL(ops->event_synchronize(after), DAO_OK);
    subject_time->drop(gate);
    ops->event_destroy(event);
    ops->event_destroy(after);
    ops->stream_destroy(idle);
}

static void an_event_may_go_while_it_is_recorded_and_awaited(void)
{
    enum { SIZE = 4096 };
    void *there = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(SIZE);
    dao_backend_event_t *event = new_event();
    void *gate = block(stream);
    NEED(ops->fill(stream, there, 0x77, SIZE));
    NEED(ops->event_record(event, stream));
    NEED(ops->stream_wait_event(other, event));
    NEED(ops->copy(other, DAO_COPY_KIND_D2H, host, there, SIZE));
    ops->event_destroy(event);
    subject_time->open(gate);
    NEED(ops->stream_synchronize(other));
    CU_ASSERT_TRUE(is_all(host, SIZE, 0x77));
    NEED(ops->stream_synchronize(stream));
    subject_time->drop(gate);
    contract_give_pinned(host, SIZE);
    contract_give(there, SIZE);
}

static void the_time_between_events_is_known_when_both_have_finished(void)
{
    dao_backend_event_t *begin = new_event(), *end = new_event();
    int64_t elapsed_ns = -77;
    CU_ASSERT_EQUAL(ops->event_elapsed(begin, end, &elapsed_ns), DAO_ERR_NOT_READY);
    NEED(ops->event_record(begin, stream));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_EQUAL(ops->event_elapsed(begin, end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(ops->event_elapsed(end, begin, &elapsed_ns), DAO_ERR_NOT_READY);
    void *gate = block(stream);
    NEED(ops->event_record(end, stream));
    CU_ASSERT_EQUAL(ops->event_elapsed(begin, end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(elapsed_ns, -77);
    subject_time->await_held(gate);
    subject_time->pass(device, 2000000);
    subject_time->open(gate);
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_EQUAL(ops->event_elapsed(begin, end, &elapsed_ns), DAO_OK);
    CU_ASSERT_TRUE(elapsed_ns >= 1000000); /* a device's clock is its own */
    CU_ASSERT_EQUAL(ops->event_elapsed(end, begin, &elapsed_ns), DAO_OK);
    CU_ASSERT_TRUE(elapsed_ns <= -1000000);
    CU_ASSERT_EQUAL(ops->event_elapsed(begin, begin, &elapsed_ns), DAO_OK);
    CU_ASSERT_EQUAL(elapsed_ns, 0);
    subject_time->drop(gate);
    dao_backend_event_t *untimed = NULL;
    NEED(ops->event_create(device, false, &untimed));
    NEED(ops->event_record(untimed, stream));
    NEED(ops->event_synchronize(untimed));
    CU_ASSERT_EQUAL(ops->event_elapsed(begin, untimed, &elapsed_ns), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(ops->event_elapsed(untimed, end, &elapsed_ns), DAO_ERR_INVALID);
    ops->event_destroy(untimed);
    ops->event_destroy(begin);
    ops->event_destroy(end);
}

CU_TestInfo backend_contract_tests[] = {
    {"the table is whole", the_table_is_whole},
    {"every device opens and closes and opens again", every_device_opens_and_closes_and_opens_again},
    {"a device that is not there is refused", a_device_that_is_not_there_is_refused},
    {"a query describes the device", a_query_describes_the_device},
    {"memory is aligned and apart", memory_is_aligned_and_apart},
    {"more than the capacity is refused and nothing changes",
     more_than_the_capacity_is_refused_and_nothing_changes},
    {"exactly the capacity can be taken", exactly_the_capacity_can_be_taken},
    {"pinned memory is the host's", pinned_memory_is_the_hosts},
    {"too much pinned memory is refused", too_much_pinned_memory_is_refused},
    {"copies carry exactly their bytes", copies_carry_exactly_their_bytes},
    {"ordinary host memory can be copied", ordinary_host_memory_can_be_copied},
    {"a fill sets exactly its range", a_fill_sets_exactly_its_range},
    {"copies between devices arrive", copies_between_devices_arrive},
    {"a device reaches a peer's memory, once that is enabled", contract_peers_reach_what_was_enabled},
    {"host memory is registered and given up", contract_host_memory_is_registered_and_given_up},
    {"kernels find pinned and registered memory", contract_kernels_find_host_memory},
    {"batches of copies carry exactly their bytes", contract_batches_carry_exactly_their_bytes},
    {"random work gives what a model gives", random_work_gives_what_a_model_gives},
    {"host functions run in order, however many wait", host_functions_run_in_order_however_many_wait},
    {"a stream runs its work in order", a_stream_runs_its_work_in_order},
    {"a blocked stream does not hold up another", a_blocked_stream_does_not_hold_up_another},
    {"a device is synchronized with all its streams", a_device_is_synchronized_with_all_its_streams},
    {"destroying a stream waits for its work", destroying_a_stream_waits_for_its_work},
    {"an adopted stream is the same stream", an_adopted_stream_is_the_same_stream},
    {"threads do not disturb each other", threads_do_not_disturb_each_other},
    {"an event that was never recorded has finished", an_event_that_was_never_recorded_has_finished},
    {"an event finishes with the work before it", an_event_finishes_with_the_work_before_it},
    {"a wait orders the bytes of two streams", a_wait_orders_the_bytes_of_two_streams},
    {"a wait is not moved to a later record", a_wait_is_not_moved_to_a_later_record},
    {"a wait is not released by a later record", a_wait_is_not_released_by_a_later_record},
    {"an event may go while it is recorded and awaited", an_event_may_go_while_it_is_recorded_and_awaited},
    {"the time between events is known when both have finished",
     the_time_between_events_is_known_when_both_have_finished},
    CU_TEST_INFO_NULL,
};

CU_TestInfo backend_contract_byteless_tests[] = {
    {"the table is whole", the_table_is_whole},
    {"every device opens and closes and opens again", every_device_opens_and_closes_and_opens_again},
    {"a device that is not there is refused", a_device_that_is_not_there_is_refused},
    {"a query describes the device", a_query_describes_the_device},
    {"memory is aligned and apart", memory_is_aligned_and_apart},
    {"more than the capacity is refused and nothing changes",
     more_than_the_capacity_is_refused_and_nothing_changes},
    {"too much pinned memory is refused", too_much_pinned_memory_is_refused},
    {"host functions run in order, however many wait", host_functions_run_in_order_however_many_wait},
    {"an event that was never recorded has finished", an_event_that_was_never_recorded_has_finished},
    {"an event finishes with the work before it", an_event_finishes_with_the_work_before_it},
    {"a wait is not moved to a later record", a_wait_is_not_moved_to_a_later_record},
    {"a wait is not released by a later record", a_wait_is_not_released_by_a_later_record},
    {"the time between events is known when both have finished",
     the_time_between_events_is_known_when_both_have_finished},
    CU_TEST_INFO_NULL,
};

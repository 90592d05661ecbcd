/* SPDX-License-Identifier: Apache-2.0 */
/* Hardening, the layer alone: the allocators' contract with every option on, and each kind of misuse found.
 */
#define _GNU_SOURCE
#include "allocators/layers/hardened.h"

#include "allocators/paged/device_memory.h"
#include "allocators/segments/host.h"
#include "base/log.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/backends/fault_backend.h"

#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERYTHING                                                                                           \
    (DAO_HARDENING_GUARD | DAO_HARDENING_JUNK | DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM)

/* ---- bytes that can fail ---- */

static _Atomic int64_t bytes_left = INT64_MAX; /* calls until the one that fails */

static bool bytes_fail(void)
{
    return atomic_fetch_sub(&bytes_left, 1) == 0;
}

/* `user` is a stream of the device whose bytes they are; NULL: the host's. */
static dao_status_t test_fill(void *user, void *address, uint8_t value, size_t size_bytes)
{
    if (bytes_fail()) {
        return dao_error(DAO_ERR_BACKEND, "the fill failed on purpose");
    }
    if (user == NULL) {
        memset(address, value, size_bytes);
        return DAO_OK;
    }
    dao_fault_exempt(true);
    dao_status_t status = dao_backend_ops()->fill(user, address, value, size_bytes);
    status = status == DAO_OK ? dao_backend_ops()->stream_synchronize(user) : status;
    dao_fault_exempt(false);
    return status;
}

static dao_status_t test_scan(void *user, const void *address, uint8_t value, size_t size_bytes,
                              size_t *out_offset)
{
    if (bytes_fail()) {
        return dao_error(DAO_ERR_BACKEND, "the scan failed on purpose");
    }
    unsigned char *copy = user != NULL ? malloc(size_bytes) : NULL;
    dao_status_t status = DAO_OK;
    dao_fault_exempt(true);
    if (copy != NULL) {
        status = dao_backend_ops()->copy(user, DAO_COPY_KIND_D2H, copy, address, size_bytes);
        status = status == DAO_OK ? dao_backend_ops()->stream_synchronize(user) : status;
    }
    dao_fault_exempt(false);
    const unsigned char *bytes = copy != NULL ? copy : address;
    size_t offset = 0;
    while (status == DAO_OK && offset < size_bytes && bytes[offset] == value) {
        offset++;
    }
    *out_offset = offset;
    free(copy);
    return status;
}

/* ---- the contract, over device memory and over host memory ---- */

#define CONTRACT_QUARANTINE_BYTES (64 * KIB)

static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *bytes_stream; /* NULL: the bytes are the host's */

static dao_status_t harden(uint32_t flags, size_t quarantine_bytes, dao_allocator_t *inner,
                           dao_allocator_t **out_allocator)
{
    dao_hardened_config_t config = {.name = "hard:0",
                                    .flags = flags,
                                    .quarantine_bytes = quarantine_bytes,
                                    .bytes = {.fill = test_fill, .scan = test_scan, .user = bytes_stream}};
    dao_status_t status = dao_hardened_create(&config, inner, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

static dao_status_t over_host_create(dao_allocator_t **out_allocator)
{
    dao_allocator_t *inner = NULL;
    dao_status_t status = dao_host_allocator_create(&(dao_host_config_t){.name = "cpu"}, &inner);
    return status == DAO_OK ? harden(EVERYTHING, CONTRACT_QUARANTINE_BYTES, inner, out_allocator) : status;
}

static void over_host_destroy(dao_allocator_t *allocator)
{
    allocator->ops->destroy(allocator);
}

static void device_close(void)
{
    if (bytes_stream != NULL) {
        dao_backend_ops()->stream_destroy(bytes_stream);
    }
    if (device != NULL) {
        dao_backend_ops()->device_close(device); /* asserts that nothing is left */
    }
    if (backend != NULL) {
        dao_backend_ops()->close(backend);
    }
    bytes_stream = NULL;
    device = NULL;
    backend = NULL;
}

static dao_status_t over_device_create(dao_allocator_t **out_allocator)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 256 * MIB}};
    dao_allocator_t *inner = NULL;
    dao_status_t status = dao_backend_ops()->open(&config, &backend);
    if (status == DAO_OK) {
        status = dao_backend_ops()->device_open(backend, 0, &device);
    }
    if (status == DAO_OK) {
        status = dao_backend_ops()->stream_create(device, &bytes_stream);
    }
    if (status == DAO_OK) {
        dao_device_memory_config_t caching = {.ops = dao_backend_ops(), .device = device, .name = "device:0"};
        status = dao_device_memory_create(&caching, &inner);
    }
    if (status == DAO_OK) {
        status = harden(EVERYTHING, CONTRACT_QUARANTINE_BYTES, inner, out_allocator);
    }
    if (status != DAO_OK) {
        device_close();
    }
    return status;
}

static void over_device_destroy(dao_allocator_t *allocator)
{
    allocator->ops->destroy(allocator);
    device_close();
}

static const allocator_contract_t over_host_contract = {.create = over_host_create,
                                                        .destroy = over_host_destroy,
                                                        .alignment_bytes = 64,
                                                        .extra_bytes = DAO_HARDENED_GUARD_BYTES};
static const allocator_contract_t over_device_contract = {.create = over_device_create,
                                                          .destroy = over_device_destroy,
                                                          .alignment_bytes = 256,
                                                          .extra_bytes = DAO_HARDENED_GUARD_BYTES};

static void over_host_begin(void)
{
    allocator_contract_begin_on(&over_host_contract);
}

static void over_device_begin(void)
{
    allocator_contract_begin_on(&over_device_contract);
}

/* ---- the layer alone ---- */

static dao_allocator_t *allocator;
static uint32_t damage_lines;

static void count_line(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    damage_lines += level == DAO_LOG_LEVEL_ERROR && strstr(message, "hard:0") != NULL;
}

static void start(uint32_t flags, size_t quarantine_bytes)
{
    dao_allocator_t *inner = NULL;
    damage_lines = 0;
    dao_log_set(count_line, NULL, DAO_LOG_LEVEL_ERROR);
    CU_ASSERT_EQUAL_FATAL(dao_host_allocator_create(&(dao_host_config_t){.name = "cpu"}, &inner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(harden(flags, quarantine_bytes, inner, &allocator), DAO_OK);
}

static void stop(void)
{
    if (allocator != NULL) {
        allocator->ops->destroy(allocator);
    }
    allocator = NULL;
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static unsigned char *take(size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    return address;
}

static void give(void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
}

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    return stats;
}

/* Bytes of each state in a walk over all. */
static void sum_state(const dao_block_t *block, void *user)
{
    uint64_t *bytes = user;
    bytes[block->state] += block->block_bytes;
}

static uint64_t pending_bytes(void)
{
    uint64_t bytes[3] = {0};
    allocator->ops->walk_all(allocator, sum_state, bytes);
    return bytes[DAO_BLOCK_STATE_PENDING];
}

/* The message names place, block and offset. */
static void expect_message(const void *address, const char *offset_text)
{
    char address_text[32];
    (void)snprintf(address_text, sizeof(address_text), "%p", address);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "hard:0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), address_text));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), offset_text));
}

static void a_write_past_the_end_is_found_at_the_free(void)
{
    static const size_t sizes[] = {1, 100, 256, 1000, 32 * KIB, 100 * KIB};
    start(DAO_HARDENING_GUARD, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t guarded_bytes = (sizes[i] + 255) / 256 * 256 + 256;
        size_t offsets[] = {sizes[i], guarded_bytes - 1}; /* the rounding, and the last byte of the guard */
        for (size_t k = 0; k < 2; k++) {
            unsigned char *block = take(sizes[i]);
            char text[64];
            memset(block, 0, sizes[i]); /* all of its own bytes are the caller's */
            CU_ASSERT_EQUAL(dao_hardened_check(allocator), i + k == 0 ? DAO_OK : DAO_ERR_CORRUPT);
            block[offsets[k]]++;
            uint64_t live_count = stats_now().live_count;
            CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_CORRUPT);
            (void)snprintf(text, sizeof(text), "offset %zu", offsets[k]);
            expect_message(block, text);
            CU_ASSERT_EQUAL(stats_now().live_count, live_count - 1);
            CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_DOUBLE_FREE);
            CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
            for (size_t n = 0; n < 20; n++) { /* nobody gets it again */
                CU_ASSERT_PTR_NOT_EQUAL(take(sizes[i]), block);
            }
        }
    }
}

static void a_check_finds_a_write_past_the_end_of_a_live_block(void)
{
    start(DAO_HARDENING_GUARD, 0);
    unsigned char *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = take(i + 1);
    }
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_OK);
    blocks[57][58] ^= 1;
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
    expect_message(blocks[57], "offset 58");
    blocks[57][58] ^= 1;
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_OK);
    for (size_t i = 0; i < 100; i++) {
        give(blocks[i]);
    }
}

static void a_check_names_every_damaged_block(void)
{
    enum { COUNT = 40 };
    start(DAO_HARDENING_GUARD | DAO_HARDENING_QUARANTINE, 64 * KIB);
    unsigned char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(100);
    }
    unsigned char *freed = take(100);
    give(freed);
    blocks[3][100] ^= 1;
    blocks[5][101] ^= 1;
    freed[50] ^= 1;
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
    expect_message(blocks[3], "3 findings");
    expect_message(blocks[5], "offset 101");
    expect_message(freed, "after its free: the first wrong byte is at offset 50");
    CU_ASSERT_EQUAL(damage_lines, 0);
    for (size_t i = 0; i < COUNT; i++) { /* more than a message holds */
        blocks[i][102] ^= 1;
    }
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "41 findings"));
    uint32_t named = 0;
    for (const char *at = dao_last_message(); (at = strstr(at, "the block of")) != NULL; at++) {
        named++;
    }
    CU_ASSERT_TRUE(named > 3);
    CU_ASSERT_EQUAL(named + damage_lines, 41);
}

static void new_and_freed_bytes_are_what_they_are_said_to_be(void)
{
    static const uint32_t flags[] = {DAO_HARDENING_JUNK, DAO_HARDENING_ZERO,
                                     DAO_HARDENING_JUNK | DAO_HARDENING_ZERO, DAO_HARDENING_QUARANTINE};
    static const int after[] = {DAO_HARDENED_FREED_VALUE, 0, 0, DAO_HARDENED_FREED_VALUE};
    for (size_t i = 0; i < 4; i++) {
        start(flags[i], 1 * MIB);
        unsigned char *block =
            take(200 * KIB); /* freed bytes above 32 KiB stay mapped: they can be looked at */
        bool has_junk = (flags[i] & DAO_HARDENING_JUNK) != 0;
        CU_ASSERT_TRUE(!has_junk || (block[0] == DAO_HARDENED_JUNK_VALUE &&
                                     block[200 * KIB - 1] == DAO_HARDENED_JUNK_VALUE));
        memset(block, 0x55, 200 * KIB);
        give(block);
        CU_ASSERT_EQUAL(block[0], after[i]);
        CU_ASSERT_EQUAL(block[200 * KIB - 1], after[i]);
        stop();
    }
}

static void a_write_after_the_free_is_found_in_the_quarantine(void)
{
    start(EVERYTHING, 64 * KIB);
    unsigned char *block = take(10 * KIB);
    give(block);
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_OK);
    CU_ASSERT_EQUAL(pending_bytes(), 10 * KIB + 256);
    block[777] = 0;
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
    expect_message(block, "after its free: the first wrong byte is at offset 777");
    for (size_t i = 0; i < 10; i++) { /* it is pushed out, found, and kept */
        give(take(10 * KIB));
    }
    CU_ASSERT_EQUAL(damage_lines, 1);
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
    expect_message(block, "damaged before");
    size_t released_bytes;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(pending_bytes(), 10 * KIB + 256);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
}

static void damage_in_the_quarantine_is_found_at_the_end(void)
{
    start(DAO_HARDENING_QUARANTINE, 64 * KIB);
    unsigned char *block = take(1000);
    give(block);
    block[0] ^= 1;
    stop();
    CU_ASSERT_EQUAL(damage_lines, 1);
}

static void the_quarantine_knows_a_double_free_for_long(void)
{
    static unsigned char *blocks[500];
    start(DAO_HARDENING_QUARANTINE, 1 * MIB);
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = take(1000);
    }
    for (size_t i = 0; i < 500; i++) {
        give(blocks[i]);
    }
    for (size_t i = 0; i < 500; i++) {
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[i]), DAO_ERR_DOUBLE_FREE);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[i] + 8), DAO_ERR_FOREIGN_POINTER);
    }
    CU_ASSERT_EQUAL(pending_bytes(), 500 * 1024);
}

static void the_quarantine_is_first_in_first_out_and_bounded(void)
{
    start(DAO_HARDENING_QUARANTINE, 8 * KIB);
    unsigned char *first = take(4 * KIB), *second = take(4 * KIB), *third = take(4 * KIB),
                  *large = take(9 * KIB);
    give(large); /* too large for it */
    CU_ASSERT_EQUAL(pending_bytes(), 0);
    give(first);
    give(second);
    CU_ASSERT_EQUAL(pending_bytes(), 8 * KIB);
    give(third);
    CU_ASSERT_EQUAL(pending_bytes(), 8 * KIB);
    size_t size_bytes;
    CU_ASSERT_PTR_NULL(dao_hardened_descriptor(allocator, first, &size_bytes));
    CU_ASSERT_PTR_NOT_NULL(dao_hardened_descriptor(allocator, second, &size_bytes));
    CU_ASSERT_PTR_NOT_NULL(dao_hardened_descriptor(allocator, third, &size_bytes));
}

static void the_quarantine_gives_way_when_memory_is_short(void)
{
    start(DAO_HARDENING_QUARANTINE, 64 * MIB);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 16 * MIB), DAO_OK);
    give(take(10 * MIB));
    CU_ASSERT_EQUAL(pending_bytes(), 10 * MIB);
    unsigned char *block = take(12 * MIB);
    CU_ASSERT_EQUAL(pending_bytes(), 0);
    give(block);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 1 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(pending_bytes(), 0);
}

/* Every bit of a descriptor counts; blocks around it go on. */
static void a_damaged_descriptor_is_found(void)
{
    unsigned char *others[40];
    for (size_t bit = 0; bit < 8 * 40; bit += 7) {
        start(EVERYTHING, 64 * KIB);
        for (size_t i = 0; i < 40; i++) {
            others[i] = take(100);
        }
        unsigned char *block = take(5000);
        size_t size_bytes;
        unsigned char *descriptor = dao_hardened_descriptor(allocator, block, &size_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(descriptor);
        CU_ASSERT_EQUAL(size_bytes, 40);
        descriptor[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_CORRUPT);
        expect_message(block, "damaged");
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_CORRUPT);
        CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
        CU_ASSERT_FALSE(allocator->ops->is_valid(allocator));
        for (size_t i = 0; i < 40; i++) {
            give(others[i]);
        }
        for (size_t i = 0; i < 200; i++) { /* the table grows, with it in there */
            CU_ASSERT_PTR_NOT_EQUAL(take(5000), block);
        }
        CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
        stop();
    }
}

static void a_damaged_descriptor_in_the_quarantine_keeps_its_block(void)
{
    start(EVERYTHING, 64 * KIB);
    unsigned char *block = take(5000);
    size_t size_bytes;
    give(block);
    unsigned char *descriptor = dao_hardened_descriptor(allocator, block, &size_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(descriptor);
    descriptor[9] ^= 1;
    for (size_t i = 0; i < 100; i++) {
        unsigned char *other = take(5000);
        CU_ASSERT_PTR_NOT_EQUAL(other, block);
        give(other);
    }
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_CORRUPT);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_CORRUPT);
}

/* Each call to the bytes fails in turn: alloc and free change nothing then. */
static void bytes_that_cannot_be_reached_change_nothing(void)
{
    start(EVERYTHING, 64 * KIB);
    bool has_failed = true;
    uint32_t failure_count = 0;
    for (int64_t n = 0; has_failed; n++) {
        dao_stats_t before = stats_now();
        void *block = NULL;
        atomic_store(&bytes_left, n);
        dao_status_t status = dao_allocator_alloc(allocator, 1000, &block);
        dao_status_t freed = block != NULL ? dao_allocator_free(allocator, block) : DAO_OK;
        has_failed = atomic_load(&bytes_left) < 0;
        atomic_store(&bytes_left, INT64_MAX);
        CU_ASSERT_EQUAL(status != DAO_OK || freed != DAO_OK, has_failed);
        CU_ASSERT_TRUE(!has_failed || dao_last_status() == DAO_ERR_BACKEND);
        failure_count += has_failed;
        CU_ASSERT_EQUAL(stats_now().failed_count, before.failed_count + (status != DAO_OK));
        CU_ASSERT_EQUAL(stats_now().live_count, before.live_count + (freed != DAO_OK));
        CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
        if (freed != DAO_OK) {
            give(block); /* it is live still */
        }
    }
    CU_ASSERT_EQUAL(failure_count, 4); /* junk, guard; guard, fill */
    atomic_store(&bytes_left, 0);
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_BACKEND);
    atomic_store(&bytes_left, INT64_MAX);
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_OK);
}

static void without_options_it_only_passes_on(void)
{
    start(0, 64 * KIB);
    unsigned char *block = take(1000);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 1024);
    block[1000] = 1; /* its rounding is not guarded */
    atomic_store(&bytes_left, 0);
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_OK);
    give(block);
    CU_ASSERT_EQUAL(atomic_load(&bytes_left), 0); /* no byte was touched */
    atomic_store(&bytes_left, INT64_MAX);
    CU_ASSERT_EQUAL(pending_bytes(), 0);
}

#if defined(DAO_FAULTS)
static void a_check_without_memory_says_so(void)
{
    start(EVERYTHING, 64 * KIB);
    give(take(100));
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
}
#endif

/* ---- threads ---- */

static _Atomic uint32_t hammers_left;
static _Atomic uint32_t hammer_failures;

static void *hammer(void *user)
{
    enum { HELD = 16 };
    uint64_t seed = *(uint64_t *)user;
    unsigned char *held[HELD] = {NULL};
    for (size_t i = 0; i < 2000; i++) {
        size_t slot = (size_t)(dao_random_next(&seed) % HELD);
        if (held[slot] != NULL) {
            hammer_failures += dao_allocator_free(allocator, held[slot]) != DAO_OK;
            hammer_failures += i % 50 == 0 && dao_allocator_free(allocator, held[slot] + 1) == DAO_OK;
            held[slot] = NULL;
            continue;
        }
        void *address = NULL;
        size_t size_bytes = 1 + (size_t)(dao_random_next(&seed) % (8 * KIB));
        hammer_failures += dao_allocator_alloc(allocator, size_bytes, &address) != DAO_OK;
        held[slot] = address;
        memset(held[slot], (int)slot, size_bytes);
    }
    for (size_t slot = 0; slot < HELD; slot++) {
        hammer_failures += held[slot] != NULL && dao_allocator_free(allocator, held[slot]) != DAO_OK;
    }
    atomic_fetch_sub(&hammers_left, 1);
    return NULL;
}

static void threads_and_checks_do_not_harm_each_other(void)
{
    enum { COUNT = 3 };
    uint64_t seeds[COUNT] = {21, 22, 23};
    dao_thread_t threads[COUNT];
    start(EVERYTHING, 64 * KIB);
    atomic_store(&hammers_left, COUNT);
    atomic_store(&hammer_failures, 0);
    for (size_t i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "hammer", hammer, &seeds[i]), DAO_OK);
    }
    while (atomic_load(&hammers_left) > 0) {
        size_t released_bytes;
        CU_ASSERT_EQUAL(dao_hardened_check(allocator), DAO_OK);
        CU_ASSERT_TRUE(stats_now().used_bytes <= stats_now().peak_reserved_bytes);
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    }
    for (size_t i = 0; i < COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(atomic_load(&hammer_failures), 0);
    CU_ASSERT_EQUAL(damage_lines, 0);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
}

/* Several threads free the same block: one of them succeeds. */
static void *free_once(void *user)
{
    dao_status_t status = dao_allocator_free(allocator, user);
    hammer_failures += status != DAO_OK && status != DAO_ERR_DOUBLE_FREE;
    hammers_left -= status == DAO_OK;
    return NULL;
}

static void of_many_frees_of_a_block_one_succeeds(void)
{
    enum { COUNT = 3, ROUND_COUNT = 100 };
    start(DAO_HARDENING_GUARD | DAO_HARDENING_CHECKSUM, 0);
    atomic_store(&hammers_left, ROUND_COUNT);
    atomic_store(&hammer_failures, 0);
    for (size_t round = 0; round < ROUND_COUNT; round++) {
        dao_thread_t threads[COUNT];
        void *block = take(40 * KIB);
        for (size_t i = 0; i < COUNT; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "free", free_once, block), DAO_OK);
        }
        for (size_t i = 0; i < COUNT; i++) {
            dao_thread_join(&threads[i]);
        }
    }
    CU_ASSERT_EQUAL(atomic_load(&hammers_left), 0);
    CU_ASSERT_EQUAL(atomic_load(&hammer_failures), 0);
}

static CU_TestInfo layer_tests[] = {
    {"a write past the end is found at the free", a_write_past_the_end_is_found_at_the_free},
    {"a check finds a write past the end of a live block",
     a_check_finds_a_write_past_the_end_of_a_live_block},
    {"a check names every damaged block", a_check_names_every_damaged_block},
    {"new and freed bytes are what they are said to be", new_and_freed_bytes_are_what_they_are_said_to_be},
    {"a write after the free is found in the quarantine", a_write_after_the_free_is_found_in_the_quarantine},
    {"damage in the quarantine is found at the end", damage_in_the_quarantine_is_found_at_the_end},
    {"the quarantine knows a double free for long", the_quarantine_knows_a_double_free_for_long},
    {"the quarantine is first in, first out, and bounded", the_quarantine_is_first_in_first_out_and_bounded},
    {"the quarantine gives way when memory is short", the_quarantine_gives_way_when_memory_is_short},
    {"a damaged descriptor is found", a_damaged_descriptor_is_found},
    {"a damaged descriptor in the quarantine keeps its block",
     a_damaged_descriptor_in_the_quarantine_keeps_its_block},
    {"bytes that cannot be reached change nothing", bytes_that_cannot_be_reached_change_nothing},
    {"without options it only passes on", without_options_it_only_passes_on},
#if defined(DAO_FAULTS)
    {"a check without memory says so", a_check_without_memory_says_so},
#endif
    {"threads and checks do not harm each other", threads_and_checks_do_not_harm_each_other},
    {"of many frees of a block one succeeds", of_many_frees_of_a_block_one_succeeds},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"hardened host memory, contract", NULL, NULL, over_host_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"hardened device memory, contract", NULL, NULL, over_device_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"hardened", NULL, NULL, NULL, stop, layer_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The file tier where a driver runs host functions one after the other: its threads transfer beside the
   streams, so that a write which takes long holds up neither a read nor others' host functions. */
#include "base/report/error.h"
#include "runtime/executor/tiers/file_tier.h"
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)4 * KIB)
#define BLOCK_BYTES ((size_t)64 * KIB) /* what the fake allocator gives for any request */
#define WRITE       DAO_TIMELINE_FILE_OUT
#define READ        DAO_TIMELINE_FILE_IN

static const dao_backend_ops_t *ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *streams[DAO_STREAM_ROLE_COUNT];
static dao_backend_stream_t *file_streams[2 * DAO_FILE_DIRECTION_COUNT];
static dao_timeline_t timeline;
static dao_file_tier_t tier;
static uint32_t block_count;
static dao_managed_t *const someone = (dao_managed_t *)&block_count; /* never looked into */

static dao_status_t pinned_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                 dao_block_grant_t *out_grant)
{
    (void)allocator;
    CU_ASSERT_TRUE_FATAL(request->size_bytes <= BLOCK_BYTES);
    dao_status_t status = ops->pinned_alloc(device, BLOCK_BYTES, &out_grant->address);
    block_count += status == DAO_OK ? 1 : 0;
    return status;
}

static dao_status_t pinned_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                dao_block_owner_t owner)
{
    (void)allocator;
    (void)fence;
    CU_ASSERT_EQUAL(owner, DAO_BLOCK_OWNER_POOL);
    block_count--;
    return ops->pinned_free(device, address, BLOCK_BYTES);
}

static const dao_allocator_ops_t allocator_ops = {
    .name = "pinned", .alloc = pinned_alloc, .free_owned = pinned_free};
static dao_allocator_t allocator = {.ops = &allocator_ops};

static const char *directory(void)
{
    return getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
}

static void begin(const loopback_settings_t *settings, uint64_t out_bytes_per_second)
{
    static const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    ops = loopback_ops();
    loopback_set(settings);
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 0, &device), DAO_OK);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(ops->stream_create(device, &streams[i]), DAO_OK);
    }
    for (int i = 0; i < 2 * DAO_FILE_DIRECTION_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(ops->stream_create(device, &file_streams[i]), DAO_OK);
    }
    dao_timeline_init(&timeline, ops, device, streams);
    dao_file_tier_config_t tier_config = {
        .ops = ops,
        .streams = {file_streams[0], file_streams[1]},
        .staging_streams = {file_streams[2], file_streams[3]},
        .host = &allocator,
        .arena_bytes = PIECE_BYTES,
        .file = {.directory = directory(), .limit_bytes = MIB, .out_bytes_per_second = out_bytes_per_second}};
    CU_ASSERT_EQUAL_FATAL(dao_file_tier_init(&tier, &timeline, &tier_config), DAO_OK);
}

static void end(void)
{
    dao_file_tier_stop(&tier);
    for (int i = 0; i < 2 * DAO_FILE_DIRECTION_COUNT; i++) {
        CU_ASSERT_EQUAL(ops->stream_synchronize(file_streams[i]), DAO_OK);
    }
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        while (dao_file_tier_give_up(&tier, (dao_file_direction_t)i) != NULL) {
        }
    }
    dao_timeline_finish(&timeline);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        ops->stream_destroy(streams[i]);
    }
    for (int i = 0; i < 2 * DAO_FILE_DIRECTION_COUNT; i++) {
        ops->stream_destroy(file_streams[i]);
    }
    dao_file_tier_finish(&tier);
    CU_ASSERT_EQUAL(block_count, 0);
    ops->device_close(device);
    ops->close(backend);
    loopback_set(&(loopback_settings_t){0});
}

/* Queues a transfer of a pinned piece; its number. */
static uint64_t queue(dao_file_direction_t direction, char *piece, uint64_t offset_bytes)
{
    uint64_t sequence = 0;
    dao_file_operation_t operation = {.direction = direction,
                                      .offset_bytes = offset_bytes,
                                      .address = piece,
                                      .size_bytes = PIECE_BYTES,
                                      .tensor = someone};
    CU_ASSERT_EQUAL(dao_file_tier_before(&tier, direction, &(dao_fence_t){0}), DAO_OK);
    CU_ASSERT_EQUAL(dao_file_tier_queue(&tier, &operation, &sequence), DAO_OK);
    return sequence;
}

static void wait_for(dao_stream_role_t role, uint64_t sequence)
{
    dao_fence_t fence = {0};
    dao_fence_add(&fence, role, sequence);
    CU_ASSERT_EQUAL(dao_timeline_wait(&timeline, &fence), DAO_OK);
}

static void count(void *user)
{
    atomic_fetch_add((_Atomic uint32_t *)user, 1);
}

/* At a byte a second the write takes an hour: whoever waits for it here waits for ever. */
static void a_write_that_takes_long_holds_up_nothing_else(void)
{
    _Atomic uint32_t counted = 0;
    begin(&(loopback_settings_t){.is_one_by_one = true}, 1);
    if (ops->stream_wait_word == NULL) {
        (void)printf("    skipped: with %s no stream waits for a word\n", ops->name);
        end();
        return;
    }
    char *in = tier.staging[DAO_FILE_READ][0], *out = tier.staging[DAO_FILE_WRITE][0];
    char bytes[PIECE_BYTES];
    memset(bytes, 'a', sizeof(bytes));
    memset(out, 'b', PIECE_BYTES);
    CU_ASSERT_EQUAL(dao_file_transfer(tier.file, DAO_FILE_WRITE, 0, bytes, PIECE_BYTES), 0);
    uint64_t written = queue(DAO_FILE_WRITE, out, PIECE_BYTES);
    wait_for(READ, queue(DAO_FILE_READ, in, 0));
    CU_ASSERT_EQUAL(memcmp(in, bytes, PIECE_BYTES), 0);
    CU_ASSERT_EQUAL(ops->host_func(streams[0], count, (void *)&counted), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(streams[0]), DAO_OK);
    CU_ASSERT_EQUAL(atomic_load(&counted), 1);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_TRUE(timeline.streams[WRITE].completed < written);
    end(); /* that ends it */
}

/* Writes, and reads what was written, one transfer after the other. */
static void pass_bytes_on(void)
{
    char *in = tier.staging[DAO_FILE_READ][0], *out = tier.staging[DAO_FILE_WRITE][0];
    for (unsigned i = 1; i <= 200; i++) {
        memset(out, (int)i, PIECE_BYTES);
        wait_for(WRITE, queue(DAO_FILE_WRITE, out, i * PIECE_BYTES % (64 * KIB)));
        wait_for(READ, queue(DAO_FILE_READ, in, i * PIECE_BYTES % (64 * KIB)));
        CU_ASSERT_EQUAL(memcmp(in, out, PIECE_BYTES), 0);
        CU_ASSERT_PTR_EQUAL(dao_file_tier_take_off(&tier, DAO_FILE_WRITE), someone);
        CU_ASSERT_PTR_EQUAL(dao_file_tier_take_off(&tier, DAO_FILE_READ), someone);
    }
}

static void bytes_pass_with_words_and_without(void)
{
    begin(&(loopback_settings_t){.is_one_by_one = true}, 0);
    pass_bytes_on();
    end();
    begin(&(loopback_settings_t){.is_one_by_one = true, .has_no_words = true}, 0);
    pass_bytes_on();
    end();
}

static void a_word_is_reached_across_its_wrap(void)
{
    void *memory = NULL;
    begin(&(loopback_settings_t){0}, 0);
    if (ops->stream_wait_word != NULL) {
        CU_ASSERT_EQUAL_FATAL(ops->pinned_alloc(device, 64, &memory), DAO_OK);
        _Atomic uint32_t *word = memory;
        atomic_store(word, UINT32_MAX - 1);
        CU_ASSERT_EQUAL(ops->stream_wait_word(streams[0], word, UINT32_MAX - 2), DAO_OK);
        CU_ASSERT_EQUAL(ops->stream_synchronize(streams[0]), DAO_OK);
        CU_ASSERT_EQUAL(ops->stream_wait_word(streams[0], word, 2), DAO_OK);
        CU_ASSERT_EQUAL(ops->stream_synchronize(streams[1]), DAO_OK); /* waits for nothing */
        atomic_store(word, 3);
        CU_ASSERT_EQUAL(ops->stream_synchronize(streams[0]), DAO_OK);
        loopback_set(&(loopback_settings_t){.has_no_words = true});
        CU_ASSERT_EQUAL(ops->stream_wait_word(streams[0], word, 9), DAO_ERR_UNSUPPORTED);
        CU_ASSERT_EQUAL(ops->stream_synchronize(streams[0]), DAO_OK);
        CU_ASSERT_EQUAL(ops->pinned_free(device, memory, 64), DAO_OK);
    }
    end();
}

static CU_TestInfo tests[] = {
    {"a write that takes long holds up nothing else", a_write_that_takes_long_holds_up_nothing_else},
    {"bytes pass with words and without", bytes_pass_with_words_and_without},
    {"a word is reached across its wrap", a_word_is_reached_across_its_wrap},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"file worker", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_paddle, loaded and called as Paddle's device manager does: the tables of three versions of Paddle,
   two virtual devices, streams, events, callbacks, copies every way, memory that is freed while work is
   queued. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "integrations/paddle/paddle_abi.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK_BYTES ((size_t)2 << 20)

/* Words of C_DeviceInterface in Paddle 2.4, 2.6 and 3.x, and of CustomRuntimeParams then. */
static const struct {
    size_t table_words;
    size_t params_bytes;
} versions[] = {{113, 88}, {114, 88}, {130, 96}};

#define TABLE_WORDS_MAX 130

static union {
    paddle_interface_t table;
    void *words[TABLE_WORDS_MAX];
} paddle;
static paddle_device_t first = {0};
static paddle_device_t second = {1};
static void (*init_plugin)(paddle_params_t *params);

typedef union params {
    paddle_params_t params;
    unsigned char bytes[96];
} params_t;

/* As LoadCustomRuntimeLib(). */
static params_t plugin_fill(size_t table_bytes, size_t params_bytes)
{
    params_t params = {.bytes = {0}};
    memset(&paddle, 0, sizeof(paddle));
    params.params.size_bytes = params_bytes;
    params.params.interface = &paddle.table;
    paddle.table.size_bytes = table_bytes;
    init_plugin(&params.params);
    return params;
}

static int paddle_start(void)
{
    void *library = dlopen(DAO_TEST_PADDLE, RTLD_LAZY);
    void *symbol = library != NULL ? dlsym(library, "InitPlugin") : NULL;
    if (symbol == NULL) {
        return 1;
    }
    memcpy(&init_plugin, &symbol, sizeof(symbol));
    return 0;
}

static void every_version_of_paddle_is_filled(void)
{
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        params_t params = plugin_fill(versions[i].table_words * sizeof(void *), versions[i].params_bytes);
        CU_ASSERT_STRING_EQUAL(params.params.device_type, "dao");
        CU_ASSERT_PTR_NOT_NULL(params.params.sub_device_type);
        CU_ASSERT_TRUE(params.params.version.major == 0 && params.params.version.minor == 1 &&
                       params.params.version.patch == 1);
        const paddle_interface_t *t = &paddle.table; /* what ValidCustomCustomRuntimeParams() requires */
        CU_ASSERT_TRUE(t->set_device != NULL && t->get_device != NULL && t->create_event != NULL &&
                       t->record_event != NULL && t->destroy_event != NULL && t->synchronize_event != NULL &&
                       t->device_memory_allocate != NULL && t->device_memory_deallocate != NULL &&
                       t->get_device_count != NULL && t->get_device_list != NULL);
        for (size_t word = sizeof(paddle_interface_t) / sizeof(void *); word < TABLE_WORDS_MAX; word++) {
            CU_ASSERT_PTR_NULL(paddle.words[word]); /* what differs between versions is left alone */
        }
        for (size_t r = 0; r < PADDLE_RESERVED; r++) {
            CU_ASSERT_TRUE(t->reserved_device[r] == NULL && t->reserved_memory[r] == NULL);
        }
    }
}

static void another_table_is_left_alone(void)
{
    params_t params = plugin_fill(sizeof(paddle_interface_t) - 1, 88);
    CU_ASSERT_PTR_NULL(params.params.device_type);
    CU_ASSERT_PTR_NULL(paddle.words[1]);
    params = plugin_fill(sizeof(paddle), sizeof(paddle_params_t) - 1);
    CU_ASSERT_PTR_NULL(params.params.device_type);
    CU_ASSERT_PTR_NULL(paddle.words[1]);
}

/* ---- a device, as CustomDevice has it ---- */

static void device_begin(void)
{
    size_t count = 0;
    size_t devices[DAO_DEVICE_COUNT_MAX] = {99};
    (void)plugin_fill(versions[2].table_words * sizeof(void *), versions[2].params_bytes);
    CU_ASSERT_EQUAL_FATAL(paddle.table.initialize(), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.get_device_count(&count), PADDLE_SUCCESS);
    CU_ASSERT_TRUE_FATAL(count == 2);
    CU_ASSERT_EQUAL(paddle.table.get_device_list(devices), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(devices[0] == 0 && devices[1] == 1);
    CU_ASSERT_EQUAL(paddle.table.init_device(&first), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.init_device(&second), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(first.id == 0 && second.id == 1);
}

static void device_end(void)
{
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(1)), 0);
    CU_ASSERT_EQUAL(paddle.table.deinit_device(&first), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.deinit_device(&second), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.finalize(), PADDLE_SUCCESS);
}

static void *device_alloc(const paddle_device_t *device, size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL_FATAL(paddle.table.device_memory_allocate(device, &address, size_bytes), PADDLE_SUCCESS);
    return address;
}

static void device_free(const paddle_device_t *device, void *address, size_t size_bytes)
{
    CU_ASSERT_EQUAL(paddle.table.device_memory_deallocate(device, address, size_bytes), PADDLE_SUCCESS);
}

static paddle_stream_t *stream_make(const paddle_device_t *device)
{
    paddle_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(paddle.table.create_stream(device, &stream), PADDLE_SUCCESS);
    CU_ASSERT_PTR_NOT_NULL(stream);
    return stream;
}

static bool is_filled(const unsigned char *bytes, unsigned char value, size_t size_bytes)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

static void devices_are_current_and_counted(void)
{
    paddle_device_t current = {99};
    size_t total_bytes = 0;
    size_t free_before = 0;
    size_t free_bytes = 0;
    size_t size_bytes = 99;
    CU_ASSERT_EQUAL(paddle.table.set_device(&second), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.get_device(&current), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(current.id, 1);
    CU_ASSERT_EQUAL(paddle.table.set_device(&first), PADDLE_SUCCESS);
    paddle_device_t nowhere = {7};
    CU_ASSERT_EQUAL(paddle.table.set_device(&nowhere), PADDLE_ERROR);
    CU_ASSERT_EQUAL(paddle.table.device_memory_stats(&first, &total_bytes, &free_before), PADDLE_SUCCESS);
    void *block = device_alloc(&first, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.device_memory_stats(&first, &total_bytes, &free_bytes), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(free_before - free_bytes, BLOCK_BYTES);
    CU_ASSERT_TRUE(free_before <= total_bytes);
    device_free(&first, block, BLOCK_BYTES);
    CU_ASSERT_EQUAL_FATAL(dao_limit_set(dao_place_of(dao_device_place(0)), 4 * BLOCK_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(paddle.table.device_memory_stats(&first, &total_bytes, &free_bytes), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(total_bytes == 4 * BLOCK_BYTES && free_bytes == 4 * BLOCK_BYTES);
    CU_ASSERT_EQUAL(dao_limit_set(dao_place_of(dao_device_place(0)), 0), DAO_OK);
    CU_ASSERT_EQUAL(paddle.table.device_min_chunk_size(&first, &size_bytes), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(size_bytes, 256);
    CU_ASSERT_EQUAL(paddle.table.device_max_chunk_size(&first, &size_bytes), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(size_bytes, 0);
}

static void what_fails_has_a_status(void)
{
    void *address = &address;
    CU_ASSERT_EQUAL(paddle.table.device_memory_allocate(&first, &address, (size_t)1 << 50), PADDLE_FAILED);
    CU_ASSERT_PTR_EQUAL(address, &address);
    CU_ASSERT_EQUAL(paddle.table.device_memory_deallocate(&first, &address, 8), PADDLE_ERROR);
    unsigned char bytes[16];
    CU_ASSERT_EQUAL(paddle.table.memory_copy_d2h(&first, bytes, &address, 16), PADDLE_ERROR);
    paddle_device_t nowhere = {7};
    paddle_stream_t *stream = NULL;
    CU_ASSERT_EQUAL(paddle.table.create_stream(&nowhere, &stream), PADDLE_ERROR);
    CU_ASSERT_EQUAL(paddle.table.device_memory_allocate(&nowhere, &address, 100), PADDLE_ERROR);
}

/* Copies between every two kinds of memory, done on return. */
static void copies_go_every_way(void)
{
    unsigned char *bytes = malloc(BLOCK_BYTES);
    void *a = device_alloc(&first, BLOCK_BYTES);
    void *b = device_alloc(&first, BLOCK_BYTES);
    void *c = device_alloc(&second, BLOCK_BYTES);
    memset(bytes, 3, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_h2d(&first, a, bytes, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_d2d(&first, b, a, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_p2p(&second, &first, c, b, BLOCK_BYTES), PADDLE_SUCCESS);
    memset(bytes, 0, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_d2h(&second, bytes, c, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(is_filled(bytes, 3, BLOCK_BYTES));
    CU_ASSERT_EQUAL(paddle.table.device_memory_set(&second, c, 9, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_d2h(&second, bytes, c, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(is_filled(bytes, 9, BLOCK_BYTES));
    device_free(&first, a, BLOCK_BYTES);
    device_free(&first, b, BLOCK_BYTES);
    device_free(&second, c, BLOCK_BYTES);
    free(bytes);
}

static atomic_bool gate_is_open;
static atomic_int gate_count;

static void gate(paddle_device_t *device, paddle_stream_t *stream, void *user, paddle_status_t *out_status)
{
    *out_status = device->id == 0 && stream == user ? PADDLE_SUCCESS : PADDLE_ERROR;
    atomic_fetch_add(&gate_count, *out_status == PADDLE_SUCCESS);
    while (!atomic_load(&gate_is_open)) {
        struct timespec pause = {.tv_nsec = 100000};
        (void)nanosleep(&pause, NULL);
    }
}

/* Holds up a stream until the gate is opened. */
static void gate_close(paddle_stream_t *stream)
{
    atomic_store(&gate_is_open, false);
    CU_ASSERT_EQUAL(paddle.table.stream_add_callback(&first, stream, gate, stream), PADDLE_SUCCESS);
}

static void streams_and_events_keep_their_order(void)
{
    paddle_stream_t *a = stream_make(&first);
    paddle_stream_t *b = stream_make(&first);
    paddle_event_t *event = NULL;
    void *pinned = NULL;
    void *block = device_alloc(&first, BLOCK_BYTES);
    void *other = device_alloc(&first, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.host_memory_allocate(&first, &pinned, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.create_event(&first, &event), PADDLE_SUCCESS);
    memset(pinned, 4, BLOCK_BYTES);
    gate_close(a);
    CU_ASSERT_EQUAL(paddle.table.async_memory_copy_h2d(&first, a, block, pinned, BLOCK_BYTES),
                    PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.record_event(&first, a, event), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.stream_wait_event(&first, b, event), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.async_memory_copy_d2d(&first, b, other, block, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.query_event(&first, event), PADDLE_FAILED);
    CU_ASSERT_EQUAL(paddle.table.query_stream(&first, b), PADDLE_FAILED);
    atomic_store(&gate_is_open, true);
    CU_ASSERT_EQUAL(paddle.table.synchronize_event(&first, event), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.query_event(&first, event), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.synchronize_stream(&first, b), PADDLE_SUCCESS);
    unsigned char *bytes = calloc(1, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.async_memory_copy_d2h(&first, b, bytes, other, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(is_filled(bytes, 4, BLOCK_BYTES)); /* not pinned: done on return */
    void *far = device_alloc(&second, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.async_memory_copy_p2p(&second, &first, b, far, other, BLOCK_BYTES),
                    PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.synchronize_stream(&first, b), PADDLE_SUCCESS);
    memset(bytes, 0, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_d2h(&second, bytes, far, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(is_filled(bytes, 4, BLOCK_BYTES));
    CU_ASSERT_EQUAL(atomic_load(&gate_count), 1);
    free(bytes);
    CU_ASSERT_EQUAL(paddle.table.destroy_event(&first, event), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.host_memory_deallocate(&first, pinned, BLOCK_BYTES), PADDLE_SUCCESS);
    device_free(&first, block, BLOCK_BYTES);
    device_free(&first, other, BLOCK_BYTES);
    device_free(&second, far, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.destroy_stream(&first, a), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.destroy_stream(&first, b), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.synchronize_device(&first), PADDLE_SUCCESS);
}

/* Opens the gate in a moment, so that whoever does not wait for it comes too early. */
static void *gate_open_late(void *argument)
{
    struct timespec pause = {.tv_nsec = 20000000};
    (void)nanosleep(&pause, NULL);
    atomic_store(&gate_is_open, true);
    return argument;
}

/* With one stream a free does not wait: the stream's next block may be the same, and no copy at once disturbs
   what is queued. */
static void memory_follows_the_one_stream(void)
{
    paddle_stream_t *stream = stream_make(&first);
    void *pinned = NULL;
    unsigned char *bytes = malloc(BLOCK_BYTES);
    void *block = device_alloc(&first, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.host_memory_allocate(&first, &pinned, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.device_memory_set(&first, block, 5, BLOCK_BYTES), PADDLE_SUCCESS);
    gate_close(stream);
    CU_ASSERT_EQUAL(paddle.table.async_memory_copy_d2h(&first, stream, pinned, block, BLOCK_BYTES),
                    PADDLE_SUCCESS);
    device_free(&first, block, BLOCK_BYTES); /* the gate is closed */
    void *again = device_alloc(&first, BLOCK_BYTES);
    CU_ASSERT_PTR_EQUAL(again, block);
    memset(bytes, 6, BLOCK_BYTES);
    pthread_t opener;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&opener, NULL, gate_open_late, NULL), 0);
    CU_ASSERT_EQUAL(paddle.table.memory_copy_h2d(&first, again, bytes, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(pthread_join(opener, NULL), 0);
    CU_ASSERT_TRUE(is_filled(pinned, 5, BLOCK_BYTES));
    CU_ASSERT_EQUAL(paddle.table.memory_copy_d2h(&first, bytes, again, BLOCK_BYTES), PADDLE_SUCCESS);
    CU_ASSERT_TRUE(is_filled(bytes, 6, BLOCK_BYTES));
    device_free(&first, again, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.destroy_stream(&first, stream), PADDLE_SUCCESS);
    CU_ASSERT_EQUAL(paddle.table.host_memory_deallocate(&first, pinned, BLOCK_BYTES), PADDLE_SUCCESS);
    free(bytes);
}

/* With two, what is freed is not handed out before the work of both is done. */
static void memory_waits_for_several_streams(void)
{
    paddle_stream_t *a = stream_make(&first);
    paddle_stream_t *b = stream_make(&first);
    uint64_t seed = dao_test_seed("paddle", 0x9a);
    unsigned char *bytes = malloc(BLOCK_BYTES);
    for (int round = 0; round < 40; round++) {
        size_t size_bytes = 1 + dao_random_next(&seed) % BLOCK_BYTES;
        paddle_stream_t *stream = dao_random_next(&seed) % 2 == 0 ? a : b;
        unsigned char value = (unsigned char)(round + 1);
        void *pinned = NULL;
        void *block = device_alloc(&first, size_bytes);
        CU_ASSERT_EQUAL(paddle.table.host_memory_allocate(&first, &pinned, size_bytes), PADDLE_SUCCESS);
        memset(pinned, value, size_bytes);
        CU_ASSERT_EQUAL(paddle.table.async_memory_copy_h2d(&first, stream, block, pinned, size_bytes),
                        PADDLE_SUCCESS);
        CU_ASSERT_EQUAL(paddle.table.async_memory_copy_d2h(&first, stream, bytes, block, size_bytes),
                        PADDLE_SUCCESS);
        device_free(&first, block, size_bytes);
        CU_ASSERT_EQUAL(paddle.table.host_memory_deallocate(&first, pinned, size_bytes), PADDLE_SUCCESS);
        CU_ASSERT_TRUE(is_filled(bytes, value, size_bytes));
    }
    free(bytes);
    CU_ASSERT_EQUAL(paddle.table.destroy_stream(&first, b), PADDLE_SUCCESS);
    void *block = device_alloc(&first, BLOCK_BYTES); /* one of two is left: frees go on waiting */
    device_free(&first, block, BLOCK_BYTES);
    CU_ASSERT_EQUAL(paddle.table.destroy_stream(&first, a), PADDLE_SUCCESS);
}

static CU_TestInfo table_tests[] = {
    {"every version of Paddle is filled", every_version_of_paddle_is_filled},
    {"another table is left alone", another_table_is_left_alone},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo device_tests[] = {
    {"devices are current and counted", devices_are_current_and_counted},
    {"what fails has a status", what_fails_has_a_status},
    {"copies go every way", copies_go_every_way},
    {"streams and events keep their order", streams_and_events_keep_their_order},
    {"memory follows the one stream", memory_follows_the_one_stream},
    {"memory waits for several streams", memory_waits_for_several_streams},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"paddle's table", paddle_start, NULL, NULL, NULL, table_tests},
                             {"paddle's device", NULL, NULL, device_begin, device_end, device_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

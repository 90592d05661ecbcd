/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_onnxruntime without an ONNX Runtime: the external functions of its CUDA provider, called as the
   provider does, on a virtual device; and a table of functions that refuses. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "integrations/onnxruntime/dao_onnxruntime.h"
#include "integrations/onnxruntime/ort_abi.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define BLOCK_BYTES ((size_t)3 << 20)

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static dao_stream_t *stream;
static atomic_bool gate_is_open;

static int device_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK || dao_stream_create(0, &stream) != DAO_OK;
}

static int device_stop(void)
{
    dao_stream_destroy(stream);
    return dao_finalize() != DAO_OK;
}

static void gate(void *user)
{
    (void)user;
    while (!atomic_load(&gate_is_open)) {
        struct timespec pause = {.tv_nsec = 100000};
        (void)nanosleep(&pause, NULL);
    }
}

/* Runs before a stream is named: what is freed is not used again before the device's work is done. */
static void a_free_waits_for_the_device(void)
{
    unsigned char *host = dao_alloc(pinned, BLOCK_BYTES);
    void *block = dao_onnxruntime_gpu_alloc(BLOCK_BYTES);
    CU_ASSERT_TRUE_FATAL(host != NULL && block != NULL);
    atomic_store(&gate_is_open, true);
    CU_ASSERT_EQUAL(dao_stream_host_func(stream, gate, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block, 1, BLOCK_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, pinned, host, device, block, BLOCK_BYTES), DAO_OK);
    dao_onnxruntime_gpu_free(block);
    CU_ASSERT_EQUAL(dao_stream_query(stream), DAO_OK);
    CU_ASSERT_TRUE(host[0] == 1 && host[BLOCK_BYTES - 1] == 1);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_free(pinned, host), DAO_OK);
}

/* While the work is queued, its stream gets the block again, and nobody else the same bytes. */
static void with_a_stream_a_free_follows_it(void)
{
    CU_ASSERT_EQUAL(dao_onnxruntime_gpu_stream(0, dao_stream_native(stream)), DAO_OK);
    unsigned char *host = dao_alloc(pinned, BLOCK_BYTES);
    void *block = dao_onnxruntime_gpu_alloc(BLOCK_BYTES);
    CU_ASSERT_TRUE_FATAL(host != NULL && block != NULL);
    atomic_store(&gate_is_open, false);
    CU_ASSERT_EQUAL(dao_stream_host_func(stream, gate, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block, 5, BLOCK_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, pinned, host, device, block, BLOCK_BYTES), DAO_OK);
    dao_onnxruntime_gpu_free(block); /* does not wait: the gate is closed */
    void *other = dao_alloc(device, BLOCK_BYTES);
    CU_ASSERT_TRUE(other != NULL && other != block);
    void *again = dao_onnxruntime_gpu_alloc(BLOCK_BYTES);
    CU_ASSERT_PTR_EQUAL(again, block);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, again, 6, BLOCK_BYTES), DAO_OK);
    atomic_store(&gate_is_open, true);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_TRUE(host[0] == 5 && host[BLOCK_BYTES - 1] == 5);
    dao_onnxruntime_gpu_free(again);
    dao_onnxruntime_gpu_free(NULL);
    CU_ASSERT_EQUAL(dao_free(device, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned, host), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    dao_onnxruntime_gpu_empty_cache();
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.used_bytes, 0);
    CU_ASSERT_TRUE(stats.reserved_bytes < BLOCK_BYTES);
}

static void what_cannot_be_is_refused(void)
{
    CU_ASSERT_PTR_NULL(dao_onnxruntime_gpu_alloc(GIB));
    CU_ASSERT_PTR_NULL(dao_onnxruntime_gpu_alloc(0));
    CU_ASSERT_EQUAL(dao_onnxruntime_gpu_stream(-1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_onnxruntime_gpu_stream(DAO_DEVICE_COUNT_MAX, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_onnxruntime_last_message(), "no device"));
}

/* ---- a table of functions ---- */

static int released_count;

static struct OrtStatus *info_refuse(const char *name, int allocator_type, int id, int memory_type,
                                     struct OrtMemoryInfo **out_info)
{
    (void)allocator_type;
    (void)id;
    (void)memory_type;
    (void)out_info;
    return (struct OrtStatus *)name; /* any address */
}

static const char *message_get(const struct OrtStatus *status)
{
    return (const char *)status;
}

static void status_release(struct OrtStatus *status)
{
    (void)status;
    released_count++;
}

static void what_onnx_runtime_refuses_is_told(void)
{
    static void *table[ORT_UNREGISTER_ALLOCATOR + 1];
    ort_create_memory_info_t create = info_refuse;
    ort_get_error_message_t message = message_get;
    ort_release_status_t release = status_release;
    memcpy(&table[ORT_CREATE_MEMORY_INFO], &create, sizeof(create));
    memcpy(&table[ORT_GET_ERROR_MESSAGE], &message, sizeof(message));
    memcpy(&table[ORT_RELEASE_STATUS], &release, sizeof(release));
    const struct OrtApi *api = (const struct OrtApi *)table;
    CU_ASSERT_PTR_NULL(dao_onnxruntime_allocator(api, pinned));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_onnxruntime_last_message(), "CudaPinned"));
    CU_ASSERT_EQUAL(dao_onnxruntime_register(api, (struct OrtEnv *)table, device), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(released_count, 2);
}

static CU_TestInfo tests[] = {
    {"a free waits for the device", a_free_waits_for_the_device},
    {"with a stream a free follows it", with_a_stream_a_free_follows_it},
    {"what cannot be is refused", what_cannot_be_is_refused},
    {"what ONNX Runtime refuses is told", what_onnx_runtime_refuses_is_told},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"onnxruntime's provider", device_start, device_stop, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

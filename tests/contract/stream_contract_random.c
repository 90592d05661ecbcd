/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in stream order under programs at random: threads allocate on streams, let others read, free and
   allocate for the host, where little room is left. Who writes to another's block is found by the next
   kernel. */
#include "tests/contract/stream_contract_internal.h"

#include <dao/dao.h>

#include "base/numbers/random.h"
#include "base/threads/sync.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/sanitizer.h"

#include <string.h>

#define THREAD_COUNT 3
#define LIVE_COUNT   8

typedef struct live {
    unsigned char *block;
    size_t size_bytes;
    dao_stream_t *stream;
    int value;
} live_t;

typedef struct worker {
    dao_thread_t thread;
    uint64_t seed;
    live_t lives[LIVE_COUNT];
    uint32_t served_count;
    uint32_t failed_count;
} worker_t;

static dao_place_t place; /* of the suite that runs */
static dao_stream_t *const *streams;
static uint32_t used_count; /* of them */

static int round_count(void)
{
    return dao_test_is_again() ? TEST_ROUNDS(60) : TEST_ROUNDS(250);
}

static dao_stream_t *pick_stream(worker_t *worker)
{
    return streams[dao_random_next(&worker->seed) % used_count];
}

/* Lets another stream read a block behind what its own has done so far. */
static dao_status_t read_elsewhere(worker_t *worker, const live_t *live)
{
    dao_stream_t *reader = pick_stream(worker);
    dao_event_t *event = NULL;
    dao_status_t status = dao_event_create(0, &event);
    if (status == DAO_OK) {
        status = dao_event_record(event, live->stream);
    }
    if (status == DAO_OK) {
        status = dao_stream_wait_event(reader, event);
    }
    dao_event_destroy(event);
    if (status == DAO_OK) {
        status = dao_record_stream(place, live->block, reader);
    }
    return status == DAO_OK ? stream_contract_launch(reader, live->block, live->size_bytes, live->value, -1)
                            : status;
}

static bool work_with_new_block(worker_t *worker, live_t *live)
{
    live->size_bytes = (1 + dao_random_next(&worker->seed) % 8) * 64 * KIB;
    live->stream = pick_stream(worker);
    live->value = (int)(dao_random_next(&worker->seed) % 250);
    live->block = dao_alloc_async(place, live->size_bytes, live->stream);
    if (live->block == NULL) {
        return dao_last_status() == DAO_ERR_LIMIT || dao_last_status() == DAO_ERR_NO_DEVICE_MEMORY;
    }
    worker->served_count++;
    return stream_contract_launch(live->stream, live->block, live->size_bytes, -1, live->value) == DAO_OK;
}

static bool end_block(worker_t *worker, live_t *live)
{
    dao_status_t status = DAO_OK;
    if (dao_random_next(&worker->seed) % 3 == 0) {
        status = read_elsewhere(worker, live);
    }
    if (status == DAO_OK) {
        status = stream_contract_launch(live->stream, live->block, live->size_bytes, live->value, -1);
    }
    if (status == DAO_OK) {
        status = dao_free_async(place, live->block, live->stream);
    }
    live->block = NULL;
    return status == DAO_OK;
}

/* The host writes and reads memory of its own: nobody else may do so meanwhile. */
static bool work_on_host(worker_t *worker)
{
    size_t size_bytes = (1 + dao_random_next(&worker->seed) % 4) * 64 * KIB;
    unsigned char *block = dao_alloc(place, size_bytes);
    if (block == NULL) {
        return dao_last_status() == DAO_ERR_LIMIT || dao_last_status() == DAO_ERR_NO_DEVICE_MEMORY;
    }
    device_fill(place, block, 251, size_bytes);
    dao_thread_yield();
    if (!device_holds(place, block, 251, size_bytes)) {
        stream_contract_count_wrong();
    }
    return dao_free(place, block) == DAO_OK;
}

static void *work(void *user)
{
    worker_t *worker = user;
    for (int round = 0; round < round_count(); round++) {
        live_t *live = &worker->lives[dao_random_next(&worker->seed) % LIVE_COUNT];
        bool is_fine = live->block == NULL || end_block(worker, live);
        if (is_fine) {
            is_fine = dao_random_next(&worker->seed) % 8 == 0 ? work_on_host(worker)
                                                              : work_with_new_block(worker, live);
        }
        worker->failed_count += !is_fine;
    }
    for (int i = 0; i < LIVE_COUNT; i++) {
        worker->failed_count += worker->lives[i].block != NULL && !end_block(worker, &worker->lives[i]);
    }
    return NULL;
}

static void work_at_random(uint32_t stream_count)
{
    static worker_t workers[THREAD_COUNT];
    place = stream_contract_place();
    streams = stream_contract_streams(stream_count);
    used_count = stream_count;
    uint64_t seed = dao_test_seed("stream order", 4711);
    uint32_t served_count = 0;
    memset(workers, 0, sizeof(workers));
    CU_ASSERT_EQUAL_FATAL(dao_limit_set(place, 3 * STREAM_CONTRACT_PAGE), DAO_OK);
    for (int i = 0; i < THREAD_COUNT; i++) {
        workers[i].seed = seed + (uint64_t)i;
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&workers[i].thread, "worker", work, &workers[i]), DAO_OK);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&workers[i].thread);
        served_count += workers[i].served_count;
        CU_ASSERT_EQUAL(workers[i].failed_count, 0);
    }
    /* of all: one that stands still may hold what others lack */
    CU_ASSERT_TRUE(served_count > (uint32_t)round_count() / 4);
    CU_ASSERT_EQUAL_FATAL(dao_device_synchronize(0), DAO_OK);
    stream_contract_streams_done(stream_count);
}

static void nobody_writes_to_anothers_block(void)
{
    work_at_random(3);
}

static void nor_where_there_are_200_streams(void)
{
    work_at_random(STREAM_CONTRACT_MANY);
}

CU_TestInfo stream_contract_random_tests[] = {
    {"nobody writes to another's block", nobody_writes_to_anothers_block},
    {"nor where there are 200 streams", nor_where_there_are_200_streams},
    CU_TEST_INFO_NULL,
};

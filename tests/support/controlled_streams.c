/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/controlled_streams.h"

#include <CUnit/CUnit.h>

#include <stdlib.h>

typedef struct told_stream {
    uint64_t queued_count; /* pieces of work */
    uint64_t ended_count;
} told_stream_t;

typedef struct told_event {
    const told_stream_t *stream; /* NULL: not recorded yet */
    uint64_t queued_count;       /* when it was recorded */
} told_event_t;

static told_stream_t all[CONTROLLED_STREAM_COUNT];
static int64_t event_count;

static told_event_t *event_of(dao_backend_event_t *event)
{
    return (told_event_t *)(void *)event;
}

static dao_status_t event_create(dao_backend_device_t *device, bool has_time, dao_backend_event_t **out_event)
{
    (void)device;
    (void)has_time;
    *out_event = (dao_backend_event_t *)calloc(1, sizeof(told_event_t));
    event_count += *out_event != NULL;
    return *out_event != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
}

static void event_destroy(dao_backend_event_t *event)
{
    event_count--;
    free(event);
}

static dao_status_t event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    told_stream_t *told = (told_stream_t *)(void *)stream;
    *event_of(event) = (told_event_t){.stream = told, .queued_count = told->queued_count};
    return DAO_OK;
}

static dao_status_t event_query(dao_backend_event_t *event)
{
    const told_event_t *told = event_of(event);
    return told->stream == NULL || told->stream->ended_count >= told->queued_count ? DAO_OK
                                                                                   : DAO_ERR_NOT_READY;
}

static dao_status_t event_synchronize(dao_backend_event_t *event)
{
    CU_ASSERT_EQUAL(event_query(event), DAO_OK); /* a test never waits for what it has not ended */
    return DAO_OK;
}

static dao_status_t stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    (void)stream;
    (void)event;
    return DAO_OK;
}

static const dao_backend_ops_t ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "told",
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
};

void controlled_streams_begin(controlled_streams_t *streams)
{
    CU_ASSERT_EQUAL_FATAL(dao_stream_fences_create(&ops, NULL, &streams->fences), DAO_OK);
    for (uint32_t i = 0; i < CONTROLLED_STREAM_COUNT; i++) {
        all[i] = (told_stream_t){0};
        dao_backend_stream_t *stream = (dao_backend_stream_t *)(void *)&all[i];
        CU_ASSERT_EQUAL_FATAL(dao_stream_fences_stream_add(streams->fences, stream, &streams->numbers[i]),
                              DAO_OK);
    }
}

void controlled_streams_end(controlled_streams_t *streams)
{
    CU_ASSERT_TRUE(dao_stream_fences_is_valid(streams->fences));
    dao_stream_fences_destroy(streams->fences);
    streams->fences = NULL;
    CU_ASSERT_EQUAL(event_count, 0);
}

dao_stream_fence_t controlled_streams_mark(controlled_streams_t *streams, uint32_t index)
{
    all[index].queued_count++;
    return dao_stream_fences_mark(streams->fences, streams->numbers[index]);
}

void controlled_streams_finish(uint32_t index)
{
    all[index].ended_count = all[index].queued_count;
}

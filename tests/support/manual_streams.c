/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/manual_streams.h"

#include "base/report/error.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_CAPTURED UINT32_MAX /* an event of a capture, which stands for nothing */

typedef struct mark { /* an event */
    uint32_t record;  /* the latest; 0: none */
} mark_t;

manual_stream_t *manual_streams;
uint32_t manual_count;
int64_t manual_event_count;
static int64_t manual_stream_count; /* made by the table */
uint32_t manual_edge_count;
uint64_t manual_call_count;
uint64_t manual_calls_left = UINT64_MAX;
dao_status_t manual_failure = DAO_ERR_BACKEND;

static bool records_done[RECORD_COUNT_MAX];
static uint32_t record_count;

void manual_begin(void)
{
    manual_streams = calloc(MANUAL_COUNT_MAX, sizeof(*manual_streams));
    CU_ASSERT_PTR_NOT_NULL_FATAL(manual_streams);
    manual_count = 0;
    record_count = 0;
    memset(records_done, 0, sizeof(records_done));
    records_done[0] = true;
    manual_edge_count = 0;
    manual_call_count = 0;
    manual_calls_left = UINT64_MAX;
    manual_failure = DAO_ERR_BACKEND;
}

void manual_end(void)
{
    CU_ASSERT_EQUAL(manual_event_count, 0);
    CU_ASSERT_EQUAL(manual_stream_count, 0);
    for (uint32_t i = 0; i < manual_count; i++) {
        for (uint32_t j = manual_streams[i].next; j < manual_streams[i].count; j++) {
            free(manual_streams[i].commands[j].demands);
        }
    }
    free(manual_streams);
}

manual_stream_t *manual_new(void)
{
    CU_ASSERT_TRUE_FATAL(manual_count < MANUAL_COUNT_MAX);
    return &manual_streams[manual_count++];
}

static dao_status_t count_call(void)
{
    manual_call_count++;
    return manual_calls_left-- == 0 ? dao_error(manual_failure, "failed on purpose") : DAO_OK;
}

bool manual_meet(const clock_vector_t *demands)
{
    for (uint32_t i = 0; i < manual_count; i++) {
        if (manual_streams[i].next < demands->until[i]) {
            return false;
        }
    }
    return true;
}

bool manual_step(manual_stream_t *stream)
{
    if (stream->is_hung || stream->next == stream->count) {
        return false;
    }
    command_t *command = &stream->commands[stream->next];
    if (command->kind == COMMAND_WAIT && !records_done[command->record]) {
        return false;
    }
    if (command->kind == COMMAND_RECORD) {
        records_done[command->record] = true;
    }
    if (command->kind == COMMAND_CHECK) {
        CU_ASSERT_TRUE(manual_meet(command->demands));
        free(command->demands);
    }
    stream->next++;
    return true;
}

bool manual_step_all(void)
{
    bool has_moved = false;
    for (uint32_t i = 0; i < manual_count; i++) {
        has_moved = manual_step(&manual_streams[i]) || has_moved;
    }
    return has_moved;
}

void manual_run_to_the_end(void)
{
    while (manual_step_all()) {
    }
}

void manual_queue(manual_stream_t *stream, command_t command)
{
    CU_ASSERT_TRUE_FATAL(stream->count < COMMAND_COUNT_MAX);
    stream->commands[stream->count++] = command;
}

static manual_stream_t *manual_of(dao_backend_stream_t *stream)
{
    return (manual_stream_t *)(void *)stream;
}

static mark_t *mark_of(dao_backend_event_t *event)
{
    return (mark_t *)(void *)event;
}

static dao_status_t fake_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    (void)device;
    dao_status_t status = count_call();
    if (status == DAO_OK) {
        *out_stream = (dao_backend_stream_t *)(void *)manual_new();
        manual_stream_count++;
    }
    return status;
}

static void fake_stream_destroy(dao_backend_stream_t *stream)
{
    (void)stream;
    manual_stream_count--;
}

static dao_status_t fake_event_create(dao_backend_device_t *device, bool has_time,
                                      dao_backend_event_t **out_event)
{
    (void)device;
    dao_status_t status = has_time ? DAO_ERR_INVALID : count_call(); /* nobody asks for it here */
    if (status == DAO_OK) {
        *out_event = (dao_backend_event_t *)calloc(1, sizeof(mark_t));
        manual_event_count++;
    }
    return status;
}

static void fake_event_destroy(dao_backend_event_t *event)
{
    manual_event_count--;
    free(event);
}

static dao_status_t fake_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status = count_call();
    CU_ASSERT_FALSE(manual_of(stream)->is_gone);
    if (status == DAO_OK) {
        CU_ASSERT_TRUE_FATAL(record_count + 1 < RECORD_COUNT_MAX);
    }
    if (status == DAO_OK && manual_of(stream)->capture != 0) {
        mark_of(event)->record = RECORD_CAPTURED;
    } else if (status == DAO_OK) {
        mark_of(event)->record = ++record_count;
        manual_queue(manual_of(stream), (command_t){.kind = COMMAND_RECORD, .record = record_count});
    }
    return status;
}

/* Lets the device run until an event is reached. */
static void reach(const dao_backend_event_t *event)
{
    uint32_t record = ((const mark_t *)(const void *)event)->record;
    CU_ASSERT_NOT_EQUAL_FATAL(record, RECORD_CAPTURED);
    bool has_moved = true;
    while (!records_done[record] && has_moved) {
        has_moved = manual_step_all();
    }
    CU_ASSERT_TRUE(records_done[record]);
}

/* An event that answers an error has been reached, or the device is lost and does nothing any more: here it
   is reached. */
static dao_status_t fake_event_query(dao_backend_event_t *event)
{
    dao_status_t status = count_call();
    CU_ASSERT_NOT_EQUAL_FATAL(mark_of(event)->record, RECORD_CAPTURED);
    if (status != DAO_OK && status != DAO_ERR_REENTRANT) {
        reach(event);
    }
    return status != DAO_OK ? status : records_done[mark_of(event)->record] ? DAO_OK : DAO_ERR_NOT_READY;
}

static dao_status_t fake_event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status = count_call();
    if (status == DAO_OK) {
        reach(event);
    }
    return status;
}

static dao_status_t fake_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status = count_call();
    bool is_edge = mark_of(event)->record == RECORD_CAPTURED;
    CU_ASSERT_EQUAL(is_edge, manual_of(stream)->capture != 0);
    if (status == DAO_OK && is_edge) {
        manual_edge_count++;
    } else if (status == DAO_OK) {
        manual_queue(manual_of(stream), (command_t){.kind = COMMAND_WAIT, .record = mark_of(event)->record});
    }
    return status;
}

static dao_status_t fake_device_synchronize(dao_backend_device_t *device)
{
    (void)device;
    DAO_ASSERT_UNLOCKED();
    if (manual_failure != DAO_ERR_REENTRANT) {
        manual_run_to_the_end();
    }
    return manual_failure == DAO_ERR_REENTRANT ? DAO_ERR_REENTRANT : DAO_OK;
}

static dao_status_t fake_stream_capture(dao_backend_stream_t *stream, uint64_t *out_capture)
{
    *out_capture = manual_of(stream)->capture;
    return DAO_OK;
}

static bool fake_stream_is_gone(dao_backend_stream_t *stream)
{
    return manual_of(stream)->is_gone;
}

const dao_backend_ops_t manual_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "fake",
    .device_synchronize = fake_device_synchronize,
    .stream_create = fake_stream_create,
    .stream_destroy = fake_stream_destroy,
    .stream_wait_event = fake_stream_wait_event,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_query = fake_event_query,
    .event_synchronize = fake_event_synchronize,
    .stream_capture = fake_stream_capture,
    .stream_is_gone = fake_stream_is_gone,
};

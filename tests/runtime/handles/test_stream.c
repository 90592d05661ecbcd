/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: order, waiting, time, misuse. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stream.h>

#include "backends/backend.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned_0 = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t device_1 = {DAO_PLACE_KIND_DEVICE, 1};

static int runtime_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK;
}

static int runtime_stop(void)
{
    return dao_finalize() != DAO_OK;
}

static void every_device_has_streams_of_its_own(void)
{
    for (int32_t device = 0; device < 2; device++) {
        for (int role = 0; role < DAO_STREAM_ROLE_COUNT; role++) {
            dao_stream_t *stream = NULL;
            dao_stream_t *again = NULL;
            CU_ASSERT_EQUAL_FATAL(dao_stream_get(device, (dao_stream_role_t)role, &stream), DAO_OK);
            CU_ASSERT_EQUAL(dao_stream_get(device, (dao_stream_role_t)role, &again), DAO_OK);
            CU_ASSERT_PTR_EQUAL(stream, again);
            CU_ASSERT_EQUAL(dao_stream_device(stream), device);
            CU_ASSERT_PTR_NOT_NULL(dao_stream_native(stream));
            CU_ASSERT_EQUAL(dao_stream_destroy(stream), DAO_ERR_INVALID);
            CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
        }
    }
}

static void work_runs_in_order(void)
{
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    unsigned char *block = dao_alloc(device_0, 1000);
    unsigned char *pinned = dao_alloc(pinned_0, 1000);
    memset(pinned, 1, 1000);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, block, pinned_0, pinned, 1000), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block + 500, 2, 250), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, block, device_0, block + 500, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, pinned_0, pinned, device_0, block, 1000), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(pinned[0], 2);
    CU_ASSERT_EQUAL(pinned[100], 1);
    CU_ASSERT_EQUAL(pinned[500], 2);
    CU_ASSERT_EQUAL(pinned[749], 2);
    CU_ASSERT_EQUAL(pinned[750], 1);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL(dao_free(device_0, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned_0, pinned), DAO_OK);
}

static void an_event_orders_streams_of_two_devices(void)
{
    dao_stream_t *first = NULL;
    dao_stream_t *second = NULL;
    dao_event_t *event = NULL;
    dao_gate_t gate;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &first), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(1, &second), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &event), DAO_OK);
    unsigned char *block = dao_alloc(device_1, 100);
    unsigned char *pinned = dao_alloc(pinned_0, 100);
    memset(pinned, 1, 100);
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(dao_event_query(event), DAO_OK); /* never recorded */
    CU_ASSERT_EQUAL(dao_stream_wait_event(second, event), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(second), DAO_OK);
    CU_ASSERT_EQUAL(device_gate(first, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(first, pinned_0, pinned + 50, pinned_0, pinned, 50), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_record(event, first), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_wait_event(second, event), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(second, device_1, block, pinned_0, pinned, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_query(event), DAO_ERR_NOT_READY);
    memset(pinned, 7, 50);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_event_synchronize(event), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(second), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(host, pinned, device_1, block, 100), DAO_OK);
    CU_ASSERT_EQUAL(pinned[99], 7);
    dao_event_destroy(event);
    dao_stream_destroy(first);
    dao_stream_destroy(second);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(dao_free(device_1, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned_0, pinned), DAO_OK);
}

static void time_between_events_is_measured(void)
{
    dao_stream_t *stream = NULL;
    dao_event_t *events[3] = {NULL};
    int64_t elapsed = INT64_MIN;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &events[0]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &events[1]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(1, &events[2]), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_elapsed(events[0], events[1], &elapsed), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(dao_event_record(events[0], stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_record(events[1], stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_record(events[2], stream), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(elapsed, INT64_MIN);
    CU_ASSERT_EQUAL(dao_event_elapsed(events[0], events[1], &elapsed), DAO_OK);
    CU_ASSERT_TRUE(elapsed >= 0);
    CU_ASSERT_EQUAL(dao_event_elapsed(events[1], events[0], &elapsed), DAO_OK);
    CU_ASSERT_TRUE(elapsed <= 0);
    CU_ASSERT_EQUAL(dao_event_elapsed(events[0], events[2], &elapsed), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_event_elapsed(events[0], events[1], NULL), DAO_ERR_INVALID);
    for (int i = 0; i < 3; i++) {
        dao_event_destroy(events[i]);
    }
    dao_stream_destroy(stream);
}

/* Memory follows an adopted stream as it follows the stream itself; the stream outlives what adopted it. */
static void an_adopted_stream_orders_memory(void)
{
    dao_stream_t *made = NULL;
    dao_stream_t *adopted = NULL;
    dao_stream_t *again = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &made), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, dao_stream_native(made), &adopted), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_stream_native(adopted), dao_stream_native(made));
    void *block = dao_alloc_async(device_0, 1 * MIB, adopted);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_stream_fill(made, block, 7, 1 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device_0, block, adopted), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc_async(device_0, 1 * MIB, adopted), block); /* in its own order */
    CU_ASSERT_EQUAL(dao_free_async(device_0, block, adopted), DAO_OK);
    dao_stream_destroy(adopted);
    CU_ASSERT_EQUAL(dao_stream_synchronize(made), DAO_OK);
    dao_stream_t *compute = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &compute), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, NULL, &again), DAO_OK);
    if (dao_backend_ops()->has_default_stream) {
        CU_ASSERT_PTR_NULL(dao_stream_native(again));
        CU_ASSERT_EQUAL(dao_stream_synchronize(again), DAO_OK);
    } else {
        CU_ASSERT_PTR_EQUAL(dao_stream_native(again), dao_stream_native(compute));
        CU_ASSERT_EQUAL(dao_stream_adopt(1, dao_stream_native(made), &again),
                        DAO_ERR_INVALID); /* of device 0 */
    }
    dao_stream_destroy(again);
    CU_ASSERT_EQUAL(dao_stream_adopt(7, NULL, &again), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_stream_adopt(0, NULL, NULL), DAO_ERR_INVALID);
    dao_stream_destroy(made);
}

/* Whoever adopts a stream owns it once more; the last one's destroy ends it. */
static void a_stream_that_is_adopted_again_is_the_same_object(void)
{
    dao_stream_t *made = NULL, *first = NULL, *again = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &made), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, dao_stream_native(made), &first), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, dao_stream_native(made), &again), DAO_OK);
    CU_ASSERT_PTR_EQUAL(again, first);
    dao_stream_destroy(first);
    void *block = dao_alloc_async(device_0, 1 * MIB, again);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free_async(device_0, block, again), DAO_OK);
    dao_stream_destroy(again);
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, dao_stream_native(made), &first), DAO_OK); /* anew */
    CU_ASSERT_EQUAL(dao_stream_synchronize(first), DAO_OK);
    dao_stream_destroy(first);
    dao_stream_destroy(made);
}

enum { PIECE_COUNT = 9, PIECE_BYTES = 100 };

/* Queues the pieces of 100 bytes in one batch, in turned order of places. */
static dao_status_t copy_pieces(dao_stream_t *stream, dao_place_t dst_place, unsigned char *dst,
                                dao_place_t src_place, const unsigned char *src)
{
    void *dsts[PIECE_COUNT];
    const void *srcs[PIECE_COUNT];
    size_t sizes[PIECE_COUNT];
    for (int i = 0; i < PIECE_COUNT; i++) {
        dsts[i] = dst + (size_t)(PIECE_COUNT - 1 - i) * PIECE_BYTES;
        srcs[i] = src + (size_t)i * PIECE_BYTES;
        sizes[i] = PIECE_BYTES;
    }
    dao_copy_batch_t batch = {PIECE_COUNT, dsts, srcs, sizes};
    return dao_stream_copy_batch(stream, dst_place, src_place, &batch);
}

/* Every direction once: five turns of an odd number of pieces. */
static void carry_batches(dao_stream_t *stream)
{
    enum { SIZE = PIECE_COUNT * PIECE_BYTES };
    unsigned char from[SIZE], to[SIZE];
    unsigned char *pinned = dao_alloc(pinned_0, SIZE), *block = dao_alloc(device_0, SIZE);
    unsigned char *other = dao_alloc(device_0, SIZE), *far = dao_alloc(device_1, SIZE);
    for (int i = 0; i < SIZE; i++) {
        from[i] = (unsigned char)(i / PIECE_BYTES * 10 + i % 7);
    }
    CU_ASSERT_EQUAL(copy_pieces(stream, pinned_0, pinned, host, from), DAO_OK);
    CU_ASSERT_EQUAL(copy_pieces(stream, device_0, block, pinned_0, pinned), DAO_OK);
    CU_ASSERT_EQUAL(copy_pieces(stream, device_0, other, device_0, block), DAO_OK);
    CU_ASSERT_EQUAL(copy_pieces(stream, device_1, far, device_0, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, other, 0, SIZE), DAO_OK);
    CU_ASSERT_EQUAL(copy_pieces(stream, device_0, other, device_1, far), DAO_OK);
    CU_ASSERT_EQUAL(copy_pieces(stream, host, to, device_0, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(from, to, SIZE), 0);
    CU_ASSERT_EQUAL(dao_free(device_1, far), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device_0, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device_0, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned_0, pinned), DAO_OK);
}

static void batches_of_copies_arrive(void)
{
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    carry_batches(stream);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, NULL, &stream), DAO_OK); /* vendors refuse batches on it */
    carry_batches(stream);
    dao_stream_destroy(stream);
}

/* A stream would come to these when the call has long returned. */
static void copies_of_impossible_ranges_are_refused(void)
{
    dao_stream_t *stream = NULL;
    unsigned char bytes[20] = {0};
    void *dst = bytes;
    const void *src = bytes + 10;
    size_t size = SIZE_MAX - 100;
    dao_copy_batch_t batch = {1, &dst, &src, &size};
    unsigned char *block = dao_alloc(device_0, 1000);
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, block, host, bytes, SIZE_MAX), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "address space"));
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, &batch), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block, 0, SIZE_MAX), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, block, device_0, block + 99, 100), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "overlap"));
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, block, device_0, block + 100, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device_0, block), DAO_OK);
}

static void batches_that_cannot_be_made_are_refused(void)
{
    dao_stream_t *stream = NULL;
    unsigned char bytes[20] = {1};
    void *dsts[2] = {bytes, bytes + 2};
    const void *srcs[2] = {bytes + 10, bytes + 12};
    size_t sizes[2] = {1, 1};
    dao_copy_batch_t batch = {2, dsts, srcs, sizes};
    CU_ASSERT_EQUAL(dao_stream_copy_batch(NULL, host, host, &batch), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, device_1, host, &batch), DAO_ERR_INVALID);
    sizes[1] = 0;
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, &batch), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "copy 1 is of 0 bytes"));
    sizes[1] = 1;
    srcs[0] = NULL;
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, &batch), DAO_ERR_INVALID);
    srcs[0] = bytes + 10;
    dsts[0] = NULL;
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, &batch), DAO_ERR_INVALID);
    dsts[0] = bytes;
    const dao_copy_batch_t incomplete[] = {
        {2, dsts, srcs, NULL}, {2, dsts, NULL, sizes}, {2, NULL, srcs, sizes}};
    for (size_t i = 0; i < sizeof(incomplete) / sizeof(incomplete[0]); i++) {
        CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, &incomplete[i]), DAO_ERR_INVALID);
    }
    batch.count = 0;
    CU_ASSERT_EQUAL(dao_stream_copy_batch(stream, host, host, &batch), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(bytes[0], 1);
}

static void misuse_is_named(void)
{
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    char bytes[10] = {0};
    CU_ASSERT_EQUAL(dao_stream_create(0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_create(2, &stream), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_event_create(-1, &event), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_event_create(0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_get(0, DAO_STREAM_ROLE_COUNT, &stream), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_get(0, DAO_STREAM_ROLE_H2D, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_synchronize(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_event_synchronize(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_event_query(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_destroy(NULL), DAO_OK);
    dao_event_destroy(NULL);
    CU_ASSERT_PTR_NULL(dao_stream_native(NULL));
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_record(NULL, stream), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_wait_event(stream, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_host_func(stream, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, NULL, 0, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, NULL, 0, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, NULL, host, bytes, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_0, NULL, host, NULL, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_1, bytes, host, bytes, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, device_1, bytes, device_1, bytes, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, dao_place_of(dao_device_place(6)), bytes, host, bytes, 1),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, host, bytes, host, NULL, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_get(0, (dao_stream_role_t)-1, &stream), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stream_device(NULL), -1);
    CU_ASSERT_PTR_NULL(event);
}

/* A child process may not use the parent's streams and events; destroying them there does nothing. */
static void a_forked_child_is_refused(void)
{
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &event), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        bool is_right =
            dao_stream_synchronize(stream) == DAO_ERR_FORKED && dao_stream_query(stream) == DAO_ERR_FORKED &&
            dao_event_record(event, stream) == DAO_ERR_FORKED && dao_event_query(event) == DAO_ERR_FORKED &&
            dao_event_synchronize(event) == DAO_ERR_FORKED &&
            dao_stream_wait_event(stream, event) == DAO_ERR_FORKED;
        dao_event_destroy(event);
        dao_stream_destroy(stream);
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(dao_event_record(event, stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_synchronize(event), DAO_OK);
    dao_event_destroy(event);
    dao_stream_destroy(stream);
}

static void nothing(void *user)
{
    (void)user;
}

static _Atomic bool is_over;

static void *make_and_destroy_streams(void *user)
{
    (void)user;
    for (int i = 0; i < 200; i++) {
        dao_stream_t *stream = NULL;
        CU_ASSERT_EQUAL(dao_stream_create(0, &stream), DAO_OK);
        CU_ASSERT_EQUAL(dao_stream_host_func(stream, nothing, NULL), DAO_OK);
        dao_stream_destroy(stream);
    }
    atomic_store(&is_over, true);
    return NULL;
}

static void a_device_is_waited_for_while_its_streams_come_and_go(void)
{
    dao_thread_t thread;
    atomic_store(&is_over, false);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "streams", make_and_destroy_streams, NULL), DAO_OK);
    while (!atomic_load(&is_over)) {
        CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    }
    dao_thread_join(&thread);
}

#if defined(DAO_FAULTS)
static void streams_survive_any_missing_resource(void)
{
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    for (uint64_t n = 0; event == NULL && n < 1000; n++) {
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = stream == NULL ? dao_stream_create(0, &stream) : DAO_OK;
        status = status == DAO_OK ? dao_event_create(0, &event) : status;
        uint64_t fired_count = dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || fired_count > 0);
        CU_ASSERT_EQUAL(status == DAO_OK, event != NULL);
        if (event == NULL) {
            dao_stream_destroy(stream);
            stream = NULL;
        }
    }
    CU_ASSERT_PTR_NOT_NULL(event);
    dao_stream_destroy(stream);
    dao_event_destroy(event);
}
#endif

static CU_TestInfo tests[] = {
    {"every device has streams of its own", every_device_has_streams_of_its_own},
    {"work runs in order", work_runs_in_order},
    {"an event orders streams of two devices", an_event_orders_streams_of_two_devices},
    {"time between events is measured", time_between_events_is_measured},
    {"an adopted stream orders memory", an_adopted_stream_orders_memory},
    {"a stream that is adopted again is the same object", a_stream_that_is_adopted_again_is_the_same_object},
    {"batches of copies arrive", batches_of_copies_arrive},
    {"copies of impossible ranges are refused", copies_of_impossible_ranges_are_refused},
    {"batches that cannot be made are refused", batches_that_cannot_be_made_are_refused},
    {"misuse is named", misuse_is_named},
    {"a forked child is refused", a_forked_child_is_refused},
    {"a device is waited for while its streams come and go",
     a_device_is_waited_for_while_its_streams_come_and_go},
#if defined(DAO_FAULTS)
    {"streams survive any missing resource", streams_survive_any_missing_resource},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"stream", runtime_start, runtime_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

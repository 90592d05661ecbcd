/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, memory in stream order, peers, registered host memory. */
#include "tests/misuse/misuse.h"

static dao_stream_t *stream_on(int32_t device_index)
{
    dao_stream_t *stream = NULL;
    NEED(dao_stream_create(device_index, &stream) == DAO_OK);
    return stream;
}

static void stream_on_no_device(void)
{
    dao_stream_t *stream = NULL;
    misuse_begin();
    REFUSED(dao_stream_create(9, &stream), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_stream_create(-1, &stream), DAO_ERR_NO_DEVICE, "-1");
    REFUSED(dao_stream_create(0, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_stream_get(0, (dao_stream_role_t)7, &stream), DAO_ERR_INVALID, "role 7");
    NEED(stream == NULL);
}

static void stream_adopted_from_nowhere(void)
{
    int here = 0;
    dao_stream_t *stream = NULL;
    misuse_begin();
    REFUSED(dao_stream_adopt(0, &here, &stream), DAO_ERR_INVALID, "no stream of");
    REFUSED(dao_stream_adopt(9, NULL, &stream), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_free_native(9, &here, NULL), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_free_native(0, &here, &here), DAO_ERR_INVALID, "no stream of");
    REFUSED(dao_record_native(0, &here, NULL), DAO_ERR_FOREIGN_POINTER, "");
    REFUSED(dao_stream_query(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_stream_adopt(0, NULL, NULL), DAO_ERR_INVALID, "NULL");
    NEED(stream == NULL);
}

static void stream_of_the_device_destroyed(void)
{
    dao_stream_t *stream;
    misuse_begin();
    NEED(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &stream) == DAO_OK);
    REFUSED_VOID(dao_stream_destroy(stream), DAO_ERR_INVALID, "nothing was done");
    NEED(dao_stream_synchronize(stream) == DAO_OK);
}

static void stream_null(void)
{
    dao_event_t *event;
    misuse_begin();
    NEED(dao_event_create(0, &event) == DAO_OK);
    REFUSED(dao_stream_synchronize(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_stream_fill(NULL, &event, 0, 1), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_event_record(event, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_stream_wait_event(NULL, event), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_event_query(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_event_synchronize(NULL), DAO_ERR_INVALID, "NULL");
    dao_event_destroy(event);
}

static void stream_copies_elsewhere(void)
{
    misuse_begin();
    dao_stream_t *stream = stream_on(0);
    char *block = dao_alloc(misuse_other, 100), bytes[100];
    REFUSED(dao_stream_copy(stream, misuse_other, block, misuse_host, bytes, 100), DAO_ERR_INVALID,
            "device:1");
    REFUSED(dao_stream_copy(stream, misuse_device, NULL, misuse_host, bytes, 100), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_stream_host_func(stream, NULL, NULL), DAO_ERR_INVALID, "NULL");
    NEED(dao_free(misuse_other, block) == DAO_OK);
    dao_stream_destroy(stream);
}

static void batch_of_nothing(void)
{
    char bytes[4] = {0};
    void *dsts[2] = {bytes, NULL};
    const void *srcs[2] = {bytes + 2, bytes + 3};
    size_t sizes[2] = {1, 1};
    dao_copy_batch_t batch = {2, dsts, srcs, sizes};
    misuse_begin();
    dao_stream_t *stream = stream_on(0);
    REFUSED(dao_stream_copy_batch(stream, misuse_host, misuse_host, &batch), DAO_ERR_INVALID, "copy 1");
    dsts[1] = bytes + 1;
    sizes[0] = 0;
    REFUSED(dao_stream_copy_batch(stream, misuse_host, misuse_host, &batch), DAO_ERR_INVALID, "copy 0");
    batch.sizes_bytes = NULL;
    REFUSED(dao_stream_copy_batch(stream, misuse_host, misuse_host, &batch), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_stream_copy_batch(stream, misuse_host, misuse_host, NULL), DAO_ERR_INVALID, "NULL");
    dao_stream_destroy(stream);
}

static void event_of_another_device(void)
{
    dao_event_t *event;
    misuse_begin();
    dao_stream_t *stream = stream_on(0);
    NEED(dao_event_create(1, &event) == DAO_OK);
    REFUSED(dao_event_record(event, stream), DAO_ERR_INVALID, "device:1");
    dao_event_destroy(event);
    dao_stream_destroy(stream);
}

static void event_of_a_start_that_ended(void)
{
    dao_event_t *event = NULL;
    dao_stream_t *stream = NULL;
    NEED(dao_event_create(0, &event) == DAO_OK && dao_finalize() == DAO_ERR_BUSY);
    NEED(dao_init(NULL) == DAO_OK && dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &stream) == DAO_OK);
    REFUSED(dao_event_record(event, stream), DAO_ERR_INVALID, "different starts of the library");
    REFUSED(dao_stream_wait_event(stream, event), DAO_ERR_INVALID, "different starts of the library");
    dao_event_destroy(event);
}

static void event_times_without_records(void)
{
    dao_event_t *events[2];
    int64_t elapsed_ns = 77;
    misuse_begin();
    NEED(dao_event_create(0, &events[0]) == DAO_OK && dao_event_create(1, &events[1]) == DAO_OK);
    REFUSED(dao_event_elapsed(events[0], events[1], &elapsed_ns), DAO_ERR_INVALID, "device");
    REFUSED(dao_event_elapsed(events[0], events[0], &elapsed_ns), DAO_ERR_NOT_READY, "");
    REFUSED(dao_event_elapsed(events[0], events[0], NULL), DAO_ERR_INVALID, "NULL");
    NEED(elapsed_ns == 77);
    dao_event_destroy(events[0]);
    dao_event_destroy(events[1]);
}

static void wrong_stream_for_memory(void)
{
    misuse_begin();
    dao_stream_t *stream = stream_on(1);
    void *block = dao_alloc(misuse_device, 3 * MIB);
    REFUSED_NULL(dao_alloc_async(misuse_device, 100, stream), DAO_ERR_INVALID, "device:1");
    REFUSED(dao_free_async(misuse_device, block, stream), DAO_ERR_INVALID, "device:1");
    REFUSED(dao_record_stream(misuse_device, block, stream), DAO_ERR_INVALID, "device:1");
    REFUSED(dao_record_stream(misuse_device, block, NULL), DAO_ERR_UNSUPPORTED, "dao_alloc_async()");
    NEED(dao_free(misuse_device, block) == DAO_OK);
    dao_stream_destroy(stream);
}

static void stream_order_on_the_host(void)
{
    misuse_begin();
    void *block = dao_alloc(misuse_host, 100);
    REFUSED_NULL(dao_alloc_async(misuse_host, 100, NULL), DAO_ERR_UNSUPPORTED, "dao_alloc()");
    REFUSED(dao_free_async(misuse_host, block, NULL), DAO_ERR_UNSUPPORTED, "dao_free()");
    NEED(dao_free(misuse_host, block) == DAO_OK);
}

static void double_free_in_stream_order(void)
{
    misuse_begin();
    void *block = dao_alloc_async(misuse_device, 3 * MIB, NULL);
    NEED(block != NULL && dao_free_async(misuse_device, block, NULL) == DAO_OK);
    REFUSED(dao_free_async(misuse_device, block, NULL), DAO_ERR_DOUBLE_FREE, "");
    REFUSED(dao_free(misuse_device, block), DAO_ERR_DOUBLE_FREE, "");
}

static void record_of_what_is_none(void)
{
    int here = 0;
    misuse_begin();
    REFUSED(dao_record_stream(misuse_device, &here, NULL), DAO_ERR_FOREIGN_POINTER, "no live block is there");
    char *block = dao_alloc(misuse_device, 3 * MIB);
    REFUSED(dao_record_stream(misuse_device, block + 256, NULL), DAO_ERR_INTERIOR_POINTER, "inside a block");
    NEED(dao_free(misuse_device, block) == DAO_OK);
}

static void peer_that_is_none(void)
{
    misuse_begin();
    REFUSED(dao_peer_enable(0, 9), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_peer_query(0, 1, NULL), DAO_ERR_INVALID, "NULL");
}

static void registered_wrongly(void)
{
    static char bytes[8192];
    void *address = NULL;
    misuse_begin();
    REFUSED(dao_host_register(0, NULL, 100), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_host_register(0, bytes, 0), DAO_ERR_INVALID, "");
    REFUSED(dao_host_register(9, bytes, 100), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_host_unregister(bytes), DAO_ERR_FOREIGN_POINTER, "");
    NEED(dao_host_register(0, bytes, sizeof(bytes)) == DAO_OK);
    REFUSED(dao_host_register(0, bytes + 100, 100), DAO_ERR_BUSY, "");
    REFUSED(dao_host_unregister(bytes + 1), DAO_ERR_INTERIOR_POINTER, "");
    NEED(dao_host_unregister(bytes) == DAO_OK);
    REFUSED(dao_host_device_address_query(0, bytes, &address), DAO_ERR_FOREIGN_POINTER, "");
    NEED(address == NULL);
}

static void stream_forgotten(void)
{
    misuse_begin();
    (void)stream_on(0);
}

const misuse_case_t misuse_stream_cases[] = {
    {.name = "stream_on_no_device", .run = stream_on_no_device},
    {.name = "stream_adopted_from_nowhere", .run = stream_adopted_from_nowhere},
    {.name = "stream_of_the_device_destroyed", .run = stream_of_the_device_destroyed},
    {.name = "stream_null", .run = stream_null},
    {.name = "stream_copies_elsewhere", .run = stream_copies_elsewhere},
    {.name = "batch_of_nothing", .run = batch_of_nothing},
    {.name = "event_of_another_device", .run = event_of_another_device},
    {.name = "event_of_a_start_that_ended", .run = event_of_a_start_that_ended},
    {.name = "event_times_without_records", .run = event_times_without_records},
    {.name = "wrong_stream_for_memory", .run = wrong_stream_for_memory},
    {.name = "stream_order_on_the_host", .run = stream_order_on_the_host},
    {.name = "double_free_in_stream_order", .run = double_free_in_stream_order},
    {.name = "record_of_what_is_none", .run = record_of_what_is_none},
    {.name = "peer_that_is_none", .run = peer_that_is_none},
    {.name = "registered_wrongly", .run = registered_wrongly},
    {.name = "stream_forgotten", .run = stream_forgotten, .end = DAO_ERR_BUSY, .says = "stream at device:0"},
    {.name = NULL},
};

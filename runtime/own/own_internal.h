/* SPDX-License-Identifier: Apache-2.0 */
/* What own_device.c and own_stream.c share. */
#ifndef DAO_RUNTIME_OWN_INTERNAL_H
#define DAO_RUNTIME_OWN_INTERNAL_H

#include "allocators/slow_path.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/own/own_device.h"

#include <stdatomic.h>

struct dao_backend_device {
    dao_own_memory_t table; /* its name is the field below */
    char name[DAO_OWN_MEMORY_NAME_BYTES];
    const dao_backend_ops_t *lender_ops; /* NULL: pinned memory is the host's */
    dao_backend_device_t *lender;
    _Atomic uint64_t held_bytes; /* obtained, and of pages */
    dao_mutex_t lock;            /* rank backend; guards what follows */
    dao_backend_stream_t *adopted;
    dao_cond_t walked; /* a thread is done with a stream: see dao_own_stream_destroy() */
};

/* Enters and leaves a function of the program's table: calls of the library from inside are refused, for
   which they must not take the fast path. */
static inline bool own_enter(void)
{
    bool was_inside = dao_thread_is_in_callback;
    dao_slow_path_begin();
    dao_thread_is_in_callback = true;
    return was_inside;
}

static inline void own_exit(bool was_inside)
{
    dao_thread_is_in_callback = was_inside;
    dao_slow_path_end();
}

static inline dao_status_t own_leave(const dao_backend_device_t *device, bool was_inside, dao_status_t status,
                                     const char *function)
{
    own_exit(was_inside);
    return status == DAO_OK ? DAO_OK
                            : dao_error(status, "%s of the memory \"%s\" answered %s", function, device->name,
                                        dao_status_name(status));
}

/* Calls a function of the table. */
#define OWN_CALL(status, device, function, ...)                                                              \
    do {                                                                                                     \
        bool was_inside = own_enter();                                                                       \
        dao_status_t answer = (device)->table.function((device)->table.user, __VA_ARGS__);                   \
        (status) = own_leave((device), was_inside, answer, #function);                                       \
    } while (0)

/* ---- own_stream.c ---- */

dao_status_t dao_own_synchronize(dao_backend_device_t *device);
dao_status_t dao_own_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream);
dao_status_t dao_own_stream_adopt(dao_backend_device_t *device, void *native,
                                  dao_backend_stream_t **out_stream);
void dao_own_stream_destroy(dao_backend_stream_t *stream);
dao_status_t dao_own_stream_synchronize(dao_backend_stream_t *stream);
dao_status_t dao_own_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event);
void *dao_own_stream_native(dao_backend_stream_t *stream);
dao_status_t dao_own_event_create(dao_backend_device_t *device, bool has_time,
                                  dao_backend_event_t **out_event);
void dao_own_event_destroy(dao_backend_event_t *event);
dao_status_t dao_own_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream);
dao_status_t dao_own_event_query(dao_backend_event_t *event);
dao_status_t dao_own_event_synchronize(dao_backend_event_t *event);
dao_status_t dao_own_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                   int64_t *out_elapsed_ns);
dao_status_t dao_own_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                          size_t size_bytes);
dao_status_t dao_own_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes);
dao_status_t dao_own_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user);

#endif

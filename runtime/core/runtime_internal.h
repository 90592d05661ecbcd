/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of runtime/ and the executor share: the context, a device's runtime, streams. */
#ifndef DAO_RUNTIME_RUNTIME_INTERNAL_H
#define DAO_RUNTIME_RUNTIME_INTERNAL_H

#include "allocators/allocator.h"
#include "allocators/stream_fence.h"
#include "backends/backend.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "runtime/sharing/retained.h"
#include "runtime/sharing/share.h"

#include <stdatomic.h>

typedef struct dao_runtime dao_runtime_t;

struct dao_stream {
    dao_runtime_t *runtime; /* a reference of its own, but for the runtime's own streams */
    dao_backend_stream_t *backend;
    _Atomic uint32_t reference_count; /* the creator, and every memory handle that names it */
    bool is_own;                      /* one of the runtime's own: lives and dies with it */
    _Atomic uint32_t number;          /* in the runtime's holds; 0: it has none yet. See stream_order.c */
    uint32_t
        late_count; /* deferred frees that name it, and hold a reference; guarded by the lock of runtime.c */
};

/* One device: its allocators and its streams. Lives until the context and every handle have let go of it. */
struct dao_runtime {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    int32_t device_index;
    dao_device_info_t info;      /* as of the start; free_bytes is not kept up */
    dao_stream_fences_t *fences; /* streams that allocate and free in stream order; outlives the allocators */
    dao_allocator_t *device_memory;
    dao_allocator_t *pinned_memory;
    dao_backend_stream_t *bytes_stream; /* by which a hardened place reaches its bytes; else NULL */
    dao_stream_t streams[DAO_STREAM_ROLE_COUNT];
    _Atomic uint32_t reference_count;
    /* runtime.c adds what only it uses behind this: keep it there */
    struct dao_runtime_private *own;
    _Atomic uint64_t
        deferred_count;      /* frees that wait for a stream: on the list and in the hands of who drains it */
    dao_retained_t retained; /* device memory whose frees wait for a lease: lease.c */
    dao_shares_t shares;     /* device memory that other processes have, too: share.c */
    _Atomic uint64_t reached; /* devices whose memory this one may reach, a bit each: peer.c */
    _Atomic int loss;         /* of dao_loss_t: health.c */
    dao_error_record_t loss_error;
};

/* What is known of a device's health. */
typedef enum dao_loss {
    DAO_LOSS_NONE = 0,
    DAO_LOSS_NOTED = 1, /* loss_error is being written */
    DAO_LOSS_TOLD = 2,  /* loss_error says why, and does not change any more */
} dao_loss_t;

/* Notes that a device is lost, for good: this thread's last error is its answer. health.c. Takes no lock. */
void dao_runtime_lose(dao_runtime_t *runtime);

/* Hands on what a call on a device answered, and learns from it. */
static inline dao_status_t dao_runtime_told(dao_runtime_t *runtime, dao_status_t status)
{
    if (__builtin_expect(status == DAO_ERR_DEVICE_LOST, 0)) {
        dao_runtime_lose(runtime);
    }
    return status;
}

/* As dao_runtime_told(), of a call on `runtime` that touches the memory of `other` too: each is asked whether
   it is lost. */
dao_status_t dao_runtime_told_of_two(dao_runtime_t *runtime, dao_runtime_t *other, dao_status_t status);

static inline bool dao_runtime_is_lost(const dao_runtime_t *runtime)
{
    return __builtin_expect(atomic_load_explicit(&runtime->loss, memory_order_acquire) == DAO_LOSS_TOLD, 0);
}

/* DAO_ERR_DEVICE_LOST, saying why, if the device is lost. */
DAO_NODISCARD dao_status_t dao_runtime_health(const dao_runtime_t *runtime, const char *function);

/* Starts the library on a given backend instead of the built one, for tests. As dao_init() otherwise. */
DAO_NODISCARD dao_status_t dao_context_start(const dao_config_t *config, const dao_backend_ops_t *ops);

/* Gives the runtime of a device, starting it if need be, with a reference for the caller.
   DAO_ERR_NO_DEVICE, DAO_ERR_SHUTDOWN, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD, DAO_ERR_BACKEND. */
DAO_NODISCARD dao_status_t dao_runtime_acquire(int32_t device_index, dao_runtime_t **out_runtime);

/* Lets go of a runtime; the last one frees it. */
void dao_runtime_release(dao_runtime_t *runtime);

/* Gives the allocator of a pinned or device place of this runtime. */
dao_allocator_t *dao_runtime_allocator(dao_runtime_t *runtime, dao_place_kind_t kind);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: addresses of a plan behind which lie pages of the device arena. Each of a plan's stays has a place
   in its plan's window, so that mappings are made once, when the plan is made, and never changed. */
#ifndef DAO_RUNTIME_EXECUTOR_DEVICE_WINDOW_H
#define DAO_RUNTIME_EXECUTOR_DEVICE_WINDOW_H

#include "backends/backend.h"
#include "planning/swap/addresses/page_map.h"
#include "runtime/executor/streams/timeline.h"

#include <dao/swap.h>

#include <stdatomic.h>

/* Most pages that the windows of an executor map: three quarters of the 520,000 mappings that an H100 takes
   in a context. */
#define DAO_DEVICE_WINDOW_PAGE_MAX 390000u

/* What windows of an arena are made of. */
typedef struct dao_device_pages {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    void *base;                 /* the arena */
    size_t page_bytes;          /* 0: pages of it cannot be mapped once more, or are not wanted */
    _Atomic uint64_t mapped;    /* pages that windows map now; any thread */
    _Atomic uint64_t map_calls; /* pages that were mapped or unmapped up to now; any thread */
} dao_device_pages_t;

typedef struct dao_device_window {
    struct dao_device_window *next; /* of the arena's */
    dao_device_pages_t *of;
    char *address;
    dao_page_map_t
        map; /* by offsets of the arena, which are given once and never again; 0: it has none yet */
    uint32_t tensor_count; /* that lie there */
    bool is_retired;       /* its plan is gone */
    dao_fence_t busy;      /* work that uses its addresses, but for that of tensors that lie there */
    uint32_t pages[];
} dao_device_window_t;

/* Looks whether pages of an arena in which nothing is yet can be mapped once more: as device and driver say,
   and, where memory has bytes, by a probe on two streams. If not, page_bytes stays 0, and the log says why.
   The answer is a device error alone. */
DAO_NODISCARD dao_status_t dao_device_pages_init(dao_device_pages_t *pages, dao_backend_stream_t *writer,
                                                 dao_backend_stream_t *reader, uint64_t arena_bytes,
                                                 dao_swap_addresses_t addresses);

/* Maps the pages of a plan. DAO_ERR_LIMIT beyond DAO_DEVICE_WINDOW_PAGE_MAX, DAO_ERR_NO_HOST_MEMORY, the
   backend's answer. Any thread. */
DAO_NODISCARD dao_status_t dao_device_window_create(dao_device_pages_t *pages,
                                                    const dao_swap_schedule_t *schedule,
                                                    dao_device_window_t **out_window);

/* Unmaps a window that no work uses and no tensor lies in. A refusal is logged: the pages stay mapped there,
   which costs addresses alone. NULL is allowed. */
void dao_device_window_destroy(dao_device_window_t *window);

/* Unmaps the last page of such a window; a driver takes some 26 us for one (kvcached's bench_vmm, A100), so
   that a window of many goes bit by bit. Returns true if that was all: the window is destroyed. */
bool dao_device_window_shrink(dao_device_window_t *window);

/* Returns true if the window's plan is gone, no tensor lies there, and all work with its addresses is done.
 */
bool dao_device_window_may_go(const dao_device_window_t *window, const dao_timeline_t *timeline);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal synchronous backend for tests of allocators: a device of a given capacity whose memory cannot be
   touched, calls that are counted, and an n-th call that fails. It has no streams, events or copies. */
#ifndef DAO_TESTS_SUPPORT_HEAP_BACKEND_H
#define DAO_TESTS_SUPPORT_HEAP_BACKEND_H

#include "backends/backend.h"

typedef struct heap_backend heap_backend_t;

/* Calls that are counted and can be made to fail. */
typedef enum heap_call {
    HEAP_CALL_MEMORY_ALLOC,
    HEAP_CALL_MEMORY_FREE,
    HEAP_CALL_PINNED_ALLOC,
    HEAP_CALL_PINNED_FREE,
    HEAP_CALL_PAGES_CREATE,
    HEAP_CALL_PAGES_DESTROY,
    HEAP_CALL_PAGES_MAP,
    HEAP_CALL_PAGES_UNMAP,
    HEAP_CALL_COUNT,
} heap_call_t;

/* page_bytes 0: without virtual memory. NULL without memory. */
heap_backend_t *heap_backend_create(uint64_t capacity_bytes, uint64_t page_bytes);

/* Returns true if everything was freed. */
bool heap_backend_destroy(heap_backend_t *backend);

const dao_backend_ops_t *heap_backend_ops(const heap_backend_t *backend);
dao_backend_device_t *heap_backend_device(heap_backend_t *backend);

/* Its pinned memory as an upstream's; `user` is the backend. */
dao_status_t heap_backend_pinned_take(void *user, size_t size_bytes, void **out_address);
dao_status_t heap_backend_pinned_give(void *user, void *address, size_t size_bytes);

/* Makes the skip_count-th next call of a kind (0: the very next; HEAP_CALL_COUNT: of any kind) fail;
   `persistent`: all from there on. */
void heap_backend_fail(heap_backend_t *backend, heap_call_t call, uint64_t skip_count, bool persistent);

/* Lets all succeed again; returns the number of calls that were made to fail. */
uint64_t heap_backend_heal(heap_backend_t *backend);

/* Calls of a kind since the start; HEAP_CALL_COUNT: of all kinds. */
uint64_t heap_backend_calls(const heap_backend_t *backend, heap_call_t call);

uint64_t heap_backend_device_bytes(const heap_backend_t *backend); /* memory and pages, now */
uint64_t heap_backend_pinned_bytes(const heap_backend_t *backend);

/* Device memory taken by somebody else. */
void heap_backend_take_bytes(heap_backend_t *backend, uint64_t taken_bytes);

#endif

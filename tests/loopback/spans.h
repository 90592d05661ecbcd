/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses that do not overlap, by address: allocations, reservations, mapped pages. */
#ifndef DAO_TESTS_LOOPBACK_SPANS_H
#define DAO_TESTS_LOOPBACK_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct loopback_span {
    char *begin;
    size_t size_bytes;
    char *bytes; /* behind addresses of a device; NULL: there are none, or the addresses are theirs */
    void *owner; /* whose it is */
    int device;
    bool is_pinned;   /* host memory */
    uint64_t allowed; /* mapped pages: the devices that may touch them, a bit each */
    bool is_imported; /* another process's */
    bool is_pooled;   /* of the pool that is its owner */
} loopback_span_t;

typedef struct loopback_spans {
    loopback_span_t *items; /* by begin */
    size_t count;
    size_t capacity;
} loopback_spans_t;

/* Index of the first one that ends above an address; count: there is none. */
size_t loopback_spans_from(const loopback_spans_t *spans, const void *address);

/* The one that begins at an address; NULL: none does. */
loopback_span_t *loopback_spans_at(const loopback_spans_t *spans, const void *address);

/* The first one that shares bytes with a range; NULL: none does. */
loopback_span_t *loopback_spans_in(const loopback_spans_t *spans, const void *address, size_t size_bytes);

void loopback_spans_add(loopback_spans_t *spans, loopback_span_t span);
void loopback_spans_remove(loopback_spans_t *spans, const loopback_span_t *span);
void loopback_spans_finish(loopback_spans_t *spans);

#endif

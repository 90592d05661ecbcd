/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes [begin, end) of a tensor; none if begin == end. */
#ifndef DAO_RUNTIME_EXECUTOR_SLICE_H
#define DAO_RUNTIME_EXECUTOR_SLICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dao_slice {
    uint64_t begin_bytes, end_bytes;
} dao_slice_t;

static inline bool dao_slice_is_empty(dao_slice_t slice)
{
    return slice.begin_bytes == slice.end_bytes;
}

static inline uint64_t dao_slice_bytes(dao_slice_t slice)
{
    return slice.end_bytes - slice.begin_bytes;
}

static inline bool dao_slice_has(dao_slice_t outer, dao_slice_t inner)
{
    return dao_slice_is_empty(inner) ||
           (outer.begin_bytes <= inner.begin_bytes && inner.end_bytes <= outer.end_bytes);
}

/* The least slice that has both. */
static inline dao_slice_t dao_slice_hull(dao_slice_t a, dao_slice_t b)
{
    if (dao_slice_is_empty(a) || dao_slice_is_empty(b)) {
        return dao_slice_is_empty(a) ? b : a;
    }
    return (dao_slice_t){a.begin_bytes < b.begin_bytes ? a.begin_bytes : b.begin_bytes,
                         a.end_bytes > b.end_bytes ? a.end_bytes : b.end_bytes};
}

/* What both have. */
static inline dao_slice_t dao_slice_common(dao_slice_t a, dao_slice_t b)
{
    uint64_t begin = a.begin_bytes > b.begin_bytes ? a.begin_bytes : b.begin_bytes;
    uint64_t end = a.end_bytes < b.end_bytes ? a.end_bytes : b.end_bytes;
    return begin < end ? (dao_slice_t){begin, end} : (dao_slice_t){0, 0};
}

/* Bytes lie between the two that neither has. */
static inline bool dao_slice_leaves_gap(dao_slice_t a, dao_slice_t b)
{
    return !dao_slice_is_empty(a) && !dao_slice_is_empty(b) &&
           (a.end_bytes < b.begin_bytes || b.end_bytes < a.begin_bytes);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How the lives of a file were found, for those who read the figures that follow from them. */
#ifndef DAO_TOOLS_LIFE_COUNTS_H
#define DAO_TOOLS_LIFE_COUNTS_H

#include <stdint.h>

typedef struct dao_life_counts {
    uint64_t in_window_count;   /* allocated by an event of the file */
    uint64_t open_count;        /* of those, live at its end */
    uint64_t older_freed_count; /* alive before its first event, and freed */
    uint64_t older_kept_count;  /* alive before its first event, and at its end */
    uint64_t replaced_count;    /* ended since their address was allocated anew: their frees are missing */
    uint64_t guessed_count;     /* frees without an address that fitted several blocks: the latest ended */
    uint64_t refused_count;     /* requests that were refused */
    uint64_t ignored_count;     /* events that could not be matched, or tell of no life */
    uint64_t backward_count;    /* events whose time is before that of the event above */
    uint64_t reserved_bytes;    /* what the program's own allocator had of the system; 0: not told */
} dao_life_counts_t;

#endif

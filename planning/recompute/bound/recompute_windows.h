/* SPDX-License-Identifier: Apache-2.0 */
/* What windows of kernels add to a step that copies and runs kernels again, see recompute_windows.c. */
#ifndef DAO_PLANNING_RECOMPUTE_WINDOWS_H
#define DAO_PLANNING_RECOMPUTE_WINDOWS_H

#include "planning/recompute/bound/recompute_contents.h"
#include "planning/recompute/bound/recompute_links.h"

/* Windows begin and end at so many places at most. */
#define DAO_RECOMPUTE_PLACE_MAX 1024u

/* A window of all places before it is known. */
#define DAO_RECOMPUTE_NO_PLACE UINT32_MAX

typedef struct dao_recompute_windows {
    const dao_recompute_contents_t *contents; /* borrowed */
    dao_recompute_links_t links;
    uint32_t place_count; /* of the step: a window goes from one to another, around the step's end */
    uint32_t *first;      /* place_count + 1: the kernel behind each place; then kernel_count */
    uint64_t *added_ns;   /* [place x place_count + length - 1]: what a window of so many places adds */
    uint64_t *sums_ns;    /* place_count + 1: of one start */
    uint32_t *from;       /* place_count + 1: where the last window of each sum begins */
} dao_recompute_windows_t;

/* Weighs all windows. On an error there is nothing to finish. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_windows_init(dao_recompute_windows_t *windows,
                                                      const dao_recompute_contents_t *contents);

void dao_recompute_windows_finish(dao_recompute_windows_t *windows);

/* Returns the most that windows add which lie one after the other in the `length` places from `start` on, and
   leaves in `sums_ns` and `from` how. */
uint64_t dao_recompute_windows_sum(dao_recompute_windows_t *windows, uint32_t start, uint32_t length);

/* Returns the best sum of a whole step, over several starts, the last of which stays in `sums_ns`. */
uint64_t dao_recompute_windows_best(dao_recompute_windows_t *windows, uint32_t *out_start);

/* Returns the time of the kernels in a window. */
uint64_t dao_recompute_window_kernels_ns(const dao_recompute_windows_t *windows, uint32_t place,
                                         uint32_t length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Capacities on the command line: a share of a peak that is known only once a trace has been read, or a
   size. */
#ifndef DAO_TOOLS_CAPACITY_H
#define DAO_TOOLS_CAPACITY_H

#include <dao/swap.h>

typedef struct dao_capacity {
    uint64_t millionths; /* of a percent of the peak; 0: `bytes` holds */
    uint64_t bytes;
} dao_capacity_t;

/* Reads "50%", "37.5%" or a size such as "180MiB". DAO_ERR_INVALID or DAO_ERR_OVERFLOW with a message. */
DAO_NODISCARD dao_status_t dao_capacity_parse(const char *text, dao_capacity_t *out_capacity);

/* Finds its bytes; of a percentage rounded down. DAO_ERR_OVERFLOW with a message: it is 2^64 or more. */
DAO_NODISCARD dao_status_t dao_capacity_resolve(const dao_capacity_t *capacity, uint64_t peak_bytes,
                                                uint64_t *out_bytes);

/* The same for a step of this bound. DAO_ERR_KERNEL_TOO_LARGE where it is less than its largest operator
   needs, whose name that is. */
DAO_NODISCARD dao_status_t dao_capacity_resolve_for(const dao_capacity_t *capacity,
                                                    const dao_swap_bound_t *step, const char *largest_name,
                                                    uint64_t *out_bytes);

/* Fails for a capacity that one operator of a step exceeds: DAO_ERR_KERNEL_TOO_LARGE, with a message that
   names it and the least capacity. */
dao_status_t dao_capacity_error(uint64_t capacity_bytes, uint64_t least_bytes, uint32_t operator_index,
                                const char *operator_name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of a link, from transfers that were measured. */
#ifndef DAO_RUNTIME_EXECUTOR_LINK_SPEED_H
#define DAO_RUNTIME_EXECUTOR_LINK_SPEED_H

#include <stdint.h>

/* The transfers of one direction. All zero: none. */
typedef struct dao_link_speed {
    uint64_t count;
    double bytes, ns;
    double bytes_bytes, bytes_ns; /* sums of squares and products: for the line through them */
} dao_link_speed_t;

/* Adds a transfer. */
void dao_link_speed_note(dao_link_speed_t *link, uint64_t size_bytes, uint64_t time_ns);

/* Fits time = latency + bytes / speed to the transfers, of which there is at least one. The speed is at
   least 1. */
void dao_link_speed_fit(const dao_link_speed_t *link, uint64_t *out_bytes_per_second,
                        uint64_t *out_latency_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds how far the host is ahead of the device, in device time: the kernels in flight times what a
   kernel takes, by the events behind the latest ones. */
#ifndef DAO_RUNTIME_EXECUTOR_THROTTLE_H
#define DAO_RUNTIME_EXECUTOR_THROTTLE_H

#include "runtime/executor/streams/timeline.h"

/* Kernels over which the mean is taken, older ones count less and less. */
#define DAO_THROTTLE_KERNELS 256

/* The device is asked what has finished after kernels of so much device time, or so many. Asking costs the
   host a microsecond or two for each stream, as much as some kernels take. */
#define DAO_THROTTLE_LOOK_NS          500000.0
#define DAO_THROTTLE_LOOK_KERNELS_MAX 16u

typedef struct dao_throttle {
    uint32_t stream_index; /* of the compute streams */
    uint64_t seen;         /* operations of it that were looked at */
    double kernel_ns;      /* from the end of one to the end of the next, stalls and all; 0: not known yet */
} dao_throttle_t;

/* Looks at kernels that were seen to finish since the last look. One that comes too late, when their events
   stand for later ones already, learns nothing. */
void dao_throttle_look(dao_throttle_t *throttle, const dao_timeline_t *timeline);

/* Returns true if the host is ahead of the device by more than `in_flight_ns`, with at least two kernels in
   flight. */
bool dao_throttle_is_ahead(const dao_throttle_t *throttle, const dao_timeline_t *timeline,
                           uint64_t in_flight_ns);

/* Returns true if the device should be asked what has finished, so many kernels after the time before. */
bool dao_throttle_wants_look(const dao_throttle_t *throttle, uint64_t kernel_count);

#endif

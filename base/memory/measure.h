/* SPDX-License-Identifier: Apache-2.0 */
/* What measuring needs from the system: the processor time of a thread, a processor for it, and what an
   uncontended lock costs. */
#ifndef DAO_BASE_MEASURE_H
#define DAO_BASE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/* Keeps this thread on the index-th of the processors that it may run on, counted round and round. False if
   the system refuses: then it runs anywhere. */
bool dao_measure_stay(uint32_t index);

/* Nanoseconds that this thread has run on a processor. A call costs far more than reading dao_clock_ns(). */
uint64_t dao_measure_thread_ns(void);

/* Locks and unlocks a plain mutex of the system's `pair_count` times, with nobody else near it, and gives the
   processor time of that in nanoseconds. In a process of one thread the system may leave the lock out: start
   another one first. */
uint64_t dao_measure_lock_pairs(uint64_t pair_count);

/* Minor page faults of the process so far: pages that were touched for the first time and were in no file. */
uint64_t dao_measure_minor_faults(void);

#endif

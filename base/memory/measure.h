/* SPDX-License-Identifier: Apache-2.0 */
/* What measurements need from the system: a thread's processor time, a processor of its own, the price of an
   uncontended lock, and page faults. */
#ifndef DAO_BASE_MEASURE_H
#define DAO_BASE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/* Pins this thread to the processor number `index` modulo the count of those that it may run on. Returns
   false if the system refuses; the thread then runs anywhere. */
bool dao_measure_stay(uint32_t index);

/* Returns the processor time of this thread in ns. Costs a system call, unlike dao_clock_ns(). */
uint64_t dao_measure_thread_ns(void);

/* Locks and unlocks an uncontended pthread mutex `pair_count` times and returns the processor time in ns. In
   a process of one thread the system may skip the atomic operations: start another thread first. */
uint64_t dao_measure_lock_pairs(uint64_t pair_count);

/* Returns the minor page faults of the process so far: first touches of pages that needed no read. */
uint64_t dao_measure_minor_faults(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of threads that are never used twice in a process, and whether the thread of a number has ended.
   dao_thread_self() does not do for that: a new thread may get the value of one that has ended. */
#ifndef DAO_BASE_THREAD_NUMBER_H
#define DAO_BASE_THREAD_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Most threads that have a number at the same time. */
#define DAO_THREAD_NUMBER_MAX 1024u

/* Returns this thread's number; 0 if too many threads have one, or if the end of this one could not be
   observed. The first call takes a lock. */
uint64_t dao_thread_number(void);

/* Returns true if the thread with this number, not 0, has not ended. */
bool dao_thread_number_lives(uint64_t number);

#endif

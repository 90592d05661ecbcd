/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of threads: no two threads of a process ever have the same, and it can be asked whether the thread
   of a number has ended. dao_thread_self() is given to another thread as soon as its own has ended. */
#ifndef DAO_BASE_THREAD_NUMBER_H
#define DAO_BASE_THREAD_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Threads that have a number at one time, at most. */
#define DAO_THREAD_NUMBER_MAX 1024u

/* Gives this thread's number; 0 where too many threads have one, or its end could not be seen. Waits for a
   lock the first time. */
uint64_t dao_thread_number(void);

/* Tells whether the thread that has a number, not 0, has not ended. */
bool dao_thread_number_lives(uint64_t number);

#endif

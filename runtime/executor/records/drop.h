/* SPDX-License-Identifier: Apache-2.0 */
/* The program's functions that are called once what it has lent goes: a kernel's `user`, a source's memory.
 */
#ifndef DAO_RUNTIME_EXECUTOR_DROP_H
#define DAO_RUNTIME_EXECUTOR_DROP_H

/* Calls one, unless it is NULL, and then what this thread has set. */
void dao_drop_call(void (*drop)(void *user), void *user);

/* What is called behind each of them in this thread from now on: it may have made another device current.
   NULL: nothing is. */
void dao_drop_set_behind(void (*behind)(const void *owner), const void *owner);

#endif

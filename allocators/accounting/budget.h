/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes under a limit that holds exactly, counted by any number of threads without a lock. A tag of a place
   is one, and so is all host memory together. All zero is an empty budget without a limit. */
#ifndef DAO_ALLOCATORS_BUDGET_H
#define DAO_ALLOCATORS_BUDGET_H

#include <dao/status.h>

#include <stdatomic.h>

typedef struct dao_budget {
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t limit_bytes; /* 0: none */
} dao_budget_t;

/* Takes bytes, before what they stand for is taken. False if the limit is in the way: nothing is changed. The
   peak does not know of them before dao_budget_note(): they may be given back, as what they stand for cannot
   be had. Threads: any. */
bool dao_budget_take(dao_budget_t *budget, uint64_t size_bytes);

/* What was taken is there: the peak is at least what is used now. Threads: any. */
void dao_budget_note(dao_budget_t *budget);

/* Releases bytes that were taken. Threads: any. */
void dao_budget_give(dao_budget_t *budget, uint64_t size_bytes);

/* Bytes that could be taken now; UINT64_MAX without a limit. Threads: any. */
uint64_t dao_budget_room(const dao_budget_t *budget);

/* Sets the limit; 0 is none. False if more is taken now: the limit stays as it was. A take at the same moment
   may be refused by either limit. Threads: any. */
bool dao_budget_limit_set(dao_budget_t *budget, uint64_t limit_bytes);

/* While nobody takes or gives, and all that was taken was noted. */
bool dao_budget_is_valid(const dao_budget_t *budget);

#endif

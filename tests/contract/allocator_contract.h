/* SPDX-License-Identifier: Apache-2.0 */
/* What every allocator of addresses owes, as one suite: a test program says how its allocator is made and
   runs the tests. */
#ifndef DAO_TESTS_CONTRACT_ALLOCATOR_CONTRACT_H
#define DAO_TESTS_CONTRACT_ALLOCATOR_CONTRACT_H

#include "allocators/allocator.h"
#include "tests/support/suite.h"

typedef struct allocator_contract {
    dao_status_t (*create)(
        dao_allocator_t **out_allocator);        /* an empty one; nothing is left behind when it fails */
    void (*destroy)(dao_allocator_t *allocator); /* and checks that nothing has leaked */
    size_t alignment_bytes;                      /* of every address */
    size_t extra_bytes;                          /* that a block of whole MiB takes beside them */
    bool is_uncached;                            /* what is freed goes back to the system at once */
} allocator_contract_t;

/* Says what the tests of this program run on; borrowed. */
void allocator_contract_set(const allocator_contract_t *contract);

/* Setup and teardown of a test, and the tests. */
void allocator_contract_begin(void);
void allocator_contract_begin_on(const allocator_contract_t *contract); /* says it, too */
void allocator_contract_end(void);
extern CU_TestInfo allocator_contract_tests[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the backends' contract share. */
#ifndef DAO_TESTS_CONTRACT_BACKEND_CONTRACT_INTERNAL_H
#define DAO_TESTS_CONTRACT_BACKEND_CONTRACT_INTERNAL_H

#include "tests/contract/backend_contract.h"
#include "tests/support/gate.h"

/* The subject, open while a test runs. */
typedef struct contract {
    const dao_backend_ops_t *ops;
    dao_backend_t *backend;
    dao_backend_device_t *device;
    dao_backend_stream_t *stream;
    dao_device_info_t info;
} contract_t;

extern contract_t contract;

/* Memory of the device, and pinned memory. */
void *contract_take(size_t size_bytes);
void contract_give(void *address, size_t size_bytes);
uint8_t *contract_take_pinned(size_t size_bytes);
void contract_give_pinned(uint8_t *address, size_t size_bytes);

/* Fills with bytes that follow from the seed, and looks whether they are there. */
void contract_draw(uint8_t *bytes, size_t size_bytes, uint64_t seed);
bool contract_is_drawn(const uint8_t *bytes, size_t size_bytes, uint64_t seed);

/* Copies on the subject's stream and waits. */
void contract_copy_now(dao_copy_kind_t kind, void *dst, const void *src, size_t size_bytes);

void *contract_at(void *address, size_t offset);
uint64_t contract_free_bytes(void);

/* Whether the subject can be asked for this; if not, says that the test is skipped. */
bool contract_has_pages(void);
bool contract_has_exact_capacity(void);

/* backend_contract_reach.c: rows of backend_contract_tests. */
void contract_peers_reach_what_was_enabled(void);
void contract_host_memory_is_registered_and_given_up(void);
void contract_kernels_find_host_memory(void);
void contract_batches_carry_exactly_their_bytes(void);

#endif

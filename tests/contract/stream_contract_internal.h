/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the contract of stream order share. */
#ifndef DAO_TESTS_CONTRACT_STREAM_CONTRACT_INTERNAL_H
#define DAO_TESTS_CONTRACT_STREAM_CONTRACT_INTERNAL_H

#include "tests/contract/stream_contract.h"

#include <dao/stream.h>

#define STREAM_CONTRACT_PAGE ((size_t)2 << 20)
#define STREAM_CONTRACT_MANY 200u /* streams of which most share a line of the table of fences */

/* Where the tests allocate. */
dao_place_t stream_contract_place(void);

/* Queues a kernel that finds `expected` in every byte of a block, or is counted as wrong, and writes
   `written` there; -1: it does not look, or does not write. */
dao_status_t stream_contract_launch(dao_stream_t *stream, void *block, size_t size_bytes, int expected,
                                    int written);

/* Notes that somebody has found another one's bytes: the test fails as it ends. */
void stream_contract_count_wrong(void);

/* `count` streams, the contract's own three first, each of which has allocated; until they are done. */
dao_stream_t *const *stream_contract_streams(uint32_t count);
void stream_contract_streams_done(uint32_t count);

#endif

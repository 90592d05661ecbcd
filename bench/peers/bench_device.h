/* SPDX-License-Identifier: Apache-2.0 */
/* A device that only keeps books: it has a capacity and addresses, but no bytes. Allocators that never touch
   what they manage run on it as on a real device, with and without page mapping, and a device of 200 GiB
   costs nothing. One such backend is open at a time. */
#ifndef DAO_TOOLS_BENCH_DEVICE_H
#define DAO_TOOLS_BENCH_DEVICE_H

#include "backends/backend.h"

/* One device of config->cpu.device_bytes, with page mapping unless config->cpu.no_page_mapping. Its streams
   finish their work at once; copies and fills have nothing to move. */
extern const dao_backend_ops_t dao_bench_device_ops;

/* Calls so far that took, gave, mapped or unmapped device memory. */
uint64_t dao_bench_device_calls(void);

/* Bytes of host memory that the books take now: a handle for each page. */
uint64_t dao_bench_device_own_bytes(void);

/* While events are held they are not done, as those of a stream that is behind. */
void dao_bench_device_hold(bool is_held);

#endif

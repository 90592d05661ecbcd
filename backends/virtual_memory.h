/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of virtual devices, in real time (cpu/) and in virtual time (sim/): address space of the process,
   counted against a capacity. Freed memory is unmapped at once, so a use after free faults.

   Invariant: used_bytes == bytes of the device blocks + bytes of dao_virtual_memory_take() <=
   capacity_bytes; alias_run_count <= DAO_VIRTUAL_ALIAS_RUN_MAX. */
#ifndef DAO_BACKENDS_VIRTUAL_MEMORY_H
#define DAO_BACKENDS_VIRTUAL_MEMORY_H

#include "base/threads/sync.h"

#include <dao/status.h>

/* Default count and capacity of virtual devices, and the largest capacity: a small part of a 47-bit address
   space. */
#define DAO_VIRTUAL_DEVICE_COUNT_DEFAULT 2
#define DAO_VIRTUAL_DEVICE_BYTES_DEFAULT (UINT64_C(4) << 30)
#define DAO_VIRTUAL_DEVICE_BYTES_MAX     (UINT64_C(1) << 46)

typedef struct dao_virtual_block dao_virtual_block_t; /* a live allocation of device or pinned memory */

typedef struct dao_virtual_memory {
    /* Set by the owner before init. */
    int32_t device_index;
    uint64_t capacity_bytes;
    size_t alignment_bytes; /* of addresses */
    bool has_no_bytes;      /* addresses alone: touching one faults */

    dao_mutex_t lock; /* rank backend; guards what follows */
    uint64_t used_bytes;
    dao_virtual_block_t *device_blocks;
    dao_virtual_block_t *pinned_blocks; /* not counted */
    dao_virtual_block_t *alias_blocks;  /* addresses alone, not counted */
    uint32_t alias_run_count;           /* of neighbouring pages behind these */
} dao_virtual_memory_t;

void dao_virtual_memory_init(dao_virtual_memory_t *memory);
void dao_virtual_memory_finish(dao_virtual_memory_t *memory); /* everything has been freed */

/* As memory_alloc, memory_free, pinned_alloc and pinned_free of dao_backend_ops_t. DAO_ERR_NO_HOST_MEMORY if
   the system refuses; DAO_ERR_FOREIGN_POINTER for an address without a live block of that size. */
DAO_NODISCARD dao_status_t dao_virtual_memory_alloc(dao_virtual_memory_t *memory, size_t size_bytes,
                                                    void **out_address);
DAO_NODISCARD dao_status_t dao_virtual_memory_free(dao_virtual_memory_t *memory, void *address,
                                                   size_t size_bytes);
DAO_NODISCARD dao_status_t dao_virtual_memory_alloc_pinned(dao_virtual_memory_t *memory, size_t size_bytes,
                                                           void **out_address);
DAO_NODISCARD dao_status_t dao_virtual_memory_free_pinned(dao_virtual_memory_t *memory, void *address,
                                                          size_t size_bytes);

/* Takes a part of the capacity for memory that the owner obtains itself, and gives it back.
   DAO_ERR_NO_DEVICE_MEMORY. */
DAO_NODISCARD dao_status_t dao_virtual_memory_take(dao_virtual_memory_t *memory, size_t size_bytes);
void dao_virtual_memory_give(dao_virtual_memory_t *memory, size_t size_bytes);

/* Most runs of neighbouring pages that a device maps at further addresses: half of Linux's mappings for a
   process (vm.max_map_count), as at that limit nothing can be unmapped either. */
#define DAO_VIRTUAL_ALIAS_RUN_MAX 32000u

/* Size of the pages that are mapped at several addresses: CUDA's. */
#define DAO_VIRTUAL_ALIAS_PAGE_BYTES ((size_t)2 << 20)

/* As alias_prepare, alias_map and alias_unmap of dao_backend_ops_t. */
DAO_NODISCARD dao_status_t dao_virtual_memory_alias_prepare(dao_virtual_memory_t *memory, void *base,
                                                            size_t size_bytes, size_t *out_page_bytes);
DAO_NODISCARD dao_status_t dao_virtual_memory_alias_map(dao_virtual_memory_t *memory, void *base,
                                                        size_t page_bytes, const uint32_t *pages,
                                                        size_t page_count, void **out_address);
DAO_NODISCARD dao_status_t dao_virtual_memory_alias_unmap(dao_virtual_memory_t *memory, void *address,
                                                          size_t page_bytes, size_t page_count,
                                                          size_t keep_count);

/* Returns the capacity that is free. */
uint64_t dao_virtual_memory_free_bytes(dao_virtual_memory_t *memory);

#endif

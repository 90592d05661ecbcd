/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory with page mapping: arenas that place blocks in windows of addresses, over pages that go where
   they are needed. device_memory.h chooses it where the device has pages. */
#ifndef DAO_ALLOCATORS_PAGED_H
#define DAO_ALLOCATORS_PAGED_H

#include "allocators/paged/device_memory.h"

/* Most arenas that threads share among them. */
#define DAO_PAGED_ARENA_MAX 8u

/* Most leases of a place, ended ones that have live blocks among them. */
#define DAO_PAGED_LEASE_MAX 8u

/* Most windows of a place: one, for whoever serves from plans. */
#define DAO_PAGED_WINDOW_MAX 1u

/* Returns the size of pages that a device's memory is kept in; 0 if it cannot be kept in pages. */
uint64_t dao_paged_page_bytes(const dao_device_memory_config_t *config, const dao_device_info_t *info);

/* As dao_device_memory_create(), for a device that dao_paged_page_bytes() is not 0 for. */
DAO_NODISCARD dao_status_t dao_paged_create(const dao_device_memory_config_t *config,
                                            const dao_device_info_t *info, dao_allocator_t **out_allocator);

#endif

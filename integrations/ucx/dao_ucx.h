/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_ucx.so: maps device and pinned memory of libdao for UCX as soon as it is obtained, so that transfers
 * find it registered and need no cache of registrations. Built where UCX's headers are.
 *
 * UCX need not intercept the program's memory calls then: set UCX_MEM_EVENTS=n. Virtual devices require it:
 * the mremap() of UCX 1.13 refuses the flags by which they unmap pages.
 */
#ifndef DAO_UCX_H
#define DAO_UCX_H

#include <dao/place.h>

#include <ucp/api/ucp.h>

DAO_BEGIN_DECLS

/** The mappings of one place for one context. */
typedef struct dao_segment_registry dao_ucx_t;

/**
 * Maps the memory that a place obtains from now on (ucp_mem_map), until dao_ucx_detach(). Call it before the
 * device is first used. With page mapping each page is a mapping of its own. Memory that UCX refuses is used
 * unmapped, and counted.
 *
 * @param place    A device's memory, or its pinned memory.
 * @param context  Stays valid until dao_ucx_detach().
 * @param out_ucx  The caller owns it.
 * @return DAO_OK; DAO_ERR_INVALID; as dao_segment_callback_add(); DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1); later a mapping for each segment, with the place locked.
 */
DAO_API DAO_NODISCARD dao_status_t dao_ucx_attach(dao_place_t place, ucp_context_h context,
                                                  dao_ucx_t **out_ucx);

/**
 * Unmaps everything. Call it before ucp_cleanup(); it may come after dao_finalize(). NULL is allowed.
 * Threads: one. Waits: for running callbacks.
 */
DAO_API void dao_ucx_detach(dao_ucx_t *ucx);

/**
 * Returns how many segments are mapped now. *out_refused_count, which may be NULL, gets how many UCX has
 * refused.
 * Threads: any. Waits: never.
 */
DAO_API size_t dao_ucx_mapped_count(dao_ucx_t *ucx, size_t *out_refused_count);

DAO_END_DECLS

#endif

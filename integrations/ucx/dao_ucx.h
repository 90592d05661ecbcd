/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_ucx.so: device and pinned memory of libdao is mapped for UCX as soon as it is there, so that
 * transfers find it registered and need no cache of registrations. Built where UCX's headers are.
 *
 * UCX need not watch the program's own calls then: UCX_MEM_EVENTS=n. With virtual devices that is a must:
 * what UCX 1.13 puts in place of mremap() refuses the kind by which they take pages back.
 */
#ifndef DAO_UCX_H
#define DAO_UCX_H

#include <dao/place.h>

#include <ucp/api/ucp.h>

DAO_BEGIN_DECLS

/** Memory of one place that is mapped for one context. */
typedef struct dao_segment_registry dao_ucx_t;

/**
 * Maps what a place obtains from now on (ucp_mem_map), until dao_ucx_detach(): best before its device is
 * first used. With page mapping that is page by page. What UCX refuses is used without, and counted.
 *
 * @param place    A device, or pinned memory of one.
 * @param context  Stays valid until dao_ucx_detach().
 * @param out_ucx  The caller owns it.
 * @return DAO_OK; DAO_ERR_INVALID; as dao_segment_callback_add(); DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1); later a mapping for each stretch, with the place locked.
 */
DAO_API DAO_NODISCARD dao_status_t dao_ucx_attach(dao_place_t place, ucp_context_h context,
                                                  dao_ucx_t **out_ucx);

/**
 * Unmaps all of it. Before ucp_cleanup(); after dao_finalize() too. NULL is allowed. Threads: one. Waits: for
 * running callbacks.
 */
DAO_API void dao_ucx_detach(dao_ucx_t *ucx);

/**
 * Gives how many stretches are mapped now, and in *out_refused_count (may be NULL) how many UCX has refused.
 * Threads: any. Waits: never.
 */
DAO_API size_t dao_ucx_mapped_count(dao_ucx_t *ucx, size_t *out_refused_count);

DAO_END_DECLS

#endif

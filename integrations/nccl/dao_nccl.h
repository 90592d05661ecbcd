/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_nccl.so: device memory of libdao is registered with an NCCL communicator as soon as it is
 * there, so that collectives work on it without a copy. Built for cuda where NCCL's header and library are.
 */
#ifndef DAO_NCCL_H
#define DAO_NCCL_H

#include <dao/place.h>

#include <nccl.h>

DAO_BEGIN_DECLS

/** Memory of one device that is registered with one communicator. */
typedef struct dao_segment_registry dao_nccl_t;

/**
 * Registers what a device obtains from now on (ncclCommRegister), until dao_nccl_detach(): best before the
 * device is first used. With page mapping that is page by page; a buffer over several pages is one over
 * several registrations, which NCCL may not use: see dao_place_configure() for first memory in one piece.
 * What NCCL refuses is used without, and counted.
 *
 * @param place         The communicator's device.
 * @param communicator  Stays valid until dao_nccl_detach().
 * @param out_nccl      The caller owns it.
 * @return DAO_OK; DAO_ERR_INVALID; as dao_segment_callback_add(); DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1); later a registration for each stretch, with the place locked.
 */
DAO_API DAO_NODISCARD dao_status_t dao_nccl_attach(dao_device_place_t place, ncclComm_t communicator,
                                                   dao_nccl_t **out_nccl);

/**
 * Deregisters all of it. Before ncclCommDestroy(); after dao_finalize() too. NULL is allowed. Threads: one.
 * Waits: for running callbacks.
 */
DAO_API void dao_nccl_detach(dao_nccl_t *nccl);

/**
 * Gives how many stretches are registered now, and in *out_refused_count (may be NULL) how many NCCL has
 * refused. Threads: any. Waits: never.
 */
DAO_API size_t dao_nccl_registered_count(dao_nccl_t *nccl, size_t *out_refused_count);

DAO_END_DECLS

#endif

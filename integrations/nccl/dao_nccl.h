/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_nccl.so: registers device memory of libdao with an NCCL communicator as soon as it is obtained, so
 * that collectives work on it without a copy. Built for cuda where NCCL's header and library are.
 */
#ifndef DAO_NCCL_H
#define DAO_NCCL_H

#include <dao/place.h>

#include <nccl.h>

DAO_BEGIN_DECLS

/** The registrations of one device with one communicator. */
typedef struct dao_segment_registry dao_nccl_t;

/**
 * Registers the memory that a device obtains from now on (ncclCommRegister), until dao_nccl_detach(). Call it
 * before the device is first used. With page mapping each page is a registration of its own, and NCCL may not
 * use a buffer that spans several: dao_place_configure() can obtain the first memory in one piece. Memory
 * that NCCL refuses is used unregistered, and counted.
 *
 * @param place         The communicator's device.
 * @param communicator  Stays valid until dao_nccl_detach().
 * @param out_nccl      The caller owns it.
 * @return DAO_OK; DAO_ERR_INVALID; as dao_segment_callback_add(); DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1); later a registration for each segment, with the place locked.
 */
DAO_API DAO_NODISCARD dao_status_t dao_nccl_attach(dao_device_place_t place, ncclComm_t communicator,
                                                   dao_nccl_t **out_nccl);

/**
 * Deregisters everything. Call it before ncclCommDestroy(); it may come after dao_finalize(). NULL is
 * allowed.
 * Threads: one. Waits: for running callbacks.
 */
DAO_API void dao_nccl_detach(dao_nccl_t *nccl);

/**
 * Returns how many segments are registered now. *out_refused_count, which may be NULL, gets how many NCCL has
 * refused. Threads: any. Waits: never.
 */
DAO_API size_t dao_nccl_registered_count(dao_nccl_t *nccl, size_t *out_refused_count);

DAO_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Devices that reach each other's memory: what kernels of one device may do with addresses of another.
 *
 * dao_copy() works between any two devices. With CUDA and HIP it goes directly from one to the other where
 * that is enabled here, else through the host.
 */
#ifndef DAO_PEER_H
#define DAO_PEER_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/** How one device reaches another. */
typedef struct dao_peer_info {
    bool can_reach;  /**< dao_peer_enable() can let it reach the other one's memory */
    bool is_enabled; /**< dao_peer_enable() has; always so for a device and itself */
} dao_peer_info_t;

/**
 * Asks whether a device can reach another one's memory, and whether that is enabled. The opposite direction
 * is a separate question.
 *
 * @param device_index  The device that reaches.
 * @param peer_index    The device whose memory it is.
 * @param out_info      Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_DEVICE_LOST; DAO_ERR_BACKEND; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: a backend call; the first use of a device starts it.
 */
DAO_API DAO_NODISCARD dao_status_t dao_peer_query(int32_t device_index, int32_t peer_index,
                                                  dao_peer_info_t *out_info);

/**
 * Lets kernels of a device read and write all memory of another device's place, including what is allocated
 * later and pages that move. For mapped pages this lasts until dao_finalize(), for memory that a vendor
 * allocates as a whole as long as the process. Enabling it again is no error, even if other code in the
 * process did it first.
 *
 * @param device_index  The device that reaches.
 * @param peer_index    The device whose memory it is; `device_index` itself is reached anyway.
 * @return DAO_OK; DAO_ERR_UNSUPPORTED if it cannot, see dao_peer_query(): nothing is changed;
 *         DAO_ERR_NO_DEVICE; DAO_ERR_NO_DEVICE_MEMORY; DAO_ERR_DEVICE_LOST; DAO_ERR_BACKEND;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: for the driver. Cost: a backend call, and one more for each page of the peer's that is
 * mapped.
 */
DAO_API DAO_NODISCARD dao_status_t dao_peer_enable(int32_t device_index, int32_t peer_index);

DAO_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Host memory of the program's own that devices copy from and to as with pinned memory, and where
 * devices find host memory. Registered memory stays at the place "cpu": its bytes do not count for any place,
 * and dao_free() does not know it.
 */
#ifndef DAO_HOST_REGISTER_H
#define DAO_HOST_REGISTER_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/**
 * Registers host memory: a vendor locks its pages, so that all devices copy from and to it at full speed and
 * without the host, and kernels can touch it. On the cpu backend, whose devices do so with all host memory,
 * it is only recorded.
 *
 * @param device_index  The device that it is registered with; all others may use it too.
 * @param address       Stays allocated, at this address, until dao_host_unregister().
 * @param size_bytes    At least 1. The range shares no byte with one that is registered, or with a block of a
 *                      pinned place.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, 0 bytes, or a range that does not end in the address space;
 *         DAO_ERR_BUSY if a part of it is registered already, here or by others, or if it begins or ends in a
 *         block of a pinned place; DAO_ERR_NO_HOST_MEMORY if the system locks no more memory (`ulimit -l`);
 *         DAO_ERR_UNSUPPORTED; DAO_ERR_NO_DEVICE; DAO_ERR_DEVICE_LOST; DAO_ERR_BACKEND; DAO_ERR_REENTRANT
 *         from a segment callback; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: for the driver. Cost: a backend call, which touches every page; O(registered ranges).
 */
DAO_API DAO_NODISCARD dao_status_t dao_host_register(int32_t device_index, void *address, size_t size_bytes);

/**
 * Unregisters what dao_host_register() registered. Nothing uses the memory on any stream. dao_finalize() does
 * it with what is left, and reports that.
 *
 * @param address  The address that was registered; NULL is allowed and does nothing.
 * @return DAO_OK; DAO_ERR_FOREIGN_POINTER if it is in no registered range, DAO_ERR_INTERIOR_POINTER if it is
 *         inside of one: nothing is changed; DAO_ERR_BUSY if another thread is at it; DAO_ERR_BACKEND: it
 *         stays registered; DAO_ERR_REENTRANT from a segment callback; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: for the driver. Cost: a backend call; O(registered ranges).
 */
DAO_API dao_status_t dao_host_unregister(void *address);

/**
 * Returns the address by which a device's kernels reach a byte of pinned memory, of any device's place, or of
 * registered memory.
 *
 * @param device_index  The device.
 * @param address       In a live block of a pinned place, or in a registered range.
 * @param out_address   Valid as long as the memory is pinned or registered. Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; DAO_ERR_FOREIGN_POINTER for other memory; DAO_ERR_UNSUPPORTED if
 *         the device reaches no host memory; DAO_ERR_NO_DEVICE; DAO_ERR_DEVICE_LOST; DAO_ERR_BACKEND;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: a backend call; O(registered ranges + devices * log blocks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_host_device_address_query(int32_t device_index, void *address,
                                                                 void **out_address);

DAO_END_DECLS

#endif

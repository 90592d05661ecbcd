/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Host memory of the program that devices copy from and to as fast as with pinned memory, and the addresses
 * by which devices reach host memory. Registered memory belongs to the place "cpu". It counts for no place,
 * and dao_free() does not know it.
 */
#ifndef DAO_HOST_REGISTER_H
#define DAO_HOST_REGISTER_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/**
 * Registers host memory. A vendor locks its pages: all devices then copy from and to it at full speed without
 * the host, and kernels can access it. Devices of the cpu backend do so with all host memory, so there it is
 * only recorded.
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
 * Unregisters memory of dao_host_register(). No stream may use it any more. dao_finalize() unregisters and
 * reports what is left.
 *
 * @param address  The address that was registered; NULL is allowed and does nothing.
 * @return DAO_OK; DAO_ERR_FOREIGN_POINTER if it is in no registered range, DAO_ERR_INTERIOR_POINTER if it is
 *         inside of one: nothing is changed; DAO_ERR_BUSY if another thread registers or unregisters it;
 *         DAO_ERR_BACKEND: it stays registered; DAO_ERR_REENTRANT from a segment callback; DAO_ERR_SHUTDOWN.
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

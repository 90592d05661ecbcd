/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory of the loopback driver: the functions behind the vendorVmm names, directly or through cuda.c
   and hip.c. */
#ifndef DAO_TESTS_LOOPBACK_VMM_H
#define DAO_TESTS_LOOPBACK_VMM_H

#include DAO_VENDOR_NAMES

#include <stddef.h>
#include <stdint.h>

/* Finds 0 if the device has no virtual memory. */
vendorError_t loopback_vmm_granularity(size_t *out_bytes, int device);

/* Addresses are the current device's. */
vendorError_t loopback_vmm_reserve(void **out_address, size_t size_bytes);
vendorError_t loopback_vmm_release(void *address, size_t size_bytes);
vendorError_t loopback_vmm_create(void **out_handle, size_t size_bytes, int device);
vendorError_t loopback_vmm_shareable(int *out_is_shareable, int device);
vendorError_t loopback_vmm_create_shared(void **out_handle, size_t size_bytes, int device);
vendorError_t loopback_vmm_export(int *out_descriptor, void *handle); /* of what was created shared */
vendorError_t loopback_vmm_import(void **out_handle, int descriptor); /* for the current device */
vendorError_t loopback_vmm_destroy(void *handle);
vendorError_t loopback_vmm_map(void *address, size_t size_bytes, void *handle);
vendorError_t loopback_vmm_unmap(void *address, size_t size_bytes);
vendorError_t loopback_vmm_allow(void *address, size_t size_bytes, uint64_t devices); /* a bit each */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory of HIP, as backends/vendor/vendor_pages.c calls it. */
#ifndef DAO_BACKENDS_HIP_VMM_H
#define DAO_BACKENDS_HIP_VMM_H

#include <hip/hip_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

/* Finds the smallest size of a mapping; 0 where the device has no virtual memory. */
hipError_t dao_hip_vmm_granularity(size_t *out_bytes, int device);

/* The rest is called only if the granularity is above 0, with sizes and addresses that are multiples of
   it. */
hipError_t dao_hip_vmm_reserve(void **out_address, size_t size_bytes);
hipError_t dao_hip_vmm_create(hipMemGenericAllocationHandle_t *out_handle, size_t size_bytes, int device);
hipError_t dao_hip_vmm_map(void *address, size_t size_bytes, hipMemGenericAllocationHandle_t handle);

/* Lets devices read and write: bit i of `devices` is device number i. */
hipError_t dao_hip_vmm_allow(void *address, size_t size_bytes, uint64_t devices);

/* Finds whether the device's memory can be exported by a file descriptor. */
hipError_t dao_hip_vmm_shareable(int *out_is_shareable, int device);

/* Creates exportable memory; exports it as a descriptor, which the caller owns; imports a descriptor, which
   stays the caller's. */
hipError_t dao_hip_vmm_create_shared(hipMemGenericAllocationHandle_t *out_handle, size_t size_bytes,
                                     int device);
hipError_t dao_hip_vmm_export(int *out_descriptor, hipMemGenericAllocationHandle_t handle);
hipError_t dao_hip_vmm_import(hipMemGenericAllocationHandle_t *out_handle, int descriptor);

#endif

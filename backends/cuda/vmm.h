/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory of CUDA: the driver's calls with the runtime's error codes. They are looked up through the
   runtime, so libcuda is not linked and a program starts on machines without a driver. */
#ifndef DAO_BACKENDS_CUDA_VMM_H
#define DAO_BACKENDS_CUDA_VMM_H

#include <cuda_runtime_api.h>

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long dao_cuda_vmm_t; /* physical memory without an address */

/* Finds the smallest size of a mapping; 0 where driver or device have no virtual memory. */
cudaError_t dao_cuda_vmm_granularity(size_t *out_bytes, int device);

/* The rest is called only if the granularity is above 0, with sizes and addresses that are multiples of
   it. */
cudaError_t dao_cuda_vmm_reserve(void **out_address, size_t size_bytes);
cudaError_t dao_cuda_vmm_release(void *address, size_t size_bytes);
cudaError_t dao_cuda_vmm_create(dao_cuda_vmm_t *out_handle, size_t size_bytes, int device);
cudaError_t dao_cuda_vmm_destroy(dao_cuda_vmm_t handle);
cudaError_t dao_cuda_vmm_map(void *address, size_t size_bytes, dao_cuda_vmm_t handle);
cudaError_t dao_cuda_vmm_unmap(void *address, size_t size_bytes);

/* Lets devices read and write: bit i of `devices` is device number i. */
cudaError_t dao_cuda_vmm_allow(void *address, size_t size_bytes, uint64_t devices);

/* Finds whether the device's memory can be exported by a file descriptor. */
cudaError_t dao_cuda_vmm_shareable(int *out_is_shareable, int device);

/* Creates exportable memory; exports it as a descriptor, which the caller owns; imports a descriptor, which
   stays the caller's. */
cudaError_t dao_cuda_vmm_create_shared(dao_cuda_vmm_t *out_handle, size_t size_bytes, int device);
cudaError_t dao_cuda_vmm_export(int *out_descriptor, dao_cuda_vmm_t handle);
cudaError_t dao_cuda_vmm_import(dao_cuda_vmm_t *out_handle, int descriptor);

#endif

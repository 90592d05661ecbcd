/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory lies behind an address; the runtime has no such call, but the driver does. */
#ifndef DAO_BACKENDS_CUDA_ADDRESS_RANGE_H
#define DAO_BACKENDS_CUDA_ADDRESS_RANGE_H

#include <cuda_runtime_api.h>

#include <stddef.h>

/* As cuMemGetAddressRange(): the allocation that an address of the current context lies in. */
cudaError_t dao_cuda_address_range(void **out_base, size_t *out_size_bytes, void *address);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA has of streams since some version: their numbers, and waits for a word of memory. */
#ifndef DAO_BACKENDS_CUDA_STREAM_H
#define DAO_BACKENDS_CUDA_STREAM_H

#include <cuda_runtime_api.h>

#include <stdint.h>

/* Finds the number of a stream, by which a handle that was destroyed and made again is told from the one
   before, as cudaStreamGetId() does, which is of CUDA 12. *out_id is 0 with an older toolkit. */
cudaError_t dao_cuda_stream_id(cudaStream_t stream, unsigned long long *out_id);

/* Makes the stream wait until *word, of a device address, is `value` or after it, as numbers that wrap around
   are. cudaErrorNotSupported: the driver or the device cannot do that; nothing is queued then. */
cudaError_t dao_cuda_stream_wait_word(cudaStream_t stream, void *word, uint32_t value);

#endif

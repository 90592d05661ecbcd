/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a stream, by which a handle that was destroyed and made again is told from the one before. */
#ifndef DAO_BACKENDS_HIP_STREAM_ID_H
#define DAO_BACKENDS_HIP_STREAM_ID_H

#include <hip/hip_runtime_api.h>

/* As hipStreamGetId(), which is of HIP 7.1. *out_id is 0 with an older one; up to HIP 6 a destroyed handle is
   hipErrorInvalidHandle then. */
hipError_t dao_hip_stream_id(hipStream_t stream, unsigned long long *out_id);

#endif

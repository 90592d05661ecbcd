/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/hip/stream_id.h"

#if HIP_VERSION >= 70100000
hipError_t dao_hip_stream_id(hipStream_t stream, unsigned long long *out_id)
{
    return hipStreamGetId(stream, out_id);
}
#else
/* Up to HIP 6 a call on a destroyed stream answers as one on a lost device. The default stream tells the two
   apart: it has no flags to ask for, but on a lost device its answer is the same. */
hipError_t dao_hip_stream_id(hipStream_t stream, unsigned long long *out_id)
{
    unsigned flags = 0;
    hipError_t error = hipStreamGetFlags(stream, &flags);
    if (error == hipErrorContextIsDestroyed && hipStreamGetFlags(NULL, &flags) != error) {
        error = hipErrorInvalidHandle;
    }
    *out_id = 0;
    return error;
}
#endif

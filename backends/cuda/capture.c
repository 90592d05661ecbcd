/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/capture.h"

/* From this version on, the query has one name and one more argument. */
#define ASKS_FOR_EDGES 13000

cudaError_t dao_cuda_stream_get_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                                             unsigned long long *out_id)
{
#if CUDART_VERSION >= ASKS_FOR_EDGES
    return cudaStreamGetCaptureInfo(stream, out_status, out_id, NULL, NULL, NULL, NULL);
#else
    return cudaStreamGetCaptureInfo_v2(stream, out_status, out_id, NULL, NULL, NULL);
#endif
}

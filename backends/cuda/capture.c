#include "backends/cuda/capture.h"

#include "backends/backend.h"

/* From then on the question has one name and one argument more. */
#define ASKS_FOR_EDGES 13000

static cudaError_t ask(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                       unsigned long long *out_id)
{
#if CUDART_VERSION >= ASKS_FOR_EDGES
    return cudaStreamGetCaptureInfo(stream, out_status, out_id, NULL, NULL, NULL, NULL);
#else
    return cudaStreamGetCaptureInfo_v2(stream, out_status, out_id, NULL, NULL, NULL);
#endif
}

cudaError_t dao_cuda_stream_capture(cudaStream_t stream, uint64_t *out_capture)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    cudaError_t error = ask(stream, &status, &id);
    if (error == cudaErrorStreamCaptureImplicit) {
        (void)cudaGetLastError(); /* it is an answer */
        status = cudaStreamCaptureStatusInvalidated;
        error = cudaSuccess;
    }
    if (error == cudaSuccess) {
        *out_capture = status == cudaStreamCaptureStatusNone     ? 0
                       : status == cudaStreamCaptureStatusActive ? id
                                                                 : DAO_CAPTURE_UNKNOWN;
    }
    return error;
}

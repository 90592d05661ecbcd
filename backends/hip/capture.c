#include "backends/hip/capture.h"

#include "backends/backend.h"

hipError_t dao_hip_stream_capture(hipStream_t stream, uint64_t *out_capture)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    unsigned long long id = 0;
    hipError_t error = hipStreamGetCaptureInfo(stream, &status, &id);
    if (error == hipErrorStreamCaptureImplicit) {
        (void)hipGetLastError(); /* it is an answer */
        status = hipStreamCaptureStatusInvalidated;
        error = hipSuccess;
    }
    if (error == hipSuccess) {
        *out_capture = status == hipStreamCaptureStatusNone     ? 0
                       : status == hipStreamCaptureStatusActive ? id
                                                                : DAO_CAPTURE_UNKNOWN;
    }
    return error;
}

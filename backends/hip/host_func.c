/* SPDX-License-Identifier: Apache-2.0 */
/* A host function as a stream callback. The callback gets one pointer, so function and argument travel in a
   box, which the callback frees. */
#include "backends/hip/host_func.h"

#include "base/memory/host.h"

typedef struct box {
    hipHostFn_t function;
    void *user;
} box_t;

static void run_box(hipStream_t stream, hipError_t error, void *user)
{
    (void)stream;
    (void)error; /* reported to whoever synchronizes the stream */
    box_t box = *(box_t *)user;
    dao_host_free(user);
    box.function(box.user);
}

/* A graph would run the callback more than once, but the first run frees the box. */
static hipError_t check_capture(hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    unsigned long long id = 0;
    hipError_t error = hipStreamGetCaptureInfo(stream, &status, &id);
    bool is_captured = error == hipErrorStreamCaptureImplicit || status != hipStreamCaptureStatusNone;
    return is_captured ? hipErrorStreamCaptureUnsupported : error;
}

hipError_t dao_hip_launch_host_func(hipStream_t stream, hipHostFn_t function, void *user)
{
    hipError_t capture_error = check_capture(stream);
    if (capture_error != hipSuccess) {
        return capture_error;
    }
    box_t *box = dao_host_calloc(1, sizeof(*box));
    if (box == NULL) {
        return hipErrorMemoryAllocation;
    }
    *box = (box_t){.function = function, .user = user};
    hipError_t error = hipStreamAddCallback(stream, run_box, box, 0);
    if (error != hipSuccess) {
        dao_host_free(box);
    }
    return error;
}

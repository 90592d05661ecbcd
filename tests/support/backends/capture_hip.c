/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/backends/capture.h"

#include <hip/hip_runtime_api.h>

bool capture_begin(void *native)
{
    return hipStreamBeginCapture((hipStream_t)native, hipStreamCaptureModeGlobal) == hipSuccess;
}

bool capture_end(void *native)
{
    hipGraph_t graph = NULL;
    bool is_whole = hipStreamEndCapture((hipStream_t)native, &graph) == hipSuccess && graph != NULL;
    return is_whole && hipGraphDestroy(graph) == hipSuccess;
}

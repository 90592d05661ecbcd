/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/backends/capture.h"

#include <cuda_runtime_api.h>

bool capture_begin(void *native)
{
    return cudaStreamBeginCapture((cudaStream_t)native, cudaStreamCaptureModeGlobal) == cudaSuccess;
}

bool capture_end(void *native)
{
    cudaGraph_t graph = NULL;
    bool is_whole = cudaStreamEndCapture((cudaStream_t)native, &graph) == cudaSuccess && graph != NULL;
    return is_whole && cudaGraphDestroy(graph) == cudaSuccess;
}

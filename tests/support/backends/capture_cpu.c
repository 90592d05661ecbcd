/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/backends/capture.h"

#include "tests/loopback/names/own.h"

#include <stddef.h>

bool capture_begin(void *native)
{
    return loopback_stream_begin_capture(native, LOOPBACK_CAPTURE_GLOBAL) == LOOPBACK_SUCCESS;
}

bool capture_end(void *native)
{
    void *graph = NULL;
    return loopback_stream_end_capture(native, &graph) == LOOPBACK_SUCCESS && graph != NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* CuPy's allocator of C functions over stream_memory.h. */
#include "integrations/cupy/dao_cupy.h"

#include "integrations/stream_memory.h"

static const char who[] = "dao_cupy";

void *dao_cupy_alloc(void *stream, size_t size_bytes, int device)
{
    return dao_stream_memory_alloc(who, device, size_bytes, stream);
}

void dao_cupy_free(void *stream, void *address, int device)
{
    dao_stream_memory_free(who, device, address, stream);
}

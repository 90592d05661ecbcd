/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/executor/tiers/small_pages.h"

#include "base/memory/host.h"
#include "base/report/error.h"

static dao_backend_ops_t table;

static dao_status_t prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                            size_t *out_page_bytes)
{
    (void)device;
    size_t whole_bytes = size_bytes - size_bytes % SMALL_PAGE_BYTES;
    if ((uintptr_t)base % SMALL_PAGE_BYTES != 0 || whole_bytes == 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "%zu bytes at %p have no whole page", size_bytes, base);
    }
    if (!table.has_no_bytes && !dao_host_share(base, whole_bytes)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refused %zu bytes", whole_bytes);
    }
    *out_page_bytes = SMALL_PAGE_BYTES;
    return DAO_OK;
}

const dao_backend_ops_t *small_pages_wrap(const dao_backend_ops_t *ops)
{
    table = *ops;
    table.alias_prepare = prepare;
    return &table;
}

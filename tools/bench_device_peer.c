/* The library as one of those who are measured: its public pointer API on the device that keeps books. */
#include "tools/bench.h"

#include "runtime/runtime_internal.h"
#include "tools/bench_device.h"

#include <dao/dao.h>

static void *device_alloc(size_t size_bytes)
{
    return dao_alloc(dao_device_place(0), size_bytes);
}

static void device_free(void *address)
{
    (void)dao_free(dao_device_place(0), address); /* a trace frees what it has allocated, once */
}

const dao_bench_peer_t dao_bench_strategies[] = {
    {"good_fit", true, device_alloc, device_free},
};

const size_t dao_bench_strategy_count = sizeof(dao_bench_strategies) / sizeof(dao_bench_strategies[0]);

/* One contiguous segment is all of the device, taken and given back to the cache. */
static dao_status_t take_all(uint64_t device_bytes)
{
    void *all = device_alloc((size_t)device_bytes);
    if (all == NULL) {
        return dao_last_status();
    }
    device_free(all);
    return DAO_OK;
}

dao_status_t dao_bench_device_start(const dao_bench_peer_t *peer, uint64_t device_bytes, bool has_pages)
{
    dao_config_t config = {.cpu = {.device_bytes = device_bytes, .no_page_mapping = !has_pages}};
    (void)peer;
    dao_status_t status = dao_context_start(&config, &dao_bench_device_ops);
    if (status == DAO_OK && !has_pages) {
        status = take_all(device_bytes);
        if (status != DAO_OK) {
            dao_bench_device_stop();
        }
    }
    return status;
}

void dao_bench_device_stop(void)
{
    (void)dao_finalize(); /* blocks that are still live go with it */
}

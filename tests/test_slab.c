/* The small front: the contract over three inner allocators, and what is its own. */
#include "allocators/buddy.h"
#include "allocators/caching.h"
#include "allocators/host.h"
#include "allocators/slab.h"
#include "allocators/slabs.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/heap_backend.h"

#define CAPACITY_BYTES (256 * MIB)

static heap_backend_t *heap;

/* ---- the contract ---- */

/* Stacks the front over what was made, or takes that down again. */
static dao_status_t stack(dao_allocator_t *inner, dao_allocator_t **out_allocator)
{
    dao_status_t status = dao_slab_create(inner, "device:0", out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

static dao_status_t over_caching_create(uint64_t page_bytes, dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, page_bytes);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_allocator_t *inner = NULL;
    dao_status_t status =
        dao_caching_create(heap_backend_ops(heap), heap_backend_device(heap), "device:0", &inner);
    if (status == DAO_OK) {
        status = stack(inner, out_allocator);
    }
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static dao_status_t over_pages_create(dao_allocator_t **out_allocator)
{
    return over_caching_create(DAO_PAGE_BYTES, out_allocator);
}

static dao_status_t over_segments_create(dao_allocator_t **out_allocator)
{
    return over_caching_create(0, out_allocator);
}

static void over_caching_destroy(dao_allocator_t *slab)
{
    slab->ops->destroy(slab);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static dao_status_t over_host_create(dao_allocator_t **out_allocator)
{
    dao_allocator_t *inner = NULL;
    dao_status_t status = dao_host_allocator_create("cpu", &inner);
    return status == DAO_OK ? stack(inner, out_allocator) : status;
}

static void over_host_destroy(dao_allocator_t *slab)
{
    slab->ops->destroy(slab);
}

static void contract_begin(const allocator_contract_t *contract)
{
    allocator_contract_set(contract);
    allocator_contract_begin();
}

static void over_pages_begin(void)
{
    static const allocator_contract_t contract = {
        .create = over_pages_create, .destroy = over_caching_destroy, .alignment_bytes = 256};
    contract_begin(&contract);
}

static void over_segments_begin(void)
{
    static const allocator_contract_t contract = {
        .create = over_segments_create, .destroy = over_caching_destroy, .alignment_bytes = 256};
    contract_begin(&contract);
}

static void over_host_begin(void)
{
    static const allocator_contract_t contract = {
        .create = over_host_create, .destroy = over_host_destroy, .alignment_bytes = 64};
    contract_begin(&contract);
}

int main(void)
{
    CU_SuiteInfo suites[] = {{"slab over pages, contract", NULL, NULL, over_pages_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"slab over segments, contract", NULL, NULL, over_segments_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"slab over host, contract", NULL, NULL, over_host_begin, allocator_contract_end,
                              allocator_contract_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX: ranges in a domain of their own, and its extension for memory, by which compute-sanitizer tells the
   blocks of a pool apart. Both are headers alone; without a tool each call is a look at a function
   pointer. */
#include "runtime/observe/annotate.h"

#define NVTX_AS_SYSTEM_HEADER
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

static nvtxDomainHandle_t domain(void)
{
    static _Atomic(nvtxDomainHandle_t) created;
    nvtxDomainHandle_t handle = atomic_load_explicit(&created, memory_order_acquire);
    if (handle == NULL) {
        handle = nvtxDomainCreateA(
            "dao"); /* the same one for the same name, if two threads are here; NULL without a tool */
        atomic_store_explicit(&created, handle, memory_order_release);
    }
    return handle;
}

static void range_push(const char *name)
{
    nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    (void)nvtxDomainRangePushEx(domain(), &attributes);
}

static void range_pop(void)
{
    (void)nvtxDomainRangePop(domain());
}

static void *heap_register(void *address, size_t size_bytes, const char *name)
{
    nvtxMemVirtualRangeDesc_t range = {.size = size_bytes, .ptr = address};
    nvtxMemHeapDesc_t heap = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(heap),
        .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
        .type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .typeSpecificDescSize = sizeof(range),
        .typeSpecificDesc = &range,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    return nvtxMemHeapRegister(domain(), &heap);
}

static void heap_unregister(void *heap)
{
    nvtxMemHeapUnregister(domain(), heap);
}

static void block_register(void *heap, const void *address, size_t size_bytes)
{
    nvtxMemVirtualRangeDesc_t range = {.size = size_bytes, .ptr = address};
    nvtxMemRegionsRegisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(batch),
        .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
        .heap = heap,
        .regionCount = 1,
        .regionDescElementSize = sizeof(range),
        .regionDescElements = &range,
    };
    nvtxMemRegionsRegister(domain(), &batch);
}

static void block_unregister(const void *address)
{
    nvtxMemRegionRef_t block = {.pointer = address};
    nvtxMemRegionsUnregisterBatch_t batch = {
        .extCompatID = NVTX_EXT_COMPATID_MEM,
        .structSize = sizeof(batch),
        .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
        .refCount = 1,
        .refElementSize = sizeof(block),
        .refElements = &block,
    };
    nvtxMemRegionsUnregister(domain(), &batch);
}

const dao_annotator_t dao_annotator = {
    .range_push = range_push,
    .range_pop = range_pop,
    .heap_register = heap_register,
    .heap_unregister = heap_unregister,
    .block_register = block_register,
    .block_unregister = block_unregister,
};

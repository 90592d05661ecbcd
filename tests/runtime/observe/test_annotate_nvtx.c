/* SPDX-License-Identifier: Apache-2.0 */
/* What NVTX makes of it: a tool that is linked in, as NVTX looks for one, gets ranges by name, heaps and
   regions. */
#define NVTX_AS_SYSTEM_HEADER
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

#include "runtime/observe/annotate.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

/* ---- the tool ---- */

static char domain_name[32];
static char range_name[32];
static char heap_name[32];
static int depth;
static nvtxMemVirtualRangeDesc_t heap_range, block_range;
static const void *unregistered_block;
static void *unregistered_heap;
static int the_domain, the_heap;

static nvtxDomainHandle_t NVTX_API tool_domain_create(const char *name)
{
    (void)snprintf(domain_name, sizeof(domain_name), "%s", name);
    return (nvtxDomainHandle_t)(void *)&the_domain;
}

static int NVTX_API tool_range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    CU_ASSERT_PTR_EQUAL(domain, &the_domain);
    CU_ASSERT_EQUAL(attributes->messageType, NVTX_MESSAGE_TYPE_ASCII);
    (void)snprintf(range_name, sizeof(range_name), "%s", attributes->message.ascii);
    return depth++;
}

static int NVTX_API tool_range_pop(nvtxDomainHandle_t domain)
{
    CU_ASSERT_PTR_EQUAL(domain, &the_domain);
    return --depth;
}

static nvtxMemHeapHandle_t tool_heap_register(nvtxDomainHandle_t domain, const nvtxMemHeapDesc_t *heap)
{
    (void)domain;
    CU_ASSERT_EQUAL(heap->usage, NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR);
    CU_ASSERT_EQUAL(heap->typeSpecificDescSize, sizeof(heap_range));
    memcpy(&heap_range, heap->typeSpecificDesc, sizeof(heap_range));
    (void)snprintf(heap_name, sizeof(heap_name), "%s", heap->message.ascii);
    return (nvtxMemHeapHandle_t)(void *)&the_heap;
}

static void tool_heap_unregister(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap)
{
    (void)domain;
    unregistered_heap = heap;
}

static void tool_regions_register(nvtxDomainHandle_t domain, const nvtxMemRegionsRegisterBatch_t *batch)
{
    (void)domain;
    CU_ASSERT_PTR_EQUAL(batch->heap, &the_heap);
    CU_ASSERT_EQUAL(batch->regionCount, 1);
    memcpy(&block_range, batch->regionDescElements, sizeof(block_range));
}

static void tool_regions_unregister(nvtxDomainHandle_t domain, const nvtxMemRegionsUnregisterBatch_t *batch)
{
    (void)domain;
    CU_ASSERT_EQUAL(batch->refType, NVTX_MEM_REGION_REF_TYPE_POINTER);
    unregistered_block = batch->refElements[0].pointer;
}

/* Puts a function of the tool where NVTX calls it from. */
static void core_set(NvtxFunctionTable table, unsigned number, void (*function)(void))
{
    *table[number] = function;
}

static int NVTX_API tool_attach(NvtxGetExportTableFunc_t export_table)
{
    const NvtxExportTableCallbacks *callbacks = export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) {
        return 0;
    }
    core_set(table, NVTX_CBID_CORE2_DomainCreateA, (void (*)(void))tool_domain_create);
    core_set(table, NVTX_CBID_CORE2_DomainRangePushEx, (void (*)(void))tool_range_push);
    core_set(table, NVTX_CBID_CORE2_DomainRangePop, (void (*)(void))tool_range_pop);
    return 1;
}

static int NVTX_API tool_extension_attach(nvtxExtModuleInfo_t *module)
{
    if (module->moduleId != NVTX_EXT_MODULEID_MEM) {
        return 0;
    }
    intptr_t *slots = module->segments[0].functionSlots;
    slots[NVTX3EXT_CBID_nvtxMemHeapRegister] = (intptr_t)tool_heap_register;
    slots[NVTX3EXT_CBID_nvtxMemHeapUnregister] = (intptr_t)tool_heap_unregister;
    slots[NVTX3EXT_CBID_nvtxMemRegionsRegister] = (intptr_t)tool_regions_register;
    slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = (intptr_t)tool_regions_unregister;
    return 1;
}

/* The library's calls look at these before the first of them. */
static int tool_offer(void)
{
    InitializeInjectionNvtx2_fnptr = tool_attach;
    InitializeInjectionNvtxExtension_fnptr = tool_extension_attach;
    return 0;
}

/* ---- the tests ---- */

static void ranges_have_names_and_a_domain(void)
{
    dao_annotator.range_push("outer");
    CU_ASSERT_STRING_EQUAL(domain_name, "dao");
    CU_ASSERT_STRING_EQUAL(range_name, "outer");
    dao_annotator.range_push("inner");
    CU_ASSERT_STRING_EQUAL(range_name, "inner");
    CU_ASSERT_EQUAL(depth, 2);
    dao_annotator.range_pop();
    dao_annotator.range_pop();
    CU_ASSERT_EQUAL(depth, 0);
}

static void memory_is_a_heap_and_a_block_a_region(void)
{
    static char memory[4096];
    void *heap = dao_annotator.heap_register(memory, sizeof(memory), "device:3");
    CU_ASSERT_PTR_EQUAL(heap_range.ptr, memory);
    CU_ASSERT_EQUAL(heap_range.size, sizeof(memory));
    CU_ASSERT_STRING_EQUAL(heap_name, "device:3");
    dao_annotator.block_register(heap, memory + 256, 100);
    CU_ASSERT_PTR_EQUAL(block_range.ptr, memory + 256);
    CU_ASSERT_EQUAL(block_range.size, 100);
    dao_annotator.block_unregister(memory + 256);
    CU_ASSERT_PTR_EQUAL(unregistered_block, memory + 256);
    dao_annotator.heap_unregister(heap);
    CU_ASSERT_PTR_EQUAL(unregistered_heap, heap);
}

static CU_TestInfo tests[] = {
    {"ranges have names and a domain", ranges_have_names_and_a_domain},
    {"memory is a heap, and a block a region", memory_is_a_heap_and_a_block_a_region},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"nvtx", tool_offer, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies with CUDA 12.8 and 12.9, whose call told by one argument more which copy had failed: the
   library's source for them is compiled here whatever the toolkit is, over the call as those versions declare
   it. */
#include <cuda_runtime_api.h>

#include "tests/support/suite.h"

#include <stdbool.h>

#if CUDART_VERSION >= 12080

/* What the call was given, and what it answers. */
static struct {
    void **dsts;
    void **srcs;
    size_t *sizes;
    size_t count;
    struct cudaMemcpyAttributes attributes;
    size_t first;
    size_t attributes_count;
    bool has_failed_index;
    cudaStream_t stream;
    int call_count;
} seen;
static cudaError_t answer;

static cudaError_t batch_of_12_8(void **dsts, void **srcs, size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attributes, size_t *firsts,
                                 size_t attributes_count, size_t *out_failed_index, cudaStream_t stream)
{
    seen.dsts = dsts;
    seen.srcs = srcs;
    seen.sizes = sizes;
    seen.count = count;
    seen.attributes = *attributes;
    seen.first = *firsts;
    seen.attributes_count = attributes_count;
    seen.has_failed_index = out_failed_index != NULL;
    seen.stream = stream;
    seen.call_count++;
    return answer;
}

#define DAO_CUDA_BATCH_VERSION 12080
#define cudaMemcpyBatchAsync   batch_of_12_8
#define dao_cuda_copy_batch    copy_batch_of_12_8
#include "backends/cuda/batch.c"

static void the_call_is_given_all_that_it_asks_for(void)
{
    void *dsts[2] = {&dsts, &seen};
    const void *srcs[2] = {&srcs, &answer};
    size_t sizes[2] = {1, 2};
    cudaStream_t stream = (cudaStream_t)(void *)&seen;
    answer = cudaSuccess;
    seen.call_count = 0;
    CU_ASSERT_EQUAL(copy_batch_of_12_8(dsts, srcs, sizes, 2, stream), cudaSuccess);
    CU_ASSERT_EQUAL(seen.call_count, 1);
    CU_ASSERT_PTR_EQUAL(seen.dsts, dsts);
    CU_ASSERT_PTR_EQUAL((const void *)seen.srcs, (const void *)srcs);
    CU_ASSERT_PTR_EQUAL(seen.sizes, sizes);
    CU_ASSERT_EQUAL(seen.count, 2);
    CU_ASSERT_EQUAL(seen.attributes.srcAccessOrder, cudaMemcpySrcAccessOrderStream);
    CU_ASSERT_TRUE(seen.first == 0 && seen.attributes_count == 1 && seen.has_failed_index);
    CU_ASSERT_PTR_EQUAL(seen.stream, stream);
}

static void what_it_cannot_do_is_unsupported(void)
{
    void *dst = &seen;
    const void *src = &answer;
    size_t size = 1;
    answer = cudaErrorCallRequiresNewerDriver;
    CU_ASSERT_EQUAL(copy_batch_of_12_8(&dst, &src, &size, 1, (cudaStream_t)(void *)&seen),
                    cudaErrorNotSupported);
    answer = cudaErrorInvalidValue;
    CU_ASSERT_EQUAL(copy_batch_of_12_8(&dst, &src, &size, 1, (cudaStream_t)(void *)&seen),
                    cudaErrorInvalidValue);
    seen.call_count = 0;
    CU_ASSERT_EQUAL(copy_batch_of_12_8(&dst, &src, &size, 1, NULL), cudaErrorNotSupported);
    CU_ASSERT_EQUAL(copy_batch_of_12_8(&dst, &src, &size, 1, cudaStreamLegacy), cudaErrorNotSupported);
    CU_ASSERT_EQUAL(seen.call_count, 0);
}

static CU_TestInfo tests[] = {
    {"the call is given all that it asks for", the_call_is_given_all_that_it_asks_for},
    {"what it cannot do is unsupported", what_it_cannot_do_is_unsupported},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"CUDA 12.8's batches", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

#else /* a toolkit without the types of that call: there is nothing to compile it with */

#include <stdio.h>

int main(void)
{
    (void)puts("skipped: the toolkit is older than batches of copies");
    return 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/allocators/manual_fences.h"

#include "tests/support/suite.h"

dao_stream_fences_t *fences;

void fences_begin(void)
{
    manual_begin();
    CU_ASSERT_EQUAL_FATAL(dao_stream_fences_create(&manual_ops, NULL, &fences), DAO_OK);
}

void fences_end(void)
{
    CU_ASSERT_TRUE(dao_stream_fences_is_valid(fences));
    dao_stream_fences_destroy(fences);
    manual_end();
}

uint32_t stream_new(manual_stream_t **out_stream)
{
    *out_stream = manual_new();
    uint32_t number = 0;
    CU_ASSERT_EQUAL_FATAL(
        dao_stream_fences_stream_add(fences, (dao_backend_stream_t *)(void *)*out_stream, &number), DAO_OK);
    return number;
}

void work_on(manual_stream_t *stream)
{
    manual_queue(stream, (command_t){.kind = COMMAND_WORK});
}

dao_stream_fence_t work_and_free(uint32_t number, manual_stream_t *stream)
{
    work_on(stream);
    dao_stream_fence_t fence = dao_stream_fences_mark(fences, number);
    dao_stream_fences_record(fences, &fence);
    return fence;
}

void poll_all(void)
{
    manual_run_to_the_end();
    for (int i = 0; i < 3; i++) { /* events are recorded, reached, and asked */
        (void)dao_stream_fences_poll(fences);
        manual_run_to_the_end();
    }
}

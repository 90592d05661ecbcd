/* SPDX-License-Identifier: Apache-2.0 */
/* Streams beyond the lines of a table of stream fences, over a device of manual_streams: what they wait for,
   and what waits for them. At random they are in test_stream_fence. */
#include "tests/allocators/manual_fences.h"
#include "tests/support/suite.h"

#include <string.h>

/* ---- helpers ---- */

static uint32_t a;               /* a number, of a line of its own */
static manual_stream_t *la, *lb; /* its stream, and that of the line behind it */

/* Each line has a stream. */
static void begin(void)
{
    fences_begin();
    a = stream_new(&la);
    (void)stream_new(&lb);
    manual_stream_t *manual;
    while (stream_new(&manual) < DAO_STREAM_FENCE_CROWD - 1) {
    }
}

static void streams_beyond_the_lines_are_a_crowd(void)
{
    manual_stream_t *manuals[40];
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t number = stream_new(&manuals[i]);
        CU_ASSERT_EQUAL(number, DAO_STREAM_FENCE_CROWD + 1 + i);
        CU_ASSERT_EQUAL(dao_stream_fence_line(number), DAO_STREAM_FENCE_CROWD);
    }
    uint64_t stream_count, pending_count;
    dao_stream_fences_count(fences, &stream_count, &pending_count);
    CU_ASSERT_EQUAL(stream_count, DAO_STREAM_FENCE_CROWD - 1 + 40);
    CU_ASSERT_EQUAL(pending_count, 0);
    manual_stream_t *manual;
    dao_stream_fences_stream_remove(fences, 17); /* a line is used again before the crowd grows */
    CU_ASSERT_EQUAL(stream_new(&manual), 17);
    dao_stream_fences_stream_remove(fences, DAO_STREAM_FENCE_CROWD + 3);
    CU_ASSERT_EQUAL(stream_new(&manual), DAO_STREAM_FENCE_CROWD + 3);
}

static void one_of_a_crowd_waits_for_what_others_of_it_freed(void)
{
    manual_stream_t *lm, *ln;
    uint32_t m = stream_new(&lm), n = stream_new(&ln);
    dao_stream_fence_t fence = work_and_free(m, lm);
    CU_ASSERT_FALSE(dao_stream_fence_follows(&fence, m));
    CU_ASSERT_FALSE(dao_stream_fence_follows(&fence, n));
    lm->is_hung = true;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, n), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, a), DAO_OK);
    work_on(ln);
    work_on(la);
    work_on(lb); /* has waited for nothing */
    manual_run_to_the_end();
    CU_ASSERT_TRUE(ln->next < ln->count && la->next < la->count && lb->next == lb->count);
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences));
    lm->is_hung = false;
    manual_run_to_the_end();
    CU_ASSERT_TRUE(ln->next == ln->count && la->next == la->count);
    CU_ASSERT_TRUE(dao_stream_fences_poll(fences) && dao_stream_fences_is_done(fences, &fence));
}

static void a_crowd_waits_once_for_a_free_and_again_for_what_is_shared(void)
{
    manual_stream_t *lm, *ln;
    uint32_t m = stream_new(&lm), n = stream_new(&ln);
    (void)work_and_free(m, lm);
    uint32_t count = lm->count; /* its work, and the event for the crowd's stream */
    (void)work_and_free(n, ln);
    CU_ASSERT_EQUAL(lm->count, count);
    dao_stream_fences_share(fences, m);
    for (uint32_t i = 1; i <= 3; i++) {
        work_on(lm);
        dao_stream_fence_t fence =
            dao_stream_fences_mark(fences, a); /* of a block that is in use on m, too */
        fence.streams |= UINT64_C(1) << dao_stream_fence_line(m);
        dao_stream_fences_record(fences, &fence);
        CU_ASSERT_EQUAL(lm->count, count + 2 * i);
    }
}

static void what_the_host_has_waited_for_the_crowd_does_not(void)
{
    manual_stream_t *lm;
    uint32_t m = stream_new(&lm);
    work_on(lm);
    (void)dao_stream_fences_mark(fences, m);
    uint64_t epoch = dao_stream_fences_close(fences);
    manual_run_to_the_end();
    dao_stream_fences_finished(fences, m, epoch);
    uint32_t count = lm->count;
    (void)dao_stream_fences_poll(fences); /* an event of the crowd, which has nothing to wait for */
    CU_ASSERT_EQUAL(lm->count, count);
    work_on(lm);
    (void)dao_stream_fences_mark(fences, m);
    dao_stream_fences_finished(fences, m, epoch); /* before this free */
    dao_stream_fence_t pending = dao_stream_fences_pending(fences);
    dao_stream_fences_record(fences, &pending);
    CU_ASSERT_EQUAL(lm->count, count + 2);
}

static void a_crowd_that_is_gone_holds_nothing(void)
{
    manual_stream_t *lm, *ln;
    uint32_t m = stream_new(&lm), n = stream_new(&ln);
    dao_stream_fence_t fence = work_and_free(m, lm);
    manual_run_to_the_end();
    dao_stream_fences_stream_remove(fences, m);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence)); /* it might be the other one's */
    dao_stream_fences_share(fences, n);
    dao_stream_fences_stream_remove(fences, n);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    (void)work_and_free(a, la);
    poll_all();
    dao_stream_fence_t pending = dao_stream_fences_pending(fences);
    CU_ASSERT_EQUAL(pending.streams, 0); /* nobody of the crowd uses what others free */
    (void)work_and_free(a, la);
    pending = dao_stream_fences_pending(fences);
    CU_ASSERT_EQUAL(pending.streams, UINT64_C(1) << a);
}

static void what_one_of_a_crowd_frees_in_a_capture_nobody_has(void)
{
    manual_stream_t *lm, *ln;
    uint32_t m = stream_new(&lm), n = stream_new(&ln);
    lm->capture = 7;
    dao_stream_fence_t fence = work_and_free(m, lm);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, n), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, a), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, m), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "captured"));
    lm->capture = 0;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, n), DAO_OK);
    manual_run_to_the_end();
    ln->capture = 8; /* its graph cannot wait: the host does */
    uint32_t count = ln->count;
    fence = work_and_free(m, lm);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, n), DAO_OK);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(ln->count, count);
}

static void one_of_a_crowd_that_is_gone_is_waited_for_on_the_host(void)
{
    manual_stream_t *lm, *ln;
    uint32_t m = stream_new(&lm), n = stream_new(&ln);
    work_on(lm);
    dao_stream_fence_t fence = dao_stream_fences_mark(fences, m);
    lm->is_gone = true;
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences));
    CU_ASSERT_EQUAL(lm->next, 0);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, n), DAO_OK);
    CU_ASSERT_EQUAL(lm->next, lm->count);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    (void)work_and_free(n, ln); /* for this the crowd's stream can wait again */
    poll_all();
    dao_stream_fence_t pending = dao_stream_fences_pending(fences);
    CU_ASSERT_TRUE(dao_stream_fence_is_empty(&pending));
}

/* Streams have lines or are a crowd after `failing` calls: nothing is lost, whichever fails. */
static void a_crowd_may_fail_to_begin(void)
{
    manual_stream_t *manual = manual_new();
    uint32_t number = 0;
    for (uint64_t n = 0; n < 2; n++) { /* its stream, its event */
        manual_calls_left = n;
        CU_ASSERT_EQUAL(dao_stream_fences_stream_add(fences, (dao_backend_stream_t *)(void *)manual, &number),
                        DAO_ERR_BACKEND);
        CU_ASSERT_EQUAL(number, 0);
    }
    manual_calls_left = UINT64_MAX;
    CU_ASSERT_EQUAL(dao_stream_fences_stream_add(fences, (dao_backend_stream_t *)(void *)manual, &number),
                    DAO_OK);
    CU_ASSERT_EQUAL(number, DAO_STREAM_FENCE_CROWD + 1);
}

static CU_TestInfo tests[] = {
    {"streams beyond the lines are a crowd", streams_beyond_the_lines_are_a_crowd},
    {"one of a crowd waits for what others of it freed", one_of_a_crowd_waits_for_what_others_of_it_freed},
    {"a crowd waits once for a free, and again for what is shared",
     a_crowd_waits_once_for_a_free_and_again_for_what_is_shared},
    {"what the host has waited for the crowd does not", what_the_host_has_waited_for_the_crowd_does_not},
    {"a crowd that is gone holds nothing", a_crowd_that_is_gone_holds_nothing},
    {"what one of a crowd frees in a capture nobody has", what_one_of_a_crowd_frees_in_a_capture_nobody_has},
    {"one of a crowd that is gone is waited for on the host",
     one_of_a_crowd_that_is_gone_is_waited_for_on_the_host},
    {"a crowd may fail to begin", a_crowd_may_fail_to_begin},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"stream crowd", NULL, NULL, begin, fences_end, tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}

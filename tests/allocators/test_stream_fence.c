/* SPDX-License-Identifier: Apache-2.0 */
/* Holds over a device of manual_streams: what must have happened before what is known exactly. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/allocators/manual_fences.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_COUNT 24
#define ROUNDS      4000

/* ---- helpers ---- */

static uint32_t a, b, c;              /* numbers */
static manual_stream_t *la, *lb, *lc; /* their streams */

static void begin(void)
{
    fences_begin();
    a = stream_new(&la);
    b = stream_new(&lb);
    c = stream_new(&lc);
}

/* Makes it known that several streams are active. */
static void be_several(void)
{
    (void)work_and_free(a, la);
    (void)work_and_free(b, lb);
    poll_all();
}

/* ---- one stream ---- */

static void a_stream_alone_makes_no_backend_call(void)
{
    for (int i = 0; i < 1000; i++) {
        dao_stream_fence_t fence = work_and_free(a, la);
        CU_ASSERT_TRUE(dao_stream_fence_is_own(&fence, a));
        CU_ASSERT_FALSE(dao_stream_fence_is_own(&fence, b));
        CU_ASSERT_FALSE(dao_stream_fence_is_own(&fence, 0));
    }
    CU_ASSERT_EQUAL(manual_call_count, 0);
}

static void what_a_stream_alone_freed_is_waited_for_later(void)
{
    dao_stream_fence_t fence = work_and_free(a, la);
    uint32_t position = la->count;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    work_on(lb);
    CU_ASSERT_FALSE(manual_step(lb));
    while (la->next < position) {
        CU_ASSERT_TRUE(manual_step(la));
    }
    CU_ASSERT_TRUE(manual_step(la)); /* the event */
    CU_ASSERT_TRUE(manual_step(lb) && manual_step(lb));
}

static void a_stream_becomes_alone_again(void)
{
    be_several();
    for (uint32_t i = 0; i < DAO_STREAM_FENCE_ALONE_COUNT + 2; i++) {
        (void)work_and_free(a, la);
    }
    uint64_t before = manual_call_count;
    for (int i = 0; i < 100; i++) {
        (void)work_and_free(a, la);
    }
    CU_ASSERT_EQUAL(manual_call_count, before);
    (void)work_and_free(b, lb);
    (void)work_and_free(a, la);
    CU_ASSERT_TRUE(manual_call_count > before);
}

static void idle_streams_fold_back(void)
{
    dao_stream_fence_t fence = work_and_free(a, la);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences)); /* records the event that was missing */
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_TRUE(dao_stream_fences_done_epoch(a, fences) < fence.epoch);
    manual_run_to_the_end();
    CU_ASSERT_TRUE(dao_stream_fences_poll(fences));
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(dao_stream_fences_done_epoch(a, fences), UINT64_MAX);
    uint64_t before = manual_call_count;
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences)); /* nothing is left to ask */
    CU_ASSERT_EQUAL(manual_call_count, before);
}

/* ---- several streams ---- */

static void a_stream_waits_for_the_work_before_the_free_and_no_more(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    uint32_t position = la->count;
    work_on(la); /* never reached */
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    work_on(lb);
    CU_ASSERT_FALSE(manual_step(lb));
    while (la->next < position) {
        CU_ASSERT_TRUE(manual_step(la));
    }
    CU_ASSERT_TRUE(manual_step(lb) && manual_step(lb));
    CU_ASSERT_EQUAL(la->next, position);
}

static void a_joined_fence_waits_for_each_stream_up_to_its_own_last_free(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    uint32_t position = la->count;
    work_on(la); /* never reached */
    dao_stream_fence_t later = work_and_free(b, lb);
    dao_stream_fence_join(&fence, &later);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, c), DAO_OK);
    work_on(lc);
    while (la->next < position) {
        CU_ASSERT_TRUE(manual_step(la));
    }
    while (manual_step(lb)) {
    }
    while (manual_step(lc)) {
    }
    CU_ASSERT_EQUAL(lc->next, lc->count);
    CU_ASSERT_EQUAL(la->next, position);
}

static void a_merged_block_carries_all_its_users(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    dao_stream_fence_t second = work_and_free(b, lb);
    dao_stream_fence_join(&fence, &second);
    lb->is_hung = true;
    manual_run_to_the_end();
    (void)dao_stream_fences_poll(fences);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_FALSE(dao_stream_fence_is_own(&fence, a));
    lb->is_hung = false;
    poll_all();
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
}

static void a_hung_stream_holds_its_own_blocks_alone(void)
{
    be_several();
    dao_stream_fence_t hung = work_and_free(a, la);
    dao_stream_fence_t other = work_and_free(b, lb);
    la->is_hung = true;
    poll_all();
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &hung));
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &other));
    dao_stream_fence_t joined = {0};
    dao_stream_fence_join(&joined, &other);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &joined, c), DAO_OK);
    work_on(lc);
    manual_run_to_the_end();
    CU_ASSERT_EQUAL(lc->next, lc->count);
}

static void a_poll_makes_a_bounded_number_of_calls(void)
{
    be_several();
    la->is_hung = true;
    for (int i = 0; i < 500; i++) {
        (void)work_and_free(i % 2 == 0 ? a : b, i % 2 == 0 ? la : lb);
    }
    manual_run_to_the_end();
    uint64_t before = manual_call_count;
    (void)dao_stream_fences_poll(fences);
    CU_ASSERT_TRUE(manual_call_count - before <= 2 * (DAO_STREAM_FENCE_EVENT_MAX + 1));
    CU_ASSERT_TRUE(manual_event_count <= 2 * (DAO_STREAM_FENCE_EVENT_MAX + 1));
}

static void events_that_were_given_up_are_stood_for_by_later_ones(void)
{
    be_several();
    dao_stream_fence_t first = work_and_free(a, la);
    uint32_t position = la->count;
    for (uint32_t i = 0; i < DAO_STREAM_FENCE_EVENT_MAX; i++) {
        (void)work_and_free(a, la);
    }
    uint32_t second_position = position + 2; /* its work and its event */
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &first, b), DAO_OK);
    work_on(lb);
    while (la->next < second_position) {
        CU_ASSERT_FALSE(manual_step(lb));
        CU_ASSERT_TRUE(manual_step(la));
    }
    CU_ASSERT_TRUE(manual_step(lb));
}

static void a_stream_waits_once_for_what_it_has_waited_for(void)
{
    be_several();
    dao_stream_fence_t first = work_and_free(a, la);
    dao_stream_fence_t second = work_and_free(a, la);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &second, b), DAO_OK);
    uint64_t before = manual_call_count;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &second, b), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &first, b), DAO_OK);
    CU_ASSERT_EQUAL(manual_call_count, before);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &first, c), DAO_OK);
    CU_ASSERT_EQUAL(manual_call_count, before + 1);
}

static void a_shared_stream_is_waited_for_up_to_the_free(void)
{
    be_several();
    dao_stream_fences_share(fences, c);
    work_on(lc); /* with a's block */
    uint32_t position = lc->count;
    work_on(la);
    dao_stream_fence_t fence = dao_stream_fences_mark(fences, a);
    fence.streams |= UINT64_C(1) << c; /* as an allocator does with a block that was marked */
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    work_on(lb);
    lc->is_hung = true;
    manual_run_to_the_end();
    CU_ASSERT_TRUE(lb->next < lb->count);
    lc->is_hung = false;
    while (lc->next < position) {
        CU_ASSERT_TRUE(manual_step(lc));
    }
    manual_run_to_the_end();
    CU_ASSERT_EQUAL(lb->next, lb->count);
    poll_all();
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
}

/* ---- waiting on the host ---- */

static void the_host_waits_for_all_streams_of_a_fence(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    dao_stream_fence_t second = work_and_free(b, lb);
    dao_stream_fence_join(&fence, &second);
    (void)work_and_free(c, lc);
    lc->is_hung = true;
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_OK);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    uint64_t before = manual_call_count;
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_OK);
    CU_ASSERT_EQUAL(manual_call_count, before);
}

static void what_is_pending_is_all_that_was_freed_and_is_not_done(void)
{
    be_several();
    dao_stream_fence_t fence = dao_stream_fences_pending(fences);
    CU_ASSERT_TRUE(dao_stream_fence_is_empty(&fence));
    (void)work_and_free(a, la);
    (void)work_and_free(b, lb);
    fence = dao_stream_fences_pending(fences);
    CU_ASSERT_EQUAL(fence.streams, UINT64_C(1) << a | UINT64_C(1) << b);
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_OK);
    CU_ASSERT_EQUAL(la->next, la->count);
    CU_ASSERT_EQUAL(lb->next, lb->count);
    fence = dao_stream_fences_pending(fences);
    CU_ASSERT_TRUE(dao_stream_fence_is_empty(&fence));
}

static void what_the_host_has_waited_for_needs_no_event(void)
{
    dao_stream_fence_t fence = work_and_free(a, la);
    uint64_t epoch = dao_stream_fences_close(fences);
    dao_stream_fence_t later = work_and_free(a, la);
    dao_stream_fence_t other = work_and_free(b, lb);
    manual_run_to_the_end();
    uint64_t before = manual_call_count;
    dao_stream_fences_finished(fences, a, epoch);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &later));
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &other));
    dao_stream_fences_finished(fences, 0, dao_stream_fences_close(fences));
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &later));
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &other));
    CU_ASSERT_EQUAL(manual_call_count, before);
}

static void a_wait_that_fails_is_an_end_too(void)
{
    for (uint64_t n = 0; n < 3; n++) { /* event_create, event_record, event_synchronize */
        dao_stream_fence_t fence = work_and_free(a, la);
        uint32_t position = la->count;
        manual_calls_left = n;
        dao_status_t status = dao_stream_fences_wait(fences, &fence);
        CU_ASSERT_TRUE(manual_calls_left > UINT64_MAX / 2);
        CU_ASSERT_EQUAL(status, n == 2 ? DAO_ERR_BACKEND : DAO_OK);
        CU_ASSERT_TRUE(la->next >= position);
        CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
        if (n == 1) { /* the event of the failed record is spare: the next one needs no new one */
            n = 2;
            fence = work_and_free(a, la);
            manual_calls_left = 1;
            CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_ERR_BACKEND);
            CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
        }
    }
}

static void nothing_is_learnt_where_the_device_must_not_be_asked(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    manual_failure = DAO_ERR_REENTRANT;
    manual_calls_left = 0;
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences));
    manual_calls_left = 0;
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_ERR_REENTRANT);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
}

static void a_poll_leaves_the_last_error_as_it_is(void)
{
    be_several();
    (void)work_and_free(a, la);
    (void)dao_error(DAO_ERR_LIMIT, "what went before");
    manual_calls_left = 0;
    CU_ASSERT_TRUE(dao_stream_fences_poll(fences)); /* the event answers an error: it has finished */
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "what went before");
}

/* ---- streams that are gone ---- */

/* A poll, and whoever frees, would wait under the lock. */
static void what_a_stream_freed_that_is_gone_is_waited_for_without_the_lock(void)
{
    dao_stream_fence_t fence = work_and_free(a, la);
    la->is_gone = true;
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences));
    (void)work_and_free(b, lb); /* now there are several: events are recorded */
    dao_stream_fences_record(fences, &fence);
    CU_ASSERT_EQUAL(la->next, 0);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(la->next, la->count);
}

static void the_host_waits_for_a_stream_that_is_gone(void)
{
    be_several();
    work_on(la);
    dao_stream_fence_t fence = dao_stream_fences_mark(fences, a);
    la->is_gone = true;
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_OK);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(la->next, la->count);
}

/* An event from before stands for its work as it did. */
static void an_event_outlives_its_stream(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    la->is_gone = true;
    la->is_hung = true;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK); /* on the device */
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    la->is_hung = false;
    manual_run_to_the_end();
    CU_ASSERT_TRUE(dao_stream_fences_poll(fences));
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
}

/* ---- captures ---- */

/* A graph may run on another stream than the one that was captured, which waited. */
static void a_stream_of_a_capture_waits_again_for_what_it_waited_for_before(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    lb->capture = 1;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(manual_edge_count, 0);
}

/* An edge covers what is captured, and nothing from before. */
static void streams_of_a_capture_wait_in_it_for_its_own_frees_alone(void)
{
    be_several();
    dao_stream_fence_t before = work_and_free(a, la);
    la->capture = lb->capture = 1;
    dao_stream_fence_t within = dao_stream_fences_mark(fences, a);
    dao_stream_fences_record(fences, &within);
    dao_stream_fence_join(&within, &before);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &within, b), DAO_OK);
    CU_ASSERT_EQUAL(manual_edge_count, 1);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &before));
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &within));
    la->capture = lb->capture = 0;

    before = work_and_free(a, la);
    la->capture = lb->capture = 2;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &before, b), DAO_OK);
    CU_ASSERT_EQUAL(manual_edge_count, 1);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &before));
}

static void captures_that_cannot_be_told_apart_do_not_wait_for_each_other(void)
{
    be_several();
    la->capture = lb->capture = DAO_CAPTURE_UNKNOWN;
    dao_stream_fence_t fence = dao_stream_fences_mark(fences, a);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(manual_edge_count, 0);
}

/* Whoever hears of an error takes the fence as done. */
static void a_capture_is_told_before_an_error(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    lb->capture = 1;
    dao_stream_fence_t captured = dao_stream_fences_mark(fences, b);
    dao_stream_fence_join(&fence, &captured);
    manual_calls_left = 0; /* of a's event */
    CU_ASSERT_EQUAL(dao_stream_fences_wait(fences, &fence), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BUSY);
    CU_ASSERT_TRUE(manual_calls_left > UINT64_MAX / 2);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
}

/* ---- numbers ---- */

/* Streams until each line has one. */
static void use_all_lines(void)
{
    manual_stream_t *manual;
    for (uint32_t i = 4; i < DAO_STREAM_FENCE_CROWD; i++) {
        CU_ASSERT_EQUAL(stream_new(&manual), i);
    }
}

static void a_number_is_used_again(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(c, lc);
    manual_run_to_the_end();
    dao_stream_fences_stream_remove(fences, c);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    manual_stream_t *manual;
    CU_ASSERT_EQUAL_FATAL(stream_new(&manual), c);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    dao_stream_fence_t second = work_and_free(c, manual);
    CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &second));
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &second, a),
                    DAO_OK); /* nobody has waited for the new stream yet */
    work_on(la);
    manual->is_hung = true;
    manual_run_to_the_end();
    CU_ASSERT_TRUE(la->next < la->count);
}

static void a_new_stream_has_waited_for_nothing(void)
{
    be_several();
    dao_stream_fence_t fence = work_and_free(a, la);
    la->is_hung = true;
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, c), DAO_OK);
    dao_stream_fences_stream_remove(fences, c);
    manual_stream_t *manual;
    CU_ASSERT_EQUAL_FATAL(stream_new(&manual), c);
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, c), DAO_OK);
    work_on(manual);
    manual_run_to_the_end();
    CU_ASSERT_TRUE(manual->next < manual->count);
}

/* ---- failures ---- */

static void any_call_may_fail(void)
{
    uint64_t n = 0;
    bool has_failed = true;
    for (; has_failed && n < 100; n++) {
        clock_vector_t *demands = calloc(1, sizeof(*demands));
        CU_ASSERT_PTR_NOT_NULL_FATAL(demands);
        manual_calls_left = n;
        dao_stream_fence_t fence = work_and_free(a, la);
        dao_stream_fence_t second = work_and_free(b, lb);
        dao_stream_fence_join(&fence, &second);
        demands->until[0] = la->count;
        demands->until[1] = lb->count;
        if (dao_stream_fences_wait_on(fences, &fence, c) == DAO_OK) {
            manual_queue(lc, (command_t){.kind = COMMAND_CHECK, .demands = demands});
        } else {
            free(demands);
        }
        CU_ASSERT_TRUE(dao_stream_fences_is_valid(fences));
        (void)dao_stream_fences_poll(fences);
        manual_run_to_the_end();
        (void)dao_stream_fences_poll(fences);
        has_failed = manual_calls_left > UINT64_MAX / 2;
        manual_calls_left = UINT64_MAX;
        CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, c), DAO_OK); /* what failed works now */
        poll_all();
        CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &fence));
    }
    CU_ASSERT_TRUE(n > 5 && n < 100);
}

static void without_host_memory_nothing_is_lost(void)
{
    dao_stream_fences_t *other = NULL;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    dao_status_t status = dao_stream_fences_create(&manual_ops, NULL, &other);
    if (dao_fault_disarm() == 0) { /* a build without fault points */
        CU_ASSERT_EQUAL(status, DAO_OK);
        dao_stream_fences_destroy(other);
        return;
    }
    CU_ASSERT_EQUAL(status, DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_PTR_NULL(other);
    (void)work_and_free(b, lb);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    dao_stream_fence_t fence = work_and_free(a, la);
    CU_ASSERT_FALSE(dao_stream_fences_poll(fences));
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    CU_ASSERT_FALSE(dao_stream_fences_is_done(fences, &fence));
    CU_ASSERT_EQUAL(dao_stream_fences_wait_on(fences, &fence, b), DAO_OK);
    CU_ASSERT_EQUAL(lb->commands[lb->count - 1].kind, COMMAND_WAIT);
}

/* ---- random programs against what must have happened before ---- */

typedef struct random_block {
    dao_stream_fence_t fence;
    clock_vector_t demands;
} random_block_t;

typedef struct random_test {
    uint64_t seed;
    uint32_t numbers[4]; /* of four streams, each with its manual */
    manual_stream_t *manual_streams[4];
    bool is_shared[4];
    random_block_t blocks[BLOCK_COUNT];
    uint32_t block_count;
} random_test_t;

static uint32_t draw(random_test_t *test, uint32_t below)
{
    return (uint32_t)(dao_random_next(&test->seed) % below);
}

static uint32_t index_of(const manual_stream_t *manual)
{
    return (uint32_t)(manual - manual_streams);
}

static void random_free(random_test_t *test)
{
    if (test->block_count == BLOCK_COUNT) {
        return;
    }
    random_block_t *block = &test->blocks[test->block_count++];
    memset(block, 0, sizeof(*block));
    uint32_t owner = draw(test, 4);
    uint32_t user = draw(test, 4);
    uint64_t marked = 0;
    if (draw(test, 4) == 0) {
        dao_stream_fences_share(fences, test->numbers[user]);
        marked = UINT64_C(1) << dao_stream_fence_line(test->numbers[user]);
        work_on(test->manual_streams[user]);
        block->demands.until[index_of(test->manual_streams[user])] = test->manual_streams[user]->count;
    }
    work_on(test->manual_streams[owner]);
    block->demands.until[index_of(test->manual_streams[owner])] = test->manual_streams[owner]->count;
    block->fence = dao_stream_fences_mark(fences, test->numbers[owner]);
    block->fence.streams |= marked;
    if (draw(test, 5) != 0) { /* else somebody takes it before */
        dao_stream_fences_record(fences, &block->fence);
    }
}

/* Two free blocks become one, or one becomes two. */
static void random_merge_or_cut(random_test_t *test)
{
    if (test->block_count < 2) {
        return;
    }
    random_block_t *block = &test->blocks[draw(test, test->block_count - 1)];
    random_block_t *last = &test->blocks[test->block_count - 1];
    if (draw(test, 3) == 0 && test->block_count < BLOCK_COUNT) {
        test->blocks[test->block_count++] = *block;
        return;
    }
    dao_stream_fence_join(&block->fence, &last->fence);
    for (uint32_t i = 0; i < MANUAL_COUNT_MAX; i++) {
        if (last->demands.until[i] > block->demands.until[i]) {
            block->demands.until[i] = last->demands.until[i];
        }
    }
    test->block_count--;
}

/* A stream takes a block, and checks when it gets there that all who used it are done. */
static void random_take(random_test_t *test)
{
    if (test->block_count == 0) {
        return;
    }
    random_block_t block = test->blocks[--test->block_count];
    uint32_t taker = draw(test, 4);
    dao_status_t status = DAO_OK;
    if (!dao_stream_fence_follows(&block.fence, test->numbers[taker])) {
        status = dao_stream_fences_wait_on(fences, &block.fence, test->numbers[taker]);
    }
    if (status != DAO_OK) {
        test->blocks[test->block_count++] = block; /* it is free again, with the same hold */
        return;
    }
    clock_vector_t *demands = malloc(sizeof(*demands));
    CU_ASSERT_PTR_NOT_NULL_FATAL(demands);
    *demands = block.demands;
    manual_queue(test->manual_streams[taker], (command_t){.kind = COMMAND_CHECK, .demands = demands});
}

static void random_wait(random_test_t *test)
{
    if (test->block_count > 0) {
        random_block_t *block = &test->blocks[draw(test, test->block_count)];
        (void)dao_stream_fences_wait(fences, &block->fence); /* one that failed is an end, too */
        CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &block->fence));
        CU_ASSERT_TRUE(manual_meet(&block->demands));
    }
}

/* A stream ends, another one gets its number. */
static void random_replace(random_test_t *test)
{
    if (manual_count == MANUAL_COUNT_MAX) {
        return;
    }
    uint32_t which = draw(test, 4);
    while (test->manual_streams[which]->next < test->manual_streams[which]->count) {
        CU_ASSERT_TRUE_FATAL(manual_step_all());
    }
    dao_stream_fences_stream_remove(fences, test->numbers[which]);
    test->numbers[which] = stream_new(&test->manual_streams[which]);
}

static void random_act(random_test_t *test)
{
    uint32_t action = draw(test, 100);
    if (draw(test, 20) == 0) {
        manual_calls_left = draw(test, 3);
    }
    if (action < 30) {
        random_free(test);
    } else if (action < 40) {
        random_merge_or_cut(test);
    } else if (action < 60) {
        random_take(test);
    } else if (action < 67) {
        (void)dao_stream_fences_poll(fences);
    } else if (action < 69) {
        random_wait(test);
    } else if (action < 70) {
        random_replace(test);
    } else {
        manual_stream_t *manual = test->manual_streams[draw(test, 4)];
        for (uint32_t i = draw(test, 6); i > 0; i--) {
            (void)manual_step(manual);
        }
    }
    manual_calls_left = UINT64_MAX;
}

/* Of its streams the last are new ones. */
static void run_at_random(uint32_t new_count)
{
    static random_test_t test;
    memset(&test, 0, sizeof(test));
    test.seed = dao_test_seed("holds", 20261);
    test.numbers[0] = a, test.numbers[1] = b, test.numbers[2] = c;
    test.manual_streams[0] = la, test.manual_streams[1] = lb, test.manual_streams[2] = lc;
    for (uint32_t i = 4 - new_count; i < 4; i++) {
        test.numbers[i] = stream_new(&test.manual_streams[i]);
    }
    uint32_t done_count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        random_act(&test);
        for (uint32_t i = 0; i < test.block_count; i++) {
            bool is_done = dao_stream_fences_is_done(fences, &test.blocks[i].fence);
            CU_ASSERT_TRUE(!is_done || manual_meet(&test.blocks[i].demands));
            done_count += is_done;
        }
    }
    CU_ASSERT_TRUE(done_count > 0);
    poll_all();
    for (uint32_t i = 0; i < test.block_count; i++) {
        CU_ASSERT_TRUE(dao_stream_fences_is_done(fences, &test.blocks[i].fence));
    }
}

static void nothing_is_used_before_its_users_are_done(void)
{
    run_at_random(1);
}

static void nor_is_it_in_a_crowd(void)
{
    use_all_lines();
    run_at_random(4);
}

static void nor_between_a_crowd_and_others(void)
{
    use_all_lines();
    run_at_random(2);
}

static CU_TestInfo tests[] = {
    {"a stream alone makes no backend call", a_stream_alone_makes_no_backend_call},
    {"what a stream alone freed is waited for later", what_a_stream_alone_freed_is_waited_for_later},
    {"a stream becomes alone again", a_stream_becomes_alone_again},
    {"idle streams fold back", idle_streams_fold_back},
    {"a stream waits for the work before the free, and no more",
     a_stream_waits_for_the_work_before_the_free_and_no_more},
    {"a joined fence waits for each stream up to its own last free",
     a_joined_fence_waits_for_each_stream_up_to_its_own_last_free},
    {"a merged block carries all its users", a_merged_block_carries_all_its_users},
    {"a hung stream holds its own blocks alone", a_hung_stream_holds_its_own_blocks_alone},
    {"a poll makes a bounded number of calls", a_poll_makes_a_bounded_number_of_calls},
    {"events that were given up are stood for by later ones",
     events_that_were_given_up_are_stood_for_by_later_ones},
    {"a stream waits once for what it has waited for", a_stream_waits_once_for_what_it_has_waited_for},
    {"a shared stream is waited for up to the free", a_shared_stream_is_waited_for_up_to_the_free},
    {"the host waits for all streams of a fence", the_host_waits_for_all_streams_of_a_fence},
    {"what is pending is all that was freed and is not done",
     what_is_pending_is_all_that_was_freed_and_is_not_done},
    {"what the host has waited for needs no event", what_the_host_has_waited_for_needs_no_event},
    {"a wait that fails is an end, too", a_wait_that_fails_is_an_end_too},
    {"nothing is learnt where the device must not be asked",
     nothing_is_learnt_where_the_device_must_not_be_asked},
    {"a poll leaves the last error as it is", a_poll_leaves_the_last_error_as_it_is},
    {"what a stream freed that is gone is waited for without the lock",
     what_a_stream_freed_that_is_gone_is_waited_for_without_the_lock},
    {"the host waits for a stream that is gone", the_host_waits_for_a_stream_that_is_gone},
    {"an event outlives its stream", an_event_outlives_its_stream},
    {"a stream of a capture waits again for what it waited for before",
     a_stream_of_a_capture_waits_again_for_what_it_waited_for_before},
    {"streams of a capture wait in it for its own frees alone",
     streams_of_a_capture_wait_in_it_for_its_own_frees_alone},
    {"captures that cannot be told apart do not wait for each other",
     captures_that_cannot_be_told_apart_do_not_wait_for_each_other},
    {"a capture is told before an error", a_capture_is_told_before_an_error},
    {"a number is used again", a_number_is_used_again},
    {"a new stream has waited for nothing", a_new_stream_has_waited_for_nothing},
    {"any call may fail", any_call_may_fail},
    {"without host memory nothing is lost", without_host_memory_nothing_is_lost},
    {"nothing is used before its users are done", nothing_is_used_before_its_users_are_done},
    {"nor is it in a crowd", nor_is_it_in_a_crowd},
    {"nor between a crowd and others", nor_between_a_crowd_and_others},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"holds", NULL, NULL, begin, fences_end, tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}

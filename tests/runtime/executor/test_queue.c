/* SPDX-License-Identifier: Apache-2.0 */
/* The queue between the program's threads and the executor's. */
#include "runtime/executor/queue.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <string.h>

static dao_queue_t queue;
static dao_item_t items[8];

static void start(uint32_t kernel_limit)
{
    memset(items, 0, sizeof(items));
    dao_queue_init(&queue, kernel_limit);
}

static void push_kernel(int i)
{
    CU_ASSERT_EQUAL(dao_queue_push(&queue, &items[i], &items[i], 1), DAO_OK);
}

static void finish_kernels(int count)
{
    for (int i = 0; i < count; i++) {
        dao_queue_finish_kernel(&queue);
    }
}

static void items_come_out_in_the_order_of_their_pushes(void)
{
    start(4);
    CU_ASSERT_PTR_NULL(dao_queue_take(&queue, false));
    push_kernel(0);
    items[1].next = &items[2]; /* a chain of a kernel and a release */
    CU_ASSERT_EQUAL(dao_queue_push(&queue, &items[1], &items[2], 1), DAO_OK);
    push_kernel(3);
    dao_item_t *item = dao_queue_take(&queue, true);
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_PTR_EQUAL_FATAL(item, &items[i]);
        item = item->next;
    }
    CU_ASSERT_PTR_NULL(item);
    CU_ASSERT_PTR_NULL(dao_queue_take(&queue, false));
    finish_kernels(3);
    dao_queue_finish(&queue);
}

static _Atomic int pushed_count;

static void *push_two(void *user)
{
    for (int i = 0; i < 2; i++) {
        dao_status_t status = dao_queue_push(&queue, &((dao_item_t *)user)[i], &((dao_item_t *)user)[i], 1);
        atomic_fetch_add(&pushed_count, status == DAO_OK ? 1 : 100);
    }
    return NULL;
}

static void producers_wait_until_kernels_have_finished(void)
{
    start(1);
    atomic_store(&pushed_count, 0);
    dao_thread_t threads[2];
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[0], "producer", push_two, &items[0]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[1], "producer", push_two, &items[2]), DAO_OK);
    int taken = 0;
    while (taken < 4) {
        dao_item_t *item = dao_queue_take(&queue, true);
        CU_ASSERT_PTR_NOT_NULL_FATAL(item);
        CU_ASSERT_PTR_NULL(item->next); /* never two kernels at once */
        CU_ASSERT_EQUAL(queue.kernel_count, 1);
        CU_ASSERT_PTR_NULL(dao_queue_take(&queue, false)); /* taken is not yet finished */
        taken++;
        dao_queue_finish_kernel(&queue);
    }
    dao_thread_join(&threads[0]);
    dao_thread_join(&threads[1]);
    CU_ASSERT_EQUAL(atomic_load(&pushed_count), 4);
    dao_queue_finish(&queue);
}

static void a_chain_may_be_longer_than_the_queue(void)
{
    start(2);
    for (int i = 0; i < 4; i++) {
        items[i].next = &items[i + 1];
    }
    CU_ASSERT_EQUAL(dao_queue_push(&queue, &items[0], &items[4], 5), DAO_OK);
    CU_ASSERT_EQUAL(dao_queue_push(&queue, &items[5], &items[5], 0),
                    DAO_OK); /* what is no kernel never waits */
    CU_ASSERT_PTR_EQUAL(dao_queue_take(&queue, true), &items[0]);
    finish_kernels(5);
    dao_queue_finish(&queue);
}

static _Atomic bool is_chain_pushed;
static _Atomic int overtaken_count;

static void *push_steadily(void *user)
{
    while (!atomic_load(&is_chain_pushed) && atomic_load(&overtaken_count) < 500) {
        dao_item_t *item = user; /* nobody looks at the links: the consumer only counts */
        if (dao_queue_push(&queue, item, item, 1) == DAO_OK) {
            atomic_fetch_add(&overtaken_count, 1);
        }
    }
    return NULL;
}

static void *push_chain(void *user)
{
    (void)user;
    atomic_store(&is_chain_pushed, dao_queue_push(&queue, &items[0], &items[3], 4) == DAO_OK);
    return NULL;
}

static uint64_t count_kernels(void)
{
    dao_mutex_lock(&queue.lock);
    uint64_t count = queue.kernel_count;
    queue.first = NULL; /* as if they had been taken */
    queue.last = NULL;
    dao_mutex_unlock(&queue.lock);
    return count;
}

/* A producer that keeps the queue full does not keep a long chain out for ever. */
static void a_chain_has_its_turn(void)
{
    start(2);
    atomic_store(&is_chain_pushed, false);
    atomic_store(&overtaken_count, 0);
    dao_thread_t producer;
    dao_thread_t chain;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&producer, "producer", push_steadily, &items[4]), DAO_OK);
    while (count_kernels() < 2) {
        dao_thread_yield();
    }
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&chain, "chain", push_chain, NULL), DAO_OK);
    while (!atomic_load(&is_chain_pushed) && atomic_load(&overtaken_count) < 500) {
        uint64_t give_up_ns =
            dao_clock_ns() + 2000000; /* so long a producer has to take the place that is free */
        while (count_kernels() < 2 && dao_clock_ns() < give_up_ns) {
            dao_thread_yield();
        }
        if (count_kernels() > 0) {
            dao_queue_finish_kernel(&queue);
        }
    }
    CU_ASSERT_TRUE(atomic_load(&overtaken_count) < 500);
    dao_queue_stop(&queue);
    dao_thread_join(&producer);
    dao_thread_join(&chain);
    while (count_kernels() > 0) {
        dao_queue_finish_kernel(&queue);
    }
    dao_queue_finish(&queue);
}

static void a_stopped_queue_refuses_but_keeps_what_it_has(void)
{
    start(1);
    push_kernel(0);
    atomic_store(&pushed_count, 0);
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "producer", push_two, &items[1]),
                          DAO_OK); /* finds it full */
    dao_queue_stop(&queue);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(atomic_load(&pushed_count), 200);
    CU_ASSERT_EQUAL(dao_queue_push(&queue, &items[3], &items[3], 0), DAO_ERR_STOPPED);
    dao_item_t *item = dao_queue_take(&queue, true);
    CU_ASSERT_PTR_EQUAL(item, &items[0]);
    CU_ASSERT_PTR_NULL(items[0].next);
    CU_ASSERT_PTR_NULL(dao_queue_take(&queue, true)); /* and never will be */
    finish_kernels(1);
    dao_queue_finish(&queue);
}

static void *answer_all(void *user)
{
    (void)user;
    dao_item_t *item = NULL;
    while ((item = dao_queue_take(&queue, true)) != NULL) {
        while (item != NULL) {
            dao_item_t *next = item->next; /* the item is gone once it is answered */
            dao_queue_answer(&queue, item->request);
            item = next;
        }
    }
    return NULL;
}

static void *ask_often(void *user)
{
    (void)user;
    for (int i = 0; i < 200; i++) {
        dao_item_t item = {.kind = DAO_ITEM_SYNC};
        dao_request_t request = {0};
        item.request = &request;
        if (dao_queue_push(&queue, &item, &item, 0) == DAO_OK) {
            dao_queue_await(&queue, &request);
            atomic_fetch_add(&pushed_count, 1);
        }
    }
    return NULL;
}

static void every_request_is_answered(void)
{
    start(1);
    atomic_store(&pushed_count, 0);
    dao_thread_t consumer;
    dao_thread_t askers[3];
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&consumer, "consumer", answer_all, NULL), DAO_OK);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&askers[i], "asker", ask_often, NULL), DAO_OK);
    }
    for (int i = 0; i < 3; i++) {
        dao_thread_join(&askers[i]);
    }
    dao_queue_stop(&queue);
    dao_thread_join(&consumer);
    CU_ASSERT_EQUAL(atomic_load(&pushed_count), 600);
    dao_queue_finish(&queue);
}

static CU_TestInfo tests[] = {
    {"items come out in the order of their pushes", items_come_out_in_the_order_of_their_pushes},
    {"producers wait until kernels have finished", producers_wait_until_kernels_have_finished},
    {"a chain may be longer than the queue", a_chain_may_be_longer_than_the_queue},
    {"a chain has its turn", a_chain_has_its_turn},
    {"a stopped queue refuses but keeps what it has", a_stopped_queue_refuses_but_keeps_what_it_has},
    {"every request is answered", every_request_is_answered},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"queue", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A planner in the background: on a thread of its own, on executors of several kinds, and cancelled at any
   moment. */
#include <dao/context.h>

#include "base/report/error.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/support/models/plans.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNS_MAX 64u

static dao_test_plan_t plan;

/* An executor with a thread; at its end it runs what is left. */
typedef struct pool {
    dao_thread_t thread;
    dao_mutex_t lock;
    dao_cond_t changed;
    dao_plan_run_func_t runs[RUNS_MAX];
    void *arguments[RUNS_MAX];
    uint32_t count;
    bool is_ended;
} pool_t;

static void *serve(void *user)
{
    pool_t *pool = user;
    dao_mutex_lock(&pool->lock);
    while (!pool->is_ended || pool->count > 0) {
        if (pool->count == 0) {
            dao_cond_wait(&pool->changed, &pool->lock);
            continue;
        }
        dao_plan_run_func_t run = pool->runs[--pool->count];
        void *argument = pool->arguments[pool->count];
        dao_mutex_unlock(&pool->lock);
        run(argument);
        dao_mutex_lock(&pool->lock);
    }
    dao_mutex_unlock(&pool->lock);
    return NULL;
}

static void pool_submit(dao_plan_run_func_t run, void *argument, void *user)
{
    pool_t *pool = user;
    dao_mutex_lock(&pool->lock);
    CU_ASSERT_FATAL(pool->count < RUNS_MAX);
    pool->runs[pool->count] = run;
    pool->arguments[pool->count++] = argument;
    dao_cond_broadcast(&pool->changed);
    dao_mutex_unlock(&pool->lock);
}

static void pool_begin(pool_t *pool)
{
    *pool = (pool_t){0};
    dao_mutex_init(&pool->lock, DAO_RANK_LEAF);
    dao_cond_init(&pool->changed);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&pool->thread, "pool", serve, pool), DAO_OK);
}

static void pool_end(pool_t *pool)
{
    dao_mutex_lock(&pool->lock);
    pool->is_ended = true;
    dao_cond_broadcast(&pool->changed);
    dao_mutex_unlock(&pool->lock);
    dao_thread_join(&pool->thread);
    dao_cond_finish(&pool->changed);
    dao_mutex_finish(&pool->lock);
}

/* An executor that runs at once, inside of submit(). */
static void run_at_once(dao_plan_run_func_t run, void *argument, void *user)
{
    uint32_t *count = user;
    (*count)++;
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);            /* it goes on for whoever started it */
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_REENTRANT); /* what submits may need a place */
    run(argument);
}

/* An executor that keeps the one run that it has. */
typedef struct held {
    dao_plan_run_func_t run;
    void *argument;
} held_t;

static void hold(dao_plan_run_func_t run, void *argument, void *user)
{
    held_t *held = user;
    CU_ASSERT_PTR_NULL_FATAL(held->run);
    *held = (held_t){.run = run, .argument = argument};
}

static uint64_t peak_of(dao_planner_t *planner)
{
    dao_plan_t *best = NULL;
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &best), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_report_get(best, &report), DAO_OK);
    CU_ASSERT_TRUE(dao_test_plan_is_valid(&plan.problem, dao_plan_offsets(best), NULL));
    dao_plan_release(best);
    return report.peak_bytes;
}

static uint64_t peak_in_the_foreground(const dao_planner_config_t *config)
{
    dao_planner_t *planner = NULL;
    bool is_done = false;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, config, &planner), DAO_OK);
    while (!is_done) {
        CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, UINT64_MAX, &is_done), DAO_OK);
    }
    uint64_t peak_bytes = peak_of(planner);
    dao_planner_destroy(planner);
    return peak_bytes;
}

static void a_thread_works_to_the_limit(void)
{
    dao_planner_config_t config = {.work_limit = 100000};
    dao_planner_t *planner = NULL;
    dao_test_plan_make_hard(&plan, 1);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 0, NULL), DAO_OK);
    uint64_t peak_bytes = peak_of(planner);
    CU_ASSERT_EQUAL_FATAL(dao_planner_start(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_start(planner), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_planner_work(planner, 1, NULL), DAO_ERR_BUSY);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t now_bytes = peak_of(planner);
        CU_ASSERT(now_bytes <= peak_bytes);
        peak_bytes = now_bytes;
    }
    CU_ASSERT_EQUAL(dao_planner_wait(planner, UINT64_MAX), DAO_OK);
    CU_ASSERT(peak_of(planner) <= peak_bytes);
    CU_ASSERT_EQUAL(peak_of(planner), peak_in_the_foreground(&config));
    CU_ASSERT_EQUAL(dao_planner_cancel(planner), DAO_OK); /* too late: it was done */
    CU_ASSERT_EQUAL(dao_planner_wait(planner, UINT64_MAX), DAO_OK);
    dao_planner_destroy(planner);
}

static void the_programs_executor_works(void)
{
    pool_t pool;
    dao_planner_config_t config = {.work_limit = 100000, .submit = pool_submit, .submit_user = &pool};
    dao_planner_t *planner = NULL;
    dao_test_plan_make_hard(&plan, 2);
    pool_begin(&pool);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_start(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_wait(planner, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(peak_of(planner), peak_in_the_foreground(&(dao_planner_config_t){.work_limit = 100000}));
    dao_planner_destroy(planner);
    pool_end(&pool);
}

static void an_executor_may_run_at_once(void)
{
    uint32_t submitted_count = 0;
    dao_planner_config_t config = {
        .work_limit = 300000, .submit = run_at_once, .submit_user = &submitted_count};
    dao_planner_t *planner = NULL;
    dao_test_plan_make_hard(&plan, 3);
    CU_ASSERT_EQUAL_FATAL(dao_init(NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_start(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_wait(planner, 0), DAO_OK); /* it is over */
    CU_ASSERT(submitted_count >= 1);
    (void)peak_of(planner);
    dao_planner_destroy(planner);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_cancel_ends_the_work_at_any_moment(void)
{
    pool_t pool;
    pool_begin(&pool);
    for (uint32_t round = 0; round < 40; round++) {
        dao_planner_config_t config = {.seed = round};
        config.submit = round % 2 == 0 ? NULL : pool_submit;
        config.submit_user = &pool;
        dao_planner_t *planner = NULL;
        dao_test_plan_make_hard(&plan, 4 + round);
        CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
        if (round % 8 < 4) { /* else it may be cancelled before there is a plan */
            CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 0, NULL), DAO_OK);
        }
        CU_ASSERT_EQUAL_FATAL(dao_planner_start(planner), DAO_OK);
        dao_status_t early = dao_planner_wait(planner, (uint64_t)round * 20000);
        CU_ASSERT(early == DAO_ERR_NOT_READY || early == DAO_OK);
        if (round % 4 < 2) { /* else the end cancels */
            CU_ASSERT_EQUAL(dao_planner_cancel(planner), DAO_OK);
            dao_status_t status = dao_planner_wait(planner, UINT64_MAX); /* it may have been done before */
            CU_ASSERT(status == DAO_OK || (early == DAO_ERR_NOT_READY && status == DAO_ERR_STOPPED));
        }
        if (round % 8 < 4) {
            (void)peak_of(planner);
        }
        dao_planner_destroy(planner);
    }
    pool_end(&pool);
}

static void a_cancel_before_the_work_is_told_to_who_waits(void)
{
    held_t held = {0};
    const dao_planner_config_t config = {.submit = hold, .submit_user = &held};
    dao_planner_t *planner = NULL;
    dao_plan_t *best = NULL;
    dao_test_plan_make_hard(&plan, 7);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_start(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_cancel(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_wait(planner, 0), DAO_ERR_NOT_READY); /* its run has not come */
    CU_ASSERT_PTR_NOT_NULL_FATAL(held.run);
    held_t last = held;
    held = (held_t){0};
    last.run(last.argument);
    CU_ASSERT_PTR_NULL(held.run); /* it was the last one */
    CU_ASSERT_EQUAL(dao_planner_wait(planner, UINT64_MAX), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(dao_planner_best(planner, &best), DAO_ERR_NOT_READY);
    dao_planner_destroy(planner);
}

static void a_thread_that_cannot_start_leaves_the_planner_to_the_caller(void)
{
    dao_planner_config_t config = {.work_limit = 10000};
    dao_planner_t *planner = NULL;
    dao_test_plan_make_hard(&plan, 5);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    dao_fault_arm(DAO_FAULT_THREAD, 0, false);
    dao_status_t status = dao_planner_start(planner);
    uint64_t failed_count = dao_fault_disarm();
    if (failed_count > 0) {
        CU_ASSERT_NOT_EQUAL(status, DAO_OK);
        CU_ASSERT_EQUAL(dao_planner_work(planner, 100, NULL), DAO_OK);
    }
    dao_planner_destroy(planner);
}

static void a_failure_in_the_background_is_told_to_who_waits(void)
{
    uint64_t failed_count = 1;
    dao_test_plan_make_hard(&plan, 6);
    for (uint64_t n = 0; failed_count > 0; n++) {
        dao_planner_config_t config = {.work_limit = 30000};
        dao_planner_t *planner = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 0, NULL), DAO_OK);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_planner_start(planner);
        if (status == DAO_OK) {
            status = dao_planner_wait(planner, UINT64_MAX);
        }
        failed_count = dao_fault_disarm();
        CU_ASSERT(status == DAO_OK || (failed_count > 0 && status == DAO_ERR_NO_HOST_MEMORY));
        (void)peak_of(planner);
        dao_planner_destroy(planner);
    }
}

/* Its thread is in the parent: a child that waited for it would wait for ever. */
static bool use_in_child(dao_planner_t *planner)
{
    bool is_done;
    dao_plan_t *best = NULL;
    bool is_told = dao_planner_work(planner, 1, &is_done) == DAO_ERR_FORKED &&
                   dao_planner_start(planner) == DAO_ERR_FORKED &&
                   dao_planner_wait(planner, UINT64_MAX) == DAO_ERR_FORKED &&
                   dao_planner_cancel(planner) == DAO_ERR_FORKED &&
                   dao_planner_best(planner, &best) == DAO_ERR_FORKED && best == NULL;
    dao_planner_destroy(planner);
    return is_told;
}

/* A child that was told ends by a signal: ThreadSanitizer would look at its exit for the parent's thread. */
static void a_forked_child_is_told_at_once(void)
{
    dao_planner_config_t config = {.work_limit = 100000};
    dao_planner_t *planner = NULL;
    dao_test_plan_make_hard(&plan, 1);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_start(planner), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(300);
        if (use_in_child(planner)) {
            (void)raise(SIGKILL);
        }
        _exit(1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CU_ASSERT_EQUAL(dao_planner_wait(planner, UINT64_MAX), DAO_OK);
    dao_planner_destroy(planner);
}

static CU_TestInfo tests[] = {
    {"a thread works to the limit", a_thread_works_to_the_limit},
    {"the program's executor works", the_programs_executor_works},
    {"an executor may run at once", an_executor_may_run_at_once},
    {"a cancel ends the work at any moment", a_cancel_ends_the_work_at_any_moment},
    {"a cancel before the work is told to who waits", a_cancel_before_the_work_is_told_to_who_waits},
    {"a thread that cannot start leaves the planner to the caller",
     a_thread_that_cannot_start_leaves_the_planner_to_the_caller},
    {"a failure in the background is told to who waits", a_failure_in_the_background_is_told_to_who_waits},
    {"a forked child is told at once", a_forked_child_is_told_at_once},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"planner threads", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

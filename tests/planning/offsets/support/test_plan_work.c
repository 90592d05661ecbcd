/* SPDX-License-Identifier: Apache-2.0 */
/* Every method looks at the work counter again after little work, whatever is to be placed and by which
   method; and a cancellation is heard at each look. Counted in steps of work: no clock. */
#include "planning/offsets/portfolio.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <dao/plan.h>
#include <stdlib.h>

#define MANY_BUFFERS 16000u

/* A millisecond, where a step takes 50 ns; one of the search takes 8 ns. */
#define GAP_WORK_MOST        UINT64_C(20000)
#define SEARCH_GAP_WORK_MOST (UINT64_C(1) << 17)

/* Looks are counted up to one at which all is cancelled. */
typedef struct looks {
    uint64_t last;
    uint64_t longest;
    uint64_t count;
    uint64_t cancel_at;   /* this look sees it; 0: none */
    uint64_t after_count; /* looks after it */
    uint64_t overrun;     /* the most work that a step did beyond its limit */
    _Atomic bool is_cancelled;
} looks_t;

static void look(void *user, uint64_t used)
{
    looks_t *looks = user;
    uint64_t gap = used - looks->last;
    looks->longest = gap > looks->longest ? gap : looks->longest;
    looks->last = used;
    looks->count++;
    looks->after_count += looks->is_cancelled ? 1 : 0;
    if (looks->count == looks->cancel_at) {
        looks->is_cancelled = true;
    }
}

/* Works so much by a method, in stretches. Returns what ended it. */
static dao_status_t work(const dao_plan_problem_t *problem, dao_plan_method_t method, uint64_t limit,
                         looks_t *looks)
{
    const dao_plan_observer_t observer = {.look = look, .user = looks};
    const dao_planner_config_t config = {.method = method};
    dao_plan_work_t work = {.is_cancelled = &looks->is_cancelled, .observer = &observer};
    dao_plan_portfolio_t *portfolio = NULL;
    dao_status_t status = dao_plan_portfolio_create(problem, &config, &portfolio);
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
    while (status == DAO_OK && !dao_plan_portfolio_is_done(portfolio) && work.used < limit &&
           !looks->is_cancelled) {
        dao_plan_t *plan = NULL;
        if (work.used >= work.limit) {
            work.limit = work.used + DAO_PLAN_STRETCH_WORK;
        }
        status = dao_plan_portfolio_step(portfolio, &work, &plan);
        uint64_t overrun = work.used > work.limit ? work.used - work.limit : 0;
        looks->overrun = overrun > looks->overrun ? overrun : looks->overrun;
        dao_plan_release(plan);
    }
    dao_plan_portfolio_destroy(portfolio);
    return status;
}

/* Many buffers, of which half live long: each has thousands beside it. */
static dao_plan_buffer_t *make_many(uint64_t seed)
{
    dao_plan_buffer_t *buffers = calloc(MANY_BUFFERS, sizeof(*buffers));
    CU_ASSERT_PTR_NOT_NULL_FATAL(buffers);
    for (size_t i = 0; i < MANY_BUFFERS; i++) {
        uint64_t begin = dao_random_next(&seed) % MANY_BUFFERS;
        uint64_t life = i % 2 == 0 ? MANY_BUFFERS / 2 : 8;
        buffers[i] = (dao_plan_buffer_t){.begin_time = begin,
                                         .end_time = begin + 1 + dao_random_next(&seed) % life,
                                         .size_bytes = 1 + dao_random_next(&seed) % 4096,
                                         .fixed_offset = DAO_PLAN_NOWHERE,
                                         .pool = DAO_PLAN_ANY_POOL};
    }
    return buffers;
}

static void looks_are_close_together(void)
{
    dao_plan_buffer_t *buffers = make_many(dao_test_seed("looks", 7));
    const dao_plan_problem_t problems[] = {
        {.buffers = buffers, .buffer_count = MANY_BUFFERS},
        {.buffers = buffers, .buffer_count = MANY_BUFFERS, .period = 2 * (uint64_t)MANY_BUFFERS},
        {.buffers = buffers, .buffer_count = MANY_BUFFERS / 8, .alignment_bytes = 64},
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
        for (int method = 0; method < DAO_PLAN_METHOD_COUNT; method++) {
            looks_t looks = {0};
            CU_ASSERT_EQUAL(work(&problems[i], (dao_plan_method_t)method, UINT64_C(1000000), &looks), DAO_OK);
            bool does_search = method == DAO_PLAN_METHOD_SEARCH || method == DAO_PLAN_METHOD_BEST;
            if (looks.longest > (does_search ? SEARCH_GAP_WORK_MOST : GAP_WORK_MOST)) {
                (void)printf("    problem %zu by %s: %llu steps without a look\n", i,
                             dao_plan_method_name((dao_plan_method_t)method),
                             (unsigned long long)looks.longest);
                CU_FAIL("looks are too far apart");
            }
        }
    }
    free(buffers);
}

/* After the look that sees it at most a few more follow, of those whom it is passed up to. */
#define LOOKS_AFTER_MOST 64u

static void a_cancellation_is_heard_at_every_look(void)
{
    dao_plan_buffer_t *buffers = make_many(dao_test_seed("cancelled looks", 8));
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = MANY_BUFFERS};
    for (uint64_t at = 1; at < 2000; at += 1 + at / 4) {
        looks_t looks = {.cancel_at = at};
        dao_status_t status = work(&problem, DAO_PLAN_METHOD_BEST, UINT64_MAX, &looks);
        CU_ASSERT(status == DAO_ERR_STOPPED || status == DAO_OK);
        CU_ASSERT(looks.is_cancelled);
        if (looks.after_count > LOOKS_AFTER_MOST) {
            (void)printf("    %llu looks after the %llu-th\n", (unsigned long long)looks.after_count,
                         (unsigned long long)at);
            CU_FAIL("it went on");
        }
    }
    free(buffers);
}

/* As many buffers as are split over pools in all ways, and packed in as many ways as may be: some hundred
   thousand. */
static void draw_split(dao_test_plan_t *plan, uint64_t *random)
{
    dao_test_plan_make(plan, DAO_TEST_PLAN_ALIGNED | DAO_TEST_PLAN_CLOCKS, 12, 100000, random);
    plan->problem.pools = plan->pools;
    plan->problem.pool_count = 2;
    for (size_t i = 0; i < 12; i++) {
        plan->buffers[i].pool = i == 0 ? 0 : 1;
        plan->buffers[i].alignment_bytes = UINT32_C(1) << dao_random_next(random) % 18;
    }
}

static void splits_end_where_they_are_told_to(void)
{
    static dao_test_plan_t plan;
    uint64_t random = dao_test_seed("splits", 9), most_count = 0;
    for (uint32_t round = 0; round < 8; round++) {
        looks_t all = {0};
        draw_split(&plan, &random);
        CU_ASSERT_EQUAL(work(&plan.problem, DAO_PLAN_METHOD_SEARCH, UINT64_MAX, &all), DAO_OK);
        CU_ASSERT(all.longest <= GAP_WORK_MOST);
        CU_ASSERT(all.overrun <= GAP_WORK_MOST / 4);
        most_count = all.count > most_count ? all.count : most_count;
        for (uint64_t i = 1; i < 16; i++) {
            looks_t looks = {.cancel_at = all.count * i / 16};
            dao_status_t status = work(&plan.problem, DAO_PLAN_METHOD_SEARCH, UINT64_MAX, &looks);
            CU_ASSERT(status == DAO_ERR_STOPPED || status == DAO_OK);
            CU_ASSERT(looks.is_cancelled && looks.after_count <= LOOKS_AFTER_MOST);
        }
    }
    CU_ASSERT(most_count > 20000); /* they were in the splits, mostly */
}

static CU_TestInfo tests[] = {
    {"splits end where they are told to", splits_end_where_they_are_told_to},
    {"looks are close together", looks_are_close_together},
    {"a cancellation is heard at every look", a_cancellation_is_heard_at_every_look},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan work", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

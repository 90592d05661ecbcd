/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler of threads finds defects that it is known to hold: each within a stated number of seeds, and
   the seed that found one finds it again. */
#include "base/threads/sync.h"
#include "tests/scheduler/search.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <sys/wait.h>

/* A point: tests have none at their own atomics. */
static void here(void)
{
    dao_schedule_atomic(NULL);
}

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LAYER),
                   other_lock = DAO_MUTEX_INITIALIZER(DAO_RANK_FRONT);
static dao_cond_t changed = DAO_COND_INITIALIZER;
static uint32_t value;

static void add_with_lock(const void *program, uint32_t thread, uint64_t *random)
{
    (void)thread, (void)program, (void)random;
    for (int i = 0; i < 3; i++) {
        dao_mutex_lock(&lock);
        uint32_t old = value;
        dao_mutex_lock(&other_lock); /* a point in between */
        dao_mutex_unlock(&other_lock);
        value = old + 1;
        dao_mutex_unlock(&lock);
    }
}

static void sum_is_right(const void *program)
{
    (void)program;
    BATON_CHECK(value == 9);
}

static const scenario_t adding = {"adding", 3, NULL, add_with_lock, sum_is_right, NULL};

/* One thread takes what another puts into a box with room for one. */
static void hand_over(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)random;
    for (int i = 0; i < 3; i++) {
        dao_mutex_lock(&lock);
        while (value != thread) {
            dao_cond_wait(&changed, &lock);
        }
        value = 1 - thread;
        dao_cond_signal(&changed);
        dao_mutex_unlock(&lock);
    }
}

static const scenario_t handing = {"handing", 2, NULL, hand_over, NULL, NULL};

/* Two locks in two orders; try_lock has no rank that would tell at once. */
static void lock_crosswise(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)random;
    static dao_spin_t spins[2] = {{.rank = DAO_RANK_LAYER}, {.rank = DAO_RANK_LAYER}};
    here();
    dao_spin_lock_beside(&spins[thread]);
    here();
    dao_spin_lock_beside(&spins[1 - thread]);
    dao_spin_unlock_beside(&spins[1 - thread]);
    dao_spin_unlock_beside(&spins[thread]);
}

static const scenario_t crossing = {"crossing", 2, NULL, lock_crosswise, NULL, NULL};

/* Sees a flag outside of the lock, and sleeps after it was set. */
static void miss_the_signal(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)random;
    static bool is_set;
    if (thread == 1) {
        dao_mutex_lock(&lock);
        is_set = true;
        dao_cond_broadcast(&changed);
        dao_mutex_unlock(&lock);
        return;
    }
    dao_mutex_lock(&lock);
    bool was_set = is_set;
    dao_mutex_unlock(&lock);
    if (!was_set) {
        dao_mutex_lock(&lock);
        dao_cond_wait(&changed, &lock);
        dao_mutex_unlock(&lock);
    }
}

static const scenario_t missing = {"missing", 2, NULL, miss_the_signal, NULL, NULL};

/* Two changes of thread at the right places: the first thread's check, all of the second, the first's use. */
static void use_after_check(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)random;
    static _Atomic uint32_t stage;
    if (thread == 0) {
        here();
        if (atomic_load(&stage) == 1) {
            here();
            BATON_CHECK(atomic_load(&stage) != 2);
        }
    } else {
        for (int i = 0; i < 2; i++) {
            here();
            atomic_fetch_add(&stage, 1);
            for (int k = 0; k < 40; k++) {
                here();
            }
        }
    }
}

static const scenario_t checking = {"checking", 2, NULL, use_after_check, NULL, NULL};

#if defined(TEST_HAS_THREAD_SANITIZER)
/* No two threads run at once, and yet nothing orders their writes. */
static void write_without_lock(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)random;
    here();
    value = thread;
}

static const scenario_t racing = {"racing", 2, NULL, write_without_lock, NULL, NULL};
#endif

static bool is_found(const scenario_t *scenario, search_t search, int exit_code)
{
    search_result_t result, again;
    search.is_quiet = true;
    search_run(scenario, &search, &result);
    printf("%s: found by seed %llu of %llu\n", scenario->name, (unsigned long long)result.found_seed,
           (unsigned long long)search.count);
    search.first_seed = result.found_seed;
    search.count = 1;
    search_run(scenario, &search, &again);
    return result.has_found && WIFEXITED(result.exit_status) &&
           WEXITSTATUS(result.exit_status) == exit_code && again.has_found &&
           again.exit_status == result.exit_status;
}

static void correct_programs_end_well(void)
{
    const scenario_t *const scenarios[] = {&adding, &handing};
    for (size_t i = 0; i < 2; i++) {
        search_result_t result;
        search_run(scenarios[i], &(search_t){.count = 200}, &result);
        CU_ASSERT_FALSE(result.has_found);
        CU_ASSERT_EQUAL(result.run_count, 200);
        CU_ASSERT_TRUE(result.contended_count > 200);
    }
}

static void a_dropped_lock_is_found(void)
{
    CU_ASSERT_TRUE(is_found(&adding,
                            (search_t){.count = 20, .defect = BATON_DEFECT_DROP_LOCK, .rank = DAO_RANK_LAYER},
                            BATON_EXIT_CHECK));
}

static void a_lost_wake_is_found(void)
{
    CU_ASSERT_TRUE(
        is_found(&handing, (search_t){.count = 20, .defect = BATON_DEFECT_DROP_WAKE}, BATON_EXIT_DEADLOCK));
    CU_ASSERT_TRUE(is_found(&missing, (search_t){.count = 100}, BATON_EXIT_DEADLOCK));
}

static void a_deadlock_is_found(void)
{
    CU_ASSERT_TRUE(is_found(&crossing, (search_t){.count = 100}, BATON_EXIT_DEADLOCK));
}

static void a_use_after_a_check_is_found(void)
{
    CU_ASSERT_TRUE(is_found(&checking, (search_t){.count = 1000}, BATON_EXIT_CHECK));
}

#if defined(TEST_HAS_THREAD_SANITIZER)
static void the_hand_over_is_no_order_for_ThreadSanitizer(void)
{
    enum { EXIT_RACE = 66 }; /* ThreadSanitizer's own */
    CU_ASSERT_TRUE(is_found(&racing, (search_t){.count = 20}, EXIT_RACE));
}
#endif

static void a_seed_repeats_exactly(void)
{
    search_result_t first, again, other;
    search_run(&adding, &(search_t){.count = 60}, &first);
    search_run(&adding, &(search_t){.count = 60}, &again);
    search_run(&adding, &(search_t){.first_seed = 60, .count = 60}, &other);
    CU_ASSERT_EQUAL(first.hash, again.hash);
    CU_ASSERT_EQUAL(first.contended_count, again.contended_count);
    CU_ASSERT_NOT_EQUAL(first.hash, other.hash);
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    search_prepare(arguments);
    static CU_TestInfo tests[] = {
        {"correct programs end well", correct_programs_end_well},
        {"a dropped lock is found", a_dropped_lock_is_found},
        {"a lost wake is found", a_lost_wake_is_found},
        {"a deadlock is found", a_deadlock_is_found},
        {"a use after a check is found", a_use_after_a_check_is_found},
#if defined(TEST_HAS_THREAD_SANITIZER)
        {"the hand-over is no order for ThreadSanitizer", the_hand_over_is_no_order_for_ThreadSanitizer},
#endif
        {"a seed repeats exactly", a_seed_repeats_exactly},
        CU_TEST_INFO_NULL
    };
    CU_SuiteInfo suites[] = {{"baton", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

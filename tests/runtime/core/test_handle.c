/* SPDX-License-Identifier: Apache-2.0 */
/* Counted handles: the count, and what a stale pointer finds. */
#include "base/memory/host.h"
#include "base/threads/sync.h"
#include "runtime/core/handle.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>

static dao_handle_t *handle_make(void)
{
    dao_handle_t *handle = dao_host_calloc(1, sizeof(*handle));
    CU_ASSERT_PTR_NOT_NULL_FATAL(handle);
    atomic_init(&handle->reference_count, 1);
    return handle;
}

static void the_last_release_says_so(void)
{
    bool is_last = true;
    dao_handle_t *handle = handle_make();
    CU_ASSERT_EQUAL(dao_handle_retain(handle, "thing"), DAO_OK);
    CU_ASSERT_EQUAL(dao_handle_release(handle, "thing", &is_last), DAO_OK);
    CU_ASSERT_FALSE(is_last);
    CU_ASSERT_EQUAL(dao_handle_release(handle, "thing", &is_last), DAO_OK);
    CU_ASSERT_TRUE(is_last);
    dao_handle_bury(handle);
}

static void a_dead_handle_is_refused(void)
{
    bool is_last;
    dao_handle_t *handle = handle_make();
    CU_ASSERT_EQUAL(dao_handle_release(handle, "thing", &is_last), DAO_OK);
    dao_handle_bury(handle);
    CU_ASSERT_EQUAL(dao_handle_retain(handle, "thing"), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_thing_retain"));
    CU_ASSERT_EQUAL(dao_handle_release(handle, "thing", &is_last), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "no references"));
    CU_ASSERT_EQUAL(dao_handle_retain(NULL, "thing"), DAO_ERR_INVALID);
}

static void the_latest_dead_handles_are_remembered(void)
{
    dao_handle_t *handles[DAO_HANDLE_REST_COUNT];
    for (size_t i = 0; i < DAO_HANDLE_REST_COUNT; i++) {
        bool is_last;
        handles[i] = handle_make();
        CU_ASSERT_EQUAL(dao_handle_release(handles[i], "thing", &is_last), DAO_OK);
        dao_handle_bury(handles[i]);
    }
    for (size_t i = 0; i < DAO_HANDLE_REST_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_handle_retain(handles[i], "thing"), DAO_ERR_INVALID);
    }
}

static void a_full_count_is_refused(void)
{
    bool is_last;
    dao_handle_t *handle = handle_make();
    atomic_store(&handle->reference_count, UINT32_MAX);
    CU_ASSERT_EQUAL(dao_handle_retain(handle, "thing"), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "too many"));
    CU_ASSERT_EQUAL(atomic_load(&handle->reference_count), UINT32_MAX);
    atomic_store(&handle->reference_count, 1);
    CU_ASSERT_EQUAL(dao_handle_release(handle, "thing", &is_last), DAO_OK);
    dao_handle_bury(handle);
}

/* ---- threads ---- */

#define THREAD_COUNT 4u
#define PAIR_COUNT   5000u

static _Atomic uint32_t last_count;

static void *retain_and_release(void *user)
{
    dao_handle_t *handle = user;
    bool is_last;
    for (uint32_t i = 0; i < PAIR_COUNT; i++) {
        if (dao_handle_retain(handle, "thing") == DAO_OK &&
            dao_handle_release(handle, "thing", &is_last) == DAO_OK && is_last) {
            atomic_fetch_add(&last_count, 1);
        }
    }
    if (dao_handle_release(handle, "thing", &is_last) == DAO_OK && is_last) { /* this thread's own */
        atomic_fetch_add(&last_count, 1);
    }
    return NULL;
}

static void one_of_many_threads_drops_the_last_reference(void)
{
    dao_handle_t *handle = handle_make();
    dao_thread_t threads[THREAD_COUNT];
    atomic_store(&handle->reference_count, THREAD_COUNT);
    atomic_store(&last_count, 0);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "counter", retain_and_release, handle), DAO_OK);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(atomic_load(&last_count), 1);
    CU_ASSERT_EQUAL(atomic_load(&handle->reference_count), 0);
    dao_handle_bury(handle);
}

static CU_TestInfo tests[] = {
    {"the last release says so", the_last_release_says_so},
    {"a dead handle is refused", a_dead_handle_is_refused},
    {"the latest dead handles are remembered", the_latest_dead_handles_are_remembered},
    {"a full count is refused", a_full_count_is_refused},
    {"one of many threads drops the last reference", one_of_many_threads_drops_the_last_reference},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"handle", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

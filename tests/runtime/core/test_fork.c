/* SPDX-License-Identifier: Apache-2.0 */
/* Forks in the middle of everything: threads allocate and free at every place while their process forks. In
   the child every call says DAO_ERR_FORKED, waits for no lock that another thread held, and harms nothing;
   the parent goes on. */
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREAD_COUNT    4
#define FORK_COUNT      24
#define CHILD_SECONDS   300 /* one that hangs has failed */
#define KEPT_BYTES      ((size_t)3 << 20)
#define LOOP_BYTES_MAX  ((size_t)300 << 10)
#define LOOP_LIVE_COUNT 8

static const dao_place_t places[] = {{DAO_PLACE_KIND_CPU, 0},
                                     {DAO_PLACE_KIND_PINNED, 0},
                                     {DAO_PLACE_KIND_DEVICE, 0},
                                     {DAO_PLACE_KIND_DEVICE, 1}};

#define PLACE_COUNT (sizeof(places) / sizeof(places[0]))

static int begin(void)
{
    return dao_init(NULL) != DAO_OK;
}

static int end(void)
{
    return dao_finalize() != DAO_OK; /* nothing is live any more */
}

/* ---- what the parent has ---- */

/* Blocks and handles that were made before a fork. */
typedef struct kept {
    void *blocks[PLACE_COUNT];
    dao_stream_t *stream;
    dao_event_t *event;
    void *ordered; /* a block that follows the stream */
    dao_memory_t *memory;
    dao_tensor_t *tensor;
    dao_executor_t *executor;
    dao_managed_t *managed;
    dao_command_list_t *list; /* writes the managed tensor */
    dao_source_t *source;     /* no tensor is made of it yet */
    uint64_t mark;
} kept_t;

static char pattern[KEPT_BYTES], returned[KEPT_BYTES];

static void kept_make(kept_t *kept)
{
    const int64_t shape[] = {4, 4};
    dao_executor_config_t executor = {.device_index = 1, .capacity_bytes = (size_t)16 << 20};
    dao_managed_config_t managed = {.size_bytes = KEPT_BYTES};
    memset(pattern, 0x6b, sizeof(pattern));
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        kept->blocks[i] = dao_alloc(places[i], KEPT_BYTES);
        CU_ASSERT_PTR_NOT_NULL_FATAL(kept->blocks[i]);
        CU_ASSERT_EQUAL(dao_copy(places[i], kept->blocks[i], places[0], pattern, KEPT_BYTES), DAO_OK);
    }
    CU_ASSERT_EQUAL_FATAL(dao_peak_mark_add(places[2], &kept->mark), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &kept->stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &kept->event), DAO_OK);
    kept->ordered = dao_alloc_async(places[2], 1000, kept->stream);
    CU_ASSERT_PTR_NOT_NULL_FATAL(kept->ordered);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(places[2], 5000, kept->stream, &kept->memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(places[2], DAO_TYPE_F32, 2, shape, &kept->tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor, &kept->executor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(kept->executor, &managed, &kept->managed), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_write(kept->managed, pattern, KEPT_BYTES), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(kept->executor, &kept->list), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_write(kept->list, kept->managed, pattern, KEPT_BYTES), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_source_adopt(pattern, KEPT_BYTES, NULL, NULL, &kept->source), DAO_OK);
}

/* Returns true if all of it is as it was made. */
static void kept_check(const kept_t *kept)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        memset(returned, 0, sizeof(returned));
        CU_ASSERT_EQUAL(dao_copy(places[0], returned, places[i], kept->blocks[i], KEPT_BYTES), DAO_OK);
        CU_ASSERT_EQUAL(memcmp(returned, pattern, KEPT_BYTES), 0);
    }
    CU_ASSERT_EQUAL(dao_command_list_run(kept->list), DAO_OK);
    memset(returned, 0, sizeof(returned));
    CU_ASSERT_EQUAL(dao_managed_read(kept->managed, returned, KEPT_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(returned, pattern, KEPT_BYTES), 0);
    CU_ASSERT_EQUAL(dao_memory_use_count(kept->memory), 1);
    CU_ASSERT_EQUAL(dao_event_record(kept->event, kept->stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_synchronize(kept->event), DAO_OK);
}

static void kept_drop(const kept_t *kept)
{
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_free(places[i], kept->blocks[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_free_async(places[2], kept->ordered, kept->stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(kept->memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(kept->tensor), DAO_OK);
    dao_command_list_destroy(kept->list);
    CU_ASSERT_EQUAL(dao_source_release(kept->source), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(kept->managed), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(kept->executor), DAO_OK);
    dao_event_destroy(kept->event);
    dao_stream_destroy(kept->stream);
}

/* ---- threads that are always in the middle of something ---- */

static _Atomic bool is_over;
static _Atomic uint64_t loop_count; /* rounds of all threads */
static _Atomic uint64_t wrong_count;

static void *allocate_and_free(void *user)
{
    uint64_t random = (uintptr_t)user;
    dao_stream_t *stream = NULL;
    wrong_count += dao_stream_create(0, &stream) != DAO_OK;
    while (!is_over) {
        void *blocks[LOOP_LIVE_COUNT];
        size_t first = dao_random_next(&random) % PLACE_COUNT;
        for (size_t i = 0; i < LOOP_LIVE_COUNT; i++) {
            size_t size_bytes = 1 + dao_random_next(&random) % LOOP_BYTES_MAX;
            blocks[i] = dao_alloc(places[(first + i) % PLACE_COUNT], size_bytes);
            wrong_count += blocks[i] == NULL;
        }
        void *ordered = dao_alloc_async(places[2], 1 + dao_random_next(&random) % LOOP_BYTES_MAX, stream);
        wrong_count += ordered == NULL || dao_free_async(places[2], ordered, stream) != DAO_OK;
        for (size_t i = LOOP_LIVE_COUNT; i-- > 0;) {
            wrong_count += dao_free(places[(first + i) % PLACE_COUNT], blocks[i]) != DAO_OK;
        }
        wrong_count += dao_trim(places[first], LOOP_BYTES_MAX, NULL) != DAO_OK;
        loop_count++;
    }
    dao_stream_destroy(stream);
    return NULL;
}

/* ---- the child ---- */

/* Goes up to the first answer that is not DAO_ERR_FORKED: its number is the child's exit status. */
#define FORKED(number, call)                                                                                 \
    if ((call) != DAO_ERR_FORKED) {                                                                          \
        return number;                                                                                       \
    }

static int use_addresses(const kept_t *kept)
{
    dao_stats_t stats;
    uint64_t mark;
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        if (dao_alloc(places[i], 100) != NULL || dao_used(places[i]) != 0) {
            return 1;
        }
        FORKED(2, dao_last_status());
        FORKED(3, dao_free(places[i], kept->blocks[i]));
        FORKED(4, dao_free(places[PLACE_COUNT - 1 - i], kept->blocks[i]));
        FORKED(5, dao_trim(places[i], 0, NULL));
        FORKED(6, dao_limit_set(places[i], KEPT_BYTES));
        FORKED(7, dao_stats_get(places[i], &stats));
        FORKED(8, dao_stats_reset_peaks(places[i]));
        FORKED(8, dao_peak_mark_add(places[i], &mark));
        FORKED(8, dao_peak_mark_move(kept->mark, NULL));
        FORKED(8, dao_peak_mark_remove(kept->mark));
        FORKED(9, dao_copy(places[i], kept->blocks[i], places[0], pattern, KEPT_BYTES));
    }
    dao_alloc_options_t options = {.alignment_bytes = 4096};
    if (dao_alloc_with(places[2], 100, &options) != NULL) {
        return 10;
    }
    FORKED(11, dao_last_status());
    return 0;
}

static int use_streams(const kept_t *kept)
{
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    int32_t count;
    FORKED(20, dao_stream_create(0, &stream));
    FORKED(21, dao_event_create(0, &event));
    FORKED(22, dao_stream_synchronize(kept->stream));
    FORKED(23, dao_stream_fill(kept->stream, kept->blocks[2], 0, KEPT_BYTES));
    FORKED(24, dao_event_record(kept->event, kept->stream));
    FORKED(25, dao_free_async(places[2], kept->ordered, kept->stream));
    FORKED(26, dao_record_stream(places[2], kept->ordered, kept->stream));
    FORKED(27, dao_device_synchronize(0));
    if (dao_alloc_async(places[2], 100, kept->stream) != NULL) {
        return 28;
    }
    FORKED(29, dao_last_status());
    FORKED(30, dao_device_count(&count));
    FORKED(31, dao_init(NULL));
    FORKED(32, dao_finalize());
    return 0;
}

static int use_handles(const kept_t *kept)
{
    dao_memory_t *memory = NULL;
    dao_tensor_t *tensor = NULL;
    dao_executor_t *executor = NULL;
    FORKED(40, dao_memory_create(places[2], 10, NULL, &memory));
    FORKED(41, dao_memory_sub_range(kept->memory, 0, 1, &memory));
    FORKED(42, dao_tensor_narrow(kept->tensor, 0, 0, 1, &tensor));
    FORKED(43, dao_executor_create(NULL, &executor));
    if (dao_memory_release(kept->memory) != DAO_OK || dao_tensor_release(kept->tensor) != DAO_OK ||
        dao_managed_release(kept->managed) != DAO_OK) {
        return 47; /* handles may always be dropped */
    }
    return 0;
}

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

static void ignore_status(dao_status_t status, void *user)
{
    (void)status;
    (void)user;
}

/* The executor's thread is in the parent: whoever waited for it would wait for ever. */
static int use_executor(const kept_t *kept)
{
    static char bytes[KEPT_BYTES];
    dao_kernel_t kernel = {.launch = launch_nothing};
    dao_executor_stats_t stats;
    FORKED(50, dao_executor_push(kept->executor, &kernel));
    FORKED(51, dao_executor_step_begin(kept->executor));
    FORKED(52, dao_executor_step_end(kept->executor));
    FORKED(53, dao_executor_sync(kept->executor));
    FORKED(54, dao_executor_step_write(kept->executor, "/dev/null"));
    FORKED(55, dao_executor_stats_get(kept->executor, &stats));
    FORKED(56, dao_managed_write(kept->managed, bytes, KEPT_BYTES));
    FORKED(57, dao_managed_read(kept->managed, bytes, KEPT_BYTES));
    FORKED(58, dao_managed_write_part(kept->managed, 0, bytes, 1));
    FORKED(59, dao_managed_read_part(kept->managed, 0, bytes, 1));
    FORKED(60, dao_executor_destroy(kept->executor));
    FORKED(61, dao_managed_write_async(kept->managed, 0, bytes, 1, ignore_status, NULL));
    FORKED(62, dao_managed_read_async(kept->managed, 0, bytes, 1, ignore_status, NULL));
    FORKED(63, dao_managed_pin(kept->managed, NULL));
    FORKED(64, dao_managed_unpin(kept->managed));
    FORKED(65, dao_executor_capacity_set(kept->executor, (size_t)8 << 20));
    FORKED(66, dao_command_list_run(kept->list));
    FORKED(67, dao_command_list_plan(kept->list, 1));
    dao_managed_t *tensor = NULL;
    dao_managed_config_t config = {.size_bytes = KEPT_BYTES};
    FORKED(68, dao_managed_create_from(kept->executor, &config, kept->source, 0, &tensor));
    size_t bytes_of_list;
    dao_command_list_t *list = NULL;
    FORKED(69, dao_managed_create(kept->executor, &config, &tensor));
    FORKED(70, dao_managed_view(kept->managed, 0, 1, &tensor));
    FORKED(71, dao_managed_retain(kept->managed));
    FORKED(72, dao_command_list_create(kept->executor, &list));
    FORKED(73, dao_command_list_push(kept->list, &kernel));
    FORKED(74, dao_command_list_discard(kept->list, kept->managed));
    FORKED(75, dao_command_list_write(kept->list, kept->managed, bytes, KEPT_BYTES));
    FORKED(76, dao_command_list_least_capacity(kept->list, &bytes_of_list));
    dao_command_list_destroy(kept->list); /* the parent's stays */
    return 0;
}

/* All that needs no host memory: with AddressSanitizer malloc() hangs in a child if another thread was in
   it. */
static int use_blocks(const kept_t *kept)
{
    int result = use_addresses(kept);
    result = result != 0 ? result : use_streams(kept);
    return result != 0 ? result : use_executor(kept);
}

static int use_everything(const kept_t *kept)
{
    int result = use_blocks(kept);
    return result != 0 ? result : use_handles(kept);
}

/* Forks; the child's exit status, or -1 if it died otherwise. */
static int in_child(int (*function)(const kept_t *), const kept_t *kept)
{
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(CHILD_SECONDS);
        _exit(function(kept));
    }
    int status = -1;
    bool is_ended = child > 0 && waitpid(child, &status, 0) == child;
    int result = is_ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (result != 0) {
        (void)printf("    the child ended with %d, by signal %d\n", result,
                     is_ended && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    return result;
}

/* ---- the tests ---- */

static void a_child_is_told_by_every_call(void)
{
    kept_t kept = {0};
    kept_make(&kept);
    CU_ASSERT_EQUAL(in_child(use_everything, &kept), 0);
    kept_check(&kept);
    kept_drop(&kept);
}

static void a_fork_in_the_middle_of_calls_harms_nobody(void)
{
    kept_t kept = {0};
    dao_thread_t threads[THREAD_COUNT];
    kept_make(&kept);
    is_over = false;
    loop_count = wrong_count = 0;
    for (uintptr_t i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "loop", allocate_and_free, (void *)(i + 1)),
                              DAO_OK);
    }
    for (int i = 0; i < FORK_COUNT; i++) {
        uint64_t before_count = loop_count;
        CU_ASSERT_EQUAL(in_child(use_blocks, &kept), 0);
        while (loop_count == before_count) {
            dao_thread_yield(); /* the threads go on */
        }
    }
    is_over = true;
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(wrong_count, 0);
    kept_check(&kept);
    kept_drop(&kept);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_used(places[i]), 0);
    }
}

static CU_TestInfo tests[] = {
    {"a child is told by every call", a_child_is_told_by_every_call},
    {"a fork in the middle of calls harms nobody", a_fork_in_the_middle_of_calls_harms_nobody},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"fork", begin, end, NULL, NULL, tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}

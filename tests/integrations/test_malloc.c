/* SPDX-License-Identifier: Apache-2.0 */
/* malloc() and its family, from libdao_malloc.so, which this program runs with in LD_PRELOAD, served from
   plans: large blocks are libdao's and small ones glibc's, whatever of the family moves them between the two;
   threads, forks, limits, steps, the report. */
#define _GNU_SOURCE
#include "integrations/malloc/dao_malloc.h"

#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SMALL_BYTES = 32 << 10, /* the largest that is glibc's */
    BLOCK_ALIGNMENT = 64,
    THREAD_COUNT = 4,
    ROUND_COUNT = 20000,
    SLOT_COUNT = 48,
    FORK_COUNT = 16,
    STEP_BLOCK_COUNT = 12,
    LINE_BYTES = 1 << 15
};

/* They are weak in a program that may run without. */
#pragma weak dao_malloc_step_begin
#pragma weak dao_malloc_step_end

static uint64_t seed;
static bool is_all; /* every block is libdao's, those of CUnit and of the system's libraries, too */

static size_t used(void)
{
    return dao_used(dao_cpu_place());
}

/* So that the compiler does not know what becomes of a block. */
static void *volatile sink;

static void *seen(void *address)
{
    sink = address;
    return sink;
}

static int begin(void)
{
    seed = dao_test_seed("malloc", 20261122);
    if (&dao_malloc_step_begin == NULL) {
        (void)fprintf(stderr, "LD_PRELOAD=libdao_malloc.so is missing\n");
        return 1;
    }
    return dao_init(NULL) != DAO_OK;
}

/* The program's blocks need the library, whoever else stops it. */
static int end(void)
{
    bool is_stopped = dao_finalize() == DAO_OK;
    size_t before = used();
    void *block = seen(malloc(MIB));
    bool goes_on = used() > before;
    free(block);
    return !is_stopped || !goes_on;
}

static bool is_filled(const unsigned char *bytes, int value, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

/* ---- sentences ---- */

static void large_blocks_are_libdaos(void)
{
    size_t before = used();
    void *small = seen(malloc(SMALL_BYTES));
    CU_ASSERT_TRUE(used() == before || is_all);
    unsigned char *large = seen(malloc(SMALL_BYTES + 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    CU_ASSERT_TRUE(used() > before + SMALL_BYTES);
    CU_ASSERT_EQUAL((uintptr_t)large % BLOCK_ALIGNMENT, 0);
    CU_ASSERT_EQUAL(malloc_usable_size(large), SMALL_BYTES + 1);
    CU_ASSERT_TRUE(malloc_usable_size(small) >= SMALL_BYTES);
    memset(large, 1, SMALL_BYTES + 1);
    errno = 77;
    free(large);
    free(small);
    free(seen(NULL));
    CU_ASSERT_EQUAL(errno, 77);
    CU_ASSERT_TRUE(used() == before || is_all);
    CU_ASSERT_EQUAL(malloc_usable_size(seen(NULL)), 0);
}

static void calloc_clears_what_was_used_before(void)
{
    for (int i = 0; i < 2; i++) {
        unsigned char *bytes = seen(calloc(3, MIB));
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        CU_ASSERT_TRUE(is_filled(bytes, 0, 3 * MIB));
        memset(bytes, 0xff, 3 * MIB);
        free(bytes);
    }
}

static void realloc_keeps_what_fits(void)
{
    static const size_t sizes[] = {100,     SMALL_BYTES, SMALL_BYTES + 1, MIB,     MIB - 1,
                                   5 * MIB, MIB / 2,     SMALL_BYTES / 2, 3 * MIB, 1};
    size_t before = used();
    unsigned char *bytes = seen(realloc(seen(NULL), 64));
    size_t kept = 64;
    memset(bytes, 7, kept);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bytes = i % 2 == 0 ? seen(realloc(bytes, sizes[i])) : seen(reallocarray(bytes, sizes[i], 1));
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        CU_ASSERT_TRUE(malloc_usable_size(bytes) >= sizes[i]);
        CU_ASSERT_TRUE(is_filled(bytes, 7, kept < sizes[i] ? kept : sizes[i]));
        kept = sizes[i];
        memset(bytes, 7, kept);
    }
    free(bytes);
    bytes = seen(malloc(MIB));
    CU_ASSERT_PTR_NULL(seen(realloc(seen(bytes), 0)));
    CU_ASSERT_TRUE(used() == before || is_all);
}

static void blocks_lie_where_they_are_to_be_aligned(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t alignment = sizeof(void *); alignment <= 4 * MIB; alignment *= 2) {
        for (size_t size_bytes = 64; size_bytes <= 4 * MIB; size_bytes *= 16) {
            void *blocks[3] = {NULL};
            CU_ASSERT_EQUAL(posix_memalign(&blocks[0], alignment, size_bytes), 0);
            blocks[1] = aligned_alloc(alignment, size_bytes);
            blocks[2] = memalign(alignment, size_bytes);
            for (int i = 0; i < 3; i++) {
                CU_ASSERT_PTR_NOT_NULL_FATAL(seen(blocks[i]));
                CU_ASSERT_EQUAL((uintptr_t)blocks[i] % alignment, 0);
                memset(blocks[i], i, size_bytes);
            }
            for (int i = 0; i < 3; i++) {
                CU_ASSERT_TRUE(is_filled(blocks[i], i, size_bytes));
                free(blocks[i]);
            }
        }
    }
    for (size_t size_bytes = 100; size_bytes <= MIB; size_bytes *= 100) {
        void *blocks[] = {seen(valloc(size_bytes)), seen(pvalloc(size_bytes))};
        CU_ASSERT_TRUE(malloc_usable_size(blocks[1]) >= page_bytes);
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL((uintptr_t)blocks[i] % page_bytes, 0);
            free(blocks[i]);
        }
    }
    void *untouched = &seed;
    CU_ASSERT_EQUAL(posix_memalign(&untouched, 3 * sizeof(void *), MIB), EINVAL);
    CU_ASSERT_EQUAL(posix_memalign(&untouched, 1, MIB), EINVAL);
    for (volatile size_t none = 0; none < 4; none += 3) {
        errno = 0;
        CU_ASSERT_PTR_NULL(aligned_alloc(none, MIB));
        CU_ASSERT_EQUAL(errno, EINVAL);
    }
    CU_ASSERT_PTR_EQUAL(untouched, &seed);
}

/* glibc moves pages of what grows, and leaves untouched what is to be clear. */
static void what_grows_or_is_clear_and_large_is_glibcs(void)
{
    size_t before = used();
    unsigned char *bytes = seen(malloc(MIB / 2));
    CU_ASSERT_TRUE(used() > before);
    memset(bytes, 5, MIB / 2);
    bytes = seen(realloc(bytes, 8 * MIB));
    CU_ASSERT_TRUE(used() == before || is_all);
    CU_ASSERT_TRUE(is_filled(bytes, 5, MIB / 2));
    bytes = seen(realloc(bytes, 16 * MIB));
    CU_ASSERT_TRUE(is_filled(bytes, 5, MIB / 2));
    free(bytes);
    bytes = seen(calloc(1, 16 * MIB));
    CU_ASSERT_TRUE(used() == before || is_all);
    free(bytes);
}

static volatile size_t too_much = SIZE_MAX / 2 + 1; /* the compiler is not to know */

static void what_cannot_be_is_refused(void)
{
    size_t before = used();
    unsigned char *bytes = seen(malloc(MIB));
    void *address = bytes;
    memset(bytes, 3, MIB);
    CU_ASSERT_TRUE(seen(malloc(too_much)) == NULL && errno == ENOMEM);
    errno = 0;
    CU_ASSERT_TRUE(seen(calloc(too_much, 3)) == NULL && errno == ENOMEM);
    errno = 0;
    CU_ASSERT_TRUE(seen(reallocarray(seen(bytes), too_much, 2)) == NULL && errno == ENOMEM);
    errno = 0;
    CU_ASSERT_TRUE(seen(pvalloc(2 * too_much - 1)) == NULL && errno == ENOMEM);
    CU_ASSERT_EQUAL(dao_limit_set(dao_cpu_place(), 64 * MIB), DAO_OK);
    errno = 0;
    CU_ASSERT_TRUE(seen(malloc(100 * MIB)) == NULL && errno == ENOMEM);
    errno = 0;
    CU_ASSERT_EQUAL(posix_memalign(&address, BLOCK_ALIGNMENT, 100 * MIB), ENOMEM);
    CU_ASSERT_TRUE(address == bytes && errno == 0);
    CU_ASSERT_TRUE(is_filled(bytes, 3, MIB));
    free(bytes);
    CU_ASSERT_EQUAL(dao_limit_set(dao_cpu_place(), 0), DAO_OK);
    CU_ASSERT_TRUE(used() == before || is_all);
}

/* ---- threads ---- */

typedef struct slot {
    unsigned char *bytes;
    size_t size_bytes;
    int value; /* of each byte */
} slot_t;

/* A block on its way to another thread. */
static _Atomic(slot_t *) passed;

static atomic_uint wrong_count;
static atomic_bool is_forking; /* threads go on until there are no more forks */

static void slot_check(const slot_t *slot)
{
    size_t part_bytes = slot->size_bytes < KIB ? slot->size_bytes : KIB;
    bool is_right = is_filled(slot->bytes, slot->value, part_bytes) &&
                    is_filled(slot->bytes + slot->size_bytes - part_bytes, slot->value, part_bytes) &&
                    malloc_usable_size(slot->bytes) >= slot->size_bytes;
    atomic_fetch_add(&wrong_count, is_right ? 0 : 1);
}

static void slot_fill(slot_t *slot, uint64_t *random)
{
    slot->value = (int)(dao_random_next(random) & 0x7f);
    memset(slot->bytes, slot->value, slot->size_bytes);
}

static size_t random_size(uint64_t *random)
{
    uint64_t number = dao_random_next(random);
    return 1 +
           (size_t)(number >> 8) % ((size_t)1 << (4 + number % 17)); /* up to 1 MiB, small ones as often */
}

static void slot_change(slot_t *slot, uint64_t *random)
{
    size_t size_bytes = random_size(random);
    uint64_t way = dao_random_next(random) % 4;
    if (slot->bytes != NULL) {
        slot_check(slot);
    }
    if (slot->bytes != NULL && way == 0) {
        slot->bytes = realloc(slot->bytes, size_bytes);
        size_t kept_bytes = size_bytes < slot->size_bytes ? size_bytes : slot->size_bytes;
        atomic_fetch_add(&wrong_count,
                         is_filled(slot->bytes, slot->value, kept_bytes < KIB ? kept_bytes : KIB) ? 0 : 1);
    } else {
        free(slot->bytes);
        slot->bytes = way == 1   ? calloc(1, size_bytes)
                      : way == 2 ? memalign((size_t)1 << dao_random_next(random) % 16, size_bytes)
                                 : malloc(size_bytes);
        atomic_fetch_add(&wrong_count, way != 1 || is_filled(slot->bytes, 0, size_bytes) ? 0 : 1);
    }
    slot->size_bytes = size_bytes;
    slot_fill(slot, random);
}

static void pass_on(slot_t *slot)
{
    slot_t *mine = malloc(sizeof(*mine));
    *mine = *slot;
    *slot = (slot_t){0};
    slot_t *theirs = atomic_exchange(&passed, mine);
    if (theirs != NULL) {
        slot_check(theirs);
        *slot = *theirs;
        free(theirs);
    }
}

static void *run_thread(void *user)
{
    uint64_t random = *(const uint64_t *)user;
    slot_t slots[SLOT_COUNT] = {{0}};
    for (int i = 0; i < ROUND_COUNT || atomic_load(&is_forking); i++) {
        slot_t *slot = &slots[dao_random_next(&random) % SLOT_COUNT];
        if (slot->bytes != NULL && dao_random_next(&random) % 8 == 0) {
            pass_on(slot);
        } else {
            slot_change(slot, &random);
        }
    }
    for (int i = 0; i < SLOT_COUNT; i++) {
        free(slots[i].bytes);
    }
    return NULL;
}

/* What is done in the child of a fork, with a block of the parent's: exits with 0. */
static void child(unsigned char *bytes, size_t size_bytes)
{
    unsigned char *own = malloc(3 * MIB);
    bool is_right = own != NULL && dao_malloc_step_begin() == (int)DAO_ERR_FORKED;
    memset(own, 1, 3 * MIB);
    own = realloc(own, 6 * MIB);
    bytes = realloc(bytes, 2 * size_bytes);
    is_right = is_right && bytes != NULL && is_filled(bytes, 9, size_bytes) && is_filled(own, 1, 3 * MIB);
    free(bytes);
    free(own);
    _exit(is_right ? 0 : 1);
}

static void fork_now(void)
{
    unsigned char *bytes = malloc(2 * MIB);
    int status = -1;
    memset(bytes, 9, 2 * MIB);
    pid_t process = fork();
    if (process == 0) {
        (void)alarm(300); /* one that hangs has failed */
        child(bytes, 2 * MIB);
    }
    CU_ASSERT_TRUE(process > 0 && waitpid(process, &status, 0) == process);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CU_ASSERT_TRUE(is_filled(bytes, 9, 2 * MIB));
    free(bytes);
}

static void threads_share_it_and_fork(void)
{
    size_t before = used();
    pthread_t threads[THREAD_COUNT];
    uint64_t seeds[THREAD_COUNT];
    atomic_store(&is_forking, true);
    for (uint64_t i = 0; i < THREAD_COUNT; i++) {
        seeds[i] = seed + i;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, run_thread, &seeds[i]), 0);
    }
    for (int i = 0; i < FORK_COUNT; i++) {
        fork_now();
    }
    atomic_store(&is_forking, false);
    for (int i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL(pthread_join(threads[i], NULL), 0);
    }
    slot_t *left = atomic_exchange(&passed, NULL);
    if (left != NULL) {
        free(left->bytes);
        free(left);
    }
    CU_ASSERT_EQUAL(atomic_load(&wrong_count), 0);
    CU_ASSERT_TRUE(used() == before || is_all);
}

/* ---- steps, and the report ---- */

static void run_step(void)
{
    void *blocks[STEP_BLOCK_COUNT];
    CU_ASSERT_EQUAL(dao_malloc_step_begin(), 0);
    for (int i = 0; i < STEP_BLOCK_COUNT; i++) {
        blocks[i] = seen(malloc((size_t)(i + 1) * MIB));
        (void)seen(malloc_usable_size(blocks[i]) > 0 ? blocks[i] : NULL);
    }
    for (int i = 0; i < STEP_BLOCK_COUNT; i++) {
        free(blocks[i]);
    }
    CU_ASSERT_EQUAL(dao_malloc_step_end(), 0);
}

static void a_step_that_repeats_is_served_from_a_plan(void)
{
    dao_step_plan_stats_t stats;
    run_step();
    for (int i = 0; i < 3; i++) {
        run_step();
        CU_ASSERT_EQUAL(dao_step_plan_stats_get(dao_cpu_place(), &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.latest.hit_count, STEP_BLOCK_COUNT);
    }
    CU_ASSERT_EQUAL(dao_malloc_step_end(), (int)DAO_ERR_INVALID);
}

/* Runs this program as another one, whose report it reads. */
static void a_process_reports_as_it_exits(void)
{
    static char line[LINE_BYTES];
    char path[] = "/tmp/dao_malloc_XXXXXX", command[LINE_BYTES];
    int file = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(file >= 0);
    (void)snprintf(command, sizeof(command), "DAO_MALLOC_REPORT=%s /proc/%ld/exe allocate", path,
                   (long)getpid());
    CU_ASSERT_EQUAL(system(command), 0);
    CU_ASSERT_EQUAL(system(command), 0);
    FILE *report = fdopen(file, "r");
    int line_count = 0;
    while (fgets(line, sizeof(line), report) != NULL) {
        CU_ASSERT_PTR_NOT_NULL(strstr(line, "\"program\": \"exe\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(line, "\"requested_bytes.all.peak\": 5242880"));
        CU_ASSERT_PTR_NOT_NULL(strstr(line, "\"allocation.all.allocated\": 1"));
        CU_ASSERT_PTR_NOT_NULL(strstr(line, "\"hit_count\": 0"));
        line_count += line[strlen(line) - 1] == '\n';
    }
    CU_ASSERT_EQUAL(line_count, 2);
    (void)fclose(report);
    (void)unlink(path);
}

/* A write beyond the limit of file sizes fails, and does not end the process. */
static void a_report_without_room_is_told(void)
{
    char path[] = "/tmp/dao_malloc_XXXXXX", command[LINE_BYTES], line[LINE_BYTES];
    int file = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(file >= 0);
    (void)snprintf(command, sizeof(command),
                   "ulimit -f 0; DAO_MALLOC_REPORT=%s exec /proc/%ld/exe allocate 2>&1", path,
                   (long)getpid());
    FILE *output = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(output);
    CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof(line), output));
    CU_ASSERT_PTR_NOT_NULL(strstr(line, strerror(EFBIG)));
    CU_ASSERT_EQUAL(pclose(output), 0);
    (void)close(file);
    (void)unlink(path);
}

static void a_setting_that_is_none_is_named(void)
{
    char command[LINE_BYTES], line[LINE_BYTES];
    (void)snprintf(command, sizeof(command), "DAO_MALLOC_SMALLEST=1x /proc/%ld/exe allocate 2>&1",
                   (long)getpid());
    FILE *output = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(output);
    CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof(line), output));
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "DAO_MALLOC_SMALLEST: \"1x\""));
    CU_ASSERT_EQUAL(pclose(output), 0);
}

/* Runs this program as another one, with a setting and a name of its own. */
static int run_as(const char *setting, const char *name)
{
    char command[LINE_BYTES];
    (void)snprintf(command, sizeof(command), "%s timeout 60 /proc/%ld/exe %s", setting, (long)getpid(), name);
    return system(command);
}

/* The whole family with each block libdao's, down to a byte. */
static void small_blocks_may_be_libdaos_too(void)
{
    CU_ASSERT_EQUAL(run_as("DAO_MALLOC_SMALLEST=1", "all >/dev/null"), 0);
}

static void a_program_may_start_the_library_itself(void)
{
    CU_ASSERT_EQUAL(run_as("", "library"), 0);
    CU_ASSERT_EQUAL(run_as("DAO_MALLOC_SMALLEST=1", "library"), 0);
    CU_ASSERT_EQUAL(run_as("", "fork"), 0);
}

static bool hides_glibc;

/* In front of the system's: libdao_malloc.so finds glibc by it. */
__attribute__((visibility("default"))) void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))(uintptr_t)dlsym(RTLD_NEXT, "dlopen");
    return hides_glibc ? NULL : real(name, flags);
}

/* A block of glibc's grows into one of libdao's, of a glibc that does not tell how large the first is. */
static int grow_without_glibc(void)
{
    hides_glibc = true;
    char *bytes = seen(malloc(SMALL_BYTES));
    if (bytes == NULL || malloc_usable_size(bytes) != 0) {
        return 2;
    }
    memset(bytes, 0x5a, SMALL_BYTES);
    bytes = seen(realloc(bytes, 2 * SMALL_BYTES));
    int is_lost = bytes == NULL || bytes[0] != 0x5a || memcmp(bytes, bytes + 1, SMALL_BYTES - 1) != 0;
    free(bytes);
    return is_lost;
}

static void nothing_is_lost_where_glibc_is_not_found(void)
{
    CU_ASSERT_EQUAL(run_as("", "grow"), 0);
}

static CU_TestInfo tests[] = {
    {"large blocks are libdao's", large_blocks_are_libdaos},
    {"calloc() clears what was used before", calloc_clears_what_was_used_before},
    {"realloc() keeps what fits", realloc_keeps_what_fits},
    {"nothing is lost where glibc is not found", nothing_is_lost_where_glibc_is_not_found},
    {"blocks lie where they are to be aligned", blocks_lie_where_they_are_to_be_aligned},
    {"what grows, or is clear and large, is glibc's", what_grows_or_is_clear_and_large_is_glibcs},
    {"what cannot be is refused", what_cannot_be_is_refused},
    {"threads share it, and fork", threads_share_it_and_fork},
    {"a step that repeats is served from a plan", a_step_that_repeats_is_served_from_a_plan},
    {"a process reports as it exits", a_process_reports_as_it_exits},
    {"a report without room is told", a_report_without_room_is_told},
    {"a setting that is none is named", a_setting_that_is_none_is_named},
    {"a program may start the library itself", a_program_may_start_the_library_itself},
    {"small blocks may be libdao's, too", small_blocks_may_be_libdaos_too},
    CU_TEST_INFO_NULL,
};

/* Those that hold with small blocks of libdao's, too. */
static CU_TestInfo all_tests[] = {
    {"calloc() clears what was used before", calloc_clears_what_was_used_before},
    {"blocks lie where they are to be aligned", blocks_lie_where_they_are_to_be_aligned},
    {"threads share it, and fork", threads_share_it_and_fork},
    CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "library") == 0) { /* which is started before the first block */
        return dao_init(&(dao_config_t){.log_level = DAO_LOG_LEVEL_INFO}) == DAO_OK &&
                       seen(malloc(MIB)) != NULL
                   ? 0
                   : 1;
    }
    if (argc > 1 && strcmp(argv[1], "fork") == 0) { /* before anything is libdao's */
        int status = -1;
        pid_t process = fork();
        if (process == 0) {
            _exit(dao_malloc_step_begin() == (int)DAO_ERR_FORKED ? 0 : 1);
        }
        return waitpid(process, &status, 0) == process && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    if (argc > 1 && strcmp(argv[1], "allocate") == 0) {
        free(seen(malloc(5 * MIB)));
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "grow") == 0) {
        return grow_without_glibc();
    }
    is_all = argc > 1 && strcmp(argv[1], "all") == 0;
    CU_SuiteInfo suites[] = {{"malloc", begin, end, NULL, NULL, is_all ? all_tests : tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

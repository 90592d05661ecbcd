/* SPDX-License-Identifier: Apache-2.0 */
/* CUnit's basic interface with one main for all test programs. */
#define _GNU_SOURCE
#include "tests/support/suite.h"

#include "base/internal_error.h"
#include "tests/support/sanitizer.h"

#include <CUnit/Basic.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#if defined(TEST_HAS_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>

/* What was freed is told apart for the next 16 MiB of frees, of which no suite needs more: with the usual 256
   MiB a suite that frees much asks the system for most of those pages. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "quarantine_size_mb=16";
}
#endif

/* A program on the shared library alone does not see its inside. */
#pragma weak dao_internal_error_count
#pragma weak dao_internal_errors_log

/* ---- one case ---- */

#define WORD_BYTES    256
#define NEAREST_COUNT 3

/* Returns what to run, or NULL for everything: the program's first argument, which every main would only hand
   on, or DAO_TEST_CASE. */
static const char *chosen_case(void)
{
    static char arguments[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, arguments, sizeof(arguments) - 1);
    if (file >= 0) {
        (void)close(file);
    }
    size_t program = strlen(arguments) + 1;
    const char *word = length > (ssize_t)program ? arguments + program : getenv("DAO_TEST_CASE");
    return word == NULL || word[0] == '\0' || strcmp(word, "all") == 0 ? NULL : word;
}

static bool is_chosen(const char *word, CU_pSuite suite, CU_pTest test)
{
    return strcasestr(suite->pName, word) != NULL || strcasestr(test->pName, word) != NULL;
}

/* Returns how many letters have to be changed, left out or put in for `word` to be a part of `name`. */
static unsigned distance(const char *word, const char *name)
{
    size_t count = strnlen(word, WORD_BYTES - 1);
    unsigned before[WORD_BYTES]; /* before[i]: of the first i letters of the word, ending at this letter of
                                    the name */
    for (size_t i = 0; i <= count; i++) {
        before[i] = (unsigned)i;
    }
    unsigned least = before[count];
    for (; *name != '\0'; name++) {
        unsigned diagonal = before[0]; /* stays 0: a part begins anywhere */
        for (size_t i = 1; i <= count; i++) {
            unsigned changed = diagonal + (strncasecmp(&word[i - 1], name, 1) != 0);
            diagonal = before[i];
            unsigned moved = (before[i] < before[i - 1] ? before[i] : before[i - 1]) + 1;
            before[i] = changed < moved ? changed : moved;
        }
        least = before[count] < least ? before[count] : least;
    }
    return least;
}

/* Puts a name among the nearest, which are in order; each name once. */
static void keep_nearest(const char *names[NEAREST_COUNT], unsigned distances[NEAREST_COUNT],
                         const char *name, unsigned far)
{
    size_t at = 0;
    while (at < NEAREST_COUNT && names[at] != NULL && distances[at] <= far) {
        if (strcmp(names[at++], name) == 0) {
            return;
        }
    }
    for (size_t i = NEAREST_COUNT; i-- > at;) {
        names[i] = i > at ? names[i - 1] : name;
        distances[i] = i > at ? distances[i - 1] : far;
    }
}

static void print_nearest(const char *word)
{
    const char *names[NEAREST_COUNT] = {NULL};
    unsigned distances[NEAREST_COUNT] = {0};
    for (CU_pSuite suite = CU_get_registry()->pSuite; suite != NULL; suite = suite->pNext) {
        for (CU_pTest test = suite->pTest; test != NULL; test = test->pNext) {
            keep_nearest(names, distances, test->pName, distance(word, test->pName));
        }
    }
    (void)fprintf(stderr, "No case or suite has \"%s\" in its name. The nearest:\n", word);
    for (size_t i = 0; i < NEAREST_COUNT && names[i] != NULL; i++) {
        (void)fprintf(stderr, "    %s\n", names[i]);
    }
}

/* Leaves only the chosen cases active; returns their number. */
static unsigned choose(const char *word)
{
    unsigned count = 0;
    for (CU_pSuite suite = CU_get_registry()->pSuite; suite != NULL; suite = suite->pNext) {
        unsigned in_suite = 0;
        for (CU_pTest test = suite->pTest; test != NULL; test = test->pNext) {
            bool is_active = is_chosen(word, suite, test);
            (void)CU_set_test_active(test, is_active);
            in_suite += is_active;
        }
        (void)CU_set_suite_active(suite, in_suite > 0);
        count += in_suite;
    }
    CU_set_fail_on_inactive(CU_FALSE);
    return count;
}

int dao_suite_run(CU_SuiteInfo *suites)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    /* A case touches a few bytes of much memory, of which huge pages clear more than it needs. */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) {
        (void)fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
        return EXIT_FAILURE;
    }
    const char *word = chosen_case();
    if (word != NULL && choose(word) == 0) {
        print_nearest(word);
        CU_cleanup_registry();
        return EXIT_FAILURE;
    }
    CU_basic_set_mode(word == NULL ? CU_BRM_NORMAL : CU_BRM_VERBOSE);
    CU_ErrorCode error = CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failure_records();
    unsigned run = CU_get_number_of_tests_run();
    CU_cleanup_registry();
    uint64_t internal_errors = dao_internal_error_count != NULL ? dao_internal_error_count() : 0;
    if (internal_errors > 0) {
        dao_internal_errors_log();
        (void)fprintf(stderr, "%" PRIu64 " internal errors of the library\n", internal_errors);
    }
    bool is_good = error == CUE_SUCCESS && failures == 0 && run > 0 && internal_errors == 0;
    return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}

uint64_t dao_test_seed(const char *test, uint64_t fallback)
{
    const char *text = getenv("DAO_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    (void)printf("    %s: DAO_TEST_SEED=%" PRIu64 "\n", test, seed);
    return seed;
}

bool dao_test_is_again(void)
{
    return getenv("DAO_TEST_AGAIN") != NULL;
}

static char folder[] = "/tmp/dao-test-XXXXXX";
char dao_test_path[sizeof(folder) + sizeof("/f")];

int dao_test_path_begin(void)
{
    bool is_made = mkdtemp(folder) != NULL;
    (void)snprintf(dao_test_path, sizeof(dao_test_path), "%s/f", folder);
    return is_made ? 0 : 1;
}

int dao_test_path_end(void)
{
    (void)unlink(dao_test_path);
    return rmdir(folder);
}

void dao_test_write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        CU_FAIL_FATAL("cannot write a test file");
        return;
    }
    CU_ASSERT_EQUAL(fwrite(bytes, 1, length, file), length);
    CU_ASSERT_EQUAL(fclose(file), 0);
}

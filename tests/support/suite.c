/* SPDX-License-Identifier: Apache-2.0 */
/* CUnit's basic interface with one main for all test programs. */
#define _GNU_SOURCE
#include "tests/support/suite.h"

#include <CUnit/Basic.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int dao_suite_run(CU_SuiteInfo *suites)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) {
        (void)fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
        return EXIT_FAILURE;
    }
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_ErrorCode error = CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failure_records();
    unsigned run = CU_get_number_of_tests_run();
    CU_cleanup_registry();
    return error == CUE_SUCCESS && failures == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

uint64_t dao_test_seed(const char *test, uint64_t fallback)
{
    const char *text = getenv("DAO_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    (void)printf("    %s: DAO_TEST_SEED=%" PRIu64 "\n", test, seed);
    return seed;
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for traces outside the sources; tests pass without them unless the environment promises them. */
#define _GNU_SOURCE
#include "tests/support/models/trace.h"

#include <CUnit/CUnit.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* `fallback` is where it lies unless `variable` says otherwise. */
static bool find(const char *variable, const char *fallback, const char *name, char *out_path,
                 size_t path_bytes)
{
    const char *folder = getenv(variable);
    int length = snprintf(out_path, path_bytes, "%s/%s", folder != NULL ? folder : fallback, name);
    bool is_here = length > 0 && (size_t)length < path_bytes && access(out_path, R_OK) == 0;
    if (!is_here && folder != NULL) {
        (void)printf("    %s promises %s, which cannot be read\n", variable, out_path);
        CU_FAIL("data that was promised is not there");
    }
    return is_here;
}

bool dao_test_shared_trace(const char *name, char *out_path, size_t path_bytes)
{
    return find("DAO_TEST_TRACES", DAO_TEST_SOURCE_DIR "/../shared/data/torch-steps", name, out_path,
                path_bytes);
}

bool dao_test_shared_file(const char *name, char *out_path, size_t path_bytes)
{
    return find("DAO_TEST_SHARED", DAO_TEST_SOURCE_DIR "/../shared", name, out_path, path_bytes);
}

/* Looks for traces outside the sources; tests pass without them. */
#define _GNU_SOURCE
#include "tests/support/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool dao_test_shared_trace(const char *name, char *out_path, size_t path_bytes)
{
    const char *folder = getenv("DAO_TEST_TRACES");
    if (folder == NULL) {
        folder = DAO_TEST_SOURCE_DIR "/../shared/data/torch-steps";
    }
    int length = snprintf(out_path, path_bytes, "%s/%s", folder, name);
    return length > 0 && (size_t)length < path_bytes && access(out_path, R_OK) == 0;
}

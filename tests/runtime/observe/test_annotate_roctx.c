/* SPDX-License-Identifier: Apache-2.0 */
/* What ROCTX makes of it: ranges by name, one within the other, and nothing of memory. */
#include "runtime/observe/annotate.h"
#include "tests/support/suite.h"

#include <roctracer/roctx.h>

#include <stdio.h>

static char range_name[32];
static int depth;

int roctxRangePushA(const char *message)
{
    (void)snprintf(range_name, sizeof(range_name), "%s", message);
    return depth++;
}

int roctxRangePop(void)
{
    return --depth;
}

static void ranges_have_names(void)
{
    dao_annotator.range_push("outer");
    CU_ASSERT_STRING_EQUAL(range_name, "outer");
    dao_annotator.range_push("inner");
    CU_ASSERT_STRING_EQUAL(range_name, "inner");
    CU_ASSERT_EQUAL(depth, 2);
    dao_annotator.range_pop();
    dao_annotator.range_pop();
    CU_ASSERT_EQUAL(depth, 0);
}

static void it_has_no_use_for_memory(void)
{
    CU_ASSERT_PTR_NULL(dao_annotator.heap_register);
    CU_ASSERT_PTR_NULL(dao_annotator.block_register);
}

static CU_TestInfo tests[] = {
    {"ranges have names", ranges_have_names},
    {"it has no use for memory", it_has_no_use_for_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"roctx", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

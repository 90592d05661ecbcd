/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: what was filled is found, and any change of any byte is seen, at every size around a block. */
#include "tests/support/suite.h"
#include "tools/run/pattern.h"

#include <string.h>

enum { MOST_BYTES = 600 };

static uint64_t words[MOST_BYTES / 8 + 1];

static void what_was_filled_is_found_at_every_size(void)
{
    uint64_t base = dao_pattern_base(3, 1);
    unsigned char *bytes = (unsigned char *)words;
    for (size_t size = 0; size <= MOST_BYTES; size++) {
        memset(words, 0xee, sizeof(words));
        dao_pattern_fill(words, size, base);
        CU_ASSERT_EQUAL(dao_pattern_check(words, size, base), 0);
        CU_ASSERT_EQUAL(bytes[size], 0xee);
    }
}

static void every_changed_byte_is_seen(void)
{
    uint64_t base = dao_pattern_base(7, 0);
    unsigned char *bytes = (unsigned char *)words;
    size_t size = MOST_BYTES - 3;
    dao_pattern_fill(words, size, base);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 1;
        CU_ASSERT_EQUAL(dao_pattern_check(words, size, base), 1);
        bytes[i] ^= 1;
    }
    CU_ASSERT_EQUAL(dao_pattern_check(words, size, base), 0);
}

static void others_content_is_not_ones_own(void)
{
    for (uint64_t owner = 0; owner < 100; owner++) {
        dao_pattern_fill(words, MOST_BYTES, dao_pattern_base(owner, 1));
        CU_ASSERT_EQUAL(dao_pattern_check(words, MOST_BYTES, dao_pattern_base(owner, 2)), MOST_BYTES / 8);
        CU_ASSERT_EQUAL(dao_pattern_check(words, MOST_BYTES, dao_pattern_base(owner + 1, 1)), MOST_BYTES / 8);
        CU_ASSERT_EQUAL(dao_pattern_check(words + 1, MOST_BYTES - 8, dao_pattern_base(owner, 1)),
                        MOST_BYTES / 8 - 1);
    }
}

static CU_TestInfo tests[] = {
    {"what was filled is found at every size", what_was_filled_is_found_at_every_size},
    {"every changed byte is seen", every_changed_byte_is_seen},
    {"others' content is not one's own", others_content_is_not_ones_own},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pattern", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What AddressSanitizer is told: poison goes from exactly the bytes that are said, however many there are. */
#define DAO_POISONS
#include "base/memory/host.h"
#include "base/memory/poison.h"
#include "tests/support/suite.h"

#include <stdbool.h>

#define MAPPED_BYTES ((size_t)1 << 20)

static bool is_poisoned(char *address, size_t size_bytes)
{
    return __asan_region_is_poisoned(address, size_bytes) != NULL;
}

/* Ranges within a page of the sanitizer's shadow, over several, and over all; at and between their edges. */
static void poison_goes_from_what_is_said_alone(void)
{
    static const size_t begins[] = {8, 4096, 32768, 40008, 65536};
    static const size_t sizes[] = {8, 4096, 32768, 65528, 200000, 524288};
    char *bytes = dao_host_map_pages(MAPPED_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            char *begin = bytes + begins[i];
            dao_poison(bytes, MAPPED_BYTES);
            dao_unpoison(begin, sizes[k]);
            CU_ASSERT_FALSE(is_poisoned(begin, sizes[k]));
            CU_ASSERT_TRUE(is_poisoned(begin - 1, 1));
            CU_ASSERT_TRUE(is_poisoned(begin + sizes[k], 1));
            CU_ASSERT_TRUE(is_poisoned(bytes, 1));
            CU_ASSERT_TRUE(is_poisoned(bytes + MAPPED_BYTES - 1, 1));
        }
    }
    dao_unpoison(bytes, MAPPED_BYTES);
    CU_ASSERT_FALSE(is_poisoned(bytes, MAPPED_BYTES));
    dao_host_unmap(bytes, MAPPED_BYTES);
}

static CU_TestInfo tests[] = {
    {"poison goes from what is said alone", poison_goes_from_what_is_said_alone},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"poison", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

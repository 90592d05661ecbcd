/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one callback, lines up to its level, one printable line each. */
#include "base/log.h"
#include "base/report/callback.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct seen {
    uint32_t count;
    dao_log_level_t level;
    bool is_refused; /* dao_finalize(), in the callback */
    char line[2048];
} seen_t;

static seen_t seen;

static void note(dao_log_level_t level, const char *line, void *user)
{
    seen_t *notes = user;
    notes->count++;
    notes->level = level;
    notes->is_refused = dao_callback_check() == DAO_ERR_REENTRANT;
    (void)snprintf(notes->line, sizeof(notes->line), "%s", line);
}

static void begin(void)
{
    seen = (seen_t){0};
    dao_log_set(note, &seen, DAO_LOG_LEVEL_WARNING);
}

static void end(void)
{
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static void a_line_reaches_the_callback(void)
{
    dao_log(DAO_LOG_LEVEL_ERROR, "%d of %s", 3, "four");
    CU_ASSERT_EQUAL(seen.count, 1);
    CU_ASSERT_EQUAL(seen.level, DAO_LOG_LEVEL_ERROR);
    CU_ASSERT_STRING_EQUAL(seen.line, "3 of four");
    CU_ASSERT_TRUE(seen.is_refused);
    CU_ASSERT_EQUAL(dao_callback_check(), DAO_OK);
}

static void less_important_lines_are_dropped(void)
{
    dao_log(DAO_LOG_LEVEL_WARNING, "at the level");
    dao_log(DAO_LOG_LEVEL_INFO, "below it");
    CU_ASSERT_EQUAL(seen.count, 1);
    CU_ASSERT_STRING_EQUAL(seen.line, "at the level");
}

static void without_a_callback_nothing_happens(void)
{
    dao_log_set(NULL, &seen, DAO_LOG_LEVEL_INFO);
    dao_log(DAO_LOG_LEVEL_ERROR, "nobody reads it");
    CU_ASSERT_EQUAL(seen.count, 0);
}

static void a_line_is_printable_and_bounded(void)
{
    char text[2 * sizeof(seen.line)];
    dao_log(DAO_LOG_LEVEL_ERROR, "a\n\xff");
    CU_ASSERT_STRING_EQUAL(seen.line, "a??");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    dao_log(DAO_LOG_LEVEL_ERROR, "%s", text);
    CU_ASSERT_EQUAL(strlen(seen.line), 1023); /* base/log.c: LINE_BYTES - 1 */
}

static CU_TestInfo tests[] = {
    {"a line reaches the callback", a_line_reaches_the_callback},
    {"less important lines are dropped", less_important_lines_are_dropped},
    {"without a callback nothing happens", without_a_callback_nothing_happens},
    {"a line is printable and bounded", a_line_is_printable_and_bounded},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"log", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

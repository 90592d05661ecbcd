/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one callback or standard error, lines up to its level, one printable line each. */
#define _POSIX_C_SOURCE 200809L /* dup2, pipe */
#include "base/log.h"
#include "base/report/callback.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_WARNING);
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

/* ---- without a callback ---- */

static int saved_error_file = -1;
static int pipe_files[2];

/* From now on standard error is a pipe's end. */
static void error_begin(void)
{
    CU_ASSERT_EQUAL_FATAL(pipe(pipe_files), 0);
    saved_error_file = dup(STDERR_FILENO);
    CU_ASSERT_EQUAL_FATAL(dup2(pipe_files[1], STDERR_FILENO), STDERR_FILENO);
}

/* Returns what was written meanwhile. */
static const char *error_end(void)
{
    static char text[4096];
    CU_ASSERT_EQUAL(dup2(saved_error_file, STDERR_FILENO), STDERR_FILENO);
    CU_ASSERT_EQUAL(close(saved_error_file) | close(pipe_files[1]), 0);
    ssize_t length = read(pipe_files[0], text, sizeof(text) - 1);
    CU_ASSERT_TRUE_FATAL(length >= 0);
    text[length] = '\0';
    CU_ASSERT_EQUAL(close(pipe_files[0]), 0);
    return text;
}

static void without_a_callback_lines_go_to_standard_error(void)
{
    dao_log_set(NULL, &seen, DAO_LOG_LEVEL_WARNING);
    error_begin();
    dao_log(DAO_LOG_LEVEL_ERROR, "%d of\n%s", 3, "four");
    dao_log(DAO_LOG_LEVEL_WARNING, "second");
    dao_log(DAO_LOG_LEVEL_INFO, "below the level");
    dao_log(DAO_LOG_LEVEL_DEBUG, "far below");
    CU_ASSERT_STRING_EQUAL(error_end(), "libdao: error: 3 of?four\nlibdao: warning: second\n");
    CU_ASSERT_EQUAL(seen.count, 0);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_DEBUG);
    error_begin();
    dao_log(DAO_LOG_LEVEL_INFO, "a");
    dao_log(DAO_LOG_LEVEL_DEBUG, "b");
    dao_log_end(); /* there is no callback to be taken away */
    dao_log(DAO_LOG_LEVEL_ERROR, "c");
    CU_ASSERT_STRING_EQUAL(error_end(), "libdao: info: a\nlibdao: debug: b\nlibdao: error: c\n");
}

static void without_standard_error_lines_are_lost(void)
{
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_WARNING);
    int saved = dup(STDERR_FILENO);
    CU_ASSERT_TRUE_FATAL(saved >= 0);
    CU_ASSERT_EQUAL(close(STDERR_FILENO), 0);
    dao_log(DAO_LOG_LEVEL_ERROR, "nobody reads it");
    CU_ASSERT_EQUAL(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    CU_ASSERT_EQUAL(close(saved), 0);
    error_begin();
    dao_log(DAO_LOG_LEVEL_ERROR, "the next one");
    CU_ASSERT_STRING_EQUAL(error_end(), "libdao: error: the next one\n");
}

static void a_log_that_is_off_says_nothing(void)
{
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_OFF);
    error_begin();
    dao_log(DAO_LOG_LEVEL_ERROR, "nobody reads it");
    dao_log_set(note, &seen, DAO_LOG_LEVEL_OFF);
    dao_log(DAO_LOG_LEVEL_ERROR, "nobody reads it");
    dao_log_set(note, &seen, DAO_LOG_LEVEL_WARNING);
    dao_log_end();
    dao_log(DAO_LOG_LEVEL_ERROR, "the program has heard of it by its callback alone");
    CU_ASSERT_STRING_EQUAL(error_end(), "");
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
    {"without a callback lines go to standard error", without_a_callback_lines_go_to_standard_error},
    {"without standard error lines are lost", without_standard_error_lines_are_lost},
    {"a log that is off says nothing", a_log_that_is_off_says_nothing},
    {"a line is printable and bounded", a_line_is_printable_and_bounded},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"log", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

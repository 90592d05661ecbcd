/* SPDX-License-Identifier: Apache-2.0 */
/* What commands print: lists of text in little room, arrays of rows, reports for people and for programs, and
   nothing of a progress that is over at once. */
#define _POSIX_C_SOURCE 200809L /* fileno */
#include "base/numbers/random.h"
#include "tests/support/suite.h"
#include "tests/tools/output.h"
#include "tools/base/progress.h"
#include "tools/model/history.h"
#include "tools/options/complain.h"
#include "tools/print/json_rows.h"
#include "tools/print/report.h"
#include "tools/print/text_list.h"
#include "tools/report/page_bytes.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_list_has_commas_and_is_cut(void)
{
    char text[12];
    dao_text_list_t list = dao_text_list_begin(text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "");
    dao_text_list_add(&list, "%d", 1);
    CU_ASSERT_STRING_EQUAL(text, "1");
    dao_text_list_add(&list, "two");
    CU_ASSERT_STRING_EQUAL(text, "1, two");
    dao_text_list_add(&list, "and more");
    CU_ASSERT_EQUAL(strlen(text), sizeof(text) - 1);
    dao_text_list_add(&list, "still more");
    CU_ASSERT_EQUAL(strlen(text), sizeof(text) - 1);
    CU_ASSERT_EQUAL(list.count, 4);
}

static void rows_are_an_array(void)
{
    static const uint64_t counts[] = {1, UINT64_MAX};
    char text[OUTPUT_BYTES];
    dao_json_rows_t rows;
    dao_json_rows_init(&rows);
    dao_json_rows_begin(&rows);
    dao_json_rows_text(&rows, "name", "a \"b\"\n");
    dao_json_rows_text(&rows, "file", "\xff.dao");
    dao_json_rows_count(&rows, "count", UINT64_MAX);
    dao_json_rows_begin(&rows);
    dao_json_rows_decimal(&rows, "ratio", 1.25, 1);
    dao_json_rows_flag(&rows, "flag", true);
    dao_json_rows_null(&rows, "none");
    dao_json_rows_counts(&rows, "counts", counts, 2);
    catch_output();
    bool is_printed = dao_json_rows_print(&rows);
    take_output(text);
    dao_json_rows_finish(&rows);
    CU_ASSERT_TRUE(is_printed);
    CU_ASSERT_EQUAL(text[0], '[');
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"name\":\"a \\\"b\\\"\\n\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"file\":\"\xef\xbf\xbd.dao\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"count\":18446744073709551615"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"ratio\":1.2"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"flag\":true"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"none\":null"));
}

static void print_report(bool is_json, char out_text[OUTPUT_BYTES])
{
    dao_report_t report, item;
    catch_output();
    dao_report_begin(&report, is_json);
    dao_report_text(&report, "model", "model", "gpt");
    dao_report_count(&report, "steps", "steps", 6);
    dao_report_bytes(&report, "peak_bytes", "peak", 362281164);
    dao_report_count(&report, "for_programs", NULL, 7);
    dao_report_row("for people", "%d rows", 2);
    dao_report_unknown(&report, "rate", "rate", "not measured");
    dao_report_begin(&item, is_json);
    dao_report_flag(&item, "flag", NULL, true);
    dao_report_item(&report, "items", &item);
    CU_ASSERT_EQUAL(dao_report_end(&report), DAO_EXIT_OK);
    take_output(out_text);
}

static void a_report_is_for_people_or_for_programs(void)
{
    char text[OUTPUT_BYTES];
    print_report(false, text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "peak                 362281164 (345.5 MiB)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "not measured"));
    CU_ASSERT_PTR_NULL(strstr(text, "for_programs"));
    print_report(true, text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"peak_bytes\":362281164"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"for_programs\":7"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"rate\":null"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"items\""));
    CU_ASSERT_PTR_NULL(strstr(text, "345.5"));
}

static void a_progress_counts_its_parts(void)
{
    char text[OUTPUT_BYTES];
    catch_output();
    dao_progress_start();
    dao_progress_start(); /* it runs */
    dao_progress_phase("first", DAO_PROGRESS_UNIT_PARTS, 2);
    dao_progress_add(1);
    dao_progress_add(1);
    CU_ASSERT_EQUAL(dao_progress_done(), 2);
    dao_progress_phase("second", DAO_PROGRESS_UNIT_BYTES, 3);
    CU_ASSERT_EQUAL(dao_progress_done(), 0);
    dao_progress_set(7);
    CU_ASSERT_EQUAL(dao_progress_done(), 7);
    dao_progress_hide();
    dao_progress_stop();
    dao_progress_stop(); /* it has stopped */
    take_output(text);
    CU_ASSERT_STRING_EQUAL(text, ""); /* it was over at once */
}

static void placing_counts_all_events(void)
{
    dao_plan_input_t lifetimes;
    dao_history_t history;
    dao_plan_input_init(&lifetimes);
    for (uint64_t i = 0; i < 5; i++) {
        dao_plan_buffer_t buffer = {.begin_time = i, .end_time = i + 2, .size_bytes = 100};
        CU_ASSERT_EQUAL_FATAL(dao_plan_input_add(&lifetimes, NULL, &buffer, NULL), DAO_OK);
    }
    CU_ASSERT_EQUAL_FATAL(dao_history_of_lifetimes(&lifetimes, &history), DAO_OK);
    CU_ASSERT_EQUAL(dao_history_place(&history), DAO_OK);
    CU_ASSERT_EQUAL(dao_progress_done(), history.event_count);
    CU_ASSERT_TRUE(dao_progress_done() >= 5);
    dao_history_finish(&history);
    dao_plan_input_finish(&lifetimes);
}

/* More than a slice of what is packed at once, of which more than a buffer is written. */
static void packing_counts_all_bytes(void)
{
    dao_page_bytes_t page = {0};
    uint64_t random = 1;
    FILE *file = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    while (page.count < 3 * MIB / 2) {
        dao_page_put_number(&page, dao_random_next(&random));
    }
    CU_ASSERT_EQUAL(dao_page_bytes_write(file, &page), DAO_OK);
    CU_ASSERT_EQUAL(dao_progress_done(), page.count);
    CU_ASSERT_TRUE(ftell(file) > (long)page.count); /* letters of what packs badly */
    (void)fclose(file);
    dao_page_bytes_finish(&page);
}

/* In a process of its own: it ends as if nobody had watched. */
static void ctrl_c_ends_what_shows_progress(void)
{
    int result = 0;
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        (void)signal(SIGINT, SIG_DFL); /* a shell's background jobs ignore it */
        (void)alarm(300);
        dao_progress_start();
        dao_progress_phase("waiting", DAO_PROGRESS_UNIT_PARTS, 1);
        (void)raise(SIGINT);
        for (;;) {
            (void)pause();
        }
    }
    CU_ASSERT_EQUAL(waitpid(child, &result, 0), child);
    CU_ASSERT_TRUE(WIFSIGNALED(result) && WTERMSIG(result) == SIGINT);
}

static CU_TestInfo tests[] = {
    {"ctrl-c ends what shows progress", ctrl_c_ends_what_shows_progress},
    {"a list has commas and is cut", a_list_has_commas_and_is_cut},
    {"rows are an array", rows_are_an_array},
    {"a report is for people or for programs", a_report_is_for_people_or_for_programs},
    {"a progress counts its parts", a_progress_counts_its_parts},
    {"placing counts all events", placing_counts_all_events},
    {"packing counts all bytes", packing_counts_all_bytes},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"print", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

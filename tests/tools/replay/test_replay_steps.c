/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are replayed: those are served that are to be, and blocks that share bytes are seen, counted,
   and a failure of the commands that replay. The build puts __wrap_dao_alloc() before the library's own, so
   that one block can lie within another. */
#define _GNU_SOURCE
#include "base/report/fault.h"
#include "bench/commands.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/commands.h"
#include "tools/options/complain.h"
#include "tools/options/program.h"
#include "tools/replay/replay_steps.h"

#include <dao/dao.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEP_COUNT = 6, BLOCK_COUNT = 8, ROW_COUNT_MAX = 8, OUTPUT_BYTES = 8192 };

#define EXAMPLE DAO_TEST_TRACE "/mobilenet_v2.4.events.csv"

/* ---- a library that gives a block twice ---- */

void *__real_dao_alloc(dao_place_t place, size_t size_bytes);
void *__wrap_dao_alloc(dao_place_t place, size_t size_bytes);
dao_status_t __real_dao_free(dao_place_t place, void *address);
dao_status_t __wrap_dao_free(dao_place_t place, void *address);

static int64_t allocs_left = -1; /* before the one that goes wrong; negative: none does */
static char *latest;             /* if nothing was freed since */
static char *inside;             /* what was handed out wrongly */

void *__wrap_dao_alloc(dao_place_t place, size_t size_bytes)
{
    if (allocs_left >= 0 && allocs_left-- == 0) {
        allocs_left = latest == NULL ? 0 : -1;
        if (latest != NULL) {
            inside = latest + 1;
            return inside;
        }
    }
    latest = __real_dao_alloc(place, size_bytes);
    return latest;
}

dao_status_t __wrap_dao_free(dao_place_t place, void *address)
{
    bool is_inside = address != NULL && address == inside;
    latest = NULL;
    inside = is_inside ? NULL : inside;
    return is_inside ? DAO_OK : __real_dao_free(place, address);
}

/* ---- a program ---- */

/* In each step as many blocks, and one without bytes. */
static dao_event_file_t make_file(void)
{
    dao_event_file_t file = {0};
    uint32_t tensor = 0;
    dao_id_map_init(&file.ids);
    for (uint64_t step = 0; step < STEP_COUNT; step++) {
        CU_ASSERT_EQUAL_FATAL(dao_event_file_add_step(&file), DAO_OK);
        for (uint64_t i = 0; i <= BLOCK_COUNT; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_event_file_add_tensor(&file, i * 100000, &tensor), DAO_OK);
            CU_ASSERT_EQUAL_FATAL(dao_event_file_add_record(&file, tensor, true, i), DAO_OK);
        }
        for (uint64_t i = 0; i <= BLOCK_COUNT; i++, tensor--) {
            CU_ASSERT_EQUAL_FATAL(dao_event_file_add_record(&file, tensor, false, BLOCK_COUNT), DAO_OK);
        }
    }
    return file;
}

typedef struct rows {
    dao_replay_row_t rows[ROW_COUNT_MAX];
    size_t count;
} rows_t;

static void collect(const dao_replay_row_t *row, void *user)
{
    rows_t *rows = user;
    CU_ASSERT_FATAL(rows->count < ROW_COUNT_MAX);
    rows->rows[rows->count++] = *row;
}

static dao_replay_config_t config_of(const char *place)
{
    dao_replay_config_t config = {
        .place_config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}}, .recorded = {2, 2}, .served = {4, 5}};
    CU_ASSERT_EQUAL_FATAL(dao_place_parse(place, &config.place), DAO_OK);
    return config;
}

/* ---- tests ---- */

static void steps_are_served_as_they_are_asked_for(void)
{
    static const char *const places[] = {"cpu", "device:0"};
    dao_event_file_t file = make_file();
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        dao_replay_config_t config = config_of(places[i]);
        dao_replay_overlaps_t overlaps;
        rows_t rows = {.count = 0};
        CU_ASSERT_EQUAL(dao_replay_run(&file, &config, collect, &rows, &overlaps), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(rows.count, 2);
        CU_ASSERT(rows.rows[0].step == 4 && rows.rows[1].step == 5);
        CU_ASSERT_EQUAL(rows.rows[1].counts.request_count, BLOCK_COUNT);
        CU_ASSERT_EQUAL(rows.rows[1].served, 1);
        CU_ASSERT(rows.rows[1].total_ratio >= 1 && rows.rows[1].reserved_bytes > 0);
        CU_ASSERT(rows.rows[1].alone_bytes == 0 && rows.rows[1].reserved_ratio == 1);
        CU_ASSERT_EQUAL(overlaps.block_count, 5 * BLOCK_COUNT);
        CU_ASSERT_EQUAL(overlaps.overlap_count, 0);
        CU_ASSERT_EQUAL(dao_replay_overlaps_check(&overlaps), DAO_OK);
    }
    dao_event_file_finish(&file);
}

static void the_place_without_plans_stands_beside_it(void)
{
    dao_event_file_t file = make_file();
    dao_replay_config_t config = config_of("device:0");
    dao_replay_overlaps_t overlaps;
    rows_t rows = {.count = 0};
    config.is_compared = true;
    CU_ASSERT_EQUAL(dao_replay_run(&file, &config, collect, &rows, &overlaps), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(rows.count, 2); /* of the run with plans alone */
    for (size_t i = 0; i < rows.count; i++) {
        const dao_replay_row_t *row = &rows.rows[i];
        CU_ASSERT(row->alone_bytes > 0);
        CU_ASSERT_EQUAL(row->reserved_ratio, (double)row->reserved_bytes / (double)row->alone_bytes);
    }
    CU_ASSERT_EQUAL(overlaps.block_count, 2 * 5 * BLOCK_COUNT);
    dao_event_file_finish(&file);
}

static void what_cannot_be_run_is_told(void)
{
    dao_event_file_t file = make_file();
    dao_replay_config_t config = config_of("cpu");
    dao_replay_overlaps_t overlaps;
    rows_t rows = {.count = 0};
    config.served = (dao_replay_span_t){STEP_COUNT + 1, UINT64_MAX};
    CU_ASSERT_EQUAL(dao_replay_run(&file, &config, collect, &rows, &overlaps), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "none is left to be served"));
    config = config_of("device:0");
    config.place.index = 63;
    CU_ASSERT_EQUAL(dao_replay_run(&file, &config, collect, &rows, &overlaps), DAO_ERR_NO_DEVICE);
    config = config_of("cpu");
    uint64_t failed = 1;
    for (uint64_t n = 0; failed > 0; n++) {
        rows.count = 0;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_replay_run(&file, &config, collect, &rows, &overlaps);
        failed = dao_fault_disarm();
        CU_ASSERT(status == DAO_OK || (status == DAO_ERR_NO_HOST_MEMORY && failed > 0));
    }
    dao_event_file_finish(&file);
}

/* In either run: the one without plans makes the first half of the blocks. */
static void blocks_that_share_bytes_are_counted(void)
{
    dao_event_file_t file = make_file();
    dao_replay_config_t config = config_of("cpu");
    config.is_compared = true;
    for (int64_t n = 0; n < 2 * 5 * (BLOCK_COUNT + 1); n += BLOCK_COUNT + 1) {
        dao_replay_overlaps_t overlaps;
        rows_t rows = {.count = 0};
        allocs_left = n + 2; /* the first block that is not the first of its step */
        CU_ASSERT_EQUAL(dao_replay_run(&file, &config, collect, &rows, &overlaps), DAO_OK);
        CU_ASSERT_EQUAL(allocs_left, -1);
        CU_ASSERT_EQUAL(overlaps.overlap_count, 1);
        CU_ASSERT_EQUAL(overlaps.block_count, 2 * 5 * BLOCK_COUNT);
        CU_ASSERT_EQUAL(overlaps.step, (uint64_t)n / (BLOCK_COUNT + 1) % 5 + 1);
        CU_ASSERT_EQUAL(overlaps.pair[0].owner, overlaps.pair[1].owner + 1);
        CU_ASSERT_EQUAL(overlaps.pair[0].begin, overlaps.pair[1].begin + 1);
        CU_ASSERT_EQUAL(dao_replay_overlaps_check(&overlaps), DAO_ERR_CORRUPT);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "1 of 80 blocks share bytes"));
    }
    dao_event_file_finish(&file);
}

/* Runs a command and reads what it prints, on standard output and error. */
static int run(const dao_command_t *command, int count, char **arguments, char out_text[OUTPUT_BYTES])
{
    int file = open(dao_test_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    int kept_output = dup(STDOUT_FILENO);
    int kept_error = dup(STDERR_FILENO);
    CU_ASSERT_TRUE_FATAL(file >= 0 && kept_output >= 0 && kept_error >= 0);
    (void)fflush(stdout);
    CU_ASSERT_TRUE(dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0);
    int exit_code = dao_command_execute(command, count, arguments);
    (void)fflush(stdout);
    CU_ASSERT_TRUE(dup2(kept_output, STDOUT_FILENO) >= 0 && dup2(kept_error, STDERR_FILENO) >= 0);
    ssize_t length = pread(file, out_text, OUTPUT_BYTES - 1, 0);
    out_text[length > 0 ? length : 0] = '\0';
    CU_ASSERT_TRUE(close(file) == 0 && close(kept_output) == 0 && close(kept_error) == 0);
    return exit_code;
}

static void dao_replay_fails_then(void)
{
    char *arguments[] = {(char[]){EXAMPLE}, (char[]){"--json"}};
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(run(&dao_command_replay, 2, arguments, text), DAO_EXIT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"total_ratio\""));
    allocs_left = 5000;
    CU_ASSERT_EQUAL(run(&dao_command_replay, 2, arguments, text), DAO_EXIT_FAILED);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "1 of 11371 blocks share bytes with another one that lives; in step 2"));
    CU_ASSERT_PTR_NULL(strstr(text, "\"total_ratio\"")); /* complete or not at all */
}

/* On the example, which stands in for the file that is not there; the rows of the host come first. */
static void dao_bench_plan_fails_if_it_checks(void)
{
    char *arguments[] = {(char[]){"--figure"}, (char[]){"served"}, (char[]){"--data"}, (char[]){"/tmp"},
                         (char[]){"--check"}};
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL_FATAL(chdir(DAO_TEST_SOURCE_DIR), 0);
    CU_ASSERT_EQUAL(run(&dao_command_bench_plan, 5, arguments, text), DAO_EXIT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "4 figures, 0 over a limit"));
    allocs_left = 5000;
    CU_ASSERT_EQUAL(run(&dao_command_bench_plan, 5, arguments, text), DAO_EXIT_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "no overlaps [1 overlaps]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "4 figures, 1 over a limit"));
    allocs_left = 5000;
    CU_ASSERT_EQUAL(run(&dao_command_bench_plan, 4, arguments, text), DAO_EXIT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "4 figures, 1 over a limit"));
}

static CU_TestInfo tests[] = {
    {"steps are served as they are asked for", steps_are_served_as_they_are_asked_for},
    {"the place without plans stands beside it", the_place_without_plans_stands_beside_it},
    {"what cannot be run is told", what_cannot_be_run_is_told},
    {"blocks that share bytes are counted", blocks_that_share_bytes_are_counted},
    {"dao replay fails then", dao_replay_fails_then},
    {"dao-bench plan fails if it checks", dao_bench_plan_fails_if_it_checks},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"replay_steps", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

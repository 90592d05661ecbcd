/* SPDX-License-Identifier: Apache-2.0 */
/* What `dao plan` is made of: every way of placing on one problem, plans as files and as pictures. */
#define _GNU_SOURCE
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "base/text/printable.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/base/interrupt.h"
#include "tools/plan/plan_generate.h"
#include "tools/plan/plan_write.h"
#include "tools/read/events/read_lifetimes.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORK 400000u /* enough for the methods on steps of this size */

static void make(const char *text, dao_plan_input_t *out_input)
{
    dao_plan_generate_config_t config;
    CU_ASSERT_EQUAL_FATAL(dao_plan_generate_parse(text, &config), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_generate(&config, out_input), DAO_OK);
}

static void read_text(const char *text, dao_plan_input_t *out_input)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, out_input), DAO_OK);
}

static size_t way_of(const char *name)
{
    size_t way = 0;
    CU_ASSERT_FATAL(dao_plan_way_find(name, &way));
    return way;
}

static void begin(dao_plan_contest_t *contest, const dao_plan_input_t *input)
{
    dao_plan_problem_t problem = {0};
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_init(contest, input, &problem), DAO_OK);
    contest->work_limit = WORK;
}

/* Returns a plan of a method. */
static dao_plan_t *plan_of(const dao_plan_input_t *input, const char *method)
{
    dao_plan_contest_t contest;
    dao_plan_row_t row;
    begin(&contest, input);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of(method), &row), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row.plan);
    dao_plan_contest_finish(&contest);
    return row.plan;
}

/* ---- ways ---- */

static void every_way_has_a_name(void)
{
    size_t way = 0;
    for (size_t i = 0; i < dao_plan_way_count(); i++) {
        CU_ASSERT(dao_plan_way_find(dao_plan_way_name(i), &way));
        CU_ASSERT_EQUAL(way, i);
    }
    CU_ASSERT_FALSE(dao_plan_way_find("none", &way));
#define FIND_METHOD(number, name, text, about) CU_ASSERT(dao_plan_way_find(text, &way));
    DAO_PLAN_METHOD_LIST(FIND_METHOD)
#undef FIND_METHOD
}

static void check_row(const dao_plan_contest_t *contest, const dao_plan_row_t *row)
{
    CU_ASSERT_EQUAL(row->buffer_count, contest->input->buffer_count);
    CU_ASSERT_EQUAL(row->bound_bytes, contest->bound_bytes);
    if (!row->has_peak) {
        CU_ASSERT_PTR_NULL(row->plan);
        return;
    }
    CU_ASSERT(row->peak_bytes >= row->bound_bytes);
    CU_ASSERT(row->is_proved || row->peak_bytes > row->bound_bytes);
    CU_ASSERT(dao_plan_row_ratio(row) >= 1);
    if (row->plan != NULL) {
        CU_ASSERT_EQUAL(dao_plan_row_verify(contest, row), DAO_OK);
        CU_ASSERT(row->memory_bytes > 0);
        CU_ASSERT(row->first_cpu_ns > 0 && row->first_cpu_ns <= row->cpu_ns);
        CU_ASSERT(row->first_peak_bytes >= row->peak_bytes);
    }
}

/* All at once on one contest, and every row is as it has to be. The oracle needs exactly the bound. */
static void every_way_runs(void)
{
    static const char *const texts[] = {"tf:300", "cut:60", "rnd:500:3"};
    for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        dao_plan_input_t input;
        dao_plan_contest_t contest;
        make(texts[k], &input);
        begin(&contest, &input);
        for (size_t i = 0; i < dao_plan_way_count(); i++) {
            dao_plan_row_t row;
            CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, i, &row), DAO_OK);
            check_row(&contest, &row);
            CU_ASSERT(strcmp(row.method, "oracle") != 0 || row.peak_bytes == contest.bound_bytes);
            dao_plan_row_finish(&row);
        }
        dao_plan_contest_finish(&contest);
        dao_plan_input_finish(&input);
    }
}

static void equal_work_gives_equal_plans(void)
{
    dao_plan_input_t input;
    make("rnd:2000", &input);
    dao_plan_t *plans[2] = {plan_of(&input, "best"), plan_of(&input, "best")};
    CU_ASSERT_EQUAL(
        memcmp(dao_plan_offsets(plans[0]), dao_plan_offsets(plans[1]), input.buffer_count * sizeof(uint64_t)),
        0);
    dao_plan_release(plans[0]);
    dao_plan_release(plans[1]);
    dao_plan_input_finish(&input);
}

/* Three buffers of 4 in a pool of 8: two fit. */
static void what_does_not_fit_is_counted(void)
{
    dao_plan_input_t input;
    dao_plan_contest_t contest;
    dao_plan_row_t row;
    dao_plan_pool_t pool = {.capacity_bytes = 8};
    dao_plan_problem_t problem = {.pools = &pool, .pool_count = 1};
    read_text("id,lower,upper,size\na,0,3,4\nb,1,3,4\nc,2,3,4\n", &input);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_init(&contest, &input, &problem), DAO_OK);
    contest.work_limit = WORK;
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("best"), &row), DAO_OK);
    CU_ASSERT_EQUAL(row.unplaced_count, 1);
    CU_ASSERT_EQUAL(row.unplaced_bytes, 4);
    CU_ASSERT_FALSE(row.is_proved);
    dao_plan_row_finish(&row);
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&input);
}

/* Four at once: a has to be in pool 1, which holds nothing beside it, and pool 0 holds two of the others.
   Strategies know one pool. Read again, the plan is what it was. */
static void several_pools_are_filled(void)
{
    static const dao_plan_pool_t pools[] = {{.capacity_bytes = 8}, {.capacity_bytes = 4}, {0}};
    dao_plan_problem_t problem = {.pools = pools, .pool_count = 3};
    dao_plan_input_t input, again;
    dao_plan_contest_t contest;
    read_text("id,lower,upper,size,pool\na,0,3,4,1\nb,0,3,4,\nc,1,3,4,\nd,2,4,4,\n", &input);
    CU_ASSERT_EQUAL(input.pool_count, 2);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_init(&contest, &input, &problem), DAO_OK);
    contest.work_limit = WORK;
    for (size_t way = 0; way < dao_plan_way_count(); way++) {
        dao_plan_row_t row;
        CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way, &row), DAO_OK);
        CU_ASSERT_EQUAL(row.has_peak, row.plan != NULL);
        if (row.plan == NULL) {
            continue;
        }
        CU_ASSERT_EQUAL(row.peak_bytes, 16);
        CU_ASSERT_EQUAL(dao_plan_pool_peak(row.plan, 0), 8);
        CU_ASSERT_EQUAL(dao_plan_pool_peak(row.plan, 1), 4);
        CU_ASSERT_EQUAL(dao_plan_row_verify(&contest, &row), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_plan_write(dao_test_path, &input, row.plan), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &again), DAO_OK);
        for (size_t i = 0; i < input.buffer_count; i++) {
            CU_ASSERT_EQUAL(again.buffers[i].pool, dao_plan_pool(row.plan, i));
            CU_ASSERT_EQUAL(again.buffers[i].fixed_offset, dao_plan_offset(row.plan, i));
        }
        CU_ASSERT_EQUAL(again.pool_count, 3);
        dao_plan_input_finish(&again);
        dao_plan_row_finish(&row);
    }
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&input);
}

/* A plan for other pools is no plan for these. */
static void plans_are_verified_in_their_pools(void)
{
    static const dao_plan_pool_t pools[] = {{.capacity_bytes = 4}, {0}};
    dao_plan_problem_t problem = {.pools = pools, .pool_count = 2};
    dao_plan_input_t input;
    dao_plan_contest_t contest;
    dao_plan_row_t row;
    read_text("id,lower,upper,size\na,0,3,4\nb,0,3,4\n", &input);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_init(&contest, &input, &problem), DAO_OK);
    contest.work_limit = WORK;
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("best"), &row), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_row_verify(&contest, &row), DAO_OK);
    contest.problem.pool_count = 1;
    CU_ASSERT_EQUAL(dao_plan_row_verify(&contest, &row), DAO_ERR_INVALID);
    dao_fault_arm(DAO_FAULT_ANY, 0, false);
    dao_status_t status = dao_plan_row_verify(&contest, &row);
    CU_ASSERT_EQUAL(status, dao_fault_disarm() > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_ERR_INVALID);
    dao_plan_row_finish(&row);
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&input);
}

/* Lives that touch overlap if they include their ends: for the methods and for the strategies. */
static void closed_lives_overlap_where_they_touch(void)
{
    static const char *const methods[] = {"oracle", "good_fit", "skyline_start", "best"};
    dao_plan_input_t input;
    read_text("id,lower,upper,size\na,0,3,256\nb,3,6,256\n", &input);
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        dao_plan_problem_t problem = {.is_closed = is_closed != 0};
        dao_plan_contest_t contest;
        CU_ASSERT_EQUAL_FATAL(dao_plan_contest_init(&contest, &input, &problem), DAO_OK);
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
            dao_plan_row_t row;
            CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of(methods[i]), &row), DAO_OK);
            CU_ASSERT_EQUAL(row.peak_bytes, is_closed != 0 ? 512 : 256);
            dao_plan_row_finish(&row);
        }
        dao_plan_contest_finish(&contest);
    }
    dao_plan_input_finish(&input);
}

/* Two threads that know nothing of each other, and a third that waits for both: only its buffer may share
   bytes. */
static void lives_by_clocks_are_placed(void)
{
    dao_plan_input_t input, again;
    dao_plan_contest_t contest;
    dao_plan_row_t row;
    read_text("id,lower,upper,size\na,0:0,1:0,64\nb,0:0,0:1,64\nc,1:1,2:1,128\n", &input);
    begin(&contest, &input);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("oracle"), &row), DAO_OK);
    CU_ASSERT_FALSE(row.has_peak);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("best"), &row), DAO_OK);
    CU_ASSERT_EQUAL(row.peak_bytes, 128);
    CU_ASSERT_EQUAL(dao_plan_draw(dao_test_path, "clocks", &input, row.plan), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL_FATAL(dao_plan_write(dao_test_path, &input, row.plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &again), DAO_OK);
    CU_ASSERT_EQUAL(again.clock_count, 2);
    CU_ASSERT_EQUAL(memcmp(again.begin_clocks, input.begin_clocks, 6 * sizeof(uint32_t)), 0);
    CU_ASSERT_EQUAL(memcmp(again.end_clocks, input.end_clocks, 6 * sizeof(uint32_t)), 0);
    CU_ASSERT_EQUAL(again.buffers[2].fixed_offset, 0);
    dao_plan_row_finish(&row);
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&again);
    dao_plan_input_finish(&input);
}

/* Strategies put what is fixed where they like, and know no segment of more than a tebibyte: they prove
   nothing then, and the others go on. The plan is read back, however high its offsets. */
static void the_largest_buffers_are_placed(void)
{
    dao_plan_input_t input, again;
    dao_plan_contest_t contest;
    dao_plan_row_t row;
    read_text("id,lower,upper,size\na,0,3,281474976710656\nb,0,3,281474976710656\nc,0,3,8\n", &input);
    begin(&contest, &input);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("good_fit"), &row), DAO_OK);
    CU_ASSERT_FALSE(row.has_peak);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("start_first_fit"), &row), DAO_OK);
    CU_ASSERT_EQUAL(row.peak_bytes, 2 * DAO_PLAN_SIZE_MAX + 8);
    CU_ASSERT_EQUAL_FATAL(dao_plan_write(dao_test_path, &input, row.plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &again), DAO_OK);
    CU_ASSERT_EQUAL(again.buffers[2].fixed_offset, dao_plan_offset(row.plan, 2));
    dao_plan_row_finish(&row);
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&again);
    dao_plan_input_finish(&input);
    read_text("id,lower,upper,size,offset\na,0,3,64,64\n", &input);
    begin(&contest, &input);
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("oracle"), &row), DAO_OK);
    CU_ASSERT(row.peak_bytes < row.bound_bytes && !row.is_proved);
    dao_plan_row_finish(&row);
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&input);
}

static void wrong_problems_are_refused(void)
{
    dao_plan_input_t input;
    dao_plan_contest_t contest;
    dao_plan_problem_t problem = {0};
    read_text("id,lower,upper,size,alignment,offset\na,0,3,64,64,32\n", &input);
    CU_ASSERT_EQUAL(dao_plan_contest_init(&contest, &input, &problem), DAO_ERR_INVALID);
    dao_plan_input_finish(&input);
}

static void ways_without_memory_are_refused(void)
{
    dao_plan_input_t input;
    make("tf:40", &input);
    for (size_t way = 0; way < dao_plan_way_count(); way++) {
        uint64_t failed = 1;
        for (uint64_t n = 0; failed > 0; n++) {
            dao_plan_problem_t problem = {0};
            dao_plan_contest_t contest;
            dao_plan_row_t row;
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            dao_status_t status = dao_plan_contest_init(&contest, &input, &problem);
            if (status == DAO_OK) {
                contest.work_limit = WORK;
                status = dao_plan_contest_run(&contest, way, &row);
                dao_plan_contest_finish(&contest);
            }
            failed = dao_fault_disarm();
            CU_ASSERT(status == DAO_OK || failed > 0);
            if (status == DAO_OK) {
                dao_plan_row_finish(&row);
            }
        }
    }
    dao_plan_input_finish(&input);
}

/* ---- files ---- */

static void a_written_plan_is_read_back(void)
{
    dao_plan_input_t input, again;
    read_text(
        "id,lower,upper,size,alignment,offset,gaps\na,0,9,8,8,,1-3 5-6@2:4\nb,1,3,8,0,,\nc,2,8,16,0,64,\n",
        &input);
    dao_plan_t *plan = plan_of(&input, "best");
    CU_ASSERT_EQUAL_FATAL(dao_plan_write(dao_test_path, &input, plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &again), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(again.buffer_count, 3);
    for (size_t i = 0; i < 3; i++) {
        dao_plan_buffer_t wanted = input.buffers[i];
        wanted.fixed_offset = dao_plan_offset(plan, i);
        CU_ASSERT_EQUAL(memcmp(&again.buffers[i], &wanted, sizeof(wanted)), 0);
    }
    CU_ASSERT_EQUAL_FATAL(again.gap_count, input.gap_count);
    CU_ASSERT_EQUAL(memcmp(again.gaps, input.gaps, input.gap_count * sizeof(*input.gaps)), 0);
    dao_plan_release(plan);
    dao_plan_input_finish(&again);
    dao_plan_input_finish(&input);
}

/* Returns the bytes of the file, which the caller frees. */
static char *read_back(void)
{
    FILE *file = fopen(dao_test_path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fseek(file, 0, SEEK_END), 0);
    long length = ftell(file);
    CU_ASSERT_FATAL(length >= 0);
    rewind(file);
    char *text = calloc((size_t)length + 1, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_EQUAL(fread(text, 1, (size_t)length, file), (size_t)length);
    CU_ASSERT_EQUAL(fclose(file), 0);
    return text;
}

/* Not by strstr(), which under AddressSanitizer takes as long as the whole text each time. */
static size_t count_text(const char *text, const char *wanted)
{
    size_t count = 0;
    size_t length = strlen(wanted);
    for (; *text != '\0'; text++) {
        count += *text == *wanted && strncmp(text, wanted, length) == 0 ? 1 : 0;
    }
    return count;
}

static void a_plan_is_written_as_minimalloc_writes_it(void)
{
    dao_plan_input_t input;
    read_text("id,lower,upper,size\nx,0,3,4\ny,3,9,4\n", &input);
    dao_plan_t *plan = plan_of(&input, "skyline_start");
    CU_ASSERT_EQUAL(dao_plan_write(dao_test_path, &input, plan), DAO_OK);
    char *text = read_back();
    CU_ASSERT_STRING_EQUAL(text, "id,lower,upper,size,offset\nx,0,3,4,0\ny,3,9,4,0\n");
    free(text);
    dao_plan_release(plan);
    dao_plan_input_finish(&input);
}

/* Draws the plan and gives the bytes, which the caller frees: every tag that begins ends. */
static char *draw_plan(const dao_plan_input_t *input, const char *title, const dao_plan_t *plan)
{
    CU_ASSERT_EQUAL(dao_plan_draw(dao_test_path, title, input, plan), DAO_OK);
    char *text = read_back();
    CU_ASSERT_EQUAL(strncmp(text, "<svg ", 5), 0);
    CU_ASSERT_EQUAL(count_text(text, "<svg"), count_text(text, "</svg>"));
    CU_ASSERT_EQUAL(count_text(text, "<g"), count_text(text, "</g>"));
    CU_ASSERT_EQUAL(count_text(text, "<text"), count_text(text, "</text>"));
    CU_ASSERT_EQUAL(count_text(text, "<title>"), count_text(text, "</title>"));
    CU_ASSERT_EQUAL(count_text(text, "<rect") + count_text(text, "<path"),
                    count_text(text, "/>") + count_text(text, "</rect>") + count_text(text, "</path>"));
    CU_ASSERT_EQUAL(count_text(text, "\"nan") + count_text(text, "\"inf"), 0);
    return text;
}

/* Returns the number of tooltips. */
static size_t draw(const dao_plan_input_t *input, const char *title)
{
    dao_plan_t *plan = plan_of(input, "skyline_start");
    char *text = draw_plan(input, title, plan);
    dao_plan_release(plan);
    size_t count = count_text(text, "</title></rect>");
    free(text);
    return count;
}

static void every_buffer_is_drawn(void)
{
    dao_plan_input_t input;
    read_text("id,lower,upper,size\n<&\">,0,3,4\ny,3,9,4\n\x01,0,18446744073709551615,281474976710656\n",
              &input);
    CU_ASSERT_EQUAL(draw(&input, "<&\">\x01"), 1); /* the others are too small beside the last one */
    dao_plan_input_finish(&input);
    make("cut:100", &input);
    size_t count = draw(&input, "cut");
    CU_ASSERT(count > 90 && count <= 100);
    dao_plan_input_finish(&input);
    make("cut:60000", &input);
    count = draw(&input, "cut");
    CU_ASSERT(count > 2000 && count <= 20000);
    dao_plan_input_finish(&input);
}

/* Two pools of 4 bytes: each has half of the 720 pixels. */
static void pools_are_drawn_above_each_other(void)
{
    static const dao_plan_pool_t pools[2] = {{0}, {0}};
    static const uint64_t offsets[] = {0, 0};
    static const uint32_t pool_numbers[] = {0, 1};
    dao_plan_input_t input;
    dao_plan_t *plan = NULL;
    read_text("id,lower,upper,size\na,0,3,4\nb,0,3,4\n", &input);
    dao_plan_problem_t problem = dao_plan_input_problem(&input);
    problem.pools = pools;
    problem.pool_count = 2;
    CU_ASSERT_EQUAL_FATAL(dao_plan_create(&problem, offsets, pool_numbers, &plan), DAO_OK);
    char *text = draw_plan(&input, "pools", plan);
    CU_ASSERT_EQUAL(count_text(text, "y=\"400.00\" width=\"1200.00\" height=\"360.00\""), 1);
    CU_ASSERT_EQUAL(count_text(text, "y=\"40.00\" width=\"1200.00\" height=\"360.00\""), 1);
    CU_ASSERT_EQUAL(count_text(text, ">pool 0<"), 1);
    CU_ASSERT_EQUAL(count_text(text, ">pool 1<"), 1);
    free(text);
    dao_plan_release(plan);
    dao_plan_input_finish(&input);
}

static void files_that_cannot_be_written_are_told(void)
{
    dao_plan_input_t input;
    read_text("{\"a\": {\"alloc\": 0, \"free\": 1, \"size\": 4}}", &input);
    dao_plan_t *plan = plan_of(&input, "skyline_start");
    CU_ASSERT_EQUAL(dao_plan_write("/nowhere/plan.csv", &input, plan), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "/nowhere/plan.csv: No such file"));
    CU_ASSERT_EQUAL(dao_plan_draw("/nowhere/plan.svg", "a", &input, plan), DAO_ERR_IO);
    CU_ASSERT_EQUAL(dao_plan_write("/dev/full", &input, plan), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "could not be written: No space left"));
    CU_ASSERT_EQUAL(dao_plan_draw("/dev/full", "a", &input, plan), DAO_ERR_IO);
    dao_plan_release(plan);
    dao_plan_input_finish(&input);
}

/* What would be a mark of the file stands in quotes. */
static void ids_are_read_as_they_were_written(void)
{
    static const char *const ids[] = {"a", "a,b", "\"c\"", "d;\""};
    dao_plan_input_t input, again;
    read_text("a 0 3 4\na,b 0 3 4\n\"c\" 0 3 4\nd;\" 0 3 4\n", &input);
    dao_plan_t *plan = plan_of(&input, "skyline_start");
    CU_ASSERT_EQUAL(dao_plan_write(dao_test_path, &input, plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &again), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(again.buffer_count, 4);
    for (size_t i = 0; i < 4; i++) {
        char number[DAO_PLAN_INPUT_NUMBER_BYTES];
        CU_ASSERT_STRING_EQUAL(dao_plan_input_id(&again, i, number), ids[i]);
    }
    dao_plan_release(plan);
    dao_plan_input_finish(&again);
    dao_plan_input_finish(&input);
}

/* XML has no place for control characters, nor for malformed UTF-8. */
static void ids_with_control_characters_are_drawn_as_xml_holds_them(void)
{
    dao_plan_input_t input;
    read_text("id,lower,upper,size\n\"\033[31mred\x7f\xff\xc3\xa9\x01<&\",0,9,300\n", &input);
    dao_plan_t *plan = plan_of(&input, "skyline_start");
    char *text = draw_plan(&input, "\033\x80title", plan);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "?[31mred??\xc3\xa9?&lt;&amp;"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "??title"));
    for (char *end = strchr(text, '\n'); end != NULL; end = strchr(end, '\n')) {
        *end = ' ';
    }
    char *printable = strdup(text);
    CU_ASSERT_PTR_NOT_NULL(printable);
    if (printable != NULL) {
        dao_make_printable(printable);
        CU_ASSERT_STRING_EQUAL(text, printable);
    }
    free(printable);
    free(text);
    dao_plan_release(plan);
    dao_plan_input_finish(&input);
}

/* ---- Ctrl-C ---- */

/* With days of time, and work that is never done. */
static void an_interrupted_plan_is_what_was_found(void)
{
    dao_plan_input_t input;
    dao_plan_contest_t contest;
    dao_plan_row_t row;
    make("rnd:2000", &input);
    begin(&contest, &input);
    contest.work_limit = 0;
    contest.budget_ns = UINT64_MAX;
    (void)signal(SIGINT, SIG_DFL); /* a shell's background jobs ignore it */
    dao_interrupt_watch(DAO_INTERRUPT_ASKS);
    CU_ASSERT_FALSE(dao_interrupt_is_asked());
    CU_ASSERT_EQUAL(raise(SIGINT), 0);
    CU_ASSERT_TRUE(dao_interrupt_is_asked());
    CU_ASSERT_EQUAL_FATAL(dao_plan_contest_run(&contest, way_of("squeaky_wheel"), &row), DAO_OK);
    CU_ASSERT_TRUE(row.has_peak);
    CU_ASSERT_EQUAL(dao_plan_row_verify(&contest, &row), DAO_OK);
    dao_interrupt_watch(DAO_INTERRUPT_ASKS); /* a new command knows nothing of it */
    CU_ASSERT_FALSE(dao_interrupt_is_asked());
    dao_interrupt_unwatch();
    dao_plan_row_finish(&row);
    dao_plan_contest_finish(&contest);
    dao_plan_input_finish(&input);
}

static CU_TestInfo tests[] = {
    {"an interrupted plan is what was found", an_interrupted_plan_is_what_was_found},
    {"every way has a name", every_way_has_a_name},
    {"every way runs", every_way_runs},
    {"equal work gives equal plans", equal_work_gives_equal_plans},
    {"what does not fit is counted", what_does_not_fit_is_counted},
    {"several pools are filled", several_pools_are_filled},
    {"plans are verified in their pools", plans_are_verified_in_their_pools},
    {"closed lives overlap where they touch", closed_lives_overlap_where_they_touch},
    {"lives by clocks are placed", lives_by_clocks_are_placed},
    {"the largest buffers are placed", the_largest_buffers_are_placed},
    {"wrong problems are refused", wrong_problems_are_refused},
    {"ways without memory are refused", ways_without_memory_are_refused},
    {"a written plan is read back", a_written_plan_is_read_back},
    {"a plan is written as MiniMalloc writes it", a_plan_is_written_as_minimalloc_writes_it},
    {"every buffer is drawn", every_buffer_is_drawn},
    {"pools are drawn above each other", pools_are_drawn_above_each_other},
    {"files that cannot be written are told", files_that_cannot_be_written_are_told},
    {"ids are read as they were written", ids_are_read_as_they_were_written},
    {"ids with control characters are drawn as XML holds them",
     ids_with_control_characters_are_drawn_as_xml_holds_them},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan_tool", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

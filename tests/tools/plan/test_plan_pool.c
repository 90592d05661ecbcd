/* SPDX-License-Identifier: Apache-2.0 */
/* The pools that plans are compared with: hand-computed steps, a slow model, and the totals of their
   originals on recorded steps that lie beside the project. */
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/plan/plan_pool.h"
#include "tools/read/events/read_lifetimes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Takes a trace from a program: "a3=100 f3" allocates 100 bytes as block 3 and frees it. */
static void run_program(const char *program, dao_alloc_trace_t *trace)
{
    uint32_t slots[10] = {0};
    dao_alloc_trace_init(trace, "program");
    for (const char *at = program; *at != '\0';) {
        unsigned number;
        unsigned long long size_bytes;
        int length = 0;
        if (sscanf(at, " a%u=%llu %n", &number, &size_bytes, &length) == 2) {
            CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(trace, size_bytes, &slots[number]), DAO_OK);
        } else {
            CU_ASSERT_EQUAL_FATAL(sscanf(at, " f%u %n", &number, &length), 1);
            CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_give(trace, slots[number]), DAO_OK);
        }
        at += length;
    }
}

static void check_program(const char *program, uint64_t python_bytes, uint64_t mnn_bytes)
{
    dao_alloc_trace_t trace;
    uint64_t bytes[2];
    run_program(program, &trace);
    CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, DAO_TREE_POOL_PYTHON, &bytes[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, DAO_TREE_POOL_MNN, &bytes[1]), DAO_OK);
    CU_ASSERT_EQUAL(bytes[0], python_bytes);
    CU_ASSERT_EQUAL(bytes[1], mnn_bytes);
    dao_alloc_trace_finish(&trace);
}

static void sizes_are_rounded_up(void)
{
    check_program("a1=1", 64, 64);
    check_program("a1=64 a2=65", 192, 192);
}

static void a_freed_block_is_used_again(void)
{
    check_program("a1=640 f1 a2=640", 640, 640);
    check_program("a1=640 f1 a2=100 a3=500", 640, 640); /* 128 of it, and the rest of 512 */
    check_program("a1=640 f1 a2=100 a3=513", 1216, 1216);
}

static void the_smallest_that_fits_is_taken(void)
{
    check_program("a1=640 a2=128 a3=256 f1 f2 f3 a4=128 a5=256 a6=640", 1024, 1024);
}

/* Of two free blocks of a size the later is cut, so the earlier is there for a whole one. */
static void of_equal_ones_the_latest_is_taken(void)
{
    check_program("a1=640 a2=640 f1 f2 a3=64 f3 a4=640 a5=640", 1280, 1280);
}

/* 512 of a block of 640 is in use; the 128 behind it are given and taken again. */
static void a_freed_part_waits_for_its_block_in_one_variant(void)
{
    check_program("a1=640 f1 a2=512 a3=128 f3 a4=128", 768, 640);
    check_program("a1=640 f1 a2=512 a3=128 f3 f2 a4=640", 640, 640);
}

/* Neighbours from different cuts are not merged: 128 and 128 are free, and 256 of a row do not help. */
static void only_the_two_parts_of_one_block_are_joined(void)
{
    check_program("a1=512 f1 a2=128 a3=128 a4=256 f3 f2 a5=256", 768, 768);
    check_program("a1=512 f1 a2=128 a3=128 a4=256 f4 f3 f2 a5=512", 512, 512);
}

/* ---- a slow model ---- */

enum { MODEL_BLOCK_MAX = 1 << 16, MODEL_SLOT_MAX = 1 << 12, LIVE_MAX = 64 };

typedef struct model_block {
    uint64_t size_bytes;
    int parent; /* -1: a root */
    int use_count;
    uint64_t freed_at; /* 0: not free */
    bool is_gone;
} model_block_t;

typedef struct model {
    model_block_t blocks[MODEL_BLOCK_MAX];
    int count;
    uint64_t clock, total_bytes;
    bool is_mnn;
} model_t;

static int model_add(model_t *model, uint64_t size_bytes, int parent)
{
    CU_ASSERT_FATAL(model->count < MODEL_BLOCK_MAX);
    model->blocks[model->count] = (model_block_t){.size_bytes = size_bytes, .parent = parent};
    return model->count++;
}

static int model_take(model_t *model, uint64_t size_bytes)
{
    int found = -1;
    size_bytes = (size_bytes + 63) / 64 * 64;
    for (int i = 0; i < model->count; i++) {
        const model_block_t *block = &model->blocks[i];
        if (!block->is_gone && block->freed_at != 0 && block->size_bytes >= size_bytes &&
            (found < 0 || block->size_bytes < model->blocks[found].size_bytes ||
             (block->size_bytes == model->blocks[found].size_bytes &&
              block->freed_at > model->blocks[found].freed_at))) {
            found = i;
        }
    }
    if (found < 0) {
        model->total_bytes += size_bytes;
        return model_add(model, size_bytes, -1);
    }
    model->blocks[found].freed_at = 0;
    if (model->blocks[found].parent >= 0) {
        model->blocks[model->blocks[found].parent].use_count++;
    }
    if (model->blocks[found].size_bytes == size_bytes) {
        return found;
    }
    model->blocks[found].use_count++;
    int part = model_add(model, size_bytes, found);
    int rest = model_add(model, model->blocks[found].size_bytes - size_bytes, found);
    model->blocks[rest].freed_at = ++model->clock;
    return part;
}

static void model_give(model_t *model, int block)
{
    int parent = model->blocks[block].parent;
    if (parent < 0 || model->is_mnn) {
        model->blocks[block].freed_at = ++model->clock;
    }
    while (parent >= 0 && --model->blocks[parent].use_count == 0) {
        for (int i = 0; i < model->count; i++) {
            model->blocks[i].is_gone = model->blocks[i].is_gone || model->blocks[i].parent == parent;
        }
        model->blocks[parent].freed_at = ++model->clock;
        parent = model->blocks[parent].parent;
    }
}

static uint64_t model_run(const dao_alloc_trace_t *trace, bool is_mnn)
{
    static model_t model;
    static int slots[MODEL_SLOT_MAX];
    CU_ASSERT_FATAL(trace->slot_count <= MODEL_SLOT_MAX);
    model.count = 0;
    model.clock = model.total_bytes = 0;
    model.is_mnn = is_mnn;
    for (size_t i = 0; i < trace->event_count; i++) {
        const dao_alloc_event_t *event = &trace->events[i];
        if (event->size_bytes != 0) {
            slots[event->slot] = model_take(&model, event->size_bytes);
        } else {
            model_give(&model, slots[event->slot]);
        }
    }
    return model.total_bytes;
}

static void random_traces_take_what_the_model_takes(void)
{
    uint64_t state = dao_test_seed("pools against a model", 1);
    for (int round = 0; round < 40; round++) {
        dao_alloc_trace_t trace;
        uint32_t live[LIVE_MAX];
        size_t live_count = 0;
        dao_alloc_trace_init(&trace, "random");
        for (int i = 0; i < 600; i++) {
            bool gives = live_count == LIVE_MAX || (live_count > 0 && dao_random_next(&state) % 2 == 0);
            if (gives) {
                size_t at = dao_random_next(&state) % live_count;
                CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_give(&trace, live[at]), DAO_OK);
                live[at] = live[--live_count];
            } else {
                uint64_t size_bytes = 1 + dao_random_next(&state) % (64u << dao_random_next(&state) % 5);
                CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(&trace, size_bytes, &live[live_count++]), DAO_OK);
            }
        }
        for (int is_mnn = 0; is_mnn < 2; is_mnn++) {
            uint64_t bytes = 0;
            CU_ASSERT_EQUAL(
                dao_plan_pool_run(&trace, is_mnn ? DAO_TREE_POOL_MNN : DAO_TREE_POOL_PYTHON, &bytes), DAO_OK);
            CU_ASSERT_EQUAL(bytes, model_run(&trace, is_mnn != 0));
        }
        dao_alloc_trace_finish(&trace);
    }
}

/* The totals of the step that the project has: the model's, and told here so that both cannot change
   together. */
static void the_recorded_step_takes_what_the_model_takes(void)
{
    static const uint64_t wanted[2] = {[DAO_TREE_POOL_MNN] = 415477568, [DAO_TREE_POOL_PYTHON] = 417334080};
    dao_plan_input_t lifetimes;
    dao_alloc_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(DAO_TEST_TRACE, &(dao_read_choice_t){0}, &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_input_replay(&lifetimes, false, &trace), DAO_OK);
    for (int variant = 0; variant < 2; variant++) {
        uint64_t bytes = 0;
        CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, (dao_tree_pool_variant_t)variant, &bytes), DAO_OK);
        CU_ASSERT_EQUAL(bytes, wanted[variant]);
        CU_ASSERT_EQUAL(bytes, model_run(&trace, variant == DAO_TREE_POOL_MNN));
    }
    dao_alloc_trace_finish(&trace);
    dao_plan_input_finish(&lifetimes);
}

/* ---- other things ---- */

static void a_range_grows_at_its_end(void)
{
    dao_alloc_trace_t trace;
    uint64_t bytes = 0;
    run_program("a1=256 a2=256 a3=256 f1 f2 a4=512 a5=100", &trace);
    for (int is_best = 0; is_best < 2; is_best++) {
        CU_ASSERT_EQUAL(dao_plan_online_run(&trace, is_best != 0, &bytes), DAO_OK);
        CU_ASSERT_EQUAL(bytes, 868); /* 4 where 1 and 2 were, 5 behind 3 */
    }
    dao_alloc_trace_finish(&trace);
    run_program("a1=1099511627776 a2=1", &trace);
    CU_ASSERT_EQUAL(dao_plan_online_run(&trace, true, &bytes), DAO_ERR_LIMIT);
    dao_alloc_trace_finish(&trace);
}

static void what_does_not_fit_64_bits_is_refused(void)
{
    dao_alloc_trace_t trace;
    uint64_t bytes = 0;
    run_program("a1=18446744073709551614", &trace);
    CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, DAO_TREE_POOL_MNN, &bytes), DAO_ERR_OVERFLOW);
    dao_alloc_trace_finish(&trace);
    run_program("a1=9223372036854775808 f1 a2=9223372036854775872", &trace);
    CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, DAO_TREE_POOL_MNN, &bytes), DAO_ERR_OVERFLOW);
    dao_alloc_trace_finish(&trace);
}

static void replays_without_memory_are_refused(void)
{
    dao_alloc_trace_t trace;
    uint64_t failed = 1;
    run_program("a1=512 a2=512 f1 f2 a3=128 a4=128 a5=256 f4 f3 a6=256", &trace);
    for (uint64_t n = 0; failed > 0; n++) {
        uint64_t bytes = 0;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t pool = dao_plan_pool_run(&trace, DAO_TREE_POOL_MNN, &bytes);
        dao_status_t online = dao_plan_online_run(&trace, false, &bytes);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(pool == DAO_OK && online == DAO_OK, failed == 0);
    }
    dao_alloc_trace_finish(&trace);
}

/* Checks the peak of a recording and the totals of both variants. */
static void check_recorded(const char *path, const char *batch, uint64_t live_bytes, uint64_t python_bytes,
                           uint64_t mnn_bytes)
{
    dao_plan_input_t lifetimes;
    dao_alloc_trace_t trace;
    uint64_t bytes = 0;
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(path, &(dao_read_choice_t){.batch = batch}, &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_input_replay(&lifetimes, false, &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.peak_bytes, live_bytes);
    CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, DAO_TREE_POOL_PYTHON, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, python_bytes);
    CU_ASSERT_EQUAL(dao_plan_pool_run(&trace, DAO_TREE_POOL_MNN, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, mnn_bytes);
    dao_alloc_trace_finish(&trace);
    dao_plan_input_finish(&lifetimes);
}

/* Peaks and totals of the originals, run on their own recordings; and of the example that comes with the
   sources, by the code that gives the originals' figures. */
static void recorded_steps_take_what_they_took_upstream(void)
{
    static const struct {
        const char *file, *batch;
        uint64_t live_bytes, python_bytes, mnn_bytes;
    } steps[] = {
        {"Squeezenet", "4", 234439784, 501755392, 570396160},
        {"Squeezenet", "16", 929879144, 2007035392, 1951641088},
        {"MobilenetV2", "4", 584812452, 623193344, 595254528},
        {"MobilenetV2", "16", 2323862436, 2458188672, 2342417280},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        char path[4096];
        char name[64];
        (void)snprintf(name, sizeof(name), "data/heuristic-allocator/%s.io_info.json.gz", steps[i].file);
        if (dao_test_shared_file(name, path, sizeof(path))) {
            check_recorded(path, steps[i].batch, steps[i].live_bytes, steps[i].python_bytes,
                           steps[i].mnn_bytes);
        }
    }
    check_recorded(DAO_TEST_TRACE, NULL, 362281164, 417334080, 415477568);
}

static CU_TestInfo tests[] = {
    {"sizes are rounded up", sizes_are_rounded_up},
    {"a freed block is used again", a_freed_block_is_used_again},
    {"the smallest that fits is taken", the_smallest_that_fits_is_taken},
    {"of equal ones the latest is taken", of_equal_ones_the_latest_is_taken},
    {"a freed part waits for its block in one variant", a_freed_part_waits_for_its_block_in_one_variant},
    {"only the two parts of one block are joined", only_the_two_parts_of_one_block_are_joined},
    {"random traces take what the model takes", random_traces_take_what_the_model_takes},
    {"the recorded step takes what the model takes", the_recorded_step_takes_what_the_model_takes},
    {"a range grows at its end", a_range_grows_at_its_end},
    {"what does not fit 64 bits is refused", what_does_not_fit_64_bits_is_refused},
    {"replays without memory are refused", replays_without_memory_are_refused},
    {"recorded steps take what they took upstream", recorded_steps_take_what_they_took_upstream},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan_pool", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

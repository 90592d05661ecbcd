/* SPDX-License-Identifier: Apache-2.0 */
/* What a place takes for steps that deviate from their plan: never more than a twentieth above what it takes
   for the same requests without plans, for shares and kinds of deviations drawn from a seed. Equal steps
   behind them are served whole again. No two live blocks share a byte meanwhile: on the host each one's bytes
   are written and looked at. */
#include <dao/dao.h>

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "tests/support/suite.h"
#include "tools/replay/deviate.h"

#include <stdio.h>
#include <string.h>

enum {
    SCALE = 4,
    LAYER_COUNT = 12,
    BATCH_COUNT = 2,
    STEP_COUNT = 4,
    STEADY_COUNT = 10,
    AGAIN_COUNT = 4,
    STAMP_BYTES = 64
};

/* At most this share above the place without plans. */
#define LIMIT_PART 20u

#define SHARE_COUNT (sizeof(shares) / sizeof(shares[0]))

static const double shares[] = {0.05, 0.2};

static void must(dao_status_t status)
{
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
}

/* ---- a step ---- */

static uint32_t make(dao_event_file_t *file, uint64_t size_bytes)
{
    uint32_t tensor;
    must(dao_event_file_add_tensor(file, SCALE * size_bytes, &tensor));
    must(dao_event_file_add_record(file, tensor, true, 0));
    return tensor;
}

static void drop(dao_event_file_t *file, uint32_t tensor)
{
    must(dao_event_file_add_record(file, tensor, false, 0));
}

/* A layer forward: what it keeps until its backward, and what is gone at its end. */
static void forward(dao_event_file_t *file, uint64_t *state, uint32_t *kept)
{
    uint32_t scratch = make(file, (1 + dao_random_next(state) % 48) * 64 * KIB);
    kept[0] = make(file, 2 * MIB + dao_random_next(state) % 8 * 256 * KIB);
    uint32_t mask = make(file, (1 + dao_random_next(state) % 32) * KIB);
    kept[1] = make(file, (1 + dao_random_next(state) % 16) * 128 * KIB);
    drop(file, scratch);
    drop(file, mask);
}

static void backward(dao_event_file_t *file, uint64_t *state, const uint32_t *kept)
{
    uint32_t gradient = make(file, 2 * MIB);
    uint32_t scratch = make(file, (1 + dao_random_next(state) % 64) * 64 * KIB);
    drop(file, kept[1]);
    drop(file, kept[0]);
    drop(file, scratch);
    drop(file, gradient);
}

/* One step of a training: layers forward and backward, for some batches. */
static dao_event_file_t make_step(uint64_t seed)
{
    dao_event_file_t file = {0};
    uint32_t kept[LAYER_COUNT][2];
    uint64_t state = seed;
    dao_id_map_init(&file.ids);
    must(dao_event_file_add_step(&file));
    for (int batch = 0; batch < BATCH_COUNT; batch++) {
        for (int layer = 0; layer < LAYER_COUNT; layer++) {
            forward(&file, &state, kept[layer]);
        }
        for (int layer = LAYER_COUNT; layer-- > 0;) {
            backward(&file, &state, kept[layer]);
        }
    }
    return file;
}

/* ---- running it ---- */

/* Writes who a block is to both of its ends. */
static void stamp(char *block, uint64_t size_bytes, uint32_t tensor)
{
    size_t length = size_bytes < STAMP_BYTES ? (size_t)size_bytes : STAMP_BYTES;
    memset(block, (int)(tensor % 251), length);
    memset(block + size_bytes - length, (int)(tensor % 251), length);
}

static void check_stamp(const char *block, uint64_t size_bytes, uint32_t tensor)
{
    char expected[STAMP_BYTES];
    size_t length = size_bytes < STAMP_BYTES ? (size_t)size_bytes : STAMP_BYTES;
    memset(expected, (int)(tensor % 251), sizeof(expected));
    CU_ASSERT(memcmp(block, expected, length) == 0 &&
              memcmp(block + size_bytes - length, expected, length) == 0);
}

static void do_record(dao_place_t place, const dao_event_file_t *file, const dao_event_record_t *record,
                      char **blocks)
{
    char **block = &blocks[record->tensor];
    uint64_t size_bytes = file->tensors[record->tensor].size_bytes;
    bool has_bytes = place.kind != DAO_PLACE_KIND_DEVICE;
    if (record->is_alloc) {
        *block = dao_alloc(place, (size_t)size_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(*block);
        if (has_bytes) {
            stamp(*block, size_bytes, record->tensor);
        }
        return;
    }
    if (has_bytes) {
        check_stamp(*block, size_bytes, record->tensor);
    }
    must(dao_free(place, *block));
    *block = NULL;
}

/* Runs all steps of a file, and gives back what is left. */
static void run_steps(dao_place_t place, const dao_event_file_t *file)
{
    char **blocks = dao_host_calloc(file->tensor_count, sizeof(*blocks));
    CU_ASSERT_PTR_NOT_NULL_FATAL(blocks);
    for (size_t step = 0; step < file->step_count; step++) {
        size_t end = step + 1 < file->step_count ? file->steps[step + 1] : file->record_count;
        must(dao_step_begin(place));
        for (size_t i = file->steps[step]; i < end; i++) {
            do_record(place, file, &file->records[i], blocks);
        }
        must(dao_step_end(place));
    }
    for (size_t i = 0; i < file->tensor_count; i++) {
        must(dao_free(place, blocks[i]));
    }
    dao_host_free(blocks);
}

/* Whatever came before: after some steps that are equal all requests are hits. */
static void check_again(dao_place_t place, const dao_event_file_t *steady)
{
    dao_step_plan_stats_t step_plan;
    for (int i = 0; i < AGAIN_COUNT; i++) {
        run_steps(place, steady);
    }
    must(dao_step_plan_stats_get(place, &step_plan));
    CU_ASSERT_EQUAL(step_plan.latest.hit_count, step_plan.latest.request_count);
    CU_ASSERT_TRUE(step_plan.latest.hit_count > 0);
}

/* Runs steps that deviate, and equal ones behind them; gives the most that the place has taken for those. */
static uint64_t run(dao_place_t place, const dao_event_file_t *steady, const dao_event_file_t *file,
                    dao_step_plan_mode_t mode)
{
    dao_place_config_t config = {.step_plan = {.mode = mode}};
    dao_stats_t stats;
    must(dao_init(&(dao_config_t){.cpu = {.device_count = 1, .device_bytes = 2 * GIB},
                                  .host = {.huge_pages = DAO_HUGE_PAGES_NEVER}}));
    must(dao_place_configure(place, &config));
    run_steps(place, file);
    must(dao_stats_get(place, &stats));
    if (mode != DAO_STEP_PLAN_OFF) {
        check_again(place, steady);
    }
    must(dao_finalize());
    return stats.peak_reserved_bytes;
}

/* For the first `share_count` shares. */
static void check_kinds(dao_place_t place, uint32_t kinds, size_t share_count)
{
    uint64_t seed = dao_test_seed("planned memory", 1);
    dao_event_file_t step = make_step(seed), steady;
    must(dao_event_file_deviate(&step, &(dao_deviation_t){.repeats = STEADY_COUNT}, &steady));
    for (size_t i = 0; i < share_count; i++) {
        dao_deviation_t deviation = {.share = shares[i], .kinds = kinds, .repeats = STEP_COUNT, .seed = seed};
        dao_event_file_t file;
        must(dao_event_file_deviate(&step, &deviation, &file));
        uint64_t alone_bytes = run(place, &steady, &file, DAO_STEP_PLAN_OFF);
        uint64_t planned_bytes = run(place, &steady, &file, DAO_STEP_PLAN_OFFSETS);
        uint64_t most_bytes = alone_bytes + alone_bytes / LIMIT_PART;
        if (planned_bytes > most_bytes) {
            (void)printf("place %d, share %.2f, kinds %x: %zu bytes, alone %zu\n", (int)place.kind, shares[i],
                         kinds, (size_t)planned_bytes, (size_t)alone_bytes);
        }
        CU_ASSERT(planned_bytes <= most_bytes);
        dao_event_file_finish(&file);
    }
    dao_event_file_finish(&steady);
    dao_event_file_finish(&step);
}

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

/* ---- sentences ---- */

#define DEVIATION_TEST(symbol, name, text)                                                                   \
    static void DAO_DEVIATION_##symbol##_take_no_more(void)                                                  \
    {                                                                                                        \
        check_kinds(device, 1u << DAO_DEVIATION_##symbol, 1);                                                \
    }
DAO_DEVIATION_LIST(DEVIATION_TEST)
#undef DEVIATION_TEST

static void all_of_them_take_no_more(void)
{
    uint32_t kinds = (1u << DAO_DEVIATION_KIND_COUNT) - 1;
    check_kinds(host, kinds, SHARE_COUNT);
    check_kinds(device, kinds, SHARE_COUNT);
}

static CU_TestInfo tests[] = {
#define DEVIATION_ROW(symbol, name, text) {name " take no more", DAO_DEVIATION_##symbol##_take_no_more},
    DAO_DEVIATION_LIST(DEVIATION_ROW)
#undef DEVIATION_ROW
        {"all of them take no more", all_of_them_take_no_more},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"planned memory", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

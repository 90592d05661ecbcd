/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of the readers of lifetimes. The first byte of an input tells what the others are: the
   bytes of a file; or words of one, a byte each, so that what looks like a file is found soon.

   What is read has to be whole: the planner finds nothing wrong with it but what a file may say, the
   allocations and frees that it is are as many as there have to be, and written as a plan and read again it
   is the same. What is refused has a message. */
#include "base/memory/host.h"
#include "tests/fuzz/fuzz_file.h"
#include "tools/plan/plan_write.h"
#include "tools/read/events/read_lifetimes.h"

#include <string.h>

static const char umpire_make[] =
    "{\"category\": \"operation\", \"name\": \"make_memory_resource\", \"string_args\": "
    "{\"allocator_ref\": \"0x1\"}, \"tags\": {\"allocator_name\": \"HOST\"}, \"timestamp\": 1}";
static const char umpire_allocate[] =
    "{\"category\": \"operation\", \"name\": \"allocate\", \"numeric_args\": {\"size\": 8}, "
    "\"string_args\": {\"allocator_ref\": \"0x1\", \"pointer\": \"0x40\"}}";

static const char *const words[] = {
    "id,lower,upper,size",
    "id,lower,upper,size,alignment,offset,gaps",
    "buffer_id,start,end,size",
    "# pool_offset=64",
    ",1:0,2:3,",
    "time_ns,event,id,bytes,op",
    ",alloc,",
    ",free,",
    ",step,",
    "{\"a\": {\"alloc\": 1, \"free\": 4, \"size\": 8}",
    "\"b\": {\"size\": 9, \"free\": ",
    "\"alloc\": ",
    "}",
    "{",
    ",",
    "\n",
    "\n",
    " ",
    "-",
    "@",
    ":",
    "a",
    "b",
    "c",
    "0",
    "1",
    "2",
    "4",
    "8",
    "16",
    "9",
    "281474976710656",
    "18446744073709551615",
    "\x1f\x8b",
    "\x28\xb5\x2f\xfd",
    "{\"segments\": [{\"address\": 64, \"total_size\": 96, \"blocks\": [",
    "{\"size\": 64, \"state\": \"active_allocated\"}",
    "]}], \"device_traces\": [[",
    "{\"action\": \"alloc\", \"addr\": 64, \"size\": 9}",
    "{\"action\": \"free_completed\", \"addr\": 64, \"size\": 9}",
    "]]}",
    "\x80\x02}(X\x08\x00",
    "{\"traceEvents\": [",
    "{\"name\": \"[memory]\", \"ts\": 7, \"args\": {\"Device Type\": 1, \"Bytes\": ",
    "64}}",
    "-64, \"Addr\": 9}}",
    "[[-1, 1, 8, 0], [",
    "3, 2, 16, 0], [",
    "4, 4, -16, 0]]",
    "Thread,Time,Action,Pointer,Size,Stream",
    "1,0,allocate,0x1,8,0",
    "1,0,free,0x1,0,0",
    "{\"nodes\": [{\"id\": 1, \"name\": \"a\", \"inputs\": [",
    "[1, 2, 0, 4, 4, \"cuda:0\"]",
    "], \"outputs\": [",
    "]}]}",
    "16 -1\n8 -1\n16 0\n",
    "time_ns,event,place,address,bytes,tag,stream",
    "7,alloc,cpu,0x40,16,a,0",
    "3,free,cpu,0x40,16,,0",
    "\"Kind\",\"Operation\",\"Agent_Id\",\"Allocation_Size\",\"Address\"",
    "M,MEMORY_ALLOCATION_ALLOCATE,Agent 0,8,0x40",
    "M,MEMORY_ALLOCATION_FREE,,0,0x40",
    umpire_make,
    umpire_allocate,
    NULL,
};

/* Returns the pool that a buffer has to be in. */
static uint32_t fixed_pool(const dao_plan_buffer_t *buffer)
{
    bool is_fixed = buffer->fixed_offset != DAO_PLAN_NOWHERE;
    return is_fixed && buffer->pool == DAO_PLAN_ANY_POOL ? 0 : buffer->pool;
}

/* Returns the plan that leaves fixed buffers where they are, in as many pools as are named, and places no
   others; NULL if fixed ones overlap or break a rule. */
static dao_plan_t *plan_fixed(const dao_plan_input_t *lifetimes)
{
    static const dao_plan_pool_t without_limit[DAO_PLAN_POOL_COUNT_MAX];
    dao_plan_problem_t problem = dao_plan_input_problem(lifetimes);
    problem.pools = without_limit;
    problem.pool_count = lifetimes->pool_count;
    dao_plan_t *plan = NULL;
    uint64_t *offsets = dao_host_calloc(lifetimes->buffer_count, sizeof(*offsets));
    uint32_t *pools = dao_host_calloc(lifetimes->buffer_count, sizeof(*pools));
    bool has_fixed = false;
    FUZZ_REQUIRE(offsets != NULL && pools != NULL);
    for (size_t i = 0; i < lifetimes->buffer_count; i++) {
        offsets[i] = lifetimes->buffers[i].fixed_offset;
        pools[i] = fixed_pool(&lifetimes->buffers[i]);
        has_fixed = has_fixed || offsets[i] != DAO_PLAN_NOWHERE;
    }
    dao_status_t status = dao_plan_create(&problem, offsets, pools, &plan);
    FUZZ_REQUIRE(status == DAO_OK || has_fixed || status == DAO_ERR_OVERFLOW);
    dao_host_free(pools);
    dao_host_free(offsets);
    return plan;
}

/* Returns true if two buffers are the same; of a fixed one a file may have left out that it is in pool 0. */
static bool is_same(const dao_plan_buffer_t *left, const dao_plan_buffer_t *right)
{
    dao_plan_buffer_t copies[2] = {*left, *right};
    for (int i = 0; i < 2; i++) {
        copies[i].pool = fixed_pool(&copies[i]);
    }
    return memcmp(&copies[0], &copies[1], sizeof(copies[0])) == 0;
}

static void require_equal(const dao_plan_input_t *left, const dao_plan_input_t *right)
{
    size_t clocks_bytes = left->buffer_count * left->clock_count * sizeof(uint32_t);
    FUZZ_REQUIRE(left->buffer_count == right->buffer_count && left->gap_count == right->gap_count);
    FUZZ_REQUIRE(left->clock_count == right->clock_count);
    FUZZ_REQUIRE(clocks_bytes == 0 || (memcmp(left->begin_clocks, right->begin_clocks, clocks_bytes) == 0 &&
                                       memcmp(left->end_clocks, right->end_clocks, clocks_bytes) == 0));
    FUZZ_REQUIRE(left->gap_count == 0 ||
                 memcmp(left->gaps, right->gaps, left->gap_count * sizeof(*left->gaps)) == 0);
    for (size_t i = 0; i < left->buffer_count; i++) {
        char number[2][DAO_PLAN_INPUT_NUMBER_BYTES];
        FUZZ_REQUIRE(is_same(&left->buffers[i], &right->buffers[i]));
        FUZZ_REQUIRE(strcmp(dao_plan_input_id(left, i, number[0]), dao_plan_input_id(right, i, number[1])) ==
                     0);
    }
}

/* Writes what was read, and reads it again. An id with a comma cannot be written. */
static void write_and_read(const dao_plan_input_t *lifetimes, const dao_plan_t *plan)
{
    fuzz_file_t file = fuzz_file_begin();
    dao_plan_input_t again;
    dao_status_t status = dao_plan_write(file.path, lifetimes, plan);
    FUZZ_REQUIRE(status == DAO_OK || status == DAO_ERR_INVALID);
    if (status == DAO_OK) {
        FUZZ_REQUIRE(dao_read_lifetimes(file.path, &(dao_read_choice_t){0}, &again) == DAO_OK);
        require_equal(lifetimes, &again);
        dao_plan_input_finish(&again);
    }
    fuzz_file_end(&file);
}

static void check_lifetimes(const dao_plan_input_t *lifetimes)
{
    dao_alloc_trace_t trace;
    FUZZ_REQUIRE(lifetimes->buffer_count > 0);
    dao_status_t status = dao_plan_input_replay(lifetimes, false, &trace);
    FUZZ_REQUIRE(status == (lifetimes->clock_count > 0 ? DAO_ERR_UNSUPPORTED : DAO_OK) ||
                 status == DAO_ERR_OVERFLOW);
    if (status == DAO_OK) {
        FUZZ_REQUIRE(trace.event_count == 2 * lifetimes->buffer_count && dao_alloc_trace_is_valid(&trace));
        dao_alloc_trace_finish(&trace);
    }
    dao_plan_t *plan = plan_fixed(lifetimes);
    if (plan != NULL) {
        write_and_read(lifetimes, plan);
        dao_plan_release(plan);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_input_t input = {.next = data, .left = size_bytes};
    fuzz_file_t file = fuzz_file_begin();
    dao_plan_input_t lifetimes;
    fuzz_file_fill(&file, &input, words);
    dao_status_t status = dao_read_lifetimes(file.path, &(dao_read_choice_t){0}, &lifetimes);
    if (status == DAO_OK) {
        check_lifetimes(&lifetimes);
        dao_plan_input_finish(&lifetimes);
    } else {
        FUZZ_REQUIRE(strlen(dao_last_message()) > 0);
    }
    fuzz_file_end(&file);
    return 0;
}

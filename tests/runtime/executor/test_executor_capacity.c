/* SPDX-License-Identifier: Apache-2.0 */
/* An executor without a capacity takes what the device has free but for a headroom, asks for less if that is
   refused, and says what it took. Later the capacity may be another one. */
#include <dao/context.h>
#include <dao/executor.h>
#include <dao/memory.h>
#include <dao/pressure.h>
#include <dao/stats.h>

#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/plans/plan_follow.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static char line[1024]; /* the latest of the log about an arena */

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    if (level == DAO_LOG_LEVEL_INFO && strstr(message, "arena of") != NULL) {
        (void)snprintf(line, sizeof(line), "%s", message);
    }
}

/* Large devices are without page mapping: an arena of 60 GiB is one mapping then. */
static void begin(uint64_t device_bytes)
{
    dao_config_t config = {
        .cpu = {.device_count = 1, .device_bytes = device_bytes, .no_page_mapping = device_bytes > GIB},
        .log_callback = keep_line,
        .log_level = DAO_LOG_LEVEL_INFO};
    line[0] = '\0';
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static uint64_t free_bytes(void)
{
    dao_device_info_t info = {0};
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_OK);
    return info.free_bytes;
}

static uint64_t capacity_of(dao_executor_t *executor)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats.capacity_bytes;
}

static void an_arena_leaves_headroom(void)
{
    static const struct {
        uint64_t device_bytes, headroom_bytes;
    } cases[] = {{64 * MIB, 4 * MIB},        /* a sixteenth */
                 {4 * GIB, 256 * MIB},       /* a sixteenth */
                 {16 * GIB, 512 * MIB},      /* the least of a large one */
                 {64 * GIB, 64 * GIB / 50}}; /* 2 % */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[32];
        dao_executor_t *executor = NULL;
        begin(cases[i].device_bytes);
        CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
        uint64_t capacity_bytes = capacity_of(executor);
        CU_ASSERT_TRUE(capacity_bytes <= cases[i].device_bytes - cases[i].headroom_bytes);
        CU_ASSERT_TRUE(capacity_bytes > cases[i].device_bytes - cases[i].headroom_bytes - 4 * MIB);
        CU_ASSERT_TRUE(free_bytes() >= cases[i].headroom_bytes / (2 * MIB) * (2 * MIB)); /* whole pages */
        (void)snprintf(text, sizeof(text), "arena of %llu bytes", (unsigned long long)capacity_bytes);
        CU_ASSERT_PTR_NOT_NULL(strstr(line, text));
        void *beside = dao_alloc(device, 1 * MIB);
        CU_ASSERT_PTR_NOT_NULL(beside);
        CU_ASSERT_EQUAL(dao_free(device, beside), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

/* As where free memory lies in pieces, or less of it can be had than the driver calls free. */
static void what_is_refused_is_asked_for_again_and_lower(void)
{
    dao_executor_t *executor = NULL;
    begin(64 * MIB);
    CU_ASSERT_EQUAL(dao_limit_set(device, 20 * MIB), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
    CU_ASSERT_TRUE(capacity_of(executor) <= 20 * MIB && capacity_of(executor) > 15 * MIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 2 * MIB), DAO_OK);
    executor = NULL;
    CU_ASSERT_EQUAL(dao_executor_create(NULL, &executor), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "an executor's arena of"));
    CU_ASSERT_PTR_NULL(executor);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_device_without_room_is_said_to_have_none(void)
{
    dao_executor_t *executor = NULL;
    begin(64 * MIB);
    void *block = dao_alloc(device, 62 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_executor_create(NULL, &executor), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "capacity_bytes"));
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_capacity_that_was_named_is_taken_or_refused(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 64 * MIB};
    begin(64 * MIB);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK); /* all of it */
    CU_ASSERT_EQUAL(capacity_of(executor), 64 * MIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    executor = NULL;
    config.capacity_bytes += 2 * MIB;
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(executor);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A segment that idles in the place's cache and is too small for the arena is given back for it. */
static void a_named_capacity_gets_what_idles_in_caches(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 3 * GIB};
    begin(4 * GIB);
    void *block = dao_alloc(device, 2 * GIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_TRUE(free_bytes() <= 2 * GIB);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    CU_ASSERT_EQUAL(capacity_of(executor), 3 * GIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* It is as free as what the device calls so, whether all of it idles or a part, in segments or pages. */
static void what_is_free_includes_what_idles_in_caches(void)
{
    static const struct {
        uint64_t device_bytes, idle_bytes, headroom_bytes;
    } cases[] = {{4 * GIB, 3900 * MIB, 256 * MIB},
                 {4 * GIB, 2 * GIB, 256 * MIB},
                 {64 * MIB, 62 * MIB, 4 * MIB},
                 {64 * MIB, 32 * MIB, 4 * MIB}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_executor_t *executor = NULL;
        begin(cases[i].device_bytes);
        void *block = dao_alloc(device, cases[i].idle_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
        CU_ASSERT_TRUE(free_bytes() <= cases[i].device_bytes - cases[i].idle_bytes);
        CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
        CU_ASSERT_TRUE(capacity_of(executor) > cases[i].device_bytes - cases[i].headroom_bytes - 4 * MIB);
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

static size_t free_block(dao_place_t place, size_t needed_bytes, void *user)
{
    void **block = user;
    size_t freed_bytes = *block != NULL && dao_free(place, *block) == DAO_OK ? needed_bytes : 0;
    *block = NULL;
    return freed_bytes;
}

/* A capacity that is named asks for memory in use; one of what is free leaves that alone. */
static void a_named_capacity_asks_pressure_callbacks(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 32 * MIB};
    begin(64 * MIB);
    void *block = dao_alloc(device, 48 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    uint64_t id = 0;
    CU_ASSERT_EQUAL_FATAL(dao_pressure_callback_add(device, free_block, &block, &id), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 56 * MIB), DAO_OK); /* what is free is refused at first */
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_TRUE(capacity_of(executor) <= 8 * MIB);
    CU_ASSERT_EQUAL(dao_limit_set(device, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    CU_ASSERT_PTR_NULL(block);
    CU_ASSERT_EQUAL(capacity_of(executor), 32 * MIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

/* Pushes a kernel that reads a tensor and takes a workspace; what a sync says of it. */
static dao_status_t use(dao_executor_t *executor, dao_managed_t *tensor, size_t workspace_bytes)
{
    dao_operand_t operand = {tensor, DAO_ACCESS_READ};
    dao_kernel_t kernel = {.name = "use",
                           .launch = launch_nothing,
                           .operands = &operand,
                           .operand_count = 1,
                           .workspace_bytes = workspace_bytes};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    return dao_executor_sync(executor);
}

/* What planning such a kernel says, before it ran. */
static dao_status_t plan(dao_executor_t *executor, dao_managed_t *tensor)
{
    dao_command_list_t *list = NULL;
    dao_operand_t operand = {tensor, DAO_ACCESS_READ};
    dao_kernel_t kernel = {.name = "use", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_push(list, &kernel), DAO_OK);
    dao_status_t status = dao_command_list_plan(list, 1);
    dao_command_list_destroy(list);
    return status;
}

/* What the device does not hold for the executor any more others can have; tensors keep their bytes. */
static void a_capacity_grows_and_shrinks(void)
{
    enum { BYTES = 3 * MIB };
    static unsigned char bytes[BYTES], returned[BYTES];
    dao_executor_t *executor = NULL;
    dao_managed_t *tensor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 8 * MIB, .check = true};
    begin(64 * MIB);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &(dao_managed_config_t){.size_bytes = BYTES}, &tensor),
                          DAO_OK);
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (unsigned char)(i * 31 + i / 4093);
    }
    CU_ASSERT_EQUAL(dao_managed_write(tensor, bytes, BYTES), DAO_OK);
    CU_ASSERT_EQUAL(use(executor, tensor, 5 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(use(executor, tensor, 6 * MIB), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 40 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(capacity_of(executor), 40 * MIB);
    CU_ASSERT_EQUAL(dao_used(device), 40 * MIB);
    CU_ASSERT_EQUAL(use(executor, tensor, 37 * MIB), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 32 * MIB));
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 4 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 4 * MIB);
    void *beside = dao_alloc(device, 32 * MIB);
    CU_ASSERT_PTR_NOT_NULL(beside);
    CU_ASSERT_EQUAL(use(executor, tensor, 1 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(use(executor, tensor, 2 * MIB), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, returned, BYTES), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, returned, BYTES), 0);
    CU_ASSERT_EQUAL(dao_free(device, beside), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 0), DAO_OK); /* as at its creation */
    CU_ASSERT_TRUE(capacity_of(executor) > 56 * MIB && capacity_of(executor) <= 60 * MIB);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* An executor of 8 MiB on a device of 64, and a tensor of one byte. */
static void begin_with_tensor(const unsigned char *byte, dao_executor_t **out_executor,
                              dao_managed_t **out_tensor)
{
    dao_executor_config_t config = {.capacity_bytes = 8 * MIB, .check = true};
    begin(64 * MIB);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, out_executor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(
        dao_managed_create(*out_executor, &(dao_managed_config_t){.size_bytes = 1}, out_tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_write(*out_tensor, byte, 1), DAO_OK);
}

static void a_capacity_that_cannot_be_had_changes_nothing(void)
{
    static const struct {
        size_t bytes;
        dao_status_t answer;
    } wrong[] = {{128 * MIB, DAO_ERR_NO_DEVICE_MEMORY}, {1, DAO_ERR_INVALID}, {SIZE_MAX, DAO_ERR_OVERFLOW}};
    unsigned char byte = 7, returned = 0;
    dao_executor_t *executor = NULL;
    dao_managed_t *tensor = NULL;
    begin_with_tensor(&byte, &executor, &tensor);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, wrong[i].bytes), wrong[i].answer);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), i == 0 ? "arena of" : "capacity_bytes"));
        CU_ASSERT_EQUAL(capacity_of(executor), 8 * MIB);
        CU_ASSERT_EQUAL(use(executor, tensor, 7 * MIB), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_capacity_set(NULL, MIB), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(use(executor, tensor, 9 * MIB), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, &returned, 1), DAO_OK);
    CU_ASSERT_EQUAL(returned, byte);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Takes what was given back, instead of giving. */
static size_t take_all(dao_place_t place, size_t needed_bytes, void *user)
{
    void **block = user;
    (void)needed_bytes;
    *block = *block == NULL ? dao_alloc(place, 56 * MIB) : *block;
    return 0;
}

/* Somebody takes the memory that the executor gave back for another capacity. */
static void an_executor_without_memory_waits_for_some(void)
{
    unsigned char byte = 7, returned = 0;
    dao_executor_t *executor = NULL;
    dao_managed_t *tensor = NULL;
    begin_with_tensor(&byte, &executor, &tensor);
    CU_ASSERT_EQUAL(use(executor, tensor, 0), DAO_OK);
    uint64_t id = 0;
    void *block = NULL, *beside = dao_alloc(device, 4 * MIB);
    CU_ASSERT_EQUAL_FATAL(dao_pressure_callback_add(device, take_all, &block, &id), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 64 * MIB), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(capacity_of(executor), 0);
    CU_ASSERT_EQUAL(dao_used(device), 60 * MIB);
    CU_ASSERT_EQUAL(use(executor, tensor, 0), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(plan(executor, tensor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, &returned, 1), DAO_OK);
    CU_ASSERT_EQUAL(returned, byte);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 6 * MIB), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(id), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, beside), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 6 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(use(executor, tensor, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* ---- steps ---- */

enum { WEIGHTS = 8, UNIT = 4096, KERNEL_NS = 20000, LINK_BYTES_PER_S = 1000000000, PATIENCE = 40 };

static dao_status_t work_in_virtual_time(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_sim_stream_work(launch->stream->backend, KERNEL_NS);
}

/* Every weight is changed, one after the other, by what the last one has. */
static dao_command_list_t *make_list(program_t *program)
{
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(program->executor, &list), DAO_OK);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(program, UNIT), i);
        CU_ASSERT_EQUAL(program_write(program, i), DAO_OK);
    }
    for (uint32_t i = 0; i + 1 < WEIGHTS; i++) {
        program_kernel_t kernel = {"change", 2, {i, WEIGHTS - 1}, {DAO_ACCESS_READ_WRITE, DAO_ACCESS_READ}, 0,
                                   DAO_OK};
        CU_ASSERT_EQUAL(program_list_push(program, list, &kernel), DAO_OK);
    }
    return list;
}

/* Runs the list until its plan was followed two times more. */
static void run_until_planned(program_t *program, dao_command_list_t *list)
{
    uint64_t wanted = program_stats(program).plan_hit_count + 2;
    for (int i = 0; i < PATIENCE && program_stats(program).plan_hit_count < wanted; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(program->executor), DAO_OK);
    }
    CU_ASSERT_EQUAL(program_stats(program).plan_hit_count, wanted);
}

/* A plan is of one capacity: with another one the step is planned anew, or fits and needs none. */
static void another_capacity_has_plans_of_its_own(void)
{
    static program_t program;
    dao_executor_t *executor = NULL;
    dao_config_t settings = {.cpu = {.device_count = 1,
                                     .device_bytes = 8 * MIB,
                                     .h2d_bytes_per_second = LINK_BYTES_PER_S,
                                     .d2h_bytes_per_second = LINK_BYTES_PER_S}};
    dao_executor_config_t config = {.capacity_bytes = 5 * UNIT, .check = true};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&settings, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    executor->engine.config.keeps_plans = true; /* nothing was pushed yet */
    program_init(&program, executor);
    program.work = work_in_virtual_time;
    dao_command_list_t *list = make_list(&program);
    run_until_planned(&program, list);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 3 * UNIT), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).plan_count, 0);
    CU_ASSERT_EQUAL(program_stats(&program).device_used_bytes, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    run_until_planned(&program, list);
    CU_ASSERT_TRUE(executor->engine.plan != NULL && executor->engine.plan->schedule->arena_bytes <= 3 * UNIT);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 20 * UNIT), DAO_OK);
    for (int i = 0; i < PATIENCE; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).plan_count, 0);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 4 * UNIT), DAO_OK);
    run_until_planned(&program, list);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    dao_command_list_destroy(list);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Settings that no executor can have: it is not made, and the message says which. */
static void settings_that_cannot_be_are_named(void)
{
    const struct {
        dao_executor_config_t config;
        const char *what;
    } wrong[] = {
        {{.addresses = (dao_swap_addresses_t)9}, "choice 9 of addresses"},
        {{.policy = (dao_policy_t)99}, "policy 99"},
        {{.file = {.engine = (dao_file_engine_t)9}}, "file engine 9"},
        {{.file = {.limit_bytes = MIB}}, "needs a directory"},
        {{.file = {.out_bytes_per_second = 1}}, "needs a directory"},
    };
    begin(64 * MIB);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_executor_t *executor = NULL;
        dao_executor_config_t config = wrong[i].config;
        config.capacity_bytes = MIB;
        CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wrong[i].what));
        CU_ASSERT_PTR_NULL(executor);
    }
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_stats_get(NULL, &stats), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"an arena leaves headroom", an_arena_leaves_headroom},
    {"what is refused is asked for again, and lower", what_is_refused_is_asked_for_again_and_lower},
    {"a device without room is said to have none", a_device_without_room_is_said_to_have_none},
    {"a capacity that was named is taken or refused", a_capacity_that_was_named_is_taken_or_refused},
    {"a named capacity gets what idles in caches", a_named_capacity_gets_what_idles_in_caches},
    {"what is free includes what idles in caches", what_is_free_includes_what_idles_in_caches},
    {"a named capacity asks pressure callbacks", a_named_capacity_asks_pressure_callbacks},
    {"a capacity grows and shrinks", a_capacity_grows_and_shrinks},
    {"a capacity that cannot be had changes nothing", a_capacity_that_cannot_be_had_changes_nothing},
    {"an executor without memory waits for some", an_executor_without_memory_waits_for_some},
    {"another capacity has plans of its own", another_capacity_has_plans_of_its_own},
    {"settings that cannot be are named", settings_that_cannot_be_are_named},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor capacity", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

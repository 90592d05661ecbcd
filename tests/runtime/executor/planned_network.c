/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/executor/planned_network.h"

#include "tests/runtime/executor/tiers/small_pages.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>

dao_executor_t *executor;
program_t program;
network_t network;
uint64_t kernel_ns;
bool gives_stream;
static dao_stream_t *given;
bool keeps_plans = true;

dao_executor_stats_t stats_now(void)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats;
}

static dao_status_t work_in_virtual_time(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_sim_stream_work(launch->stream->backend, kernel_ns);
}
/* ---- a network ---- */

uint32_t tensor(size_t size_bytes)
{
    uint32_t number = program_tensor(&program, size_bytes);
    CU_ASSERT_NOT_EQUAL_FATAL(number, UINT32_MAX);
    return number;
}

static dao_status_t build_network(void)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < LAYERS; i++) {
        network.weights[i] = tensor((i % 3 + 2) * UNIT + 100);
    }
    for (uint32_t i = 0; i <= LAYERS; i++) {
        network.activations[i] = tensor((i % 2 + 2) * UNIT);
        network.gradients[i] = tensor((i % 2 + 2) * UNIT);
        program_drop(&program, network.activations[i]);
        program_drop(&program, network.gradients[i]);
    }
    for (uint32_t i = 0; i < LAYERS && status == DAO_OK; i++) {
        status = program_write(&program, network.weights[i]);
    }
    return status;
}

/* That kernels, writes and discards are added to; NULL: they are pushed. */
static dao_command_list_t *list;

static dao_status_t push_kernel(const program_kernel_t *kernel)
{
    return list != NULL ? program_list_push(&program, list, kernel) : program_push(&program, kernel);
}

/* A list that never runs does not look at the bytes. */
static dao_status_t write_input(void)
{
    const program_tensor_t *input = &program.tensors[network.activations[0]];
    return list != NULL ? dao_command_list_write(list, input->handle, &program, input->size_bytes)
                        : program_write(&program, network.activations[0]);
}

static dao_status_t drop(uint32_t number)
{
    if (list != NULL) {
        return dao_command_list_discard(list, program.tensors[number].handle);
    }
    program_drop(&program, number);
    return DAO_OK;
}

static dao_status_t push(const char *name, uint32_t read, uint32_t also_read, uint32_t write,
                         dao_access_t access)
{
    program_kernel_t kernel = {.name = name,
                               .operand_count = 3,
                               .tensors = {read, also_read, write},
                               .accesses = {DAO_ACCESS_READ, DAO_ACCESS_READ, access},
                               .workspace_bytes = UNIT};
    return push_kernel(&kernel);
}

static dao_status_t forward(const variation_t *variation, uint32_t layer)
{
    const char *name = layer + 1 == variation->kernels_swapped ? "other" : "forward";
    return push(name, network.activations[layer], network.weights[layer], network.activations[layer + 1],
                layer + 1 == variation->kernel_left_out ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_WRITE);
}

static bool renew(uint32_t number)
{
    return program.tensors[number].handle != NULL || program_renew(&program, number);
}

/* The kernels of a step, in which the network forgets what it has made. */
static dao_status_t push_network(const variation_t *variation)
{
    uint32_t layers = variation->layer_count != 0 ? variation->layer_count : LAYERS;
    dao_status_t status = renew(network.activations[0]) ? write_input() : DAO_ERR_NO_HOST_MEMORY;
    for (uint32_t i = 0; status == DAO_OK && i < layers; i++) {
        status = renew(network.activations[i + 1]) ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
        if (status == DAO_OK && i + 1 == variation->kernel_left_out) {
            program_kernel_t fill = {.name = "fill",
                                     .operand_count = 1,
                                     .tensors = {network.activations[i + 1]},
                                     .accesses = {DAO_ACCESS_WRITE}};
            status = push_kernel(&fill);
        }
        status = status == DAO_OK ? forward(variation, i) : status;
    }
    if (status == DAO_OK && variation->reads_in_between) {
        status = dao_executor_sync(executor);
        status = status == DAO_OK ? program_read(&program, network.activations[1]) : status;
    }
    for (uint32_t i = layers; status == DAO_OK && i-- > 0;) {
        status = renew(network.gradients[i]) ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
        status = status == DAO_OK ? push("backward", network.activations[i + 1], network.weights[i],
                                         network.gradients[i], DAO_ACCESS_WRITE)
                                  : status;
        program.stream_index = variation->update_stream;
        status = status == DAO_OK ? push("update", network.gradients[i], network.activations[i],
                                         network.weights[i], DAO_ACCESS_READ_WRITE)
                                  : status;
        program.stream_index = 0;
        status = status == DAO_OK ? drop(network.gradients[i]) : status;
        if (status == DAO_OK && !variation->keeps_activations) {
            status = drop(network.activations[i + 1]);
        }
    }
    return status;
}

static void drop_temporaries(void)
{
    for (uint32_t i = 0; i <= LAYERS; i++) {
        program_drop(&program, network.activations[i]);
        program_drop(&program, network.gradients[i]);
    }
}

dao_status_t plan_network(const variation_t *variation, uint64_t work_limit)
{
    dao_status_t status = dao_command_list_create(executor, &list);
    if (status != DAO_OK) {
        return status;
    }
    status = push_network(variation);
    drop_temporaries();
    status = status == DAO_OK ? dao_command_list_plan(list, work_limit) : status;
    dao_command_list_destroy(list);
    list = NULL;
    return status;
}

dao_status_t run_network(const variation_t *variation)
{
    dao_status_t status = push_network(variation);
    dao_status_t boundary_status = dao_executor_step_end(executor);
    drop_temporaries();
    dao_status_t sync_status = dao_executor_sync(executor);
    status = status != DAO_OK ? status : boundary_status;
    return status != DAO_OK ? status : sync_status;
}

const variation_t usual;

const variation_t others[OTHER_COUNT] = {
    {.kernel_left_out = 3},     {.kernels_swapped = 2},
    {.layer_count = 4},         {.keeps_activations = true},
    {.reads_in_between = true}, {.kernels_swapped = LAYERS, .reads_in_between = true},
};

void run_well(const variation_t *variation)
{
    dao_status_t status = run_network(variation);
    if (status != DAO_OK) {
        (void)printf("    %s: %s\n", dao_status_name(status), dao_last_message());
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
}

void run_usual(int count)
{
    for (int i = 0; i < count; i++) {
        run_well(&usual);
    }
}

/* ---- executors ---- */

static void begin_on(const dao_cpu_config_t *cpu, const dao_backend_ops_t *ops, bool is_still,
                     const dao_executor_config_t *config)
{
    dao_config_t settings = {.cpu = *cpu};
    dao_executor_config_t own = *config;
    own.addresses = IN_PAGES ? DAO_SWAP_ADDRESSES_PAGES : DAO_SWAP_ADDRESSES_BEST;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&settings, IN_PAGES ? small_pages_wrap(ops) : ops), DAO_OK);
    if (gives_stream) {
        CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &given), DAO_OK);
        own.streams = &given;
    }
    CU_ASSERT_EQUAL_FATAL(
        is_still ? dao_executor_create_still(&own, &executor) : dao_executor_create(&own, &executor), DAO_OK);
    CU_ASSERT_TRUE(!IN_PAGES || own.without_plans || executor->engine.pages.page_bytes == SMALL_PAGE_BYTES);
    executor->engine.config.keeps_plans = keeps_plans; /* nothing was pushed yet */
    program_init(&program, executor);
    kernel_ns = KERNEL_NS;
    if (ops == &dao_sim_bytes_backend_ops) {
        program.work = work_in_virtual_time;
    }
    CU_ASSERT_EQUAL(build_network(), DAO_OK);
}

void begin_on_half_duplex(const dao_executor_config_t *config)
{
    begin_on(&(dao_cpu_config_t){.device_count = 1,
                                 .device_bytes = 8 * MIB,
                                 .h2d_bytes_per_second = LINK_BYTES_PER_S,
                                 .d2h_bytes_per_second = LINK_BYTES_PER_S,
                                 .half_duplex = true},
             &dao_sim_bytes_backend_ops, true, config);
}

void begin(const dao_backend_ops_t *ops, bool is_still, const dao_executor_config_t *config)
{
    dao_cpu_config_t cpu = {.device_count = 1,
                            .device_bytes = 8 * MIB,
                            .h2d_bytes_per_second = is_still ? LINK_BYTES_PER_S : 0,
                            .d2h_bytes_per_second = is_still ? LINK_BYTES_PER_S : 0};
    begin_on(&cpu, ops, is_still, config);
}

void end(void)
{
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().live_tensor_count, 0);
    CU_ASSERT_EQUAL(stats_now().device_used_bytes, 0); /* a plan that was followed holds nothing for nobody */
    CU_ASSERT_EQUAL(stats_now().host_used_bytes, 0);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    dao_stream_destroy(given);
    given = NULL;
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

const dao_executor_config_t tight = {
    .capacity_bytes = 22 * UNIT, .policy = DAO_POLICY_BELADY, .check = TEST_WALKS};

dao_executor_config_t tight_with_file(size_t host_bytes)
{
    dao_executor_config_t config = tight;
    config.host_bytes = host_bytes;
    config.file = (dao_file_config_t){.directory = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
                                      .in_bytes_per_second = LINK_BYTES_PER_S / 2,
                                      .out_bytes_per_second = LINK_BYTES_PER_S / 3};
    return config;
}

void run_until_planned(const variation_t *variation, uint64_t count)
{
    uint64_t wanted = stats_now().plan_hit_count + count;
    for (int i = 0; i < PATIENCE && stats_now().plan_hit_count < wanted; i++) {
        run_well(variation);
    }
    CU_ASSERT_TRUE(stats_now().plan_hit_count >= wanted);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the executor one after the other, as docs/executor.md explains them: tensors, kernels, steps,
   lists, pins, sources, another capacity, and what happens when a kernel fails. */
#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>

enum { LAYER_COUNT = 8, STEP_COUNT = 6, NUMBER_COUNT = 64 * 1024 };
#define BYTES (NUMBER_COUNT * sizeof(float))

static void must(dao_status_t status)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "%s: %s\n", dao_status_name(status), dao_last_message());
        exit(1);
    }
}

/* ---- a kernel ---- */

/* to = from + 1, or with `is_sum` to += from: the work of a kernel, which a virtual device does on the host.
 */
static void add_one(void *user)
{
    void *const *addresses = user;
    float *to = addresses[0];
    const float *from = addresses[1];
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        to[i] = from[i] + 1;
    }
}

static void add(void *user)
{
    void *const *addresses = user;
    float *to = addresses[0];
    const float *from = addresses[1];
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        to[i] += from[i];
    }
}

static dao_status_t launch_add_one(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_stream_host_func(launch->stream, add_one, (void *)launch->addresses);
}

static dao_status_t push_add_one(dao_executor_t *executor, dao_managed_t *to, dao_managed_t *from)
{
    dao_operand_t operands[] = {{to, DAO_ACCESS_WRITE}, {from, DAO_ACCESS_READ}};
    dao_kernel_t kernel = {
        .name = "add_one", .launch = launch_add_one, .operands = operands, .operand_count = 2};
    return dao_executor_push(executor, &kernel);
}

static dao_status_t launch_add(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_stream_host_func(launch->stream, add, (void *)launch->addresses);
}

static dao_status_t push_add(dao_executor_t *executor, dao_managed_t *to, dao_managed_t *from)
{
    dao_operand_t operands[] = {{to, DAO_ACCESS_READ_WRITE}, {from, DAO_ACCESS_READ}};
    dao_kernel_t kernel = {.name = "add", .launch = launch_add, .operands = operands, .operand_count = 2};
    return dao_executor_push(executor, &kernel);
}

/* ---- the parts ---- */

/* Forward, each layer from the one before; backward, all of them are needed again. */
static void push_step(dao_executor_t *executor, dao_managed_t **layers)
{
    for (int i = 1; i < LAYER_COUNT; i++) {
        must(push_add_one(executor, layers[i], layers[i - 1]));
    }
    for (int i = LAYER_COUNT - 2; i > 0; i--) {
        must(push_add(executor, layers[i], layers[i + 1]));
    }
}

static void run_steps(dao_executor_t *executor, dao_managed_t **layers)
{
    for (int i = 0; i < STEP_COUNT; i++) {
        must(dao_executor_step_begin(executor));
        push_step(executor, layers);
        must(dao_executor_step_end(executor));
    }
    must(dao_executor_sync(executor));
}

/* A step as a list: its input is copied in by each run. */
static void run_list(dao_executor_t *executor, dao_managed_t **layers, const float *input)
{
    dao_operand_t operands[] = {{layers[1], DAO_ACCESS_WRITE}, {layers[0], DAO_ACCESS_READ}};
    dao_kernel_t kernel = {
        .name = "add_one", .launch = launch_add_one, .operands = operands, .operand_count = 2};
    dao_command_list_t *list;
    must(dao_command_list_create(executor, &list));
    must(dao_command_list_write(list, layers[0], input, BYTES));
    must(dao_command_list_push(list, &kernel));
    must(dao_command_list_plan(list, 0)); /* or the plan is learnt from the first runs */
    for (int i = 0; i < STEP_COUNT; i++) {
        must(dao_command_list_run(list));
    }
    must(dao_executor_sync(executor)); /* `input` is the program's again */
    dao_command_list_destroy(list);
}

/* The second half of a tensor, by a handle of its own: no other byte moves. */
static float read_half(dao_managed_t *tensor)
{
    dao_managed_t *half;
    float last;
    must(dao_managed_view(tensor, BYTES / 2, BYTES / 2, &half));
    must(dao_managed_read_part(half, BYTES / 2 - sizeof(last), &last, sizeof(last)));
    must(dao_managed_release(half));
    return last;
}

/* Weights that stay where the program has them: they leave the device without a copy. */
static dao_managed_t *adopt_weights(dao_executor_t *executor, const float *weights)
{
    dao_source_t *source;
    dao_managed_t *tensor;
    must(dao_source_adopt(weights, BYTES, NULL, NULL, &source));
    must(dao_managed_create_from(executor, &(dao_managed_config_t){.size_bytes = BYTES}, source, 0, &tensor));
    must(dao_source_release(source)); /* the tensor holds it */
    return tensor;
}

/* A kernel that asks for more than there is fails; the next sync says so, and the executor goes on. */
static bool fails_as_told(dao_executor_t *executor)
{
    dao_kernel_t kernel = {.name = "huge", .launch = launch_add, .workspace_bytes = 100 * BYTES};
    must(dao_executor_push(executor, &kernel)); /* queued: what goes wrong comes later */
    dao_status_t status = dao_executor_sync(executor);
    (void)printf("%s: %s\n", dao_status_name(status), dao_last_message());
    return status == DAO_ERR_KERNEL_TOO_LARGE && dao_executor_sync(executor) == DAO_OK;
}

static void print_stats(dao_executor_t *executor)
{
    dao_executor_stats_t stats;
    must(dao_executor_stats_get(executor, &stats));
    (void)printf(
        "%llu kernels in %llu KiB: %llu evictions, %llu of them without a copy; %llu steps by plan\n",
        (unsigned long long)stats.kernel_count, (unsigned long long)stats.capacity_bytes / 1024,
        (unsigned long long)stats.eviction_count, (unsigned long long)stats.clean_eviction_count,
        (unsigned long long)stats.plan_hit_count);
}

int main(void)
{
    static float input[NUMBER_COUNT], weights[NUMBER_COUNT], result[NUMBER_COUNT];
    dao_executor_t *executor;
    dao_managed_t *layers[LAYER_COUNT];
    dao_executor_config_t config = {
        .capacity_bytes = 4 * BYTES, /* of the device; 0: what is free */
        .host_bytes = 3 * BYTES,     /* of pinned memory; 0: no limit */
        .file = {.directory = "."},  /* takes what pinned memory does not */
    };
    must(dao_executor_create(&config, &executor));
    for (int i = 0; i < LAYER_COUNT; i++) {
        must(dao_managed_create(executor, &(dao_managed_config_t){.name = "layer", .size_bytes = BYTES},
                                &layers[i]));
    }
    must(dao_managed_write(layers[0], input, BYTES)); /* zeros */

    run_steps(executor, layers);
    must(dao_managed_read(layers[1], result, BYTES));
    bool is_right = result[0] == LAYER_COUNT * (LAYER_COUNT - 1) / 2; /* 1 + 2 + ... */

    input[0] = 41;
    run_list(executor, layers, input);
    must(dao_managed_read(layers[1], result, BYTES));
    is_right = is_right && result[0] == 42 && read_half(layers[1]) == 1;

    weights[0] = 58;
    dao_managed_t *tensor = adopt_weights(executor, weights);
    must(push_add(executor, layers[1], tensor));
    must(dao_managed_pin(layers[1], NULL)); /* stays on the device until it is unpinned */
    must(dao_managed_unpin(layers[1]));
    must(dao_executor_capacity_set(executor, 3 * BYTES)); /* others need some */
    must(dao_managed_read(layers[1], result, BYTES));
    is_right = is_right && result[0] == 100 && fails_as_told(executor);

    print_stats(executor);
    must(dao_managed_release(tensor));
    for (int i = 0; i < LAYER_COUNT; i++) {
        must(dao_managed_release(layers[i]));
    }
    must(dao_executor_destroy(executor));
    must(dao_finalize());
    return is_right ? 0 : 1;
}

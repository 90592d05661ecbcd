/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on more tensors than fit: sixteen layers forward and backward on a device that holds four of their
   outputs. The executor moves the others to the host and back. The program sees addresses only in its
   kernels. */
#include <dao/dao.h>

#include <stdio.h>

#define LAYER_COUNT  16
#define NUMBER_COUNT (64 * 1024) /* floats of a layer's output */
#define BYTES        (NUMBER_COUNT * sizeof(float))

/* Virtual devices compute on the host, so a kernel queues a host function here, which finds its operands in
   the launch's addresses; on a GPU it would launch a kernel on launch->stream. */
static void run_forward(void *user)
{
    void **addresses = user;
    float *to = addresses[0];
    const float *from = addresses[1];
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        to[i] = from[i] + 1.0f;
    }
}

static void run_backward(void *user)
{
    void **addresses = user;
    float *to = addresses[0];
    const float *from = addresses[1];
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        to[i] += from[i];
    }
}

static dao_status_t launch_add(const dao_launch_t *launch, void *user)
{
    return dao_stream_host_func(launch->stream, user != NULL ? run_backward : run_forward,
                                (void *)launch->addresses);
}

static dao_status_t push_add(dao_executor_t *executor, dao_managed_t *to, dao_managed_t *from, bool in_place)
{
    dao_operand_t operands[] = {{to, in_place ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_WRITE},
                                {from, DAO_ACCESS_READ}};
    dao_kernel_t kernel = {.name = "add",
                           .launch = launch_add,
                           .user = in_place ? executor : NULL,
                           .operands = operands,
                           .operand_count = 2};
    return dao_executor_push(executor, &kernel);
}

static dao_status_t run_layers(dao_executor_t *executor, dao_managed_t **layers)
{
    dao_status_t status = DAO_OK;
    /* forward: each output from the one before */
    for (int i = 1; status == DAO_OK && i < LAYER_COUNT; i++) {
        status = push_add(executor, layers[i], layers[i - 1], false);
    }
    /* backward: all outputs are needed again */
    for (int i = LAYER_COUNT - 1; status == DAO_OK && i > 0; i--) {
        status = push_add(executor, layers[i - 1], layers[i], true);
    }
    return status == DAO_OK ? dao_executor_sync(executor) : status;
}

/* Returns true if host functions can access the device's memory, else prints what to do. */
static bool device_is_virtual(void)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(0, &info);
    if (status != DAO_OK) {
        (void)fprintf(stderr, "%s: %s\n", dao_status_name(status), dao_last_message());
        return false;
    }
    if (!info.host_accessible) {
        (void)fprintf(stderr, "%s is no virtual device: give launch_add() a kernel for it first\n",
                      info.name);
    }
    return info.host_accessible;
}

int main(void)
{
    if (!device_is_virtual()) {
        return 1;
    }
    dao_executor_t *executor = NULL;
    dao_managed_t *layers[LAYER_COUNT] = {NULL};
    static float input[NUMBER_COUNT], result[NUMBER_COUNT];
    dao_executor_config_t config = {.capacity_bytes = 4 * BYTES};
    dao_status_t status = dao_executor_create(&config, &executor);
    for (int i = 0; status == DAO_OK && i < LAYER_COUNT; i++) {
        status = dao_managed_create(executor, &(dao_managed_config_t){.size_bytes = BYTES}, &layers[i]);
    }
    if (status == DAO_OK) {
        status = dao_managed_write(layers[0], input, BYTES); /* zeros */
    }
    if (status == DAO_OK) {
        status = run_layers(executor, layers);
    }
    if (status == DAO_OK) {
        status = dao_managed_read(layers[0], result, BYTES);
    }
    dao_executor_stats_t stats;
    if (status == DAO_OK && dao_executor_stats_get(executor, &stats) == DAO_OK) {
        (void)printf(
            "%d tensors of %zu KiB on a device of %llu KiB: %llu evictions, %llu KiB in, %llu KiB out\n",
            LAYER_COUNT, BYTES / 1024, (unsigned long long)stats.capacity_bytes / 1024,
            (unsigned long long)stats.eviction_count, (unsigned long long)stats.in_bytes / 1024,
            (unsigned long long)stats.out_bytes / 1024);
        (void)printf("the sum of 0 to %d came back as %g\n", LAYER_COUNT - 1, (double)result[0]);
    }
    if (status != DAO_OK) {
        (void)fprintf(stderr, "%s: %s\n", dao_status_name(status), dao_last_message());
    }
    for (int i = 0; i < LAYER_COUNT; i++) {
        (void)dao_managed_release(layers[i]); /* NULL is allowed */
    }
    (void)dao_executor_destroy(executor);
    bool is_right = result[0] == LAYER_COUNT * (LAYER_COUNT - 1) / 2;
    return dao_finalize() == DAO_OK && status == DAO_OK && is_right ? 0 : 1;
}

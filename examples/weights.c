/* SPDX-License-Identifier: Apache-2.0 */
/* A model whose weights do not fit on the device, and are in a file: the executor reads each layer's weights
   when its kernel needs them, drops them without a copy for the next ones, and never holds them in host
   memory. Replace write_model(), and the remove() of what it wrote, by a file of yours, and the offsets by
   those of its header. */
#include <dao/dao.h>

#include <stdio.h>

#define LAYER_COUNT  16
#define NUMBER_COUNT (64 * 1024) /* floats of a layer's weights */
#define BYTES        (NUMBER_COUNT * sizeof(float))
#define HEADER_BYTES 100 /* weights may begin anywhere */

/* Virtual devices compute on the host, so a kernel queues a host function here, which finds its operands in
   the launch's addresses; on a GPU it would launch a kernel on launch->stream. */
static void add_weights(void *user)
{
    void **addresses = user;
    float *sum = addresses[0];
    const float *weights = addresses[1];
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        sum[i] += weights[i];
    }
}

static dao_status_t launch_layer(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_stream_host_func(launch->stream, add_weights, (void *)launch->addresses);
}

static dao_status_t push_layer(dao_executor_t *executor, dao_managed_t *sum, dao_managed_t *weights)
{
    dao_operand_t operands[] = {{sum, DAO_ACCESS_READ_WRITE}, {weights, DAO_ACCESS_READ}};
    dao_kernel_t kernel = {.name = "layer", .launch = launch_layer, .operands = operands, .operand_count = 2};
    return dao_executor_push(executor, &kernel);
}

/* A file that begins with some header; layer i's weights are all i. */
static bool write_model(const char *path)
{
    static float weights[NUMBER_COUNT];
    static const char header[HEADER_BYTES] = "a model";
    FILE *file = fopen(path, "wb");
    bool is_written = file != NULL && fwrite(header, 1, HEADER_BYTES, file) == HEADER_BYTES;
    for (int layer = 0; is_written && layer < LAYER_COUNT; layer++) {
        for (size_t i = 0; i < NUMBER_COUNT; i++) {
            weights[i] = (float)layer;
        }
        is_written = fwrite(weights, sizeof(float), NUMBER_COUNT, file) == NUMBER_COUNT;
    }
    return file != NULL && fclose(file) == 0 && is_written;
}

/* One tensor a layer, of one file. */
static dao_status_t open_weights(dao_executor_t *executor, const char *path, dao_managed_t **weights)
{
    dao_source_t *file = NULL;
    dao_status_t status = dao_source_open(path, DAO_SOURCE_CACHE_AUTO, &file);
    for (int i = 0; status == DAO_OK && i < LAYER_COUNT; i++) {
        status = dao_managed_create_from(executor, &(dao_managed_config_t){.size_bytes = BYTES}, file,
                                         HEADER_BYTES + (size_t)i * BYTES, &weights[i]);
    }
    (void)dao_source_release(file); /* the tensors hold it */
    return status;
}

/* Two passes: in each one all weights come from the file. */
static dao_status_t run_model(dao_executor_t *executor, dao_managed_t *sum, dao_managed_t **weights)
{
    dao_status_t status = DAO_OK;
    for (int i = 0; status == DAO_OK && i < 2 * LAYER_COUNT; i++) {
        status = push_layer(executor, sum, weights[i % LAYER_COUNT]);
    }
    return status == DAO_OK ? dao_executor_sync(executor) : status;
}

static void print_counts(dao_executor_t *executor)
{
    dao_executor_stats_t stats;
    if (dao_executor_stats_get(executor, &stats) == DAO_OK) {
        (void)printf(
            "%d layers of %zu KiB on a device of %llu KiB: %llu KiB read from the file, %llu of %llu "
            "evictions without a copy\n",
            LAYER_COUNT, BYTES / 1024, (unsigned long long)stats.capacity_bytes / 1024,
            (unsigned long long)stats.file_in_bytes / 1024, (unsigned long long)stats.clean_eviction_count,
            (unsigned long long)stats.eviction_count);
    }
}

int main(void)
{
    const char *path = "example_weights.bin";
    static float result[NUMBER_COUNT];
    dao_executor_t *executor = NULL;
    dao_managed_t *sum = NULL, *weights[LAYER_COUNT] = {NULL};
    if (!write_model(path)) {
        (void)fprintf(stderr, "%s cannot be written\n", path);
        return 1;
    }
    dao_status_t status =
        dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 4 * BYTES}, &executor);
    if (status == DAO_OK) {
        dao_managed_config_t config = {.name = "sum", .size_bytes = BYTES, .zero_first_touch = true};
        status = dao_managed_create(executor, &config, &sum);
    }
    if (status == DAO_OK) {
        status = open_weights(executor, path, weights);
    }
    if (status == DAO_OK) {
        status = run_model(executor, sum, weights);
    }
    if (status == DAO_OK) {
        status = dao_managed_read(sum, result, BYTES);
    }
    if (status == DAO_OK) {
        print_counts(executor);
    } else {
        (void)fprintf(stderr, "%s: %s\n", dao_status_name(status), dao_last_message());
    }
    for (int i = 0; i < LAYER_COUNT; i++) {
        (void)dao_managed_release(weights[i]); /* NULL is allowed */
    }
    (void)dao_managed_release(sum);
    (void)dao_executor_destroy(executor);
    (void)remove(path);
    bool is_right = result[0] == LAYER_COUNT * (LAYER_COUNT - 1);
    return dao_finalize() == DAO_OK && status == DAO_OK && is_right ? 0 : 1;
}

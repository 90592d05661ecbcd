/* SPDX-License-Identifier: Apache-2.0 */
/* `dao-bench gpu`: what the library takes from a device and its driver, beside what they give without it.
   Each figure has a reference that is measured in the same run, so that their ratio says more than either:

       copies by the executor      plain copies between pinned and device memory, as fast as the link goes
       copies of registered memory the same
       copies queued as a batch    the same copies, queued one by one
       copies to a peer            the same copies, before the peer may be reached
       dao_alloc() and dao_free()  the driver's own allocation and free, also from its pool in stream order
       a page that is moved        a page that is taken new
       host time a kernel          (none: it has to be small against the kernels)
       a training in less memory   the same training without a limit

   It runs on whatever the command was built for; virtual devices show that it works, not what a GPU does. */
#include "base/report/error.h"
#include "bench/commands.h"
#include "bench/gpu/bench_gpu.h"
#include "bench/gpu/bench_training.h"

#include <dao/dao.h>

#include <stdio.h>

#define MIB DAO_BENCH_GPU_MIB

typedef struct settings {
    uint64_t device;
    uint64_t copy_mib;
    const char *training;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {.name = "device",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, device),
     .value = "N",
     .most = DAO_DEVICE_COUNT_MAX - 1,
     .preset = "0",
     .help = "which one"},
    {.name = "copy",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, copy_mib),
     .value = "MIB",
     .least = 1,
     .most = 4096,
     .preset = "64",
     .help = "MiB of a copy"},
    {.name = "training",
     .type = DAO_OPTION_TYPE_TEXT,
     DAO_OPTION_FIELD(settings_t, training),
     .value = "COMMAND",
     .help = "a training to run behind the figures: example_train, with options of its own"},
    {.name = "json",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_json),
     .help = "print one JSON array"},
    {.name = NULL},
};

/* ---- a training ---- */

static void print_training(const dao_bench_training_row_t *row, void *user)
{
    dao_bench_gpu_t *bench = user;
    char figure[64];
    if (row->percent == 0) {
        bench->unlimited_ms = row->step_ms;
        return;
    }
    (void)snprintf(figure, sizeof(figure), "training, %g %% of its peak", row->percent);
    dao_bench_gpu_row(bench, &(dao_bench_gpu_row_t){.figure = figure,
                                                    .unit = "ms",
                                                    .value = row->step_ms,
                                                    .reference = "without a limit",
                                                    .reference_value = bench->unlimited_ms});
    if (row->over_bound > 0) {
        (void)snprintf(figure, sizeof(figure), "  at %g %%, planned, / bound", row->percent);
        dao_bench_gpu_row(bench,
                          &(dao_bench_gpu_row_t){.figure = figure, .unit = "", .value = row->over_bound});
        (void)snprintf(figure, sizeof(figure), "  at %g %%, planned, / forecast", row->percent);
        dao_bench_gpu_row(bench,
                          &(dao_bench_gpu_row_t){.figure = figure, .unit = "", .value = row->over_forecast});
    }
}

/* ---- the command ---- */

static dao_status_t open_driver(dao_bench_gpu_t *bench)
{
    static const dao_config_t defaults;
    bench->ops = dao_backend_ops();
    dao_status_t status = bench->ops->open(&defaults, &bench->driver);
    return status == DAO_OK ? bench->ops->device_open(bench->driver, bench->device_index, &bench->device)
                            : status;
}

static void close_driver(dao_bench_gpu_t *bench)
{
    if (bench->device != NULL) {
        bench->ops->device_close(bench->device);
    }
    if (bench->driver != NULL) {
        bench->ops->close(bench->driver);
    }
}

static dao_status_t measure(dao_bench_gpu_t *bench)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(bench->device_index, &info);
    if (status != DAO_OK) {
        return status;
    }
    if (!bench->is_json) {
        (void)printf("device:%d of the %s backend: %s, %.1f GiB, copies of %zu MiB\n\n",
                     (int)bench->device_index, dao_backend_name(), info.name,
                     (double)info.total_bytes / (double)((uint64_t)1 << 30), bench->copy_bytes / MIB);
        (void)printf("| figure | value | reference | value | ratio |\n| --- | ---: | --- | ---: | ---: |\n");
    }
    status = open_driver(bench);
    status = status == DAO_OK ? dao_bench_gpu_copies(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_registered(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_batches(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_peers(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_allocation(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_pool(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_pages(bench) : status;
    status = status == DAO_OK ? dao_bench_gpu_kernels(bench) : status;
    dao_error_record_t record;
    dao_error_save(&record, status);
    close_driver(bench);
    return status == DAO_OK ? DAO_OK : dao_error_restore(&record);
}

static dao_status_t run_bench_gpu(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    dao_bench_gpu_t bench = {.device_index = (int32_t)settings->device,
                             .copy_bytes = (size_t)settings->copy_mib * MIB,
                             .is_json = settings->is_json};
    (void)arguments;
    (void)out_exit;
    dao_json_rows_init(&bench.json);
    dao_status_t status = measure(&bench);
    dao_error_record_t record;
    dao_error_save(&record, status);
    (void)dao_finalize(); /* the training has the device for itself */
    status = status == DAO_OK ? DAO_OK : dao_error_restore(&record);
    if (status == DAO_OK && settings->training != NULL) {
        status = dao_bench_training_run(settings->training, print_training, &bench);
    }
    if (status == DAO_OK && bench.is_json && !dao_json_rows_print(&bench.json)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the JSON text");
    }
    dao_json_rows_finish(&bench.json);
    return status;
}

const dao_command_t dao_command_bench_gpu = {
    .program = "dao-bench",
    .name = "gpu",
    .arguments = "",
    .summary = "what the library takes from a device, beside what its driver gives",
    .details =
        "Each figure stands beside a reference of the same run. Builds for cuda and hip measure the real\n"
        "device. A training runs in a program of its own: example_train compares a step at some shares of\n"
        "its own peak with one without a limit, with its bound and its forecast; its losses have to be\n"
        "the same.",
    .options = options,
    .least_arguments = 0,
    .most_arguments = 0,
    .settings_bytes = sizeof(settings_t),
    .run = run_bench_gpu,
};

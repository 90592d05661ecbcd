/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel costs the executor's host thread: while it decides by itself, and while it follows a plan.
   The device takes no time and its calls do nothing, so that all that is measured is the executor's own.
   Build with -DDAO_BENCH=ON in the release preset; `bench_follow`. Instructions of all measured kernels
   (STEPS x KERNELS):

       valgrind --tool=callgrind --toggle-collect=run_measured build/release/bench/bench_follow followed */
#include "backends/sim/sim.h"
#include "base/memory/measure.h"
#include "runtime/executor/executor_internal.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = 400,
    KERNELS = 2 * LAYERS,
    UNIT = 1 << 20,
    CAPACITY_UNITS = 3 * LAYERS / 2, /* of 2 LAYERS + 1 weights and activations */
    LEARN_STEPS = 4,
    STEPS = 50,
    EVENT_NS = 50000, /* that any two events are apart */
};

static dao_executor_t *executor;
static dao_managed_t *weights[LAYERS], *activations[LAYERS + 1];
static uint64_t call_count;

static void must(dao_status_t status)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "bench_follow: %s\n", dao_last_message());
        exit(1);
    }
}

/* ---- a device that does nothing ---- */

static dao_status_t create_event(dao_backend_device_t *device, bool has_time, dao_backend_event_t **out_event)
{
    (void)has_time;
    *out_event = (dao_backend_event_t *)device; /* nobody looks into it */
    return DAO_OK;
}

static void destroy_event(dao_backend_event_t *event)
{
    (void)event;
}

static dao_status_t record_event(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    (void)event;
    (void)stream;
    call_count++;
    return DAO_OK;
}

static dao_status_t ask_event(dao_backend_event_t *event)
{
    (void)event;
    call_count++;
    return DAO_OK;
}

static dao_status_t elapse(dao_backend_event_t *begin, dao_backend_event_t *end, int64_t *out_elapsed_ns)
{
    (void)begin;
    (void)end;
    call_count++;
    *out_elapsed_ns = EVENT_NS;
    return DAO_OK;
}

static dao_status_t wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    (void)stream;
    (void)event;
    call_count++;
    return DAO_OK;
}

static dao_status_t copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                         size_t size_bytes)
{
    (void)stream;
    (void)kind;
    (void)dst;
    (void)src;
    (void)size_bytes;
    call_count++;
    return DAO_OK;
}

static dao_status_t launch(const dao_launch_t *launch_info, void *user)
{
    (void)launch_info;
    (void)user;
    return DAO_OK;
}

/* ---- a training step ---- */

static void push(const char *name, dao_managed_t *first, dao_managed_t *second, dao_managed_t *third,
                 dao_access_t access)
{
    dao_operand_t operands[] = {{first, DAO_ACCESS_READ}, {second, DAO_ACCESS_READ}, {third, access}};
    dao_kernel_t kernel = {
        .name = name, .launch = launch, .operands = operands, .operand_count = 3, .workspace_bytes = UNIT};
    must(dao_executor_push(executor, &kernel));
}

static void create(dao_managed_t **out_tensor)
{
    dao_managed_config_t config = {.name = "tensor", .size_bytes = UNIT};
    must(dao_managed_create(executor, &config, out_tensor));
}

static void release(dao_managed_t **tensor)
{
    must(dao_managed_release(*tensor));
    *tensor = NULL;
}

/* Weights are updated on the way back. */
static void push_step(void)
{
    for (int i = 0; i < LAYERS; i++) {
        create(&activations[i + 1]);
        push("forward", weights[i], activations[i], activations[i + 1], DAO_ACCESS_WRITE);
    }
    for (int i = LAYERS; i-- > 0;) {
        push("backward", activations[i + 1], activations[i], weights[i], DAO_ACCESS_READ_WRITE);
        release(&activations[i + 1]);
    }
    must(dao_executor_step_end(executor));
}

static void write_first(dao_managed_t **tensor)
{
    static const char no_bytes;
    create(tensor);
    must(dao_managed_write(*tensor, &no_bytes, UNIT));
}

/* All that was pushed runs here; a function of its own for callgrind. */
__attribute__((noinline)) static uint64_t run_measured(void)
{
    uint64_t begin_ns = dao_measure_thread_ns();
    must(dao_executor_sync(executor));
    return dao_measure_thread_ns() - begin_ns;
}

static void measure(const char *name, bool without_plans)
{
    dao_executor_config_t config = {.capacity_bytes = (size_t)CAPACITY_UNITS * UNIT,
                                    .policy = DAO_POLICY_BELADY,
                                    .queue_kernels = 2 * KERNELS,
                                    .without_plans = without_plans};
    dao_executor_stats_t stats;
    uint64_t taken_ns = 0;
    must(dao_executor_create_still(&config, &executor));
    executor->engine.config.keeps_plans = true; /* this is about following them */
    for (int i = 0; i < LAYERS; i++) {
        write_first(&weights[i]);
    }
    write_first(&activations[0]);
    must(dao_executor_step_begin(executor));
    for (int step = 0; step < LEARN_STEPS; step++) {
        push_step();
        must(dao_executor_sync(executor));
    }
    call_count = 0;
    for (int step = 0; step < STEPS; step++) {
        push_step();
        taken_ns += run_measured();
    }
    must(dao_executor_stats_get(executor, &stats));
    (void)printf("%-10s %8.3f us a kernel, %5.2f calls of the device, %" PRIu64 " of %d steps by a plan\n",
                 name, (double)taken_ns / 1e3 / STEPS / KERNELS, (double)call_count / STEPS / KERNELS,
                 stats.plan_hit_count, LEARN_STEPS + STEPS);
    for (int i = 0; i < LAYERS; i++) {
        release(&weights[i]);
    }
    release(&activations[0]);
    must(dao_executor_destroy(executor));
}

int main(int argc, char **argv)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = UINT64_C(8) << 30}};
    dao_backend_ops_t ops = dao_sim_backend_ops;
    ops.event_create = create_event;
    ops.event_destroy = destroy_event;
    ops.event_record = record_event;
    ops.event_query = ask_event;
    ops.event_synchronize = ask_event;
    ops.event_elapsed = elapse;
    ops.stream_wait_event = wait_event;
    ops.copy = copy;
    must(dao_context_start(&config, &ops));
    if (argc < 2 || strcmp(argv[1], "online") == 0) {
        measure("online", true);
    }
    if (argc < 2 || strcmp(argv[1], "followed") == 0) {
        measure("followed", false);
    }
    return dao_finalize() != DAO_OK;
}

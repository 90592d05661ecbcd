/* SPDX-License-Identifier: Apache-2.0 */
/* Learnt steps in which operators run again, at many capacities and on four backends: the one of the build;
   one that holds commands back; one that does, tells of finished events late and hides its memory from the
   host; and one of whose calls one fails. No word may be wrong; all runs but the last succeed, and that one
   may only answer what its call did.

       sweep_again DIVISOR PERCENTS STEP...        sweep_again 64 100,50,0 examples/traces/mobilenet_v2

   Sizes are divided, so that a sweep ends: the order of things is that of the recorded step. Percents are of
   the peak; 0 is the smallest capacity. Links are so slow that operators run again. */
#include "base/numbers/random.h"
#include "tests/support/backends/fault_backend.h"
#include "tools/read/step/read_step.h"
#include "tools/run/run_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_BYTES_PER_S (UINT64_C(100) * 1000 * 1000)
#define SEED             UINT64_C(22)

enum { LEAST_ARGUMENTS = 4 };

/* The sums of a sweep. */
typedef struct sums {
    uint64_t runs, refused, failed, mismatches, verified, again;
} sums_t;

/* A way to wrap the build's backend. */
typedef struct backend {
    const char *name;
    fault_config_t config;
    bool fails;
} backend_t;

static const backend_t backends[] = {
    {.name = "plain"},
    {.name = "delaying", .config = {.seed = SEED, .delay_ns_max = 100000}},
    {.name = "reordering",
     .config = {.seed = SEED, .delay_ns_max = 100000, .not_ready_max = 3, .hide_host_access = true}},
    {.name = "failing", .fails = true},
};

static dao_step_trace_t trace;
static dao_step_figures_t figures;
static sums_t sums;

static dao_status_t read_scaled(const char *path, uint64_t divisor)
{
    dao_status_t status = dao_read_step(path, NULL, &trace);
    for (size_t i = 0; status == DAO_OK && i < trace.tensor_count; i++) {
        trace.tensors[i].size_bytes = (trace.tensors[i].size_bytes + divisor - 1) / divisor;
    }
    for (size_t i = 0; status == DAO_OK && i < trace.temporary_count; i++) {
        trace.temporaries[i].size_bytes = (trace.temporaries[i].size_bytes + divisor - 1) / divisor;
    }
    status = status == DAO_OK ? dao_step_trace_pack(&trace) : status;
    return status == DAO_OK ? dao_step_trace_figures(&trace, &figures) : status;
}

/* Is this what the call that failed answered? A launch function that made the call passes it on. */
static bool is_of_fault(dao_status_t status)
{
    dao_status_t answer = fault_backend_fired_status();
    return status == answer ||
           (status == DAO_ERR_KERNEL_FAILED && strstr(dao_last_message(), dao_status_name(answer)) != NULL);
}

/* Runs the step and adds what came of it. Returns the calls that could have failed. */
static uint64_t run(const backend_t *backend, uint64_t capacity_bytes, uint64_t failing_call)
{
    dao_run_config_t config = {.capacity_bytes = capacity_bytes,
                               .link_in_bytes_per_second = LINK_BYTES_PER_S,
                               .link_out_bytes_per_second = LINK_BYTES_PER_S,
                               .policy = DAO_POLICY_BELADY,
                               .mode = DAO_RUN_MODE_LEARN,
                               .runs_again = true,
                               .is_read_back = true,
                               .is_without_comparison = true,
                               .ops = fault_backend_wrap(dao_backend_ops(), &backend->config)};
    dao_run_result_t result = {0};
    if (backend->fails) {
        fault_backend_arm(FAULT_CALL_ANY, failing_call, false);
    }
    dao_status_t status = dao_run_step(&config, &trace, &result);
    bool has_fired = backend->fails && fault_backend_disarm() > 0;
    bool is_fault = has_fired && is_of_fault(status);
    bool is_failed = (status != DAO_OK && !is_fault) || fault_backend_live_count() != 0;
    sums.runs++;
    sums.refused += status != DAO_OK && is_fault ? 1 : 0;
    sums.failed += is_failed ? 1 : 0;
    sums.mismatches += result.mismatch_count;
    sums.verified += result.verified_count;
    sums.again += result.stats.again_count;
    if (is_failed || result.mismatch_count > 0) {
        (void)printf("%s at %" PRIu64 " bytes, call %" PRIu64 ": %s: %s %s; %" PRId64 " left behind\n",
                     backend->name, capacity_bytes, failing_call, dao_status_name(status),
                     status != DAO_OK ? dao_last_message() : "", result.first_mismatch,
                     fault_backend_live_count());
    }
    uint64_t calls = 0;
    for (int call = 0; call < FAULT_CALL_EVENT_QUERY; call++) {
        calls += fault_backend_calls((fault_call_t)call);
    }
    return calls;
}

/* The failing call is drawn among those that the plain run made. */
static void run_all(uint64_t capacity_bytes, uint64_t *random)
{
    uint64_t calls = run(&backends[0], capacity_bytes, 0);
    for (size_t i = 1; i < sizeof(backends) / sizeof(backends[0]); i++) {
        (void)run(&backends[i], capacity_bytes, dao_random_below(random, calls));
    }
}

static void print_sums(const char *path, unsigned percent, const sums_t *before)
{
    (void)printf("%-48.48s %3u%% %6" PRIu64 " runs, %" PRIu64 " refused, %" PRIu64 " failed, %" PRIu64
                 " reads, %" PRIu64 " mismatches, %" PRIu64 " run again\n",
                 path, percent, sums.runs - before->runs, sums.refused - before->refused,
                 sums.failed - before->failed, sums.verified - before->verified,
                 sums.mismatches - before->mismatches, sums.again - before->again);
    (void)fflush(stdout);
}

static dao_status_t sweep(const char *path, uint64_t divisor, const char *percents)
{
    dao_status_t status = read_scaled(path, divisor);
    uint64_t random = SEED;
    while (status == DAO_OK && *percents != '\0') {
        char *next;
        unsigned percent = (unsigned)strtoul(percents, &next, 10);
        uint64_t bytes = figures.peak_bytes / 100 * percent;
        sums_t before = sums;
        run_all(bytes < figures.largest_work_bytes ? figures.largest_work_bytes : bytes, &random);
        print_sums(path, percent, &before);
        percents = *next == ',' ? next + 1 : "";
    }
    dao_step_trace_finish(&trace);
    return status;
}

int main(int argc, char **argv)
{
    uint64_t divisor = argc >= LEAST_ARGUMENTS ? strtoull(argv[1], NULL, 10) : 0;
    if (divisor == 0) {
        (void)fprintf(stderr, "usage: sweep_again DIVISOR PERCENTS STEP...\n");
        return 2;
    }
    for (int i = LEAST_ARGUMENTS - 1; i < argc; i++) {
        if (sweep(argv[i], divisor, argv[2]) != DAO_OK) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], dao_last_message());
            return 2;
        }
    }
    print_sums("all", 0, &(sums_t){0});
    return sums.failed > 0 || sums.mismatches > 0 || sums.again == 0;
}

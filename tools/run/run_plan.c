/* SPDX-License-Identifier: Apache-2.0 */
/* Two rounds on one device:

       link and file measured -> plan with recorded times -> 4 steps -> kernels measured
       plan with measured times -> steps -> result

   In each round the contents that live on over the step's start are put where the plan wants them, and go on
   from step to step: an operator of step s checks what its operands got in step s - 1. */
#include "tools/run/run_plan.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/tiers/file_tier.h"
#include "tools/model/step_problem.h"
#include "tools/run/pattern.h"
#include "tools/run/play_plan.h"
#include "tools/run/run_internal.h"

#include <dao/dao.h>

#include <stdlib.h>
#include <string.h>

/* Device memory besides the capacity: to measure the link in, and for what allocators round up. */
#define SLACK_BYTES (UINT64_C(128) << 20)

/* What a link is measured with: of some copies the fastest tells the speed, the median of the small ones what
   a copy takes besides, as the host is. */
#define LARGE_COPY_BYTES ((size_t)16 << 20)
#define SMALL_COPY_BYTES ((size_t)4096)
enum { COPY_ROUNDS = 9 };

/* Tiers that tensors move to. */
enum { TIER_HOST, TIER_FILE, TIER_COUNT };

/* A direction's copies as they ran. */
typedef struct link_times {
    uint64_t count, size_bytes; /* of those that were queued */
    uint64_t begin_ns, busy_ns; /* of the one at hand, and of all; the stream's until it was waited for */
} link_times_t;

typedef struct planned_run {
    const dao_run_plan_config_t *config;
    const dao_step_trace_t *trace;
    dao_step_problem_t step; /* its kernels have the times to plan with */
    dao_run_plan_result_t *result;
    run_t run;
    dao_player_t player;
    link_times_t link_times[TIER_COUNT][DAO_FILE_DIRECTION_COUNT];
    bool is_host_accessible; /* device memory */
    uint32_t now;            /* step that is being queued */
} planned_run_t;

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* ---- the link ---- */

static dao_status_t time_copy(dao_stream_t *stream, bool is_in, void *device, void *pinned, size_t size_bytes,
                              uint64_t *out_least_ns, uint64_t *out_median_ns)
{
    uint64_t taken_ns[COPY_ROUNDS];
    dao_place_t device_place = dao_place_from_device(dao_device_place(0));
    dao_place_t pinned_place = dao_place_from_pinned(dao_pinned_place(0));
    for (int i = 0; i < COPY_ROUNDS; i++) {
        uint64_t begin_ns = dao_clock_ns();
        dao_status_t status =
            is_in ? dao_stream_copy(stream, device_place, device, pinned_place, pinned, size_bytes)
                  : dao_stream_copy(stream, pinned_place, pinned, device_place, device, size_bytes);
        status = status == DAO_OK ? dao_stream_synchronize(stream) : status;
        if (status != DAO_OK) {
            return status;
        }
        taken_ns[i] = dao_clock_ns() - begin_ns;
    }
    qsort(taken_ns, COPY_ROUNDS, sizeof(taken_ns[0]), compare_times);
    *out_least_ns = taken_ns[0];
    *out_median_ns = taken_ns[COPY_ROUNDS / 2];
    return DAO_OK;
}

/* Speed of a direction, and what a copy takes besides. */
static dao_status_t measure_direction(dao_stream_t *stream, bool is_in, void *device, void *pinned,
                                      uint64_t *out_bytes_per_second, uint64_t *latency_ns)
{
    uint64_t large_ns = 0, small_ns = 0, median_ns = 0;
    dao_status_t status = time_copy(stream, is_in, device, pinned, LARGE_COPY_BYTES, &large_ns, &median_ns);
    if (status == DAO_OK) {
        status = time_copy(stream, is_in, device, pinned, SMALL_COPY_BYTES, &small_ns, &median_ns);
    }
    if (status != DAO_OK) {
        return status;
    }
    uint64_t moved_ns = large_ns > small_ns ? large_ns - small_ns : 1;
    *out_bytes_per_second = (LARGE_COPY_BYTES - SMALL_COPY_BYTES) * DAO_NS_PER_S / moved_ns;
    *out_bytes_per_second = *out_bytes_per_second > 0 ? *out_bytes_per_second : 1;
    *latency_ns = dao_larger(median_ns, *latency_ns);
    return DAO_OK;
}

static dao_status_t measure_link(dao_swap_tier_t *out_link)
{
    dao_stream_t *stream = NULL;
    void *device = dao_alloc(dao_device_place(0), LARGE_COPY_BYTES);
    void *pinned = device != NULL ? dao_alloc(dao_pinned_place(0), LARGE_COPY_BYTES) : NULL;
    dao_status_t status = pinned != NULL ? dao_stream_create(0, &stream) : dao_last_status();
    *out_link = (dao_swap_tier_t){.duplex = DAO_SWAP_DUPLEX_FULL};
    if (status == DAO_OK) {
        status = measure_direction(stream, true, device, pinned, &out_link->in_bytes_per_second,
                                   &out_link->latency_ns);
    }
    if (status == DAO_OK) {
        status = measure_direction(stream, false, device, pinned, &out_link->out_bytes_per_second,
                                   &out_link->latency_ns);
    }
    dao_stream_destroy(stream);
    if (pinned != NULL) {
        (void)dao_free(dao_pinned_place(0), pinned); /* ours, as the other */
    }
    if (device != NULL) {
        (void)dao_free(dao_device_place(0), device);
    }
    return status;
}

/* ---- the file ---- */

/* One transfer, held back as those of the plan will be. */
static uint64_t time_transfer(dao_file_t *file, const dao_file_config_t *config,
                              dao_file_direction_t direction, void *pinned, size_t size_bytes, int *error)
{
    uint64_t begin_ns = dao_clock_ns();
    int failed = dao_file_transfer(file, direction, 0, pinned, size_bytes);
    dao_sleep_until(begin_ns + dao_file_tier_least_ns(config, direction, size_bytes));
    *error = *error != 0 ? *error : failed;
    return dao_clock_ns() - begin_ns;
}

/* Speed of a direction, with the copy between the device and pinned memory that is a part of each piece's
   way, and what the transfer alone takes besides. */
static int measure_file_direction(dao_file_t *file, const dao_file_config_t *config,
                                  dao_file_direction_t direction, void *pinned,
                                  uint64_t link_bytes_per_second, uint64_t *out_bytes_per_second,
                                  uint64_t *latency_ns)
{
    uint64_t large_ns[COPY_ROUNDS], small_ns[COPY_ROUNDS];
    int error = 0;
    for (int i = 0; i < COPY_ROUNDS; i++) {
        large_ns[i] = time_transfer(file, config, direction, pinned, LARGE_COPY_BYTES, &error);
        small_ns[i] = time_transfer(file, config, direction, pinned, SMALL_COPY_BYTES, &error);
    }
    qsort(large_ns, COPY_ROUNDS, sizeof(large_ns[0]), compare_times);
    qsort(small_ns, COPY_ROUNDS, sizeof(small_ns[0]), compare_times);
    uint64_t moved_ns = large_ns[0] > small_ns[0] ? large_ns[0] - small_ns[0] : 0;
    moved_ns += dao_transfer_ns(LARGE_COPY_BYTES, link_bytes_per_second);
    *out_bytes_per_second = LARGE_COPY_BYTES * DAO_NS_PER_S / (moved_ns > 0 ? moved_ns : 1) + 1;
    *latency_ns = dao_larger(small_ns[COPY_ROUNDS / 2], *latency_ns);
    return error;
}

/* Of a file of its own, made where the plan's will be. */
static dao_status_t measure_file(const dao_file_config_t *config, const dao_swap_tier_t *link,
                                 dao_swap_tier_t *out_tier)
{
    dao_file_t *file = NULL;
    *out_tier = (dao_swap_tier_t){.limit_bytes = config->limit_bytes};
    void *pinned = dao_alloc(dao_pinned_place(0), LARGE_COPY_BYTES);
    dao_status_t status =
        pinned != NULL ? dao_file_create(config->directory, config->engine, &file) : dao_last_status();
    if (status == DAO_OK) {
        memset(pinned, 0, LARGE_COPY_BYTES);
        int error = measure_file_direction(file, config, DAO_FILE_WRITE, pinned, link->out_bytes_per_second,
                                           &out_tier->out_bytes_per_second, &out_tier->latency_ns);
        if (error == 0) {
            error = measure_file_direction(file, config, DAO_FILE_READ, pinned, link->in_bytes_per_second,
                                           &out_tier->in_bytes_per_second, &out_tier->latency_ns);
        }
        out_tier->latency_ns += link->latency_ns; /* a piece is copied before it, or behind it */
        status = error == 0 ? DAO_OK
                            : dao_error(DAO_ERR_IO, "the file in \"%.200s\": %s", config->directory,
                                        strerror(error));
    }
    dao_file_destroy(file);
    if (pinned != NULL) {
        (void)dao_free(dao_pinned_place(0), pinned); /* ours */
    }
    return status;
}

/* ---- a round ---- */

static dao_status_t launch_planned(uint32_t index, void *const *addresses, void *workspace, void *user)
{
    planned_run_t *planned = user;
    const dao_step_trace_t *trace = planned->trace;
    run_kernel_t *kernel = &planned->run.kernels[planned->now * trace->operator_count + index];
    dao_launch_t launch = {
        .name = dao_trace_operator_name(trace, index),
        .index = index,
        .stream = dao_player_compute(&planned->player, &planned->step.problem.kernels[index]),
        .addresses = addresses,
        .operand_count = planned->step.problem.kernels[index].use_count,
        .workspace = workspace,
    };
    return planned->run.stagings[0] != NULL ? dao_run_launch_staged(&launch, kernel)
                                            : dao_run_launch_direct(&launch, kernel);
}

static void begin_copy(void *user)
{
    link_times_t *times = user;
    times->begin_ns = dao_clock_ns();
}

static void end_copy(void *user)
{
    link_times_t *times = user;
    times->busy_ns += dao_clock_ns() - times->begin_ns;
}

/* Takes the time of each copy on its stream. */
static dao_status_t time_link_copy(dao_stream_role_t role, const dao_swap_copy_t *copy, bool is_behind,
                                   void *user)
{
    planned_run_t *planned = user;
    link_times_t *times = &planned->link_times[copy->is_file ? TIER_FILE : TIER_HOST]
                                              [copy->is_in ? DAO_FILE_READ : DAO_FILE_WRITE];
    times->count += is_behind ? 1 : 0;
    times->size_bytes += is_behind ? copy->size_bytes : 0;
    dao_backend_stream_t *stream = planned->player.timeline.streams[role].backend;
    return planned->player.runtime->ops->host_func(stream, is_behind ? end_copy : begin_copy, times);
}

/* The content of a tensor before the first step. Sizes of the problem are rounded up: what is behind the end
   is nobody's. */
static void read_content(uint32_t tensor, uint64_t offset_bytes, uint64_t size_bytes, void *out_bytes,
                         void *user)
{
    planned_run_t *planned = user;
    uint32_t index = planned->step.trace_tensors[tensor];
    uint64_t whole_bytes = planned->trace->tensors[index].size_bytes;
    uint64_t left_bytes = whole_bytes > offset_bytes ? whole_bytes - offset_bytes : 0;
    dao_pattern_fill_part(out_bytes, offset_bytes, left_bytes < size_bytes ? left_bytes : size_bytes,
                          dao_pattern_base(index, 0));
}

static dao_status_t play(planned_run_t *planned, const dao_swap_schedule_t *schedule, uint32_t step_count)
{
    dao_player_t *player = &planned->player;
    memset(planned->link_times, 0, sizeof(planned->link_times));
    dao_progress_phase("running steps", DAO_PROGRESS_UNIT_PARTS, step_count * planned->trace->operator_count);
    const dao_player_config_t config = {
        .problem = &planned->step.problem,
        .schedule = schedule,
        .file = planned->config->file,
        .launch = launch_planned,
        .on_copy = planned->is_host_accessible ? time_link_copy : NULL, /* else it costs too much */
        .user = planned};
    dao_status_t status = dao_player_create(player, &config);
    status = status == DAO_OK && !planned->is_host_accessible ? dao_run_take_stagings(&planned->run) : status;
    status = status == DAO_OK ? dao_player_place(player, read_content) : status;
    for (planned->now = 0; status == DAO_OK && planned->now < step_count; planned->now++) {
        status = dao_player_step(player);
    }
    dao_status_t wait_status = dao_player_wait(player);
    status = status == DAO_OK ? wait_status : status;
    dao_error_record_t error;
    dao_error_save(&error, status);
    dao_player_finish(player);
    dao_run_give_stagings(&planned->run);
    return status != DAO_OK ? dao_error_restore(&error) : DAO_OK;
}

/* The median of the times from the end of a kernel, of its own stream or of another one, to the begin of the
   next. Few kernels wait for a copy, so it is what the host takes to go on to the next one: the plan counts
   it as a part of each kernel. */
static dao_status_t measure_dispatch(planned_run_t *planned, uint32_t step_count)
{
    const run_kernel_t *kernels = planned->run.kernels;
    size_t count = step_count * planned->trace->operator_count;
    uint64_t *gaps_ns = dao_host_calloc(count, sizeof(*gaps_ns));
    if (gaps_ns == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the times between %zu kernels", count);
    }
    uint64_t end_ns[DAO_EXECUTOR_STREAM_COUNT_MAX] = {0}; /* of the last kernel of each stream */
    for (size_t i = 0; i < count; i++) {
        uint64_t latest_ns = 0;
        for (uint32_t stream = 0; stream < planned->run.stream_count; stream++) {
            bool has_ended = end_ns[stream] <= kernels[i].begin_ns;
            latest_ns = has_ended ? dao_larger(latest_ns, end_ns[stream]) : latest_ns;
        }
        gaps_ns[i] = latest_ns != 0 ? kernels[i].begin_ns - latest_ns : 0;
        end_ns[kernels[i].stream_index] = kernels[i].end_ns;
    }
    qsort(gaps_ns, count, sizeof(*gaps_ns), compare_times);
    planned->result->dispatch_ns = gaps_ns[count / 2];
    dao_host_free(gaps_ns);
    return DAO_OK;
}

/* What a copy took besides the bytes that it moved, in the mean: the tier's latency, as the problem has it
   from then on, is more than what a lone copy showed, where streams are late to go on. */
static uint64_t measure_copies(const planned_run_t *planned, int tier_index, dao_swap_tier_t *tier)
{
    const link_times_t *out = &planned->link_times[tier_index][DAO_FILE_WRITE];
    const link_times_t *in = &planned->link_times[tier_index][DAO_FILE_READ];
    if (out->count + in->count > 0 && planned->is_host_accessible) {
        uint64_t busy_ns = out->busy_ns + in->busy_ns;
        uint64_t moving_ns = dao_transfer_ns(out->size_bytes, tier->out_bytes_per_second) +
                             dao_transfer_ns(in->size_bytes, tier->in_bytes_per_second);
        tier->latency_ns = busy_ns > moving_ns ? (busy_ns - moving_ns) / (out->count + in->count) : 0;
    }
    return tier->latency_ns;
}

/* The end of the last of some steps' kernels, on whichever stream. */
static uint64_t last_end_ns(const planned_run_t *planned, uint32_t step_count)
{
    uint64_t end_ns = 0;
    for (size_t i = 0; i < step_count * planned->trace->operator_count; i++) {
        end_ns = dao_larger(end_ns, planned->run.kernels[i].end_ns);
    }
    return end_ns;
}

/* Times of the last half of the steps: theirs, and the means of their kernels, which the problem gets. */
static void measure_steps(planned_run_t *planned, uint32_t step_count)
{
    const run_kernel_t *kernels = planned->run.kernels;
    size_t count = planned->trace->operator_count;
    uint32_t first = step_count / 2, measured = step_count - first;
    DAO_ASSERT(measured > 0);
    uint64_t begin_ns = last_end_ns(planned, first);
    planned->result->step_ns = (last_end_ns(planned, step_count) - begin_ns) / measured;
    planned->result->compute_ns = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t sum_ns = 0;
        for (uint32_t step = first; step < step_count; step++) {
            const run_kernel_t *kernel = &kernels[step * count + i];
            sum_ns += kernel->end_ns - kernel->begin_ns;
        }
        planned->step.kernels[i].time_ns = sum_ns / measured;
        planned->result->compute_ns += planned->step.kernels[i].time_ns;
    }
}

/* What the plan says of these steps, given how long their kernels ran, and copies in the mean: the model
   alone, whatever else the host did meanwhile. */
static dao_status_t replay_steps(planned_run_t *planned, const dao_swap_plan_t *plan, uint32_t step_count)
{
    size_t count = step_count * planned->trace->operator_count;
    uint64_t *times_ns = dao_host_calloc(count, sizeof(*times_ns));
    if (times_ns == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the times of %zu kernels", count);
    }
    for (size_t i = 0; i < count; i++) {
        const run_kernel_t *kernel = &planned->run.kernels[i];
        times_ns[i] = kernel->end_ns - kernel->begin_ns + planned->result->dispatch_ns;
    }
    const dao_swap_replay_config_t config = {
        .step_count = step_count,
        .kernel_times_ns = times_ns,
        .host = &planned->step.problem.host,
        .file = planned->step.problem.file.in_bytes_per_second != 0 ? &planned->step.problem.file : NULL};
    dao_swap_replay_t replay = {0};
    dao_status_t status = dao_swap_plan_replay(plan, &config, &replay);
    planned->result->replayed_ns = replay.step_ns;
    dao_host_free(times_ns);
    return status;
}

static dao_status_t run_round(planned_run_t *planned, uint32_t step_count)
{
    dao_run_plan_result_t *result = planned->result;
    dao_swap_plan_t *plan = NULL;
    const dao_swap_plan_config_t config = {.addresses = planned->config->addresses,
                                           .work_limit = planned->config->plan_work};
    dao_progress_phase("planning", DAO_PROGRESS_UNIT_PARTS, 0);
    uint64_t begin_ns = dao_clock_ns();
    dao_status_t status = dao_swap_plan_make(&planned->step.problem, &config, &plan);
    result->plan_ns = dao_clock_ns() - begin_ns;
    if (status != DAO_OK) {
        return status;
    }
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    result->forecast_ns = schedule->step_ns;
    result->in_bytes = schedule->in_bytes;
    result->out_bytes = schedule->out_bytes;
    result->part_bytes = schedule->part_bytes;
    result->file_in_bytes = dao_player_stream_bytes(schedule, DAO_SWAP_STREAM_FILE_IN);
    result->file_out_bytes = dao_player_stream_bytes(schedule, DAO_SWAP_STREAM_FILE_OUT);
    planned->run = (run_t){.trace = planned->trace};
    status = dao_run_prepare_kernels(&planned->run, planned->config->time_scale, step_count,
                                     planned->config->keeps_streams);
    status = status == DAO_OK ? play(planned, schedule, step_count) : status;
    if (status == DAO_OK) {
        measure_steps(planned, step_count);
        result->copy_ns = measure_copies(planned, TIER_HOST, &planned->step.problem.host);
        result->file_copy_ns = measure_copies(planned, TIER_FILE, &planned->step.problem.file);
        status = measure_dispatch(planned, step_count);
        status = status == DAO_OK ? replay_steps(planned, plan, step_count) : status;
        result->verified_count = planned->run.verified_count;
        if (result->mismatch_count == 0) {
            memcpy(result->first_mismatch, planned->run.first_mismatch, sizeof(result->first_mismatch));
        }
        result->mismatch_count += planned->run.mismatch_count;
    }
    if (planned->config->spans != NULL) { /* those of the last round stay */
        planned->config->spans->count = 0;
        dao_run_collect_kernels(&planned->run, step_count * planned->trace->operator_count,
                                planned->config->spans);
    }
    dao_run_free_kernels(&planned->run);
    dao_swap_plan_destroy(plan);
    return status;
}

/* ---- the run ---- */

static dao_status_t start_context(const dao_run_plan_config_t *config, dao_copy_tracer_t *tracer)
{
    dao_config_t settings = {
        .cpu = {.device_count = 1,
                .device_bytes = dao_round_up(config->capacity_bytes, DAO_PAGE_BYTES) + SLACK_BYTES,
                .h2d_bytes_per_second = config->link_in_bytes_per_second,
                .d2h_bytes_per_second = config->link_out_bytes_per_second},
    };
    const dao_backend_ops_t *ops = config->ops != NULL ? config->ops : dao_backend_ops();
    return dao_context_start(&settings, config->spans != NULL ? dao_copy_tracer_begin(tracer, ops) : ops);
}

/* Pages that a plan may have: where mapping them takes long, only if they are asked for. */
static uint64_t page_bytes_of(const dao_run_plan_config_t *config, uint64_t page_bytes)
{
    const dao_backend_ops_t *ops = config->ops != NULL ? config->ops : dao_backend_ops();
    bool is_wanted = config->addresses == DAO_SWAP_ADDRESSES_PAGES ||
                     (config->addresses == DAO_SWAP_ADDRESSES_BEST && !ops->alias_is_slow);
    return is_wanted && dao_backend_has_aliases(ops) ? page_bytes : 0;
}

static dao_status_t run_in_context(planned_run_t *planned)
{
    dao_swap_problem_t *problem = &planned->step.problem;
    dao_device_info_t info;
    dao_status_t status = dao_device_query(0, &info);
    planned->is_host_accessible = status == DAO_OK && info.host_accessible;
    status = status == DAO_OK ? measure_link(&planned->result->link) : status;
    if (status == DAO_OK && planned->config->file.directory != NULL) {
        status = measure_file(&planned->config->file, &planned->result->link, &planned->result->file);
    }
    problem->host = planned->result->link;
    problem->host.limit_bytes = planned->config->host_bytes;
    problem->file = planned->result->file;
    problem->capacity_bytes = planned->config->capacity_bytes;
    problem->page_bytes = page_bytes_of(planned->config, status == DAO_OK ? info.page_bytes : 0);
    for (uint32_t i = 0; i < problem->kernel_count; i++) {
        planned->step.kernels[i].time_ns =
            (uint64_t)((double)planned->step.kernels[i].time_ns * planned->config->time_scale);
    }
    status = status == DAO_OK ? run_round(planned, DAO_RUN_PLAN_FIRST_STEPS) : status;
    for (uint32_t i = 0; i < problem->kernel_count && status == DAO_OK; i++) {
        planned->step.kernels[i].time_ns += planned->result->dispatch_ns;
    }
    status = status == DAO_OK ? run_round(planned, planned->result->step_count) : status;
    return status == DAO_OK ? dao_swap_find_bound(problem, &planned->result->bound) : status;
}

/* Puts the step's kernels on the streams of their operators. */
static dao_status_t take_streams(planned_run_t *planned)
{
    size_t count = planned->trace->operator_count;
    uint32_t stream_count, *streams = dao_host_calloc(count + 1, sizeof(*streams));
    dao_status_t status = streams != NULL ? dao_trace_number_streams(planned->trace, streams, &stream_count)
                                          : dao_error(DAO_ERR_NO_HOST_MEMORY,
                                                      "no memory for the streams of %zu operators", count);
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        planned->step.kernels[i].stream = streams[i];
    }
    dao_host_free(streams);
    return status;
}

static dao_status_t run(planned_run_t *planned)
{
    dao_copy_tracer_t tracer = {.base = NULL};
    dao_status_t status = dao_step_problem_make(planned->trace, &planned->step);
    if (status != DAO_OK) {
        return status;
    }
    status = planned->config->keeps_streams ? take_streams(planned) : DAO_OK;
    status = status == DAO_OK ? start_context(planned->config, &tracer) : status;
    if (status == DAO_OK) {
        status = run_in_context(planned);
        dao_error_record_t error;
        dao_error_save(&error, status);
        dao_status_t finalize_status = dao_finalize();
        status = status != DAO_OK ? dao_error_restore(&error) : finalize_status;
    }
    if (planned->config->spans != NULL) {
        dao_copy_tracer_end(&tracer, planned->config->spans);
    }
    dao_step_problem_finish(&planned->step);
    return status;
}

dao_status_t dao_run_plan(const dao_run_plan_config_t *config, const dao_step_trace_t *trace,
                          dao_run_plan_result_t *out_result)
{
    dao_run_plan_result_t result = {
        .capacity_bytes = config->capacity_bytes,
        .step_count = config->step_count != 0 ? config->step_count : DAO_RUN_PLAN_STEPS_DEFAULT,
    };
    planned_run_t planned = {.config = config, .trace = trace, .result = &result};
    if (result.step_count < 2) {
        return dao_error(DAO_ERR_INVALID, "of planned steps the last half is measured: at least 2 steps");
    }
    dao_status_t status = dao_step_trace_figures(trace, &result.figures);
    if (status != DAO_OK) {
        return status;
    }
    status = run(&planned);
    if (status == DAO_OK) {
        *out_result = result;
    }
    return status;
}

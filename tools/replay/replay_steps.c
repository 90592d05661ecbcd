/* SPDX-License-Identifier: Apache-2.0 */
/* Each step is a step of the place, or is not:

       steps before those recorded   run without steps
       recorded                      a plan serves after the last of them
       between                       pass by the plan
       served                        a row each

   Without plans all of them run without steps, for what the place takes then up to each step. A block's
   range of addresses is among the live ones from its allocation to its free; blocks of one run alone are held
   against each other. */
#include "tools/replay/replay_steps.h"

#include "tools/base/progress.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <dao/dao.h>

#include <inttypes.h>

/* Blocks that are touched are so in every page. */
#define TOUCH_STEP_BYTES ((size_t)4096)

typedef struct replay {
    const dao_event_file_t *file;
    const dao_replay_config_t *config;
    dao_replay_visit_t visit;
    void *user;
    dao_replay_overlaps_t *overlaps;
    dao_live_ranges_t live;
    uint64_t *alone_bytes;   /* most that the place took up to each step without plans; or NULL */
    bool is_alone;           /* that is being found out */
    void **addresses;        /* of each tensor; NULL: it is not alive here */
    uint64_t step;           /* that is run; 0: what comes before the first one */
    uint64_t first_operator; /* of it */
} replay_t;

/* ---- blocks ---- */

static void touch(char *address, uint64_t size_bytes)
{
    for (uint64_t i = 0; i < size_bytes; i += TOUCH_STEP_BYTES) {
        *(volatile char *)(address + i) = 0;
    }
}

/* Holds a block against those that live. */
static dao_status_t look_at(replay_t *replay, const void *address, uint64_t size_bytes, uint32_t tensor)
{
    dao_replay_overlaps_t *overlaps = replay->overlaps;
    const dao_live_range_t range = {(uintptr_t)address, (uintptr_t)address + size_bytes, tensor};
    const dao_live_range_t *other;
    dao_status_t status = dao_live_ranges_add(&replay->live, &range, &other);
    if (status != DAO_OK) {
        return status;
    }
    if (other != NULL && overlaps->overlap_count == 0) {
        overlaps->pair[0] = range;
        overlaps->pair[1] = *other;
        overlaps->step = replay->step;
    }
    overlaps->overlap_count += other != NULL ? 1 : 0;
    overlaps->block_count++;
    return DAO_OK;
}

static dao_status_t do_free(replay_t *replay, uint32_t tensor)
{
    void *address = replay->addresses[tensor]; /* NULL: it was alive before the file, or had no bytes */
    if (address != NULL) {
        dao_live_ranges_remove(&replay->live, (uintptr_t)address, tensor);
    }
    replay->addresses[tensor] = NULL;
    return dao_free(replay->config->place, address);
}

static dao_status_t do_alloc(replay_t *replay, uint32_t tensor)
{
    uint64_t size_bytes = replay->file->tensors[tensor].size_bytes;
    void *address = dao_alloc(replay->config->place, (size_t)size_bytes);
    if (address == NULL) {
        return size_bytes > 0 ? dao_last_status() : DAO_OK;
    }
    replay->addresses[tensor] = address;
    if (replay->config->is_touched) {
        touch(address, size_bytes);
    }
    return look_at(replay, address, size_bytes, tensor);
}

static dao_status_t do_record(replay_t *replay, size_t index)
{
    dao_event_record_t record = replay->file->records[index];
    if (!record.is_alloc) {
        return do_free(replay, record.tensor);
    }
    (void)dao_step_plan_key_set(replay->config->has_keys ? dao_event_file_operator(replay->file, index) -
                                                               replay->first_operator + 1
                                                         : 0);
    return do_alloc(replay, record.tensor);
}

/* ---- steps ---- */

/* Replays the records of the step; 0 are those before the first one. */
static dao_status_t do_records(replay_t *replay)
{
    const dao_event_file_t *file = replay->file;
    size_t begin = replay->step == 0 ? 0 : file->steps[replay->step - 1];
    size_t end = replay->step < file->step_count ? file->steps[replay->step] : file->record_count;
    dao_status_t status = DAO_OK;
    replay->first_operator = begin < end ? dao_event_file_operator(file, begin) : 0;
    for (size_t i = begin; i < end && status == DAO_OK; i++) {
        status = do_record(replay, i);
    }
    return status;
}

/* Returns the most that the place has taken so far. */
static dao_status_t peak_get(const replay_t *replay, uint64_t *out_bytes)
{
    dao_stats_t stats;
    dao_status_t status = dao_stats_get(replay->config->place, &stats);
    if (status == DAO_OK) {
        *out_bytes = stats.peak_reserved_bytes;
    }
    return status;
}

static dao_status_t show_step(const replay_t *replay)
{
    dao_replay_row_t row = {.step = replay->step, .total_ratio = 1, .reserved_ratio = 1};
    dao_step_plan_stats_t stats;
    dao_status_t status = dao_step_plan_stats_get(replay->config->place, &stats);
    status = status == DAO_OK ? peak_get(replay, &row.reserved_bytes) : status;
    if (status != DAO_OK) {
        return status;
    }
    row.counts = stats.latest;
    if (row.counts.request_count > 0) {
        row.served =
            (double)(row.counts.hit_count + row.counts.borrowed_count) / (double)row.counts.request_count;
    }
    if (stats.bound_bytes > 0) {
        row.total_ratio = (double)stats.total_bytes / (double)stats.bound_bytes;
    }
    row.alone_bytes = replay->alone_bytes != NULL ? replay->alone_bytes[replay->step] : 0;
    if (row.alone_bytes > 0) {
        row.reserved_ratio = (double)row.reserved_bytes / (double)row.alone_bytes;
    }
    replay->visit(&row, replay->user);
    return DAO_OK;
}

static bool is_in(dao_replay_span_t span, uint64_t step)
{
    return step >= span.first && step <= span.last;
}

static dao_status_t do_step(replay_t *replay)
{
    const dao_replay_config_t *config = replay->config;
    bool is_served = !replay->is_alone && is_in(config->served, replay->step);
    bool is_step = is_served || (!replay->is_alone && is_in(config->recorded, replay->step));
    dao_status_t status = is_step ? dao_step_begin(config->place) : DAO_OK;
    status = status == DAO_OK ? do_records(replay) : status;
    if (status == DAO_OK && is_step) {
        status = dao_step_end(config->place);
    }
    if (status == DAO_OK && replay->is_alone) {
        status = peak_get(replay, &replay->alone_bytes[replay->step]);
    }
    return status == DAO_OK && is_served ? show_step(replay) : status;
}

static dao_status_t do_steps(replay_t *replay)
{
    const dao_event_file_t *file = replay->file;
    uint64_t last =
        replay->config->served.last < file->step_count ? replay->config->served.last : file->step_count;
    replay->step = 0;
    dao_progress_phase(replay->is_alone ? "replaying without plans" : "replaying", DAO_PROGRESS_UNIT_PARTS,
                       last);
    dao_status_t status = do_records(replay);
    for (replay->step = 1; status == DAO_OK && replay->step <= last; replay->step++) {
        status = do_step(replay);
        dao_progress_add(1);
    }
    for (size_t i = 0; i < file->tensor_count && status == DAO_OK; i++) {
        status = do_free(replay, (uint32_t)i);
    }
    return status;
}

/* ---- runs ---- */

static dao_status_t configure(const replay_t *replay)
{
    const dao_replay_config_t *config = replay->config;
    dao_place_config_t place_config = config->place_config;
    place_config.step_plan.max_count = (uint32_t)(config->recorded.last - config->recorded.first);
    if (replay->is_alone) {
        place_config.step_plan = (dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFF};
    }
    return dao_place_configure(config->place, &place_config);
}

/* Runs all steps once, with plans or without. */
static dao_status_t run_once(replay_t *replay)
{
    dao_status_t status = dao_init(NULL);
    if (status != DAO_OK) {
        return status;
    }
    status = configure(replay);
    status = status == DAO_OK ? do_steps(replay) : status;
    dao_live_ranges_finish(&replay->live);
    if (status == DAO_OK) {
        return dao_finalize();
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    (void)dao_finalize(); /* it complains of blocks that are left, which is no wonder */
    return dao_error_restore(&record);
}

static dao_status_t make_room(replay_t *replay)
{
    replay->addresses = dao_host_calloc(replay->file->tensor_count + 1, sizeof(*replay->addresses));
    if (replay->config->is_compared) {
        replay->alone_bytes = dao_host_calloc(replay->file->step_count + 1, sizeof(*replay->alone_bytes));
    }
    bool has_room =
        replay->addresses != NULL && (!replay->config->is_compared || replay->alone_bytes != NULL);
    return has_room
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu addresses", replay->file->tensor_count);
}

dao_status_t dao_replay_run(const dao_event_file_t *file, const dao_replay_config_t *config,
                            dao_replay_visit_t visit, void *user, dao_replay_overlaps_t *out_overlaps)
{
    if (file->step_count < config->served.first) {
        return dao_error(DAO_ERR_INVALID, "the file has %zu steps; none is left to be served",
                         file->step_count);
    }
    *out_overlaps = (dao_replay_overlaps_t){0};
    replay_t replay = {
        .file = file, .config = config, .visit = visit, .user = user, .overlaps = out_overlaps};
    dao_status_t status = make_room(&replay);
    if (status == DAO_OK && config->is_compared) {
        replay.is_alone = true;
        status = run_once(&replay);
        replay.is_alone = false;
    }
    status = status == DAO_OK ? run_once(&replay) : status;
    dao_host_free(replay.addresses);
    dao_host_free(replay.alone_bytes);
    return status;
}

dao_status_t dao_replay_overlaps_check(const dao_replay_overlaps_t *overlaps)
{
    const dao_live_range_t *pair = overlaps->pair;
    if (overlaps->overlap_count == 0) {
        return DAO_OK;
    }
    return dao_error(DAO_ERR_CORRUPT,
                     "%" PRIu64 " of %" PRIu64
                     " blocks share bytes with another one that lives; in step %" PRIu64 " tensor %" PRIu32
                     " has 0x%" PRIx64 " to 0x%" PRIx64 ", tensor %" PRIu32 " has 0x%" PRIx64
                     " to 0x%" PRIx64,
                     overlaps->overlap_count, overlaps->block_count, overlaps->step, pair[0].owner,
                     pair[0].begin, pair[0].end, pair[1].owner, pair[1].begin, pair[1].end);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads statistics as any caller could, and writes them as a round. It starts nothing, frees nothing and
   takes no lock for longer than a call of dao_stats_get() would.

   The page is an anonymous file that only this process can write. It goes with its last descriptor: however
   the process ends, nothing is left behind. */
#include "runtime/scoreboard/scoreboard_thread.h"

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/tag_names.h"
#include "allocators/stream_fence.h"
#include "base/internal_error.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/setting.h"
#include "runtime/observe/snapshot_file.h"
#include "runtime/scoreboard/place_stats.h"
#include "runtime/scoreboard/score_source.h"

#include <stdio.h>

static struct {
    dao_scoreboard_t *page; /* NULL: nothing is shown */
    int descriptor;
    dao_scores_t *scores; /* the thread's own */
    bool is_running;
    dao_thread_t thread;
    dao_mutex_t lock;
    /* guarded by the lock */
    dao_cond_t changed;
    bool is_stopping;
} board = {.descriptor = DAO_NO_DESCRIPTOR,
           .lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF),
           .changed = DAO_COND_INITIALIZER};

dao_status_t dao_scoreboard_find(bool *out_is_watched)
{
    const char *text = dao_setting("DAO_WATCH");
    uint64_t value = 0;
    if (text != NULL && dao_units_parse_switch(text, &value) != DAO_OK) {
        dao_error_prefix("DAO_WATCH: ");
        return DAO_ERR_INVALID;
    }
    *out_is_watched = value != 0;
    return dao_snapshot_file_find();
}

/* ---- places that were used ---- */

/* `runtime` is NULL for the host. */
typedef void (*place_visit_t)(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime);

static void each_place(const dao_core_t *core, place_visit_t visit)
{
    dao_allocator_t *host = dao_host_started();
    if (host != NULL) {
        visit((dao_place_t){DAO_PLACE_KIND_CPU, 0}, host, NULL);
    }
    for (int32_t i = 0; core != NULL && i < dao_core_device_end(core); i++) {
        dao_runtime_t *runtime = dao_runtime_started(i);
        if (runtime != NULL) {
            visit((dao_place_t){DAO_PLACE_KIND_DEVICE, i}, runtime->device_memory, runtime);
            visit((dao_place_t){DAO_PLACE_KIND_PINNED, i}, runtime->pinned_memory, runtime);
        }
    }
}

/* ---- a round ---- */

static void tags_write(dao_scores_t *scores, dao_place_t place, const dao_tags_t *tags)
{
    const char *name;
    for (dao_tag_t tag = 1; (name = dao_tag_names_get(tag)) != NULL; tag++) {
        dao_tag_stats_t stats;
        dao_tags_stats_get(tags, tag, &stats);
        if (stats.alloc_count == 0 && stats.limit_bytes == 0 && stats.refused_count == 0) {
            continue;
        }
        dao_score_row_t *row = dao_scores_add(scores, DAO_SCORE_KIND_TAG, place);
        if (row != NULL) {
            (void)snprintf(row->name, sizeof(row->name), "%s", name);
            row->number = tag;
            row->of.tag = stats;
        }
    }
}

static void place_write(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime)
{
    dao_scores_t *scores = board.scores;
    dao_score_row_t *row = dao_scores_add(scores, DAO_SCORE_KIND_PLACE, place);
    if (row != NULL) {
        dao_place_stats_read(place, allocator, runtime, &row->of.place.stats);
        if (runtime != NULL && place.kind == DAO_PLACE_KIND_DEVICE) {
            row->of.place.device_bytes = runtime->info.total_bytes;
            dao_stream_fences_count(runtime->fences, &row->of.place.stream_count,
                                    &row->of.place.pending_stream_count);
        }
    }
    tags_write(scores, place, allocator->ledger->tags);
}

static void process_write(dao_scores_t *scores, const dao_core_t *core)
{
    dao_score_row_t *row =
        dao_scores_add(scores, DAO_SCORE_KIND_PROCESS, (dao_place_t){DAO_PLACE_KIND_CPU, 0});
    row->of.process.process_internal_error_count = dao_internal_error_count();
    if (core != NULL) {
        row->of.process.host_reserved_bytes = atomic_load(&core->host_budget.used_bytes);
        row->of.process.host_peak_reserved_bytes = atomic_load(&core->host_budget.peak_bytes);
        row->of.process.host_limit_bytes = atomic_load(&core->host_budget.limit_bytes);
    }
}

static void round_write(void)
{
    dao_core_t *core = dao_core_started();
    dao_scores_t *scores = board.scores;
    scores->time_ns = dao_clock_ns();
    scores->row_count = 0;
    scores->left_out_count = 0;
    process_write(scores, core);
    if (core != NULL) {
        each_place(core, place_write);
    }
    dao_score_sources_write(scores);
    dao_scoreboard_write(board.page, scores);
}

/* ---- snapshots on a signal ---- */

/* A place that has never given a block has nothing to show. */
static void snapshot_write(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime)
{
    dao_stats_t stats;
    dao_place_stats_read(place, allocator, runtime, &stats);
    if (stats.alloc_count > 0) {
        dao_snapshot_signal_write(place, allocator);
    }
}

/* ---- the thread ---- */

static bool rest(void)
{
    uint64_t until_ns = dao_clock_ns() + DAO_SCOREBOARD_PERIOD_NS;
    dao_mutex_lock(&board.lock);
    while (!board.is_stopping && dao_cond_wait_until(&board.changed, &board.lock, until_ns)) {
    }
    bool goes_on = !board.is_stopping;
    dao_mutex_unlock(&board.lock);
    return goes_on;
}

static void *run_scoreboard(void *user)
{
    (void)user;
    do {
        if (board.page != NULL) {
            round_write();
        }
        if (dao_snapshot_signal_take()) {
            each_place(dao_core_started(), snapshot_write);
        }
    } while (rest());
    return NULL;
}

static void page_end(void)
{
    dao_descriptor_close(board.descriptor);
    if (board.page != NULL) {
        dao_host_unmap(board.page, dao_host_whole_pages(sizeof(*board.page)));
    }
    dao_host_free(board.scores);
    board.descriptor = DAO_NO_DESCRIPTOR;
    board.page = NULL;
    board.scores = NULL;
}

static void page_begin(const char *backend)
{
    void *address = NULL;
    board.scores = dao_host_calloc(1, sizeof(*board.scores));
    board.descriptor = dao_shared_show(DAO_SCOREBOARD_NAME, sizeof(*board.page), &address);
    board.page = address;
    if (board.scores == NULL || board.page == NULL) {
        page_end();
        dao_log(DAO_LOG_LEVEL_WARNING, "DAO_WATCH: the system refuses shared memory; nobody can watch");
        return;
    }
    dao_scoreboard_init(board.page, dao_process_self(), dao_clock_ns(), backend);
}

void dao_scoreboard_start(const char *backend, bool is_watched)
{
    board.is_stopping = false;
    if (is_watched) {
        page_begin(backend);
    }
    dao_snapshot_signal_begin();
    if (board.page == NULL && !dao_snapshot_signal_is_on()) {
        return;
    }
    board.is_running = dao_thread_start(&board.thread, "dao-watch", run_scoreboard, NULL) == DAO_OK;
    if (!board.is_running) {
        dao_log(DAO_LOG_LEVEL_WARNING, "nobody can watch, and a signal writes no snapshots: %s",
                dao_last_message());
        dao_snapshot_signal_end();
        page_end();
    }
}

void dao_scoreboard_stop(void)
{
    if (!board.is_running) {
        return;
    }
    dao_mutex_lock(&board.lock);
    board.is_stopping = true;
    dao_cond_broadcast(&board.changed);
    dao_mutex_unlock(&board.lock);
    dao_thread_join(&board.thread);
    board.is_running = false;
    dao_snapshot_signal_end();
    page_end();
}

void dao_scoreboard_forked(void)
{
    if (board.page != NULL) { /* not the thread's memory: it may have been in the middle of a round */
        dao_descriptor_close(board.descriptor);
        dao_host_unmap(board.page, dao_host_whole_pages(sizeof(*board.page)));
        board.descriptor = DAO_NO_DESCRIPTOR;
        board.page = NULL;
    }
}

int dao_scoreboard_descriptor(void)
{
    return board.descriptor;
}

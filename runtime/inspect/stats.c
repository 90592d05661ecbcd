/* SPDX-License-Identifier: Apache-2.0 */
/* A place's figures: its allocator's, and what the runtime adds to them. */
#include <dao/stats.h>

#include "base/internal_error.h"
#include "base/report/error.h"
#include "runtime/device/deferred_free.h"
#include "runtime/place/lookup.h"
#include "runtime/scoreboard/peak_marks.h"
#include "runtime/scoreboard/place_stats.h"

#include <inttypes.h>

dao_status_t dao_stats_get(dao_place_t place, dao_stats_t *out_stats)
{
    if (out_stats == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_stats_get: out_stats is NULL");
    }
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_stats_t stats = {0};
    if (allocator != NULL) {
        dao_place_drain(place, runtime);
        dao_place_stats_read(place, allocator, runtime, &stats);
    }
    dao_internal_errors_log();
    stats.internal_error_count = dao_internal_error_count();
    *out_stats = stats;
    return DAO_OK;
}

dao_status_t dao_stats_reset_peaks(dao_place_t place)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, &allocator, &runtime);
    if (status == DAO_OK && allocator != NULL) {
        dao_place_drain(place, runtime);
        dao_peak_marks_reset(place, allocator);
    }
    return status;
}

/* ---- marks ---- */

dao_status_t dao_peak_mark_add(dao_place_t place, uint64_t *out_mark)
{
    if (out_mark == NULL) {
        return dao_error_null(__func__, "out_mark");
    }
    dao_allocator_t *allocator;
    dao_status_t status = dao_place_peek_drained(place, &allocator);
    return status == DAO_OK ? dao_peak_marks_add(place, allocator, out_mark) : status;
}

static dao_status_t no_mark(const char *function, uint64_t mark)
{
    return dao_error(DAO_ERR_INVALID, "%s: there is no mark %" PRIu64 ": dao_finalize() removes all",
                     function, mark);
}

/* Reads a mark, and sets it anew if `moves`. */
static dao_status_t read_mark(const char *function, uint64_t mark, bool moves, dao_peaks_t *out_peaks)
{
    dao_place_t place = {DAO_PLACE_KIND_CPU, 0};
    bool is_there = dao_peak_marks_find(mark, &place);
    dao_allocator_t *allocator;
    dao_peaks_t peaks = {0};
    dao_status_t status = dao_place_peek_drained(place, &allocator);
    if (status != DAO_OK) {
        return status;
    }
    if (!is_there || !dao_peak_marks_read(mark, place, allocator, moves, &peaks)) {
        return no_mark(function, mark);
    }
    if (out_peaks != NULL) {
        *out_peaks = peaks;
    }
    return DAO_OK;
}

dao_status_t dao_peak_mark_get(uint64_t mark, dao_peaks_t *out_peaks)
{
    return out_peaks == NULL ? dao_error_null(__func__, "out_peaks")
                             : read_mark(__func__, mark, false, out_peaks);
}

dao_status_t dao_peak_mark_move(uint64_t mark, dao_peaks_t *out_peaks)
{
    return read_mark(__func__, mark, true, out_peaks);
}

dao_status_t dao_peak_mark_remove(uint64_t mark)
{
    dao_core_t *core;
    dao_status_t status = dao_thread_check();
    status = status == DAO_OK ? dao_context_enter(&core) : status;
    if (status == DAO_OK && !dao_peak_marks_remove(mark)) {
        return no_mark(__func__, mark);
    }
    return status;
}

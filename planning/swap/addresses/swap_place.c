/* SPDX-License-Identifier: Apache-2.0 */
/* Quick methods one after the other, and then, for what nearly fits, cuts. A step repeats, so its time is a
   ring: it may be cut open anywhere.

       cut here
          |------|   .      |------|     What lives at the cut comes first, then all others in the order of
          |  a   |   +---+  |  a   |     their begins; each gets the smallest hole in which it fits.
          |----+-+   | b |  +------|
          | c  | +---+---+----+    |     Few lifetimes at the cut, and large ones, leave few holes: several
          +----+ |     d      |    |     cuts are tried.
                 +------------+----+

   What found no place comes first in the next pass. A cut that was good is good again: lifetimes change
   little from one layout of a search to the next. */
#include "planning/swap/addresses/swap_place.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/offsets/quick.h"
#include "planning/swap/step/swap_fingerprint.h"

#include <string.h>

/* Tried until everything fits. */
static const dao_plan_quick_method_t methods[] = {
    {.order = DAO_PLAN_ORDER_START, .is_skyline = true},
    {.order = DAO_PLAN_ORDER_SIZE},
    {.order = DAO_PLAN_ORDER_BREADTH, .is_best_fit = true},
    {.order = DAO_PLAN_ORDER_START, .is_best_fit = true},
    {.order = DAO_PLAN_ORDER_AREA, .is_skyline = true},
};

#define METHOD_COUNT (sizeof(methods) / sizeof(methods[0]))
static_assert(METHOD_COUNT == DAO_SWAP_METHOD_COUNT, "each has a turn");

/* Where the first methods leave more than such a part of the capacity without addresses, the others do not
   find them either. */
#define FIRST_METHOD_COUNT 2u
#define HOPELESS_PART      0.3

/* At every cut. */
static const dao_plan_quick_method_t by_start = {.order = DAO_PLAN_ORDER_START, .is_best_fit = true};

/* What leaves out few, or at most such a part of the capacity, nearly fits. */
#define FEW_COUNT    8u
#define NEARLY_PART  0.04
#define REPEAT_COUNT 16u

/* Work between two questions whether the plan is still wanted: a fraction of a millisecond. */
#define ASK_WORK 2000u

/* ---- cancellation ---- */

/* Asks for a work that is looked at. */
typedef struct asker {
    dao_swap_cancel_t *cancel;
    uint64_t asked_at; /* work */
    _Atomic bool is_cancelled;
} asker_t;

static void ask(void *user, uint64_t used)
{
    asker_t *asker = user;
    if (used - asker->asked_at >= ASK_WORK) {
        asker->asked_at = used;
        asker->is_cancelled = asker->is_cancelled || dao_swap_is_cancelled(asker->cancel);
    }
}

/* ---- what was looked for before ---- */

static uint64_t fingerprint_of(const dao_plan_problem_t *problem)
{
    uint64_t fingerprint = dao_swap_fingerprint_mix(
        dao_swap_fingerprint_mix(DAO_SWAP_FINGERPRINT_NONE, problem->period), problem->pools->capacity_bytes);
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &problem->buffers[i];
        fingerprint = dao_swap_fingerprint_mix(
            dao_swap_fingerprint_mix(dao_swap_fingerprint_mix(fingerprint, buffer->begin_time),
                                     buffer->end_time),
            buffer->size_bytes);
    }
    for (size_t i = 0; i < problem->gap_count; i++) {
        const dao_plan_gap_t *gap = &problem->gaps[i];
        fingerprint = dao_swap_fingerprint_mix(
            dao_swap_fingerprint_mix(dao_swap_fingerprint_mix(fingerprint, gap->buffer), gap->begin_time),
            gap->end_time);
        fingerprint =
            dao_swap_fingerprint_mix(dao_swap_fingerprint_mix(fingerprint, gap->low_byte), gap->high_byte);
    }
    return fingerprint;
}

static bool is_known(const dao_swap_past_t *past, uint64_t fingerprint)
{
    uint32_t count = past->count < DAO_SWAP_PAST_MAX ? past->count : DAO_SWAP_PAST_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (past->fingerprints[i] == fingerprint) {
            return true;
        }
    }
    return false;
}

void dao_swap_past_init(dao_swap_past_t *past)
{
    *past = (dao_swap_past_t){.work_end = UINT64_MAX, .thorough_end = UINT64_MAX};
    for (uint8_t i = 0; i < DAO_SWAP_METHOD_COUNT; i++) {
        past->method_order[i] = i;
    }
    for (uint8_t i = 0; i < DAO_SWAP_CUT_COUNT; i++) {
        past->cuts[i] = i;
    }
}

/* Moves what is at a turn to the front. */
static void prefer(uint8_t *list, size_t turn)
{
    DAO_ASSERT(turn < DAO_SWAP_CUT_COUNT);
    uint8_t chosen = list[turn];
    memmove(list + 1, list, turn * sizeof(chosen));
    list[0] = chosen;
}

/* ---- cuts ---- */

typedef struct placer {
    const dao_plan_problem_t *problem;
    dao_plan_buffer_t *buffers;
    uint64_t cut_time; /* at which times begin now, of those that the problem came with */
    dao_swap_past_t *past;
    dao_plan_work_t work;
    dao_plan_quick_t best;
} placer_t;

/* Lets times begin at `cut_time`. */
static void cut(placer_t *placer, uint64_t cut_time)
{
    uint64_t period = placer->problem->period, shift = cut_time + period - placer->cut_time;
    for (size_t i = 0; i < placer->problem->buffer_count; i++) {
        dao_plan_buffer_t *buffer = &placer->buffers[i];
        uint64_t before = buffer->begin_time;
        buffer->begin_time = (before + period - shift % period) % period;
        buffer->end_time += buffer->begin_time - before;
    }
    placer->cut_time = cut_time;
}

static uint64_t work_of(const placer_t *placer)
{
    return placer->past->work + placer->work.used;
}

/* Tries the methods, without a cut. The best one comes first the next time: the others end early where they
   leave out more. */
static dao_status_t try_methods(placer_t *placer)
{
    const dao_plan_problem_t *problem = placer->problem;
    double hopeless_bytes = HOPELESS_PART * (double)problem->pools->capacity_bytes;
    dao_plan_quick_t *best = &placer->best;
    size_t best_turn = 0;
    dao_status_t status = dao_plan_quick_init(best, problem, &placer->work);
    for (size_t turn = 0; turn < METHOD_COUNT && status == DAO_OK; turn++) {
        bool is_hopeless = turn == FIRST_METHOD_COUNT && (double)best->best.unplaced_bytes > hopeless_bytes;
        if (is_hopeless || (turn > 0 && work_of(placer) >= placer->past->work_end)) {
            break;
        }
        uint64_t before_bytes = best->has_best ? best->best.unplaced_bytes : UINT64_MAX;
        status =
            dao_plan_quick_try(best, &methods[placer->past->method_order[turn]], UINT64_MAX, &placer->work);
        best_turn = best->best.unplaced_bytes < before_bytes ? turn : best_turn;
        if (status == DAO_OK && dao_plan_quick_is_complete(best)) {
            break;
        }
    }
    prefer(placer->past->method_order, best_turn);
    return status;
}

/* Tries a cut. */
static dao_status_t try_cut(placer_t *placer, uint32_t turn, uint32_t *best_turn)
{
    dao_plan_quick_t quick;
    cut(placer, placer->problem->period / DAO_SWAP_CUT_COUNT * placer->past->cuts[turn]);
    dao_status_t status = dao_plan_quick_init(&quick, placer->problem, &placer->work);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_plan_quick_try(&quick, &by_start, placer->best.best.unplaced_bytes, &placer->work);
    if (status == DAO_OK && dao_plan_score_is_better(&quick.best, &placer->best.best)) {
        dao_plan_quick_t worse = placer->best;
        placer->best = quick;
        *best_turn = turn;
        quick = worse;
    }
    dao_plan_quick_finish(&quick);
    return status;
}

static bool nearly_fits(const placer_t *placer)
{
    const dao_plan_score_t *score = &placer->best.best;
    return score->unplaced_count <= FEW_COUNT ||
           (double)score->unplaced_bytes <= NEARLY_PART * (double)placer->problem->pools->capacity_bytes;
}

/* Passes of some work each that are made before nothing thorough is done any more. */
static uint32_t passes_left(const placer_t *placer, uint64_t pass_work)
{
    uint64_t work = work_of(placer), end = placer->past->thorough_end;
    return (uint32_t)dao_smaller(work < end ? (end - work) / (pass_work + 1) : 0, REPEAT_COUNT);
}

/* Tries cuts for what nearly fits, and then again what was best. */
static dao_status_t try_cuts(placer_t *placer)
{
    dao_status_t status = DAO_OK;
    uint32_t best_turn = 0;
    uint64_t pass_work = 0;
    for (uint32_t turn = 0; turn < DAO_SWAP_CUT_COUNT && status == DAO_OK &&
                            passes_left(placer, pass_work) > 0 && !dao_plan_quick_is_complete(&placer->best);
         turn++) {
        uint64_t work_before = placer->work.used;
        status = try_cut(placer, turn, &best_turn);
        pass_work = placer->work.used - work_before;
    }
    prefer(placer->past->cuts, best_turn);
    return status == DAO_OK
               ? dao_plan_quick_repeat(&placer->best, passes_left(placer, pass_work), &placer->work)
               : status;
}

dao_status_t dao_swap_place(const dao_swap_step_t *step, const dao_plan_problem_t *problem,
                            dao_plan_buffer_t *buffers, bool is_thorough, dao_swap_past_t *past,
                            uint64_t *offsets, dao_swap_placement_t *out_placement)
{
    uint64_t fingerprint = fingerprint_of(problem);
    *out_placement = (dao_swap_placement_t){.is_repeated = is_known(past, fingerprint)};
    if (out_placement->is_repeated) {
        return DAO_OK;
    }
    asker_t asker = {.cancel = step->cancel};
    const dao_plan_observer_t observer = {.look = ask, .user = &asker};
    placer_t placer = {
        .problem = problem,
        .buffers = buffers,
        .past = past,
        .work = {.limit = UINT64_MAX, .is_cancelled = &asker.is_cancelled, .observer = &observer},
    };
    dao_status_t status = try_methods(&placer);
    if (status == DAO_OK && is_thorough && problem->gap_count == 0 && nearly_fits(&placer)) {
        status = try_cuts(&placer);
    }
    if (status == DAO_OK) {
        const dao_plan_score_t *score = &placer.best.best;
        memcpy(offsets, placer.best.offsets, problem->buffer_count * sizeof(*offsets));
        out_placement->unplaced_count = (uint32_t)score->unplaced_count;
        out_placement->unplaced_bytes = score->unplaced_bytes;
        out_placement->peak_bytes = score->peak_bytes;
        if (score->unplaced_count > 0) {
            past->fingerprints[past->count++ % DAO_SWAP_PAST_MAX] = fingerprint;
        }
        DAO_ASSERT(out_placement->peak_bytes <= problem->pools->capacity_bytes);
        past->work += placer.work.used;
    }
    dao_plan_quick_finish(&placer.best);
    return status == DAO_ERR_STOPPED ? dao_swap_step_give_up(step) : status;
}

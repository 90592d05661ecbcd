/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/published/capuchin.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "planning/swap/step/swap_tier.h"
#include "planning/swap/times/swap_calendar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times are those of several steps in a row: periods begin in the second one. What is booked is booked in the
   first four; nobody looks behind them. */
enum { STEPS_BOOKED = 4, STEPS_AHEAD = 5 };

typedef struct chooser {
    const dao_recompute_contents_t *contents;
    const dao_recompute_play_t *play;
    const dao_swap_step_t *step;
    dao_capuchin_way_t *ways;
    uint64_t *used_bytes;     /* of each kernel, without what has left */
    uint32_t *lacking_before; /* kernel_count + 1: kernels before that have more than the capacity */
    uint32_t *needed_by;      /* of each access: chosen ones for which what it leaves has to be there */
    uint32_t *made_at;        /* of each kernel: the last look that counted it */
    uint32_t *kept_at;        /* of each access: the last look that counted what it leaves */
    uint32_t look;
    uint32_t *stack; /* of contents to be made */
    uint32_t stack_count;
    dao_swap_calendar_t out;
    dao_swap_calendar_t in; /* its times go back from `horizon_ns`, so that the latest ones are found first */
    uint64_t step_ns, horizon_ns;
} chooser_t;

/* Copies of a period, in times of the calendar of out. */
typedef struct copies {
    uint64_t out_begin_ns, out_end_ns;
    uint64_t in_begin_ns, in_end_ns;
} copies_t;

typedef struct candidate {
    uint32_t access; /* its period is behind it */
    uint64_t free_ns;
} candidate_t;

/* ---- moments ---- */

/* Returns when a kernel begins; kernels behind the last one are those of the next step. */
static uint64_t begin_ns(const chooser_t *chooser, uint32_t kernel)
{
    uint32_t count = chooser->step->kernel_count;
    return (1 + kernel / count) * chooser->step_ns + chooser->step->time_before[kernel % count];
}

static bool lacks(const chooser_t *chooser, uint32_t kernel)
{
    const dao_swap_step_t *step = chooser->step;
    return chooser->used_bytes[kernel % step->kernel_count] > step->problem->capacity_bytes;
}

static void count_lacking(chooser_t *chooser)
{
    for (uint32_t k = 0; k < chooser->step->kernel_count; k++) {
        chooser->lacking_before[k + 1] = chooser->lacking_before[k] + (lacks(chooser, k) ? 1 : 0);
    }
}

static bool lacks_memory(const chooser_t *chooser)
{
    return chooser->lacking_before[chooser->step->kernel_count] > 0;
}

/* A tensor is not there while kernels `first` to `end` - 1 run. */
static void take_away(chooser_t *chooser, uint32_t tensor, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++) {
        chooser->used_bytes[k % chooser->step->kernel_count] -= chooser->step->size_bytes[tensor];
    }
    count_lacking(chooser);
}

/* ---- copies ---- */

static uint64_t copy_ns(const chooser_t *chooser, uint32_t access, bool is_in)
{
    const dao_swap_step_t *step = chooser->step;
    uint64_t bytes = step->size_bytes[step->accesses[access].tensor];
    return dao_larger(dao_swap_copy_ns(&step->problem->host, is_in, bytes), 1);
}

/* The longest free time first. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate_t *left = a;
    const candidate_t *right = b;
    if (left->free_ns != right->free_ns) {
        return left->free_ns > right->free_ns ? -1 : 1;
    }
    return left->access < right->access ? -1 : left->access > right->access;
}

/* Lists the periods that hide their copies while nothing else is copied. */
static uint32_t list_candidates(const chooser_t *chooser, candidate_t *candidates)
{
    const dao_swap_step_t *step = chooser->step;
    uint32_t count = 0;
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (!one->inactive_is_live || step->problem->tensors[one->tensor].is_from_file) {
            continue;
        }
        uint64_t taken_ns = copy_ns(chooser, i, false) + copy_ns(chooser, i, true);
        uint64_t period_ns =
            begin_ns(chooser, one->kernel + one->inactive_length) - begin_ns(chooser, one->kernel + 1);
        if (period_ns >= taken_ns) {
            candidates[count++] = (candidate_t){i, period_ns - taken_ns};
        }
    }
    qsort(candidates, count, sizeof(*candidates), compare_candidates);
    return count;
}

/* Finds copies beside those that are booked. False: they are not hidden. */
static bool find_copies(const chooser_t *chooser, uint32_t access, copies_t *copies)
{
    const dao_swap_access_t *one = &chooser->step->accesses[access];
    uint64_t out_ns = copy_ns(chooser, access, false), in_ns = copy_ns(chooser, access, true);
    uint64_t begin = begin_ns(chooser, one->kernel + 1);
    uint64_t back = chooser->horizon_ns - begin_ns(chooser, one->kernel + one->inactive_length);
    copies->out_begin_ns = dao_swap_calendar_find(&chooser->out, begin, out_ns);
    copies->out_end_ns = copies->out_begin_ns + out_ns;
    back = dao_swap_calendar_find(&chooser->in, back, in_ns);
    if (back + in_ns > chooser->horizon_ns) {
        return false;
    }
    copies->in_begin_ns = chooser->horizon_ns - back - in_ns;
    copies->in_end_ns = chooser->horizon_ns - back;
    return copies->in_begin_ns >= copies->out_end_ns;
}

/* Books a time in each step. */
static bool book(chooser_t *chooser, bool is_out, uint64_t begin, uint64_t end)
{
    bool is_booked = true;
    for (uint32_t i = 0; i < STEPS_BOOKED && is_booked; i++) {
        uint64_t at = begin % chooser->step_ns + i * chooser->step_ns, length = end - begin;
        is_booked = is_out ? dao_swap_calendar_book(&chooser->out, at, length)
                           : dao_swap_calendar_book(&chooser->in, chooser->horizon_ns - at - length, length);
    }
    return is_booked;
}

/* In half duplex both directions are one: either calendar has all copies. */
static bool book_copies(chooser_t *chooser, const copies_t *copies)
{
    bool is_booked = book(chooser, true, copies->out_begin_ns, copies->out_end_ns) &&
                     book(chooser, false, copies->in_begin_ns, copies->in_end_ns);
    if (is_booked && chooser->step->problem->host.duplex == DAO_SWAP_DUPLEX_HALF) {
        is_booked = book(chooser, false, copies->out_begin_ns, copies->out_end_ns) &&
                    book(chooser, true, copies->in_begin_ns, copies->in_end_ns);
    }
    return is_booked;
}

/* Has a period's tensor copied, if that is hidden and of use. False: no host memory. */
static bool try_copy(chooser_t *chooser, uint32_t access)
{
    const dao_swap_access_t *one = &chooser->step->accesses[access];
    uint32_t first = one->kernel + 1, end = one->kernel + one->inactive_length, lacking = 0;
    copies_t copies;
    if (!find_copies(chooser, access, &copies)) {
        return true;
    }
    while (first < end && begin_ns(chooser, first) < copies.out_end_ns) {
        first++;
    }
    while (end > first && begin_ns(chooser, end) > copies.in_begin_ns) {
        end--;
    }
    for (uint32_t k = first; k < end; k++) {
        lacking += lacks(chooser, k) ? 1 : 0;
    }
    if (lacking == 0) {
        return true;
    }
    take_away(chooser, one->tensor, first, end);
    chooser->ways[access] = DAO_CAPUCHIN_COPIED;
    return book_copies(chooser, &copies);
}

static bool goes_on(const chooser_t *chooser)
{
    return lacks_memory(chooser) && !dao_swap_is_cancelled(chooser->step->cancel);
}

static bool choose_copies(chooser_t *chooser)
{
    candidate_t *candidates = dao_host_calloc((size_t)chooser->step->access_count + 1, sizeof(*candidates));
    bool has_memory = candidates != NULL;
    uint32_t count = has_memory ? list_candidates(chooser, candidates) : 0;
    for (uint32_t i = 0; i < count && has_memory && goes_on(chooser); i++) {
        has_memory = try_copy(chooser, candidates[i].access);
    }
    dao_host_free(candidates);
    return has_memory;
}

/* ---- runs again ---- */

/* Returns the last access before a kernel that leaves a content for it or a later one; DAO_SWAP_NONE: it is
   not kept so long. */
static uint32_t kept_behind(const chooser_t *chooser, uint32_t content, uint32_t until)
{
    const dao_swap_access_t *accesses = chooser->step->accesses;
    uint32_t at = content;
    while (accesses[at].inactive_is_live && accesses[at].next > at &&
           accesses[accesses[at].next].kernel < until) {
        at = accesses[at].next;
        if (accesses[at].writes) {
            return DAO_SWAP_NONE; /* changed in place */
        }
    }
    return accesses[at].inactive_is_live ? at : DAO_SWAP_NONE;
}

static void push(chooser_t *chooser, uint32_t content)
{
    uint32_t kernel = chooser->step->accesses[content].kernel;
    if (chooser->made_at[kernel] != chooser->look) {
        chooser->made_at[kernel] = chooser->look;
        chooser->stack[chooser->stack_count++] = content;
    }
}

/* Looks at an input of a run again before kernel `until`: it is there, or has to be made too. */
static void look_at_input(chooser_t *chooser, uint32_t access, uint32_t until, uint32_t added)
{
    const dao_swap_access_t *one = &chooser->step->accesses[access];
    uint32_t content = dao_recompute_found(chooser->contents, access);
    if (content == DAO_SWAP_NONE || dao_recompute_lives_on(chooser->step, one->tensor)) {
        return;
    }
    uint32_t kept = one->writes ? DAO_SWAP_NONE : kept_behind(chooser, content, until);
    if (kept == DAO_SWAP_NONE || chooser->ways[kept] == DAO_CAPUCHIN_AGAIN) {
        push(chooser, content);
    } else if (chooser->kept_at[kept] != chooser->look) {
        chooser->kept_at[kept] = chooser->look;
        chooser->needed_by[kept] += added;
    }
}

/* Returns the time of all kernels that run to make what an access leaves for its next one. `added` is added
   to `needed_by` of what is there for them. */
static uint64_t making_ns(chooser_t *chooser, uint32_t access, uint32_t added)
{
    const dao_swap_step_t *step = chooser->step;
    uint32_t until = step->accesses[step->accesses[access].next].kernel;
    uint64_t sum_ns = 0;
    chooser->look++;
    chooser->stack_count = 0;
    push(chooser, step->accesses[access].writer);
    while (chooser->stack_count > 0) {
        uint32_t kernel = step->accesses[chooser->stack[--chooser->stack_count]].kernel;
        sum_ns += step->problem->kernels[kernel].time_ns;
        for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
            if (step->accesses[i].reads) {
                look_at_input(chooser, i, until, added);
            }
        }
    }
    return sum_ns;
}

/* The same for all that need it. */
static double price_ns(chooser_t *chooser, uint32_t access)
{
    return (double)making_ns(chooser, access, 0) * (1 + (double)chooser->needed_by[access]);
}

/* Returns the bytes that a nanosecond of running again saves. */
static double saving(chooser_t *chooser, uint32_t access)
{
    const dao_swap_step_t *step = chooser->step;
    double ns = price_ns(chooser, access);
    return ns > 0 ? (double)step->size_bytes[step->accesses[access].tensor] / ns : INFINITY;
}

/* Returns true if what an access leaves may be made again, and memory lacks meanwhile. */
static bool may_choose(const chooser_t *chooser, uint32_t access)
{
    const dao_swap_access_t *one = &chooser->step->accesses[access];
    return chooser->ways[access] == DAO_CAPUCHIN_STAYS &&
           dao_recompute_play_may_give_up(chooser->play, access) &&
           chooser->lacking_before[chooser->step->accesses[one->next].kernel] >
               chooser->lacking_before[one->kernel + 1];
}

static void count_needed(chooser_t *chooser)
{
    memset(chooser->needed_by, 0, chooser->step->access_count * sizeof(*chooser->needed_by));
    for (uint32_t i = 0; i < chooser->step->access_count; i++) {
        if (chooser->ways[i] == DAO_CAPUCHIN_AGAIN) {
            (void)making_ns(chooser, i, 1);
        }
    }
}

static void choose_again(chooser_t *chooser)
{
    const dao_swap_step_t *step = chooser->step;
    while (goes_on(chooser)) {
        double best = -1;
        uint32_t chosen = DAO_SWAP_NONE;
        for (uint32_t i = 0; i < step->access_count; i++) {
            double one = may_choose(chooser, i) ? saving(chooser, i) : -1;
            chosen = one > best ? i : chosen;
            best = one > best ? one : best;
        }
        if (chosen == DAO_SWAP_NONE) {
            return;
        }
        const dao_swap_access_t *one = &step->accesses[chosen];
        bool is_copied = (double)copy_ns(chooser, chosen, true) < price_ns(chooser, chosen);
        chooser->ways[chosen] = is_copied ? DAO_CAPUCHIN_COPIED : DAO_CAPUCHIN_AGAIN;
        take_away(chooser, one->tensor, one->kernel + 1, step->accesses[one->next].kernel);
        count_needed(chooser);
    }
}

/* ---- the order ---- */

static bool chooser_init(chooser_t *chooser, const dao_recompute_contents_t *contents,
                         const dao_recompute_play_t *play, dao_capuchin_way_t *ways)
{
    const dao_swap_step_t *step = contents->step;
    size_t kernels = (size_t)step->kernel_count + 1, accesses = (size_t)step->access_count + 1;
    *chooser = (chooser_t){.contents = contents,
                           .play = play,
                           .step = step,
                           .ways = ways,
                           .step_ns = step->time_before[step->kernel_count]};
    chooser->horizon_ns = STEPS_AHEAD * chooser->step_ns;
    dao_swap_calendar_init(&chooser->out, 1);
    dao_swap_calendar_init(&chooser->in, 1);
    bool has_memory = (chooser->used_bytes = dao_host_calloc(kernels, sizeof(uint64_t))) != NULL &&
                      (chooser->lacking_before = dao_host_calloc(kernels, sizeof(uint32_t))) != NULL &&
                      (chooser->needed_by = dao_host_calloc(accesses, sizeof(uint32_t))) != NULL &&
                      (chooser->made_at = dao_host_calloc(kernels, sizeof(uint32_t))) != NULL &&
                      (chooser->kept_at = dao_host_calloc(accesses, sizeof(uint32_t))) != NULL &&
                      (chooser->stack = dao_host_calloc(kernels, sizeof(uint32_t))) != NULL;
    if (has_memory) {
        memcpy(chooser->used_bytes, step->live_bytes, step->kernel_count * sizeof(uint64_t));
        memset(ways, 0, step->access_count * sizeof(*ways));
        count_lacking(chooser);
    }
    return has_memory;
}

static void chooser_finish(chooser_t *chooser)
{
    dao_swap_calendar_finish(&chooser->out);
    dao_swap_calendar_finish(&chooser->in);
    dao_host_free(chooser->used_bytes);
    dao_host_free(chooser->lacking_before);
    dao_host_free(chooser->needed_by);
    dao_host_free(chooser->made_at);
    dao_host_free(chooser->kept_at);
    dao_host_free(chooser->stack);
}

dao_status_t dao_capuchin_choose(const dao_recompute_contents_t *contents, const dao_recompute_play_t *play,
                                 dao_capuchin_way_t *out_ways)
{
    chooser_t chooser;
    bool has_memory = chooser_init(&chooser, contents, play, out_ways) && choose_copies(&chooser);
    if (has_memory) {
        choose_again(&chooser);
    }
    chooser_finish(&chooser);
    return has_memory && !dao_swap_is_cancelled(contents->step->cancel)
               ? DAO_OK
               : dao_swap_step_give_up(contents->step);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A local search over what is away when. Variants choose victims one after the other, by rules that look at
   one moment of the step. Here whole plans are compared by their times, whatever the reason why one is
   quicker: less to copy, room that is there sooner, or links that idle less.

       change   a random part goes or stays in one of its inactive periods, where each byte is as likely;
                if it stays and is one too many for some kernel, others leave there until all fits;
                if it goes, up to two others may stay in its place
       kept     if the step is not longer, and the effort's `may_keep` agrees, such as for what has addresses:
                a row of changes that each change nothing may lead on

   An access covers the kernels up to the next one of its tensor. Which accesses cover a kernel is asked of a
   segment tree over the kernels: each node lists the accesses that cover all its kernels and not all of its
   parent's.

   What leaves takes its room back at the kernel that reads it: whatever is taken earlier only keeps others
   from staying, and the times begin copies as early as there is room anyway. A part that leaves gives its
   room to the copies behind it, so leads are what such changes find by themselves. Those that were decided
   before are kept, as the steps of some plans are made of them.

   What holds: in every kernel at most the capacity is on the device; the step of `decisions` never gets
   longer. */
#include "planning/swap/swap_improve.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/random.h"
#include "base/report/assert.h"
#include "planning/swap/victims/swap_cycle.h"

#include <string.h>

#define FLIP_COUNT_MAX 8u  /* of a change: with more it is rather another plan than a better one */
#define DRAW_COUNT_MAX 32u /* draws for one that stands in for another */
#define STAY_COUNT_MAX 2u  /* that may stay for one that goes */

/* Changes in a row that do not help, in changes a byte's period: then each has been tried, but for one in
   e^PATIENCE. */
#define PATIENCE 4u

/* A part in an inactive period. */
typedef struct part_period {
    uint32_t access;
    uint32_t part; /* of all */
} part_period_t;

typedef struct flip {
    part_period_t period;
    dao_swap_decision_t before;
} flip_t;

typedef struct improver {
    dao_swap_grain_t *grain;
    const dao_swap_parts_t *parts;
    const dao_swap_step_t *step;
    uint64_t capacity_bytes;
    uint64_t random;
    uint64_t *kernel_bytes; /* on the device in each kernel */
    uint64_t *bytes_before; /* access_count + 1: of the inactive periods that may change */
    uint32_t leaf_count;    /* of the tree: at least one a kernel, a power of two */
    uint32_t *first;        /* 2 x leaf_count + 1: of each node, its accesses in `covering` */
    uint32_t *covering;
    flip_t flips[FLIP_COUNT_MAX]; /* of the change at hand */
    uint32_t flip_count;
} improver_t;

/* Returns true if a part may go or stay behind an access, and that changes anything. */
static bool may_change(const dao_swap_access_t *one)
{
    return one->inactive_is_live && one->inactive_length > 1;
}

static dao_swap_decision_t *decision_of(const improver_t *improver, const part_period_t *period)
{
    const dao_swap_parts_t *parts = improver->parts;
    uint32_t first = parts->first[parts->tensor[period->part]];
    return &improver->grain->decisions[parts->first_inactive[period->access] + period->part - first];
}

/* ---- which accesses cover a kernel ---- */

/* Counts an access at the nodes of the kernels `low` to `high` - 1, or lists it there. */
static void cover(improver_t *improver, uint32_t low, uint32_t high, uint32_t access, bool is_listing)
{
    uint32_t left = low + improver->leaf_count, right = high + improver->leaf_count;
    for (; left < right; left /= 2, right /= 2) {
        const uint32_t nodes[2] = {left % 2 != 0 ? left++ : 0, right % 2 != 0 ? --right : 0};
        for (uint32_t i = 0; i < 2; i++) {
            if (nodes[i] == 0) {
                continue;
            }
            if (is_listing) {
                improver->covering[improver->first[nodes[i]]++] = access;
            } else {
                improver->first[nodes[i]]++;
            }
        }
    }
}

static void cover_all(improver_t *improver, bool is_listing)
{
    const dao_swap_step_t *step = improver->step;
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t low = one->kernel + 1, high = one->kernel + one->inactive_length;
        if (may_change(one)) {
            cover(improver, low, high < step->kernel_count ? high : step->kernel_count, i, is_listing);
            cover(improver, 0, high > step->kernel_count ? high - step->kernel_count : 0, i, is_listing);
        }
    }
}

static bool build_tree(improver_t *improver)
{
    uint32_t node_count = 2 * improver->leaf_count, sum = 0;
    if ((improver->first = dao_host_calloc((size_t)node_count + 1, sizeof(*improver->first))) == NULL) {
        return false;
    }
    cover_all(improver, false);
    for (uint32_t node = 0; node <= node_count; node++) {
        uint32_t count = improver->first[node];
        improver->first[node] = sum;
        sum += count;
    }
    if ((improver->covering = dao_host_calloc((size_t)sum + 1, sizeof(*improver->covering))) == NULL) {
        return false;
    }
    cover_all(improver, true);
    memmove(improver->first + 1, improver->first, node_count * sizeof(*improver->first));
    improver->first[0] = 0;
    DAO_ASSERT(improver->first[node_count] == sum);
    return true;
}

/* Draws a part in an inactive period that covers a kernel. False if none does. */
static bool draw_covering(improver_t *improver, uint32_t kernel, part_period_t *out_period)
{
    uint32_t count = 0, node;
    for (node = kernel + improver->leaf_count; node > 0; node /= 2) {
        count += improver->first[node + 1] - improver->first[node];
    }
    if (count == 0) {
        return false;
    }
    uint32_t turn = (uint32_t)dao_random_below(&improver->random, count);
    for (node = kernel + improver->leaf_count; turn >= improver->first[node + 1] - improver->first[node];
         node /= 2) {
        turn -= improver->first[node + 1] - improver->first[node];
    }
    uint32_t access = improver->covering[improver->first[node] + turn];
    uint32_t tensor = improver->step->accesses[access].tensor, first = improver->parts->first[tensor];
    uint32_t part =
        first + (uint32_t)dao_random_below(&improver->random, improver->parts->first[tensor + 1] - first);
    *out_period = (part_period_t){.access = access, .part = part};
    return true;
}

/* Draws a byte of all inactive periods, and with it a part. */
static part_period_t draw(improver_t *improver)
{
    const uint64_t *before = improver->bytes_before;
    uint32_t low = 0, high = improver->step->access_count;
    uint64_t byte = dao_random_below(&improver->random, before[high]);
    while (high - low > 1) { /* before[low] <= byte < before[high] */
        uint32_t middle = low + (high - low) / 2;
        *(before[middle] <= byte ? &low : &high) = middle;
    }
    uint64_t part = improver->parts->part_bytes != 0 ? (byte - before[low]) / improver->parts->part_bytes : 0;
    return (part_period_t){
        .access = low, .part = improver->parts->first[improver->step->accesses[low].tensor] + (uint32_t)part};
}

/* ---- changes ---- */

/* Adds bytes to the kernels in which a part is away by its decision; unsigned wrap-around takes them away. */
static void add_bytes(improver_t *improver, uint32_t access, const dao_swap_decision_t *decision,
                      uint64_t size_bytes)
{
    const dao_swap_access_t *one = &improver->step->accesses[access];
    uint32_t n = improver->step->kernel_count, end = one->kernel + one->inactive_length - decision->lead;
    for (uint32_t k = one->kernel + 1; k < end && k < n; k++) {
        improver->kernel_bytes[k] += size_bytes;
    }
    for (uint32_t k = n; k < end; k++) {
        improver->kernel_bytes[k - n] += size_bytes;
    }
}

/* The first kernel that an access covers with more than `most_bytes` on the device; kernel_count: none. */
static uint32_t find_over(const improver_t *improver, uint32_t access, uint64_t most_bytes)
{
    const dao_swap_access_t *one = &improver->step->accesses[access];
    uint32_t n = improver->step->kernel_count;
    for (uint32_t i = 1; i < one->inactive_length; i++) {
        uint32_t k = one->kernel + i < n ? one->kernel + i : one->kernel + i - n;
        if (improver->kernel_bytes[k] > most_bytes) {
            return k;
        }
    }
    return n;
}

/* Decides anew about a part in an inactive period. */
static void decide(improver_t *improver, const part_period_t *period, dao_swap_decision_t decision)
{
    dao_swap_decision_t *now = decision_of(improver, period);
    uint64_t size = dao_swap_part_size(improver->parts, period->part);
    if (now->is_away) {
        add_bytes(improver, period->access, now, size);
    }
    if (decision.is_away) {
        add_bytes(improver, period->access, &decision, 0 - size);
    }
    *now = decision;
}

static void flip(improver_t *improver, const part_period_t *period)
{
    const dao_swap_decision_t before = *decision_of(improver, period);
    DAO_ASSERT(improver->flip_count < FLIP_COUNT_MAX);
    improver->flips[improver->flip_count++] = (flip_t){*period, before};
    decide(improver, period, (dao_swap_decision_t){.is_away = !before.is_away});
}

static void undo(improver_t *improver)
{
    while (improver->flip_count > 0) {
        const flip_t *last = &improver->flips[--improver->flip_count];
        decide(improver, &last->period, last->before);
    }
}

/* Kernels between the next uses of two parts, the shorter way around the step. */
static uint32_t distance(const improver_t *improver, const part_period_t *a, const part_period_t *b)
{
    const dao_swap_access_t *accesses = improver->step->accesses;
    uint32_t from = accesses[accesses[a->access].next].kernel, to = accesses[accesses[b->access].next].kernel;
    uint32_t apart = from > to ? from - to : to - from;
    return apart < improver->step->kernel_count - apart ? apart : improver->step->kernel_count - apart;
}

/* Draws one that may stand in for a part over a kernel: one that is away, or one that stays. Of up to
   DRAW_COUNT_MAX draws the one that comes back nearest to it is taken: then the link has as much to do as
   before at about the same time. False if none was drawn. */
static bool draw_other(improver_t *improver, const part_period_t *instead, uint32_t kernel, bool is_away,
                       part_period_t *out_other)
{
    uint32_t nearest = UINT32_MAX;
    uint64_t draw_count = 1 + dao_random_below(&improver->random, DRAW_COUNT_MAX);
    for (uint64_t i = 0; i < draw_count; i++) {
        part_period_t other;
        bool is_same = !draw_covering(improver, kernel, &other) ||
                       (other.access == instead->access && other.part == instead->part);
        if (is_same || decision_of(improver, &other)->is_away != is_away) {
            continue;
        }
        uint32_t apart = distance(improver, instead, &other);
        if (apart < nearest) {
            nearest = apart;
            *out_other = other;
        }
    }
    return nearest != UINT32_MAX;
}

/* Lets others leave until all fits where a part stays now. False if that takes too many. */
static bool let_others_leave(improver_t *improver, const part_period_t *stays)
{
    for (;;) {
        uint32_t kernel = find_over(improver, stays->access, improver->capacity_bytes);
        part_period_t other;
        if (kernel == improver->step->kernel_count) {
            return true;
        }
        if (improver->flip_count == FLIP_COUNT_MAX || !draw_other(improver, stays, kernel, false, &other)) {
            return false;
        }
        flip(improver, &other);
    }
}

/* Lets others stay that have room now that a part has left. */
static void let_others_stay(improver_t *improver, const part_period_t *leaves)
{
    const dao_swap_access_t *one = &improver->step->accesses[leaves->access];
    uint32_t n = improver->step->kernel_count;
    for (uint32_t i = 0; i < STAY_COUNT_MAX; i++) {
        uint32_t since = 1 + (uint32_t)dao_random_below(&improver->random, one->inactive_length - 1);
        part_period_t other;
        if (!draw_other(improver, leaves, (one->kernel + since) % n, true, &other)) {
            continue;
        }
        uint64_t size = dao_swap_part_size(improver->parts, other.part);
        if (find_over(improver, other.access, improver->capacity_bytes - size) == n) {
            flip(improver, &other);
        }
    }
}

/* Makes a change. False if it does not fit. */
static bool change(improver_t *improver)
{
    part_period_t period = draw(improver);
    improver->flip_count = 0;
    flip(improver, &period);
    if (!decision_of(improver, &period)->is_away) {
        return let_others_leave(improver, &period);
    }
    if (dao_random_below(&improver->random, 2) == 0) {
        let_others_stay(improver, &period);
    }
    return true;
}

/* ---- the search ---- */

static bool allocate(improver_t *improver)
{
    const dao_swap_step_t *step = improver->step;
    size_t kernels = step->kernel_count, accesses = (size_t)step->access_count + 1;
    improver->leaf_count = 1;
    while (improver->leaf_count < step->kernel_count) {
        improver->leaf_count *= 2;
    }
    return (improver->kernel_bytes = dao_host_calloc(kernels, sizeof(*improver->kernel_bytes))) != NULL &&
           (improver->bytes_before = dao_host_calloc(accesses, sizeof(*improver->bytes_before))) != NULL &&
           build_tree(improver);
}

static void release(improver_t *improver)
{
    dao_host_free(improver->kernel_bytes);
    dao_host_free(improver->bytes_before);
    dao_host_free(improver->first);
    dao_host_free(improver->covering);
}

/* Sums up what is on the device, and what may change. */
static void begin(improver_t *improver)
{
    const dao_swap_step_t *step = improver->step;
    dao_swap_sum_residents(improver->parts, improver->grain->decisions, improver->kernel_bytes);
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint64_t size = may_change(one) ? step->size_bytes[one->tensor] : 0;
        improver->bytes_before[i + 1] = improver->bytes_before[i] + size;
    }
}

static bool may_go_on(const improver_t *improver, const dao_swap_effort_t *effort, uint64_t step_ns,
                      uint64_t misses)
{
    return step_ns > effort->goal_ns && misses < PATIENCE * improver->parts->inactive_count &&
           !dao_swap_is_over(improver->step, effort->work_end);
}

/* Tries changes, from what the grain was timed with. Its decisions are the best ones afterwards, its timing
   is not theirs. */
static dao_status_t try_changes(improver_t *improver, const dao_swap_effort_t *effort)
{
    dao_swap_grain_t *grain = improver->grain;
    dao_status_t status = DAO_OK;
    uint64_t misses = 0, step_ns = grain->timing.step_ns;
    while (status == DAO_OK && may_go_on(improver, effort, step_ns, misses)) {
        bool is_better = false;
        misses++;
        if (change(improver)) {
            status = dao_swap_grain_time(grain, improver->capacity_bytes);
            is_better = status == DAO_OK && grain->timing.step_ns <= step_ns;
            if (is_better && effort->may_keep != NULL) {
                status = effort->may_keep(effort->user, grain, &is_better);
            }
            status = status == DAO_ERR_HOST_FULL ? DAO_OK : status;
        }
        dao_swap_add_work(improver->step, improver->step->kernel_count);
        if (!is_better) {
            undo(improver);
            continue;
        }
        misses = grain->timing.step_ns < step_ns ? 0 : misses;
        step_ns = grain->timing.step_ns;
    }
    return status;
}

/* Takes leads back if the step is not longer without them: then more changes find room. */
static dao_status_t drop_leads(dao_swap_grain_t *grain, uint64_t capacity_bytes)
{
    uint64_t step_ns = grain->timing.step_ns;
    uint32_t *leads = dao_host_calloc((size_t)grain->parts.inactive_count + 1, sizeof(*leads));
    if (leads == NULL) {
        return dao_swap_step_give_up(grain->parts.step);
    }
    for (uint32_t g = 0; g < grain->parts.inactive_count; g++) {
        leads[g] = grain->decisions[g].lead;
        grain->decisions[g].lead = 0;
    }
    dao_status_t status = dao_swap_grain_time(grain, capacity_bytes);
    if (status == DAO_OK && grain->timing.step_ns > step_ns) {
        for (uint32_t g = 0; g < grain->parts.inactive_count; g++) {
            grain->decisions[g].lead = leads[g];
        }
        status = dao_swap_grain_time(grain, capacity_bytes);
    }
    dao_host_free(leads);
    return status;
}

dao_status_t dao_swap_improve(dao_swap_grain_t *grain, uint64_t capacity_bytes,
                              const dao_swap_effort_t *effort)
{
    improver_t improver = {
        .grain = grain, .parts = &grain->parts, .step = grain->parts.step, .capacity_bytes = capacity_bytes};
    const dao_swap_step_t *step = improver.step;
    dao_status_t status = drop_leads(grain, capacity_bytes);
    if (status != DAO_OK || dao_swap_is_over(step, effort->work_end)) {
        return status;
    }
    status = allocate(&improver) ? DAO_OK : dao_swap_step_give_up(step);
    if (status == DAO_OK) {
        begin(&improver);
    }
    if (status == DAO_OK && improver.bytes_before[step->access_count] > 0) {
        status = try_changes(&improver, effort);
        status = status == DAO_OK ? dao_swap_grain_time(grain, capacity_bytes) : status;
    }
    release(&improver);
    return status;
}

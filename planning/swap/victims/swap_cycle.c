/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of one step, from dao_swap_choose(), are applied to every step. They may contradict
   themselves around the step's end: what was on the device as that step began was decided in the step before.
   So the bytes in each kernel are summed up around the end. Where they are too many, memory that copies in
   take early is taken later. Then further parts leave, those that come back last first. Finally parts stay
   whose leaving freed bytes that nothing needs.

   A part that is away in the inactive period behind kernel a, whose next use is kernel b, is on the device in
   kernels b - lead .. b.

   What holds afterwards: in every kernel at least what it uses and at most the capacity is on the device;
   only live inactive periods are away, and lead < inactive_length. */
#include "planning/swap/victims/swap_cycle.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_levels.h"

#include <string.h>

/* An inactive period of a part. */
typedef struct part_period {
    uint32_t access;
    uint32_t part;
    uint32_t inactive;
} part_period_t;

/* Adds bytes to `count` kernels from `kernel` on, around the step's end, that are summed up later: they
   change at the first kernel and behind the last one. Unsigned wrap-around takes them away. */
static void change_bytes(uint64_t *changes, uint32_t kernel_count, uint32_t kernel, uint32_t count,
                         uint64_t size_bytes)
{
    uint32_t end = kernel + count;
    changes[kernel] += size_bytes;
    if (end >= kernel_count) {
        changes[0] += size_bytes;
        end -= kernel_count;
    }
    changes[end] -= size_bytes;
}

static uint32_t after(const dao_swap_step_t *step, uint32_t kernel, uint32_t count)
{
    uint32_t k = kernel + count;
    return k < step->kernel_count ? k : k - step->kernel_count;
}

/* Kernels strictly inside of an inactive period in which the part is not on the device, from the first one
   on. */
static uint32_t away_length(const dao_swap_access_t *one, const dao_swap_decision_t *decision)
{
    return decision->is_away ? one->inactive_length - 1 - decision->lead : 0;
}

void dao_swap_sum_residents(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                            uint64_t *kernel_bytes)
{
    const dao_swap_step_t *step = parts->step;
    memset(kernel_bytes, 0, step->kernel_count * sizeof(*kernel_bytes));
    for (uint32_t i = 0; i < step->access_count && !dao_swap_is_cancelled(step->cancel); i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        for (uint32_t part = parts->first[one->tensor]; part < parts->first[one->tensor + 1]; part++) {
            const dao_swap_decision_t *decision =
                &decisions[parts->first_inactive[i] + part - parts->first[one->tensor]];
            if (decision->is_away) {
                DAO_ASSERT(one->inactive_is_live && decision->lead < one->inactive_length);
                change_bytes(kernel_bytes, step->kernel_count, after(step, one->kernel, 1),
                             away_length(one, decision), 0 - dao_swap_part_size(parts, part));
            }
        }
    }
    uint64_t sum = 0;
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        sum += kernel_bytes[k];
        kernel_bytes[k] = step->live_bytes[k] + sum;
    }
}

/* ---- relieving ---- */

/* An inactive period of a part as the kernels are gone through from first to last. One that goes around the
   step's end is passed twice: behind its last use, and at the step's begin before its next one. */
typedef struct passing {
    uint64_t rank; /* while it is in the heap: who leaves first has the highest one */
    uint32_t access;
    uint32_t part;
    uint32_t inactive;
    uint32_t next; /* that comes up for the same kernel; DAO_SWAP_NONE: none */
    bool is_again; /* at the step's begin */
} passing_t;

/* Those that are on the device in the kernel at hand without being used there are in the heap, and some that
   no longer are. */
typedef struct relief {
    const dao_swap_parts_t *parts;
    dao_swap_decision_t *decisions;
    passing_t *passings;
    uint32_t passing_count;
    uint32_t *first; /* of each kernel: the passings that come up for it */
    uint32_t *heap;  /* the highest rank first; of two, the later passing */
    uint32_t heap_count;
    uint64_t change;   /* of the bytes on the device in the kernel at hand; it wraps around */
    uint64_t *changes; /* of that, at each kernel that is still to come */
} relief_t;

static bool relief_init(relief_t *relief, const dao_swap_parts_t *parts, dao_swap_decision_t *decisions)
{
    uint32_t kernel_count = parts->step->kernel_count;
    size_t most = 2 * (size_t)parts->inactive_count + 1;
    *relief = (relief_t){.parts = parts, .decisions = decisions};
    if ((relief->passings = dao_host_calloc(most, sizeof(*relief->passings))) == NULL ||
        (relief->heap = dao_host_calloc(most, sizeof(*relief->heap))) == NULL ||
        (relief->first = dao_host_calloc(kernel_count, sizeof(*relief->first))) == NULL ||
        (relief->changes = dao_host_calloc(kernel_count, sizeof(*relief->changes))) == NULL) {
        return false;
    }
    memset(relief->first, 0xff, kernel_count * sizeof(*relief->first));
    static_assert(DAO_SWAP_NONE == UINT32_MAX, "all bits are set");
    return true;
}

static void relief_finish(relief_t *relief)
{
    dao_host_free(relief->passings);
    dao_host_free(relief->heap);
    dao_host_free(relief->first);
    dao_host_free(relief->changes);
}

static void come_up(relief_t *relief, uint32_t passing, uint32_t kernel)
{
    relief->passings[passing].next = relief->first[kernel];
    relief->first[kernel] = passing;
}

/* Kernels behind the last use; 0: it is used in this kernel. */
static uint32_t since_use(const relief_t *relief, const passing_t *passing, uint32_t kernel)
{
    const dao_swap_step_t *step = relief->parts->step;
    return after(step, kernel, step->kernel_count - step->accesses[passing->access].kernel);
}

/* The kernel of the next use, counted on behind the step's end. */
static uint32_t next_use(const relief_t *relief, const passing_t *passing)
{
    const dao_swap_step_t *step = relief->parts->step;
    const dao_swap_access_t *one = &step->accesses[passing->access];
    return one->kernel + one->inactive_length - (passing->is_again ? step->kernel_count : 0);
}

/* Lists the stretches of kernels in which a part is on the device without being used. */
static void list_passings(relief_t *relief, uint32_t access, uint32_t part)
{
    const dao_swap_parts_t *parts = relief->parts;
    const dao_swap_access_t *one = &parts->step->accesses[access];
    uint32_t inactive = parts->first_inactive[access] + part - parts->first[one->tensor];
    uint32_t n = parts->step->kernel_count;
    uint32_t begin = one->kernel + 1 + away_length(one, &relief->decisions[inactive]),
             end = one->kernel + one->inactive_length;
    passing_t passing = {.access = access, .part = part, .inactive = inactive};
    if (begin < n && begin < end) {
        relief->passings[relief->passing_count] = passing;
        come_up(relief, relief->passing_count++, begin);
    }
    if (end > n && begin < end) {
        passing.is_again = true;
        relief->passings[relief->passing_count] = passing;
        come_up(relief, relief->passing_count++, begin > n ? begin - n : 0);
    }
}

static bool leaves_before(const relief_t *relief, uint32_t left, uint32_t right)
{
    const passing_t *a = &relief->passings[left], *b = &relief->passings[right];
    return a->rank > b->rank || (a->rank == b->rank && a->inactive > b->inactive);
}

static void sink(relief_t *relief, uint32_t at)
{
    uint32_t *heap = relief->heap, passing = heap[at];
    for (uint32_t child = 2 * at + 1; child < relief->heap_count; child = 2 * at + 1) {
        child += child + 1 < relief->heap_count && leaves_before(relief, heap[child + 1], heap[child]);
        if (!leaves_before(relief, heap[child], passing)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = passing;
}

static void push(relief_t *relief, uint32_t passing)
{
    uint32_t *heap = relief->heap, at = relief->heap_count++;
    while (at > 0 && leaves_before(relief, passing, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = passing;
}

static void pop(relief_t *relief)
{
    relief->heap[0] = relief->heap[--relief->heap_count];
    sink(relief, 0); /* where no other is left, the entry stays where it was */
}

/* Takes up those that come up for a kernel. Parts that come too early are the first to leave again, then
   those that come back last. */
static void take_up(relief_t *relief, uint32_t kernel)
{
    for (uint32_t i = relief->first[kernel]; i != DAO_SWAP_NONE; i = relief->passings[i].next) {
        passing_t *passing = &relief->passings[i];
        bool is_early = relief->decisions[passing->inactive].is_away;
        passing->rank = (is_early ? (uint64_t)1 << 32 : 0) + next_use(relief, passing);
        push(relief, i);
    }
}

/* Returns true if the part is on the device in the kernel without being used there. */
static bool is_resting(const relief_t *relief, const passing_t *passing, uint32_t kernel)
{
    const dao_swap_access_t *one = &relief->parts->step->accesses[passing->access];
    return kernel < next_use(relief, passing) &&
           since_use(relief, passing, kernel) > away_length(one, &relief->decisions[passing->inactive]);
}

/* Lets a part stay away, or one that comes too early come behind the kernel. */
static void leave(relief_t *relief, uint32_t index, uint32_t kernel)
{
    const passing_t *passing = &relief->passings[index];
    const dao_swap_step_t *step = relief->parts->step;
    const dao_swap_access_t *one = &step->accesses[passing->access];
    dao_swap_decision_t *decision = &relief->decisions[passing->inactive];
    uint64_t size = dao_swap_part_size(relief->parts, passing->part);
    uint32_t since = since_use(relief, passing, kernel), before = away_length(one, decision);
    uint32_t back = decision->is_away ? kernel + 1 : next_use(relief, passing);
    decision->lead = decision->is_away ? one->inactive_length - 1 - since : 0;
    decision->is_away = true;
    DAO_ASSERT(away_length(one, decision) > before); /* each turn frees some bytes */
    DAO_ASSERT(decision->lead < one->inactive_length);
    relief->change -= size;
    if (back < step->kernel_count) {
        relief->changes[back] += size;
    }
    if (passing->is_again && one->kernel + 1 + before < step->kernel_count) {
        relief->changes[one->kernel + 1 + before] -= size;
    }
    if (back < next_use(relief, passing) && back < step->kernel_count) {
        come_up(relief, index, back);
    }
}

/* Goes through the kernels. In each, parts that are on the device without being used leave or come later
   until the rest fits. */
static void relieve_all(relief_t *relief, uint64_t capacity_bytes, const uint64_t *kernel_bytes)
{
    const dao_swap_step_t *step = relief->parts->step;
    for (uint32_t k = 0; k < step->kernel_count && !dao_swap_is_cancelled(step->cancel); k++) {
        take_up(relief, k);
        relief->change += relief->changes[k];
        while (kernel_bytes[k] + relief->change > capacity_bytes) {
            DAO_ASSERT(relief->heap_count > 0);
            uint32_t first = relief->heap[0];
            pop(relief);
            if (is_resting(relief, &relief->passings[first], k)) {
                leave(relief, first, k);
            }
        }
    }
}

static dao_status_t relieve(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                            const uint64_t *kernel_bytes, dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    relief_t relief;
    bool ok = relief_init(&relief, parts, decisions);
    for (uint32_t i = 0; ok && i < step->access_count; i++) {
        uint32_t tensor = step->accesses[i].tensor;
        for (uint32_t part = parts->first[tensor];
             step->accesses[i].inactive_is_live && part < parts->first[tensor + 1]; part++) {
            list_passings(&relief, i, part);
        }
    }
    if (ok) {
        relieve_all(&relief, capacity_bytes, kernel_bytes);
    }
    relief_finish(&relief);
    return ok ? DAO_OK : dao_swap_step_give_up(step);
}

/* ---- keeping ---- */

/* Keeps a part on the device through an inactive period if there is room for it in every kernel. */
static void keep(const dao_swap_parts_t *parts, uint64_t capacity_bytes, const part_period_t *place,
                 dao_swap_decision_t *decisions, dao_swap_levels_t *levels)
{
    const dao_swap_access_t *one = &parts->step->accesses[place->access];
    uint64_t size = dao_swap_part_size(parts, place->part);
    uint32_t length = away_length(one, &decisions[place->inactive]),
             first = after(parts->step, one->kernel, 1);
    DAO_ASSERT(decisions[place->inactive].is_away);
    if (dao_swap_levels_most(levels, first, length) + size <= capacity_bytes || length == 0) {
        dao_swap_levels_add(levels, first, length, (int64_t)size);
        decisions[place->inactive] = (dao_swap_decision_t){0};
    }
}

/* Keeps all parts that need not leave. */
static dao_status_t keep_all(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                             const uint64_t *kernel_bytes, dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    dao_swap_levels_t levels;
    if (!dao_swap_levels_init(&levels, kernel_bytes, step->kernel_count)) {
        return dao_swap_step_give_up(step);
    }
    for (uint32_t i = 0; i < step->access_count && !dao_swap_is_cancelled(step->cancel); i++) {
        uint32_t tensor = step->accesses[i].tensor;
        for (uint32_t part = parts->first[tensor]; part < parts->first[tensor + 1]; part++) {
            const part_period_t place = {i, part, parts->first_inactive[i] + part - parts->first[tensor]};
            if (decisions[place.inactive].is_away) {
                keep(parts, capacity_bytes, &place, decisions, &levels);
            }
        }
    }
    dao_swap_levels_finish(&levels);
    return DAO_OK;
}

dao_status_t dao_swap_cycle(const dao_swap_parts_t *parts, uint64_t capacity_bytes, bool keeps_most,
                            dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t *kernel_bytes = dao_host_calloc(step->kernel_count, sizeof(*kernel_bytes));
    if (kernel_bytes == NULL) {
        return dao_swap_step_give_up(step);
    }
    dao_swap_sum_residents(parts, decisions, kernel_bytes);
    dao_status_t status = relieve(parts, capacity_bytes, kernel_bytes, decisions);
    if (status == DAO_OK && keeps_most) {
        dao_swap_sum_residents(parts, decisions, kernel_bytes);
        status = keep_all(parts, capacity_bytes, kernel_bytes, decisions);
    }
    if (status != DAO_OK) {
        dao_host_free(kernel_bytes);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_swap_cycle_is_valid(parts, capacity_bytes, decisions, kernel_bytes) ||
                     dao_swap_is_cancelled(step->cancel)); /* which it may be while it is checked */
    dao_host_free(kernel_bytes);
    return dao_swap_is_cancelled(step->cancel) ? dao_swap_step_give_up(step) : DAO_OK;
}

bool dao_swap_cycle_is_valid(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                             const dao_swap_decision_t *decisions, uint64_t *kernel_bytes)
{
    const dao_swap_step_t *step = parts->step;
    dao_swap_sum_residents(parts, decisions, kernel_bytes);
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        if (kernel_bytes[k] < step->kernel_bytes[k] || kernel_bytes[k] > capacity_bytes) {
            return false;
        }
    }
    return true;
}

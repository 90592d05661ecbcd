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

#include <string.h>

/* An inactive period of a part. */
typedef struct part_period {
    uint32_t access;
    uint32_t part;
    uint32_t inactive;
} part_period_t;

/* Adds bytes to `count` kernels from `kernel` on, around the step's end. Unsigned wrap-around takes them
   away. */
static void add_bytes(uint64_t *kernel_bytes, uint32_t kernel_count, uint32_t kernel, uint32_t count,
                      uint64_t size_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = kernel + i < kernel_count ? kernel + i : kernel + i - kernel_count;
        kernel_bytes[k] += size_bytes;
    }
}

/* The same for bytes that are summed up later: they change at the first kernel and behind the last one. */
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

/* Bytes on the device in each kernel. */
static void sum_residents(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
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

/* Lets the parts that are on the device in a kernel without being used there leave or come later, until the
   rest fits. */
static void relieve(const dao_swap_parts_t *parts, uint32_t kernel, uint64_t capacity_bytes,
                    dao_swap_decision_t *decisions, uint64_t *kernel_bytes)
{
    const dao_swap_step_t *step = parts->step;
    while (kernel_bytes[kernel] > capacity_bytes && !dao_swap_is_cancelled(step->cancel)) {
        part_period_t best = {DAO_SWAP_NONE, DAO_SWAP_NONE, DAO_SWAP_NONE};
        uint64_t best_value = 0;
        for (uint32_t i = 0; i < step->access_count; i++) {
            const dao_swap_access_t *one = &step->accesses[i];
            uint32_t since =
                after(step, kernel, step->kernel_count - one->kernel); /* 0: used in this kernel */
            if (!one->inactive_is_live || since == 0 || since >= one->inactive_length) {
                continue;
            }
            for (uint32_t part = parts->first[one->tensor]; part < parts->first[one->tensor + 1]; part++) {
                uint32_t g = parts->first_inactive[i] + part - parts->first[one->tensor];
                if (since <= away_length(one, &decisions[g])) {
                    continue;
                }
                /* Those that come too early go first, then by the time of coming back; a later part before an
                   earlier one. */
                uint64_t value =
                    (decisions[g].is_away ? (uint64_t)1 << 32 : 0) + (one->inactive_length - since);
                if (value >= best_value) {
                    best_value = value;
                    best = (part_period_t){i, part, g};
                }
            }
        }
        DAO_ASSERT(best.access != DAO_SWAP_NONE);
        const dao_swap_access_t *one = &step->accesses[best.access];
        uint32_t before = away_length(one, &decisions[best.inactive]);
        uint32_t since = after(step, kernel, step->kernel_count - one->kernel);
        decisions[best.inactive].lead =
            decisions[best.inactive].is_away ? one->inactive_length - 1 - since : 0;
        decisions[best.inactive].is_away = true;
        DAO_ASSERT(away_length(one, &decisions[best.inactive]) > before); /* each turn frees some bytes */
        DAO_ASSERT(decisions[best.inactive].lead < one->inactive_length);
        add_bytes(kernel_bytes, step->kernel_count, after(step, one->kernel, 1 + before),
                  away_length(one, &decisions[best.inactive]) - before,
                  0 - dao_swap_part_size(parts, best.part));
    }
}

/* Keeps a part on the device through an inactive period if there is room for it in every kernel. */
static void keep(const dao_swap_parts_t *parts, uint64_t capacity_bytes, const part_period_t *place,
                 dao_swap_decision_t *decisions, uint64_t *kernel_bytes)
{
    const dao_swap_step_t *step = parts->step;
    const dao_swap_access_t *one = &step->accesses[place->access];
    uint64_t size = dao_swap_part_size(parts, place->part);
    uint32_t length = away_length(one, &decisions[place->inactive]);
    for (uint32_t i = length; i > 0; i--) { /* from the end, where it is most likely full */
        if (kernel_bytes[after(step, one->kernel, i)] + size > capacity_bytes) {
            return;
        }
    }
    DAO_ASSERT(decisions[place->inactive].is_away);
    add_bytes(kernel_bytes, step->kernel_count, after(step, one->kernel, 1), length, size);
    decisions[place->inactive] = (dao_swap_decision_t){0};
}

/* Keeps all parts that need not leave. */
static void keep_all(const dao_swap_parts_t *parts, uint64_t capacity_bytes, dao_swap_decision_t *decisions,
                     uint64_t *kernel_bytes)
{
    const dao_swap_step_t *step = parts->step;
    for (uint32_t i = 0; i < step->access_count && !dao_swap_is_cancelled(step->cancel); i++) {
        uint32_t tensor = step->accesses[i].tensor;
        for (uint32_t part = parts->first[tensor]; part < parts->first[tensor + 1]; part++) {
            const part_period_t place = {i, part, parts->first_inactive[i] + part - parts->first[tensor]};
            if (decisions[place.inactive].is_away) {
                keep(parts, capacity_bytes, &place, decisions, kernel_bytes);
            }
        }
    }
}

dao_status_t dao_swap_cycle(const dao_swap_parts_t *parts, uint64_t capacity_bytes, bool keeps_most,
                            dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t *kernel_bytes = dao_host_calloc(step->kernel_count, sizeof(*kernel_bytes));
    if (kernel_bytes == NULL) {
        return dao_swap_step_give_up(step);
    }
    sum_residents(parts, decisions, kernel_bytes);
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        relieve(parts, k, capacity_bytes, decisions, kernel_bytes);
    }
    if (keeps_most) {
        keep_all(parts, capacity_bytes, decisions, kernel_bytes);
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
    sum_residents(parts, decisions, kernel_bytes);
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        if (kernel_bytes[k] < step->kernel_bytes[k] || kernel_bytes[k] > capacity_bytes) {
            return false;
        }
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Each part that is ever away goes to one tier for the whole step: what comes from a file to that. Of the
   others those that move seldom go to the file first, until the rest fits the host's limit. */
#include "planning/swap/victims/swap_tiers.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdlib.h>

/* A part that is ever away. */
typedef struct traveller {
    uint32_t part;
    uint32_t copy_count; /* in a step; 0: it is never away */
    uint32_t away_kernels;
    uint32_t first_return; /* kernel before which it comes back first */
    uint32_t key;          /* of sort_travellers(): of those that move equally often the least goes first */
} traveller_t;

/* Those that move seldom first. */
static int compare_travellers(const void *left, const void *right)
{
    const traveller_t *a = left, *b = right;
    if (a->copy_count != b->copy_count) {
        return a->copy_count < b->copy_count ? -1 : 1;
    }
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return (a->part > b->part) - (a->part < b->part);
}

/* Counts what each part moves, all of it to the host. Returns the bytes of those that are ever away. Parts
   that come from a file are no travellers: they are there already. */
static uint64_t count_travels(const dao_swap_parts_t *parts, dao_swap_decision_t *decisions,
                              traveller_t *travellers)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t sum = 0;
    for (uint32_t part = 0; part < parts->count; part++) {
        travellers[part] = (traveller_t){.part = part, .first_return = UINT32_MAX};
    }
    for (uint32_t i = 0; i < step->access_count && !dao_swap_is_cancelled(step->cancel); i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t return_kernel = step->accesses[one->next].kernel;
        bool is_workspace = one->tensor >= step->problem->tensor_count;
        bool is_from_file = !is_workspace && step->problem->tensors[one->tensor].is_from_file;
        for (uint32_t part = parts->first[one->tensor]; part < parts->first[one->tensor + 1]; part++) {
            dao_swap_decision_t *decision =
                &decisions[parts->first_inactive[i] + part - parts->first[one->tensor]];
            traveller_t *traveller = &travellers[part];
            decision->is_file = is_from_file;
            if (decision->is_away && !is_from_file) {
                sum += traveller->copy_count == 0 ? dao_swap_part_size(parts, part) : 0;
                traveller->copy_count += one->writer == DAO_SWAP_NONE ? 1 : 2;
                traveller->away_kernels += one->inactive_length;
                traveller->first_return =
                    return_kernel < traveller->first_return ? return_kernel : traveller->first_return;
            }
        }
    }
    return sum;
}

/* Returns the number with its bits in reverse order. Of numbers in a row the least ones by that are spread
   over the row, however many are taken. */
static uint32_t reverse_bits(uint32_t number)
{
    uint32_t reversed = 0;
    for (int bit = 0; bit < 32; bit++) {
        reversed = reversed << 1 | (number >> bit & 1);
    }
    return reversed;
}

/* Sorts parts by the order in which they go to the file. */
static void sort_travellers(traveller_t *travellers, uint32_t count, dao_swap_tier_order_t order)
{
    for (uint32_t i = 0; i < count; i++) {
        bool is_spread = order == DAO_SWAP_TIER_ORDER_SPREAD;
        travellers[i].key = is_spread ? travellers[i].first_return : UINT32_MAX - travellers[i].away_kernels;
    }
    qsort(travellers, count, sizeof(*travellers), compare_travellers);
    if (order == DAO_SWAP_TIER_ORDER_SPREAD) {
        for (uint32_t i = 0; i < count; i++) {
            travellers[i].key = reverse_bits(i);
        }
        qsort(travellers, count, sizeof(*travellers), compare_travellers);
    }
}

static void send_to_file(const dao_swap_parts_t *parts, uint32_t part, dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    uint32_t tensor = parts->tensor[part], access = step->first_access[tensor];
    do {
        decisions[parts->first_inactive[access] + part - parts->first[tensor]].is_file = true;
        access = step->accesses[access].next;
    } while (access != step->first_access[tensor]);
}

/* The part that goes to the file next where the traveller `first` is more than the `wanted_bytes` that are
   missing: of those that move as often the smallest one that is enough and that `room_bytes` hold, else the
   first one that is not enough. All before that one are too large for the room and stay so. Where there is
   none the same is asked of those that move more often; parts->count if none is left. */
static uint32_t find_next(const dao_swap_parts_t *parts, const traveller_t *travellers, uint32_t first,
                          uint64_t wanted_bytes, uint64_t room_bytes)
{
    uint32_t next = parts->count;
    for (uint32_t i = first; i < parts->count; i++) {
        if (next < parts->count && travellers[i].copy_count != travellers[next].copy_count) {
            break;
        }
        uint64_t size = dao_swap_part_size(parts, travellers[i].part);
        if (size >= wanted_bytes && size <= room_bytes) {
            next = i;
            room_bytes = size - 1;
        } else if (size < wanted_bytes && next == parts->count) {
            next = i;
        }
    }
    return next;
}

/* Sends parts to the file until `wanted_bytes` are there, or no other finds room. Returns what was sent. */
static uint64_t send_parts(const dao_swap_parts_t *parts, const traveller_t *travellers,
                           uint64_t wanted_bytes, uint64_t room_bytes, dao_swap_decision_t *decisions)
{
    uint64_t sent_bytes = 0;
    uint32_t i = 0;
    while (i < parts->count && travellers[i].copy_count == 0) { /* what stays comes first */
        i++;
    }
    while (i < parts->count && sent_bytes < wanted_bytes && !dao_swap_is_cancelled(parts->step->cancel)) {
        uint64_t missing_bytes = wanted_bytes - sent_bytes;
        if (dao_swap_part_size(parts, travellers[i].part) > missing_bytes) {
            i = find_next(parts, travellers, i, missing_bytes, room_bytes - sent_bytes);
        }
        if (i < parts->count) {
            send_to_file(parts, travellers[i].part, decisions);
            sent_bytes += dao_swap_part_size(parts, travellers[i].part);
            i++;
        }
    }
    return sent_bytes;
}

/* Bytes that the file holds; 0: there is none. */
static uint64_t file_room(const dao_swap_problem_t *problem)
{
    if (problem->file.in_bytes_per_second == 0) {
        return 0;
    }
    return problem->file.limit_bytes != 0 ? problem->file.limit_bytes : UINT64_MAX;
}

static dao_status_t refuse(const dao_swap_problem_t *problem, uint64_t away_bytes)
{
    if (problem->file.in_bytes_per_second == 0) {
        return dao_error(DAO_ERR_HOST_FULL,
                         "%" PRIu64 " bytes have to leave the device and the host tier's limit is %" PRIu64
                         ": raise it, give a file tier, or give the device more than %" PRIu64 " bytes",
                         away_bytes, problem->host.limit_bytes, problem->capacity_bytes);
    }
    return dao_error(DAO_ERR_HOST_FULL,
                     "%" PRIu64 " bytes have to leave the device: beyond the host tier's limit of %" PRIu64
                     " and the file tier's of %" PRIu64,
                     away_bytes, problem->host.limit_bytes, problem->file.limit_bytes);
}

dao_status_t dao_swap_tiers(const dao_swap_parts_t *parts, dao_swap_tier_order_t order,
                            dao_swap_decision_t *decisions, bool *out_has_file)
{
    const dao_swap_problem_t *problem = parts->step->problem;
    uint64_t limit = problem->host.limit_bytes != 0 ? problem->host.limit_bytes : UINT64_MAX, sent_bytes = 0;
    traveller_t *travellers = dao_host_calloc((size_t)parts->count + 1, sizeof(*travellers));
    if (travellers == NULL) {
        return dao_swap_step_give_up(parts->step);
    }
    uint64_t away_bytes = count_travels(parts, decisions, travellers);
    uint64_t over_bytes = away_bytes > limit ? away_bytes - limit : 0;
    if (over_bytes > 0 && over_bytes <= file_room(problem) && !dao_swap_is_cancelled(parts->step->cancel)) {
        sort_travellers(travellers, parts->count, order);
        sent_bytes = send_parts(parts, travellers, over_bytes, file_room(problem), decisions);
    }
    dao_host_free(travellers);
    if (dao_swap_is_cancelled(parts->step->cancel)) {
        return dao_swap_step_give_up(parts->step);
    }
    *out_has_file = sent_bytes > 0;
    return sent_bytes >= over_bytes ? DAO_OK : refuse(problem, away_bytes);
}

#include "planning/swap_tiers.h"

#include "base/error.h"
#include "base/host.h"

#include <inttypes.h>
#include <stdlib.h>

/* A part that is ever away. */
typedef struct traveller {
    uint32_t part;
    uint32_t copy_count; /* in a step */
    uint32_t away_kernels;
} traveller_t;

/* Those that move seldom first; of equal ones those that are away longer. */
static int compare_travellers(const void *left, const void *right)
{
    const traveller_t *a = left, *b = right;
    if (a->copy_count != b->copy_count) {
        return a->copy_count < b->copy_count ? -1 : 1;
    }
    if (a->away_kernels != b->away_kernels) {
        return a->away_kernels > b->away_kernels ? -1 : 1;
    }
    return (a->part > b->part) - (a->part < b->part);
}

/* Counts what each part moves, all of it to the host. Gives the bytes of those that are ever away. */
static uint64_t count_travels(const dao_swap_parts_t *parts, dao_swap_gap_t *gaps, traveller_t *travellers)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t sum = 0;
    for (uint32_t part = 0; part < parts->count; part++) {
        travellers[part].part = part;
    }
    for (uint32_t i = 0; i < step->touch_count && !dao_swap_is_cancelled(step->cancel); i++) {
        const dao_swap_touch_t *one = &step->touches[i];
        for (uint32_t part = parts->first[one->tensor]; part < parts->first[one->tensor + 1]; part++) {
            dao_swap_gap_t *gap = &gaps[parts->first_gap[i] + part - parts->first[one->tensor]];
            gap->is_file = false;
            if (gap->is_away) {
                sum += travellers[part].copy_count == 0 ? dao_swap_part_size(parts, part) : 0;
                travellers[part].copy_count += one->writer == DAO_SWAP_NONE ? 1 : 2;
                travellers[part].away_kernels += one->gap_length;
            }
        }
    }
    return sum;
}

static void send_to_file(const dao_swap_parts_t *parts, uint32_t part, dao_swap_gap_t *gaps)
{
    const dao_swap_step_t *step = parts->step;
    uint32_t tensor = parts->tensor[part], touch = step->first_touch[tensor];
    do {
        gaps[parts->first_gap[touch] + part - parts->first[tensor]].is_file = true;
        touch = step->touches[touch].next;
    } while (touch != step->first_touch[tensor]);
}

dao_status_t dao_swap_tiers(const dao_swap_parts_t *parts, dao_swap_gap_t *gaps)
{
    const dao_swap_problem_t *problem = parts->step->problem;
    uint64_t limit = problem->host.limit_bytes != 0 ? problem->host.limit_bytes : UINT64_MAX;
    uint64_t file_limit = problem->file.limit_bytes != 0 ? problem->file.limit_bytes : UINT64_MAX,
             file_bytes = 0;
    traveller_t *travellers = dao_host_calloc((size_t)parts->count + 1, sizeof(*travellers));
    if (travellers == NULL) {
        return dao_swap_step_give_up(parts->step);
    }
    uint64_t host_bytes = count_travels(parts, gaps, travellers);
    dao_status_t status =
        dao_swap_is_cancelled(parts->step->cancel) ? dao_swap_step_give_up(parts->step) : DAO_OK;
    if (status != DAO_OK) {
        dao_host_free(travellers);
        return status;
    }
    if (host_bytes > limit && problem->file.in_bytes_per_second == 0) {
        status = dao_error(DAO_ERR_HOST_FULL,
                           "%" PRIu64 " bytes have to leave the device and the host tier's limit is %" PRIu64
                           ": raise it, give a file tier, or give the device more than %" PRIu64 " bytes",
                           host_bytes, limit, problem->capacity_bytes);
    } else if (host_bytes > limit) {
        qsort(travellers, parts->count, sizeof(*travellers), compare_travellers);
        for (uint32_t i = 0; i < parts->count && host_bytes > limit; i++) {
            uint64_t size = dao_swap_part_size(parts, travellers[i].part);
            if (travellers[i].copy_count != 0 && file_bytes + size <= file_limit) {
                send_to_file(parts, travellers[i].part, gaps);
                host_bytes -= size;
                file_bytes += size;
            }
        }
    }
    dao_host_free(travellers);
    if (status == DAO_OK && host_bytes > limit) {
        status =
            dao_error(DAO_ERR_HOST_FULL,
                      "%" PRIu64 " bytes have to leave the device: beyond the host tier's limit of %" PRIu64
                      " and the file tier's of %" PRIu64,
                      host_bytes + file_bytes, limit, file_limit);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Residency intervals without an address are made shorter: the tensor leaves where it stays longest. If that
   is not possible, the tensor that is most in the way leaves. */
#include "planning/swap/victims/swap_split.h"

/* The access in a residency interval behind which the tensor stays longest; DAO_SWAP_NONE if it stays
   nowhere. */
static uint32_t longest_stay(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                             const dao_swap_layout_t *layout, uint32_t residency)
{
    const dao_swap_step_t *step = parts->step;
    uint32_t access = layout->residencies[residency].first_access, longest = DAO_SWAP_NONE;
    do {
        const dao_swap_access_t *one = &step->accesses[access];
        bool stays =
            !dao_swap_is_absent(one, &decisions[parts->first_inactive[access]]) && one->inactive_length > 1;
        if (stays &&
            (longest == DAO_SWAP_NONE || one->inactive_length > step->accesses[longest].inactive_length)) {
            longest = access;
        }
        access = one->next;
    } while (layout->residency_of[access] == residency &&
             access != layout->residencies[residency].first_access);
    return longest;
}

/* The access behind which a tensor stays over the kernel of a residency interval that nothing can shorten:
   one that is as large, else the largest, and of those the one that comes back last. DAO_SWAP_NONE if nothing
   stays over it. */
static uint32_t best_blocker(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                             const dao_swap_residency_t *residency)
{
    const dao_swap_step_t *step = parts->step;
    uint32_t n = step->kernel_count, kernel = step->accesses[residency->first_access].kernel,
             best = DAO_SWAP_NONE, best_left = 0;
    uint64_t needed = step->size_bytes[residency->tensor], best_size = 0;
    for (uint32_t t = 0; t < step->access_count; t++) {
        const dao_swap_access_t *one = &step->accesses[t];
        uint32_t since = kernel >= one->kernel ? kernel - one->kernel : kernel + n - one->kernel;
        uint64_t size = step->size_bytes[one->tensor] < needed ? step->size_bytes[one->tensor] : needed;
        if (since == 0 || since >= one->inactive_length ||
            dao_swap_is_absent(one, &decisions[parts->first_inactive[t]])) {
            continue;
        }
        uint32_t left = one->inactive_length - since;
        if (size > best_size || (size == best_size && left > best_left)) {
            best = t;
            best_size = size;
            best_left = left;
        }
    }
    return best;
}

bool dao_swap_split(const dao_swap_parts_t *parts, const dao_swap_layout_t *layout,
                    dao_swap_decision_t *decisions)
{
    dao_swap_cancel_t *cancel = parts->step->cancel;
    bool is_split = false;
    for (uint32_t residency = 0; residency < layout->residency_count && !dao_swap_is_cancelled(cancel);
         residency++) {
        if (layout->residencies[residency].address_bytes != DAO_SWAP_NOWHERE) {
            continue;
        }
        uint32_t access = longest_stay(parts, decisions, layout, residency);
        access = access != DAO_SWAP_NONE ? access
                                         : best_blocker(parts, decisions, &layout->residencies[residency]);
        if (access == DAO_SWAP_NONE) {
            continue;
        }
        for (uint32_t g = parts->first_inactive[access]; g < parts->first_inactive[access + 1]; g++) {
            decisions[g] = decisions[g].is_away ? decisions[g] : (dao_swap_decision_t){.is_away = true};
        }
        is_split = true;
    }
    return is_split;
}

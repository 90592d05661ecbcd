/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/swap/victims/swap_split.h"

/* The touch in a home behind which the tensor stays longest; DAO_SWAP_NONE if it stays nowhere. */
static uint32_t longest_stay(const dao_swap_parts_t *parts, const dao_swap_gap_t *gaps,
                             const dao_swap_layout_t *layout, uint32_t home)
{
    const dao_swap_step_t *step = parts->step;
    uint32_t touch = layout->homes[home].first_touch, longest = DAO_SWAP_NONE;
    do {
        const dao_swap_touch_t *one = &step->touches[touch];
        bool stays = !dao_swap_is_absent(one, &gaps[parts->first_gap[touch]]) && one->gap_length > 1;
        if (stays && (longest == DAO_SWAP_NONE || one->gap_length > step->touches[longest].gap_length)) {
            longest = touch;
        }
        touch = one->next;
    } while (layout->home_of[touch] == home && touch != layout->homes[home].first_touch);
    return longest;
}

/* The touch behind which a tensor stays over the kernel of a home that nothing can shorten: one that is as
   large, else the largest, and of those the one that comes back last. DAO_SWAP_NONE if nothing stays over it.
   */
static uint32_t best_blocker(const dao_swap_parts_t *parts, const dao_swap_gap_t *gaps,
                             const dao_swap_home_t *home)
{
    const dao_swap_step_t *step = parts->step;
    uint32_t n = step->kernel_count, kernel = step->touches[home->first_touch].kernel, best = DAO_SWAP_NONE,
             best_left = 0;
    uint64_t needed = step->size_bytes[home->tensor], best_size = 0;
    for (uint32_t t = 0; t < step->touch_count; t++) {
        const dao_swap_touch_t *one = &step->touches[t];
        uint32_t since = kernel >= one->kernel ? kernel - one->kernel : kernel + n - one->kernel;
        uint64_t size = step->size_bytes[one->tensor] < needed ? step->size_bytes[one->tensor] : needed;
        if (since == 0 || since >= one->gap_length || dao_swap_is_absent(one, &gaps[parts->first_gap[t]])) {
            continue;
        }
        uint32_t left = one->gap_length - since;
        if (size > best_size || (size == best_size && left > best_left)) {
            best = t;
            best_size = size;
            best_left = left;
        }
    }
    return best;
}

bool dao_swap_split(const dao_swap_parts_t *parts, const dao_swap_layout_t *layout, dao_swap_gap_t *gaps)
{
    dao_swap_cancel_t *cancel = parts->step->cancel;
    bool is_split = false;
    for (uint32_t home = 0; home < layout->home_count && !dao_swap_is_cancelled(cancel); home++) {
        if (layout->homes[home].address_bytes != DAO_SWAP_NOWHERE) {
            continue;
        }
        uint32_t touch = longest_stay(parts, gaps, layout, home);
        touch = touch != DAO_SWAP_NONE ? touch : best_blocker(parts, gaps, &layout->homes[home]);
        if (touch == DAO_SWAP_NONE) {
            continue;
        }
        for (uint32_t g = parts->first_gap[touch]; g < parts->first_gap[touch + 1]; g++) {
            gaps[g] = gaps[g].is_away ? gaps[g] : (dao_swap_gap_t){.is_away = true};
        }
        is_split = true;
    }
    return is_split;
}

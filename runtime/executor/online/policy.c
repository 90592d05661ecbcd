/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing victims.

   Room must be contiguous. So every policy chooses among minimal windows: runs of free and evictable
   blocks that hold the request and would not without either end block. Two pointers find them all in one
   sweep. A policy is the value of a window:

       lru, belady, size, user   the lowest score of a tensor in it: the window is taken that a ranking
                                 of all tensors would clear first, and nothing outside of it leaves
       weighted_lru, _belady     sum(score x bytes) / sum(bytes)
       window                    minus the sum of (bytes to move) / (distance of the next use)

   Scores: lru is the age; belady is the distance of the next use. A tensor without a known next use comes
   after all that have one, the older first. Ties go to the window with fewer bytes to copy, then to the
   lower address. Source: the executor note's consecutive windows and its upstream's scores, with one
   convention: the greatest score is evicted. */
#include "runtime/executor/online/policy.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/report/names.h"

#include <math.h>

static const dao_named_t policies[] = {
#define POLICY_ROW(number, symbol, name, meaning) {name, DAO_POLICY_##symbol},
    DAO_POLICY_LIST(POLICY_ROW)
#undef POLICY_ROW
        {NULL, 0}};

const char *dao_policy_name(dao_policy_t policy)
{
    return dao_name_of(policies, (int)policy);
}

dao_status_t dao_policy_parse(const char *text, dao_policy_t *out_policy)
{
    int value;
    dao_status_t status = dao_name_parse(policies, "policy", text, out_policy != NULL ? &value : NULL);
    if (status == DAO_OK && out_policy != NULL) {
        *out_policy = (dao_policy_t)value;
    }
    return status;
}

static double age(const dao_victim_t *victim)
{
    return (double)(victim->now - victim->last_use);
}

/* At least 1; beyond the horizon for a tensor without a known next use. */
static double distance(const dao_policy_view_t *view, const dao_victim_t *victim)
{
    if (victim->next_use != UINT64_MAX) {
        DAO_ASSERT(victim->next_use >= victim->now);
        return (double)(victim->next_use - victim->now) + 1;
    }
    return (double)(view->horizon - victim->now) + 2 + age(victim);
}

static double score_of(const dao_policy_view_t *view, const dao_victim_t *victim)
{
    switch (view->policy) {
    case DAO_POLICY_LRU:
    case DAO_POLICY_WEIGHTED_LRU:
        return age(victim);
    case DAO_POLICY_BELADY:
    case DAO_POLICY_WEIGHTED_BELADY:
    case DAO_POLICY_WINDOW:
        return distance(view, victim);
    case DAO_POLICY_SIZE:
        return (double)victim->size_bytes;
    case DAO_POLICY_USER:
        return view->score(victim, view->score_user);
    }
    return 0;
}

/* What leaving costs on the links: the way back, and the way out unless the host has the bytes. */
static double bytes_to_move(const dao_victim_t *victim)
{
    bool comes_back = victim->next_use != UINT64_MAX;
    return (double)victim->size_bytes * ((comes_back ? 1 : 0) + (victim->clean ? 0 : 1));
}

/* The value of blocks [first, last]. O(length). */
typedef struct window_value {
    double value;
    double copy_bytes;
} window_value_t;

static window_value_t value_window(const dao_policy_view_t *view, size_t first, size_t last)
{
    double least = INFINITY;
    double weighted = 0;
    double weight = 0;
    double cost = 0;
    double copy_bytes = 0;
    for (size_t i = first; i <= last; i++) {
        const dao_policy_block_t *block = &view->blocks[i];
        if (block->is_free) {
            continue;
        }
        double score = score_of(view, &block->victim);
        least = score < least ? score : least;
        weighted += score * (double)block->size_bytes;
        weight += (double)block->size_bytes;
        cost += bytes_to_move(&block->victim) / score;
        copy_bytes += block->victim.clean ? 0 : (double)block->size_bytes;
    }
    double value = least;
    if (view->policy == DAO_POLICY_WEIGHTED_LRU || view->policy == DAO_POLICY_WEIGHTED_BELADY) {
        value = weight > 0 ? weighted / weight : INFINITY;
    } else if (view->policy == DAO_POLICY_WINDOW) {
        value = -cost;
    }
    return (window_value_t){value, copy_bytes};
}

static bool is_better(const window_value_t *a, const window_value_t *b)
{
    return a->value > b->value || (a->value == b->value && a->copy_bytes < b->copy_bytes);
}

bool dao_policy_choose(const dao_policy_view_t *view, size_t *out_first, size_t *out_last)
{
    DAO_ASSERT(view->need_bytes > 0);
    bool found = false;
    window_value_t best = {0, 0};
    size_t first = 0;
    uint64_t bytes = 0;
    for (size_t last = 0; last < view->block_count; last++) {
        if (view->blocks[last].is_fixed) {
            first = last + 1;
            bytes = 0;
            continue;
        }
        bytes += view->blocks[last].size_bytes;
        while (bytes - view->blocks[first].size_bytes >= view->need_bytes) {
            bytes -= view->blocks[first++].size_bytes;
        }
        if (bytes < view->need_bytes || bytes - view->blocks[last].size_bytes >= view->need_bytes) {
            continue; /* too small, or the last block is not needed: the window before was that one */
        }
        DAO_ASSERT(bytes - view->blocks[first].size_bytes < view->need_bytes); /* minimal at both ends */
        window_value_t candidate = value_window(view, first, last);
        if (!found || is_better(&candidate, &best)) {
            found = true;
            best = candidate;
            *out_first = first;
            *out_last = last;
        }
    }
    DAO_ASSERT(!found || *out_first <= *out_last);
    return found;
}

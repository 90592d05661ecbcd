/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program is in its script. Each thread has a position: the place that is expected next, and behind
   a request that was not expected a second place, where the program would be if that request stood for
   entries.

       script    a b c d e f      a request of the expected size moves `expected` on by one
       asked     a x              x is no b. It may be new: b is still expected. Or b was resized: c comes
                   ^ expected     next, which is `shifted`. The next request says which of the two it is.
                     ^ shifted    A size that stands nearby is that entry; `shifted` is the place behind it.

   A program that is found nowhere for DAO_FOLLOW_RUN requests is looked up in all of the script by the latest
   sizes; again after twice as many.

   What holds between calls:

       expected and shifted lie in the thread's part of the order, or at its end
       an entry is found at most once in a pass: then its serial is that of the pass */
#include "planning/steps/follow.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

/* ---- begin and end ---- */

dao_status_t dao_follow_init(dao_follow_t *follow, const dao_script_t *script)
{
    *follow = (dao_follow_t){.script = script};
    follow->key_turns = dao_host_calloc((size_t)script->key_mask + 1, sizeof(*follow->key_turns));
    follow->serials = dao_host_calloc((size_t)script->count + 1, sizeof(*follow->serials));
    if (follow->key_turns == NULL || follow->serials == NULL) {
        dao_follow_finish(follow);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to follow a plan");
    }
    dao_follow_restart(follow);
    return DAO_OK;
}

void dao_follow_finish(dao_follow_t *follow)
{
    dao_host_free(follow->key_turns);
    dao_host_free(follow->serials);
    *follow = (dao_follow_t){0};
}

void dao_follow_restart(dao_follow_t *follow)
{
    const dao_script_t *script = follow->script;
    if (script == NULL) {
        return;
    }
    for (uint32_t i = 0; i < DAO_LIFETIME_SLOT_COUNT; i++) {
        follow->positions[i] =
            (dao_follow_position_t){.expected = script->slot_begin[i], .shifted = DAO_SCRIPT_NONE};
    }
    for (uint32_t i = 0; i <= script->key_mask; i++) {
        follow->key_turns[i] = script->keys[i].key != 0 ? script->keys[i].first : DAO_SCRIPT_NONE;
    }
    follow->serial++;
    if (follow->serial == 0) { /* numbers are used up: the oldest must not look like new ones */
        memset(follow->serials, 0, (size_t)script->count * sizeof(*follow->serials));
        follow->serial = 1;
    }
}

/* ---- places ---- */

static bool is_found(const dao_follow_t *follow, uint32_t place)
{
    return follow->serials[follow->script->order[place]] == follow->serial;
}

static bool has_size(const dao_script_t *script, uint32_t place, uint64_t units)
{
    return dao_script_has_size(&script->entries[script->order[place]], units);
}

/* Returns true if a place below `end` has that size and was not found yet. */
static bool is_wanted(const dao_follow_t *follow, uint32_t place, uint32_t end, uint64_t units)
{
    return place < end && has_size(follow->script, place, units) && !is_found(follow, place);
}

/* Returns true if a request may be the entry at a place with another size. */
static bool may_be_resized(const dao_script_t *script, uint32_t place, uint64_t units)
{
    uint64_t expected = dao_lifetime_units(script->entries[script->order[place]].size_bytes);
    return units / DAO_SCRIPT_RESIZED_FACTOR_MAX <= expected &&
           expected / DAO_SCRIPT_RESIZED_FACTOR_MAX <= units;
}

/* Returns the nearest place of that size that was not found yet; what was passed by comes first. */
static uint32_t find_near(const dao_follow_t *follow, uint32_t slot, uint64_t units)
{
    uint32_t begin = follow->script->slot_begin[slot], end = follow->script->slot_begin[slot + 1];
    uint32_t expected = follow->positions[slot].expected;
    for (uint32_t away = 1; away <= DAO_FOLLOW_LOOK; away++) {
        if (expected >= begin + away && is_wanted(follow, expected - away, end, units)) {
            return expected - away;
        }
        if (is_wanted(follow, expected + away, end, units)) {
            return expected + away;
        }
    }
    return DAO_SCRIPT_NONE;
}

/* Returns true if a place, and those before it, have the latest sizes. */
static bool ends_run(const dao_script_t *script, uint32_t place, const dao_follow_position_t *position)
{
    for (uint32_t i = 0; i < DAO_FOLLOW_RUN; i++) {
        if (!has_size(script, place - i, position->latest_units[DAO_FOLLOW_RUN - 1 - i])) {
            return false;
        }
    }
    return true;
}

/* Returns the place nearest to the expected one that ends a run of the latest sizes. */
static uint32_t find_run(const dao_follow_t *follow, uint32_t slot)
{
    const dao_follow_position_t *position = &follow->positions[slot];
    uint32_t begin = follow->script->slot_begin[slot], end = follow->script->slot_begin[slot + 1];
    uint32_t nearest = DAO_SCRIPT_NONE, distance = UINT32_MAX;
    for (uint32_t place = begin + DAO_FOLLOW_RUN - 1; place < end; place++) {
        uint32_t away = place > position->expected ? place - position->expected : position->expected - place;
        if (away < distance && ends_run(follow->script, place, position)) {
            nearest = place;
            distance = away;
        }
    }
    return nearest;
}

/* ---- requests ---- */

static void remember(dao_follow_position_t *position, uint64_t units)
{
    memmove(&position->latest_units[0], &position->latest_units[1],
            (DAO_FOLLOW_RUN - 1) * sizeof(position->latest_units[0]));
    position->latest_units[DAO_FOLLOW_RUN - 1] = units;
}

/* A request that is neither at the expected place nor at the shifted one. Returns its place, or
   DAO_SCRIPT_NONE. */
static uint32_t find_unexpected(dao_follow_t *follow, uint32_t slot, uint64_t units)
{
    dao_follow_position_t *position = &follow->positions[slot];
    uint32_t end = follow->script->slot_begin[slot + 1];
    uint32_t place = find_near(follow, slot, units);
    if (place != DAO_SCRIPT_NONE) {
        position->shifted = place > position->expected ? place + 1 : position->shifted;
        position->miss_run = 0;
        return place;
    }
    uint32_t next = position->shifted != DAO_SCRIPT_NONE ? position->shifted : position->expected;
    position->shifted = next < end ? next + 1 : end;
    if (next < end && !is_found(follow, next) && may_be_resized(follow->script, next, units)) {
        return next;
    }
    position->miss_run++;
    if (position->miss_run < DAO_FOLLOW_RUN || !dao_is_power_of_two(position->miss_run)) {
        return DAO_SCRIPT_NONE;
    }
    place = find_run(follow, slot);
    if (place == DAO_SCRIPT_NONE) {
        return DAO_SCRIPT_NONE;
    }
    position->expected = place + 1;
    position->shifted = DAO_SCRIPT_NONE;
    return is_found(follow, place) ? DAO_SCRIPT_NONE : place;
}

/* Returns the place in the order that a request is for, or DAO_SCRIPT_NONE. */
static uint32_t find_place(dao_follow_t *follow, uint32_t slot, uint64_t units)
{
    dao_follow_position_t *position = &follow->positions[slot];
    uint32_t end = follow->script->slot_begin[slot + 1];
    remember(position, units);
    while (position->expected < end && is_found(follow, position->expected)) {
        position->expected++;
    }
    uint32_t place = is_wanted(follow, position->expected, end, units)  ? position->expected
                     : is_wanted(follow, position->shifted, end, units) ? position->shifted
                                                                        : DAO_SCRIPT_NONE;
    if (place == DAO_SCRIPT_NONE) {
        return find_unexpected(follow, slot, units);
    }
    position->expected = place + 1;
    position->shifted = DAO_SCRIPT_NONE;
    position->miss_run = 0;
    return place;
}

uint32_t dao_follow_next(dao_follow_t *follow, uint32_t slot, uint64_t key, uint64_t size_bytes)
{
    const dao_script_t *script = follow->script;
    uint32_t entry = DAO_SCRIPT_NONE;
    DAO_ASSERT(slot < DAO_LIFETIME_SLOT_COUNT);
    if (script == NULL) {
        return DAO_SCRIPT_NONE;
    }
    if (key != 0) {
        uint32_t *turn = &follow->key_turns[dao_script_key_slot(script, key)];
        entry = *turn;
        *turn = entry != DAO_SCRIPT_NONE ? script->key_next[entry] : DAO_SCRIPT_NONE;
    } else {
        uint32_t place = find_place(follow, slot, dao_lifetime_units(size_bytes));
        entry = place != DAO_SCRIPT_NONE ? script->order[place] : DAO_SCRIPT_NONE;
    }
    if (entry != DAO_SCRIPT_NONE) {
        DAO_ASSERT(follow->serials[entry] != follow->serial);
        follow->serials[entry] = follow->serial;
    }
    return entry;
}

/* ---- the check ---- */

bool dao_follow_is_valid(const dao_follow_t *follow)
{
    const dao_script_t *script = follow->script;
    for (uint32_t i = 0; script != NULL && i < DAO_LIFETIME_SLOT_COUNT; i++) {
        const dao_follow_position_t *position = &follow->positions[i];
        uint32_t begin = script->slot_begin[i], end = script->slot_begin[i + 1];
        bool is_shifted = position->shifted != DAO_SCRIPT_NONE;
        if (position->expected < begin || position->expected > end ||
            (is_shifted && (position->shifted < begin || position->shifted > end))) {
            return false;
        }
    }
    return true;
}

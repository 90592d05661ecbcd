/* SPDX-License-Identifier: Apache-2.0 */
/* Learning: a script and a recording become one script.

       script      a b c d      follow.h says which entry each item of the recording is, or that it is new
       recording   a x c'       entries keep their order, a new item stands behind that of the item before it
                   -------
       new         a b x c d    times of either are mapped to positions: an end becomes the position of what
                                was asked for next, so that no life is taken to be shorter than it was */
#include "planning/steps/follow.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Where more than this part more is alive at one time than in the recording alone, the recording is the
   script: buffers that were larger or lived longer at one time would keep their room for ever. */
#define EXCESS_PART_MAX 16u

typedef struct merge {
    const dao_script_t *old;
    const dao_lifetimes_t *recording;
    uint32_t *map;        /* of each item: its entry, or none */
    uint32_t *old_places; /* of each old entry, kept or not, and of their end */
    uint32_t *new_places; /* of each item, and of their end */
    uint32_t *ends;       /* of each time of the recording: its position */
    uint32_t *begins;     /* the same for begins */
    uint8_t *is_asked;    /* of each old entry: the recording has it */
    uint32_t count;       /* of the new script */
} merge_t;

static void merge_finish(merge_t *merge)
{
    dao_host_free(merge->map);
    dao_host_free(merge->old_places);
    dao_host_free(merge->new_places);
    dao_host_free(merge->ends);
    dao_host_free(merge->begins);
    dao_host_free(merge->is_asked);
}

static dao_status_t merge_init(merge_t *merge, const dao_script_t *old, const dao_lifetimes_t *recording)
{
    size_t old_room = (size_t)old->count + 1, new_room = (size_t)recording->count + 1;
    *merge = (merge_t){.old = old,
                       .recording = recording,
                       .map = dao_host_calloc(new_room, sizeof(uint32_t)),
                       .old_places = dao_host_calloc(old_room, sizeof(uint32_t)),
                       .new_places = dao_host_calloc(new_room, sizeof(uint32_t)),
                       .ends = dao_host_calloc(new_room, sizeof(uint32_t)),
                       .begins = dao_host_calloc(new_room, sizeof(uint32_t)),
                       .is_asked = dao_host_calloc(old_room, 1)};
    if (merge->map == NULL || merge->old_places == NULL || merge->new_places == NULL || merge->ends == NULL ||
        merge->begins == NULL || merge->is_asked == NULL) {
        merge_finish(merge);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to learn a step");
    }
    return DAO_OK;
}

/* ---- which entry an item is ---- */

/* Follows the old script through the recording. DAO_ERR_NO_HOST_MEMORY. */
static dao_status_t map_items(merge_t *merge)
{
    dao_follow_t follow;
    dao_status_t status = dao_follow_init(&follow, merge->old);
    if (status != DAO_OK) {
        return status;
    }
    for (uint32_t i = 0; i < merge->recording->count; i++) {
        const dao_lifetime_t *item = &merge->recording->items[i];
        merge->map[i] = dao_follow_next(&follow, item->slot, item->key, item->size_bytes);
        if (merge->map[i] != DAO_SCRIPT_NONE) {
            merge->is_asked[merge->map[i]] = true;
        }
    }
    dao_follow_finish(&follow);
    return DAO_OK;
}

/* ---- positions ---- */

static bool is_kept(const merge_t *merge, uint32_t entry)
{
    return merge->is_asked[entry] || merge->old->entries[entry].absent_count + 1u < DAO_SCRIPT_ABSENT_MAX;
}

/* Finds the position of every entry and item. An item that is new stands behind the entry of the one before
 *
   it. */
static void place_all(merge_t *merge)
{
    uint32_t item_count = merge->recording->count, old_count = merge->old->count;
    /* old_places first counts the new items that stand before each entry, and then adds up. */
    uint32_t anchor = 0; /* the entry that new items stand before */
    for (uint32_t i = 0; i < item_count; i++) {
        anchor = merge->map[i] != DAO_SCRIPT_NONE ? merge->map[i] + 1 : anchor;
        merge->old_places[anchor] += merge->map[i] == DAO_SCRIPT_NONE;
    }
    uint32_t place = 0;
    for (uint32_t entry = 0; entry <= old_count; entry++) {
        uint32_t new_count = merge->old_places[entry];
        merge->old_places[entry] = place; /* of the first new item before it, for now */
        place += new_count + (entry < old_count && is_kept(merge, entry));
    }
    merge->count = place;
    anchor = 0;
    for (uint32_t i = 0; i < item_count; i++) {
        if (merge->map[i] == DAO_SCRIPT_NONE) {
            merge->new_places[i] = merge->old_places[anchor]++;
        } else {
            anchor = merge->map[i] + 1;
        }
    }
    for (uint32_t i = 0; i < item_count;
         i++) { /* all new items are placed: old_places are the entries' own */
        if (merge->map[i] != DAO_SCRIPT_NONE) {
            merge->new_places[i] = merge->old_places[merge->map[i]];
        }
    }
    merge->old_places[old_count] = merge->count;
    merge->new_places[item_count] = merge->count;
}

/* Maps the recording's times. Where items with keys came in another order, lives are taken to be longer. */
static void map_times(merge_t *merge)
{
    uint32_t highest = 0;
    for (uint32_t time = 0; time <= merge->recording->count; time++) {
        uint32_t place = merge->new_places[time];
        merge->ends[time] = place > highest ? place : highest;
        highest = place + 1 > highest ? place + 1 : highest;
    }
    uint32_t lowest = merge->count;
    for (uint32_t time = merge->recording->count + 1; time-- > 0;) {
        lowest = merge->new_places[time] < lowest ? merge->new_places[time] : lowest;
        merge->begins[time] = lowest;
    }
}

/* Maps an end by the positions of times; ends in the next step are counted on from the end of this
   one. */
static uint32_t map_end(const merge_t *merge, const uint32_t *places, uint32_t time_count, uint32_t end)
{
    if (end == DAO_LIFETIME_OPEN || end <= time_count) {
        return end == DAO_LIFETIME_OPEN ? end : places[end];
    }
    uint32_t carried = end - time_count < time_count ? end - time_count : time_count;
    return merge->count + places[carried];
}

/* ---- entries ---- */

static dao_script_entry_t entry_of(const dao_lifetime_t *item, uint32_t begin, uint32_t end)
{
    return (dao_script_entry_t){.most_bytes = item->size_bytes,
                                .least_bytes = item->size_bytes,
                                .key = item->key,
                                .offset_bytes = DAO_PLAN_NOWHERE,
                                .begin = begin,
                                .end = end,
                                .slot = item->slot,
                                .alignment_shift = item->alignment_shift};
}

/* Adds what a step has seen of an entry; true if that changes more than its smallest size. */
static bool entry_join(dao_script_entry_t *entry, const dao_script_entry_t *seen)
{
    dao_script_entry_t before = *entry;
    entry->most_bytes = seen->most_bytes > entry->most_bytes ? seen->most_bytes : entry->most_bytes;
    entry->least_bytes = seen->least_bytes < entry->least_bytes ? seen->least_bytes : entry->least_bytes;
    entry->begin = seen->begin < entry->begin ? seen->begin : entry->begin;
    if (entry->end == DAO_LIFETIME_OPEN || (seen->end != DAO_LIFETIME_OPEN && seen->end > entry->end)) {
        entry->end = seen->end;
    }
    entry->alignment_shift =
        seen->alignment_shift > entry->alignment_shift ? seen->alignment_shift : entry->alignment_shift;
    entry->absent_count = 0;
    return entry->most_bytes != before.most_bytes || entry->begin != before.begin ||
           entry->end != before.end || entry->alignment_shift != before.alignment_shift;
}

/* Returns the end of an item by positions. What a first step leaves alive is taken to stay, what a later
   one leaves is taken to be replaced as the next begins, until more is known. */
static uint32_t map_item_end(const merge_t *merge, uint32_t end)
{
    return end == DAO_LIFETIME_OPEN ? merge->count + 1
                                    : map_end(merge, merge->ends, merge->recording->count, end);
}

static void fill_entries(const merge_t *merge, dao_script_t *script)
{
    for (uint32_t i = 0; i < merge->old->count; i++) {
        if (is_kept(merge, i)) {
            dao_script_entry_t *entry = &script->entries[merge->old_places[i]];
            *entry = merge->old->entries[i];
            entry->offset_bytes = DAO_PLAN_NOWHERE;
            entry->begin = merge->old_places[entry->begin];
            entry->end = map_end(merge, merge->old_places, merge->old->count, entry->end);
            entry->absent_count++;
        }
    }
    for (uint32_t i = 0; i < merge->recording->count; i++) {
        const dao_lifetime_t *item = &merge->recording->items[i];
        dao_script_entry_t *entry = &script->entries[merge->new_places[i]];
        dao_script_entry_t seen = entry_of(item, merge->begins[i], map_item_end(merge, item->end));
        if (merge->map[i] == DAO_SCRIPT_NONE) {
            *entry = seen;
            script->changed_count++;
        } else {
            script->changed_count += entry_join(entry, &seen);
        }
    }
}

/* ---- all of it ---- */

static dao_status_t learn_alone(const dao_lifetimes_t *recording, dao_script_t **out_script)
{
    dao_script_t *script;
    dao_status_t status = dao_script_create(recording->count, &script);
    if (status != DAO_OK) {
        return status;
    }
    for (uint32_t i = 0; i < recording->count; i++) {
        script->entries[i] = entry_of(&recording->items[i], i, recording->items[i].end);
    }
    script->changed_count = script->count;
    *out_script = script;
    return DAO_OK;
}

static dao_status_t learn_more(const dao_script_t *old, const dao_lifetimes_t *recording,
                               dao_script_t **out_script)
{
    merge_t merge;
    dao_status_t status = merge_init(&merge, old, recording);
    if (status != DAO_OK) {
        return status;
    }
    status = map_items(&merge);
    if (status == DAO_OK) {
        place_all(&merge);
        map_times(&merge);
        status = merge.count <= DAO_LIFETIME_COUNT_MAX ? dao_script_create(merge.count, out_script)
                                                       : DAO_ERR_LIMIT;
    }
    if (status == DAO_OK) {
        fill_entries(&merge, *out_script);
    }
    merge_finish(&merge);
    return status;
}

/* Returns true if what was learnt before makes a script too large for the steps that come now. */
static bool is_excess(const dao_script_t *more, const dao_script_t *alone)
{
    return more->alive_bytes > alone->alive_bytes + alone->alive_bytes / EXCESS_PART_MAX;
}

/* Ends a script that has its entries, or destroys it; returns status back, or what failed. */
static dao_status_t complete(dao_status_t status, dao_script_t **script)
{
    if (status == DAO_OK) {
        status = dao_script_index(*script);
    }
    if (status != DAO_OK) {
        dao_script_destroy(*script);
        *script = NULL;
    }
    return status;
}

dao_status_t dao_script_learn(const dao_script_t *old, const dao_lifetimes_t *recording,
                              dao_script_t **out_script)
{
    DAO_ASSERT(recording->count > 0);
    dao_script_t *alone = NULL, *more = NULL;
    dao_status_t status = learn_alone(recording, &alone);
    status = complete(status, &alone);
    if (status != DAO_OK || old == NULL || old->count == 0) {
        *out_script = status == DAO_OK ? alone : *out_script;
        return status;
    }
    status = learn_more(old, recording, &more);
    status = complete(status, &more);
    if (status != DAO_OK && status != DAO_ERR_LIMIT) {
        dao_script_destroy(alone);
        return status;
    }
    bool has_little_in_common = status == DAO_ERR_LIMIT || is_excess(more, alone);
    dao_script_destroy(has_little_in_common ? more : alone);
    *out_script = has_little_in_common ? alone : more;
    return DAO_OK;
}

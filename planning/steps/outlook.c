/* SPDX-License-Identifier: Apache-2.0 */
/* The arena is cut into stretches of equal size, and each has the entries that lie in it, wholly or in part,
   in order of their begin:

       stretch 0   entries 0, 4, 7, ...        asked about [offset, offset + size) from a time on, the entries from there
       stretch 1   entries 0, 1, 9, ...        on are looked at in each stretch that it touches
       ...                                                                                                             */
#include "planning/steps/outlook.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Entries that one question looks at. */
#define LOOK_COUNT_MAX 1024u

static uint64_t bytes_of(const dao_script_entry_t *entry)
{
    return dao_lifetime_units(entry->most_bytes) * DAO_LIFETIME_UNIT_BYTES;
}

static uint32_t stretch_of(const dao_outlook_t *outlook, uint64_t offset_bytes)
{
    return (uint32_t)(offset_bytes / outlook->stretch_bytes);
}

static uint32_t last_stretch(const dao_outlook_t *outlook, uint64_t offset_bytes, uint64_t size_bytes)
{
    uint32_t last = stretch_of(outlook, offset_bytes + size_bytes - 1);
    return last < DAO_OUTLOOK_STRETCH_COUNT ? last : DAO_OUTLOOK_STRETCH_COUNT - 1;
}

/* Calls for each stretch of each entry that has a place. */
static void count_or_fill(dao_outlook_t *outlook, uint32_t *counts)
{
    for (uint32_t i = 0; i < outlook->script->count; i++) {
        const dao_script_entry_t *entry = &outlook->script->entries[i];
        if (!dao_script_is_placed(entry)) {
            continue;
        }
        uint32_t last = last_stretch(outlook, entry->offset_bytes, bytes_of(entry));
        for (uint32_t stretch = stretch_of(outlook, entry->offset_bytes); stretch <= last; stretch++) {
            if (outlook->entries != NULL) {
                outlook->entries[counts[stretch]] = i;
            }
            counts[stretch]++;
        }
    }
}

dao_status_t dao_outlook_init(dao_outlook_t *outlook, const dao_script_t *script)
{
    uint32_t counts[DAO_OUTLOOK_STRETCH_COUNT] = {0};
    *outlook = (dao_outlook_t){.script = script,
                               .stretch_bytes = script->arena_bytes / DAO_OUTLOOK_STRETCH_COUNT + 1};
    count_or_fill(outlook, counts);
    outlook->firsts = dao_host_calloc(DAO_OUTLOOK_STRETCH_COUNT + 1, sizeof(*outlook->firsts));
    uint32_t all_count = 0;
    for (uint32_t stretch = 0; stretch < DAO_OUTLOOK_STRETCH_COUNT && outlook->firsts != NULL; stretch++) {
        outlook->firsts[stretch] = all_count;
        all_count += counts[stretch];
        outlook->firsts[stretch + 1] = all_count;
        counts[stretch] = outlook->firsts[stretch];
    }
    outlook->entries = dao_host_calloc((size_t)all_count + 1, sizeof(*outlook->entries));
    if (outlook->firsts == NULL || outlook->entries == NULL) {
        dao_outlook_finish(outlook);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to serve a plan");
    }
    count_or_fill(outlook, counts);
    return DAO_OK;
}

void dao_outlook_finish(dao_outlook_t *outlook)
{
    dao_host_free(outlook->firsts);
    dao_host_free(outlook->entries);
    *outlook = (dao_outlook_t){0};
}

/* Finds the first entry of a stretch that begins at a time or later. Entries stand in order of their index,
   and none begins after it: that is looked for, so that those which begin a little earlier may be among them.
   */
static uint32_t first_from(const dao_outlook_t *outlook, uint32_t stretch, uint32_t from)
{
    uint32_t low = outlook->firsts[stretch], high = outlook->firsts[stretch + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (outlook->entries[middle] < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t dao_outlook_harm(const dao_outlook_t *outlook, uint64_t offset_bytes, uint64_t size_bytes,
                          uint32_t from, uint32_t until)
{
    uint32_t looked_count = 0;
    uint64_t harm = 0;
    uint32_t last = last_stretch(outlook, offset_bytes, size_bytes);
    for (uint32_t stretch = stretch_of(outlook, offset_bytes); stretch <= last; stretch++) {
        for (uint32_t i = first_from(outlook, stretch, from); i < outlook->firsts[stretch + 1]; i++) {
            const dao_script_entry_t *entry = &outlook->script->entries[outlook->entries[i]];
            if (outlook->entries[i] >= until) {
                break;
            }
            if (++looked_count > LOOK_COUNT_MAX) {
                return UINT64_MAX;
            }
            bool is_apart = entry->offset_bytes >= offset_bytes + size_bytes ||
                            offset_bytes >= entry->offset_bytes + bytes_of(entry);
            harm = !is_apart && bytes_of(entry) > harm ? bytes_of(entry) : harm;
        }
    }
    return harm;
}

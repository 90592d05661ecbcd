/* SPDX-License-Identifier: Apache-2.0 */
/* A script: what a step is expected to ask for, as one that was recorded did, and where each of its buffers
   lies in an arena. It is made of a recording or read from a file, gets its offsets once, and does not change
   afterwards.

       recorded lifetimes ---> script ---plan---> offsets ---follow.h---> which buffer is asked for?

   Entries stand in the order in which they are asked for. Times are indices of entries, as in lifetimes.h. */
#ifndef DAO_PLANNING_SCRIPT_H
#define DAO_PLANNING_SCRIPT_H

#include "planning/offsets/methods/lifetime_bins.h"
#include "planning/steps/lifetimes.h"

#include <dao/observe.h>
#include <dao/plan.h>

#include <stddef.h>

/* No entry. */
#define DAO_SCRIPT_NONE UINT32_MAX

/* A buffer whose size differs by at most this factor from what is expected was resized; else it is another
   one. */
#define DAO_SCRIPT_RESIZED_FACTOR_MAX 2u

typedef struct dao_script_entry {
    uint64_t size_bytes;   /* as asked for */
    uint64_t key;          /* who asked; 0: nobody said */
    uint64_t offset_bytes; /* in the arena, or DAO_PLAN_NOWHERE: it has no place there */
    uint32_t end;          /* it is alive from its index up to here; above the count of entries: into the next
                              step; or DAO_LIFETIME_OPEN: it was not freed while anybody looked */
    uint16_t slot;
    uint8_t alignment_shift;
} dao_script_entry_t;

/* A key and the first entry with it. */
typedef struct dao_script_key {
    uint64_t key; /* 0: an empty slot */
    uint32_t first;
} dao_script_key_t;

typedef struct dao_script {
    dao_script_entry_t *entries;
    uint32_t count;
    uint64_t arena_bytes; /* the plan's peak */
    uint64_t bound_bytes; /* no plan of these lifetimes is smaller */

    /* Entries without a key: their indices, slot by slot, each in order. */
    uint32_t *order;
    uint32_t slot_begin[DAO_LIFETIME_SLOT_COUNT + 1];

    /* Entries with a key: a table of keys, open addressing; the next entry with the same key. */
    dao_script_key_t *keys; /* key_mask + 1 of them */
    uint32_t *key_next;     /* for each entry */
    uint32_t key_mask;
} dao_script_t;

/* Makes a script with room for entries, all zero. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_script_create(uint32_t count, dao_script_t **out_script);

/* Fills a script in that has room for just the items of a recording. What was not freed gets an end that the
   caller says. None has an offset yet. */
void dao_script_fill(dao_script_t *script, const dao_lifetimes_t *recording, uint32_t open_end);

/* Makes order and keys, once all entries are there. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_script_index(dao_script_t *script);

void dao_script_destroy(dao_script_t *script); /* NULL is allowed */

/* ---- offsets ---- */

/* Makes a planner for all entries that can have an offset. Every life is taken to be longer by `margin`
   allocations. The planner's answers. */
DAO_NODISCARD dao_status_t dao_script_planner(const dao_script_t *script, uint32_t margin,
                                              const dao_planner_config_t *config,
                                              dao_planner_t **out_planner);

/* Returns the entries the offsets that such a planner has found. The planner's answers. */
DAO_NODISCARD dao_status_t dao_script_place(dao_script_t *script, dao_planner_t *planner);

/* Makes lifetime bins for all entries that can have a place, instead of offsets. As dao_bin_plan_init(). */
DAO_NODISCARD dao_status_t dao_script_bins(const dao_script_t *script, uint32_t margin,
                                           dao_bin_plan_t *out_plan);

/* Checks that the offsets that are there are a plan, and sets what follows from them. DAO_ERR_INVALID, which
   says what is wrong. */
DAO_NODISCARD dao_status_t dao_script_adopt(dao_script_t *script);

/* ---- looking up ---- */

/* Returns the slot of a key, or of where it would go. The key is not 0, and the script has entries with
   keys. */
uint32_t dao_script_key_slot(const dao_script_t *script, uint64_t key);

/* Returns true if a size takes as much as that of an entry. */
static inline bool dao_script_has_size(const dao_script_entry_t *entry, uint64_t units)
{
    return units == dao_lifetime_units(entry->size_bytes);
}

static inline bool dao_script_is_placed(const dao_script_entry_t *entry)
{
    return entry->offset_bytes != DAO_PLAN_NOWHERE;
}

/* Two entries that share bytes are never alive at the same time; and all that this file says. What lacks
   memory to be looked at is taken for good. O(n log n). */
bool dao_script_is_valid(const dao_script_t *script);

/* ---- files ---- */

/* Writes a script as text. What `write` answers; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_script_write(const dao_script_t *script, dao_write_t write, void *user);

/* A text that is read: where reading goes on, and which line that is. */
typedef struct dao_script_text {
    const char *next;
    const char *end;
    uint64_t line;
} dao_script_text_t;

/* Reads the next script that dao_script_write() wrote, and trusts nothing in it. DAO_ERR_PARSE with the line
   and what is wrong there; DAO_ERR_INVALID for offsets that are no plan; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_script_read(dao_script_text_t *text, dao_script_t **out_script);

#endif

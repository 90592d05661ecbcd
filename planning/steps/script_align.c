/* SPDX-License-Identifier: Apache-2.0 */
/* Which entry of a script is each item of a recording? Items with a key by their key and how often it came;
   the others, lane by lane, by the alignment that has most in common, of what is left once the two agree at
   either end:

       script      a b c d e f        an item is one with an entry (equal sizes are worth most), or is new, or an entry is
       recording   a b x d' f         absent; only places near the straight line between the two corners are looked at,
                   = = + ~   =        so that time and memory stay within bounds

   The order of items without a key is never changed by it. */
#include "planning/steps/script.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

/* What a pair is worth: of equal sizes, of sizes within a factor of two, of any; and what an item or entry
   alone costs. */
#define WORTH_EQUAL   4
#define WORTH_SIMILAR (-1)
#define WORTH_OTHER   (-4)
#define WORTH_ALONE   (-2)
#define WORTH_NEVER   (-(1 << 30))

/* Places that are looked at, at most and for each item at least. */
#define CELL_COUNT_MAX ((uint64_t)8 << 20)
#define BAND_MIN       16u

/* How a cell was reached. */
typedef enum step { STEP_PAIR, STEP_NEW, STEP_ABSENT } step_t;

/* One lane. */
typedef struct lane {
    const dao_script_t *script;
    const dao_lifetimes_t *recording;
    const uint32_t *entries; /* that are left, in order */
    const uint32_t *items;
    uint32_t entry_count;
    uint32_t item_count;
} lane_t;

/* The cells of a lane: row j stands for j items, and has columns for the entry counts first(j) .. first(j) +
   width - 1. */
typedef struct band {
    uint32_t half;
    uint32_t width;
    uint8_t *steps;
    int32_t *worths[2]; /* of a row and of the one before it */
} band_t;

static bool is_equal(const lane_t *lane, uint32_t entry, uint32_t item)
{
    return dao_script_size_is_usual(&lane->script->entries[lane->entries[entry]],
                                    dao_lifetime_units(lane->recording->items[lane->items[item]].size_bytes));
}

static int32_t worth_of(const lane_t *lane, uint32_t entry, uint32_t item)
{
    if (is_equal(lane, entry, item)) {
        return WORTH_EQUAL;
    }
    uint64_t planned = dao_lifetime_units(lane->script->entries[lane->entries[entry]].most_bytes);
    uint64_t asked = dao_lifetime_units(lane->recording->items[lane->items[item]].size_bytes);
    return asked <= 2 * planned && planned <= 2 * asked ? WORTH_SIMILAR : WORTH_OTHER;
}

/* ---- what both begin and end with ---- */

static void trim(lane_t *lane, uint32_t *map)
{
    while (lane->entry_count > 0 && lane->item_count > 0 && is_equal(lane, 0, 0)) {
        map[*lane->items++] = *lane->entries++;
        lane->entry_count--;
        lane->item_count--;
    }
    while (lane->entry_count > 0 && lane->item_count > 0 &&
           is_equal(lane, lane->entry_count - 1, lane->item_count - 1)) {
        map[lane->items[--lane->item_count]] = lane->entries[--lane->entry_count];
    }
}

/* ---- what is between ---- */

/* The first column of a row; it may lie before 0. */
static int64_t first_of(const lane_t *lane, const band_t *band, uint32_t row)
{
    DAO_ASSERT(lane->item_count > 0);
    return (int64_t)((uint64_t)row * lane->entry_count / lane->item_count) - (int64_t)band->half;
}

static dao_status_t band_init(const lane_t *lane, band_t *band)
{
    uint64_t rows = (uint64_t)lane->item_count + 1;
    uint64_t width = CELL_COUNT_MAX / rows;
    uint64_t whole = 2 * (uint64_t)lane->entry_count + 1;
    width = width < whole ? width : whole;
    if (width < 2 * BAND_MIN + 1 && width < whole) {
        return DAO_ERR_LIMIT;
    }
    band->half = (uint32_t)((width - 1) / 2);
    band->width = 2 * band->half + 1;
    band->steps = dao_host_calloc((size_t)rows, band->width);
    band->worths[0] = dao_host_calloc(band->width, sizeof(int32_t));
    band->worths[1] = dao_host_calloc(band->width, sizeof(int32_t));
    return band->steps != NULL && band->worths[0] != NULL && band->worths[1] != NULL ? DAO_OK
                                                                                     : DAO_ERR_NO_HOST_MEMORY;
}

static void band_finish(band_t *band)
{
    dao_host_free(band->steps);
    dao_host_free(band->worths[0]);
    dao_host_free(band->worths[1]);
}

/* The worth of a cell of a row, by its column; outside of the band nothing is worth anything. */
static int32_t worth_at(const band_t *band, const int32_t *worths, int64_t first, int64_t column)
{
    return column >= first && column < first + band->width ? worths[column - first] : WORTH_NEVER;
}

/* Fills a row from the one before it. */
static void fill_row(const lane_t *lane, band_t *band, uint32_t row)
{
    int64_t first = first_of(lane, band, row);
    int64_t first_before = row > 0 ? first_of(lane, band, row - 1) : 0;
    int32_t *worths = band->worths[row % 2];
    const int32_t *before = band->worths[(row + 1) % 2];
    uint8_t *steps = band->steps + (size_t)row * band->width;
    for (uint32_t k = 0; k < band->width; k++) {
        int64_t column = first + k;
        worths[k] = column == 0 && row == 0 ? 0 : WORTH_NEVER;
        if (column < 0 || column > lane->entry_count) {
            continue;
        }
        if (column > 0 && k > 0 && worths[k - 1] + WORTH_ALONE > worths[k]) {
            worths[k] = worths[k - 1] + WORTH_ALONE;
            steps[k] = STEP_ABSENT;
        }
        if (row > 0 && worth_at(band, before, first_before, column) + WORTH_ALONE > worths[k]) {
            worths[k] = worth_at(band, before, first_before, column) + WORTH_ALONE;
            steps[k] = STEP_NEW;
        }
        if (row > 0 && column > 0 && worth_at(band, before, first_before, column - 1) > WORTH_NEVER) {
            int32_t pair = worth_at(band, before, first_before, column - 1) +
                           worth_of(lane, (uint32_t)(column - 1), row - 1);
            if (pair >= worths[k]) {
                worths[k] = pair;
                steps[k] = STEP_PAIR;
            }
        }
    }
}

/* Follows the steps back from the end. */
static void trace_back(const lane_t *lane, const band_t *band, uint32_t *map)
{
    uint32_t row = lane->item_count;
    uint32_t column = lane->entry_count;
    while (row > 0 || column > 0) {
        int64_t k = (int64_t)column - first_of(lane, band, row);
        DAO_ASSERT(k >= 0 && k < band->width);
        step_t step = (step_t)band->steps[(size_t)row * band->width + (size_t)k];
        if (step == STEP_PAIR) {
            map[lane->items[row - 1]] = lane->entries[column - 1];
        }
        row -= step != STEP_ABSENT;
        column -= step != STEP_NEW;
    }
}

static dao_status_t align_lane(lane_t *lane, uint32_t *map)
{
    trim(lane, map);
    if (lane->entry_count == 0 || lane->item_count == 0) {
        return DAO_OK;
    }
    band_t band = {0};
    dao_status_t status = band_init(lane, &band);
    if (status == DAO_OK) {
        for (uint32_t row = 0; row <= lane->item_count; row++) {
            fill_row(lane, &band, row);
        }
        int64_t corner = (int64_t)lane->entry_count - first_of(lane, &band, lane->item_count);
        DAO_ASSERT(corner >= 0 && corner < band.width);
        if (band.worths[lane->item_count % 2][corner] > WORTH_NEVER) {
            trace_back(lane, &band, map);
        } else {
            status = DAO_ERR_LIMIT;
        }
    }
    band_finish(&band);
    return status;
}

/* ---- all of it ---- */

static dao_status_t align_keys(const dao_script_t *script, const dao_lifetimes_t *recording, uint32_t *map)
{
    uint32_t *next = dao_host_calloc((size_t)script->key_mask + 1, sizeof(*next));
    if (next == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    for (uint32_t slot = 0; slot <= script->key_mask; slot++) {
        next[slot] = script->keys[slot].key != 0 ? script->keys[slot].first : DAO_SCRIPT_NONE;
    }
    for (uint32_t i = 0; i < recording->count; i++) {
        if (recording->items[i].key != 0) {
            uint32_t *entry = &next[dao_script_key_slot(script, recording->items[i].key)];
            map[i] = *entry;
            *entry = *entry != DAO_SCRIPT_NONE ? script->key_next[*entry] : DAO_SCRIPT_NONE;
        }
    }
    dao_host_free(next);
    return DAO_OK;
}

static dao_status_t align_lanes(const dao_script_t *script, const dao_lifetimes_t *recording, uint32_t *items,
                                uint32_t *map)
{
    dao_status_t status = DAO_OK;
    for (uint32_t number = 0; number < DAO_LIFETIME_LANE_COUNT && status == DAO_OK; number++) {
        lane_t lane = {.script = script,
                       .recording = recording,
                       .entries = script->order + script->lane_begin[number],
                       .entry_count = script->lane_begin[number + 1] - script->lane_begin[number],
                       .items = items};
        for (uint32_t i = 0; i < recording->count; i++) {
            if (recording->items[i].key == 0 && recording->items[i].lane == number) {
                items[lane.item_count++] = i;
            }
        }
        status = align_lane(&lane, map);
    }
    return status;
}

dao_status_t dao_script_align(const dao_script_t *script, const dao_lifetimes_t *recording, uint32_t *map)
{
    DAO_ASSERT(recording->count > 0 && script->count > 0);
    uint32_t *items = dao_host_calloc(recording->count, sizeof(*items));
    memset(map, 0xff, (size_t)recording->count * sizeof(*map)); /* DAO_SCRIPT_NONE */
    dao_status_t status = items != NULL ? align_keys(script, recording, map) : DAO_ERR_NO_HOST_MEMORY;
    if (status == DAO_OK) {
        status = align_lanes(script, recording, items, map);
    }
    dao_host_free(items);
    return status == DAO_ERR_NO_HOST_MEMORY ? dao_error(status, "no host memory to compare two steps")
                                            : status;
}

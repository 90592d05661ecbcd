/* SPDX-License-Identifier: Apache-2.0 */
/* A place's counters, the ring of latest frees, and the messages of allocators. */
#include "allocators/accounting/ledger.h"

#include "allocators/accounting/tag_names.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

dao_status_t dao_ledger_init(dao_ledger_t *ledger, const char *name)
{
    *ledger = (dao_ledger_t){.name = dao_host_strdup(name)};
    if (ledger->name == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", name);
    }
    return dao_tags_create(&ledger->tags);
}

void dao_ledger_finish(dao_ledger_t *ledger)
{
    if (ledger->budget != NULL) {
        dao_budget_give(ledger->budget, ledger->stats.reserved_bytes);
        ledger->budget = NULL;
    }
    dao_tags_destroy(ledger->tags);
    ledger->tags = NULL;
    dao_host_free(ledger->name);
    ledger->name = NULL;
}

void dao_ledger_init_part(dao_ledger_t *part, const dao_ledger_t *whole)
{
    *part = (dao_ledger_t){.name = whole->name, .tags = whole->tags};
}

bool dao_ledger_freed_lately(const dao_ledger_t *ledger, const void *address)
{
    for (uint32_t i = 0; i < DAO_LEDGER_FREE_COUNT; i++) {
        if (ledger->latest_frees[i] == address && address != NULL) {
            return true;
        }
    }
    return false;
}

void dao_ledger_log_free(const char *name, const void *address, dao_status_t status)
{
    dao_log(DAO_LOG_LEVEL_ERROR, "%s: %p cannot be freed: %s (deferred free)", name, address,
            dao_status_text(status));
}

/* ---- what a failed allocation says ---- */

/* Longest list of the tags that hold most. */
#define TOP_TEXT_BYTES 320

/* Bytes of any number's digits, the closing zero included. */
#define LIMIT_TEXT_BYTES 24

/* Longest text about an alignment. */
#define ALIGNMENT_TEXT_BYTES 48

/* Longest sentence about what would help. */
#define HELP_TEXT_BYTES 192

/* Writes the tags that hold most: `; most is held for "weights" (4096 bytes), "cache" (256 bytes)`; ""
   without tags. */
static const char *format_top(const dao_ledger_t *ledger, char out_text[TOP_TEXT_BYTES])
{
    dao_tag_share_t top[DAO_TAGS_TOP_COUNT];
    uint32_t count = dao_tags_top(ledger->tags, top);
    size_t length = 0;
    out_text[0] = '\0';
    for (uint32_t i = 0; i < count && length < TOP_TEXT_BYTES; i++) {
        int written =
            snprintf(out_text + length, TOP_TEXT_BYTES - length, "%s\"%s\" (%" PRIu64 " bytes)",
                     i == 0 ? "; most is held for " : ", ", dao_tag_names_get(top[i].tag), top[i].used_bytes);
        length += written > 0 ? (size_t)written : 0;
    }
    return out_text;
}

uint64_t dao_ledger_most(const dao_ledger_t *ledger)
{
    uint64_t limit_bytes = ledger->stats.limit_bytes, capacity_bytes = ledger->capacity_bytes;
    limit_bytes = limit_bytes == 0 ? UINT64_MAX : limit_bytes;
    uint64_t most = dao_smaller(limit_bytes, capacity_bytes == 0 ? UINT64_MAX : capacity_bytes);
    return ledger->page_bytes == 0 ? most : most - most % ledger->page_bytes; /* no part of a page is taken */
}

/* For a request that the place has bytes enough for: none of them are in one piece, or somebody else has
   them. */
static void format_enough(const dao_ledger_t *ledger, uint64_t size_bytes, char out_text[HELP_TEXT_BYTES])
{
    const dao_stats_t *stats = &ledger->stats;
    uint64_t most = dao_ledger_most(ledger);
    uint64_t not_reserved = most > stats->reserved_bytes ? most - stats->reserved_bytes : 0;
    if (ledger->capacity_bytes != 0 && size_bytes <= not_reserved) {
        (void)snprintf(out_text, HELP_TEXT_BYTES,
                       "; this place may still take %" PRIu64 " bytes of the device, which others hold",
                       not_reserved);
    } else if (most != UINT64_MAX) {
        (void)snprintf(out_text, HELP_TEXT_BYTES, "; %" PRIu64 " bytes are free, but in pieces: %s",
                       most - stats->used_bytes,
                       ledger->page_bytes != 0
                           ? "it would fit if the step were planned"
                           : "it would fit if they were remapped or the step were planned");
    }
}

/* Says what would help; "" where nothing is known. */
static const char *format_help(const dao_ledger_t *ledger, uint64_t size_bytes,
                               char out_text[HELP_TEXT_BYTES])
{
    uint64_t most = dao_ledger_most(ledger);
    uint64_t used_bytes = ledger->stats.used_bytes;
    bool is_device = ledger->capacity_bytes != 0;
    out_text[0] = '\0';
    if (is_device && size_bytes > ledger->capacity_bytes) {
        (void)snprintf(out_text, HELP_TEXT_BYTES, "; it can never fit: the device has %" PRIu64 " bytes",
                       ledger->capacity_bytes);
    } else if (size_bytes > most) {
        (void)snprintf(out_text, HELP_TEXT_BYTES, "; it needs a limit of at least %" PRIu64 " bytes",
                       ledger->page_bytes == 0 ? size_bytes : dao_round_up(size_bytes, ledger->page_bytes));
    } else if (size_bytes > most - used_bytes) {
        (void)snprintf(out_text, HELP_TEXT_BYTES, "; at least %" PRIu64 " bytes have to be freed%s first",
                       size_bytes - (most - used_bytes), is_device ? " or swapped out" : "");
    } else {
        format_enough(ledger, size_bytes, out_text);
    }
    return out_text;
}

/* Returns true if it is bytes that the place itself is short of: not the request's tag or the budget, whose
   messages say all, and not addresses for a block that is aligned to more than a page. */
static bool is_place_short(const dao_ledger_t *ledger, dao_status_t status,
                           const dao_block_request_t *request)
{
    uint64_t size_bytes = request->size_bytes;
    bool is_tag_short = request->tag != 0 && dao_tags_room(ledger->tags, request->tag) < size_bytes;
    bool is_budget_short = dao_ledger_budget_room(ledger) < size_bytes;
    return request->alignment_bytes <= DAO_PAGE_BYTES &&
           (status == DAO_ERR_NO_DEVICE_MEMORY ||
            (status == DAO_ERR_LIMIT && !is_tag_short && !is_budget_short));
}

/* "none" for no limit: "0" would read as one of no bytes. */
static const char *format_limit(uint64_t limit_bytes, char out_text[LIMIT_TEXT_BYTES])
{
    (void)snprintf(out_text, LIMIT_TEXT_BYTES, limit_bytes == 0 ? "none" : "%" PRIu64, limit_bytes);
    return out_text;
}

/* "" for the place's own. */
static const char *format_alignment(size_t alignment_bytes, char out_text[ALIGNMENT_TEXT_BYTES])
{
    (void)snprintf(out_text, ALIGNMENT_TEXT_BYTES, ", aligned to %zu", alignment_bytes);
    return alignment_bytes == 0 ? "" : out_text;
}

dao_status_t dao_ledger_fail(dao_ledger_t *ledger, dao_status_t status, const dao_block_request_t *request,
                             uint64_t hole_bytes)
{
    dao_stats_t *stats = &ledger->stats;
    stats->failed_count++;
    uint64_t free_bytes = stats->reserved_bytes - stats->used_bytes;
    uint64_t fragmentation = free_bytes == 0 ? 0 : (free_bytes - hole_bytes) * 100 / free_bytes;
    char help[HELP_TEXT_BYTES] = "";
    if (is_place_short(ledger, status, request)) {
        (void)format_help(ledger, request->size_bytes, help);
    }
    char top[TOP_TEXT_BYTES], limit[LIMIT_TEXT_BYTES], alignment[ALIGNMENT_TEXT_BYTES];
    dao_error_prefix("%s: %zu bytes asked for%s; used with slabs %" PRIu64 ", reserved %" PRIu64
                     ", limit %s, largest hole %" PRIu64 ", fragmentation %" PRIu64 " %%%s: ",
                     ledger->name, request->size_bytes, format_alignment(request->alignment_bytes, alignment),
                     stats->used_bytes, stats->reserved_bytes, format_limit(stats->limit_bytes, limit),
                     hole_bytes, fragmentation, format_top(ledger, top));
    uint32_t tag = dao_error_tag();
    status = dao_error_vendor(status, dao_last_vendor_code(), "%s%s", dao_last_message(), help);
    dao_error_note_tag(tag);
    return status;
}

/* ---- growing ---- */

static uint64_t room_under_limit(const dao_ledger_t *ledger)
{
    const dao_stats_t *stats = &ledger->stats;
    return stats->limit_bytes == 0 ? UINT64_MAX - stats->reserved_bytes
                                   : stats->limit_bytes - stats->reserved_bytes;
}

uint64_t dao_ledger_budget_room(const dao_ledger_t *ledger)
{
    return ledger->budget == NULL ? UINT64_MAX : dao_budget_room(ledger->budget);
}

uint64_t dao_ledger_room(const dao_ledger_t *ledger)
{
    uint64_t limit_room = room_under_limit(ledger);
    uint64_t budget_room = dao_ledger_budget_room(ledger);
    return limit_room < budget_room ? limit_room : budget_room;
}

dao_status_t dao_ledger_limit_error(const dao_ledger_t *ledger, uint64_t size_bytes)
{
    if (ledger->budget == NULL || room_under_limit(ledger) < size_bytes) {
        return dao_error(DAO_ERR_LIMIT, "the limit is reached; raise it or free blocks");
    }
    return dao_error(DAO_ERR_LIMIT,
                     "all host memory together may be %" PRIu64
                     " bytes, of which the host and the pinned places "
                     "hold %" PRIu64 "; raise that limit or free blocks there",
                     atomic_load(&ledger->budget->limit_bytes), atomic_load(&ledger->budget->used_bytes));
}

dao_status_t dao_ledger_grow_begin(dao_ledger_t *ledger, size_t size_bytes)
{
    bool is_taken = ledger->budget == NULL || dao_budget_take(ledger->budget, size_bytes);
    return is_taken ? DAO_OK : dao_ledger_limit_error(ledger, size_bytes);
}

void dao_ledger_grow_cancel(dao_ledger_t *ledger, size_t size_bytes)
{
    if (ledger->budget != NULL) {
        dao_budget_give(ledger->budget, size_bytes);
    }
}

void dao_ledger_count_grow(dao_ledger_t *ledger, size_t size_bytes)
{
    if (ledger->budget != NULL) {
        dao_budget_note(ledger->budget);
    }
    dao_stats_count_grow(&ledger->stats, size_bytes);
}

dao_grow_reason_t dao_ledger_grow_reason(const dao_ledger_t *ledger, uint64_t block_bytes,
                                         uint64_t used_bytes, uint64_t fenced_bytes)
{
    DAO_ASSERT(used_bytes + fenced_bytes <= ledger->stats.reserved_bytes);
    uint64_t free_bytes = ledger->stats.reserved_bytes - used_bytes;
    return free_bytes < block_bytes                  ? DAO_GROW_REASON_LIVE
           : free_bytes - fenced_bytes < block_bytes ? DAO_GROW_REASON_FENCED
                                                     : DAO_GROW_REASON_PIECES;
}

void dao_ledger_count_reason(dao_ledger_t *ledger, dao_grow_reason_t reason, uint64_t before)
{
    dao_stats_t *stats = &ledger->stats;
    uint64_t count = stats->grow_count - before;
    stats->grow_pieces_count += reason == DAO_GROW_REASON_PIECES ? count : 0;
    stats->grow_fenced_count += reason == DAO_GROW_REASON_FENCED ? count : 0;
}

void dao_ledger_count_shrink(dao_ledger_t *ledger, size_t size_bytes)
{
    dao_stats_count_shrink(&ledger->stats, size_bytes);
    dao_ledger_grow_cancel(ledger, size_bytes);
}

bool dao_ledger_matches(const dao_ledger_t *ledger, const dao_recount_t *recount)
{
    const dao_stats_t *stats = &ledger->stats;
    return stats->requested_bytes == recount->requested_bytes && stats->used_bytes == recount->used_bytes &&
           stats->reserved_bytes == recount->reserved_bytes && stats->live_count == recount->live_count &&
           stats->alloc_count - stats->free_count == stats->live_count &&
           stats->slow_count <= stats->alloc_count + stats->free_count &&
           stats->grow_pieces_count + stats->grow_fenced_count <= stats->grow_count &&
           stats->peak_requested_bytes >= stats->requested_bytes &&
           stats->peak_used_bytes >= stats->used_bytes &&
           stats->peak_reserved_bytes >= stats->reserved_bytes &&
           (stats->limit_bytes == 0 || stats->reserved_bytes <= stats->limit_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lists live blocks and handles, and sums blocks by tag. They are copied under the owner's lock and logged
   without it. Where there is no memory for the copy, or there are many, one line has the number of the rest.
 */
#include "runtime/start/leaks.h"

#include "allocators/accounting/tag_names.h"
#include "base/log.h"
#include "base/memory/host.h"

#include <inttypes.h>

/* Lines of one place, or of handles; a program that leaks a million blocks is told the rest by number. */
#define LINE_COUNT_MAX 100u

/* Room for the copy, and what was copied. */
typedef struct block_list {
    dao_block_t *blocks;
    uint64_t count;
    uint64_t capacity;
} block_list_t;

static void block_copy(const dao_block_t *block, void *user)
{
    block_list_t *list = user;
    if (list->count < list->capacity) {
        list->blocks[list->count] = *block;
    }
    list->count++;
}

/* The live blocks of one tag. */
typedef struct tag_sum {
    uint64_t block_count;
    uint64_t block_bytes;
} tag_sum_t;

static void tags_report(const block_list_t *list, uint64_t count, const char *place_text)
{
    tag_sum_t *sums = dao_host_calloc(DAO_TAG_COUNT_MAX, sizeof(*sums));
    for (uint64_t i = 0; i < count && sums != NULL; i++) {
        sums[list->blocks[i].tag].block_count++;
        sums[list->blocks[i].tag].block_bytes += list->blocks[i].block_bytes;
    }
    for (uint32_t tag = 1; tag < DAO_TAG_COUNT_MAX && sums != NULL; tag++) {
        if (sums[tag].block_count > 0) {
            dao_log(DAO_LOG_LEVEL_WARNING,
                    "live at shutdown: tag \"%s\" at %s: %" PRIu64 " blocks, %" PRIu64 " bytes",
                    dao_tag_names_get(tag), place_text, sums[tag].block_count, sums[tag].block_bytes);
        }
    }
    dao_host_free(sums);
}

static void block_report(const dao_block_t *block, const char *place_text)
{
    bool has_tag = block->tag != 0;
    dao_log(DAO_LOG_LEVEL_WARNING,
            "live at shutdown: block of %zu bytes (%zu asked for) at %s, address %p, of %s%s%s%s",
            block->block_bytes, block->requested_bytes, place_text, block->address,
            dao_block_owner_text(block->owner), has_tag ? ", tag \"" : "",
            has_tag ? dao_tag_names_get(block->tag) : "", has_tag ? "\"" : "");
}

static uint64_t blocks_report(dao_allocator_t *allocator, dao_place_t place)
{
    char text[DAO_PLACE_TEXT_BYTES];
    (void)dao_place_format(place, text);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    if (stats.live_count == 0) {
        return 0;
    }
    block_list_t list = {.blocks = dao_host_calloc(stats.live_count, sizeof(dao_block_t))};
    list.capacity = list.blocks != NULL ? stats.live_count : 0;
    allocator->ops->walk(allocator, block_copy, &list);
    uint64_t copied_count = list.count < list.capacity ? list.count : list.capacity;
    uint64_t line_count = copied_count < LINE_COUNT_MAX ? copied_count : LINE_COUNT_MAX;
    for (uint64_t i = 0; i < line_count; i++) {
        block_report(&list.blocks[i], text);
    }
    tags_report(&list, copied_count, text);
    if (list.count > line_count) {
        dao_log(DAO_LOG_LEVEL_WARNING, "live at shutdown: %" PRIu64 " more blocks at %s",
                list.count - line_count, text);
    }
    dao_host_free(list.blocks);
    return list.count;
}

/* Copies the handles that are not the owners of blocks; returns their number, which may be above the
   capacity. */
static uint64_t handles_copy(dao_core_t *core, dao_live_t *handles, uint64_t capacity)
{
    uint64_t count = 0;
    dao_mutex_lock(&core->lock);
    for (const dao_live_t *live = core->first_live; live != NULL; live = live->next) {
        if (!live->is_block) {
            if (count < capacity) {
                handles[count] = *live;
            }
            count++;
        }
    }
    dao_mutex_unlock(&core->lock);
    return count;
}

static uint64_t handles_report(dao_core_t *core)
{
    char text[DAO_PLACE_TEXT_BYTES];
    uint64_t count = handles_copy(core, NULL, 0);
    if (count == 0) {
        return 0;
    }
    dao_live_t *handles = dao_host_calloc(count, sizeof(*handles));
    uint64_t capacity = handles != NULL ? count : 0;
    count = handles_copy(core, handles, capacity);
    uint64_t line_count = capacity < LINE_COUNT_MAX ? capacity : LINE_COUNT_MAX;
    line_count = count < line_count ? count : line_count;
    for (uint64_t i = 0; i < line_count; i++) {
        dao_log(DAO_LOG_LEVEL_WARNING, "live at shutdown: %s at %s, %zu bytes, address %p", handles[i].noun,
                dao_place_format(handles[i].place, text), handles[i].size_bytes, handles[i].address);
    }
    if (count > line_count) {
        dao_log(DAO_LOG_LEVEL_WARNING, "live at shutdown: %" PRIu64 " more handles", count - line_count);
    }
    dao_host_free(handles);
    return count;
}

uint64_t dao_leaks_report(dao_core_t *core, dao_runtime_t *const *runtimes, int32_t runtime_count)
{
    dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
    uint64_t count = handles_report(core);
    dao_allocator_t *host_memory = atomic_load(&core->host_memory);
    if (host_memory != NULL) {
        count += blocks_report(host_memory, host);
    }
    for (int32_t i = 0; i < runtime_count; i++) {
        dao_place_t pinned = {DAO_PLACE_KIND_PINNED, runtimes[i]->device_index};
        dao_place_t device = {DAO_PLACE_KIND_DEVICE, runtimes[i]->device_index};
        count += blocks_report(runtimes[i]->pinned_memory, pinned);
        count += blocks_report(runtimes[i]->device_memory, device);
    }
    return count;
}

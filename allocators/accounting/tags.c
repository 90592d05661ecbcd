/* SPDX-License-Identifier: Apache-2.0 */
/* A place's counters of tags.

       parts     [ part | - | - | part | ...  ]                       by tag / PART_COUNT
       part      [ bytes, counts | bytes, counts | ...      ]         by tag % PART_COUNT

   A part is made when the first of its tags is charged or has a limit, and stays: most places have few tags.
   A tag's bytes are a budget (budget.h), so that a limit holds exactly without a lock; counts are counters.
   What holds while no call is under way:

       used_bytes of a tag == sum of the live blocks with that tag
       used_bytes <= limit_bytes, if there is a limit
       free_count <= alloc_count */
#include "allocators/accounting/tags.h"

#include "allocators/accounting/budget.h"
#include "allocators/accounting/tag_names.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

typedef struct entry {
    dao_budget_t bytes;
    _Atomic uint64_t alloc_count;
    _Atomic uint64_t free_count;
    _Atomic uint64_t refused_count;
} entry_t;

#define PART_COUNT 32u

static_assert(DAO_TAG_COUNT_MAX % PART_COUNT == 0, "all parts are whole");

typedef struct part {
    entry_t entries[PART_COUNT];
} part_t;

struct dao_tags {
    _Atomic(part_t *) parts[DAO_TAG_COUNT_MAX / PART_COUNT]; /* NULL: nothing was counted yet */
};

static dao_status_t no_memory(void)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the counters of tags");
}

dao_status_t dao_tags_create(dao_tags_t **out_tags)
{
    dao_tags_t *tags = dao_host_calloc(1, sizeof(*tags));
    if (tags == NULL) {
        return no_memory();
    }
    *out_tags = tags;
    return DAO_OK;
}

void dao_tags_destroy(dao_tags_t *tags)
{
    for (uint32_t i = 0; tags != NULL && i < DAO_TAG_COUNT_MAX / PART_COUNT; i++) {
        dao_host_free(atomic_load_explicit(&tags->parts[i], memory_order_relaxed));
    }
    dao_host_free(tags);
}

/* Returns NULL if there is no part yet. */
static entry_t *find_entry(const dao_tags_t *tags, uint32_t tag)
{
    part_t *part = atomic_load_explicit(&tags->parts[tag / PART_COUNT], memory_order_acquire);
    return part != NULL ? &part->entries[tag % PART_COUNT] : NULL;
}

/* What there is of a tag to read. */
static const entry_t *read_entry(const dao_tags_t *tags, uint32_t tag)
{
    static const entry_t empty;
    const entry_t *entry = find_entry(tags, tag);
    return entry != NULL ? entry : &empty;
}

/* Makes the part if there is none. NULL without host memory. */
static entry_t *make_entry(dao_tags_t *tags, uint32_t tag)
{
    entry_t *entry = find_entry(tags, tag);
    if (entry != NULL) {
        return entry;
    }
    part_t *part = dao_host_calloc(1, sizeof(*part));
    part_t *other = NULL;
    if (part != NULL && !atomic_compare_exchange_strong(&tags->parts[tag / PART_COUNT], &other, part)) {
        dao_host_free(part); /* another thread was faster */
    }
    return find_entry(tags, tag);
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Returns true if no more blocks were freed than allocated; reads the count of frees first, as others go
   on. */
static bool frees_are_allocs(const entry_t *entry)
{
    uint64_t free_count = atomic_load(&entry->free_count);
    return free_count <= atomic_load(&entry->alloc_count);
}

dao_status_t dao_tags_limit_error(const dao_tags_t *tags, uint32_t tag)
{
    const entry_t *entry = read_entry(tags, tag);
    dao_status_t status =
        dao_error(DAO_ERR_LIMIT,
                  "the limit of the tag \"%s\" is %" PRIu64 " bytes, of which it uses %" PRIu64
                  "; raise it or free blocks of that tag",
                  dao_tag_names_get(tag), atomic_load(&entry->bytes.limit_bytes),
                  atomic_load(&entry->bytes.used_bytes));
    dao_error_note_tag(tag);
    return status;
}

dao_status_t dao_tags_charge(dao_tags_t *tags, uint32_t tag, uint64_t block_bytes)
{
    DAO_ASSERT(dao_tag_names_get(tag) != NULL);
    entry_t *entry = make_entry(tags, tag);
    if (entry == NULL) {
        return no_memory();
    }
    if (dao_budget_take(&entry->bytes, block_bytes)) {
        return DAO_OK;
    }
    return dao_tags_limit_error(tags, tag);
}

void dao_tags_count_refused(dao_tags_t *tags, uint32_t tag)
{
    DAO_ASSERT(dao_tag_names_get(tag) != NULL);
    count(&find_entry(tags, tag)->refused_count); /* a limit has refused it, so that there is one */
}

void dao_tags_refund(dao_tags_t *tags, uint32_t tag, uint64_t block_bytes)
{
    dao_budget_give(&find_entry(tags, tag)->bytes, block_bytes);
}

void dao_tags_count_alloc(dao_tags_t *tags, uint32_t tag)
{
    entry_t *entry = find_entry(tags, tag);
    dao_budget_note(&entry->bytes);
    count(&entry->alloc_count);
}

void dao_tags_count_free(dao_tags_t *tags, uint32_t tag, uint64_t block_bytes)
{
    entry_t *entry = find_entry(tags, tag);
    dao_budget_give(&entry->bytes, block_bytes);
    count(&entry->free_count);
    DAO_ASSERT(frees_are_allocs(entry));
}

uint64_t dao_tags_room(const dao_tags_t *tags, uint32_t tag)
{
    return dao_budget_room(&read_entry(tags, tag)->bytes);
}

dao_status_t dao_tags_limit_set(dao_tags_t *tags, uint32_t tag, uint64_t limit_bytes)
{
    DAO_ASSERT(dao_tag_names_get(tag) != NULL);
    entry_t *entry = limit_bytes != 0 ? make_entry(tags, tag) : find_entry(tags, tag);
    if (entry == NULL) {
        return limit_bytes != 0 ? no_memory() : DAO_OK;
    }
    if (dao_budget_limit_set(&entry->bytes, limit_bytes)) {
        return DAO_OK;
    }
    return dao_error(DAO_ERR_LIMIT,
                     "live blocks of the tag \"%s\" hold more than the new limit of %" PRIu64 " bytes",
                     dao_tag_names_get(tag), limit_bytes);
}

void dao_tags_stats_get(const dao_tags_t *tags, uint32_t tag, dao_tag_stats_t *out_stats)
{
    DAO_ASSERT(tag < DAO_TAG_COUNT_MAX);
    const entry_t *entry = read_entry(tags, tag);
    uint64_t free_count = atomic_load(&entry->free_count); /* first, so that it is never above alloc_count */
    uint64_t alloc_count = atomic_load(&entry->alloc_count);
    *out_stats = (dao_tag_stats_t){.used_bytes = atomic_load(&entry->bytes.used_bytes),
                                   .peak_used_bytes = atomic_load(&entry->bytes.peak_bytes),
                                   .limit_bytes = atomic_load(&entry->bytes.limit_bytes),
                                   .live_count = alloc_count - free_count,
                                   .alloc_count = alloc_count,
                                   .free_count = free_count,
                                   .refused_count = atomic_load(&entry->refused_count)};
}

uint32_t dao_tags_top(const dao_tags_t *tags, dao_tag_share_t out_top[DAO_TAGS_TOP_COUNT])
{
    uint32_t top_count = 0;
    for (uint32_t tag = 1; dao_tag_names_get(tag) != NULL; tag++) {
        uint64_t used_bytes =
            atomic_load_explicit(&read_entry(tags, tag)->bytes.used_bytes, memory_order_relaxed);
        uint32_t rank = top_count;
        while (rank > 0 && out_top[rank - 1].used_bytes < used_bytes) {
            rank--;
        }
        if (used_bytes == 0 || rank == DAO_TAGS_TOP_COUNT) {
            continue;
        }
        top_count += top_count < DAO_TAGS_TOP_COUNT;
        memmove(&out_top[rank + 1], &out_top[rank], (top_count - rank - 1) * sizeof(out_top[0]));
        out_top[rank] = (dao_tag_share_t){.tag = tag, .used_bytes = used_bytes};
    }
    return top_count;
}

bool dao_tags_is_valid(const dao_tags_t *tags)
{
    for (uint32_t tag = 0; tag < DAO_TAG_COUNT_MAX; tag++) {
        const entry_t *entry = read_entry(tags, tag);
        uint64_t live_count = atomic_load(&entry->alloc_count) - atomic_load(&entry->free_count);
        uint64_t used_bytes = atomic_load(&entry->bytes.used_bytes);
        bool is_empty = live_count == 0 && used_bytes == 0;
        if (!dao_budget_is_valid(&entry->bytes) || live_count > used_bytes ||
            (!is_empty && dao_tag_names_get(tag) == NULL) || (live_count == 0) != (used_bytes == 0)) {
            return false;
        }
    }
    return true;
}

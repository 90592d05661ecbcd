/* SPDX-License-Identifier: Apache-2.0 */
/* The shadow of a place in pages: paged.c over a backend that gives out numbers.

       place    request -> window, arenas, pages     -> address
       shadow   request -> arena 0, pages of nothing -> a stand-in      blocks: address -> stand-in

   A block that is allocated and freed while nobody looks at the place is not seen. One that is freed so is
   found again when its address is handed out once more, and freed then.

   What holds between calls:

       device.page_count pages are what paged.c has taken every stand-in in `blocks` is a live block of
       paged.c, each once; the others were taken and are not bound yet */
#include "allocators/step_plan/shadow.h"

#include "allocators/accounting/block_map.h"
#include "allocators/paged/paged.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Where addresses begin: any that is no block's, aligned to every page. */
#define FIRST_ADDRESS ((uintptr_t)1 << 40)

typedef struct ghost_device {
    uintptr_t next_address; /* that nobody has reserved */
    uint64_t page_count;
} ghost_device_t;

struct dao_shadow {
    ghost_device_t device;
    uint64_t page_bytes;
    dao_allocator_t *place;
    dao_block_map_t blocks; /* their word is the stand-in */
    uint64_t unbound_count;
};

/* ---- the backend ---- */

static ghost_device_t *ghost_of(dao_backend_device_t *device)
{
    return (ghost_device_t *)device;
}

static dao_status_t ghost_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    ghost_device_t *ghost = ghost_of(device);
    *out_address = (void *)ghost->next_address;
    ghost->next_address += size_bytes;
    return DAO_OK;
}

static dao_status_t ghost_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)device;
    (void)address;
    (void)size_bytes;
    return DAO_OK;
}

/* All handles are the device: nobody looks into them. */
static dao_status_t ghost_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                       dao_backend_pages_t **out_pages)
{
    (void)size_bytes;
    ghost_of(device)->page_count++;
    *out_pages = (dao_backend_pages_t *)device;
    return DAO_OK;
}

static dao_status_t ghost_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    (void)pages;
    ghost_of(device)->page_count--;
    return DAO_OK;
}

static dao_status_t ghost_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    (void)device;
    (void)pages;
    (void)address;
    return DAO_OK;
}

static dao_status_t ghost_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                        size_t page_count, void *address)
{
    (void)device;
    (void)pages;
    (void)page_count;
    (void)address;
    return DAO_OK;
}

static dao_status_t ghost_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                              size_t page_count, void *address,
                                              dao_backend_pages_t **out_pages)
{
    (void)page_bytes;
    (void)address;
    for (size_t i = 0; i < page_count; i++) {
        out_pages[i] = (dao_backend_pages_t *)device;
    }
    ghost_of(device)->page_count += page_count;
    return DAO_OK;
}

static const dao_backend_ops_t ghost_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "shadow",
    .address_reserve = ghost_address_reserve,
    .address_release = ghost_address_release,
    .pages_create = ghost_pages_create,
    .pages_destroy = ghost_pages_destroy,
    .pages_map = ghost_pages_map,
    .pages_unmap = ghost_pages_map,
    .pages_create_mapped = ghost_pages_create_mapped,
    .pages_map_run = ghost_pages_map_run,
    .has_no_bytes = true,
};

/* ---- create and destroy ---- */

dao_status_t dao_shadow_create(const dao_shadow_config_t *config, dao_shadow_t **out_shadow)
{
    dao_shadow_t *shadow = dao_host_calloc(1, sizeof(*shadow));
    if (shadow == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for a shadow", config->name);
    }
    shadow->device.next_address = FIRST_ADDRESS;
    shadow->page_bytes = config->page_bytes;
    dao_device_info_t info = {.total_bytes = config->capacity_bytes, .page_bytes = config->page_bytes};
    dao_device_memory_config_t caching = {.ops = &ghost_ops,
                                          .device = (dao_backend_device_t *)&shadow->device,
                                          .name = config->name,
                                          .fit = config->fit,
                                          .initial_bytes = (size_t)config->initial_bytes,
                                          .limit_bytes = (size_t)config->limit_bytes};
    DAO_ASSERT(dao_paged_page_bytes(&ghost_ops, &info) == config->page_bytes);
    dao_status_t status = dao_paged_create(&caching, &info, &shadow->place);
    if (status != DAO_OK) {
        dao_host_free(shadow);
        return status;
    }
    *out_shadow = shadow;
    return DAO_OK;
}

void dao_shadow_destroy(dao_shadow_t *shadow)
{
    if (shadow != NULL) {
        shadow->place->ops->destroy(shadow->place);
        dao_block_map_finish(&shadow->blocks);
        dao_host_free(shadow);
    }
}

/* ---- blocks ---- */

void *dao_shadow_take(dao_shadow_t *shadow, const dao_block_request_t *request)
{
    dao_block_request_t wish = {.size_bytes = request->size_bytes,
                                .alignment_bytes = request->alignment_bytes};
    dao_block_grant_t grant;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    if (shadow->place->ops->alloc(shadow->place, &wish, &grant) != DAO_OK) {
        (void)dao_error_restore(&record); /* it is no failure of the caller's */
        return NULL;
    }
    shadow->unbound_count++;
    return grant.address;
}

/* Frees what stands for a block. */
static void give(dao_shadow_t *shadow, void *stand_in)
{
    dao_status_t status = shadow->place->ops->free(shadow->place, stand_in, NULL);
    DAO_ASSERT(status == DAO_OK); /* it lives: nobody else knows of it */
    (void)status;
}

void dao_shadow_shrink(dao_shadow_t *shadow, uint64_t most_bytes)
{
    if (dao_shadow_reserved(shadow) > most_bytes) {
        uint64_t used_bytes = shadow->place->ops->used_get(shadow->place);
        dao_shadow_trim(shadow, (size_t)(most_bytes > used_bytes ? most_bytes - used_bytes : 0));
    }
}

void dao_shadow_drop(dao_shadow_t *shadow, void *stand_in, uint64_t most_bytes)
{
    DAO_ASSERT(shadow->unbound_count > 0);
    shadow->unbound_count--;
    give(shadow, stand_in);
    dao_shadow_shrink(shadow, most_bytes);
}

bool dao_shadow_bind(dao_shadow_t *shadow, void *stand_in, void *address, size_t size_bytes)
{
    dao_shadow_free(shadow, address);
    if (!dao_block_map_reserve(&shadow->blocks, 1)) {
        dao_shadow_drop(shadow, stand_in, UINT64_MAX);
        return false;
    }
    dao_block_entry_t entry = {.address = address,
                               .word = (uintptr_t)stand_in,
                               .piece = {.address = address, .size_bytes = size_bytes}};
    dao_block_map_insert(&shadow->blocks, &entry);
    shadow->unbound_count--;
    return true;
}

void dao_shadow_free(dao_shadow_t *shadow, void *address)
{
    dao_block_entry_t *entry = dao_block_map_find(&shadow->blocks, address);
    if (entry != NULL) {
        give(shadow, (void *)(uintptr_t)entry->word);
        dao_block_map_erase(&shadow->blocks, entry);
    }
}

/* ---- the place ---- */

void dao_shadow_trim(dao_shadow_t *shadow, size_t keep_bytes)
{
    size_t released_bytes;
    dao_status_t status = shadow->place->ops->trim(shadow->place, keep_bytes, &released_bytes);
    DAO_ASSERT(status == DAO_OK); /* the backend never refuses */
    (void)status;
}

dao_status_t dao_shadow_limit_set(dao_shadow_t *shadow, size_t limit_bytes)
{
    return shadow->place->ops->limit_set(shadow->place, limit_bytes);
}

uint64_t dao_shadow_reserved(const dao_shadow_t *shadow)
{
    return shadow->device.page_count * shadow->page_bytes;
}

uint64_t dao_shadow_used(const dao_shadow_t *shadow)
{
    return dao_paged_used_bytes(shadow->place);
}

bool dao_shadow_is_valid(dao_shadow_t *shadow)
{
    dao_stats_t stats;
    shadow->place->ops->stats_get(shadow->place, &stats);
    bool is_valid = dao_block_map_is_valid(&shadow->blocks) &&
                    stats.live_count == shadow->blocks.count + shadow->unbound_count &&
                    stats.reserved_bytes == dao_shadow_reserved(shadow);
    for (size_t i = 0; i < shadow->blocks.capacity && is_valid; i++) {
        const dao_block_entry_t *entry = &shadow->blocks.entries[i];
        const void *stand_in = (const void *)(uintptr_t)entry->word;
        dao_block_t block;
        is_valid = entry->address == NULL ||
                   (shadow->place->ops->query(shadow->place, stand_in, &block) == DAO_OK &&
                    block.address == stand_in && block.requested_bytes == entry->piece.size_bytes);
    }
    return is_valid && shadow->place->ops->is_valid(shadow->place);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a backend's table that paged.c needs, filled from the system's calls.

       window   [ page ][   -   ][ page ]      addresses: reserved, without memory but where pages are
                    |       ^
                    v       | mremap
       home      a page that is mapped nowhere lives at an address of its own

   Pages are taken from the budget of all host memory as they are made, by the settings of the host's regions.
   Running out is answered as a device without memory answers it, which is what paged.c knows how to help; to
   callers it says that the host has none (full_status). */
#include "allocators/paged/host_pages.h"

#include "allocators/paged/device_memory.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/memory/host_policy.h"
#include "base/memory/poison.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

/* Pages smaller than DAO_PAGE_BYTES that the system's memory is divided into at most. */
#define HOST_PAGE_COUNT_MAX ((size_t)1 << 20)

struct dao_backend_pages {
    size_t size_bytes;
    void *address; /* where they are now: home, or where they are mapped */
};

static dao_host_pages_t *host_of(dao_backend_device_t *device)
{
    return (dao_host_pages_t *)device; /* what create() has handed to paged.c */
}

static dao_status_t device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    *out_info =
        (dao_device_info_t){.total_bytes = dao_host_total_bytes(), .page_bytes = host_of(device)->page_bytes};
    return DAO_OK;
}

static dao_status_t address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    (void)device;
    void *address = dao_host_reserve(size_bytes, DAO_PAGE_BYTES);
    if (address == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses %zu bytes of addresses", size_bytes);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)device;
    dao_host_unmap(address, size_bytes);
    return DAO_OK;
}

static dao_status_t pages_create(dao_backend_device_t *device, size_t size_bytes,
                                 dao_backend_pages_t **out_pages)
{
    dao_host_pages_t *host = host_of(device);
    if (host->budget != NULL && !dao_budget_take(host->budget, size_bytes)) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "all host memory together has no room for %zu bytes",
                         size_bytes);
    }
    dao_host_refusals_t refusals = {0};
    dao_backend_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    void *home =
        pages != NULL ? dao_host_map_by(host->settings, size_bytes, host->page_bytes, &refusals) : NULL;
    if (home == NULL) {
        dao_host_free(pages);
        if (host->budget != NULL) {
            dao_budget_give(host->budget, size_bytes);
        }
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "the system refuses %zu bytes of pages", size_bytes);
    }
    if (host->budget != NULL) {
        dao_budget_note(host->budget);
    }
    *pages = (dao_backend_pages_t){.size_bytes = size_bytes, .address = home};
    *out_pages = pages;
    return DAO_OK;
}

static dao_status_t pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    dao_host_pages_t *host = host_of(device);
    dao_host_unmap(pages->address, pages->size_bytes);
    if (host->budget != NULL) {
        dao_budget_give(host->budget, pages->size_bytes);
    }
    dao_host_free(pages);
    return DAO_OK;
}

static dao_status_t pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    (void)device;
    if (!dao_host_move(pages->address, address, pages->size_bytes)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses to map %zu bytes at %p",
                         pages->size_bytes, address);
    }
    pages->address = address;
    return DAO_OK;
}

static dao_status_t pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_unpoison(address, pages->size_bytes); /* of blocks that were freed here */
    void *home = dao_host_move_home(address, pages->size_bytes, host_of(device)->page_bytes);
    if (home == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses to unmap %zu bytes at %p",
                         pages->size_bytes, address);
    }
    pages->address = home;
    return DAO_OK;
}

static size_t pages_size(const dao_backend_pages_t *pages)
{
    return pages->size_bytes;
}

static const dao_backend_ops_t host_pages_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "host",
    .device_query = device_query,
    .address_reserve = address_reserve,
    .address_release = address_release,
    .pages_create = pages_create,
    .pages_destroy = pages_destroy,
    .pages_map = pages_map,
    .pages_unmap = pages_unmap,
    .pages_size = pages_size,
};

/* Asks the system with one page, which nobody touches, what it will refuse of the settings. */
static void find_refusals(dao_host_pages_t *pages)
{
    dao_host_memory_config_t settings = *pages->settings;
    dao_host_refusals_t refusals;
    settings.prefault = false;
    void *page = dao_host_map_by(&settings, DAO_PAGE_BYTES, DAO_PAGE_BYTES, &refusals);
    if (page != NULL) {
        dao_host_unmap(page, DAO_PAGE_BYTES);
        pages->numa_error = refusals.numa;
    }
}

void dao_host_pages_warn(const dao_host_pages_t *pages)
{
    if (pages->numa_error != 0) {
        dao_log(DAO_LOG_LEVEL_WARNING,
                "cpu: the system refuses to choose the NUMA node: %s; the memory is as by default",
                strerror(pages->numa_error));
    }
}

bool dao_host_pages_suit(const dao_host_memory_config_t *settings)
{
    return settings->huge_pages != DAO_HUGE_PAGES_EXPLICIT;
}

/* The tables have some bytes for each page that the system's memory could have. */
static size_t page_bytes_of(size_t asked_bytes)
{
    size_t page_bytes = asked_bytes != 0 ? asked_bytes : DAO_PAGE_BYTES;
    while (page_bytes < DAO_PAGE_BYTES && dao_host_total_bytes() / page_bytes > HOST_PAGE_COUNT_MAX) {
        page_bytes *= 2;
    }
    return page_bytes;
}

dao_status_t dao_host_pages_create(const dao_host_pages_config_t *config, dao_allocator_t **out_allocator)
{
    DAO_ASSERT(dao_host_pages_suit(config->pages->settings));
    config->pages->page_bytes = page_bytes_of(config->page_bytes);
    dao_device_memory_config_t caching = {.ops = &host_pages_ops,
                                          .device = (dao_backend_device_t *)config->pages,
                                          .name = config->name,
                                          .fit = config->fit,
                                          .initial_bytes = config->initial_bytes,
                                          .limit_bytes = config->limit_bytes,
                                          .page_bytes = config->pages->page_bytes,
                                          .budget = config->pages->budget,
                                          .full_status = DAO_ERR_NO_HOST_MEMORY};
    find_refusals(config->pages);
    return dao_device_memory_create(&caching, out_allocator);
}

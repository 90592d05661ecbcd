/* SPDX-License-Identifier: Apache-2.0 */
/* Raw memory: frees of what is no block, requests that cannot be served, copies, limits, tags. */
#include "tests/misuse/misuse.h"

#include <stdlib.h>

static const dao_place_t absent = {DAO_PLACE_KIND_DEVICE, 9};
static const dao_place_t nowhere = {(dao_place_kind_t)77, 0};

static void double_free_at(dao_place_t place, size_t size_bytes)
{
    misuse_begin();
    void *block = dao_alloc(place, size_bytes);
    NEED(block != NULL && dao_free(place, block) == DAO_OK);
    REFUSED(dao_free(place, block), DAO_ERR_DOUBLE_FREE, "freed before");
}

static void double_free_device_small(void)
{
    double_free_at(misuse_device, 100);
}

static void double_free_device_large(void)
{
    misuse_begin();
    void *block = dao_alloc(misuse_device, 3 * MIB), *behind = dao_alloc(misuse_device, 3 * MIB);
    NEED(block != NULL && behind != NULL && dao_free(misuse_device, block) == DAO_OK);
    REFUSED(dao_free(misuse_device, block), DAO_ERR_DOUBLE_FREE, "device:0");
    NEED(dao_free(misuse_device, behind) == DAO_OK);
}

static void double_free_host(void)
{
    double_free_at(misuse_host, 100 * KIB);
}

static void double_free_pinned(void)
{
    double_free_at(misuse_pinned, 100);
}

static void interior_at(dao_place_t place, size_t size_bytes, size_t offset_bytes)
{
    misuse_begin();
    char *block = dao_alloc(place, size_bytes);
    NEED(block != NULL);
    REFUSED(dao_free(place, block + offset_bytes), DAO_ERR_INTERIOR_POINTER, "inside a block");
    NEED(dao_free(place, block) == DAO_OK);
}

static void interior_device_small(void)
{
    interior_at(misuse_device, 1000, 8);
}

static void interior_device_large(void)
{
    interior_at(misuse_device, 3 * MIB, 1 * MIB);
}

static void interior_host(void)
{
    interior_at(misuse_host, 100 * KIB, 1);
}

static void interior_pinned(void)
{
    interior_at(misuse_pinned, 3 * MIB, 512);
}

static void foreign_stack(void)
{
    int here = 0;
    misuse_begin();
    REFUSED(dao_free(misuse_device, &here), DAO_ERR_FOREIGN_POINTER, "device:0");
    REFUSED(dao_free(misuse_pinned, &here), DAO_ERR_FOREIGN_POINTER, "pinned:0");
    REFUSED(dao_free(misuse_host, &here), DAO_ERR_FOREIGN_POINTER, "cpu");
}

static void foreign_heap(void)
{
    void *theirs = malloc(1000);
    misuse_begin();
    REFUSED(dao_free(misuse_host, theirs), DAO_ERR_FOREIGN_POINTER, "cpu");
    REFUSED(dao_free_async(misuse_device, theirs, NULL), DAO_ERR_FOREIGN_POINTER, "device:0");
    free(theirs);
}

static void foreign_small_number(void)
{
    misuse_begin();
    REFUSED(dao_free(misuse_device, (void *)(uintptr_t)1), DAO_ERR_FOREIGN_POINTER, "0x1");
    REFUSED(dao_free(misuse_host, (void *)UINTPTR_MAX), DAO_ERR_FOREIGN_POINTER, "cpu");
}

static void foreign_before_first_use(void)
{
    int here = 0;
    NEED(dao_init(NULL) == DAO_OK);
    REFUSED(dao_free(misuse_other, &here), DAO_ERR_FOREIGN_POINTER, "never used");
}

static void wrong_place_host_for_device(void)
{
    misuse_begin();
    void *block = dao_alloc(misuse_host, 100);
    REFUSED(dao_free(misuse_device, block), DAO_ERR_WRONG_PLACE, "belongs to cpu");
    NEED(dao_free(misuse_host, block) == DAO_OK);
}

static void wrong_place_device_for_host(void)
{
    misuse_begin();
    void *block = dao_alloc(misuse_device, 100);
    REFUSED(dao_free(misuse_host, block), DAO_ERR_WRONG_PLACE, "belongs to device:0");
    REFUSED(dao_free(misuse_pinned, block), DAO_ERR_WRONG_PLACE, "belongs to device:0");
    NEED(dao_free(misuse_device, block) == DAO_OK);
}

static void wrong_place_other_device(void)
{
    misuse_begin();
    void *block = dao_alloc(misuse_other, 3 * MIB);
    REFUSED(dao_free(misuse_device, block), DAO_ERR_WRONG_PLACE, "belongs to device:1");
    REFUSED(dao_free_async(misuse_device, block, NULL), DAO_ERR_WRONG_PLACE, "belongs to device:1");
    NEED(dao_free(misuse_other, block) == DAO_OK);
}

static void no_such_device(void)
{
    int here = 0;
    misuse_begin();
    REFUSED_NULL(dao_alloc(absent, 100), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_free(absent, &here), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_trim(absent, 0, NULL), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_limit_set(absent, 1), DAO_ERR_NO_DEVICE, "device:9");
}

static void negative_device(void)
{
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, -1};
    misuse_begin();
    REFUSED_NULL(dao_alloc(place, 100), DAO_ERR_NO_DEVICE, "device:-1");
    REFUSED_NULL(dao_alloc(((dao_place_t){DAO_PLACE_KIND_PINNED, INT32_MIN}), 100), DAO_ERR_NO_DEVICE,
                 "-2147483648");
    REFUSED(dao_device_query(-1, &(dao_device_info_t){0}), DAO_ERR_NO_DEVICE, "-1");
}

static void no_such_kind(void)
{
    int here = 0;
    misuse_begin();
    REFUSED_NULL(dao_alloc(nowhere, 100), DAO_ERR_INVALID, "is not a place");
    REFUSED(dao_free(nowhere, &here), DAO_ERR_INVALID, "is not a place");
    REFUSED(dao_stats_get(nowhere, &(dao_stats_t){0}), DAO_ERR_INVALID, "is not a place");
}

static void size_max_device(void)
{
    misuse_begin();
    REFUSED_NULL(dao_alloc(misuse_device, SIZE_MAX), DAO_ERR_OVERFLOW, "no block can be that large");
    REFUSED_NULL(dao_alloc(misuse_device, SIZE_MAX / 2 + 1), DAO_ERR_OVERFLOW, "device:0");
    REFUSED_NULL(dao_alloc_async(misuse_device, SIZE_MAX - 255, NULL), DAO_ERR_OVERFLOW, "device:0");
}

static void size_max_host(void)
{
    misuse_begin();
    REFUSED_NULL(dao_alloc(misuse_host, SIZE_MAX), DAO_ERR_OVERFLOW, "cpu");
    REFUSED_NULL(dao_alloc(misuse_host, SIZE_MAX / 2), DAO_ERR_NO_HOST_MEMORY, "cpu");
}

static void size_max_pinned(void)
{
    misuse_begin();
    REFUSED_NULL(dao_alloc(misuse_pinned, SIZE_MAX), DAO_ERR_OVERFLOW, "pinned:0");
}

static void more_than_the_device(void)
{
    misuse_begin();
    REFUSED_NULL(dao_alloc(misuse_device, MISUSE_DEVICE_BYTES + 1), DAO_ERR_NO_DEVICE_MEMORY, "asked for");
}

static void alignment_not_a_power(void)
{
    misuse_begin();
    dao_alloc_options_t options = {.alignment_bytes = 48};
    REFUSED_NULL(dao_alloc_with(misuse_device, 100, &options), DAO_ERR_INVALID, "power of two");
    REFUSED_NULL(dao_alloc_with(misuse_host, 100, &options), DAO_ERR_INVALID, "48");
}

static void alignment_beyond_all(void)
{
    misuse_begin();
    dao_alloc_options_t options = {.alignment_bytes = SIZE_MAX / 2 + 1};
    REFUSED_NULL(dao_alloc_with(misuse_device, 100, &options), DAO_ERR_NO_DEVICE_MEMORY, "aligned to");
}

static void limit_reached(void)
{
    misuse_begin();
    NEED(dao_limit_set(misuse_device, 4 * MIB) == DAO_OK);
    REFUSED_NULL(dao_alloc(misuse_device, 8 * MIB), DAO_ERR_LIMIT, "limit 4194304");
    REFUSED_NULL(dao_alloc_async(misuse_device, 8 * MIB, NULL), DAO_ERR_LIMIT, "device:0");
    NEED(dao_limit_set(misuse_device, 0) == DAO_OK);
}

static void host_limit_reached(void)
{
    misuse_begin();
    NEED(dao_host_limit_set(100 * MIB) == DAO_OK);
    REFUSED_NULL(dao_alloc(misuse_host, 200 * MIB), DAO_ERR_LIMIT, "limit");
}

static void copy_null(void)
{
    char bytes[16] = {0};
    misuse_begin();
    REFUSED(dao_copy(misuse_host, NULL, misuse_host, bytes, 16), DAO_ERR_INVALID, "dst is NULL");
    REFUSED(dao_copy(misuse_host, bytes, misuse_host, NULL, 16), DAO_ERR_INVALID, "src is NULL");
}

static void copy_out_of_bounds(void)
{
    static char bytes[8192];
    misuse_begin();
    char *block = dao_alloc(misuse_device, 4096);
    REFUSED(dao_copy(misuse_device, block, misuse_host, bytes, 8192), DAO_ERR_OUT_OF_BOUNDS, "8192");
    REFUSED(dao_copy(misuse_host, bytes, misuse_device, block + 1, 4096), DAO_ERR_OUT_OF_BOUNDS, "4096");
    REFUSED(dao_copy(misuse_device, block, misuse_host, bytes, SIZE_MAX), DAO_ERR_OUT_OF_BOUNDS, "device:0");
    NEED(dao_free(misuse_device, block) == DAO_OK);
}

static void copy_to_what_is_none(void)
{
    static char bytes[64];
    misuse_begin();
    REFUSED(dao_copy(misuse_device, bytes, misuse_host, bytes, 16), DAO_ERR_OUT_OF_BOUNDS,
            "not in a live block of device:0");
    REFUSED(dao_copy(absent, bytes, misuse_host, bytes, 16), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_copy(nowhere, bytes, misuse_host, bytes, 16), DAO_ERR_INVALID, "is not a place");
}

static void copy_after_free(void)
{
    static char bytes[64];
    misuse_begin();
    char *block = dao_alloc(misuse_device, 3 * MIB);
    NEED(block != NULL && dao_free(misuse_device, block) == DAO_OK);
    REFUSED(dao_copy(misuse_device, block, misuse_host, bytes, 64), DAO_ERR_OUT_OF_BOUNDS,
            "not in a live block of device:0");
}

static void null_results(void)
{
    misuse_begin();
    REFUSED(dao_stats_get(misuse_device, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_block_query(misuse_device, &absent, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_device_query(0, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_device_count(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_host_stats_get(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_snapshot_create(misuse_device, NULL), DAO_ERR_INVALID, "NULL");
}

static void block_query_foreign(void)
{
    dao_block_info_t info;
    misuse_begin();
    REFUSED(dao_block_query(misuse_device, &info, &info), DAO_ERR_FOREIGN_POINTER, "device:0");
    REFUSED(dao_block_query(nowhere, &info, &info), DAO_ERR_INVALID, "is not a place");
}

static void tag_unknown(void)
{
    misuse_begin();
    dao_alloc_options_t options = {.tag = (dao_tag_t)50};
    REFUSED_NULL(dao_alloc_with(misuse_device, 100, &options), DAO_ERR_INVALID, "50");
    REFUSED(dao_tag_limit_set(misuse_device, (dao_tag_t)50, 1), DAO_ERR_INVALID, "50");
    REFUSED(dao_tag_stats_get(misuse_device, (dao_tag_t)50, &(dao_tag_stats_t){0}), DAO_ERR_INVALID, "50");
}

static void tag_names(void)
{
    dao_tag_t tag;
    misuse_begin();
    REFUSED(dao_tag_create(NULL, &tag), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_tag_create("name", NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_tag_create("", &tag), DAO_ERR_INVALID, "tag");
}

static void tag_limit_reached(void)
{
    dao_tag_t tag;
    misuse_begin();
    NEED(dao_tag_create("weights", &tag) == DAO_OK);
    NEED(dao_tag_limit_set(misuse_device, tag, 1 * MIB) == DAO_OK);
    dao_alloc_options_t options = {.tag = tag};
    REFUSED_NULL(dao_alloc_with(misuse_device, 2 * MIB, &options), DAO_ERR_LIMIT, "weights");
}

static void guard_overwritten(void)
{
    misuse_begin();
    char *block = dao_alloc(misuse_device, 1000);
    NEED(block != NULL);
    block[1000] = 1;
    misuse_before();
    dao_status_t status = dao_free(misuse_device, block); /* it is freed all the same */
    NEED(status == DAO_ERR_CORRUPT);
}

static void hardening_not_there(void)
{
    misuse_begin();
    REFUSED(dao_hardening_check(misuse_device), DAO_ERR_UNSUPPORTED, "not hardened");
}

const misuse_case_t misuse_memory_cases[] = {
    {.name = "double_free_device_small", .run = double_free_device_small, .says = "freed before"},
    {.name = "double_free_device_large", .run = double_free_device_large},
    {.name = "double_free_host", .run = double_free_host},
    {.name = "double_free_pinned", .run = double_free_pinned},
    {.name = "interior_device_small", .run = interior_device_small},
    {.name = "interior_device_large", .run = interior_device_large},
    {.name = "interior_host", .run = interior_host},
    {.name = "interior_pinned", .run = interior_pinned},
    {.name = "foreign_stack", .run = foreign_stack},
    {.name = "foreign_heap", .run = foreign_heap},
    {.name = "foreign_small_number", .run = foreign_small_number},
    {.name = "foreign_before_first_use", .run = foreign_before_first_use},
    {.name = "wrong_place_host_for_device", .run = wrong_place_host_for_device},
    {.name = "wrong_place_device_for_host", .run = wrong_place_device_for_host},
    {.name = "wrong_place_other_device", .run = wrong_place_other_device},
    {.name = "no_such_device", .run = no_such_device},
    {.name = "negative_device", .run = negative_device},
    {.name = "no_such_kind", .run = no_such_kind},
    {.name = "size_max_device", .run = size_max_device, .says = "first of the refused allocations"},
    {.name = "size_max_host", .run = size_max_host},
    {.name = "size_max_pinned", .run = size_max_pinned},
    {.name = "more_than_the_device", .run = more_than_the_device},
    {.name = "alignment_not_a_power", .run = alignment_not_a_power},
    {.name = "alignment_beyond_all", .run = alignment_beyond_all},
    {.name = "limit_reached", .run = limit_reached},
    {.name = "host_limit_reached", .run = host_limit_reached},
    {.name = "copy_null", .run = copy_null},
    {.name = "copy_out_of_bounds", .run = copy_out_of_bounds},
    {.name = "copy_to_what_is_none", .run = copy_to_what_is_none},
    {.name = "copy_after_free", .run = copy_after_free},
    {.name = "null_results", .run = null_results},
    {.name = "block_query_foreign", .run = block_query_foreign},
    {.name = "tag_unknown", .run = tag_unknown},
    {.name = "tag_names", .run = tag_names},
    {.name = "tag_limit_reached", .run = tag_limit_reached},
    {.name = "guard_overwritten",
     .run = guard_overwritten,
     .environment = "DAO_HARDENING=guard",
     .end = DAO_ERR_CORRUPT,
     .says = "written past its end"},
    {.name = "hardening_not_there", .run = hardening_not_there},
    {.name = NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Tags: names, each thread's current one, and what each tag holds at a place. The names are in
   allocators/accounting/tags.c, the counters in ledger.c beside it; this checks arguments and finds a place's
   counters. A device that was not used yet has no bytes of any tag, and is not started until a limit is
   set. */
#include "runtime/place/tag_check.h"

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/tag_names.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/core/waiters.h"
#include "runtime/device/deferred_free.h"
#include "runtime/place/lookup.h"

dao_status_t dao_tag_create(const char *name, dao_tag_t *out_tag)
{
    if (name == NULL || out_tag == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_tag_create: %s is NULL", name == NULL ? "name" : "out_tag");
    }
    return dao_tag_names_add(name, out_tag);
}

const char *dao_tag_name(dao_tag_t tag)
{
    const char *name = dao_tag_names_get(tag);
    return name != NULL ? name : "";
}

dao_tag_t dao_tag_set_current(dao_tag_t tag)
{
    dao_tag_t before = dao_tag_of_thread;
    dao_tag_of_thread = dao_tag_names_get(tag) != NULL ? tag : 0;
    return before;
}

dao_status_t dao_tag_check(const char *caller, dao_tag_t tag)
{
    return dao_tag_names_get(tag) != NULL ? DAO_OK
                                          : dao_error(DAO_ERR_INVALID, "%s: %u is no tag", caller, tag);
}

/* Returns a place's counters; NULL for a device that was not used yet, unless it is to be started. */
static dao_status_t tags_find(dao_place_t place, bool starts, dao_tags_t **out_tags,
                              dao_runtime_t **out_runtime)
{
    dao_allocator_t *allocator;
    dao_status_t status = starts ? dao_place_find(place, &allocator, out_runtime)
                                 : dao_place_peek(place, &allocator, out_runtime);
    if (status == DAO_OK) {
        *out_tags = allocator != NULL ? allocator->ledger->tags : NULL;
        dao_place_drain(place, *out_runtime);
    }
    return status;
}

dao_status_t dao_tag_stats_get(dao_place_t place, dao_tag_t tag, dao_tag_stats_t *out_stats)
{
    if (out_stats == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_tag_stats_get: out_stats is NULL");
    }
    dao_tags_t *tags;
    dao_runtime_t *runtime;
    dao_status_t status = dao_tag_check("dao_tag_stats_get", tag);
    if (status == DAO_OK) {
        status = tags_find(place, false, &tags, &runtime);
    }
    if (status != DAO_OK) {
        return status;
    }
    *out_stats = (dao_tag_stats_t){0};
    if (tags != NULL) {
        dao_tags_stats_get(tags, tag, out_stats);
    }
    return DAO_OK;
}

dao_status_t dao_tag_limit_set(dao_place_t place, dao_tag_t tag, size_t limit_bytes)
{
    dao_tags_t *tags;
    dao_runtime_t *runtime;
    dao_status_t status = dao_tag_check("dao_tag_limit_set", tag);
    if (status == DAO_OK) {
        status = tags_find(place, true, &tags, &runtime);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = dao_tags_limit_set(tags, tag, limit_bytes);
    if (status == DAO_ERR_LIMIT && runtime != NULL && dao_runtime_deferred_count(runtime, place.kind) > 0) {
        dao_runtime_drain_all(runtime); /* frees that wait for a stream are no live blocks */
        dao_place_drain(place, runtime);
        status = dao_tags_limit_set(tags, tag, limit_bytes);
    }
    dao_waiters_note_free();
    return status;
}

dao_status_t dao_tag_walk(dao_place_t place, dao_tag_visit_t visit, void *user)
{
    if (visit == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_tag_walk: visit is NULL");
    }
    dao_tags_t *tags;
    dao_runtime_t *runtime;
    dao_status_t status = tags_find(place, false, &tags, &runtime);
    for (dao_tag_t tag = 1; status == DAO_OK && tags != NULL && dao_tag_names_get(tag) != NULL; tag++) {
        dao_tag_stats_t stats;
        dao_tags_stats_get(tags, tag, &stats);
        if (stats.alloc_count > 0 || stats.limit_bytes > 0 || stats.refused_count > 0) {
            dao_callback_begin();
            visit(tag, &stats, user);
            dao_callback_end();
        }
    }
    return status;
}

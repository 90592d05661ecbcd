/* SPDX-License-Identifier: Apache-2.0 */
/* A list, whose lock is held while its members write. */
#include "runtime/scoreboard/score_source.h"

#include "base/threads/sync.h"

static struct {
    dao_mutex_t lock;
    /* guarded by the lock */
    dao_score_source_t *first, *last;
    uint32_t added_count;
} sources = {.lock = DAO_MUTEX_INITIALIZER(DAO_RANK_EXECUTOR)};

void dao_score_source_add(dao_score_source_t *source)
{
    dao_mutex_lock(&sources.lock);
    source->number = ++sources.added_count;
    source->next = NULL;
    source->previous = sources.last;
    *(sources.last != NULL ? &sources.last->next : &sources.first) = source;
    sources.last = source;
    dao_mutex_unlock(&sources.lock);
}

void dao_score_source_remove(dao_score_source_t *source)
{
    dao_mutex_lock(&sources.lock);
    *(source->previous != NULL ? &source->previous->next : &sources.first) = source->next;
    *(source->next != NULL ? &source->next->previous : &sources.last) = source->previous;
    dao_mutex_unlock(&sources.lock);
}

void dao_score_sources_write(dao_scores_t *scores)
{
    dao_mutex_lock(&sources.lock);
    for (const dao_score_source_t *source = sources.first; source != NULL; source = source->next) {
        source->write(source, scores);
    }
    dao_mutex_unlock(&sources.lock);
}

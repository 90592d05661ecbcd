/* SPDX-License-Identifier: Apache-2.0 */
/* What shows figures of its own: executors, which the runtime does not know. */
#ifndef DAO_RUNTIME_SCORE_SOURCE_H
#define DAO_RUNTIME_SCORE_SOURCE_H

#include "runtime/scoreboard/scoreboard.h"

/* A part of what shows figures; its owner's while it is not added. */
typedef struct dao_score_source {
    struct dao_score_source *previous, *next;
    uint32_t number; /* from 1, in order of adding */
    /* Writes the owner's rows. Called while the list is locked: it takes no lock but leaves. */
    void (*write)(const struct dao_score_source *source, dao_scores_t *scores);
} dao_score_source_t;

/* Shows it from now on. Threads: any. */
void dao_score_source_add(dao_score_source_t *source);

/* Shows it no longer: no call is under way any more. */
void dao_score_source_remove(dao_score_source_t *source);

/* Writes the rows of all of them, oldest first. */
void dao_score_sources_write(dao_scores_t *scores);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks a stream: work that is queued after the gate waits until the test opens it. */
#ifndef DAO_TESTS_SUPPORT_GATE_H
#define DAO_TESTS_SUPPORT_GATE_H

#include "base/threads/sync.h"

#include <stdatomic.h>

typedef struct dao_gate {
    dao_mutex_t lock;
    dao_cond_t changed;
    bool is_reached; /* a stream has reached it */
    bool is_open;
    _Atomic uint32_t *word; /* 1 once it is open, for a device that polls it; NULL: none */
} dao_gate_t;

static inline void dao_gate_init(dao_gate_t *gate)
{
    dao_mutex_init(&gate->lock, DAO_RANK_LEAF);
    dao_cond_init(&gate->changed);
    gate->is_reached = false;
    gate->is_open = false;
    gate->word = NULL;
}

/* No thread waits any more. */
static inline void dao_gate_finish(dao_gate_t *gate)
{
    dao_cond_finish(&gate->changed);
    dao_mutex_finish(&gate->lock);
}

/* A host function for a stream: waits until the gate is open. */
static inline void dao_gate_wait(void *user)
{
    dao_gate_t *gate = user;
    dao_mutex_lock(&gate->lock);
    gate->is_reached = true;
    dao_cond_broadcast(&gate->changed);
    while (!gate->is_open) {
        dao_cond_wait(&gate->changed, &gate->lock);
    }
    dao_mutex_unlock(&gate->lock);
}

/* Marks the gate as reached. */
static inline void dao_gate_reach(void *user)
{
    dao_gate_t *gate = user;
    dao_mutex_lock(&gate->lock);
    gate->is_reached = true;
    dao_cond_broadcast(&gate->changed);
    dao_mutex_unlock(&gate->lock);
}

/* Sets the word that a device polls: 1 when the gate is open. */
static inline void dao_gate_share(dao_gate_t *gate, _Atomic uint32_t *word)
{
    dao_mutex_lock(&gate->lock);
    atomic_store(word, gate->is_open ? 1 : 0);
    gate->word = word;
    dao_mutex_unlock(&gate->lock);
}

/* Waits until a stream has reached the gate. */
static inline void dao_gate_await_reached(dao_gate_t *gate)
{
    dao_mutex_lock(&gate->lock);
    while (!gate->is_reached) {
        dao_cond_wait(&gate->changed, &gate->lock);
    }
    dao_mutex_unlock(&gate->lock);
}

static inline void dao_gate_open(dao_gate_t *gate)
{
    dao_mutex_lock(&gate->lock);
    gate->is_open = true;
    if (gate->word != NULL) {
        atomic_store(gate->word, 1);
    }
    dao_cond_broadcast(&gate->changed);
    dao_mutex_unlock(&gate->lock);
}

#endif

/* A gate that holds a stream up: work behind it waits until the test opens it. */
#ifndef DAO_TESTS_SUPPORT_GATE_H
#define DAO_TESTS_SUPPORT_GATE_H

#include "base/sync.h"

typedef struct dao_gate {
    dao_mutex_t lock;
    dao_cond_t opened;
    bool is_open;
} dao_gate_t;

static inline void dao_gate_init(dao_gate_t *gate)
{
    dao_mutex_init(&gate->lock, DAO_RANK_LEAF);
    dao_cond_init(&gate->opened);
    gate->is_open = false;
}

/* Once nobody waits any more. */
static inline void dao_gate_finish(dao_gate_t *gate)
{
    dao_cond_finish(&gate->opened);
    dao_mutex_finish(&gate->lock);
}

/* For dao_stream_host_func(): waits until the gate is open. */
static inline void dao_gate_wait(void *user)
{
    dao_gate_t *gate = user;
    dao_mutex_lock(&gate->lock);
    while (!gate->is_open) {
        dao_cond_wait(&gate->opened, &gate->lock);
    }
    dao_mutex_unlock(&gate->lock);
}

static inline void dao_gate_open(dao_gate_t *gate)
{
    dao_mutex_lock(&gate->lock);
    gate->is_open = true;
    dao_cond_broadcast(&gate->opened);
    dao_mutex_unlock(&gate->lock);
}

#endif

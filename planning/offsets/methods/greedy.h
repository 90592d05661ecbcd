/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy placement: one buffer after the other, in some order, into the lowest or the smallest hole between
   those before. */
#ifndef DAO_PLANNING_GREEDY_H
#define DAO_PLANNING_GREEDY_H

#include "planning/offsets/methods/order.h"
#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_greedy_config {
    dao_plan_order_t order;
    bool is_best_fit;        /* the smallest hole that fits; else the lowest */
    bool grows_least;        /* of several pools the one that grows least; else the first that holds it */
    const uint64_t *offsets; /* for DAO_PLAN_ORDER_OFFSET: one an item; borrowed until it is done */
    const uint64_t *placed;  /* one an item: what is not DAO_PLAN_NOWHERE lies there; NULL: nothing does */
    uint64_t left_out_bytes_max; /* it ends early once so many bytes have found no place; 0: never */
} dao_plan_greedy_config_t;

typedef struct dao_plan_greedy dao_plan_greedy_t;

/* In passes. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_greedy_create(dao_plan_instance_t *instance,
                                                  const dao_plan_greedy_config_t *config,
                                                  dao_plan_work_t *work, dao_plan_greedy_t **out_greedy);
void dao_plan_greedy_destroy(dao_plan_greedy_t *greedy);

/* Goes on until it is done, or has left out too much, or the work counter ends. DAO_ERR_NO_HOST_MEMORY: it
   can be called again. */
DAO_NODISCARD dao_status_t dao_plan_greedy_step(dao_plan_greedy_t *greedy, dao_plan_work_t *work,
                                                bool *out_is_done);

/* Valid once it is done: no two pieces share bytes at the same time. Borrowed. */
dao_plan_layout_t *dao_plan_greedy_layout(dao_plan_greedy_t *greedy);

#endif

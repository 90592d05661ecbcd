/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of a plan that is followed: the plan's tensors, and the managed tensors that have these roles now. */
#ifndef DAO_RUNTIME_EXECUTOR_PLAN_ROLE_H
#define DAO_RUNTIME_EXECUTOR_PLAN_ROLE_H

#include "runtime/executor/records/tensor.h"

#define DAO_PLAN_NOWHERE UINT64_MAX

typedef struct dao_plan_role {
    dao_managed_t *tensor; /* that has the role now; NULL: none */
    void *slot;            /* host memory that the plan took for the role; NULL: none */
    dao_fence_t slot_busy; /* what still uses the slot */
    uint64_t size_bytes;
    uint64_t start_address; /* where it lies as a step starts; DAO_PLAN_NOWHERE: not on the device */
    bool is_pinned;         /* of a tensor that was pinned as the plan was made, which does not move it */
    bool needs_slot;        /* some copy of the plan goes to the host, or comes from it */
} dao_plan_role_t;

/* Gives the role to a tensor. Neither has another. */
void dao_plan_role_bind(dao_plan_role_t *role, dao_managed_t *tensor);

/* Takes the tensor's role away, if it has one. */
void dao_plan_role_unbind(dao_managed_t *tensor);

/* Returns the role's slot for a tensor's copy out, and what still uses it; NULL: the role has none that is
   free. */
void *dao_plan_role_take_slot(const dao_managed_t *tensor, dao_fence_t *out_busy);

/* Returns true if the tensor's role keeps a slot on the host, so that the bytes there are not moved to the
   file. */
bool dao_plan_role_needs_slot(const dao_managed_t *tensor);

/* Returns true if a slot is that of the tensor's role. */
bool dao_plan_role_has_slot(const dao_managed_t *tensor, const void *slot);

/* Gives the tensor's slot back to its role; false: it is not the role's. */
bool dao_plan_role_give_slot(dao_managed_t *tensor);

/* The role and its tensor name each other. */
bool dao_plan_role_is_valid(const dao_plan_role_t *role);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of a plan, and the tensors that have them.

   A plan is made for roles: numbers of tensors in the order of their first use in the step. While it is
   followed, a role has at most one tensor and a tensor at most one role.

       slot    tensor uses it               the copy out that fills it
       NULL    -                            takes a slot of the host tier
       taken   no                           takes this one, behind slot_busy
       taken   yes, as its host_address     -

   Invariant: role->tensor->plan_role == role, and tensor->plan_role->tensor == tensor. */
#include "runtime/executor/state/plan_role.h"

#include "base/report/assert.h"

bool dao_plan_role_is_valid(const dao_plan_role_t *role)
{
    return role->tensor == NULL || role->tensor->plan_role == role;
}

void dao_plan_role_bind(dao_plan_role_t *role, dao_managed_t *tensor)
{
    DAO_ASSERT(role->tensor == NULL);
    DAO_ASSERT(tensor->plan_role == NULL);
    role->tensor = tensor;
    tensor->plan_role = role;
    DAO_ASSERT(dao_plan_role_is_valid(role));
}

void dao_plan_role_unbind(dao_managed_t *tensor)
{
    dao_plan_role_t *role = tensor->plan_role;
    if (role == NULL) {
        return;
    }
    DAO_ASSERT(role->tensor == tensor);
    role->tensor = NULL;
    tensor->plan_role = NULL;
}

void *dao_plan_role_take_slot(const dao_managed_t *tensor, dao_fence_t *out_busy)
{
    const dao_plan_role_t *role = tensor->plan_role;
    if (role == NULL || role->slot == NULL || tensor->host_address == role->slot) {
        return NULL;
    }
    DAO_ASSERT(role->tensor == tensor);
    *out_busy = role->slot_busy;
    return role->slot;
}

bool dao_plan_role_needs_slot(const dao_managed_t *tensor)
{
    return tensor->plan_role != NULL && tensor->plan_role->needs_slot;
}

bool dao_plan_role_has_slot(const dao_managed_t *tensor, const void *slot)
{
    return tensor->plan_role != NULL && tensor->plan_role->slot == slot;
}

bool dao_plan_role_give_slot(dao_managed_t *tensor)
{
    dao_plan_role_t *role = tensor->plan_role;
    if (!dao_plan_role_has_slot(tensor, tensor->host_address)) {
        return false;
    }
    DAO_ASSERT(role->tensor == tensor);
    dao_fence_join(&role->slot_busy, &tensor->host_busy);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The last reference to a tensor or a list may be dropped anywhere, so that whoever drops one does not know
   whether the program is called. A thread that has to know says so once. */
#include "runtime/executor/records/drop.h"

#include <stddef.h>

static _Thread_local void (*call_behind)(const void *owner);
static _Thread_local const void *behind_owner;

void dao_drop_call(void (*drop)(void *user), void *user)
{
    if (drop == NULL) {
        return;
    }
    drop(user);
    if (call_behind != NULL) {
        call_behind(behind_owner);
    }
}

void dao_drop_set_behind(void (*behind)(const void *owner), const void *owner)
{
    call_behind = behind;
    behind_owner = owner;
}

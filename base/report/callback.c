/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread counts how deep it is in callbacks. */
#include "base/report/callback.h"

#include "base/report/assert.h"
#include "base/report/error.h"

static _Thread_local uint32_t depth;

void dao_callback_begin(void)
{
    depth++;
}

void dao_callback_end(void)
{
    DAO_ASSERT(depth > 0);
    depth--;
}

dao_status_t dao_callback_check(void)
{
    return depth == 0 ? DAO_OK
                      : dao_error(DAO_ERR_REENTRANT,
                                  "dao_finalize: the call that runs this callback still needs the library; "
                                  "stop it when that call has returned");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Adding a segment callback: the place has to be there. They are kept and called by
 * observe/segment_notifier.c. */
#include <dao/segment.h>

#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/observe/segment_notifier.h"
#include "runtime/start/context.h"

/* Checks what dao_segment_callback_add() was called with. */
static dao_status_t check_add(dao_place_t place, dao_segment_callback_t function, const uint64_t *out_id)
{
    if (function == NULL || out_id == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_segment_callback_add: %s is NULL",
                         function == NULL ? "function" : "out_id");
    }
    dao_core_t *core;
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_place_enter(place, &core);
    }
    if (status == DAO_OK && place.kind == DAO_PLACE_KIND_CPU) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "dao_segment_callback_add: the host's memory comes from no backend");
    }
    return status;
}

dao_status_t dao_segment_callback_add(dao_place_t place, dao_segment_callback_t function, void *user,
                                      uint64_t *out_id)
{
    dao_status_t status = check_add(place, function, out_id);
    if (status != DAO_OK) {
        return status;
    }
    return dao_segment_notifier_add(place, function, user, out_id)
               ? DAO_OK
               : dao_error(DAO_ERR_TOO_MANY,
                           "dao_segment_callback_add: there are %d callbacks already: remove one with "
                           "dao_segment_callback_remove()",
                           DAO_SEGMENT_CALLBACK_COUNT_MAX);
}

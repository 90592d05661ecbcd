/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's failure.

       state     has_failed   is_lost   kernels   cleared by
       well      no           no        run       -
       failed    yes          no        skipped   the sync that reports it
       lost      yes, no      yes       skipped   nothing: every sync reports it

   dao_engine_fail() makes every transition but the clearing, which is run_sync()'s in engine.c.
   Invariant: `failure` holds the loss, else the first failure since the last sync. */
#include "runtime/executor/core/failure.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/device/runtime.h"

void dao_engine_fail(dao_engine_t *engine, dao_status_t status, bool lost)
{
    DAO_ASSERT(status != DAO_OK);
    lost = lost || status == DAO_ERR_DEVICE_LOST;
    if (engine->is_lost || (engine->has_failed && !lost)) {
        return;
    }
    if (engine->has_failed) { /* the first failure was perhaps the loss, seen from elsewhere */
        (void)dao_error_vendor(status, dao_last_vendor_code(), "%.240s; before it: %.240s",
                               dao_last_message(), engine->failure.message);
    }
    engine->has_failed = true;
    engine->is_lost = lost;
    dao_error_save(&engine->failure, status);
    DAO_ASSERT(engine->failure.status != DAO_OK);
    if (lost) { /* host memory is given back from now on without waiting */
        dao_file_tier_stop(&engine->file_tier);
    }
}

static const dao_stream_t *given_stream(const dao_engine_t *engine, dao_stream_role_t role)
{
    return (int)role < DAO_TIMELINE_PACED_COUNT ? engine->config.given_streams[role] : NULL;
}

dao_status_t dao_engine_before(dao_engine_t *engine, dao_stream_role_t role, const dao_fence_t *fence)
{
    const dao_stream_t *given = given_stream(engine, role);
    dao_status_t status = given != NULL ? dao_stream_takes_work(given) : DAO_OK;
    if (status == DAO_OK) {
        status = dao_timeline_before(&engine->timeline, role, fence);
        dao_engine_lose_unless_ok(engine, status);
    }
    return status;
}

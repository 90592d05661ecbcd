/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a crowd, and what its stream has waited for. Invariant: what a member had queued when it
   freed last has ended, or is before the crowd's stream, or the member has that free's epoch. */
#include "allocators/stream_crowd.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

#define SLOT_COUNT_FIRST 16u

dao_status_t dao_stream_crowd_open(dao_stream_crowd_t *crowd, const dao_backend_ops_t *ops,
                                   dao_backend_device_t *device)
{
    *crowd = (dao_stream_crowd_t){0};
    dao_status_t status = ops->stream_create(device, &crowd->stream);
    if (status == DAO_OK && (status = ops->event_create(device, false, &crowd->event)) != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        ops->stream_destroy(crowd->stream);
        crowd->stream = NULL;
        status = dao_error_restore(&record);
    }
    return status;
}

void dao_stream_crowd_close(dao_stream_crowd_t *crowd, const dao_backend_ops_t *ops)
{
    if (crowd->stream != NULL) {
        ops->event_destroy(crowd->event);
        ops->stream_destroy(crowd->stream);
    }
    dao_host_free(crowd->members);
    *crowd = (dao_stream_crowd_t){0};
}

static dao_status_t grow(dao_stream_crowd_t *crowd)
{
    uint32_t slot_count = crowd->slot_count > 0 ? 2 * crowd->slot_count : SLOT_COUNT_FIRST;
    dao_crowd_member_t *members = dao_host_calloc(slot_count, sizeof(*members));
    if (members == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %u streams of a device", slot_count);
    }
    if (crowd->slot_count > 0) {
        memcpy(members, crowd->members, crowd->slot_count * sizeof(*members));
    }
    dao_host_free(crowd->members);
    crowd->members = members;
    crowd->slot_count = slot_count;
    return DAO_OK;
}

dao_status_t dao_stream_crowd_join(dao_stream_crowd_t *crowd, dao_backend_stream_t *stream,
                                   uint32_t *out_index)
{
    uint32_t index = 0;
    while (index < crowd->slot_count && crowd->members[index].stream != NULL) {
        index++;
    }
    dao_status_t status = index < crowd->slot_count ? DAO_OK : grow(crowd);
    if (status == DAO_OK) {
        crowd->members[index] = (dao_crowd_member_t){.stream = stream};
        *out_index = index;
    }
    return status;
}

void dao_stream_crowd_leave(dao_stream_crowd_t *crowd, uint32_t index)
{
    DAO_ASSERT(index < crowd->slot_count && crowd->members[index].stream != NULL);
    crowd->members[index] = (dao_crowd_member_t){0};
}

void dao_stream_crowd_finished(dao_stream_crowd_t *crowd, uint32_t index, uint64_t epoch)
{
    DAO_ASSERT(index < crowd->slot_count);
    dao_crowd_member_t *member = &crowd->members[index];
    if (member->freed_epoch <= epoch) {
        member->freed_epoch = 0;
    }
}

/* Makes the crowd's stream wait for a member. That it is captured is looked at behind the event, too, since
   another thread may begin the capture: the crowd's stream must not become a part of it. */
static dao_status_t follow_member(const dao_stream_crowd_t *crowd, const dao_crowd_member_t *member,
                                  const dao_backend_ops_t *ops)
{
    if (dao_backend_stream_is_gone(ops, member->stream)) {
        return DAO_ERR_NOT_READY;
    }
    if (dao_backend_stream_capture(ops, member->stream) != 0) {
        return DAO_ERR_BUSY;
    }
    dao_status_t status = ops->event_record(crowd->event, member->stream);
    if (status == DAO_OK && dao_backend_stream_capture(ops, member->stream) != 0) {
        return DAO_ERR_BUSY;
    }
    return status == DAO_OK ? ops->stream_wait_event(crowd->stream, crowd->event) : status;
}

dao_status_t dao_stream_crowd_follow(dao_stream_crowd_t *crowd, const dao_backend_ops_t *ops)
{
    for (uint32_t i = 0; i < crowd->slot_count; i++) {
        dao_crowd_member_t *member = &crowd->members[i];
        if (member->stream == NULL || (member->freed_epoch == 0 && !member->is_shared)) {
            continue;
        }
        dao_status_t status = follow_member(crowd, member, ops);
        if (status != DAO_OK) {
            return status;
        }
        member->freed_epoch = 0;
    }
    return DAO_OK;
}

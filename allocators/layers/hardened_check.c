/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at all blocks of a hardened place: guards of live ones, bytes and guards of those in quarantine,
   and the table. A block is in the hands of the check while it is looked at, without the lock: whoever else
   wants it waits. Blocks that were retired are not looked at before they are reclaimed. */
#include "allocators/layers/hardened_internal.h"

#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <stdio.h>

/* Copies the addresses of all intact descriptors, as far as there is room; returns their number.
   `*out_damaged` is whether there are others. */
static size_t addresses_copy(hardened_t *hardened, uint64_t *addresses, size_t capacity, bool *out_damaged)
{
    size_t count = 0;
    dao_mutex_lock(&hardened->lock);
    *out_damaged = false;
    for (size_t i = 0; i < hardened->descriptors.capacity; i++) {
        const dao_descriptor_t *descriptor = &hardened->descriptors.entries[i];
        if (dao_descriptor_is_empty(descriptor)) {
            continue;
        }
        if (!dao_descriptor_is_intact(&hardened->descriptors, descriptor)) {
            *out_damaged = true;
            continue;
        }
        if (count < capacity) {
            addresses[count] = descriptor->address;
        }
        count++;
    }
    dao_mutex_unlock(&hardened->lock);
    return count;
}

/* Takes a block into this call's hands to look at it. Returns the state that it had; 0 if there is nothing to
   look at. */
static uint64_t check_begin(hardened_t *hardened, const void *address, taken_t *out_taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_search_t search = dao_hardened_find_locked(hardened, address);
    uint64_t state = 0;
    if (search.descriptor != NULL && search.is_intact) {
        state = search.descriptor->state;
        *out_taken = dao_hardened_taken_of(search.descriptor);
        if (state == DAO_DESCRIPTOR_LIVE || state == DAO_DESCRIPTOR_QUARANTINED) {
            dao_descriptors_set_state(search.descriptor, state == DAO_DESCRIPTOR_LIVE
                                                             ? DAO_DESCRIPTOR_LIVE_CHECKED
                                                             : DAO_DESCRIPTOR_QUARANTINED_CHECKED);
        }
    }
    dao_mutex_unlock(&hardened->lock);
    return state;
}

static dao_status_t check_one(hardened_t *hardened, const void *address)
{
    taken_t taken;
    uint64_t state = check_begin(hardened, address, &taken);
    if (state == DAO_DESCRIPTOR_DAMAGED) {
        return dao_error(DAO_ERR_CORRUPT, "%s: the block of %zu bytes at %p was found damaged before",
                         hardened->ledger.name, taken.requested_bytes, (void *)taken.address);
    }
    if (state != DAO_DESCRIPTOR_LIVE && state != DAO_DESCRIPTOR_QUARANTINED) {
        return DAO_OK; /* it is gone, or on its way */
    }
    dao_status_t status = state == DAO_DESCRIPTOR_LIVE ? dao_hardened_guard_check(hardened, &taken)
                                                       : dao_hardened_quarantine_check(hardened, &taken);
    dao_mutex_lock(&hardened->lock);
    dao_hardened_state_set_locked(hardened, &taken, (dao_descriptor_state_t)state);
    dao_cond_broadcast(&hardened->changed);
    dao_mutex_unlock(&hardened->lock);
    return status;
}

/* Room for what is said before the findings. */
#define FINDINGS_HEAD_BYTES 128

/* What a check has found. A message of each damaged block, as far as there is room: the log has the others.
 */
typedef struct findings {
    size_t count;
    size_t logged_count;
    size_t length;
    char text[DAO_ERROR_MESSAGE_BYTES - FINDINGS_HEAD_BYTES];
} findings_t;

/* Adds this thread's message to the findings. */
static void findings_add(findings_t *findings)
{
    const char *message = dao_last_message();
    size_t room = sizeof(findings->text) - findings->length;
    int written =
        snprintf(findings->text + findings->length, room, "%s%s", findings->count == 0 ? "" : "; ", message);
    bool fits = written > 0 && (size_t)written < room;
    findings->length += fits ? (size_t)written : 0;
    findings->text[findings->length] = '\0';
    findings->count++;
    if (!fits) {
        findings->logged_count++;
        dao_log(DAO_LOG_LEVEL_ERROR, "%s", message);
    }
}

static dao_status_t findings_error(const hardened_t *hardened, const findings_t *findings)
{
    if (findings->count == 1) {
        return dao_error(DAO_ERR_CORRUPT, "%s", findings->text);
    }
    return dao_error(DAO_ERR_CORRUPT, "%s: %zu findings, of which the log has %zu: %s", hardened->ledger.name,
                     findings->count, findings->logged_count, findings->text);
}

/* Looks at all blocks of a list. What cannot be looked at ends it. */
static dao_status_t check_all(hardened_t *hardened, const uint64_t *addresses, size_t count,
                              findings_t *findings)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        status = check_one(hardened, (const void *)(uintptr_t)addresses[i]);
        if (status == DAO_ERR_CORRUPT) {
            findings_add(findings);
            status = DAO_OK;
        }
    }
    return status;
}

dao_status_t dao_hardened_check(dao_allocator_t *allocator)
{
    DAO_ASSERT(dao_is_hardened(allocator));
    hardened_t *hardened = dao_hardened_of(allocator);
    bool is_damaged;
    size_t count = addresses_copy(hardened, NULL, 0, &is_damaged);
    uint64_t *addresses = count > 0 ? dao_host_calloc(count, sizeof(*addresses)) : NULL;
    if (count > 0 && addresses == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for a list of %zu blocks",
                         hardened->ledger.name, count);
    }
    size_t seen_count = addresses_copy(hardened, addresses, count, &is_damaged);
    count = seen_count < count ? seen_count : count;
    findings_t findings = {0};
    dao_status_t status = check_all(hardened, addresses, count, &findings);
    dao_host_free(addresses);
    if (is_damaged) {
        (void)dao_error(DAO_ERR_CORRUPT, "%s: the table of blocks is damaged", hardened->ledger.name);
        findings_add(&findings);
    }
    return findings.count > 0 ? findings_error(hardened, &findings) : status;
}

void *dao_hardened_descriptor(dao_allocator_t *allocator, const void *address, size_t *out_size_bytes)
{
    DAO_ASSERT(dao_is_hardened(allocator));
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_t *descriptor = dao_descriptors_find(&hardened->descriptors, address).descriptor;
    dao_mutex_unlock(&hardened->lock);
    *out_size_bytes = sizeof(*descriptor);
    return descriptor;
}

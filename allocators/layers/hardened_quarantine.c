/* SPDX-License-Identifier: Apache-2.0 */
/* The quarantine of a hardened place: freed blocks, first in first out, whose bytes are looked at again as
   they leave. What holds of it is said in hardened.c. */
#include "allocators/layers/hardened_internal.h"

#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#define QUEUE_MIN 64u

bool dao_hardened_queue_reserve_locked(hardened_t *hardened)
{
    if (hardened->queue_capacity > hardened->descriptors.count + hardened->descriptors.promised_count) {
        return true;
    }
    size_t capacity = hardened->queue_capacity * 2 + QUEUE_MIN;
    uint64_t *queue = dao_host_calloc(capacity, sizeof(*queue));
    if (queue == NULL) {
        return false;
    }
    for (size_t i = 0; i < hardened->queue_count; i++) {
        queue[i] = hardened->queue[(hardened->queue_first + i) % hardened->queue_capacity];
    }
    dao_host_free(hardened->queue);
    hardened->queue = queue;
    hardened->queue_capacity = capacity;
    hardened->queue_first = 0;
    DAO_ASSERT(hardened->queue_count < hardened->queue_capacity);
    return true;
}

static void queue_push_locked(hardened_t *hardened, const taken_t *taken)
{
    DAO_ASSERT(hardened->queue_count < hardened->queue_capacity);
    hardened->queue[(hardened->queue_first + hardened->queue_count) % hardened->queue_capacity] =
        (uintptr_t)taken->address;
    hardened->queue_count++;
    hardened->quarantined_bytes += taken->block_bytes;
    DAO_ASSERT(hardened->queue_capacity >=
               hardened->descriptors.count + hardened->descriptors.promised_count);
}

/* Takes the oldest block out of the quarantine if it holds more than keep_bytes; false if there is none to
   take. One whose descriptor was damaged stays out of use. */
static bool queue_pop(hardened_t *hardened, uint64_t keep_bytes, taken_t *out_taken)
{
    bool is_found = false;
    dao_mutex_lock(&hardened->lock);
    while (!is_found && hardened->queue_count > 0 && hardened->quarantined_bytes > keep_bytes) {
        const void *address = (const void *)(uintptr_t)hardened->queue[hardened->queue_first];
        dao_descriptor_search_t search =
            dao_hardened_find_locked(hardened, address); /* may wait, and others take it */
        if (hardened->queue_count == 0 || hardened->queue[hardened->queue_first] != (uintptr_t)address) {
            continue;
        }
        hardened->queue_first = (hardened->queue_first + 1) % hardened->queue_capacity;
        hardened->queue_count--;
        if (search.descriptor == NULL || !search.is_intact) {
            hardened->quarantined_bytes =
                hardened->queue_count == 0 ? 0 : hardened->quarantined_bytes; /* its size is lost */
            continue;
        }
        *out_taken = dao_hardened_taken_of(search.descriptor);
        DAO_ASSERT(hardened->quarantined_bytes >= out_taken->block_bytes);
        hardened->quarantined_bytes -= out_taken->block_bytes;
        dao_descriptors_set_state(search.descriptor, DAO_DESCRIPTOR_LEAVING);
        is_found = true;
    }
    dao_mutex_unlock(&hardened->lock);
    return is_found;
}

void dao_hardened_give_back(hardened_t *hardened, const taken_t *taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, taken->address);
    bool is_known = search.descriptor != NULL && search.is_intact;
    if (is_known) {
        dao_descriptors_erase(&hardened->descriptors, search.descriptor);
    }
    dao_mutex_unlock(&hardened->lock);
    if (!is_known || dao_allocator_free(hardened->inner, taken->address) != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "%s: the block at %p could not be given back: %s", hardened->ledger.name,
                (void *)taken->address, is_known ? dao_last_message() : "its descriptor was damaged");
    }
}

void dao_hardened_keep_damaged(hardened_t *hardened, const taken_t *taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_hardened_state_set_locked(hardened, taken, DAO_DESCRIPTOR_DAMAGED);
    dao_mutex_unlock(&hardened->lock);
    dao_log(DAO_LOG_LEVEL_ERROR, "%s; it is kept out of use", dao_last_message());
}

void dao_hardened_quarantine(hardened_t *hardened, const taken_t *taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_hardened_state_set_locked(hardened, taken, DAO_DESCRIPTOR_QUARANTINED);
    queue_push_locked(hardened, taken);
    dao_mutex_unlock(&hardened->lock);
}

uint64_t dao_hardened_quarantine_shrink(hardened_t *hardened, uint64_t keep_bytes)
{
    dao_error_record_t record; /* what is found is not this caller's error */
    dao_error_save(&record, dao_last_status());
    uint64_t given_count = 0;
    taken_t taken;
    dao_status_t status = DAO_OK;
    while ((status == DAO_OK || status == DAO_ERR_CORRUPT) && queue_pop(hardened, keep_bytes, &taken)) {
        status = dao_hardened_quarantine_check(hardened, &taken);
        if (status == DAO_OK) {
            dao_hardened_give_back(hardened, &taken);
            given_count++;
        } else if (status == DAO_ERR_CORRUPT) {
            dao_hardened_keep_damaged(hardened, &taken);
        } else {
            dao_hardened_quarantine(hardened, &taken);
        }
    }
    (void)dao_error_restore(&record);
    return given_count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A probe table (base/memory/probe_table.h) whose entries have a checksum. What holds between calls:

       count entries are not empty; count and promised_count together are at most three quarters of them
       every intact entry is found by probing from its home

   An entry whose checksum is wrong is neither moved nor taken out: where it belongs cannot be known. It
   counts as taken, so that others behind it are still found. It moves with the rest when the table grows, by
   the address that it has then. */
#include "allocators/layers/descriptors.h"

#include "base/memory/host.h"
#include "base/memory/probe_table.h"
#include "base/report/assert.h"

#define CAPACITY_MIN 64u

static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

/* Every bit of every field counts, and fields that change places do, too. */
static uint64_t checksum_of(const dao_descriptor_t *descriptor)
{
    uint64_t sum = mix(descriptor->address + UINT64_C(0x9e3779b97f4a7c15));
    sum = mix(sum + descriptor->word);
    sum = mix(sum + descriptor->block_bytes);
    return mix(sum + descriptor->state) | 1;
}

bool dao_descriptor_is_empty(const dao_descriptor_t *descriptor)
{
    return (descriptor->address | descriptor->word | descriptor->block_bytes | descriptor->state |
            descriptor->checksum) == 0;
}

bool dao_descriptor_is_intact(const dao_descriptors_t *descriptors, const dao_descriptor_t *descriptor)
{
    return !descriptors->is_checked || descriptor->checksum == checksum_of(descriptor);
}

void dao_descriptors_init(dao_descriptors_t *descriptors, bool is_checked)
{
    *descriptors = (dao_descriptors_t){.is_checked = is_checked};
}

void dao_descriptors_finish(dao_descriptors_t *descriptors)
{
    dao_host_free(descriptors->entries);
    *descriptors = (dao_descriptors_t){0};
}

static uint64_t key_of(const void *entry)
{
    return ((const dao_descriptor_t *)entry)->address;
}

static bool is_empty(const void *entry)
{
    return dao_descriptor_is_empty(entry);
}

static bool may_move(const void *entry, const void *descriptors)
{
    return dao_descriptor_is_intact(descriptors, entry);
}

static const dao_probe_kind_t kind = {.entry_bytes = sizeof(dao_descriptor_t),
                                      .key_of = key_of,
                                      .hash_of = mix,
                                      .is_empty = is_empty,
                                      .may_move = may_move};

bool dao_descriptors_reserve(dao_descriptors_t *descriptors)
{
    if (!dao_probe_has_room(descriptors->capacity, descriptors->count + descriptors->promised_count + 1)) {
        dao_descriptors_t larger = *descriptors;
        larger.capacity = descriptors->capacity == 0 ? CAPACITY_MIN : descriptors->capacity * 2;
        larger.entries = dao_host_calloc(larger.capacity, sizeof(*larger.entries));
        if (larger.entries == NULL) {
            return false;
        }
        dao_probe_copy_all(&kind, descriptors->entries, descriptors->capacity, larger.entries,
                           larger.capacity);
        dao_host_free(descriptors->entries);
        *descriptors = larger;
    }
    descriptors->promised_count++;
    return true;
}

void dao_descriptors_unreserve(dao_descriptors_t *descriptors)
{
    DAO_ASSERT(descriptors->promised_count > 0);
    descriptors->promised_count--;
}

void dao_descriptors_insert(dao_descriptors_t *descriptors, const void *address, uint64_t word,
                            size_t block_bytes)
{
    dao_descriptors_unreserve(descriptors);
    dao_descriptor_t *descriptor =
        dao_probe_empty(&kind, descriptors->entries, descriptors->capacity, (uintptr_t)address);
    *descriptor = (dao_descriptor_t){.address = (uintptr_t)address, .word = word, .block_bytes = block_bytes};
    descriptors->count++;
    DAO_ASSERT(dao_probe_has_room(descriptors->capacity, descriptors->count + descriptors->promised_count));
    dao_descriptors_set_state(descriptor, DAO_DESCRIPTOR_LIVE);
}

dao_descriptor_search_t dao_descriptors_find(const dao_descriptors_t *descriptors, const void *address)
{
    dao_descriptor_search_t search = {0};
    if (descriptors->capacity == 0) {
        return search;
    }
    size_t i = dao_probe_home(&kind, descriptors->capacity, (uintptr_t)address);
    while (!dao_descriptor_is_empty(&descriptors->entries[i])) {
        dao_descriptor_t *descriptor = &descriptors->entries[i];
        bool is_intact = dao_descriptor_is_intact(descriptors, descriptor);
        if (descriptor->address == (uintptr_t)address) {
            search.descriptor = descriptor;
            search.is_intact = is_intact;
            return search;
        }
        search.met_damage |= !is_intact;
        i = (i + 1) & (descriptors->capacity - 1);
    }
    return search;
}

/* Returns true if a descriptor goes from one state to another: the arrows in the head of hardened.c and those
   of a check, which gives back the state that it has found. 0: a new one. */
static bool may_follow(uint64_t from, dao_descriptor_state_t to)
{
    switch (from) {
    case 0:
        return to == DAO_DESCRIPTOR_LIVE;
    case DAO_DESCRIPTOR_LIVE:
        return to == DAO_DESCRIPTOR_LIVE_CHECKED || to == DAO_DESCRIPTOR_FREEING;
    case DAO_DESCRIPTOR_LIVE_CHECKED:
        return to == DAO_DESCRIPTOR_LIVE;
    case DAO_DESCRIPTOR_FREEING:
        return to == DAO_DESCRIPTOR_LIVE || to == DAO_DESCRIPTOR_LEAVING || to == DAO_DESCRIPTOR_DAMAGED ||
               to == DAO_DESCRIPTOR_RETIRED;
    case DAO_DESCRIPTOR_QUARANTINED:
        return to == DAO_DESCRIPTOR_QUARANTINED_CHECKED || to == DAO_DESCRIPTOR_LEAVING;
    case DAO_DESCRIPTOR_QUARANTINED_CHECKED:
        return to == DAO_DESCRIPTOR_QUARANTINED;
    case DAO_DESCRIPTOR_LEAVING:
        return to == DAO_DESCRIPTOR_QUARANTINED || to == DAO_DESCRIPTOR_DAMAGED ||
               to == DAO_DESCRIPTOR_RETIRED;
    case DAO_DESCRIPTOR_RETIRED:
        return to == DAO_DESCRIPTOR_LEAVING || to == DAO_DESCRIPTOR_LIVE;
    default:
        return false; /* DAMAGED is left by nobody */
    }
}

void dao_descriptors_set_state(dao_descriptor_t *descriptor, dao_descriptor_state_t state)
{
    DAO_ASSERT(may_follow(descriptor->state, state));
    descriptor->state = state;
    descriptor->checksum = checksum_of(descriptor);
}

void dao_descriptors_reuse(dao_descriptor_t *descriptor, uint64_t word)
{
    descriptor->word = word;
    dao_descriptors_set_state(descriptor, DAO_DESCRIPTOR_LIVE);
}

void dao_descriptors_erase(dao_descriptors_t *descriptors, dao_descriptor_t *descriptor)
{
    DAO_ASSERT(descriptors->count > 0);
    DAO_ASSERT(dao_descriptor_is_intact(descriptors, descriptor));
    dao_probe_erase(&kind, descriptors->entries, descriptors->capacity, descriptor, descriptors);
    descriptors->count--;
}

bool dao_descriptors_is_valid(const dao_descriptors_t *descriptors)
{
    size_t count = 0;
    for (size_t i = 0; i < descriptors->capacity; i++) {
        const dao_descriptor_t *descriptor = &descriptors->entries[i];
        if (dao_descriptor_is_empty(descriptor)) {
            continue;
        }
        const void *address = (const void *)(uintptr_t)descriptor->address;
        if (!dao_descriptor_is_intact(descriptors, descriptor) ||
            dao_descriptors_find(descriptors, address).descriptor != descriptor) {
            return false;
        }
        count++;
    }
    return count == descriptors->count &&
           dao_probe_has_room(descriptors->capacity, count + descriptors->promised_count);
}

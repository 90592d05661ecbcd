/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing over slots; the keys' bytes lie in one growing array, and a slot names
   its key by offset. Nothing is ever removed but everything at once.

   Invariants: slot_count is 0 or a power of two; 4 * count <= 3 * slot_count; every key is in the first run
   of used slots that begins at its hash. */
#define _GNU_SOURCE
#include "tools/base/id_map.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "tools/base/grow.h"

#include <string.h>
#include <sys/random.h>

struct dao_id_slot {
    uint64_t hash;
    uint64_t value;
    size_t text_offset;
    size_t length; /* of the key, plus one; 0: the slot is empty */
};

enum { FIRST_SLOTS = 16, KEPT_SLOTS = 1024 };

void dao_id_map_init(dao_id_map_t *map)
{
    *map = (dao_id_map_t){0};
    if (getrandom(map->seed, sizeof(map->seed), GRND_NONBLOCK) != (ssize_t)sizeof(map->seed)) {
        map->seed[0] = dao_clock_ns() * UINT64_C(0x9e3779b97f4a7c15);
        map->seed[1] = (uint64_t)(uintptr_t)map ^ map->seed[0] << 7;
    }
}

void dao_id_map_finish(dao_id_map_t *map)
{
    dao_host_free(map->slots);
    dao_host_free(map->text);
    map->slots = NULL;
    map->text = NULL;
    map->slot_count = map->count = map->text_bytes = map->text_capacity = 0;
}

void dao_id_map_clear(dao_id_map_t *map)
{
    if (map->slot_count > KEPT_SLOTS) {
        dao_id_map_finish(map);
        return;
    }
    if (map->count > 0) {
        memset(map->slots, 0, map->slot_count * sizeof(*map->slots));
    }
    map->count = 0;
    map->text_bytes = 0;
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3. */
static uint64_t hash_key(const dao_id_map_t *map, const char *key, size_t length)
{
    uint64_t v[4] = {map->seed[0] ^ UINT64_C(0x736f6d6570736575), map->seed[1] ^ UINT64_C(0x646f72616e646f6d),
                     map->seed[0] ^ UINT64_C(0x6c7967656e657261),
                     map->seed[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)length << 56;
    for (size_t i = 0; i < length; i += 8) {
        size_t bytes = length - i < 8 ? length - i : 8;
        uint64_t word = 0;
        memcpy(&word, key + i, bytes);
        if (bytes < 8) {
            last |= word;
            break;
        }
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot that holds the key, or the empty one where it belongs. */
static size_t find_slot(const dao_id_map_t *map, const char *key, size_t length, uint64_t hash)
{
    size_t mask = map->slot_count - 1;
    size_t at = (size_t)hash & mask;
    for (;; at = (at + 1) & mask) {
        const dao_id_slot_t *slot = &map->slots[at];
        if (slot->length == 0 || (slot->hash == hash && slot->length == length + 1 &&
                                  memcmp(map->text + slot->text_offset, key, length) == 0)) {
            return at;
        }
    }
}

bool dao_id_map_find(const dao_id_map_t *map, const char *key, size_t length, uint64_t *out_value)
{
    if (map->count == 0) {
        return false;
    }
    size_t at = find_slot(map, key, length, hash_key(map, key, length));
    if (map->slots[at].length == 0) {
        return false;
    }
    *out_value = map->slots[at].value;
    return true;
}

static dao_status_t double_slots(dao_id_map_t *map)
{
    size_t slot_count = map->slot_count == 0 ? FIRST_SLOTS : map->slot_count * 2;
    dao_id_slot_t *slots = dao_host_calloc(slot_count, sizeof(*slots));
    if (slots == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu ids", map->count + 1);
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].length == 0) {
            continue;
        }
        size_t at = (size_t)map->slots[i].hash & (slot_count - 1);
        while (slots[at].length != 0) {
            at = (at + 1) & (slot_count - 1);
        }
        slots[at] = map->slots[i];
    }
    dao_host_free(map->slots);
    map->slots = slots;
    map->slot_count = slot_count;
    return DAO_OK;
}

dao_status_t dao_id_map_add(dao_id_map_t *map, const char *key, size_t length, uint64_t value,
                            bool *out_found, uint64_t *out_value)
{
    if (4 * (map->count + 1) > 3 * map->slot_count) {
        dao_status_t status = double_slots(map);
        if (status != DAO_OK) {
            return status;
        }
    }
    uint64_t hash = hash_key(map, key, length);
    dao_id_slot_t *slot = &map->slots[find_slot(map, key, length, hash)];
    if (slot->length != 0) {
        *out_found = true;
        *out_value = slot->value;
        return DAO_OK;
    }
    size_t offset = map->text_bytes;
    dao_status_t status = dao_tool_put_text(&map->text, &map->text_bytes, &map->text_capacity, key, length);
    if (status != DAO_OK) {
        return status;
    }
    *slot = (dao_id_slot_t){hash, value, offset, length + 1};
    map->count++;
    *out_found = false;
    *out_value = value;
    return DAO_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A map from text keys to numbers for what files name: ids are keys, never indices. The hash is seeded anew
   for every map, so that no file can be written to make it slow. */
#ifndef DAO_TOOLS_ID_MAP_H
#define DAO_TOOLS_ID_MAP_H

#include <dao/status.h>

typedef struct dao_id_slot dao_id_slot_t;

typedef struct dao_id_map {
    uint64_t seed[2];
    dao_id_slot_t *slots; /* a power of two of them; a quarter at least are empty */
    size_t slot_count;
    size_t count;
    char *text; /* the keys, one after the other, each closed by a zero */
    size_t text_bytes;
    size_t text_capacity;
} dao_id_map_t;

/* Makes an empty map; it takes no memory yet. */
void dao_id_map_init(dao_id_map_t *map);
void dao_id_map_finish(dao_id_map_t *map);

/* Forgets all keys, in time proportional to what the map holds. */
void dao_id_map_clear(dao_id_map_t *map);

/* Finds a key of `length` bytes. False: `out_value` is left as it was. */
bool dao_id_map_find(const dao_id_map_t *map, const char *key, size_t length, uint64_t *out_value);

/* Adds a key, or finds it: `out_found` tells, and `out_value` gets the value it has now.
   DAO_ERR_NO_HOST_MEMORY: the map is as it was. */
DAO_NODISCARD dao_status_t dao_id_map_add(dao_id_map_t *map, const char *key, size_t length, uint64_t value,
                                          bool *out_found, uint64_t *out_value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a file that refers to what it said before (a pickle): lists and dictionaries in arrays, texts
   each once. A value is 16 bytes. Of a dictionary only the keys that the reader knows are kept, 16 bytes
   each. Equal lists are one list, as call stacks often are, and so are equal dictionaries of the keys that
   the reader says repeat, as the frames of stacks. A reader of long lists of dictionaries takes each as it is
   put there: the store keeps nothing of them. */
#ifndef DAO_TOOLS_VALUE_STORE_H
#define DAO_TOOLS_VALUE_STORE_H

#include "tools/base/id_map.h"

typedef enum dao_value_type {
    DAO_VALUE_TYPE_NONE = 0,
    DAO_VALUE_TYPE_FLAG = 1,
    DAO_VALUE_TYPE_COUNT = 2,    /* a whole number from 0 to 2^64 - 1 */
    DAO_VALUE_TYPE_NEGATIVE = 3, /* a whole number below 0; its absolute value */
    DAO_VALUE_TYPE_REAL = 4,     /* not kept: no reader asks for one */
    DAO_VALUE_TYPE_TEXT = 5,     /* its number */
    DAO_VALUE_TYPE_LIST = 6,     /* or a tuple; its number */
    DAO_VALUE_TYPE_DICT = 7,     /* its number */
    DAO_VALUE_TYPE_TAKEN = 8, /* in a list: the reader has taken what stood here; the reader's own number */
} dao_value_type_t;

typedef struct dao_value {
    dao_value_type_t type;
    uint64_t payload;
} dao_value_t;

typedef struct dao_value_list {
    dao_value_t *items;
    size_t count, capacity;
} dao_value_list_t;

struct dao_value_store;

/* Takes a complete dictionary that is put into a list, or leaves it: *out_taken tells. */
typedef dao_status_t (*dao_value_take_t)(void *user, dao_value_t list, dao_value_t dict, bool *out_taken);

typedef struct dao_value_store {
    const char *const *known; /* keys that are kept, borrowed; NULL ends them; at most 255 */
    uint32_t first_repeated;  /* of those keys */
    dao_id_map_t text_ids;    /* text -> its number */
    struct dao_value_text *texts;
    size_t text_count, text_capacity;
    dao_value_list_t *lists;
    size_t list_count, list_capacity;
    uint32_t *dicts; /* the first cell of each, plus 1 */
    size_t dict_count, dict_capacity;
    struct dao_value_cell *cells;
    size_t cell_count, cell_capacity;
    uint32_t free_list, free_dict, free_cell; /* the first of those to use again, plus 1 */
    dao_value_take_t take;                    /* NULL: nothing is taken */
    void *take_user;
    bool keeps_taken;          /* what was taken stays, at the cost of its memory: it may be said again */
    bool misses_taken;         /* it was said again and has not stayed */
    dao_id_map_t complete_ids; /* what a complete list or dictionary holds, as bytes -> its number */
} dao_value_store_t;

/* `known` is ended by NULL; dictionaries that have no keys but those from `first_repeated` on are expected to
   be equal to others. */
void dao_value_store_init(dao_value_store_t *store, const char *const *known, uint32_t first_repeated);
void dao_value_store_finish(dao_value_store_t *store);

/* Make a value. DAO_ERR_NO_HOST_MEMORY; DAO_ERR_LIMIT for more than 2^32 of a type. */
DAO_NODISCARD dao_status_t dao_value_make_text(dao_value_store_t *store, const char *text, size_t length,
                                               dao_value_t *out_value);
DAO_NODISCARD dao_status_t dao_value_make_list(dao_value_store_t *store, dao_value_t *out_value);
DAO_NODISCARD dao_status_t dao_value_make_dict(dao_value_store_t *store, dao_value_t *out_value);

/* Puts an item behind those of a list, as it is. */
DAO_NODISCARD dao_status_t dao_value_append(dao_value_store_t *store, dao_value_t list, dao_value_t item);

/* The same with a complete value that the reader may take: a dictionary that it takes is none of the list. If
   nothing else may have it (`is_own`), its number ends, and the value becomes DAO_VALUE_TYPE_TAKEN. */
DAO_NODISCARD dao_status_t dao_value_hand_over(dao_value_store_t *store, dao_value_t list, dao_value_t *item,
                                               bool is_own);

/* Says that a list or a dictionary is complete: nothing is put in it any more. Where an equal one was, the
   value becomes that one, and its own number ends: nothing else may have it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_value_complete(dao_value_store_t *store, dao_value_t *value);

/* Sets the item of a key, whatever it was; a key that is no text, or not known, is stepped over. */
DAO_NODISCARD dao_status_t dao_value_set(dao_value_store_t *store, dao_value_t dict, dao_value_t key,
                                         dao_value_t item);

/* Returns the item of a known key by its number; none if it has none, or this is no dictionary. */
dao_value_t dao_value_get(const dao_value_store_t *store, dao_value_t dict, uint32_t known);

/* The same where it is a whole number from 0 on. False: it is not, and out_count is left as it was. */
bool dao_value_get_count(const dao_value_store_t *store, dao_value_t dict, uint32_t known,
                         uint64_t *out_count);

/* Returns a list, an empty one if it is none; and a text, "" if it is none. */
dao_value_list_t dao_value_list(const dao_value_store_t *store, dao_value_t value);
const char *dao_value_text(const dao_value_store_t *store, dao_value_t value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A dictionary is a chain of cells, the latest first. Its keys are few, so a chain is short.

   What a complete value was found equal to takes its place; its list, dictionary and cells are chained to be
   used again, by `count`, by the cell's number, and by `next`.

   Invariants: a text's number is its place in `texts`, and what text_ids has for it; the payloads of lists
   and dictionaries are below list_count and dict_count; chains have no loops. */
#include "tools/read/foreign/values/value_store.h"

#include "base/report/assert.h"
#include "tools/base/grow.h"

#include <string.h>

enum { NOT_KNOWN = 255 };

struct dao_value_text {
    size_t offset; /* in the text of text_ids */
    uint32_t known;
};

/* Longer lists are not compared: they are no call stacks. */
enum { COMPARED_COUNT_MAX = 512 };

/* What a list or a dictionary holds, as bytes: its type, then each item's key, type and payload. */
enum { PACKED_ITEM_BYTES = 2 + sizeof(uint64_t), PACKED_BYTES = 1 + COMPARED_COUNT_MAX * PACKED_ITEM_BYTES };

struct dao_value_cell {
    uint64_t payload;
    uint32_t next; /* plus 1; 0: the last of its chain */
    uint8_t known;
    uint8_t type;
};

void dao_value_store_init(dao_value_store_t *store, const char *const *known, uint32_t first_repeated)
{
    *store = (dao_value_store_t){.known = known, .first_repeated = first_repeated};
    dao_id_map_init(&store->text_ids);
    dao_id_map_init(&store->complete_ids);
}

void dao_value_store_finish(dao_value_store_t *store)
{
    for (size_t i = 0; i < store->list_count; i++) {
        dao_host_free(store->lists[i].items);
    }
    dao_id_map_finish(&store->complete_ids);
    dao_id_map_finish(&store->text_ids);
    dao_host_free(store->texts);
    dao_host_free(store->lists);
    dao_host_free(store->dicts);
    dao_host_free(store->cells);
    *store = (dao_value_store_t){0};
}

/* Makes room for one more of what numbers below 2^32 - 1 name. NULL: an error was set. */
static void *grow(void *array, size_t *capacity, size_t count, size_t item_bytes, dao_status_t *out_status)
{
    *out_status = DAO_OK;
    if (count >= UINT32_MAX - 1) {
        *out_status = dao_error(DAO_ERR_LIMIT, "the file has more than %u values of a type", UINT32_MAX - 1);
        return NULL;
    }
    void *grown = dao_tool_grow(array, capacity, count, item_bytes);
    *out_status = grown == NULL ? DAO_ERR_NO_HOST_MEMORY : DAO_OK;
    return grown;
}

static uint32_t find_known(const dao_value_store_t *store, const char *text)
{
    for (uint32_t i = 0; store->known[i] != NULL; i++) {
        if (strcmp(store->known[i], text) == 0) {
            return i;
        }
    }
    return NOT_KNOWN;
}

dao_status_t dao_value_make_text(dao_value_store_t *store, const char *text, size_t length,
                                 dao_value_t *out_value)
{
    dao_status_t status;
    uint64_t number = store->text_count;
    bool is_found = false;
    struct dao_value_text *texts =
        grow(store->texts, &store->text_capacity, store->text_count, sizeof(*texts), &status);
    if (texts == NULL) {
        return status;
    }
    store->texts = texts;
    size_t offset = store->text_ids.text_bytes;
    status = dao_id_map_add(&store->text_ids, text, length, number, &is_found, &number);
    if (status != DAO_OK) {
        return status;
    }
    if (!is_found) {
        texts[store->text_count++] = (struct dao_value_text){
            .offset = offset, .known = find_known(store, store->text_ids.text + offset)};
    }
    *out_value = (dao_value_t){.type = DAO_VALUE_TYPE_TEXT, .payload = number};
    return DAO_OK;
}

dao_status_t dao_value_make_list(dao_value_store_t *store, dao_value_t *out_value)
{
    dao_status_t status = DAO_OK;
    size_t number = store->list_count;
    if (store->free_list != 0) {
        number = store->free_list - 1;
        store->free_list = (uint32_t)store->lists[number].count;
    } else {
        dao_value_list_t *lists =
            grow(store->lists, &store->list_capacity, store->list_count, sizeof(*lists), &status);
        if (lists == NULL) {
            return status;
        }
        store->lists = lists;
        store->list_count++;
    }
    store->lists[number] = (dao_value_list_t){0};
    *out_value = (dao_value_t){.type = DAO_VALUE_TYPE_LIST, .payload = number};
    return DAO_OK;
}

dao_status_t dao_value_make_dict(dao_value_store_t *store, dao_value_t *out_value)
{
    dao_status_t status = DAO_OK;
    size_t number = store->dict_count;
    if (store->free_dict != 0) {
        number = store->free_dict - 1;
        store->free_dict = store->dicts[number];
    } else {
        uint32_t *dicts =
            grow(store->dicts, &store->dict_capacity, store->dict_count, sizeof(*dicts), &status);
        if (dicts == NULL) {
            return status;
        }
        store->dicts = dicts;
        store->dict_count++;
    }
    store->dicts[number] = 0;
    *out_value = (dao_value_t){.type = DAO_VALUE_TYPE_DICT, .payload = number};
    return DAO_OK;
}

dao_status_t dao_value_append(dao_value_store_t *store, dao_value_t list, dao_value_t item)
{
    DAO_ASSERT(list.type == DAO_VALUE_TYPE_LIST && list.payload < store->list_count);
    dao_value_list_t *array = &store->lists[list.payload];
    dao_value_t *items = dao_tool_grow(array->items, &array->capacity, array->count, sizeof(*items));
    if (items == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    array->items = items;
    items[array->count++] = item;
    return DAO_OK;
}

/* ---- complete values ---- */

static size_t pack_item(char *bytes, uint8_t key, uint8_t type, uint64_t payload)
{
    bytes[0] = (char)key;
    bytes[1] = (char)type;
    memcpy(bytes + 2, &payload, sizeof(payload));
    return PACKED_ITEM_BYTES;
}

/* Writes what a value holds as bytes that are equal where it is. Returns how many; 0: it is not compared. */
static size_t pack(const dao_value_store_t *store, dao_value_t value, char bytes[PACKED_BYTES])
{
    size_t used = 0;
    bytes[used++] = (char)value.type;
    if (value.type == DAO_VALUE_TYPE_LIST) {
        const dao_value_list_t *list = &store->lists[value.payload];
        if (list->count > COMPARED_COUNT_MAX) {
            return 0;
        }
        for (size_t i = 0; i < list->count; i++) {
            used += pack_item(bytes + used, NOT_KNOWN, (uint8_t)list->items[i].type, list->items[i].payload);
        }
        return used;
    }
    for (uint32_t at = store->dicts[value.payload]; at != 0; at = store->cells[at - 1].next) {
        const struct dao_value_cell *cell = &store->cells[at - 1]; /* at most 255 of different keys */
        if (cell->known < store->first_repeated) {
            return 0;
        }
        used += pack_item(bytes + used, cell->known, cell->type, cell->payload);
    }
    return used;
}

/* Takes back what a value has, and its number. */
static void give_back(dao_value_store_t *store, dao_value_t value)
{
    if (value.type == DAO_VALUE_TYPE_LIST) {
        dao_host_free(store->lists[value.payload].items);
        store->lists[value.payload] = (dao_value_list_t){.count = store->free_list};
        store->free_list = (uint32_t)value.payload + 1;
        return;
    }
    for (uint32_t at = store->dicts[value.payload], next; at != 0; at = next) {
        next = store->cells[at - 1].next;
        store->cells[at - 1].next = store->free_cell;
        store->free_cell = at;
    }
    store->dicts[value.payload] = store->free_dict;
    store->free_dict = (uint32_t)value.payload + 1;
}

/* Gives a short list no more memory than its items need. */
static dao_status_t fit_items(dao_value_list_t *list)
{
    if (list->capacity == list->count || list->count > COMPARED_COUNT_MAX) {
        return DAO_OK;
    }
    dao_value_t *fitting = dao_host_realloc(list->items, list->count, sizeof(*fitting));
    if (fitting == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a list of %zu", list->count);
    }
    list->items = fitting;
    list->capacity = list->count;
    return DAO_OK;
}

dao_status_t dao_value_complete(dao_value_store_t *store, dao_value_t *value)
{
    char bytes[PACKED_BYTES];
    if (value->type != DAO_VALUE_TYPE_LIST && value->type != DAO_VALUE_TYPE_DICT) {
        return DAO_OK;
    }
    size_t used = pack(store, *value, bytes);
    uint64_t number = value->payload;
    bool is_found = false;
    dao_status_t status =
        used > 0 ? dao_id_map_add(&store->complete_ids, bytes, used, number, &is_found, &number) : DAO_OK;
    if (status != DAO_OK) {
        return status;
    }
    if (is_found) {
        give_back(store, *value);
        value->payload = number;
        return DAO_OK;
    }
    return value->type == DAO_VALUE_TYPE_LIST ? fit_items(&store->lists[number]) : DAO_OK;
}

dao_status_t dao_value_hand_over(dao_value_store_t *store, dao_value_t list, dao_value_t *item, bool is_own)
{
    bool is_taken = false;
    if (item->type == DAO_VALUE_TYPE_DICT && store->take != NULL) {
        dao_status_t status = store->take(store->take_user, list, *item, &is_taken);
        if (status != DAO_OK) {
            return status;
        }
    }
    if (!is_taken) {
        return dao_value_append(store, list, *item);
    }
    if (is_own && !store->keeps_taken) {
        give_back(store, *item);
        *item = (dao_value_t){.type = DAO_VALUE_TYPE_TAKEN};
    }
    return DAO_OK;
}

/* ---- dictionaries ---- */

/* Makes a cell, the first of its dictionary's chain. NULL: an error was set. */
static struct dao_value_cell *make_cell(dao_value_store_t *store, dao_value_t dict, uint32_t known,
                                        dao_status_t *out_status)
{
    uint32_t number = store->free_cell;
    *out_status = DAO_OK;
    if (number != 0) {
        store->free_cell = store->cells[number - 1].next;
    } else {
        struct dao_value_cell *cells =
            grow(store->cells, &store->cell_capacity, store->cell_count, sizeof(*cells), out_status);
        if (cells == NULL) {
            return NULL;
        }
        store->cells = cells;
        number = (uint32_t)++store->cell_count;
    }
    store->cells[number - 1] =
        (struct dao_value_cell){.next = store->dicts[dict.payload], .known = (uint8_t)known};
    store->dicts[dict.payload] = number;
    return &store->cells[number - 1];
}

static struct dao_value_cell *find_cell(const dao_value_store_t *store, dao_value_t dict, uint32_t known)
{
    for (uint32_t at = store->dicts[dict.payload]; at != 0; at = store->cells[at - 1].next) {
        if (store->cells[at - 1].known == known) {
            return &store->cells[at - 1];
        }
    }
    return NULL;
}

dao_status_t dao_value_set(dao_value_store_t *store, dao_value_t dict, dao_value_t key, dao_value_t item)
{
    DAO_ASSERT(dict.type == DAO_VALUE_TYPE_DICT && dict.payload < store->dict_count);
    uint32_t known = key.type == DAO_VALUE_TYPE_TEXT ? store->texts[key.payload].known : NOT_KNOWN;
    if (known == NOT_KNOWN) {
        return DAO_OK;
    }
    struct dao_value_cell *cell = find_cell(store, dict, known);
    dao_status_t status = DAO_OK;
    if (cell == NULL) {
        cell = make_cell(store, dict, known, &status);
    }
    if (cell == NULL) {
        return status;
    }
    cell->type = (uint8_t)item.type;
    cell->payload = item.payload;
    return DAO_OK;
}

dao_value_t dao_value_get(const dao_value_store_t *store, dao_value_t dict, uint32_t known)
{
    if (dict.type != DAO_VALUE_TYPE_DICT) {
        return (dao_value_t){0};
    }
    const struct dao_value_cell *cell = find_cell(store, dict, known);
    return cell == NULL ? (dao_value_t){0}
                        : (dao_value_t){.type = (dao_value_type_t)cell->type, .payload = cell->payload};
}

bool dao_value_get_count(const dao_value_store_t *store, dao_value_t dict, uint32_t known,
                         uint64_t *out_count)
{
    dao_value_t value = dao_value_get(store, dict, known);
    if (value.type != DAO_VALUE_TYPE_COUNT) {
        return false;
    }
    *out_count = value.payload;
    return true;
}

dao_value_list_t dao_value_list(const dao_value_store_t *store, dao_value_t value)
{
    return value.type == DAO_VALUE_TYPE_LIST ? store->lists[value.payload] : (dao_value_list_t){0};
}

const char *dao_value_text(const dao_value_store_t *store, dao_value_t value)
{
    return value.type == DAO_VALUE_TYPE_TEXT ? store->text_ids.text + store->texts[value.payload].offset : "";
}

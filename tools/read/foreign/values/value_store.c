/* SPDX-License-Identifier: Apache-2.0 */
/* A dictionary is a chain of cells, the latest first. Its keys are few, so a chain is short.

   The items of short lists that are complete lie in `shared`, once; a list without a capacity borrows them.

   Invariants: a text's number is its place in `texts`, and what text_ids has for it; the payloads of lists
   and dictionaries are below list_count and dict_count; a chain leads to cells made before. */
#include "tools/read/foreign/values/value_store.h"

#include "base/report/assert.h"
#include "tools/read/text/grow.h"

#include <string.h>

enum { NOT_KNOWN = 255 };

struct dao_value_text {
    size_t offset; /* in the text of text_ids */
    uint32_t known;
};

struct dao_value_items {
    dao_value_t *items;
};

/* Lists that are longer share nothing: they are no call stacks. */
enum { SHARED_COUNT_MAX = 512 };

struct dao_value_cell {
    uint64_t payload;
    uint32_t next; /* plus 1; 0: the last of its chain */
    uint8_t known;
    uint8_t type;
};

void dao_value_store_init(dao_value_store_t *store, const char *const *known)
{
    *store = (dao_value_store_t){.known = known};
    dao_id_map_init(&store->text_ids);
    dao_id_map_init(&store->shared_ids);
}

void dao_value_store_finish(dao_value_store_t *store)
{
    for (size_t i = 0; i < store->list_count; i++) {
        if (store->lists[i].capacity > 0) {
            dao_host_free(store->lists[i].items);
        }
    }
    for (size_t i = 0; i < store->shared_count; i++) {
        dao_host_free(store->shared[i].items);
    }
    dao_host_free(store->shared);
    dao_id_map_finish(&store->shared_ids);
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
    dao_status_t status;
    dao_value_list_t *lists =
        grow(store->lists, &store->list_capacity, store->list_count, sizeof(*lists), &status);
    if (lists != NULL) {
        store->lists = lists;
        *out_value = (dao_value_t){.type = DAO_VALUE_TYPE_LIST, .payload = store->list_count};
        lists[store->list_count++] = (dao_value_list_t){0};
    }
    return status;
}

dao_status_t dao_value_make_dict(dao_value_store_t *store, dao_value_t *out_value)
{
    dao_status_t status;
    uint32_t *dicts = grow(store->dicts, &store->dict_capacity, store->dict_count, sizeof(*dicts), &status);
    if (dicts != NULL) {
        store->dicts = dicts;
        *out_value = (dao_value_t){.type = DAO_VALUE_TYPE_DICT, .payload = store->dict_count};
        dicts[store->dict_count++] = 0;
    }
    return status;
}

/* Gives a list items of its own again, which others may share. False: an error was set. */
static bool take_items_back(dao_value_list_t *list)
{
    dao_value_list_t own = {.capacity = list->count};
    own.items = dao_tool_grow(NULL, &own.capacity, list->count, sizeof(*own.items));
    if (own.items == NULL) {
        return false;
    }
    memcpy(own.items, list->items, list->count * sizeof(*own.items));
    own.count = list->count;
    *list = own;
    return true;
}

dao_status_t dao_value_append(dao_value_store_t *store, dao_value_t list, dao_value_t item)
{
    DAO_ASSERT(list.type == DAO_VALUE_TYPE_LIST && list.payload < store->list_count);
    dao_value_list_t *array = &store->lists[list.payload];
    if (array->capacity == 0 && array->count > 0 && !take_items_back(array)) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_value_t *items = dao_tool_grow(array->items, &array->capacity, array->count, sizeof(*items));
    if (items == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    array->items = items;
    items[array->count++] = item;
    return DAO_OK;
}

/* Writes items as bytes that are equal where they are. Returns how many. */
static size_t pack_items(const dao_value_list_t *list, char bytes[SHARED_COUNT_MAX * sizeof(dao_value_t)])
{
    size_t used = 0;
    for (size_t i = 0; i < list->count; i++) {
        bytes[used++] = (char)list->items[i].type;
        memcpy(bytes + used, &list->items[i].payload, sizeof(list->items[i].payload));
        used += sizeof(list->items[i].payload);
    }
    return used;
}

dao_status_t dao_value_complete(dao_value_store_t *store, dao_value_t value)
{
    char bytes[SHARED_COUNT_MAX * sizeof(dao_value_t)];
    dao_value_list_t none = {0};
    dao_value_list_t *list = value.type == DAO_VALUE_TYPE_LIST ? &store->lists[value.payload] : &none;
    if (list->capacity == 0 || list->count > SHARED_COUNT_MAX) {
        return DAO_OK;
    }
    dao_status_t status;
    bool is_found = false;
    uint64_t number = store->shared_count;
    struct dao_value_items *shared =
        grow(store->shared, &store->shared_capacity, store->shared_count, sizeof(*shared), &status);
    if (shared == NULL) {
        return status;
    }
    store->shared = shared;
    dao_value_t *fitting = dao_host_realloc(list->items, list->count, sizeof(*fitting));
    if (fitting == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a list of %zu", list->count);
    }
    list->items = fitting;
    list->capacity = list->count;
    status = dao_id_map_add(&store->shared_ids, bytes, pack_items(list, bytes), number, &is_found, &number);
    if (status != DAO_OK) {
        return status;
    }
    if (is_found) {
        dao_host_free(fitting);
    } else {
        shared[store->shared_count++].items = fitting;
    }
    list->items = shared[number].items;
    list->capacity = 0;
    return DAO_OK;
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
    if (cell == NULL) {
        dao_status_t status;
        struct dao_value_cell *cells =
            grow(store->cells, &store->cell_capacity, store->cell_count, sizeof(*cells), &status);
        if (cells == NULL) {
            return status;
        }
        store->cells = cells;
        cell = &cells[store->cell_count++];
        *cell = (struct dao_value_cell){.next = store->dicts[dict.payload], .known = (uint8_t)known};
        store->dicts[dict.payload] = (uint32_t)store->cell_count;
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

/* SPDX-License-Identifier: Apache-2.0 */
/* A node is a call; those that it makes are nodes as well, and name it as their parent. Nodes stand in the
   order of their ends, so they are sorted by their numbers, which is that of their begins: a call comes
   before those that it makes. All nodes count, as some name tensors that none of their children does.

       tensor     [tensor, storage, offset, elements, bytes an element, "cuda:0"], anywhere in inputs, outputs
       storage    its size is the highest end of a tensor in it; another device makes it another storage

   1.0.1 has inputs and outputs as lists; 1.0.3 as objects with the list as `values`. */
#include "tools/read/step/read_execution_trace.h"

#include "tools/base/grow.h"
#include "tools/read/kernels/access_list.h"
#include "tools/read/text/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_NUMBER_COUNT = 5, DEVICE_BYTES = 24, KEY_BYTES = DEVICE_BYTES + 24 };

enum { NUMBER_STORAGE = 1, NUMBER_OFFSET = 2, NUMBER_ELEMENTS = 3, NUMBER_ELEMENT_BYTES = 4 };

typedef struct storage {
    uint64_t size_bytes;
    uint32_t device;
    uint32_t listed; /* tensor of the list; DAO_TRACE_NONE: it has none */
} storage_t;

typedef struct device {
    char name[DEVICE_BYTES];
    uint64_t size_bytes;
} trace_device_t;

/* That a node names a storage. */
typedef struct mention {
    uint32_t storage;
    bool is_output;
} mention_t;

typedef struct node {
    uint64_t number;
    size_t name_offset;
    dao_trace_range_t mentions;
} node_t;

/* An array that is read: the tensor that it may turn out to be. */
typedef struct open_array {
    uint64_t numbers[TENSOR_NUMBER_COUNT];
    uint32_t count; /* of items so far */
    bool is_tensor; /* so far */
    char device[DEVICE_BYTES];
} open_array_t;

typedef struct trace_reader {
    dao_json_reader_t json;
    dao_id_map_t keys; /* "7@cuda:0" -> storage */
    storage_t *storages;
    size_t storage_count, storage_capacity;
    trace_device_t *devices;
    size_t device_count, device_capacity;
    mention_t *mentions;
    size_t mention_count, mention_capacity;
    node_t *nodes;
    size_t node_count, node_capacity;
    char *names;
    size_t name_bytes, name_capacity;
    open_array_t open[DAO_JSON_DEPTH_MAX];
    uint32_t open_count;
} trace_reader_t;

/* ---- tensors ---- */

static dao_status_t find_device(trace_reader_t *reader, const char *name, uint32_t *out_device)
{
    for (size_t i = 0; i < reader->device_count; i++) {
        if (strcmp(reader->devices[i].name, name) == 0) {
            *out_device = (uint32_t)i;
            return DAO_OK;
        }
    }
    trace_device_t *grown =
        dao_tool_grow(reader->devices, &reader->device_capacity, reader->device_count, sizeof(*grown));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->devices = grown;
    *out_device = (uint32_t)reader->device_count;
    trace_device_t *device = &grown[reader->device_count++];
    *device = (trace_device_t){0};
    (void)snprintf(device->name, sizeof(device->name), "%s", name);
    return DAO_OK;
}

static dao_status_t find_storage(trace_reader_t *reader, const open_array_t *tensor, uint32_t *out_storage)
{
    char key[KEY_BYTES];
    bool is_found = false;
    uint32_t device = 0;
    uint64_t index = reader->storage_count;
    int length =
        snprintf(key, sizeof(key), "%" PRIu64 "@%s", tensor->numbers[NUMBER_STORAGE], tensor->device);
    storage_t *grown =
        dao_tool_grow(reader->storages, &reader->storage_capacity, reader->storage_count, sizeof(*grown));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->storages = grown;
    dao_status_t status = find_device(reader, tensor->device, &device);
    if (status == DAO_OK) {
        status = dao_id_map_add(&reader->keys, key, (size_t)length, index, &is_found, &index);
    }
    if (status == DAO_OK && !is_found) {
        grown[reader->storage_count++] = (storage_t){.device = device, .listed = DAO_TRACE_NONE};
    }
    *out_storage = (uint32_t)index;
    return status;
}

/* Keeps that the current node names a tensor. One without a storage or a device is none. */
static dao_status_t mention(trace_reader_t *reader, const open_array_t *tensor, bool is_output)
{
    uint64_t elements = 0, end_bytes = 0;
    uint32_t storage = 0;
    if (tensor->numbers[NUMBER_STORAGE] == 0 || tensor->device[0] == '\0') {
        return DAO_OK;
    }
    if (__builtin_add_overflow(tensor->numbers[NUMBER_OFFSET], tensor->numbers[NUMBER_ELEMENTS], &elements) ||
        __builtin_mul_overflow(elements, tensor->numbers[NUMBER_ELEMENT_BYTES], &end_bytes)) {
        return dao_json_error_at(&reader->json, reader->json.position, DAO_ERR_OVERFLOW,
                                 "the end of this tensor does not fit 64 bits");
    }
    dao_status_t status = find_storage(reader, tensor, &storage);
    mention_t *grown = status != DAO_OK ? NULL
                                        : dao_tool_grow(reader->mentions, &reader->mention_capacity,
                                                        reader->mention_count, sizeof(*grown));
    if (grown == NULL) {
        return status != DAO_OK ? status : DAO_ERR_NO_HOST_MEMORY;
    }
    storage_t *known = &reader->storages[storage];
    known->size_bytes = end_bytes > known->size_bytes ? end_bytes : known->size_bytes;
    reader->mentions = grown;
    grown[reader->mention_count++] = (mention_t){.storage = storage, .is_output = is_output};
    return DAO_OK;
}

/* An item of the innermost array: it decides whether that can still be a tensor. */
static void take_item(trace_reader_t *reader)
{
    open_array_t *array = &reader->open[reader->open_count - 1];
    bool is_number = reader->json.token == DAO_JSON_TOKEN_NUMBER && array->count < TENSOR_NUMBER_COUNT &&
                     strspn(reader->json.text, "0123456789") == reader->json.text_length &&
                     dao_json_u64(&reader->json, &array->numbers[array->count]) == DAO_OK;
    bool is_device = reader->json.token == DAO_JSON_TOKEN_STRING && array->count == TENSOR_NUMBER_COUNT &&
                     reader->json.text_length < DEVICE_BYTES;
    if (is_device) {
        memcpy(array->device, reader->json.text, reader->json.text_length + 1);
    }
    array->is_tensor = array->is_tensor && (is_number || is_device);
    array->count++;
}

static void open_array(trace_reader_t *reader)
{
    if (reader->open_count > 0) {
        take_item(reader); /* an array is no item of a tensor */
    }
    reader->open[reader->open_count++] = (open_array_t){.is_tensor = true}; /* the reader bounds the depth */
}

static dao_status_t close_array(trace_reader_t *reader, bool is_output)
{
    const open_array_t *array = &reader->open[--reader->open_count];
    bool is_tensor = array->is_tensor && array->count == TENSOR_NUMBER_COUNT + 1;
    return is_tensor ? mention(reader, array, is_output) : DAO_OK;
}

/* Reads a list of values, whose bracket was taken. */
static dao_status_t read_values(trace_reader_t *reader, bool is_output)
{
    dao_status_t status = DAO_OK;
    reader->open_count = 0;
    open_array(reader);
    while (status == DAO_OK && reader->open_count > 0) {
        status = dao_json_next(&reader->json);
        if (status != DAO_OK) {
            break;
        }
        if (reader->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN) {
            open_array(reader);
        } else if (reader->json.token == DAO_JSON_TOKEN_ARRAY_END) {
            status = close_array(reader, is_output);
        } else {
            take_item(reader);
            status =
                reader->json.token == DAO_JSON_TOKEN_OBJECT_BEGIN ? dao_json_skip(&reader->json) : DAO_OK;
        }
    }
    return status;
}

/* Reads inputs or outputs: a list, or an object with it. */
static dao_status_t read_side(trace_reader_t *reader, bool is_output)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN) {
        return read_values(reader, is_output);
    }
    if (status != DAO_OK || reader->json.token != DAO_JSON_TOKEN_OBJECT_BEGIN) {
        return status == DAO_OK ? dao_json_skip(&reader->json) : status;
    }
    status = dao_json_next(&reader->json);
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        bool is_values = strcmp(reader->json.text, "values") == 0;
        status = dao_json_next(&reader->json);
        if (status == DAO_OK) {
            status = is_values && reader->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN
                         ? read_values(reader, is_output)
                         : dao_json_skip(&reader->json);
        }
        status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    }
    return status;
}

/* ---- nodes ---- */

static dao_status_t keep_name(trace_reader_t *reader, node_t *node)
{
    node->name_offset = reader->name_bytes;
    return dao_tool_put_text(&reader->names, &reader->name_bytes, &reader->name_capacity, reader->json.text,
                             reader->json.text_length);
}

static dao_status_t read_field(trace_reader_t *reader, node_t *node)
{
    char key[16];
    (void)snprintf(key, sizeof(key), "%.15s", reader->json.text);
    if (strcmp(key, "inputs") == 0 || strcmp(key, "outputs") == 0) {
        return read_side(reader, key[0] == 'o');
    }
    if (strcmp(key, "id") == 0) {
        dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_NUMBER, "a number");
        return status == DAO_OK ? dao_json_u64(&reader->json, &node->number) : status;
    }
    if (strcmp(key, "name") == 0) {
        dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_STRING, "a name");
        return status == DAO_OK ? keep_name(reader, node) : status;
    }
    dao_status_t status = dao_json_next(&reader->json);
    return status == DAO_OK ? dao_json_skip(&reader->json) : status;
}

/* Reads a node, whose bracket was taken. One without tensors is left out. */
static dao_status_t read_node(trace_reader_t *reader)
{
    node_t node = {.name_offset = SIZE_MAX, .mentions = {.begin = reader->mention_count}};
    dao_status_t status = dao_json_next(&reader->json);
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        status = read_field(reader, &node);
        status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    }
    if (status == DAO_OK && node.name_offset == SIZE_MAX) {
        return dao_json_error(&reader->json, "this node has no name");
    }
    node.mentions.count = (uint32_t)(reader->mention_count - node.mentions.begin);
    if (status != DAO_OK || node.mentions.count == 0) {
        return status;
    }
    node_t *grown = dao_tool_grow(reader->nodes, &reader->node_capacity, reader->node_count, sizeof(*grown));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->nodes = grown;
    grown[reader->node_count++] = node;
    return DAO_OK;
}

static dao_status_t read_nodes(trace_reader_t *reader)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list of nodes");
    status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_OBJECT_BEGIN) {
        status = read_node(reader);
        status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    }
    return status == DAO_OK && reader->json.token != DAO_JSON_TOKEN_ARRAY_END
               ? dao_json_error(&reader->json, "expected a node")
               : status;
}

static dao_status_t read_file(trace_reader_t *reader)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object");
    status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        if (strcmp(reader->json.text, "nodes") == 0) {
            status = read_nodes(reader);
        } else {
            status = dao_json_next(&reader->json);
            status = status == DAO_OK ? dao_json_skip(&reader->json) : status;
        }
        status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    }
    if (status == DAO_OK && reader->node_count == 0) {
        return dao_json_error(&reader->json, "no node of it names a tensor");
    }
    return status == DAO_OK ? dao_json_expect(&reader->json, DAO_JSON_TOKEN_END, "the end of the file")
                            : status;
}

/* ---- the list ---- */

static int by_number(const void *left, const void *right)
{
    uint64_t a = ((const node_t *)left)->number;
    uint64_t b = ((const node_t *)right)->number;
    return a < b ? -1 : a > b;
}

static uint32_t largest_device(trace_reader_t *reader)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < reader->storage_count; i++) {
        reader->devices[reader->storages[i].device].size_bytes += reader->storages[i].size_bytes;
    }
    for (uint32_t i = 1; i < reader->device_count; i++) {
        largest = reader->devices[i].size_bytes > reader->devices[largest].size_bytes ? i : largest;
    }
    return largest;
}

/* Adds a storage to the list when it is first seen: what is an input then was there before. */
static dao_status_t list_storage(dao_access_list_t *list, uint32_t number, storage_t *storage,
                                 bool is_carried)
{
    char name[KEY_BYTES];
    (void)snprintf(name, sizeof(name), "storage%" PRIu32, number);
    storage->listed = (uint32_t)list->tensor_count;
    return dao_access_list_add_tensor(list, name, storage->size_bytes, is_carried);
}

/* Adds an access; what was seen before and is written is changed, so that its life goes on. */
static dao_status_t list_node(trace_reader_t *reader, const node_t *node, uint32_t device,
                              dao_access_list_t *list)
{
    dao_status_t status = dao_access_list_add_kernel(list, reader->names + node->name_offset, 0, 0);
    for (size_t i = node->mentions.begin; i < node->mentions.begin + node->mentions.count; i++) {
        const mention_t *mention = &reader->mentions[i];
        storage_t *storage = &reader->storages[mention->storage];
        bool is_new = storage->listed == DAO_TRACE_NONE;
        bool is_again = false;
        for (size_t k = node->mentions.begin; k < i && !is_again; k++) {
            is_again = reader->mentions[k].storage == mention->storage;
        }
        if (status != DAO_OK || storage->device != device || storage->size_bytes == 0 || is_again) {
            continue;
        }
        bool is_written = false;
        for (size_t k = i; k < node->mentions.begin + node->mentions.count; k++) {
            is_written = is_written ||
                         (reader->mentions[k].storage == mention->storage && reader->mentions[k].is_output);
        }
        if (is_new) {
            status = list_storage(list, mention->storage, storage, !mention->is_output);
        }
        if (status == DAO_OK) {
            status =
                dao_access_list_add_access(list, storage->listed, !is_new || !mention->is_output, is_written);
        }
    }
    return status;
}

static dao_status_t build(trace_reader_t *reader, dao_step_trace_t *out_trace)
{
    dao_access_list_t list;
    uint32_t device = largest_device(reader);
    dao_status_t status = DAO_OK;
    qsort(reader->nodes, reader->node_count, sizeof(*reader->nodes), by_number);
    dao_access_list_init(&list);
    for (size_t i = 0; i < reader->node_count && status == DAO_OK; i++) {
        status = list_node(reader, &reader->nodes[i], device, &list);
    }
    if (status == DAO_OK) {
        status = dao_access_list_build(&list, out_trace);
    }
    dao_access_list_finish(&list);
    return status;
}

dao_status_t dao_read_execution_trace(const char *path, dao_step_trace_t *out_trace)
{
    trace_reader_t *reader = dao_host_calloc(1, sizeof(*reader)); /* too large for a stack */
    if (reader == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%.200s: no memory to read it", path);
    }
    dao_status_t status = dao_json_reader_open(&reader->json, path);
    if (status == DAO_OK) {
        dao_id_map_init(&reader->keys);
        status = read_file(reader);
        dao_json_reader_close(&reader->json);
        status = status == DAO_OK ? build(reader, out_trace) : status;
        if (status == DAO_OK) {
            dao_step_trace_name_file(out_trace, path);
        }
        dao_id_map_finish(&reader->keys);
    }
    dao_host_free(reader->storages);
    dao_host_free(reader->devices);
    dao_host_free(reader->mentions);
    dao_host_free(reader->nodes);
    dao_host_free(reader->names);
    dao_host_free(reader);
    return status;
}

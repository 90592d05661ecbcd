/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX is a tree of protobuf messages (onnx.proto). A field is its number and form in a varint, then a
   varint, or a length and bytes. A message is made in a text of its own and then put into its parent. */
#include "tests/support/models/onnx_model.h"

#include "base/numbers/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of fields, by message. */
enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };

enum { FORM_VARINT = 0, FORM_BYTES = 2 };
enum { ELEMENT_FLOAT = 1, ATTRIBUTE_IS_INTS = 7, IR_VERSION = 8, OPSET = 13 };

#define NAME_BYTES 32

typedef struct text {
    unsigned char *bytes;
    size_t length;
    size_t room;
} text_t;

static void put_bytes(text_t *text, const void *bytes, size_t length)
{
    if (text->length + length > text->room) {
        text->room = 2 * (text->length + length);
        text->bytes = realloc(text->bytes, text->room);
        if (text->bytes == NULL) {
            abort();
        }
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void put_varint(text_t *text, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put_bytes(text, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void field_int(text_t *text, unsigned field, uint64_t value)
{
    put_varint(text, field << 3 | FORM_VARINT);
    put_varint(text, value);
}

static void field_bytes(text_t *text, unsigned field, const void *bytes, size_t length)
{
    put_varint(text, field << 3 | FORM_BYTES);
    put_varint(text, length);
    put_bytes(text, bytes, length);
}

static void field_text(text_t *text, unsigned field, const char *value)
{
    field_bytes(text, field, value, strlen(value));
}

/* Puts a message into its parent and frees it. */
static void field_message(text_t *text, unsigned field, text_t *message)
{
    field_bytes(text, field, message->bytes, message->length);
    free(message->bytes);
    *message = (text_t){0};
}

/* Weights of the usual size for their number of inputs. */
static void add_weights(text_t *graph, const char *name, const uint64_t *dims, size_t dim_count,
                        uint64_t *seed)
{
    text_t tensor = {0};
    size_t count = 1;
    for (size_t i = 0; i < dim_count; i++) {
        field_int(&tensor, TENSOR_DIM, dims[i]);
        count *= dims[i];
    }
    float scale = sqrtf(2.0F * (float)dims[0] / (float)count);
    float *values = malloc(count * sizeof(*values));
    if (values == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = scale * ((float)(dao_random_next(seed) % 2001) / 1000.0F - 1.0F);
    }
    field_int(&tensor, TENSOR_TYPE, ELEMENT_FLOAT);
    field_text(&tensor, TENSOR_NAME, name);
    field_bytes(&tensor, TENSOR_RAW, values, count * sizeof(*values));
    free(values);
    field_message(graph, GRAPH_INITIALIZER, &tensor);
}

/* Begins a node with up to three inputs, "" for none. */
static text_t node_begin(const char *operator_name, const char *const inputs[3], const char *output)
{
    text_t node = {0};
    for (size_t i = 0; i < 3 && inputs[i] != NULL; i++) {
        field_text(&node, NODE_INPUT, inputs[i]);
    }
    field_text(&node, NODE_OUTPUT, output);
    field_text(&node, NODE_NAME, output);
    field_text(&node, NODE_OPERATOR, operator_name);
    return node;
}

static void add_ints(text_t *node, const char *name, const uint64_t *values, size_t count)
{
    text_t attribute = {0};
    field_text(&attribute, ATTRIBUTE_NAME, name);
    for (size_t i = 0; i < count; i++) {
        field_int(&attribute, ATTRIBUTE_INTS, values[i]);
    }
    field_int(&attribute, ATTRIBUTE_TYPE, ATTRIBUTE_IS_INTS);
    field_message(node, NODE_ATTRIBUTE, &attribute);
}

static void add_node(text_t *graph, const char *operator_name, const char *a, const char *b,
                     const char *output)
{
    text_t node = node_begin(operator_name, (const char *const[3]){a, b, NULL}, output);
    field_message(graph, GRAPH_NODE, &node);
}

/* Adds a convolution of 3 x 3 that keeps the size, with its weights. */
static void add_conv(text_t *graph, const char *input, const char *output, uint64_t in, uint64_t out,
                     uint64_t *seed)
{
    char weights[NAME_BYTES];
    static const uint64_t kernel[] = {3, 3};
    static const uint64_t pads[] = {1, 1, 1, 1};
    (void)snprintf(weights, sizeof(weights), "w_%s", output);
    add_weights(graph, weights, (const uint64_t[]){out, in, 3, 3}, 4, seed);
    text_t node = node_begin("Conv", (const char *const[3]){input, weights, NULL}, output);
    add_ints(&node, "kernel_shape", kernel, 2);
    add_ints(&node, "pads", pads, 4);
    field_message(graph, GRAPH_NODE, &node);
}

static void add_value(text_t *graph, unsigned field, const char *name, uint64_t second_dim, bool has_sizes)
{
    static const char *const names[] = {"batch", NULL, "height", "width"};
    text_t shape = {0};
    for (size_t i = 0; i < (has_sizes ? 4U : 2U); i++) {
        text_t dim = {0};
        if (names[i] != NULL) {
            field_text(&dim, DIM_NAME, names[i]);
        } else {
            field_int(&dim, DIM_VALUE, second_dim);
        }
        field_message(&shape, SHAPE_DIM, &dim);
    }
    text_t tensor = {0};
    field_int(&tensor, TENSOR_ELEMENT, ELEMENT_FLOAT);
    field_message(&tensor, TENSOR_SHAPE, &shape);
    text_t type = {0};
    field_message(&type, TYPE_TENSOR, &tensor);
    text_t value = {0};
    field_text(&value, VALUE_NAME, name);
    field_message(&value, VALUE_TYPE, &type);
    field_message(graph, field, &value);
}

/* conv, relu, conv, sum with the block's input, relu. */
static void add_block(text_t *graph, int index, uint64_t width, uint64_t *seed)
{
    char names[6][NAME_BYTES];
    static const char *const forms[] = {"h%d", "a%d", "b%d", "c%d", "d%d", "h%d"};
    for (int i = 0; i < 6; i++) {
        (void)snprintf(names[i], NAME_BYTES, forms[i], i == 5 ? index + 1 : index); // NOLINT: the table's
    }
    add_conv(graph, names[0], names[1], width, width, seed);
    add_node(graph, "Relu", names[1], NULL, names[2]);
    add_conv(graph, names[2], names[3], width, width, seed);
    add_node(graph, "Add", names[3], names[0], names[4]);
    add_node(graph, "Relu", names[4], NULL, names[5]);
}

unsigned char *onnx_model_make(const onnx_net_t *net, size_t *out_size_bytes)
{
    uint64_t seed = net->seed;
    uint64_t width = (uint64_t)net->width;
    char last[NAME_BYTES];
    text_t graph = {0};
    add_conv(&graph, "x", "h0", ONNX_CHANNELS, width, &seed);
    for (int i = 0; i < net->block_count; i++) {
        add_block(&graph, i, width, &seed);
    }
    (void)snprintf(last, sizeof(last), "h%d", net->block_count);
    add_node(&graph, "GlobalAveragePool", last, NULL, "pooled");
    add_node(&graph, "Flatten", "pooled", NULL, "flat");
    add_weights(&graph, "w_y", (const uint64_t[]){width, ONNX_CLASSES}, 2, &seed);
    add_node(&graph, "MatMul", "flat", "w_y", "logits");
    add_node(&graph, "Softmax", "logits", NULL, "y");
    field_text(&graph, GRAPH_NAME, "net");
    add_value(&graph, GRAPH_INPUT, "x", ONNX_CHANNELS, true);
    add_value(&graph, GRAPH_OUTPUT, "y", ONNX_CLASSES, false);
    text_t opset = {0};
    field_int(&opset, OPSET_VERSION, OPSET);
    text_t model = {0};
    field_int(&model, MODEL_IR_VERSION, IR_VERSION);
    field_message(&model, MODEL_OPSET, &opset);
    field_message(&model, MODEL_GRAPH, &graph);
    *out_size_bytes = model.length;
    return model.bytes;
}

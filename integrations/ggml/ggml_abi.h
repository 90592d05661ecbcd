/* SPDX-License-Identifier: Apache-2.0 */
/* The part of ggml's binary interface that the plug-in uses, as in ggml/src/ggml-backend-impl.h. That header
   is internal to ggml and no package installs it. The plug-in relies on:

   - a buffer type begins with these six functions, which is so since October 2024. What later versions
     append is optional, and NULL here;
   - a buffer begins with its functions, then its type, its context and its size. There were 9 functions (as
   in llama.cpp b6673 of October 2025) and are 11 now (ggml 0.25.1): the plug-in looks where the type of a
     buffer of ggml's own stands. */
#ifndef DAO_INTEGRATIONS_GGML_ABI_H
#define DAO_INTEGRATIONS_GGML_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ggml_backend_buffer ggml_buffer_t;
typedef struct ggml_backend_buffer_type ggml_type_t;
typedef struct ggml_tensor ggml_tensor_t;

/* Pointers of zero behind a buffer type: its device, its context, and what later versions append. */
#define GGML_TYPE_REST 10

struct ggml_backend_buffer_type {
    const char *(*get_name)(ggml_type_t *type);
    ggml_buffer_t *(*alloc_buffer)(ggml_type_t *type, size_t size_bytes);
    size_t (*get_alignment)(ggml_type_t *type);
    size_t (*get_max_size)(ggml_type_t *type);                                /* optional */
    size_t (*get_alloc_size)(ggml_type_t *type, const ggml_tensor_t *tensor); /* optional */
    bool (*is_host)(ggml_type_t *type);
    void *rest[GGML_TYPE_REST];
};

/* The functions of a buffer. */
typedef void (*ggml_free_t)(ggml_buffer_t *buffer);
typedef void *(*ggml_base_t)(ggml_buffer_t *buffer);
typedef void (*ggml_memset_t)(ggml_buffer_t *buffer, ggml_tensor_t *tensor, uint8_t value, size_t offset,
                              size_t size_bytes);
typedef void (*ggml_set_t)(ggml_buffer_t *buffer, ggml_tensor_t *tensor, const void *data, size_t offset,
                           size_t size_bytes);
typedef void (*ggml_get_t)(ggml_buffer_t *buffer, const ggml_tensor_t *tensor, void *data, size_t offset,
                           size_t size_bytes);
typedef bool (*ggml_copy_t)(ggml_buffer_t *buffer, const ggml_tensor_t *src, ggml_tensor_t *dst);
typedef void (*ggml_clear_t)(ggml_buffer_t *buffer, uint8_t value);

/* Any of them, or an address. */
typedef union ggml_word {
    void *address;
    size_t size_bytes;
    ggml_free_t free_buffer;
    ggml_base_t get_base;
    ggml_memset_t memset_tensor;
    ggml_set_t set_tensor;
    ggml_get_t get_tensor;
    ggml_copy_t copy_tensor;
    ggml_clear_t clear;
} ggml_word_t;

static_assert(sizeof(ggml_word_t) == sizeof(void *), "a buffer is a row of pointers");
static_assert(offsetof(struct ggml_backend_buffer_type, rest) == 6 * sizeof(void *),
              "six functions come first");

/* Where a buffer has what, in words. */
enum {
    GGML_BUFFER_FREE = 0,
    GGML_BUFFER_BASE = 1,
    GGML_BUFFER_MEMSET = 3,
    GGML_BUFFER_SET = 4,
    GGML_BUFFER_GET = 5,
    GGML_BUFFER_COPY_FROM_END = 3, /* copy, clear and reset are the last three functions */
    GGML_BUFFER_CLEAR_FROM_END = 2,
};

/* Functions of a buffer, without and with those for strided copies (optional, behind `get`). */
typedef struct ggml_functions_9 {
    ggml_word_t words[9];
} ggml_functions_9_t;
typedef struct ggml_functions_11 {
    ggml_word_t words[11];
} ggml_functions_11_t;

/* What is exported by ggml's library. The functions of a buffer are passed by value. */
typedef ggml_buffer_t *(*ggml_from_ptr_t)(void *address, size_t size_bytes);
typedef ggml_type_t *(*ggml_get_type_t)(ggml_buffer_t *buffer);
typedef void (*ggml_buffer_free_t)(ggml_buffer_t *buffer);
typedef void *(*ggml_data_t)(const ggml_tensor_t *tensor);
typedef size_t (*ggml_nbytes_t)(const ggml_tensor_t *tensor);
typedef ggml_buffer_t *(*ggml_init_9_t)(ggml_type_t *type, ggml_functions_9_t functions, void *context,
                                        size_t size_bytes);
typedef ggml_buffer_t *(*ggml_init_11_t)(ggml_type_t *type, ggml_functions_11_t functions, void *context,
                                         size_t size_bytes);

#endif

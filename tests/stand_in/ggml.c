/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the six functions of ggml that libdao_ggml uses, over buffers of GGML_FUNCTIONS functions:
   of a layout that ggml had, or of none. A tensor is its address and its size. */
#include "integrations/ggml/ggml_abi.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct functions {
    ggml_word_t words[GGML_FUNCTIONS];
} functions_t;

struct ggml_backend_buffer {
    functions_t functions;
    ggml_type_t *type;
    void *context;
    size_t size_bytes;
    int usage;
};

struct ggml_tensor {
    void *data;
    size_t size_bytes;
};

EXPORT ggml_buffer_t *ggml_backend_buffer_init(ggml_type_t *type, functions_t functions, void *context,
                                               size_t size_bytes);
EXPORT ggml_buffer_t *ggml_backend_cpu_buffer_from_ptr(void *address, size_t size_bytes);
EXPORT ggml_type_t *ggml_backend_buffer_get_type(ggml_buffer_t *buffer);
EXPORT void ggml_backend_buffer_free(ggml_buffer_t *buffer);
EXPORT void *ggml_get_data(const ggml_tensor_t *tensor);
EXPORT size_t ggml_nbytes(const ggml_tensor_t *tensor);

ggml_buffer_t *ggml_backend_buffer_init(ggml_type_t *type, functions_t functions, void *context,
                                        size_t size_bytes)
{
    ggml_buffer_t *buffer = malloc(sizeof(*buffer));
    if (buffer != NULL) {
        *buffer = (ggml_buffer_t){functions, type, context, size_bytes, 0};
    }
    return buffer;
}

static void *get_base(ggml_buffer_t *buffer)
{
    return buffer->context;
}

ggml_buffer_t *ggml_backend_cpu_buffer_from_ptr(void *address, size_t size_bytes)
{
    static ggml_type_t type;
    functions_t functions = {{{0}}};
    functions.words[GGML_BUFFER_BASE].get_base = get_base;
    return ggml_backend_buffer_init(&type, functions, address, size_bytes);
}

ggml_type_t *ggml_backend_buffer_get_type(ggml_buffer_t *buffer)
{
    return buffer->type;
}

void ggml_backend_buffer_free(ggml_buffer_t *buffer)
{
    if (buffer->functions.words[GGML_BUFFER_FREE].free_buffer != NULL) {
        buffer->functions.words[GGML_BUFFER_FREE].free_buffer(buffer);
    }
    free(buffer);
}

void *ggml_get_data(const ggml_tensor_t *tensor)
{
    return tensor->data;
}

size_t ggml_nbytes(const ggml_tensor_t *tensor)
{
    return tensor->size_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of ggml over places.

   A buffer in host memory is one that ggml makes of a pointer, with ggml's own functions for copies. Its type
   and the function that frees it are replaced. A buffer on a device has functions of this file:

       words of a buffer    free  base  init  memset  set  get  (two)  copy  clear  reset | type  context size
       host memory          own   ggml ...                                                | own   address
       device               own   own   -     own     own  own  -      own   own    -     | own   address */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "integrations/ggml/dao_ggml.h"

#include "integrations/ggml/ggml_abi.h"
#include "integrations/message.h"
#include "integrations/stream_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char who[] = "dao_ggml";

#define KIND_COUNT      3
#define ALIGNMENT_HOST  64  /* of the host place */
#define ALIGNMENT_OTHER 256 /* of the others */
#define PROBE_BYTES     64
#define FUNCTIONS_OLD   9
#define FUNCTIONS_NEW   11

/* A type and the place it stands for. ggml knows the first field. */
typedef struct type {
    ggml_type_t ggml;
    dao_place_t place;
    char name[sizeof("DAO ") + DAO_PLACE_TEXT_BYTES];
} type_t;

/* ggml's library. Written once, under the lock, before the first type is there. */
static struct {
    ggml_from_ptr_t from_ptr;
    ggml_get_type_t get_type;
    ggml_buffer_free_t buffer_free;
    ggml_data_t data;
    ggml_nbytes_t nbytes;
    void *buffer_init; /* a ggml_init_9_t or a ggml_init_11_t, by function_count */
    size_t function_count;
} ggml;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static type_t types[KIND_COUNT][DAO_DEVICE_COUNT_MAX]; /* `name` is empty until it is asked for */
static _Atomic uint64_t failure_count;

/* ---- buffers ---- */

static ggml_word_t *words_of(ggml_buffer_t *buffer)
{
    return (ggml_word_t *)buffer;
}

static dao_place_t place_of(ggml_buffer_t *buffer)
{
    return ((const type_t *)words_of(buffer)[ggml.function_count].address)->place;
}

static void *address_of(ggml_buffer_t *buffer)
{
    return words_of(buffer)[ggml.function_count + 1].address;
}

static size_t size_of(ggml_buffer_t *buffer)
{
    return words_of(buffer)[ggml.function_count + 2].size_bytes;
}

/* ggml's functions return nothing: a failure is counted, and printed on the standard error. */
static void check(const char *what, dao_status_t status)
{
    if (status != DAO_OK) {
        atomic_fetch_add(&failure_count, 1);
        (void)fprintf(stderr, "%s: %s: %s: %s\n", who, what, dao_status_name(status), dao_last_message());
    }
}

static void own_free(ggml_buffer_t *buffer)
{
    check("free", dao_free(place_of(buffer), address_of(buffer)));
}

static dao_status_t fill(dao_place_t place, void *address, uint8_t value, size_t size_bytes)
{
    dao_stream_t *stream;
    dao_status_t status = dao_stream_get(place.index, DAO_STREAM_ROLE_COMPUTE, &stream);
    if (status == DAO_OK) {
        status = dao_stream_fill(stream, address, value, size_bytes);
    }
    return status == DAO_OK ? dao_stream_synchronize(stream) : status;
}

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static void device_memset(ggml_buffer_t *buffer, ggml_tensor_t *tensor, uint8_t value, size_t offset,
                          size_t size_bytes)
{
    check("memset", fill(place_of(buffer), (char *)ggml.data(tensor) + offset, value, size_bytes));
}

static void device_set(ggml_buffer_t *buffer, ggml_tensor_t *tensor, const void *data, size_t offset,
                       size_t size_bytes)
{
    char *dst = (char *)ggml.data(tensor) + offset;
    check("set", dao_copy(place_of(buffer), dst, host, data, size_bytes));
}

static void device_get(ggml_buffer_t *buffer, const ggml_tensor_t *tensor, void *data, size_t offset,
                       size_t size_bytes)
{
    const char *src = (const char *)ggml.data(tensor) + offset;
    check("get", dao_copy(host, data, place_of(buffer), src, size_bytes));
}

/* Returns false for a source that is no block of libdao's: ggml copies by way of the host then. */
static bool device_copy(ggml_buffer_t *buffer, const ggml_tensor_t *src, ggml_tensor_t *dst)
{
    const void *from = ggml.data(src);
    dao_place_t place;
    return dao_address_place(from, &place) == DAO_OK &&
           dao_copy(place_of(buffer), ggml.data(dst), place, from, ggml.nbytes(src)) == DAO_OK;
}

static void device_clear(ggml_buffer_t *buffer, uint8_t value)
{
    check("clear", fill(place_of(buffer), address_of(buffer), value, size_of(buffer)));
}

/* Returns NULL if ggml has no memory for a buffer. */
static ggml_buffer_t *device_buffer(type_t *type, void *address, size_t size_bytes)
{
    ggml_functions_11_t functions = {{{0}}};
    ggml_word_t *end = functions.words + ggml.function_count;
    functions.words[GGML_BUFFER_FREE].free_buffer = own_free;
    functions.words[GGML_BUFFER_BASE].get_base = address_of;
    functions.words[GGML_BUFFER_MEMSET].memset_tensor = device_memset;
    functions.words[GGML_BUFFER_SET].set_tensor = device_set;
    functions.words[GGML_BUFFER_GET].get_tensor = device_get;
    end[-GGML_BUFFER_COPY_FROM_END].copy_tensor = device_copy;
    end[-GGML_BUFFER_CLEAR_FROM_END].clear = device_clear;
    if (ggml.function_count == FUNCTIONS_NEW) {
        ggml_init_11_t init;
        memcpy(&init, &ggml.buffer_init, sizeof(init));
        return init(&type->ggml, functions, address, size_bytes);
    }
    ggml_functions_9_t old;
    ggml_init_9_t init;
    memcpy(&old, &functions, sizeof(old));
    memcpy(&init, &ggml.buffer_init, sizeof(init));
    return init(&type->ggml, old, address, size_bytes);
}

static ggml_buffer_t *host_buffer(type_t *type, void *address, size_t size_bytes)
{
    ggml_buffer_t *buffer = ggml.from_ptr(address, size_bytes);
    if (buffer != NULL) {
        words_of(buffer)[GGML_BUFFER_FREE].free_buffer = own_free;
        words_of(buffer)[ggml.function_count].address = type;
    }
    return buffer;
}

/* ---- types ---- */

static const char *type_name(ggml_type_t *type)
{
    return ((type_t *)type)->name;
}

static bool type_is_host(ggml_type_t *type)
{
    return ((type_t *)type)->place.kind != DAO_PLACE_KIND_DEVICE;
}

static size_t type_alignment(ggml_type_t *type)
{
    return ((type_t *)type)->place.kind == DAO_PLACE_KIND_CPU ? ALIGNMENT_HOST : ALIGNMENT_OTHER;
}

static ggml_buffer_t *type_alloc(ggml_type_t *ggml_type, size_t size_bytes)
{
    type_t *type = (type_t *)ggml_type;
    void *address = dao_alloc(type->place, size_bytes > 0 ? size_bytes : 1);
    if (address == NULL) {
        (void)fprintf(stderr, "%s: %s: %s\n", who, dao_status_name(dao_last_status()), dao_last_message());
        return NULL;
    }
    ggml_buffer_t *buffer = type_is_host(ggml_type) ? host_buffer(type, address, size_bytes)
                                                    : device_buffer(type, address, size_bytes);
    if (buffer == NULL) {
        check("free", dao_free(type->place, address));
    }
    return buffer;
}

/* ---- ggml's library ---- */

/* Finds where a buffer has its type, and so how many functions come first. */
static dao_status_t layout_find(size_t *out_count)
{
    static _Alignas(ALIGNMENT_HOST) unsigned char bytes[PROBE_BYTES];
    ggml_buffer_t *buffer = ggml.from_ptr(bytes, sizeof(bytes));
    if (buffer == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    size_t found = 0;
    static const size_t counts[] = {FUNCTIONS_OLD, FUNCTIONS_NEW};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const ggml_word_t *at = words_of(buffer) + counts[i];
        if (at[0].address == ggml.get_type(buffer) && at[1].address == bytes &&
            at[2].size_bytes == sizeof(bytes)) {
            found = counts[i];
        }
    }
    ggml.buffer_free(buffer);
    *out_count = found;
    return found != 0 ? DAO_OK : DAO_ERR_UNSUPPORTED;
}

/* Looks up one of ggml's functions. The first failure sets `status`. */
static void find_locked(void *library, const char *name, void *out_function, int *status)
{
    void *symbol = dlsym(library != NULL ? library : RTLD_DEFAULT, name);
    if (symbol == NULL && *status == DAO_OK) {
        *status = dao_plugin_fail(DAO_ERR_UNSUPPORTED,
                                  "dao_ggml_buffer_type: no %s: hand over what dlopen() answered for "
                                  "libggml-base.so, or link ggml as a shared library",
                                  name);
    }
    memcpy(out_function, &symbol, sizeof(symbol));
}

/* Looks up ggml's functions, and how its buffers are laid out. */
static int ggml_open_locked(void *library)
{
    int status = DAO_OK;
    find_locked(library, "ggml_backend_cpu_buffer_from_ptr", &ggml.from_ptr, &status);
    find_locked(library, "ggml_backend_buffer_get_type", &ggml.get_type, &status);
    find_locked(library, "ggml_backend_buffer_free", &ggml.buffer_free, &status);
    find_locked(library, "ggml_get_data", &ggml.data, &status);
    find_locked(library, "ggml_nbytes", &ggml.nbytes, &status);
    find_locked(library, "ggml_backend_buffer_init", &ggml.buffer_init, &status);
    if (status != DAO_OK) {
        return status;
    }
    status = (int)layout_find(&ggml.function_count);
    if (status != DAO_OK) {
        return dao_plugin_fail((dao_status_t)status,
                               "dao_ggml_buffer_type: this ggml's buffers have neither %d nor %d functions: "
                               "it is older than October 2024, or newer than this plug-in",
                               FUNCTIONS_OLD, FUNCTIONS_NEW);
    }
    return DAO_OK;
}

/* Opens ggml's library with the first call, and refuses another one later. */
static int ggml_meet_locked(void *library)
{
    if (ggml.function_count == 0) {
        return ggml_open_locked(library);
    }
    int status = DAO_OK;
    void *found = NULL;
    find_locked(library, "ggml_backend_buffer_init", &found, &status);
    if (status == DAO_OK && found != ggml.buffer_init) {
        status = dao_plugin_fail(DAO_ERR_UNSUPPORTED,
                                 "dao_ggml_buffer_type: this is another ggml than that of the first call");
    }
    return status;
}

static int type_start_locked(type_t *type, dao_place_t place, void *library)
{
    int status = ggml_meet_locked(library);
    if (status == DAO_OK && type->name[0] == '\0') {
        char text[DAO_PLACE_TEXT_BYTES];
        type->place = place;
        type->ggml = (ggml_type_t){.get_name = type_name,
                                   .alloc_buffer = type_alloc,
                                   .get_alignment = type_alignment,
                                   .is_host = type_is_host};
        (void)snprintf(type->name, sizeof(type->name), "DAO %s", dao_place_format(place, text));
    }
    return status;
}

struct ggml_backend_buffer_type *dao_ggml_buffer_type(dao_place_t place, void *ggml_library)
{
    if ((unsigned)place.kind >= KIND_COUNT || place.index < 0 || place.index >= DAO_DEVICE_COUNT_MAX ||
        (place.kind == DAO_PLACE_KIND_CPU && place.index != 0)) {
        (void)dao_plugin_fail(DAO_ERR_INVALID, "dao_ggml_buffer_type: kind %d, index %d is no place",
                              (int)place.kind, (int)place.index);
        return NULL;
    }
    type_t *type = &types[place.kind][place.index];
    (void)pthread_mutex_lock(&lock);
    int status = type_start_locked(type, place, ggml_library);
    (void)pthread_mutex_unlock(&lock);
    return status == DAO_OK ? &type->ggml : NULL;
}

uint64_t dao_ggml_failure_count(void)
{
    return atomic_load(&failure_count);
}

const char *dao_ggml_last_message(void)
{
    return dao_plugin_message();
}

/* ---- the pool of the CUDA back end ---- */

void *dao_ggml_pool_alloc(int device, size_t size_bytes, void *stream, size_t *out_actual_bytes)
{
    void *address = dao_stream_memory_alloc(who, device, size_bytes, stream);
    if (address != NULL && out_actual_bytes != NULL) {
        *out_actual_bytes = size_bytes;
    }
    return address;
}

void dao_ggml_pool_free(int device, void *address, void *stream)
{
    dao_stream_memory_free(who, device, address, stream);
}

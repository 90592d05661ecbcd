/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_ggml on stand-ins of ggml: the layout that buffers had is found, any other is refused with words;
   copies that fail are counted; the pool of the CUDA back end keeps the order of its stream. */
#include "integrations/ggml/dao_ggml.h"
#include "integrations/ggml/ggml_abi.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* As the stand-in has it. */
struct ggml_tensor {
    void *data;
    size_t size_bytes;
};

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static void *old;   /* 9 functions */
static void *wrong; /* 10 */

static int libraries_load(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    old = dlopen(DAO_TEST_GGML_9, RTLD_NOW | RTLD_LOCAL);
    wrong = dlopen(DAO_TEST_GGML_10, RTLD_NOW | RTLD_LOCAL);
    return old == NULL || wrong == NULL || dao_init(&config) != DAO_OK;
}

static int library_ends(void)
{
    (void)dlclose(old);
    (void)dlclose(wrong);
    return dao_finalize() != DAO_OK;
}

static void what_is_no_ggml_is_refused(void)
{
    CU_ASSERT_PTR_NULL(dao_ggml_buffer_type(host, NULL)); /* the program itself has none */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_ggml_last_message(), "ggml_backend_cpu_buffer_from_ptr"));
    CU_ASSERT_PTR_NULL(dao_ggml_buffer_type(host, wrong));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_ggml_last_message(), "neither 9 nor 11"));
    CU_ASSERT_PTR_NOT_NULL(dao_ggml_buffer_type(host, old));
    CU_ASSERT_PTR_NULL(dao_ggml_buffer_type(host, wrong)); /* a second one */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_ggml_last_message(), "another ggml"));
    dao_place_t nowhere[] = {
        {DAO_PLACE_KIND_DEVICE, -1}, {DAO_PLACE_KIND_DEVICE, 64}, {(dao_place_kind_t)3, 0}};
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_PTR_NULL(dao_ggml_buffer_type(nowhere[i], old));
    }
}

static void buffer_free(ggml_buffer_t *buffer)
{
    void (*function)(ggml_buffer_t *) = NULL;
    void *symbol = dlsym(old, "ggml_backend_buffer_free");
    memcpy(&function, &symbol, sizeof(symbol));
    function(buffer);
}

/* Makes a buffer, without which no test goes on. */
static ggml_buffer_t *buffer_make(dao_place_t place, size_t size_bytes)
{
    ggml_type_t *type = dao_ggml_buffer_type(place, old);
    ggml_buffer_t *buffer = type != NULL ? type->alloc_buffer(type, size_bytes) : NULL;
    if (buffer == NULL) {
        abort();
    }
    return buffer;
}

/* The functions stand where that layout has them. */
static void buffers_of_nine_functions_work(void)
{
    ggml_buffer_t *buffer = buffer_make(device, 64 * KIB);
    const ggml_word_t *words = (const ggml_word_t *)buffer;
    CU_ASSERT_PTR_EQUAL(words[9].address, dao_ggml_buffer_type(device, old));
    unsigned char *base = words[GGML_BUFFER_BASE].get_base(buffer);
    ggml_tensor_t a = {base, 1000};
    ggml_tensor_t b = {base + 1024, 1000};
    unsigned char bytes[1000];
    words[8 - 1].clear(buffer, 7);
    words[GGML_BUFFER_GET].get_tensor(buffer, &b, bytes, 0, 1000);
    CU_ASSERT_TRUE(bytes[0] == 7 && bytes[999] == 7);
    words[GGML_BUFFER_MEMSET].memset_tensor(buffer, &a, 9, 10, 980);
    CU_ASSERT_TRUE(words[8 - 2].copy_tensor(buffer, &a, &b));
    words[GGML_BUFFER_GET].get_tensor(buffer, &b, bytes, 0, 1000);
    CU_ASSERT_TRUE(bytes[9] == 7 && bytes[10] == 9 && bytes[989] == 9 && bytes[990] == 7);
    ggml_tensor_t foreign = {bytes, 1000};
    CU_ASSERT_FALSE(words[8 - 2].copy_tensor(buffer, &foreign, &b)); /* by way of the host, says ggml then */
    CU_ASSERT_EQUAL(dao_ggml_failure_count(), 0);
    words[GGML_BUFFER_SET].set_tensor(buffer, &a, bytes, 100 * KIB, 1000); /* past the end of the block */
    CU_ASSERT_EQUAL(dao_ggml_failure_count(), 1);
    buffer_free(buffer);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static void host_buffers_are_those_of_ggml_but_for_their_memory(void)
{
    size_t used_before = dao_used(host);
    ggml_buffer_t *buffer = buffer_make(host, MIB);
    const ggml_word_t *words = (const ggml_word_t *)buffer;
    ggml_type_t *type = words[9].address;
    CU_ASSERT_TRUE(dao_used(host) >= used_before + MIB);
    CU_ASSERT_TRUE(type->is_host(type));
    unsigned char *base = words[GGML_BUFFER_BASE].get_base(buffer);
    CU_ASSERT_EQUAL((uintptr_t)base % type->get_alignment(type), 0);
    memset(base, 1, MIB);
    buffer_free(buffer);
    CU_ASSERT_EQUAL(dao_used(host), used_before);
}

/* What is freed is used again by the work behind it, at once. */
static void the_pool_keeps_the_order_of_its_stream(void)
{
    dao_stream_t *stream;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    void *native = dao_stream_native(stream);
    size_t actual_bytes = 0;
    void *block = dao_ggml_pool_alloc(0, 3 * MIB, native, &actual_bytes);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(actual_bytes, 3 * MIB);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block, 1, 3 * MIB), DAO_OK);
    dao_ggml_pool_free(0, block, native);
    void *again = dao_ggml_pool_alloc(0, 3 * MIB, native, NULL);
    CU_ASSERT_PTR_EQUAL(again, block);
    dao_ggml_pool_free(0, again, native);
    actual_bytes = 5;
    CU_ASSERT_PTR_NULL(dao_ggml_pool_alloc(0, GIB, native, &actual_bytes));
    CU_ASSERT_EQUAL(actual_bytes, 5);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static CU_TestInfo tests[] = {
    {"what is no ggml is refused", what_is_no_ggml_is_refused},
    {"buffers of nine functions work", buffers_of_nine_functions_work},
    {"host buffers are those of ggml but for their memory",
     host_buffers_are_those_of_ggml_but_for_their_memory},
    {"the pool keeps the order of its stream", the_pool_keeps_the_order_of_its_stream},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ggml's layout", libraries_load, library_ends, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-ins for PyTorch and CuPy, loaded and called as the frameworks do: by name, with native streams,
   any device number, freed while work is still queued. On the cpu backend the native streams are those of
   virtual devices. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, nanosleep */
#include "integrations/cupy/dao_cupy.h"
#include "integrations/torch/dao_torch.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS      6
#define ROUNDS       150
#define BLOCK_BYTES  ((size_t)3 << 20)
#define STREAMS_MANY 200 /* most share what the library knows of them */

/* What the frameworks' bindings make of the addresses. */
typedef void *torch_alloc_t(size_t, int, void *);
typedef void torch_free_t(void *, size_t, int, void *);
typedef void *cupy_alloc_t(void *, size_t, int);
typedef void cupy_free_t(void *, void *, int);

static torch_alloc_t *torch_alloc;
static torch_free_t *torch_free;
static cupy_alloc_t *cupy_alloc;
static cupy_free_t *cupy_free;
static void (*torch_reset)(void);
static void (*torch_memory_fraction)(double, int);
static void *(*torch_base_alloc)(void *, size_t *);
static void (*torch_record_stream)(void *, void *);
static size_t (*torch_memory_stats)(int, char *, size_t);
static int (*torch_snapshot)(int, const char *);
static const char *(*torch_last_message)(void);

static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t pinned_0 = {DAO_PLACE_KIND_PINNED, 0};
static int last_device; /* the second one, if there are two */

static void *library_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    return library;
}

/* ISO C keeps functions and objects apart; dlsym() does not. */
static void function_find(void *library, const char *name, void *out_function)
{
    void *address = dlsym(library, name);
    if (address == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    memcpy(out_function, &address, sizeof(address));
}

static int plugins_load(void)
{
    void *torch = library_open(DAO_TEST_TORCH);
    void *cupy = library_open(DAO_TEST_CUPY);
    void (*torch_init)(int);
    function_find(torch, "dao_torch_alloc", &torch_alloc);
    function_find(torch, "dao_torch_free", &torch_free);
    function_find(torch, "dao_torch_init", &torch_init);
    function_find(torch, "dao_torch_reset", &torch_reset);
    function_find(torch, "dao_torch_memory_fraction", &torch_memory_fraction);
    function_find(torch, "dao_torch_base_alloc", &torch_base_alloc);
    function_find(torch, "dao_torch_record_stream", &torch_record_stream);
    function_find(torch, "dao_torch_memory_stats", &torch_memory_stats);
    function_find(torch, "dao_torch_snapshot", &torch_snapshot);
    function_find(torch, "dao_torch_last_message", &torch_last_message);
    function_find(cupy, "dao_cupy_alloc", &cupy_alloc);
    function_find(cupy, "dao_cupy_free", &cupy_free);
    torch_init(1);
    int32_t count = 0;
    if (dao_device_count(&count) != DAO_OK || count < 1) {
        return 1;
    }
    last_device = count > 1 ? 1 : 0;
    return 0;
}

static void *native_of(dao_stream_t *stream)
{
    return dao_stream_native(stream);
}

static dao_stream_t *stream_make(int32_t device)
{
    dao_stream_t *stream = NULL;
    if (dao_stream_create(device, &stream) != DAO_OK) {
        abort();
    }
    return stream;
}

/* ---- calls ---- */

static void any_device_number_is_answered(void)
{
    static const int none[] = {-1, 63, 64, 1000000};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        CU_ASSERT_PTR_NULL(torch_alloc(1000, none[i], NULL));
        CU_ASSERT_PTR_NOT_NULL(strstr(torch_last_message(), "device"));
        CU_ASSERT_PTR_NULL(cupy_alloc(NULL, 1000, none[i]));
        torch_free(NULL, 0, none[i], NULL);
    }
    for (int device = 0; device <= last_device; device++) {
        void *address = torch_alloc(1000, device, NULL);
        CU_ASSERT_PTR_NOT_NULL(address);
        CU_ASSERT_EQUAL((uintptr_t)address % 256, 0);
        torch_free(address, 1000, device, NULL);
    }
}

static void nothing_is_nothing(void)
{
    CU_ASSERT_PTR_NULL(torch_alloc(0, 0, NULL));
    torch_free(NULL, 0, 0, NULL);
    CU_ASSERT_PTR_NULL(cupy_alloc(NULL, 0, 0));
    cupy_free(NULL, NULL, 0);
}

static void too_much_is_refused_with_words(void)
{
    CU_ASSERT_PTR_NULL(torch_alloc((size_t)1 << 50, 0, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(torch_last_message(), "device:0"));
}

/* ---- streams ---- */

static atomic_bool gate_is_open;

static void gate(void *user)
{
    (void)user;
    while (!atomic_load(&gate_is_open)) {
        struct timespec pause = {.tv_nsec = 100000};
        (void)nanosleep(&pause, NULL);
    }
}

/* The same stream gets the block back at once; another one only behind its work. */
static void a_block_is_used_again_in_the_order_of_its_stream(void)
{
    dao_stream_t *stream = stream_make(0);
    dao_stream_t *other = stream_make(0);
    unsigned char *host = dao_alloc(pinned_0, BLOCK_BYTES);
    atomic_store(&gate_is_open, false);
    void *block = torch_alloc(BLOCK_BYTES, 0, native_of(stream));
    CU_ASSERT_EQUAL(dao_stream_host_func(stream, gate, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block, 1, BLOCK_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(stream, pinned_0, host, device_0, block, BLOCK_BYTES), DAO_OK);
    torch_free(block, BLOCK_BYTES, 0, native_of(stream));
    void *again = torch_alloc(BLOCK_BYTES, 0, native_of(stream));
    CU_ASSERT_PTR_EQUAL(again, block);
    torch_free(again, BLOCK_BYTES, 0, native_of(stream));
    void *elsewhere = torch_alloc(BLOCK_BYTES, 0, native_of(other)); /* perhaps the same, behind the copy */
    CU_ASSERT_EQUAL(dao_stream_fill(other, elsewhere, 2, BLOCK_BYTES), DAO_OK);
    atomic_store(&gate_is_open, true);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    CU_ASSERT_EQUAL(host[0], 1);
    CU_ASSERT_EQUAL(memcmp(host, host + 1, BLOCK_BYTES - 1), 0);
    torch_free(elsewhere, BLOCK_BYTES, 0, native_of(other));
    CU_ASSERT_EQUAL(dao_free(pinned_0, host), DAO_OK);
}

/* A stream that was recorded for a block holds it back from the stream that it was allocated on. */
static void a_recorded_stream_is_waited_for(void)
{
    dao_stream_t *stream = stream_make(0);
    dao_stream_t *reader = stream_make(0);
    unsigned char *host = dao_alloc(pinned_0, BLOCK_BYTES);
    atomic_store(&gate_is_open, false);
    void *block = torch_alloc(BLOCK_BYTES, 0, native_of(stream));
    CU_ASSERT_EQUAL(dao_stream_fill(stream, block, 5, BLOCK_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_host_func(reader, gate, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(reader, pinned_0, host, device_0, block, BLOCK_BYTES), DAO_OK);
    torch_record_stream(block, native_of(reader));
    torch_free(block, BLOCK_BYTES, 0, native_of(stream));
    void *next = torch_alloc(BLOCK_BYTES, 0, native_of(stream));
    CU_ASSERT_EQUAL(dao_stream_fill(stream, next, 6, BLOCK_BYTES), DAO_OK);
    atomic_store(&gate_is_open, true);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    CU_ASSERT_EQUAL(host[0], 5);
    CU_ASSERT_EQUAL(memcmp(host, host + 1, BLOCK_BYTES - 1), 0);
    torch_free(next, BLOCK_BYTES, 0, native_of(stream));
    torch_record_stream(NULL, native_of(reader));
    torch_record_stream(host, native_of(reader)); /* none of its blocks: told, and nothing else */
    CU_ASSERT_EQUAL(dao_free(pinned_0, host), DAO_OK);
}

typedef struct user {
    pthread_t thread;
    uint64_t seed;
    int device;
    unsigned char value;
    size_t wrong_count;
} user_t;

/* Allocates, works and frees before the work is done, as eager PyTorch does; the bytes have to be its own all
   the same. */
static void *work_and_free_early(void *argument)
{
    user_t *user = argument;
    dao_place_t device = dao_place_of(dao_device_place(user->device));
    dao_place_t pinned = dao_place_of(dao_pinned_place(user->device));
    dao_stream_t *stream = stream_make(user->device);
    void *native = native_of(stream);
    size_t most = (size_t)256 << 10;
    unsigned char *host = dao_alloc(pinned, most);
    for (int round = 0; round < ROUNDS; round++) {
        size_t size_bytes = 1 + dao_random_next(&user->seed) % most;
        bool is_cupy = dao_random_next(&user->seed) % 2 == 0;
        void *block = is_cupy ? cupy_alloc(native, size_bytes, user->device)
                              : torch_alloc(size_bytes, user->device, native);
        bool is_queued = dao_stream_fill(stream, block, user->value, size_bytes) == DAO_OK &&
                         dao_stream_copy(stream, pinned, host, device, block, size_bytes) == DAO_OK;
        if (is_cupy) {
            cupy_free(native, block, user->device);
        } else {
            torch_free(block, size_bytes, user->device, native);
        }
        if (!is_queued || dao_stream_synchronize(stream) != DAO_OK) {
            abort();
        }
        for (size_t i = 0; i < size_bytes; i++) {
            user->wrong_count += host[i] != user->value;
        }
    }
    (void)dao_free(pinned, host);
    return NULL;
}

static void threads_do_not_disturb_each_other(void)
{
    uint64_t seed = dao_test_seed("plugins", 0x70c4);
    user_t users[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        users[i] = (user_t){
            .seed = dao_random_next(&seed), .device = i % (last_device + 1), .value = (unsigned char)(i + 1)};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&users[i].thread, NULL, work_and_free_early, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL(pthread_join(users[i].thread, NULL), 0);
        CU_ASSERT_EQUAL(users[i].wrong_count, 0);
    }
}

/* Without a wait for the device: a stream whose work does not end holds nobody. */
static void many_streams_are_served(void)
{
    dao_stream_t *streams[STREAMS_MANY];
    void *blocks[STREAMS_MANY];
    size_t used_before = dao_used(device_0);
    for (int i = 0; i < STREAMS_MANY; i++) {
        streams[i] = stream_make(0);
        blocks[i] = torch_alloc(100000, 0, native_of(streams[i]));
        CU_ASSERT_PTR_NOT_NULL(blocks[i]);
        CU_ASSERT_EQUAL(dao_stream_fill(streams[i], blocks[i], 1, 100000), DAO_OK);
    }
    torch_record_stream(blocks[0], native_of(streams[STREAMS_MANY - 1]));
    for (int i = 0; i < STREAMS_MANY; i++) {
        torch_free(blocks[i], 100000, 0, native_of(streams[i]));
    }
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device_0), used_before);
}

/* ---- hooks ---- */

/* Reads one figure of the JSON text. */
static unsigned long long figure(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at != NULL ? strtoull(at + strlen(name) + strlen("\": "), NULL, 10) : 0;
}

static void statistics_are_there(void)
{
    char text[4096];
    void *block = torch_alloc(BLOCK_BYTES, last_device, NULL);
    size_t length = torch_memory_stats(last_device, NULL, 0);
    CU_ASSERT_TRUE_FATAL(length > 100 && length <= sizeof(text));
    CU_ASSERT_EQUAL(torch_memory_stats(last_device, text, sizeof(text)), length);
    CU_ASSERT_EQUAL(strlen(text) + 1, length);
    CU_ASSERT_TRUE(text[0] == '{' && text[length - 2] == '}');
    CU_ASSERT_TRUE(figure(text, "allocated_bytes.all.current") >= BLOCK_BYTES);
    CU_ASSERT_TRUE(figure(text, "requested_bytes.all.current") >= BLOCK_BYTES);
    text[0] = text[5] = 'x';
    CU_ASSERT_EQUAL(torch_memory_stats(last_device, text, 5), length); /* cut */
    CU_ASSERT_TRUE(text[4] == '\0' && text[5] == 'x');
    CU_ASSERT_EQUAL(torch_memory_stats(1000, text, sizeof(text)), 0);
    torch_free(block, BLOCK_BYTES, last_device, NULL);
}

static void the_hooks_do_what_pytorch_asks(void)
{
    dao_place_t device = dao_place_of(dao_device_place(last_device));
    void *block = torch_alloc(BLOCK_BYTES, last_device, NULL);
    size_t size_bytes = 0;
    char *base = torch_base_alloc((char *)block + 100, &size_bytes);
    CU_ASSERT_PTR_NOT_NULL(base);
    CU_ASSERT_TRUE(base <= (char *)block && base + size_bytes >= (char *)block + BLOCK_BYTES);
    CU_ASSERT_PTR_NULL(torch_base_alloc(&size_bytes, &size_bytes));
    CU_ASSERT_EQUAL(size_bytes, 0);
    torch_free(block, BLOCK_BYTES, last_device, NULL);
    CU_ASSERT_EQUAL(dao_device_synchronize(last_device), DAO_OK);
    torch_reset();
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_TRUE(stats.reserved_bytes < BLOCK_BYTES);
    dao_device_info_t info;
    CU_ASSERT_EQUAL_FATAL(dao_device_query(last_device, &info), DAO_OK);
    size_t half_bytes = (size_t)info.total_bytes / 2;
    torch_memory_fraction(0.25, last_device);
    CU_ASSERT_PTR_NULL(torch_alloc(half_bytes, last_device, NULL));
    torch_memory_fraction(0.0, last_device);
    CU_ASSERT_PTR_NULL(torch_alloc(1, last_device, NULL));
    torch_memory_fraction(-1.0, last_device); /* told, as is what is no number: nothing is changed */
    torch_memory_fraction(NAN, last_device);
    CU_ASSERT_PTR_NULL(torch_alloc(1, last_device, NULL));
    torch_memory_fraction(1.0, last_device);
    block = torch_alloc(half_bytes, last_device, NULL);
    CU_ASSERT_PTR_NOT_NULL(block);
    torch_free(block, half_bytes, last_device, NULL);
    torch_memory_fraction(0.5, 1000); /* told */
}

static void a_snapshot_is_written(void)
{
    char path[] = "/tmp/dao_plugins_XXXXXX";
    int descriptor = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(descriptor >= 0);
    FILE *file = fdopen(descriptor, "r");
    char text[256] = "";
    CU_ASSERT_EQUAL(torch_snapshot(0, path), DAO_OK);
    CU_ASSERT_TRUE(fread(text, 1, sizeof(text) - 1, file) > 0);
    CU_ASSERT_EQUAL(memcmp(text, "\x80\x02}(X\x08\0\0\0segments", 17), 0); /* a pickle of protocol 2 */
    CU_ASSERT_EQUAL(torch_snapshot(0, "/nowhere/at/all"), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(torch_last_message(), "/nowhere/at/all"));
    CU_ASSERT_EQUAL(torch_snapshot(0, "/dev/full"), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(torch_last_message(), "/dev/full"));
    CU_ASSERT_EQUAL(torch_snapshot(0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(torch_last_message(), "path"));
    CU_ASSERT_EQUAL(torch_snapshot(1000, path), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(torch_last_message(), "device"));
    (void)fclose(file);
    (void)remove(path);
}

static CU_TestInfo tests[] = {
    {"any device number is answered", any_device_number_is_answered},
    {"nothing is nothing", nothing_is_nothing},
    {"too much is refused with words", too_much_is_refused_with_words},
    {"a block is used again in the order of its stream", a_block_is_used_again_in_the_order_of_its_stream},
    {"a recorded stream is waited for", a_recorded_stream_is_waited_for},
    {"threads do not disturb each other", threads_do_not_disturb_each_other},
    {"statistics are there", statistics_are_there},
    {"the hooks do what PyTorch asks", the_hooks_do_what_pytorch_asks},
    {"a snapshot is written", a_snapshot_is_written},
    {"many streams are served", many_streams_are_served},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plug-ins", plugins_load, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

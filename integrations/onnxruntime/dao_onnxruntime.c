/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators of ONNX Runtime over places, and the external functions of its CUDA provider.

   ONNX Runtime frees device memory without a stream, while kernels that use it may still be queued. Where the
   program has named the stream, a free follows it; elsewhere it waits for the device.

   For NULL from an allocator ONNX Runtime 1.20 ends the process (std::terminate(), of a span without bytes).
   Its own allocators throw std::bad_alloc, which it turns into a status. So this one does, by the function
   that libstdc++ has for it. */
#include "integrations/onnxruntime/dao_onnxruntime.h"

#include "integrations/message.h"
#include "integrations/onnxruntime/ort_abi.h"
#include "integrations/stream_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char who[] = "dao_onnxruntime";

#define KIND_COUNT 3

/* An allocator and the place it stands for. ONNX Runtime knows the first field. */
typedef struct allocator {
    ort_allocator_t ort;
    dao_place_t place;
    struct OrtMemoryInfo *info; /* NULL until it is asked for */
} allocator_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static allocator_t allocators[KIND_COUNT][DAO_DEVICE_COUNT_MAX];

/* The stream that frees follow, once it was named. */
static struct {
    _Atomic bool is_named;
    void *_Atomic stream;
} streams[DAO_DEVICE_COUNT_MAX];
static atomic_int gpu_device;

/* ---- memory ---- */

static void report(void)
{
    (void)fprintf(stderr, "%s: %s: %s\n", who, dao_status_name(dao_last_status()), dao_last_message());
}

static bool follows_stream(dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_DEVICE && place.index >= 0 && place.index < DAO_DEVICE_COUNT_MAX &&
           atomic_load(&streams[place.index].is_named);
}

static void *memory_alloc(dao_place_t place, size_t size_bytes)
{
    if (follows_stream(place)) {
        return dao_stream_memory_alloc(who, place.index, size_bytes,
                                       atomic_load(&streams[place.index].stream));
    }
    void *address = dao_alloc(place, size_bytes);
    if (address == NULL && size_bytes > 0) {
        report();
    }
    return address;
}

static void memory_free(dao_place_t place, void *address)
{
    if (address == NULL) {
        return;
    }
    if (follows_stream(place)) {
        dao_stream_memory_free(who, place.index, address, atomic_load(&streams[place.index].stream));
        return;
    }
    dao_status_t status = place.kind != DAO_PLACE_KIND_CPU ? dao_device_synchronize(place.index) : DAO_OK;
    if (status != DAO_OK || dao_free(place, address) != DAO_OK) {
        report();
    }
}

/* Throws std::bad_alloc, and returns where no C++ library is loaded. */
static void bad_alloc_throw(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "_ZSt17__throw_bad_allocv") : NULL;
    if (symbol != NULL) {
        void (*throw_it)(void);
        memcpy(&throw_it, &symbol, sizeof(symbol));
        (void)dlclose(library); /* it stays loaded: others use it */
        throw_it();
    }
}

static void *ort_alloc(ort_allocator_t *allocator, size_t size_bytes)
{
    void *address = memory_alloc(((allocator_t *)allocator)->place, size_bytes);
    if (address == NULL && size_bytes > 0) {
        bad_alloc_throw();
    }
    return address;
}

static void ort_free(ort_allocator_t *allocator, void *address)
{
    memory_free(((allocator_t *)allocator)->place, address);
}

static const struct OrtMemoryInfo *ort_info(const ort_allocator_t *allocator)
{
    return ((const allocator_t *)allocator)->info;
}

/* ---- ONNX Runtime's functions ---- */

/* Reads one function out of ONNX Runtime's table. */
static void function_get(const struct OrtApi *api, size_t index, void *out_function)
{
    memcpy(out_function, (const char *)api + index * sizeof(void *), sizeof(void *));
}

/* Turns ONNX Runtime's status into ours, and releases it. */
static int answer(const struct OrtApi *api, const char *function, struct OrtStatus *status)
{
    if (status == NULL) {
        return dao_plugin_answer(DAO_OK);
    }
    ort_get_error_message_t get_error_message;
    ort_release_status_t release_status;
    function_get(api, ORT_GET_ERROR_MESSAGE, &get_error_message);
    function_get(api, ORT_RELEASE_STATUS, &release_status);
    int result =
        dao_plugin_fail(DAO_ERR_UNSUPPORTED, "%s: ONNX Runtime: %s", function, get_error_message(status));
    release_status(status);
    return result;
}

/* How ONNX Runtime calls the memory of a place. */
static const char *memory_name(dao_place_kind_t kind)
{
    static const char *const names[][KIND_COUNT] = {{"Cpu", "CudaPinned", "Cuda"},
                                                    {"Cpu", "HipPinned", "Hip"}};
    return names[strcmp(dao_backend_name(), "hip") == 0][kind];
}

static int allocator_start_locked(const struct OrtApi *api, dao_place_t place, allocator_t *allocator)
{
    if (allocator->info != NULL) {
        return DAO_OK;
    }
    ort_create_memory_info_t create_memory_info;
    function_get(api, ORT_CREATE_MEMORY_INFO, &create_memory_info);
    allocator->place = place;
    allocator->ort = (ort_allocator_t){
        .version = ORT_ALLOCATOR_VERSION, .alloc = ort_alloc, .free = ort_free, .info = ort_info};
    int memory_type = place.kind == DAO_PLACE_KIND_PINNED ? ORT_MEMORY_CPU_OUTPUT : ORT_MEMORY_DEFAULT;
    return answer(api, "dao_onnxruntime_allocator",
                  create_memory_info(memory_name(place.kind), ORT_DEVICE_ALLOCATOR, place.index, memory_type,
                                     &allocator->info));
}

/* Returns NULL with a dao_status_t; `function` is who asks. */
static allocator_t *allocator_get(const char *function, const struct OrtApi *api, dao_place_t place,
                                  int *out_status)
{
    if (api == NULL) {
        *out_status = dao_plugin_fail(DAO_ERR_INVALID, "%s: the table of functions is NULL", function);
        return NULL;
    }
    if ((unsigned)place.kind >= KIND_COUNT || place.index < 0 || place.index >= DAO_DEVICE_COUNT_MAX ||
        (place.kind == DAO_PLACE_KIND_CPU && place.index != 0)) {
        *out_status = dao_plugin_fail(DAO_ERR_INVALID, "%s: kind %d, index %d is no place", function,
                                      (int)place.kind, (int)place.index);
        return NULL;
    }
    allocator_t *allocator = &allocators[place.kind][place.index];
    (void)pthread_mutex_lock(&lock);
    *out_status = allocator_start_locked(api, place, allocator);
    (void)pthread_mutex_unlock(&lock);
    return *out_status == DAO_OK ? allocator : NULL;
}

/* The same for what needs an environment, too. */
static allocator_t *allocator_of_env(const char *function, const struct OrtApi *api, const struct OrtEnv *env,
                                     dao_place_t place, int *out_status)
{
    if (env == NULL) {
        *out_status = dao_plugin_fail(DAO_ERR_INVALID, "%s: the environment is NULL", function);
        return NULL;
    }
    return allocator_get(function, api, place, out_status);
}

struct OrtAllocator *dao_onnxruntime_allocator(const struct OrtApi *api, dao_place_t place)
{
    int status;
    allocator_t *allocator = allocator_get(__func__, api, place, &status);
    return allocator != NULL ? &allocator->ort : NULL;
}

int dao_onnxruntime_register(const struct OrtApi *api, struct OrtEnv *env, dao_place_t place)
{
    int status;
    allocator_t *allocator = allocator_of_env(__func__, api, env, place, &status);
    if (allocator == NULL) {
        return status;
    }
    ort_register_allocator_t register_allocator;
    function_get(api, ORT_REGISTER_ALLOCATOR, &register_allocator);
    return answer(api, __func__, register_allocator(env, &allocator->ort));
}

int dao_onnxruntime_unregister(const struct OrtApi *api, struct OrtEnv *env, dao_place_t place)
{
    int status;
    allocator_t *allocator = allocator_of_env(__func__, api, env, place, &status);
    if (allocator == NULL) {
        return status;
    }
    ort_unregister_allocator_t unregister_allocator;
    function_get(api, ORT_UNREGISTER_ALLOCATOR, &unregister_allocator);
    return answer(api, __func__, unregister_allocator(env, allocator->info));
}

int dao_onnxruntime_session(const struct OrtApi *api, struct OrtSessionOptions *options)
{
    if (api == NULL || options == NULL) {
        return dao_plugin_fail(DAO_ERR_INVALID, "%s: a pointer is NULL", __func__);
    }
    ort_add_session_config_entry_t add_config_entry;
    ort_disable_mem_pattern_t disable_mem_pattern;
    function_get(api, ORT_ADD_SESSION_CONFIG_ENTRY, &add_config_entry);
    function_get(api, ORT_DISABLE_MEM_PATTERN, &disable_mem_pattern);
    int status = answer(api, __func__, add_config_entry(options, "session.use_env_allocators", "1"));
    return status == DAO_OK ? answer(api, __func__, disable_mem_pattern(options)) : status;
}

/* ---- the CUDA provider ---- */

int dao_onnxruntime_gpu_stream(int device, void *stream)
{
    if (device < 0 || device >= DAO_DEVICE_COUNT_MAX) {
        return dao_plugin_fail(DAO_ERR_INVALID, "%s: %d is no device's number", __func__, device);
    }
    atomic_store(&streams[device].stream, stream);
    atomic_store(&streams[device].is_named, true);
    atomic_store(&gpu_device, device);
    return dao_plugin_answer(DAO_OK);
}

static dao_place_t gpu_place(void)
{
    return dao_place_of(dao_device_place(atomic_load(&gpu_device)));
}

void *dao_onnxruntime_gpu_alloc(size_t size_bytes)
{
    return memory_alloc(gpu_place(), size_bytes);
}

void dao_onnxruntime_gpu_free(void *address)
{
    memory_free(gpu_place(), address);
}

void dao_onnxruntime_gpu_empty_cache(void)
{
    if (dao_trim(gpu_place(), 0, NULL) != DAO_OK) {
        report();
    }
}

const char *dao_onnxruntime_last_message(void)
{
    return dao_plugin_message();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_onnxruntime with a real ONNX Runtime, from npm's registry: a model runs with libdao's host place and
   without, with the same output, and its requests are served from a step plan. */
#define _DEFAULT_SOURCE /* mallinfo2, clock_gettime */
#include "integrations/onnxruntime/dao_onnxruntime.h"
#include "integrations/onnxruntime/ort_abi.h"
#include "tests/support/models/onnx_model.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* ---- ONNX Runtime ---- */

struct OrtSession;
struct OrtValue;

typedef struct api_base {
    const struct OrtApi *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
} api_base_t;

#define API_VERSION 14

static struct {
    struct OrtStatus *(*create_env)(int level, const char *name, struct OrtEnv **out_env);
    struct OrtStatus *(*create_session)(const struct OrtEnv *env, const void *model, size_t size_bytes,
                                        const struct OrtSessionOptions *options,
                                        struct OrtSession **out_session);
    struct OrtStatus *(*run)(struct OrtSession *session, const void *options, const char *const *input_names,
                             const struct OrtValue *const *inputs, size_t input_count,
                             const char *const *output_names, size_t output_count, struct OrtValue **outputs);
    struct OrtStatus *(*create_options)(struct OrtSessionOptions **out_options);
    struct OrtStatus *(*disable_arena)(struct OrtSessionOptions *options);
    struct OrtStatus *(*set_threads)(struct OrtSessionOptions *options, int count);
    struct OrtStatus *(*create_tensor)(const struct OrtMemoryInfo *info, void *data, size_t size_bytes,
                                       const int64_t *shape, size_t dim_count, int type,
                                       struct OrtValue **out_value);
    struct OrtStatus *(*tensor_data)(struct OrtValue *value, void **out_data);
    void (*release_env)(struct OrtEnv *env);
    void (*release_status)(struct OrtStatus *status);
    void (*release_session)(struct OrtSession *session);
    void (*release_value)(struct OrtValue *value);
    void (*release_options)(struct OrtSessionOptions *options);
    const char *(*error_message)(const struct OrtStatus *status);
} ort;

static const struct {
    void *function;
    size_t index;
} functions[] = {
    {&ort.error_message, ORT_GET_ERROR_MESSAGE},
    {&ort.create_env, 3},
    {&ort.create_session, 8},
    {&ort.run, 9},
    {&ort.create_options, 10},
    {&ort.disable_arena, 19},
    {&ort.set_threads, 24},
    {&ort.create_tensor, 49},
    {&ort.tensor_data, 51},
    {&ort.release_env, 92},
    {&ort.release_status, ORT_RELEASE_STATUS},
    {&ort.release_session, 95},
    {&ort.release_value, 96},
    {&ort.release_options, 100},
};

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static const struct OrtApi *api;
static struct OrtEnv *env;
static unsigned char *model;
static size_t model_bytes;

/* Ends the test where ONNX Runtime refuses what it must not. */
static void must(struct OrtStatus *status)
{
    if (status != NULL) {
        (void)fprintf(stderr, "ONNX Runtime: %s\n", ort.error_message(status));
        abort();
    }
}

static int ort_start(void)
{
    void *library = dlopen(DAO_TEST_ONNXRUNTIME, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "OrtGetApiBase") : NULL;
    const api_base_t *(*get_base)(void);
    memcpy(&get_base, &symbol, sizeof(symbol));
    api = symbol != NULL ? get_base()->get_api(API_VERSION) : NULL;
    if (api == NULL) {
        (void)fprintf(stderr, "no ONNX Runtime: %s\n", dlerror());
        return 1;
    }
    (void)printf("    ONNX Runtime %s\n", get_base()->get_version());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        memcpy(functions[i].function, (const char *)api + functions[i].index * sizeof(void *),
               sizeof(void *));
    }
    onnx_net_t net = {.block_count = 6, .width = 24, .seed = 7};
    model = onnx_model_make(&net, &model_bytes);
    must(ort.create_env(3, "test", &env));
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_place_config_t place_config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}};
    return dao_init(&config) != DAO_OK || dao_place_configure(host, &place_config) != DAO_OK;
}

static int ort_stop(void)
{
    ort.release_env(env);
    free(model);
    return dao_finalize() != DAO_OK;
}

/* ---- runs ---- */

#define BATCH_MAX    8
#define SIDE_MAX     48
#define INPUT_MAX    (BATCH_MAX * ONNX_CHANNELS * SIDE_MAX * SIDE_MAX)
#define OUTPUT_MAX   (BATCH_MAX * ONNX_CLASSES)
#define FIGURE_STEPS 15

typedef enum memory {
    MEMORY_ARENA,  /* ONNX Runtime's default */
    MEMORY_MALLOC, /* without its arena */
    MEMORY_PLACE,
    MEMORY_PLAN, /* the place, with steps */
    MEMORY_COUNT,
} memory_t;

typedef struct batch {
    int64_t size;
    int64_t side; /* height and width */
} batch_t;

static float input[INPUT_MAX];

static struct OrtSession *session_make(memory_t memory)
{
    struct OrtSessionOptions *options;
    struct OrtSession *session;
    must(ort.create_options(&options));
    must(ort.set_threads(options, 1));
    if (memory == MEMORY_MALLOC) {
        must(ort.disable_arena(options));
    } else if (memory != MEMORY_ARENA) {
        CU_ASSERT_EQUAL_FATAL(dao_onnxruntime_session(api, options), DAO_OK);
    }
    must(ort.create_session(env, model, model_bytes, options, &session));
    ort.release_options(options);
    return session;
}

/* Runs the model once. Returns ONNX Runtime's status, for the caller to release. */
static struct OrtStatus *run(struct OrtSession *session, memory_t memory, batch_t batch, float *out_values)
{
    const char *const input_name = "x";
    const char *const output_name = "y";
    const int64_t shape[] = {batch.size, ONNX_CHANNELS, batch.side, batch.side};
    size_t count = (size_t)(batch.size * ONNX_CHANNELS * batch.side * batch.side);
    struct OrtAllocator *cpu = dao_onnxruntime_allocator(api, host);
    struct OrtValue *x;
    struct OrtValue *y = NULL;
    must(ort.create_tensor(cpu->info(cpu), input, count * sizeof(float), shape, 4, 1, &x));
    if (memory == MEMORY_PLAN) {
        CU_ASSERT_EQUAL(dao_step_begin(host), DAO_OK);
    }
    struct OrtStatus *status =
        ort.run(session, NULL, &input_name, (const struct OrtValue *const *)&x, 1, &output_name, 1, &y);
    if (memory == MEMORY_PLAN) {
        CU_ASSERT_EQUAL(dao_step_end(host), DAO_OK);
    }
    if (status == NULL) {
        void *data;
        must(ort.tensor_data(y, &data));
        memcpy(out_values, data, (size_t)batch.size * ONNX_CLASSES * sizeof(float));
        ort.release_value(y);
    }
    ort.release_value(x);
    return status;
}

static void input_fill(void)
{
    uint64_t seed = dao_test_seed("onnxruntime", 0x0a);
    for (size_t i = 0; i < INPUT_MAX; i++) {
        input[i] = (float)(dao_random_next(&seed) % 2001) / 1000.0F - 1.0F;
    }
}

static bool is_same(const void *a, const void *b, size_t size_bytes)
{
    return memcmp(a, b, size_bytes) == 0;
}

static void register_host(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_onnxruntime_register(api, env, host), DAO_OK);
}

static void unregister_host(void)
{
    CU_ASSERT_EQUAL(dao_onnxruntime_unregister(api, env, host), DAO_OK);
}

static float expected[OUTPUT_MAX];
static float values[OUTPUT_MAX];

static void a_model_has_the_same_output_and_frees_all(void)
{
    input_fill();
    const batch_t batch = {4, 48};
    struct OrtSession *session = session_make(MEMORY_ARENA);
    must(run(session, MEMORY_ARENA, batch, expected));
    ort.release_session(session);
    float sum = 0;
    for (int i = 0; i < ONNX_CLASSES; i++) {
        sum += expected[i];
    }
    CU_ASSERT_TRUE(sum > 0.999F && sum < 1.001F && expected[0] != expected[1]);
    size_t used_before = dao_used(host);
    register_host();
    session = session_make(MEMORY_PLACE);
    CU_ASSERT_TRUE(dao_used(host) > used_before); /* the weights are there */
    for (int i = 0; i < 3; i++) {
        memset(values, 0, sizeof(values));
        must(run(session, MEMORY_PLACE, batch, values));
        CU_ASSERT_TRUE(is_same(values, expected, sizeof(float) * ONNX_CLASSES * 4));
    }
    ort.release_session(session);
    unregister_host();
    CU_ASSERT_EQUAL(dao_used(host), used_before);
}

/* Share of the latest step's requests that got their planned place. */
static double hit_rate(void)
{
    dao_step_plan_stats_t stats;
    CU_ASSERT_EQUAL_FATAL(dao_step_plan_stats_get(host, &stats), DAO_OK);
    CU_ASSERT_TRUE(stats.latest.request_count > 10);
    return (double)stats.latest.hit_count / (double)stats.latest.request_count;
}

/* After three runs the plan serves them. Batches of another size have a plan of their own. */
static void requests_are_served_from_a_plan(void)
{
    const batch_t batches[] = {{4, 48}, {7, 32}};
    float outputs[2][OUTPUT_MAX];
    struct OrtSession *session = session_make(MEMORY_ARENA);
    for (size_t i = 0; i < 2; i++) {
        must(run(session, MEMORY_ARENA, batches[i], outputs[i]));
    }
    ort.release_session(session);
    register_host();
    session = session_make(MEMORY_PLAN);
    for (size_t i = 0; i < 2; i++) {
        for (int round = 0; round < 3; round++) {
            must(run(session, MEMORY_PLAN, batches[i], values));
        }
    }
    double least = 1.0;
    for (int round = 0; round < 10; round++) {
        const size_t i = (size_t)round % 2;
        must(run(session, MEMORY_PLAN, batches[i], values));
        CU_ASSERT_TRUE(is_same(values, outputs[i], sizeof(float) * ONNX_CLASSES * (size_t)batches[i].size));
        double rate = hit_rate();
        least = rate < least ? rate : least;
    }
    (void)printf("    requests served from the plan, at least: %.1f %%\n", 100.0 * least);
    CU_ASSERT_TRUE(least >= 0.95);
    ort.release_session(session);
    unregister_host();
}

/* Where the limit is met the run fails with a status, and the next one works. */
static void a_limit_is_kept(void)
{
    dao_stats_t stats;
    const batch_t batch = {8, 48};
    register_host();
    struct OrtSession *session = session_make(MEMORY_PLACE);
    CU_ASSERT_EQUAL(dao_step_plan_reset(host), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(host, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stats_get(host, &stats), DAO_OK);
    size_t used_before = dao_used(host);
    CU_ASSERT_EQUAL_FATAL(dao_limit_set(host, stats.reserved_bytes), DAO_OK);
    struct OrtStatus *status = run(session, MEMORY_PLACE, batch, values);
    CU_ASSERT_PTR_NOT_NULL(status);
    ort.release_status(status);
    CU_ASSERT_EQUAL(dao_used(host), used_before);
    CU_ASSERT_EQUAL(dao_limit_set(host, 0), DAO_OK);
    must(run(session, MEMORY_PLACE, batch, values));
    ort.release_session(session);
    unregister_host();
}

/* ---- figures ---- */

typedef struct figures {
    double least_ms;
    double held_mib; /* by glibc and by the place, more than before */
    long faults;     /* of a run */
} figures_t;

static double held_now(void)
{
    struct mallinfo2 info = mallinfo2();
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_stats_get(host, &stats), DAO_OK);
    return (double)(info.arena + info.hblkhd + stats.reserved_bytes) / (double)MIB;
}

static figures_t measure(memory_t memory, batch_t batch, float *out_values)
{
    struct rusage before;
    struct rusage after;
    figures_t figures = {.least_ms = 1e9};
    (void)malloc_trim(0);
    CU_ASSERT_EQUAL(dao_step_plan_reset(host), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(host, 0, NULL), DAO_OK);
    double held_before = held_now();
    struct OrtSession *session = session_make(memory);
    for (int i = 0; i < 3; i++) {
        must(run(session, memory, batch, out_values));
    }
    (void)getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < FIGURE_STEPS; i++) {
        struct timespec begin;
        struct timespec end;
        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        must(run(session, memory, batch, out_values));
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        double ms = (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
        figures.least_ms = ms < figures.least_ms ? ms : figures.least_ms;
    }
    (void)getrusage(RUSAGE_SELF, &after);
    figures.faults = (after.ru_minflt - before.ru_minflt) / FIGURE_STEPS;
    figures.held_mib = held_now() - held_before;
    ort.release_session(session);
    return figures;
}

/* Only the outputs are held. */
static void figures_of_all_are_printed(void)
{
    static const char *const names[] = {"ONNX Runtime's arena", "without it", "libdao", "libdao, planned"};
    const batch_t batch = {8, 48};
    float outputs[MEMORY_COUNT][OUTPUT_MAX] = {{0}};
    (void)printf("    memory                 least ms   held MiB   page faults of a run\n");
    for (memory_t memory = MEMORY_ARENA; memory < MEMORY_COUNT; memory++) {
        if (memory == MEMORY_PLACE) {
            register_host();
        }
        figures_t figures = measure(memory, batch, outputs[memory]);
        (void)printf("    %-22s %8.2f %10.1f %22ld\n", names[memory], figures.least_ms, figures.held_mib,
                     figures.faults);
        CU_ASSERT_TRUE(is_same(outputs[memory], outputs[0], sizeof(outputs[0])));
    }
    unregister_host();
}

/* ---- the other places ---- */

static void allocators_know_their_place(void)
{
    const dao_place_t places[] = {host, pinned, device};
    for (size_t i = 0; i < 3; i++) {
        struct OrtAllocator *allocator = dao_onnxruntime_allocator(api, places[i]);
        if (allocator == NULL) {
            CU_FAIL_FATAL("there is no allocator");
            return;
        }
        CU_ASSERT_PTR_EQUAL(allocator, dao_onnxruntime_allocator(api, places[i]));
        CU_ASSERT_PTR_NOT_NULL(allocator->info(allocator));
        size_t used_before = dao_used(places[i]);
        void *block = allocator->alloc(allocator, 100 * KIB);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_TRUE(dao_used(places[i]) >= used_before + 100 * KIB);
        allocator->free(allocator, block);
        allocator->free(allocator, NULL);
        CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
    }
    CU_ASSERT_PTR_NULL(dao_onnxruntime_allocator(NULL, host));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_onnxruntime_last_message(), "NULL"));
    dao_place_t nowhere = {DAO_PLACE_KIND_CPU, 1};
    CU_ASSERT_EQUAL(dao_onnxruntime_register(api, env, nowhere), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_onnxruntime_register(api, NULL, host), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_onnxruntime_session(api, NULL), DAO_ERR_INVALID);
    register_host();
    CU_ASSERT_EQUAL(dao_onnxruntime_register(api, env, host), DAO_ERR_UNSUPPORTED); /* twice */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_onnxruntime_last_message(), "ONNX Runtime"));
    unregister_host();
    CU_ASSERT_EQUAL(dao_onnxruntime_unregister(api, env, host), DAO_ERR_UNSUPPORTED);
}

static CU_TestInfo tests[] = {
    {"a model has the same output and frees all", a_model_has_the_same_output_and_frees_all},
    {"requests are served from a plan", requests_are_served_from_a_plan},
    {"a limit is kept", a_limit_is_kept},
    {"figures of all are printed", figures_of_all_are_printed},
    {"allocators know their place", allocators_know_their_place},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"onnxruntime", ort_start, ort_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_ggml with a real ggml, from npm's registry: a graph is computed in libdao's buffers and in ggml's
   own, with the same bits. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "integrations/ggml/dao_ggml.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* ---- ggml, by its public functions ---- */

typedef struct init_params {
    size_t memory_bytes;
    void *memory;
    bool no_alloc;
} init_params_t;

typedef void tensor_t; /* ggml's structs are its own */
typedef void context_t;

static struct {
    void *base;
    void *main;
    void (*load_all)(const char *folder);
    void *(*backend_init)(int device_type, const char *parameters);
    void (*backend_free)(void *backend);
    void *(*backend_device)(void *backend);
    void *(*device_registry)(void *device);
    void *(*registry_function)(void *registry, const char *name);
    int (*compute)(void *backend, void *graph);
    context_t *(*init)(init_params_t parameters);
    void (*free)(context_t *context);
    tensor_t *(*new_2d)(context_t *context, int type, int64_t columns, int64_t rows);
    tensor_t *(*mul_mat)(context_t *context, tensor_t *a, tensor_t *b);
    tensor_t *(*add)(context_t *context, tensor_t *a, tensor_t *b);
    tensor_t *(*rms_norm)(context_t *context, tensor_t *a, float epsilon);
    tensor_t *(*soft_max)(context_t *context, tensor_t *a);
    void (*set_output)(tensor_t *tensor);
    void *(*new_graph)(context_t *context);
    void (*expand)(void *graph, tensor_t *tensor);
    void *(*alloc_tensors)(context_t *context, void *type);
    void *(*galloc_new)(void *type);
    bool (*galloc_alloc)(void *galloc, void *graph);
    void (*galloc_free)(void *galloc);
    void *(*cpu_type)(void);
    const char *(*type_name)(void *type);
    bool (*type_is_host)(void *type);
    void *(*buffer_type)(void *buffer);
    size_t (*buffer_size)(void *buffer);
    void (*buffer_free)(void *buffer);
    void (*buffer_clear)(void *buffer, uint8_t value);
    void (*set)(tensor_t *tensor, const void *data, size_t offset, size_t size_bytes);
    void (*get)(const tensor_t *tensor, void *data, size_t offset, size_t size_bytes);
    void (*memset)(tensor_t *tensor, uint8_t value, size_t offset, size_t size_bytes);
    void (*copy)(tensor_t *src, tensor_t *dst);
    void *(*type_alloc)(void *type, size_t size_bytes);
} ggml;

static const struct {
    void *function;
    const char *name;
} of_base[] = {
    {&ggml.backend_free, "ggml_backend_free"},
    {&ggml.backend_device, "ggml_backend_get_device"},
    {&ggml.compute, "ggml_backend_graph_compute"},
    {&ggml.init, "ggml_init"},
    {&ggml.free, "ggml_free"},
    {&ggml.new_2d, "ggml_new_tensor_2d"},
    {&ggml.mul_mat, "ggml_mul_mat"},
    {&ggml.add, "ggml_add"},
    {&ggml.rms_norm, "ggml_rms_norm"},
    {&ggml.soft_max, "ggml_soft_max"},
    {&ggml.set_output, "ggml_set_output"},
    {&ggml.new_graph, "ggml_new_graph"},
    {&ggml.expand, "ggml_build_forward_expand"},
    {&ggml.device_registry, "ggml_backend_dev_backend_reg"},
    {&ggml.registry_function, "ggml_backend_reg_get_proc_address"},
    {&ggml.alloc_tensors, "ggml_backend_alloc_ctx_tensors_from_buft"},
    {&ggml.galloc_new, "ggml_gallocr_new"},
    {&ggml.galloc_alloc, "ggml_gallocr_alloc_graph"},
    {&ggml.galloc_free, "ggml_gallocr_free"},
    {&ggml.cpu_type, "ggml_backend_cpu_buffer_type"},
    {&ggml.type_name, "ggml_backend_buft_name"},
    {&ggml.type_is_host, "ggml_backend_buft_is_host"},
    {&ggml.buffer_type, "ggml_backend_buffer_get_type"},
    {&ggml.buffer_size, "ggml_backend_buffer_get_size"},
    {&ggml.buffer_free, "ggml_backend_buffer_free"},
    {&ggml.buffer_clear, "ggml_backend_buffer_clear"},
    {&ggml.set, "ggml_backend_tensor_set"},
    {&ggml.get, "ggml_backend_tensor_get"},
    {&ggml.memset, "ggml_backend_tensor_memset"},
    {&ggml.copy, "ggml_backend_tensor_copy"},
    {&ggml.type_alloc, "ggml_backend_buft_alloc_buffer"},
};

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static void *backend;

/* Equal in every bit, which floats that compare equal need not be. */
static bool is_same(const void *a, const void *b, size_t size_bytes)
{
    return memcmp(a, b, size_bytes) == 0;
}

static void function_find(void *library, const char *name, void *out_function)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        (void)fprintf(stderr, "ggml has no %s\n", name);
        abort();
    }
    memcpy(out_function, &symbol, sizeof(symbol));
}

/* One thread: several would spin while they wait for each other, which a busy machine feels. */
static void threads_set(int count)
{
    void (*set)(void *, int) = NULL;
    void *registry = ggml.device_registry(ggml.backend_device(backend));
    void *symbol = ggml.registry_function(registry, "ggml_backend_set_n_threads");
    memcpy(&set, &symbol, sizeof(symbol));
    set(backend, count);
}

static int ggml_start(void)
{
    ggml.base = dlopen(DAO_TEST_GGML "/libggml-base.so", RTLD_NOW | RTLD_LOCAL);
    ggml.main = ggml.base != NULL ? dlopen(DAO_TEST_GGML_MAIN, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (ggml.main == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    function_find(ggml.main, "ggml_backend_load_all_from_path", &ggml.load_all);
    function_find(ggml.main, "ggml_backend_init_by_type", &ggml.backend_init);
    for (size_t i = 0; i < sizeof(of_base) / sizeof(of_base[0]); i++) {
        function_find(ggml.base, of_base[i].name, of_base[i].function);
    }
    ggml.load_all(DAO_TEST_GGML);
    backend = ggml.backend_init(0, NULL); /* GGML_BACKEND_DEVICE_TYPE_CPU */
    if (backend == NULL) {
        return 1;
    }
    threads_set(1);
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK;
}

static int ggml_stop(void)
{
    ggml.backend_free(backend);
    return dao_finalize() != DAO_OK;
}

static void *type_of(dao_place_t place)
{
    void *type = dao_ggml_buffer_type(place, ggml.base);
    CU_ASSERT_PTR_NOT_NULL_FATAL(type);
    return type;
}

/* ---- a graph: layers of softmax(norm(W x) + b), and a residual ---- */

#define WIDTH        192
#define TOKENS       48
#define LAYERS       4
#define LARGE        8 /* times as many tokens, for the figures */
#define FIGURE_STEPS 20

typedef struct net {
    size_t value_count; /* of the input, and of the output */
    context_t *weights;
    context_t *nodes;
    void *weight_buffer;
    void *galloc;
    tensor_t *input;
    tensor_t *output;
    void *graph;
} net_t;

static context_t *context_make(void)
{
    init_params_t parameters = {.memory_bytes = 4 * MIB, .no_alloc = true};
    context_t *context = ggml.init(parameters);
    CU_ASSERT_PTR_NOT_NULL_FATAL(context);
    return context;
}

static void randomize(tensor_t *tensor, size_t count, uint64_t *seed)
{
    float *values = malloc(count * sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(dao_random_next(seed) % 2001) / 1000.0F - 1.0F;
    }
    ggml.set(tensor, values, 0, count * sizeof(*values));
    free(values);
}

/* Returns false if there was no memory; what is there then is freed by net_free() all the same. */
static bool net_make(net_t *net, void *type, size_t tokens)
{
    uint64_t seed = 24;
    tensor_t *weights[LAYERS];
    tensor_t *biases[LAYERS];
    *net = (net_t){.value_count = WIDTH * tokens, .weights = context_make(), .nodes = context_make()};
    net->input = ggml.new_2d(net->weights, 0, WIDTH, (int64_t)tokens);
    for (int i = 0; i < LAYERS; i++) {
        weights[i] = ggml.new_2d(net->weights, 0, WIDTH, WIDTH);
        biases[i] = ggml.new_2d(net->weights, 0, WIDTH, 1);
    }
    net->weight_buffer = ggml.alloc_tensors(net->weights, type);
    if (net->weight_buffer == NULL) {
        return false;
    }
    randomize(net->input, net->value_count, &seed);
    tensor_t *at = net->input;
    for (int i = 0; i < LAYERS; i++) {
        randomize(weights[i], (size_t)WIDTH * WIDTH, &seed);
        randomize(biases[i], WIDTH, &seed);
        tensor_t *inner = ggml.rms_norm(net->nodes, ggml.mul_mat(net->nodes, weights[i], at), 1e-6F);
        at = ggml.add(net->nodes, at, ggml.soft_max(net->nodes, ggml.add(net->nodes, inner, biases[i])));
    }
    net->output = at;
    ggml.set_output(at);
    net->graph = ggml.new_graph(net->nodes);
    ggml.expand(net->graph, at);
    net->galloc = ggml.galloc_new(type);
    return ggml.galloc_alloc(net->galloc, net->graph);
}

static void net_free(net_t *net)
{
    if (net->galloc != NULL) {
        ggml.galloc_free(net->galloc);
    }
    ggml.buffer_free(net->weight_buffer);
    ggml.free(net->nodes);
    ggml.free(net->weights);
}

/* Computes the graph in buffers of a type, which are there for this one time. */
static void compute(void *type, size_t tokens, float *out_values)
{
    net_t net;
    CU_ASSERT_TRUE_FATAL(net_make(&net, type, tokens));
    CU_ASSERT_PTR_EQUAL(ggml.buffer_type(net.weight_buffer), type);
    CU_ASSERT_EQUAL(ggml.compute(backend, net.graph), 0);
    ggml.get(net.output, out_values, 0, sizeof(float) * net.value_count);
    net_free(&net);
}

static float expected[WIDTH * TOKENS];
static float values[WIDTH * TOKENS];

static void a_graph_has_the_same_bits_as_in_the_buffers_of_ggml(void)
{
    const dao_place_t places[] = {host, pinned};
    compute(ggml.cpu_type(), TOKENS, expected);
    CU_ASSERT_TRUE(expected[0] != expected[1]);
    for (size_t i = 0; i < 2; i++) {
        size_t used_before = dao_used(places[i]);
        dao_stats_t stats;
        memset(values, 0, sizeof(values));
        CU_ASSERT_EQUAL(dao_stats_reset_peaks(places[i]), DAO_OK);
        compute(type_of(places[i]), TOKENS, values);
        CU_ASSERT_TRUE(is_same(values, expected, sizeof(values)));
        CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
        CU_ASSERT_EQUAL(dao_stats_get(places[i], &stats), DAO_OK);
        CU_ASSERT_TRUE(stats.peak_used_bytes >= used_before + sizeof(float) * WIDTH * WIDTH * LAYERS);
    }
}

/* Weights that lie on a device come to the host by ggml's own copy, and are the same there. */
static void tensors_are_kept_on_a_device(void)
{
    context_t *there = context_make();
    context_t *here = context_make();
    tensor_t *kept = ggml.new_2d(there, 0, WIDTH, TOKENS);
    tensor_t *kept_too = ggml.new_2d(there, 0, WIDTH, TOKENS);
    tensor_t *near = ggml.new_2d(here, 0, WIDTH, TOKENS);
    void *far_buffer = ggml.alloc_tensors(there, type_of(device));
    void *near_buffer = ggml.alloc_tensors(here, ggml.cpu_type());
    CU_ASSERT_TRUE_FATAL(far_buffer != NULL && near_buffer != NULL);
    CU_ASSERT_FALSE(ggml.type_is_host(type_of(device)));
    CU_ASSERT_TRUE(dao_used(device) >= 2 * sizeof(values));
    uint64_t seed = dao_test_seed("ggml", 0x66);
    randomize(near, (size_t)WIDTH * TOKENS, &seed);
    ggml.get(near, expected, 0, sizeof(expected));
    ggml.copy(near, kept);     /* from the host: set */
    ggml.copy(kept, kept_too); /* on the device */
    ggml.memset(kept, 0, 0, sizeof(values));
    ggml.get(kept, values, 0, sizeof(values));
    CU_ASSERT_TRUE(values[0] == 0.0F && values[WIDTH * TOKENS - 1] == 0.0F);
    ggml.set(near, values, 0, sizeof(values));
    ggml.copy(kept_too, near); /* to the host: get */
    ggml.get(near, values, 0, sizeof(values));
    CU_ASSERT_TRUE(is_same(values, expected, sizeof(values)));
    float part[3] = {1, 2, 3};
    ggml.set(kept_too, part, 5 * sizeof(float), sizeof(part));
    ggml.get(kept_too, values, 4 * sizeof(float), 5 * sizeof(float));
    CU_ASSERT_TRUE(values[0] == expected[4] && values[1] == 1 && values[3] == 3 && values[4] == expected[8]);
    ggml.buffer_clear(far_buffer, 0xff);
    ggml.get(kept, values, 0, sizeof(values));
    CU_ASSERT_TRUE(values[0] != values[0]); /* all ones are no number */
    ggml.buffer_free(far_buffer);
    ggml.buffer_free(near_buffer);
    ggml.free(there);
    ggml.free(here);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_ggml_failure_count(), 0);
}

/* Where the place's limit is met, ggml is told, and nothing is kept. */
static void a_limit_is_kept(void)
{
    net_t net;
    size_t used_before = dao_used(pinned);
    CU_ASSERT_EQUAL(dao_trim(pinned, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_limit_set(pinned, 256 * KIB), DAO_OK);
    CU_ASSERT_FALSE(net_make(&net, type_of(pinned), TOKENS));
    net_free(&net);
    CU_ASSERT_EQUAL(dao_used(pinned), used_before);
    CU_ASSERT_EQUAL(dao_limit_set(pinned, 0), DAO_OK);
    compute(type_of(pinned), TOKENS, values);
}

/* Steps that each get their buffers anew, as programs do whose batches vary. Prints what they take; only the
   bits are held. */
static void figures_of_both_are_printed(void)
{
    static float outputs[2][WIDTH * TOKENS * LARGE];
    void *const buffer_types[] = {ggml.cpu_type(), type_of(host)};
    (void)printf("    step of a graph          least ms   page faults\n");
    for (size_t i = 0; i < 2; i++) {
        struct rusage before;
        struct rusage after;
        double least_ms = 1e9;
        compute(buffer_types[i], TOKENS * LARGE, outputs[i]);
        (void)getrusage(RUSAGE_SELF, &before);
        for (int step = 0; step < FIGURE_STEPS; step++) {
            struct timespec begin;
            struct timespec end;
            (void)clock_gettime(CLOCK_MONOTONIC, &begin);
            compute(buffer_types[i], TOKENS * LARGE, outputs[i]);
            (void)clock_gettime(CLOCK_MONOTONIC, &end);
            double ms =
                (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
            least_ms = ms < least_ms ? ms : least_ms;
        }
        (void)getrusage(RUSAGE_SELF, &after);
        (void)printf("    %-22s %10.2f %13ld\n", ggml.type_name(buffer_types[i]), least_ms,
                     (after.ru_minflt - before.ru_minflt) / FIGURE_STEPS);
    }
    CU_ASSERT_TRUE(is_same(outputs[0], outputs[1], sizeof(outputs[0])));
}

static void types_have_names_and_last(void)
{
    CU_ASSERT_STRING_EQUAL(ggml.type_name(type_of(host)), "DAO cpu");
    CU_ASSERT_STRING_EQUAL(ggml.type_name(type_of(device)), "DAO device:0");
    CU_ASSERT_PTR_EQUAL(type_of(pinned), type_of(pinned));
    CU_ASSERT_TRUE(type_of(pinned) != type_of(host));
    dao_place_t nowhere = {DAO_PLACE_KIND_CPU, 1};
    CU_ASSERT_PTR_NULL(dao_ggml_buffer_type(nowhere, ggml.base));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_ggml_last_message(), "no place"));
}

/* A place without a device: ggml gets no buffer. A buffer of none is one. */
static void what_is_not_there_is_refused(void)
{
    dao_place_t far = {DAO_PLACE_KIND_DEVICE, 63};
    CU_ASSERT_PTR_NULL(ggml.type_alloc(type_of(far), 1000));
    void *buffer = ggml.type_alloc(type_of(device), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(buffer);
    CU_ASSERT_EQUAL(ggml.buffer_size(buffer), 0);
    ggml.buffer_free(buffer);
}

static CU_TestInfo tests[] = {
    {"a graph has the same bits as in the buffers of ggml",
     a_graph_has_the_same_bits_as_in_the_buffers_of_ggml},
    {"tensors are kept on a device", tensors_are_kept_on_a_device},
    {"a limit is kept", a_limit_is_kept},
    {"figures of both are printed", figures_of_both_are_printed},
    {"types have names and last", types_have_names_and_last},
    {"what is not there is refused", what_is_not_there_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ggml", ggml_start, ggml_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

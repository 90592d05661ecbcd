/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of ggml in buffers of a place, with a limit: docs/ggml.md. */
#include <dao/dao.h>
#include <dao/dao_ggml.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <stdio.h>

#define WIDTH ((int64_t)256)

/* Computes softmax(W x) for weights and an input of ones: each output is 1 / WIDTH. */
static bool compute(ggml_backend_t backend, ggml_backend_buffer_type_t type)
{
    static float ones[WIDTH * WIDTH];
    float output[WIDTH] = {0};
    struct ggml_init_params sizes = {.mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead(),
                                     .no_alloc = true};
    struct ggml_context *weights = ggml_init(sizes);
    struct ggml_context *nodes = ggml_init(sizes);
    struct ggml_tensor *w = ggml_new_tensor_2d(weights, GGML_TYPE_F32, WIDTH, WIDTH);
    struct ggml_tensor *x = ggml_new_tensor_2d(weights, GGML_TYPE_F32, WIDTH, 1);
    struct ggml_tensor *y = ggml_soft_max(nodes, ggml_mul_mat(nodes, w, x));
    struct ggml_cgraph *graph = ggml_new_graph(nodes);
    ggml_build_forward_expand(graph, y);
    ggml_gallocr_t allocator = ggml_gallocr_new(type);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(weights, type);
    bool is_done = buffer != NULL && ggml_gallocr_alloc_graph(allocator, graph);
    if (is_done) {
        for (int64_t i = 0; i < WIDTH * WIDTH; i++) {
            ones[i] = 1.0F;
        }
        ggml_backend_tensor_set(w, ones, 0, sizeof(ones));
        ggml_backend_tensor_set(x, ones, 0, WIDTH * sizeof(float));
        is_done = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
        ggml_backend_tensor_get(y, output, 0, sizeof(output));
        (void)printf("%s holds %zu bytes; y[0] is 1 / %.0f\n", ggml_backend_buft_name(type),
                     dao_used(dao_cpu_place()), 1.0 / (double)output[0]);
    }
    ggml_gallocr_free(allocator);
    ggml_backend_buffer_free(buffer);
    ggml_free(nodes);
    ggml_free(weights);
    return is_done && output[0] == 1.0F / WIDTH;
}

int main(void)
{
    ggml_backend_load_all();
    ggml_backend_t backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_buffer_type_t type = dao_ggml_buffer_type(dao_place_of(dao_cpu_place()), NULL);
    if (backend == NULL || type == NULL) {
        (void)fprintf(stderr, "%s\n", backend == NULL ? "ggml has no CPU back end" : dao_ggml_last_message());
        return 1;
    }
    bool is_done = compute(backend, type);
    if (dao_limit_set(dao_place_of(dao_cpu_place()), (size_t)64 << 20) != DAO_OK) {
        (void)fprintf(stderr, "limit: %s\n", dao_last_message());
        return 1;
    }
    is_done = is_done && compute(backend, type);
    ggml_backend_free(backend);
    return is_done && dao_used(dao_cpu_place()) == 0 ? 0 : 1;
}

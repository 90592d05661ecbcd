/* SPDX-License-Identifier: Apache-2.0 */
/* A model of ONNX Runtime that runs on a place with a step plan: docs/onnxruntime.md.

       example_onnxruntime MODEL INPUT OUTPUT N C H W     names and sizes of its input and output, of floats
 */
#include <dao/dao.h>
#include <dao/dao_onnxruntime.h>

#include <inttypes.h>
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>

#define DIM_COUNT 4
#define RUN_COUNT 6

static const OrtApi *ort;

/* Ends the program where ONNX Runtime refuses. */
static void must(OrtStatus *status)
{
    if (status != NULL) {
        (void)fprintf(stderr, "ONNX Runtime: %s\n", ort->GetErrorMessage(status));
        exit(1);
    }
}

static void must_dao(int status, const char *(*message)(void))
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "libdao: %s\n", message());
        exit(1);
    }
}

/* Runs the model as one step. */
static void run(OrtSession *session, const char *input_name, const char *output_name, const OrtValue *input,
                dao_place_t host)
{
    OrtValue *output = NULL;
    must_dao(dao_step_begin(host), dao_last_message);
    must(ort->Run(session, NULL, &input_name, &input, 1, &output_name, 1, &output));
    must_dao(dao_step_end(host), dao_last_message);
    ort->ReleaseValue(output);
}

int main(int argc, char **argv)
{
    dao_place_t host = dao_place_of(dao_cpu_place());
    dao_place_config_t planned = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}};
    dao_step_plan_stats_t stats;
    int64_t shape[DIM_COUNT];
    size_t count = 1;
    if (argc != 4 + DIM_COUNT) {
        (void)fprintf(stderr, "%s MODEL INPUT OUTPUT N C H W\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < DIM_COUNT; i++) {
        shape[i] = strtoll(argv[4 + i], NULL, 10);
        count *= (size_t)shape[i];
    }
    ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    if (ort == NULL) {
        (void)fprintf(stderr, "this ONNX Runtime is %s, older than the header\n",
                      OrtGetApiBase()->GetVersionString());
        return 1;
    }
    OrtEnv *env;
    OrtSessionOptions *options;
    OrtSession *session;
    OrtAllocator *allocator;
    OrtValue *input;
    must_dao(dao_place_configure(host, &planned), dao_last_message); /* before the place is first used */
    must(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "example", &env));
    must_dao(dao_onnxruntime_register(ort, env, host), dao_onnxruntime_last_message);
    must(ort->CreateSessionOptions(&options));
    must_dao(dao_onnxruntime_session(ort, options), dao_onnxruntime_last_message);
    must(ort->CreateSession(env, argv[1], options, &session));

    allocator = dao_onnxruntime_allocator(ort, host);
    must(ort->CreateTensorAsOrtValue(allocator, shape, DIM_COUNT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                     &input));
    float *values;
    must(ort->GetTensorMutableData(input, (void **)&values));
    for (size_t i = 0; i < count; i++) {
        values[i] = 0.5F;
    }
    for (int i = 0; i < RUN_COUNT; i++) {
        run(session, argv[2], argv[3], input, host);
        must_dao(dao_step_plan_stats_get(host, &stats), dao_last_message);
        (void)printf("run %d: %" PRIu64 " of %" PRIu64 " requests served from the plan\n", i + 1,
                     stats.latest.hit_count, stats.latest.request_count);
    }
    ort->ReleaseValue(input);
    ort->ReleaseSession(session);
    ort->ReleaseSessionOptions(options);
    ort->ReleaseEnv(env);
    return 0;
}

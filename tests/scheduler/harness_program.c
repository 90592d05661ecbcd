/* SPDX-License-Identifier: Apache-2.0 */
/* Each thread makes its calls of one program, against a model of its own:

       bytes --> config, calls --> thread 0: model 0 ---+
                               --> thread 1: model 1 ---+--> the library; contents are compared in each model
                               --> thread 2: model 2 ---+
                                      \____ posts ____/      blocks go from model to model

   Where all threads have ended and released what they had, the books of the library have to be empty. What
   one thread must not do while others call is left out (makes_alone). */
#include "tests/scheduler/harness_program.h"

#include "base/numbers/random.h"
#include "base/schedule/schedule.h"
#include "tests/harness/calls/calls.h"
#include "tests/harness/run.h"
#include "tests/scheduler/baton.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define OP_COUNT_MAX 24u /* of all threads together: small programs find races */
#define THREAD_COUNT 3u  /* of the scenario */
#define POST_COUNT   2u
#define POSTS_FROM   176u /* an `other` of a call from here on: a block goes out and another one comes in */

static harness_program_t program;
static model_t models[THREAD_COUNT];
static model_block_t *_Atomic posts[POST_COUNT];

/* Calls that say something about the whole library, or that need it for themselves. */
static bool makes_alone(harness_call_t call)
{
    switch (call) {
    case HARNESS_MEMORY_FROM_POINTER: /* its deleter is counted for all */
    case HARNESS_LIMIT_SET:
    case HARNESS_HOST_LIMIT_SET:
    case HARNESS_TAG_LIMIT_SET:
    case HARNESS_STEP_ENABLE:
    case HARNESS_STEP_RESET:
    case HARNESS_STEP_SAVE_LOAD:
    case HARNESS_STEP_STATS:
    case HARNESS_EVENTS:
    case HARNESS_STATS_RESET:
    case HARNESS_PRESSURE:
    case HARNESS_SEGMENT:
    case HARNESS_HOST_REGISTER:
    case HARNESS_EXECUTOR_CREATE: /* it counts in the books of its place; test_schedules has two of its own */
    case HARNESS_FORK:
    case HARNESS_FINALIZE:
        return true;
    default:
        return false;
    }
}

void harness_program_begin(const void *user, uint64_t *random)
{
    (void)user;
    uint8_t bytes[HARNESS_PROGRAM_BYTES];
    size_t length = harness_random_bytes(dao_random_next(random), bytes);
    harness_decode(bytes, length, &program);
    program.op_count = program.op_count < OP_COUNT_MAX ? program.op_count : OP_COUNT_MAX;
    models[0] = (model_t){.program = &program, .where = "start"};
    BATON_CHECK(harness_start(&models[0]));
    models[0].has_company = true;
    for (uint32_t i = 1; i < THREAD_COUNT; i++) {
        models[i] = models[0];
        models[i].stamp = (uint64_t)i << 48; /* a word says whose it is */
    }
}

/* Leaves a block that nothing uses for another thread, and takes what lies there. */
static void exchange(model_t *model, const harness_op_t *op)
{
    model_block_t *own = model_block_find(model, op->slot, MODEL_RAW);
    model_block_t *out = NULL;
    if (own != NULL && own->retained_by == 0 && !own->is_leased) {
        call_settle(model, own);
        model_read(model, own);
        out = malloc(sizeof(*out));
        BATON_CHECK(out != NULL);
        *out = *own;
        out->home = MODEL_NO_STREAM; /* streams have other slots elsewhere */
        *own = (model_block_t){0};
    }
    model_block_t *empty = out != NULL ? own : model_block_empty(model, op->slot);
    if (empty == NULL) {
        return;
    }
    dao_schedule_atomic(&posts[op->small % POST_COUNT]);
    model_block_t *in = atomic_exchange(&posts[op->small % POST_COUNT], out);
    if (in != NULL) {
        *empty = *in;
        free(in);
        model_read(model, empty);
    }
}

void harness_program_part(const void *user, uint32_t thread, uint64_t *random)
{
    (void)user, (void)random;
    model_t *model = &models[thread];
    for (uint32_t i = 0; i < program.op_count; i++) {
        const harness_op_t *op = &program.ops[i];
        model->op_index = i;
        if (op->thread % THREAD_COUNT == thread && op->other >= POSTS_FROM) {
            exchange(model, op);
        }
        if (op->thread % THREAD_COUNT == thread && !makes_alone(op->call)) {
            harness_call(model, op);
        }
    }
    harness_release(model);
}

void harness_program_end(const void *user)
{
    (void)user;
    model_t *model = &models[0];
    for (uint32_t i = 0; i < POST_COUNT; i++) {
        model_block_t *left = atomic_exchange(&posts[i], NULL);
        if (left != NULL) {
            model_read(model, left);
            BATON_CHECK(dao_free(left->place, left->address) == DAO_OK);
            free(left);
        }
    }
    for (uint32_t i = 1; i < THREAD_COUNT; i++) {
        for (uint32_t k = 0; k < MODEL_PLACE_COUNT; k++) {
            model->books[k].alloc_count += models[i].books[k].alloc_count;
            model->books[k].failed_count += models[i].books[k].failed_count;
            model->books[k].late_bytes += models[i].books[k].late_bytes;
            model->books[k].late_count += models[i].books[k].late_count;
        }
    }
    model->has_company = false;
    model_compare(model, true);
    harness_stop(model);
}

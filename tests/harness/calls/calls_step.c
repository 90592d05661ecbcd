/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with and without plans. A place without plans takes begin and end, and refuses the rest. */
#include "tests/harness/calls/calls.h"

#include <string.h>

#define TEXT_BYTES 16384u

static bool has_plans(const model_t *model)
{
    return model->is_configured &&
           model->program->config.place_config.step_plan.mode >= DAO_STEP_PLAN_OFFSETS;
}

bool call_step_begin(model_t *model, const harness_op_t *op)
{
    (void)op;
    if (model->step_depth == 3) {
        return false;
    }
    model_say(model, "dao_step_begin(place);");
    if (model_answer(model, dao_step_begin(model->program->config.place), DAO_OK)) {
        model->step_depth++;
    }
    return true;
}

bool call_step_end(model_t *model, const harness_op_t *op)
{
    (void)op;
    if (model->has_company && model->step_depth == 0) {
        return false; /* it would end another thread's step */
    }
    dao_status_t wanted = has_plans(model) && model->step_depth == 0 ? DAO_ERR_INVALID : DAO_OK;
    model_say(model, "dao_step_end(place);");
    if (model_answer(model, dao_step_end(model->program->config.place), wanted) && model->step_depth > 0) {
        model->step_depth--;
    }
    return true;
}

bool call_step_key_set(model_t *model, const harness_op_t *op)
{
    model_say(model, "dao_step_plan_key_set(%u);", op->small % 4);
    (void)dao_step_plan_key_set(op->small % 4); /* the key before */
    return true;
}

bool call_step_enable(model_t *model, const harness_op_t *op)
{
    dao_status_t wanted = has_plans(model) ? DAO_OK : DAO_ERR_UNSUPPORTED;
    model_say(model, "dao_step_plan_enable(place, %d);", op->kind % 4 != 0);
    (void)model_answer(model, dao_step_plan_enable(model->program->config.place, op->kind % 4 != 0), wanted);
    return true;
}

static dao_status_t plan_status(const model_t *model)
{
    return !has_plans(model) ? DAO_ERR_UNSUPPORTED : model->step_depth > 0 ? DAO_ERR_BUSY : DAO_OK;
}

bool call_step_reset(model_t *model, const harness_op_t *op)
{
    (void)op;
    model_say(model, "dao_step_plan_reset(place);");
    (void)model_answer(model, dao_step_plan_reset(model->program->config.place), plan_status(model));
    return true;
}

typedef struct text {
    char bytes[TEXT_BYTES];
    size_t length;
    bool is_cut;
} text_t;

static dao_status_t keep_text(const char *bytes, size_t length, void *user)
{
    text_t *text = user;
    text->is_cut = text->is_cut || length > TEXT_BYTES - text->length;
    if (!text->is_cut) {
        memcpy(text->bytes + text->length, bytes, length);
        text->length += length;
    }
    return DAO_OK;
}

/* What was saved is loaded again; what is no plan is refused. */
bool call_step_save_load(model_t *model, const harness_op_t *op)
{
    static text_t text;
    dao_place_t place = model->program->config.place;
    text.length = 0;
    text.is_cut = false;
    model_say(model,
              "dao_step_plan_save(place, write, &text); dao_step_plan_load(place, text.bytes, text.length);");
    dao_status_t got = dao_step_plan_save(place, keep_text, &text);
    if (got != DAO_ERR_NOT_READY || plan_status(model) != DAO_OK) {
        (void)model_answer(model, got, plan_status(model));
    }
    if (got == DAO_OK && !text.is_cut) {
        (void)model_answer(model, dao_step_plan_load(place, text.bytes, text.length), DAO_OK);
    }
    if (plan_status(model) == DAO_OK && op->kind % 2 == 0) {
        (void)model_answer(model, dao_step_plan_load(place, "no plan", 7), DAO_ERR_PARSE);
    }
    return true;
}

static void see_lifetime(const dao_step_plan_lifetime_t *lifetime, void *user)
{
    model_t *model = user;
    MODEL_REQUIRE(model, lifetime->begin < lifetime->end);
}

bool call_step_stats(model_t *model, const harness_op_t *op)
{
    dao_place_t place = model->program->config.place;
    dao_step_plan_stats_t stats;
    dao_status_t wanted = has_plans(model) ? DAO_OK : DAO_ERR_UNSUPPORTED;
    model_say(model, "dao_step_plan_stats_get(place, &stats);");
    if (model_answer(model, dao_step_plan_stats_get(place, &stats), wanted)) {
        MODEL_REQUIRE(model, stats.all.hit_count <= stats.all.request_count);
        MODEL_REQUIRE(model, stats.learn_count <= stats.step_count);
    }
    if (op->kind % 2 == 0) {
        (void)model_answer(model, dao_step_plan_walk(place, see_lifetime, model), plan_status(model));
    }
    return true;
}

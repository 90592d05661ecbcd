/* SPDX-License-Identifier: Apache-2.0 */
/* The planner around a portfolio: which thread works, and how plans are handed out.

   Either the caller works, in slices. Or, once started, a thread works, or the runs of the program's
   executor, one at a time. A plan is put into `best` under the lock; no work is done under it.

   With an executor each run does a slice and submits the next. A submitted run may come at once, inside
   submit(), or on another thread before submit() has returned. Then it finds `is_running` set, sets
   `has_come`, and returns; the run that is there does the next slice itself. So the stack stays flat, and no
   two runs work at once.

   What holds under the lock: is_running and submitted_count > 0 only after the start; has_come only while a
   run is there that sees it; a thread and an executor are never both there. The background has ended when
   neither is_running nor submitted_count > 0 holds. Work only counts up. */
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "planning/offsets/portfolio.h"

#include <string.h>

/* Work of a slice in the background: about a millisecond. */
#define SLICE_WORK 20000u

struct dao_planner {
    dao_planner_config_t config;
    int process;                     /* that made it: in a forked child its thread is not there */
    dao_plan_portfolio_t *portfolio; /* of the thread that works */
    dao_plan_work_t work; /* of that thread: all work so far, up to the end of the stretch at hand */
    bool has_plan;        /* of that thread: it has published one */
    _Atomic bool is_cancelled;
    dao_thread_t thread;
    dao_mutex_t lock;
    dao_cond_t has_ended;
    /* guarded by the lock */
    dao_plan_t *best;
    bool is_started;
    bool has_thread;
    bool is_finished;         /* done, failed or cancelled */
    bool is_running;          /* a thread, or a run of the executor, works */
    bool has_come;            /* a run came while another one worked */
    uint32_t submitted_count; /* runs that have not come yet */
    dao_error_record_t failure;
};

/* ---- methods ---- */

const char *dao_plan_method_name(dao_plan_method_t method)
{
    switch (method) {
#define METHOD_CASE(number, name, text, description)                                                         \
    case DAO_PLAN_METHOD_##name:                                                                             \
        return text;
        DAO_PLAN_METHOD_LIST(METHOD_CASE)
#undef METHOD_CASE
    case DAO_PLAN_METHOD_COUNT:
        break;
    }
    return "unknown";
}

dao_status_t dao_plan_method_parse(const char *name, dao_plan_method_t *out_method)
{
    if (name == NULL || out_method == NULL) {
        return dao_error(DAO_ERR_INVALID, "a method's name, or the place for the method, is NULL");
    }
    for (int i = 0; i < DAO_PLAN_METHOD_COUNT; i++) {
        if (dao_plan_portfolio_knows((dao_plan_method_t)i) &&
            strcmp(name, dao_plan_method_name((dao_plan_method_t)i)) == 0) {
            *out_method = (dao_plan_method_t)i;
            return DAO_OK;
        }
    }
#define METHOD_TEXT(number, name, text, description) " " text
    return dao_error(DAO_ERR_INVALID,
                     "no method is called \"%s\"; there are" DAO_PLAN_METHOD_LIST(METHOD_TEXT), name);
#undef METHOD_TEXT
}

/* ---- work ---- */

/* A first plan is owed by `best`, however much it takes. */
static bool is_limited(const dao_planner_t *planner)
{
    bool owes_plan = planner->config.method == DAO_PLAN_METHOD_BEST && !planner->has_plan;
    return planner->config.work_limit != 0 && !owes_plan;
}

static bool is_limit_reached(const dao_planner_t *planner)
{
    return is_limited(planner) && planner->work.used >= planner->config.work_limit;
}

/* Ends the stretch at hand where the limit is. */
static void limit_stretch(dao_planner_t *planner)
{
    if (is_limited(planner) && planner->config.work_limit < planner->work.limit) {
        planner->work.limit = planner->config.work_limit;
    }
}

static bool is_done(const dao_planner_t *planner)
{
    return dao_plan_portfolio_is_done(planner->portfolio) || is_limit_reached(planner);
}

/* The invariants of the head, between two changes under the lock. */
static bool is_valid_locked(const dao_planner_t *planner)
{
    bool is_at_rest = !planner->is_running && planner->submitted_count == 0;
    return (planner->is_started || is_at_rest) && (planner->is_running || !planner->has_come) &&
           !(planner->has_thread && planner->config.submit != NULL);
}

static void publish(dao_planner_t *planner, dao_plan_t *plan)
{
    dao_mutex_lock(&planner->lock);
    DAO_ASSERT(is_valid_locked(planner));
    DAO_ASSERT(!planner->is_finished);
    dao_plan_t *before = planner->best;
    planner->best = plan;
    dao_mutex_unlock(&planner->lock);
    dao_plan_release(before);
}

/* Works for so many steps and to the end of a stretch, or for 0 until there is a plan, publishing what is
   found. That it was cancelled is no failure. */
static dao_status_t work(dao_planner_t *planner, uint64_t asked)
{
    dao_plan_work_t *work = &planner->work;
    uint64_t used_before = work->used;
    bool is_enough = asked == 0 && planner->has_plan;
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && !is_enough && !is_done(planner) && !dao_plan_work_is_cancelled(work)) {
        dao_plan_t *plan = NULL;
        if (work->used >= work->limit) {
            work->limit = work->used + DAO_PLAN_STRETCH_WORK;
            limit_stretch(planner);
        }
        status = dao_plan_portfolio_step(planner->portfolio, work, &plan);
        if (plan != NULL) {
            publish(planner, plan);
            planner->has_plan = true;
            limit_stretch(planner);
        }
        is_enough =
            asked == 0 ? planner->has_plan : work->used >= work->limit && work->used - used_before >= asked;
    }
    DAO_ASSERT(work->used >= used_before);
    return status == DAO_ERR_STOPPED ? DAO_OK : status;
}

static dao_status_t was_cancelled(void)
{
    return dao_error(DAO_ERR_STOPPED, "the planner was cancelled");
}

static dao_status_t check(const dao_planner_t *planner)
{
    if (planner == NULL) {
        return dao_error(DAO_ERR_INVALID, "a planner is NULL");
    }
    return planner->process == dao_process_self()
               ? DAO_OK
               : dao_error(DAO_ERR_FORKED, "the planner was made in the parent process");
}

dao_status_t dao_planner_work(dao_planner_t *planner, uint64_t limit, bool *out_is_done)
{
    dao_status_t status = check(planner);
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&planner->lock);
    bool is_started = planner->is_started;
    dao_mutex_unlock(&planner->lock);
    if (is_started) {
        return dao_error(DAO_ERR_BUSY, "the planner was started and works in the background");
    }
    status = work(planner, limit);
    if (status == DAO_OK && atomic_load(&planner->is_cancelled)) {
        return was_cancelled();
    }
    if (status == DAO_OK && out_is_done != NULL) {
        *out_is_done = is_done(planner);
    }
    return status;
}

/* ---- in the background ---- */

/* Does a slice. Returns true if there is more to do. */
static bool do_slice(dao_planner_t *planner)
{
    dao_status_t status = work(planner, SLICE_WORK);
    bool is_over = is_done(planner);
    if (status == DAO_OK && !is_over && atomic_load(&planner->is_cancelled)) {
        status = was_cancelled();
    }
    bool has_more = status == DAO_OK && !is_over;
    if (!has_more) {
        dao_mutex_lock(&planner->lock);
        DAO_ASSERT(is_valid_locked(planner));
        DAO_ASSERT(planner->is_running);
        planner->is_finished = true;
        if (status != DAO_OK) {
            dao_error_save(&planner->failure, status);
        }
        dao_mutex_unlock(&planner->lock);
    }
    return has_more;
}

static bool has_ended_locked(const dao_planner_t *planner)
{
    return !planner->is_running && planner->submitted_count == 0;
}

static void stop_running_locked(dao_planner_t *planner)
{
    DAO_ASSERT(planner->is_running);
    DAO_ASSERT(!planner->has_come);
    planner->is_running = false;
    if (has_ended_locked(planner)) {
        dao_cond_broadcast(&planner->has_ended);
    }
}

static void *run_thread(void *user)
{
    dao_planner_t *planner = user;
    while (do_slice(planner)) {
    }
    dao_mutex_lock(&planner->lock);
    stop_running_locked(planner);
    dao_mutex_unlock(&planner->lock);
    return NULL;
}

static void run(void *argument);

static void submit(dao_planner_t *planner)
{
    dao_mutex_lock(&planner->lock);
    DAO_ASSERT(is_valid_locked(planner));
    planner->submitted_count++;
    DAO_ASSERT(is_valid_locked(planner));
    dao_mutex_unlock(&planner->lock);
    dao_callback_begin(); /* a step may end here, whose place is needed afterwards */
    planner->config.submit(run, planner, planner->config.submit_user);
    dao_callback_end();
}

/* What the executor runs. */
static void run(void *argument)
{
    dao_planner_t *planner = argument;
    dao_mutex_lock(&planner->lock);
    DAO_ASSERT(is_valid_locked(planner));
    DAO_ASSERT(planner->submitted_count > 0);
    planner->submitted_count--;
    planner->has_come = true;
    if (planner->is_running) {
        dao_mutex_unlock(&planner->lock);
        return;
    }
    planner->is_running = true;
    while (planner->has_come) {
        planner->has_come = false;
        bool is_finished = planner->is_finished;
        dao_mutex_unlock(&planner->lock);
        if (!is_finished && do_slice(planner)) {
            submit(planner);
        }
        dao_mutex_lock(&planner->lock);
    }
    stop_running_locked(planner);
    DAO_ASSERT(is_valid_locked(planner));
    dao_mutex_unlock(&planner->lock);
}

dao_status_t dao_planner_start(dao_planner_t *planner)
{
    dao_status_t status = check(planner);
    if (status != DAO_OK) {
        return status;
    }
    if (atomic_load(&planner->is_cancelled)) {
        return was_cancelled();
    }
    dao_mutex_lock(&planner->lock);
    bool was_started = planner->is_started;
    bool has_thread = planner->config.submit == NULL;
    planner->is_started = true;
    planner->is_running = was_started ? planner->is_running : has_thread;
    DAO_ASSERT(is_valid_locked(planner));
    dao_mutex_unlock(&planner->lock);
    if (was_started) {
        return dao_error(DAO_ERR_BUSY, "the planner was started before");
    }
    if (!has_thread) {
        submit(planner);
        return DAO_OK;
    }
    status = dao_thread_start(&planner->thread, "dao-planner", run_thread, planner);
    dao_mutex_lock(&planner->lock);
    planner->has_thread = status == DAO_OK;
    if (status != DAO_OK) {
        planner->is_started = false;
        stop_running_locked(planner);
    }
    DAO_ASSERT(is_valid_locked(planner));
    dao_mutex_unlock(&planner->lock);
    return status;
}

dao_status_t dao_planner_wait(dao_planner_t *planner, uint64_t timeout_ns)
{
    dao_status_t status = check(planner);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t now = dao_clock_ns();
    uint64_t until = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    dao_mutex_lock(&planner->lock);
    bool is_in_time = true;
    while (!has_ended_locked(planner) && is_in_time) {
        if (until == UINT64_MAX) {
            dao_cond_wait(&planner->has_ended, &planner->lock);
        } else {
            is_in_time = dao_cond_wait_until(&planner->has_ended, &planner->lock, until);
        }
    }
    bool has_ended = has_ended_locked(planner);
    DAO_ASSERT(is_valid_locked(planner));
    dao_error_record_t failure = planner->failure;
    dao_mutex_unlock(&planner->lock);
    if (!has_ended) {
        return dao_error(DAO_ERR_NOT_READY, "the planner still works");
    }
    return failure.status == DAO_OK ? DAO_OK : dao_error_restore(&failure);
}

dao_status_t dao_planner_cancel(dao_planner_t *planner)
{
    dao_status_t status = check(planner);
    if (status != DAO_OK) {
        return status;
    }
    atomic_store(&planner->is_cancelled, true);
    return DAO_OK;
}

dao_status_t dao_planner_best(dao_planner_t *planner, dao_plan_t **out_plan)
{
    if (planner == NULL || out_plan == NULL) {
        return dao_error(DAO_ERR_INVALID, "a planner or the place for a plan is NULL");
    }
    dao_status_t status = check(planner);
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&planner->lock);
    dao_plan_t *plan = dao_plan_retain(planner->best);
    dao_mutex_unlock(&planner->lock);
    if (plan == NULL) {
        return dao_error(DAO_ERR_NOT_READY, "the planner has no plan yet");
    }
    *out_plan = plan;
    return DAO_OK;
}

/* ---- start and end ---- */

dao_status_t dao_planner_create(const dao_plan_problem_t *problem, const dao_planner_config_t *config,
                                dao_planner_t **out_planner)
{
    static const dao_planner_config_t defaults = {0};
    config = config == NULL ? &defaults : config;
    if (problem == NULL || out_planner == NULL) {
        return dao_error(DAO_ERR_INVALID, "a problem or the place for a planner is NULL");
    }
    if (!dao_plan_portfolio_knows(config->method)) {
        return dao_error(DAO_ERR_INVALID, "there is no method %d", (int)config->method);
    }
    dao_planner_t *planner = dao_host_calloc(1, sizeof(*planner));
    if (planner == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a planner");
    }
    planner->config = *config;
    planner->process = dao_process_self();
    planner->work.is_cancelled = &planner->is_cancelled;
    dao_mutex_init(&planner->lock, DAO_RANK_LEAF);
    dao_cond_init(&planner->has_ended);
    dao_status_t status = dao_plan_portfolio_create(problem, config, &planner->portfolio);
    if (status != DAO_OK) {
        dao_planner_destroy(planner);
        return status;
    }
    *out_planner = planner;
    return DAO_OK;
}

void dao_planner_destroy(dao_planner_t *planner)
{
    if (planner == NULL || check(planner) != DAO_OK) {
        return;
    }
    atomic_store(&planner->is_cancelled, true);
    dao_mutex_lock(&planner->lock);
    while (!has_ended_locked(planner)) {
        dao_cond_wait(&planner->has_ended, &planner->lock);
    }
    DAO_ASSERT(is_valid_locked(planner));
    dao_mutex_unlock(&planner->lock);
    if (planner->has_thread) {
        dao_thread_join(&planner->thread);
    }
    dao_plan_release(planner->best);
    dao_plan_portfolio_destroy(planner->portfolio);
    dao_cond_finish(&planner->has_ended);
    dao_mutex_finish(&planner->lock);
    dao_host_free(planner);
}

dao_status_t dao_plan_make(const dao_plan_problem_t *problem, const dao_planner_config_t *config,
                           dao_plan_t **out_plan)
{
    dao_planner_t *planner = NULL;
    if (out_plan == NULL) {
        return dao_error(DAO_ERR_INVALID, "the place for a plan is NULL");
    }
    dao_status_t status = dao_planner_create(problem, config, &planner);
    bool is_finished = false;
    while (status == DAO_OK && !is_finished) {
        status = dao_planner_work(planner, UINT64_MAX, &is_finished);
    }
    if (status == DAO_OK) {
        status = dao_planner_best(planner, out_plan);
    }
    dao_planner_destroy(planner);
    return status;
}

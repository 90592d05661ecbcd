/* SPDX-License-Identifier: Apache-2.0 */
/* From marks to plans.

       step     mark            mark             mark                       mark
                 |  learnt       |  the same: its  |  the same: measured,     |  the plan is there: followed from here on ...
                 |               |  future is known|  then planned            |
       desk                                         [ bound, plan, compile ]

   At the first kernel of a step, of the shapes that begin as what is queued the one is expected that fits
   furthest; if several do, the one that came the last time behind the step before; then the latest. Later
   kernels are compared one by one.

   Invariants: `now` is a shape whose first log.kernel_count kernels are those of the step; a course is
   followed only if it is that of `now`, or between two steps; the desk's job is that of `at_desk`, which is
   not forgotten meanwhile. */
#include "runtime/executor/learned/adopt.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/state/managed.h"

#include <string.h>

/* Queued kernels that are looked at to see which step begins. */
#define EXPECT_KERNELS_MAX 64u

dao_status_t dao_adopt_create(dao_engine_t *engine, bool is_at_once, dao_adopt_t **out_adopt)
{
    dao_adopt_t *adopt = dao_host_calloc(1, sizeof(*adopt));
    if (adopt == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to learn steps");
    }
    adopt->engine = engine;
    dao_desk_init(&adopt->desk, is_at_once);
    dao_step_log_init(&adopt->log);
    *out_adopt = adopt;
    return DAO_OK;
}

static void destroy_shape(dao_shape_t *shape)
{
    dao_course_destroy(shape->course);
    dao_course_destroy(shape->new_course);
    dao_course_destroy(shape->former);
    dao_step_log_finish(&shape->log);
    dao_host_free(shape);
}

void dao_adopt_destroy(dao_adopt_t *adopt)
{
    if (adopt == NULL) {
        return;
    }
    DAO_ASSERT(adopt->engine->course == NULL);
    dao_desk_finish(&adopt->desk);
    for (uint32_t i = 0; i < adopt->shape_count; i++) {
        destroy_shape(adopt->shapes[i]);
    }
    dao_step_log_finish(&adopt->log);
    dao_host_free(adopt);
}

/* ---- which step is it ---- */

/* Queued kernels that are those a shape begins with; 0: it begins otherwise. */
static uint32_t count_alike(const dao_shape_t *shape, const dao_item_t *first)
{
    uint32_t count = 0;
    for (const dao_item_t *item = first; item != NULL && item->kind != DAO_ITEM_MARK; item = item->next) {
        if (item->kind != DAO_ITEM_KERNEL) {
            continue;
        }
        if (count == EXPECT_KERNELS_MAX) {
            return count;
        }
        if (count == shape->log.kernel_count || item->signature != shape->log.kernels[count].signature) {
            return 0;
        }
        count++;
    }
    return count;
}

static dao_shape_t *expect(const dao_adopt_t *adopt, const dao_item_t *item)
{
    const dao_shape_t *after = adopt->before != NULL ? adopt->before->after : NULL;
    dao_shape_t *best = NULL;
    uint32_t best_count = 0;
    for (uint32_t i = 0; i < adopt->shape_count; i++) {
        dao_shape_t *shape = adopt->shapes[i];
        uint32_t count = count_alike(shape, item);
        bool is_better = count > best_count || (count == best_count && count > 0 && best != after &&
                                                (shape == after || shape->seen_at > best->seen_at));
        if (is_better) {
            best = shape;
            best_count = count;
        }
    }
    return best;
}

/* A shape that is as the step under way up to now. */
static dao_shape_t *find_alike(const dao_adopt_t *adopt, bool is_whole)
{
    for (uint32_t i = 0; i < adopt->shape_count; i++) {
        dao_shape_t *shape = adopt->shapes[i];
        bool is_same = !is_whole || shape->log.kernel_count == adopt->log.kernel_count;
        for (uint32_t k = 0; is_same && k < adopt->log.kernel_count; k++) {
            is_same = dao_step_log_is_kernel_same(&adopt->log, &shape->log, k);
        }
        if (is_same) {
            return shape;
        }
    }
    return NULL;
}

/* ---- courses ---- */

static void leave(dao_adopt_t *adopt)
{
    if (adopt->engine->course != NULL) {
        dao_course_leave(adopt->engine);
    }
}

static void deviate(dao_adopt_t *adopt)
{
    leave(adopt);
    adopt->now = NULL;
}

/* The new course takes its place; the one that had it is kept to be compared with, or is the one that did not
   pay. */
static void take_new_course(dao_shape_t *shape)
{
    dao_course_destroy(shape->former);
    if (shape->is_returning) {
        dao_course_destroy(shape->course);
        shape->course = NULL;
    }
    shape->former = shape->course;
    shape->former_step_ns = shape->step_ns;
    shape->course = shape->new_course;
    shape->new_course = NULL;
    shape->is_returning = false;
    shape->step_ns = 0;
}

/* The step begins as this shape does: its course is followed, the newest one. */
static void follow(dao_adopt_t *adopt, dao_shape_t *shape)
{
    dao_engine_t *engine = adopt->engine;
    if (engine->course != NULL && (engine->course != shape->course || shape->new_course != NULL)) {
        leave(adopt);
    }
    if (shape->new_course != NULL) {
        take_new_course(shape);
    }
    if (shape->course == NULL || engine->course != NULL) {
        return;
    }
    if (dao_course_enter(engine, shape->course, &shape->log) != DAO_OK) {
        dao_course_destroy(shape->course); /* the step goes on without; a new plan may be tried */
        shape->course = NULL;
        shape->try_count++;
    }
}

/* ---- measuring ---- */

static bool is_worth_measuring(const dao_adopt_t *adopt)
{
    const dao_shape_t *shape = adopt->now;
    if (shape == NULL) {
        return false;
    }
    if (adopt->engine->course != NULL) {
        return shape->seen_count >= shape->next_measure;
    }
    return shape->seen_count + 1 >= DAO_SHAPE_SEEN_MIN && shape->try_count < DAO_ADOPT_TRIES_MAX &&
           (shape->has_evicted || shape->seen_count < DAO_SHAPE_SEEN_MIN);
}

static void measure_step(dao_adopt_t *adopt)
{
    dao_meter_t *meter = &adopt->engine->meter;
    if (meter->state == DAO_METER_IDLE && is_worth_measuring(adopt)) {
        dao_meter_start(meter);
    }
}

/* Tells whether measured and expected differ by more than the tolerance. */
static bool is_off(double measured, double expected)
{
    double difference = measured > expected ? measured - expected : expected - measured;
    return difference * DAO_ADOPT_TOLERANCE > expected;
}

static double expected_ns(const dao_meter_link_t *link, uint64_t bytes_per_second, uint64_t latency_ns)
{
    return (double)link->count * (double)latency_ns +
           link->bytes / (double)bytes_per_second * (double)DAO_NS_PER_S;
}

static uint64_t sum_of_kernels(const dao_meter_t *meter)
{
    uint64_t sum_ns = 0;
    for (uint32_t i = 0; i < meter->kernel_count; i++) {
        sum_ns += meter->kernel_ns[i];
    }
    return sum_ns;
}

/* What the copies of a direction say of its speed alone. Nothing where none was alone and both directions are
   known to slow each other: that would be counted twice. */
static const dao_meter_link_t *link_of(const dao_adopt_t *adopt, dao_stream_role_t direction)
{
    static const dao_meter_link_t nothing;
    const dao_meter_t *meter = &adopt->engine->meter;
    return meter->is_crowded[direction] && adopt->lost_share > 0 ? &nothing : &meter->links[direction];
}

/* What both directions move together while both copy. */
static double both_speed(const dao_swap_tier_t *link)
{
    return link->shared_bytes_per_second != 0
               ? (double)link->shared_bytes_per_second
               : (double)link->in_bytes_per_second + (double)link->out_bytes_per_second;
}

/* Tells whether what was measured, and noted, is not what the course was made with any more. */
static bool has_changed(const dao_adopt_t *adopt, const dao_course_basis_t *basis)
{
    const dao_meter_t *meter = &adopt->engine->meter;
    const dao_meter_link_t *in = link_of(adopt, DAO_STREAM_ROLE_H2D);
    const dao_meter_link_t *out = link_of(adopt, DAO_STREAM_ROLE_D2H);
    const dao_swap_tier_t *host = &basis->host;
    return is_off((double)sum_of_kernels(meter), (double)basis->compute_ns) ||
           (in->count > 0 && is_off(in->ns, expected_ns(in, host->in_bytes_per_second, host->latency_ns))) ||
           (out->count > 0 &&
            is_off(out->ns, expected_ns(out, host->out_bytes_per_second, host->latency_ns))) ||
           (meter->lost_share >= 0 && is_off(both_speed(&adopt->link), both_speed(host))) ||
           is_off((double)adopt->file.in_bytes_per_second, (double)basis->file.in_bytes_per_second) ||
           is_off((double)adopt->file.out_bytes_per_second, (double)basis->file.out_bytes_per_second);
}

/* A direction without copies is as the other one. */
static void fill_directions(dao_swap_tier_t *tier)
{
    tier->in_bytes_per_second =
        tier->in_bytes_per_second != 0 ? tier->in_bytes_per_second : tier->out_bytes_per_second;
    tier->out_bytes_per_second =
        tier->out_bytes_per_second != 0 ? tier->out_bytes_per_second : tier->in_bytes_per_second;
}

static void note_tier(dao_swap_tier_t *link, const dao_meter_link_t *in, const dao_meter_link_t *out)
{
    uint64_t in_latency_ns = 0;
    uint64_t out_latency_ns = 0;
    if (in->count > 0) {
        dao_meter_link_speed(in, &link->in_bytes_per_second, &in_latency_ns);
    }
    if (out->count > 0) {
        dao_meter_link_speed(out, &link->out_bytes_per_second, &out_latency_ns);
    }
    fill_directions(link);
    if (in->count > 0 || out->count > 0) {
        link->latency_ns = dao_larger(in_latency_ns, out_latency_ns);
    }
}

/* The speed at which full pieces pass that each cost the latency. */
static uint64_t speed_by_pieces(uint64_t bytes_per_second, uint64_t latency_ns, uint64_t piece_bytes)
{
    double piece_ns = (double)piece_bytes / (double)bytes_per_second * (double)DAO_NS_PER_S;
    return (uint64_t)((double)bytes_per_second * piece_ns / (piece_ns + (double)latency_ns)) + 1;
}

/* A tensor's full pieces have the latency in their speed. Its last one takes as much longer than that as it
   lacks of a full one: what is left of the latency. */
static void note_file(dao_adopt_t *adopt)
{
    dao_file_tier_t *tier = &adopt->engine->file_tier;
    const dao_meter_link_t *in = &tier->moved[DAO_FILE_READ];
    const dao_meter_link_t *out = &tier->moved[DAO_FILE_WRITE];
    dao_swap_tier_t file = {0};
    note_tier(&file, in, out);
    if (in->count > 0) {
        adopt->file.in_bytes_per_second =
            speed_by_pieces(file.in_bytes_per_second, file.latency_ns, tier->staging_bytes);
    }
    if (out->count > 0) {
        adopt->file.out_bytes_per_second =
            speed_by_pieces(file.out_bytes_per_second, file.latency_ns, tier->staging_bytes);
    }
    if (in->count > 0 || out->count > 0) {
        fill_directions(&adopt->file);
        adopt->file.latency_ns = (uint64_t)((double)file.latency_ns * dao_file_tier_open_share(tier));
        dao_file_tier_forget_moved(tier);
    }
}

/* What both directions of the host's link move together: less than both by themselves if copies have slowed
   each other, or did in an earlier step. */
static void note_sharing(dao_adopt_t *adopt)
{
    const dao_meter_t *meter = &adopt->engine->meter;
    adopt->lost_share = meter->lost_share >= 0 ? meter->lost_share : adopt->lost_share;
    adopt->link.shared_bytes_per_second = 0;
    if (adopt->lost_share * DAO_ADOPT_TOLERANCE > 1) {
        double left = both_speed(&adopt->link) * (1 - adopt->lost_share);
        adopt->link.shared_bytes_per_second = (uint64_t)left + 1;
    }
}

/* What is known of links, from the step that was measured. */
static void note_links(dao_adopt_t *adopt)
{
    note_tier(&adopt->link, link_of(adopt, DAO_STREAM_ROLE_H2D), link_of(adopt, DAO_STREAM_ROLE_D2H));
    note_sharing(adopt);
    if (adopt->engine->file_tier.is_there) {
        note_file(adopt);
    }
}

static void count_step(dao_adopt_t *adopt, const dao_shape_t *shape)
{
    const dao_meter_t *meter = &adopt->engine->meter;
    dao_executor_stats_t *stats = &adopt->engine->stats;
    stats->measured_step_count++;
    stats->stall_in_ns += meter->stall_ns[DAO_STALL_CAUSE_IN];
    stats->stall_out_ns += meter->stall_ns[DAO_STALL_CAUSE_OUT];
    stats->stall_host_ns += meter->stall_ns[DAO_STALL_CAUSE_HOST];
    if (shape->course != NULL) {
        uint64_t compute_ns = sum_of_kernels(meter); /* kernels may have taken longer than in the plan */
        uint64_t bound_ns = shape->course->bound_ns > compute_ns ? shape->course->bound_ns : compute_ns;
        stats->bound_ns += bound_ns;
        stats->forecast_ns += shape->course->schedule->step_ns;
        stats->lost_ns += meter->step_ns > bound_ns ? meter->step_ns - bound_ns : 0;
    }
}

/* ---- planning ---- */

/* Bytes that the program writes for each step: they come through the host, beside what a plan keeps there. */
static uint64_t fed_bytes(const dao_step_log_t *log)
{
    uint64_t bytes = 0;
    uint32_t known_count = 0; /* roles are numbered by their first uses */
    for (uint32_t i = 0; i < log->use_count; i++) {
        if (log->uses[i].role == known_count) {
            const dao_shape_role_t *role = &log->roles[known_count++];
            bytes += role->begins_anew && log->uses[i].kind != DAO_USE_WRITE ? role->size_bytes : 0;
        }
    }
    return bytes;
}

/* The host's link, and its limit less what plans leave to the program. Where nothing fits the host, all that
   was seen to move are pieces of the file. */
static dao_swap_tier_t host_of(const dao_adopt_t *adopt, const dao_step_log_t *log)
{
    uint64_t limit_bytes = adopt->engine->config.host_limit_bytes, fed = fed_bytes(log);
    dao_swap_tier_t host = adopt->link.in_bytes_per_second != 0 ? adopt->link : adopt->file;
    host.limit_bytes = limit_bytes > fed ? limit_bytes - fed : limit_bytes != 0 ? 1 : 0;
    return host;
}

static bool is_link_known(const dao_adopt_t *adopt)
{
    return adopt->link.in_bytes_per_second != 0 || adopt->file.in_bytes_per_second != 0;
}

static void hand_in(dao_adopt_t *adopt, dao_shape_t *shape)
{
    const dao_engine_config_t *config = &adopt->engine->config;
    if (adopt->at_desk != NULL) {
        return; /* one after the other: it will be measured again */
    }
    dao_desk_job_t *job = dao_desk_job_create(&shape->log, adopt->engine->meter.kernel_ns);
    if (job == NULL) {
        shape->try_count++;
        return;
    }
    job->problem.capacity_bytes = config->arena_bytes;
    job->problem.host = host_of(adopt, &shape->log);
    job->problem.file = adopt->file;
    job->problem.file.limit_bytes = adopt->engine->file_tier.limit_bytes;
    if (dao_desk_hand_in(&adopt->desk, job) != DAO_OK) {
        dao_desk_job_destroy(job);
        shape->try_count++;
        return;
    }
    adopt->at_desk = shape;
}

/* A new plan was measured. It stays if the step is as quick as with the former one; else that comes back, and
   is taken to be made with what is known now. Where kernels take other times the two cannot be compared: the
   new one stays. */
static void compare_with_former(dao_adopt_t *adopt, dao_shape_t *shape)
{
    dao_course_t *former = shape->former;
    bool is_comparable =
        former != NULL && shape->former_step_ns != 0 && shape->new_course == NULL &&
        !is_off((double)sum_of_kernels(&adopt->engine->meter), (double)former->basis.compute_ns);
    shape->former = NULL;
    if (is_comparable && shape->step_ns > shape->former_step_ns + shape->former_step_ns / DAO_ADOPT_LOSS) {
        former->basis = shape->course->basis;
        shape->new_course = former;
        shape->is_returning = true;
        shape->next_measure = shape->seen_count + 2;
        adopt->engine->stats.plan_dropped_count++;
        return;
    }
    dao_course_destroy(former);
}

static void use_measurement(dao_adopt_t *adopt)
{
    const dao_meter_t *meter = &adopt->engine->meter;
    dao_shape_t *shape = adopt->measured;
    adopt->measured = NULL;
    if (shape == NULL || meter->is_spoilt || meter->kernel_count != shape->log.kernel_count) {
        return;
    }
    note_links(adopt);
    count_step(adopt, shape);
    bool is_by_course = adopt->measured_course != NULL && adopt->measured_course == shape->course;
    if (is_by_course) {
        shape->step_ns = meter->step_ns;
        compare_with_former(adopt, shape);
    }
    bool is_planned = shape->course != NULL;
    bool wants_plan = is_planned ? is_by_course && has_changed(adopt, &shape->course->basis)
                                 : shape->has_evicted && shape->try_count < DAO_ADOPT_TRIES_MAX;
    if (wants_plan && shape->new_course == NULL && is_link_known(adopt)) {
        hand_in(adopt, shape);
    }
}

static void deliver(dao_adopt_t *adopt, dao_desk_job_t *job)
{
    dao_shape_t *shape = adopt->at_desk;
    adopt->at_desk = NULL;
    if (job->status != DAO_OK) {
        shape->try_count = job->status == DAO_ERR_NO_HOST_MEMORY ? shape->try_count + 1 : DAO_ADOPT_TRIES_MAX;
    } else {
        bool is_first = shape->course == NULL;
        adopt->engine->stats.replan_count += is_first ? 0 : 1;
        shape->measure_steps =
            is_first || shape->measure_steps == 0 ? DAO_ADOPT_MEASURE_STEPS : 2 * shape->measure_steps;
        if (shape->measure_steps > DAO_ADOPT_MEASURE_STEPS_MAX) {
            shape->measure_steps = DAO_ADOPT_MEASURE_STEPS_MAX;
        }
        *(is_first ? &shape->course : &shape->new_course) = job->course;
        shape->next_measure =
            shape->seen_count + 2; /* the first step that follows it moves more than it says */
        job->course = NULL;
    }
    dao_desk_job_destroy(job);
}

void dao_adopt_look(dao_adopt_t *adopt)
{
    dao_meter_t *meter = &adopt->engine->meter;
    if (meter->state != DAO_METER_IDLE) {
        dao_meter_collect(meter);
    }
    if (meter->state == DAO_METER_DONE) {
        use_measurement(adopt);
        dao_meter_reset(meter);
    }
    dao_desk_job_t *job = dao_desk_take_back(&adopt->desk);
    if (job != NULL) {
        deliver(adopt, job);
    }
}

/* ---- kernels ---- */

void dao_adopt_kernel(dao_adopt_t *adopt, const dao_item_t *item)
{
    uint32_t index = adopt->log.kernel_count;
    if (!adopt->has_mark || adopt->log.is_broken) {
        return;
    }
    if (index == 0) {
        adopt->now = expect(adopt, item);
        adopt->eviction_count = adopt->engine->stats.eviction_count;
    }
    dao_step_log_add(&adopt->log, item);
    if (adopt->log.is_broken) {
        dao_adopt_break(adopt);
        return;
    }
    if (adopt->now != NULL && !dao_step_log_is_kernel_same(&adopt->log, &adopt->now->log, index)) {
        deviate(adopt);
        adopt->now = find_alike(adopt, false);
    }
    if (index == 0 && adopt->now != NULL) {
        follow(adopt, adopt->now);
        measure_step(adopt);
    } else if (index == 0) {
        leave(adopt); /* another step than the last one */
    }
}

void dao_adopt_break(dao_adopt_t *adopt)
{
    leave(adopt);
    adopt->log.is_broken = true;
    adopt->now = NULL;
    if (adopt->engine->meter.state == DAO_METER_RUNNING) {
        dao_meter_reset(&adopt->engine->meter);
    }
}

void dao_adopt_measure(dao_engine_t *engine, const dao_fence_t *fence)
{
    if (engine->meter.state != DAO_METER_IDLE) {
        dao_meter_before_kernel(&engine->meter, engine->adopt->log.kernel_count - 1, fence);
    }
}

void dao_adopt_forecast(dao_adopt_t *adopt, const dao_item_t *item)
{
    dao_engine_t *engine = adopt->engine;
    if (adopt->now == NULL) {
        return;
    }
    const dao_step_log_t *log = &adopt->now->log;
    const dao_shape_use_t *uses = log->uses + log->kernels[adopt->log.kernel_count - 1].first_use;
    for (uint32_t i = 0; i < item->use_count; i++) {
        uint64_t time = uses[i].distance != 0 ? item->time + uses[i].distance : 0;
        item->uses[i].tensor->forecast_time = time;
        engine->last_forecast = time > engine->last_forecast ? time : engine->last_forecast;
    }
}

/* ---- marks ---- */

/* Which contents live on after the step. */
static void note_persistence(dao_adopt_t *adopt)
{
    for (const dao_managed_t *tensor = adopt->engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->log_epoch == adopt->log.epoch && tensor->residence != DAO_RESIDENCE_EMPTY) {
            adopt->log.roles[tensor->log_role].is_persistent = true;
        }
    }
}

static void forget_references(dao_adopt_t *adopt, const dao_shape_t *shape)
{
    adopt->before = adopt->before == shape ? NULL : adopt->before;
    adopt->measured = adopt->measured == shape ? NULL : adopt->measured;
    for (uint32_t i = 0; i < adopt->shape_count; i++) {
        if (adopt->shapes[i]->after == shape) {
            adopt->shapes[i]->after = NULL;
        }
    }
}

/* A place in the table for one more shape. With the table full, the one that was not seen for longest goes.
   */
static dao_shape_t **find_place(dao_adopt_t *adopt)
{
    dao_shape_t **oldest = NULL;
    if (adopt->shape_count < DAO_SHAPE_COUNT_MAX) {
        return &adopt->shapes[adopt->shape_count++];
    }
    for (uint32_t i = 0; i < adopt->shape_count; i++) {
        dao_shape_t **place = &adopt->shapes[i];
        if (*place != adopt->at_desk && (oldest == NULL || (*place)->seen_at < (*oldest)->seen_at)) {
            oldest = place;
        }
    }
    forget_references(adopt, *oldest);
    destroy_shape(*oldest);
    return oldest;
}

/* Makes a shape of the step's log, which begins anew. NULL without memory. */
static dao_shape_t *learn(dao_adopt_t *adopt)
{
    dao_shape_t *shape = dao_host_calloc(1, sizeof(*shape));
    if (shape == NULL) {
        return NULL;
    }
    note_persistence(adopt);
    shape->log = adopt->log;
    dao_step_log_init(&adopt->log);
    adopt->log.epoch = shape->log.epoch;
    if (!dao_step_log_close(&shape->log)) {
        destroy_shape(shape);
        return NULL;
    }
    *find_place(adopt) = shape;
    return shape;
}

/* The shape of the step that has just ended; NULL without memory for a new one. */
static dao_shape_t *recognize(dao_adopt_t *adopt)
{
    dao_shape_t *shape = adopt->now;
    if (shape != NULL && shape->log.kernel_count != adopt->log.kernel_count) {
        deviate(adopt); /* it ends early */
        shape = NULL;
    }
    shape = shape != NULL ? shape : find_alike(adopt, true);
    if (shape != NULL && shape->course == NULL && shape != adopt->at_desk) {
        note_persistence(adopt);
        dao_step_log_take_over(&shape->log, &adopt->log);
    }
    return shape != NULL ? shape : learn(adopt);
}

static void end_step(dao_adopt_t *adopt, dao_shape_t *shape)
{
    dao_engine_t *engine = adopt->engine;
    shape->seen_count++;
    shape->seen_at = adopt->step_count;
    shape->has_evicted = shape->has_evicted || engine->stats.eviction_count > adopt->eviction_count;
    if (adopt->before != NULL) {
        adopt->before->after = shape;
    }
    if (engine->course != NULL) {
        dao_course_turn(engine);
    }
    if (engine->course != NULL) {
        shape->try_count = 0; /* it was followed to its end: what failed before has passed */
    }
    if (engine->meter.state == DAO_METER_RUNNING) {
        dao_meter_stop(&engine->meter);
        adopt->measured = shape;
        adopt->measured_course = engine->course;
        shape->next_measure = shape->seen_count + (engine->course != NULL ? shape->measure_steps : 0);
    }
}

/* Waits for the figures of a step that is to be planned, so that its plan is there with the next one. */
static void plan_at_once(dao_adopt_t *adopt)
{
    dao_engine_t *engine = adopt->engine;
    if (adopt->measured == NULL || adopt->measured->course != NULL || !adopt->measured->has_evicted) {
        return;
    }
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    dao_adopt_look(adopt); /* hands it in and takes it back */
}

void dao_adopt_mark(dao_adopt_t *adopt)
{
    bool is_empty = adopt->log.kernel_count == 0 && !adopt->log.is_broken;
    if (!adopt->has_mark || is_empty) {
        adopt->has_mark = true;
        adopt->log.is_broken = false; /* what failed before was in no step */
        return;
    }
    adopt->step_count++;
    dao_shape_t *shape = adopt->log.is_broken ? NULL : recognize(adopt);
    if (shape != NULL) {
        end_step(adopt, shape);
    } else {
        dao_adopt_break(adopt);
    }
    adopt->before = shape;
    adopt->now = NULL;
    dao_step_log_restart(&adopt->log);
    if (adopt->desk.is_at_once) {
        plan_at_once(adopt);
    }
}

uint64_t dao_adopt_plan_count(const dao_adopt_t *adopt)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < adopt->shape_count; i++) {
        count += adopt->shapes[i]->course != NULL ? 1 : 0;
    }
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The borders of steps: what was seen is learnt, a plan that is ready begins to serve, the arena is made
   to fit it.

       begin                 end                                          begin
         |  the step     |  is it served well? -- no --> learn ------> |  the plan is ready: it serves from here on
         |  is recorded       |                              the planner    |  not yet: the one before goes on
                                                             works: in the  |
                                                             caller, a thread, the program's executor

   When is it learnt anew? When too many requests did not get their place, or too much lay beside the arena.
   Each time that a script was learnt it takes longer to the next one, so that a program which never repeats
   itself pays less and less. When POOR_RUN steps in a row found no use for a plan it is given up, and
   nothing is learnt for a while. A plan that the program departs from at the cost of memory is given up at
   once; the next one is to be proved, wherever the arena lies.

   From an arena that is a block a plan serves only a program that is seen to keep to it, and is given up when
   that departs: what is idle in a block nobody else can have, and what finds its place taken there makes the
   place larger. It serves on while anything lives in the block, at most LEAVING_MAX steps; then the
   block is for all, until it is empty. From a window a plan is given up, too, once the program has left it
   and the place is larger than without it: while the program is not seen to keep to its plan, a shadow knows
   how large that would be (planned_shadow.c).

   Lifetimes that go over a border are known one step later: then the step before is learnt once
   more, first.

   A window is as large as the plan asks for. An arena that is a block is replaced only while nothing lives in
   it. Where it does not fit the plan any more and something does live in it, what outlives a step is
   kept out of it (is_draining), and what lies above its end is not served, until it is empty.

   What holds between calls:

       depth > 0 within a step; is_open implies it
       learning  a script that does not serve yet; nobody learns while it is there */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/thread_number.h"

#include <string.h>

/* A step is served well if at most this part of its requests are no hits, and what lay beside the arena
   comes to at most this part of it. */
#define GOOD_PART_REQUESTS 200u
#define GOOD_PART_BYTES    1024u

/* A program is seen to keep to what was learnt once so many steps in a row change nothing; fewer do
   where the place has room for what departs. Twice as many for each doubt, at most PROOF_RUN_MAX: an
   step that changed something when WARM_UP_COUNT were learnt already, and a plan that was given up. */
#define PROOF_RUN      8u
#define PROOF_RUN_SAFE 2u
#define PROOF_RUN_MAX  1024u
#define WARM_UP_COUNT  3u

/* So many steps in a row that change nothing, and are not served well, are learnt anew, as if there were
   none before them: what was larger or lived longer at one time would keep its room for ever. Twice as many
   after each time, up to RENEWAL_COUNT_MAX times. */
#define RENEWAL_RUN       4u
#define RENEWAL_COUNT_MAX 8u

/* A plan that is given up serves so many steps more at most while blocks live in its arena. */
#define LEAVING_MAX ((uint64_t)16)

/* Steps in a row of which the arena served less than half, after which a plan is given up. */
#define POOR_RUN 4u

/* A program has left a plan that serves from a window if more than this part of a step's requests were
   no hits. */
#define LEFT_PART 20u

/* Steps in which nothing is learnt after a plan was given up: at first, and at most. */
#define REST_FIRST ((uint64_t)16)
#define REST_MAX   ((uint64_t)4096)

/* Learning waits one step more for so many that went into the script. */
#define LEARN_SLOWER  4u
#define LEARN_GAP_MAX 64u

/* Steps between two attempts to get an arena, at most. */
#define ARENA_GAP_MAX ((uint64_t)64)

/* An arena may be larger than the plan by this part of it. */
#define ARENA_REST_PART 16u

/* ---- the lock ---- */

static _Thread_local bool is_at_border;

void dao_planned_boundary_lock(dao_planned_t *planned)
{
    dao_mutex_lock(&planned->border);
    is_at_border = true;
}

bool dao_planned_boundary_try_lock(dao_planned_t *planned)
{
    bool is_taken = !is_at_border && dao_mutex_try_lock(&planned->border);
    is_at_border = is_at_border || is_taken;
    return is_taken;
}

void dao_planned_boundary_unlock(dao_planned_t *planned)
{
    is_at_border = false;
    dao_mutex_unlock(&planned->border);
}

bool dao_planned_at_boundary(void)
{
    return is_at_border;
}

/* ---- scripts that serve ---- */

void dao_served_finish(dao_served_t *served)
{
    dao_bins_destroy(served->bins);
    dao_outlook_finish(&served->outlook);
    dao_follow_finish(&served->follow);
    dao_script_destroy(served->script);
    *served = (dao_served_t){0};
}

static dao_status_t bins_create(dao_planned_t *planned, const dao_script_t *script, dao_bins_t **out_bins)
{
    dao_bin_plan_t plan;
    dao_status_t status = dao_script_bins(script, planned->config.margin, &plan);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_bins_create(&plan, out_bins);
    if (status != DAO_OK) {
        dao_bin_plan_finish(&plan);
    }
    return status;
}

/* Makes what using a script needs, and takes it over in any case. */
static dao_status_t served_init(dao_planned_t *planned, dao_script_t *script, dao_served_t *served)
{
    *served = (dao_served_t){.script = script, .arena_bytes = script->arena_bytes};
    dao_status_t status = dao_follow_init(&served->follow, script);
    if (status == DAO_OK && planned->config.mode == DAO_STEP_PLAN_BINS) {
        status = bins_create(planned, script, &served->bins);
        served->arena_bytes = status == DAO_OK ? dao_bins_total_bytes(served->bins) : 0;
    } else if (status == DAO_OK) {
        status = dao_outlook_init(&served->outlook, script);
    }
    if (status != DAO_OK) {
        dao_served_finish(served);
    }
    return status;
}

/* Lets a script serve, or nothing for NULL; takes it over in any case. No step is under way. */
static dao_status_t serve(dao_planned_t *planned, dao_script_t *script)
{
    dao_served_t next = {0};
    dao_status_t status = script != NULL ? served_init(planned, script, &next) : DAO_OK;
    if (status != DAO_OK) {
        planned->stats.failed_count++;
        return status;
    }
    planned->stats.plan_count += script != NULL;
    planned->stats.plan_bytes = next.arena_bytes;
    planned->stats.plan_bound_bytes = script != NULL ? script->bound_bytes : 0;
    dao_spin_lock(&planned->lock);
    dao_served_t before = planned->served;
    planned->served = next;
    dao_spin_unlock(&planned->lock);
    dao_served_finish(&before);
    planned->is_unsure = true;
    return DAO_OK;
}

/* ---- the arena ---- */

static bool arena_fits(const dao_planned_t *planned, uint64_t wanted_bytes)
{
    uint64_t bytes = planned->arena.segment.size_bytes;
    return bytes >= wanted_bytes && bytes <= wanted_bytes + wanted_bytes / ARENA_REST_PART;
}

/* Gives the arena of a plan that was given up back, and lets the inner allocator give its free memory back:
   the program makes itself the segments that suit it without a plan. Tells whether nothing lives in it. */
static bool arena_forget(dao_planned_t *planned)
{
    bool is_block = planned->arena.segment.range != NULL;
    bool is_given = dao_planned_arena_give(planned);
    if (is_given && is_block) {
        size_t released_bytes;
        (void)planned->inner->ops->trim(planned->inner, 0, &released_bytes); /* else it stays as it is */
    }
    return is_given;
}

/* Takes, replaces or gives back the arena, as the script asks for it. */
static void arena_fit(dao_planned_t *planned)
{
    const dao_script_t *script = planned->served.script;
    uint64_t wanted_bytes = planned->served.arena_bytes;
    bool is_draining = false;
    if (!arena_fits(planned, wanted_bytes) && planned->number >= planned->arena_retry) {
        bool is_due = planned->is_draining || dao_planned_arena_is_due(planned, wanted_bytes);
        is_draining = is_due && !(wanted_bytes > 0 ? dao_planned_arena_give(planned) : arena_forget(planned));
        bool is_wanted = !is_draining && wanted_bytes > 0;
        if (is_due && is_wanted) {
            dao_status_t status = dao_planned_arena_take(planned, wanted_bytes, script->alignment_bytes);
            planned->stats.failed_count += status != DAO_OK;
        }
        if (is_wanted && !arena_fits(planned, wanted_bytes)) { /* there is none, or a small one */
            planned->arena_retry = planned->number + planned->arena_gap;
            planned->arena_gap = planned->arena_gap < ARENA_GAP_MAX ? 2 * planned->arena_gap : ARENA_GAP_MAX;
        }
    }
    dao_spin_lock(&planned->lock);
    planned->is_draining = is_draining && wanted_bytes > 0;
    dao_spin_unlock(&planned->lock);
}

/* ---- learning ---- */

/* Gives a reference to what is being learnt up. The last one may wait for the planner. */
static void learning_release(dao_learning_t *learning)
{
    if (--learning->reference_count == 0) {
        dao_planner_destroy(learning->planner);
        dao_script_destroy(learning->script);
        dao_host_free(learning);
    }
}

/* Copies what was recorded: blocks may be freed while it is learnt. An empty copy where that step is not
   there. */
static dao_status_t recording_copy(dao_planned_t *planned, uint32_t serial, dao_lifetimes_t *out_copy)
{
    const dao_lifetimes_t *recording = &planned->recordings[serial & 1];
    *out_copy = (dao_lifetimes_t){0};
    if (recording->serial != serial || recording->count == 0) {
        return DAO_OK;
    }
    dao_status_t status = dao_lifetimes_init(out_copy, recording->count);
    if (status == DAO_OK) {
        dao_spin_lock(&planned->lock);
        dao_lifetime_t *items = out_copy->items;
        *out_copy = *recording;
        out_copy->items = items;
        out_copy->capacity = recording->count;
        memcpy(items, recording->items, recording->count * sizeof(*items));
        dao_spin_unlock(&planned->lock);
    }
    return status;
}

/* Tells whether blocks of a step were freed in the next one: they may be freed meanwhile. */
static bool goes_over(dao_planned_t *planned, uint32_t serial)
{
    dao_spin_lock(&planned->lock);
    bool goes = planned->recordings[serial & 1].carried_count > 0;
    dao_spin_unlock(&planned->lock);
    return goes;
}

/* Learns one step; *script is what was learnt so far, which the caller owns, or NULL, with `base` in its
   place. */
static dao_status_t learn_one(const dao_script_t *base, const dao_lifetimes_t *recording,
                              dao_script_t **script)
{
    dao_script_t *next;
    dao_status_t status = dao_script_learn(*script != NULL ? *script : base, recording, &next);
    if (status == DAO_OK) {
        next->changed_count += *script != NULL ? (*script)->changed_count : 0;
        dao_script_destroy(*script);
        *script = next;
    }
    return status;
}

/* Tells whether what was learnt so far is to be forgotten. Where the arena is a block, it is when a plan is
   given up; bins have room for what is larger. */
static bool is_renewal(const dao_planned_t *planned)
{
    return dao_planned_has_window(planned) && planned->served.script != NULL &&
           planned->served.bins == NULL &&
           planned->course.stable_run >= RENEWAL_RUN << planned->course.renewal_count;
}

/* Learns the step that has ended, and before it what has become known of the one before; anew, or with
   what is known. */
static dao_status_t learn(dao_planned_t *planned, bool renews, dao_script_t **out_script)
{
    const dao_script_t *known = planned->learnt != NULL ? planned->learnt : planned->served.script;
    const dao_script_t *base = renews ? NULL : known;
    uint32_t serials[2] = {planned->serial - 1, planned->serial};
    *out_script = NULL;
    dao_status_t status = DAO_OK;
    for (int i = 0; i < 2 && status == DAO_OK; i++) {
        dao_lifetimes_t copy;
        bool is_wanted = i == 1 || (known != NULL && goes_over(planned, serials[i]));
        status = is_wanted ? recording_copy(planned, serials[i], &copy) : DAO_OK;
        if (is_wanted && status == DAO_OK && copy.count > 0) {
            status = learn_one(base, &copy, out_script);
        }
        if (is_wanted) {
            dao_lifetimes_finish(&copy);
        }
    }
    return status;
}

/* Asks a planner for the offsets of a script, which it takes over. */
static dao_status_t learning_create(dao_planned_t *planned, dao_script_t *script)
{
    dao_planner_config_t config = {
        .method = planned->config.method,
        .work_limit = planned->config.work_limit,
        .submit = planned->config.worker == DAO_STEP_PLAN_WORKER_SUBMIT ? planned->config.submit : NULL,
        .submit_user = planned->config.submit_user};
    dao_learning_t *learning = dao_host_calloc(1, sizeof(*learning));
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    if (learning != NULL) {
        bool has_bins = planned->config.mode == DAO_STEP_PLAN_BINS;
        *learning = (dao_learning_t){.script = script, .reference_count = 1, .is_under_way = !has_bins};
        status = has_bins ? DAO_OK
                          : dao_script_planner(script, planned->config.margin, &config, &learning->planner);
    }
    if (status != DAO_OK) {
        dao_host_free(learning);
        dao_script_destroy(script);
        return status;
    }
    planned->learning = learning;
    return DAO_OK;
}

/* Tells whether nothing is learnt any more so many steps from now. */
static bool has_stopped(const dao_planned_t *planned, uint64_t later)
{
    uint32_t stop = planned->config.stop_step;
    return stop != 0 && planned->number + later >= stop;
}

/* Tells whether the arena is one block. */
static bool has_block(const dao_planned_t *planned)
{
    return planned->inner->ops->window_begin == NULL;
}

/* Tells whether plans serve only while the program is seen to keep to them. Bins take what they take. */
static bool needs_proof(const dao_planned_t *planned)
{
    return (has_block(planned) || planned->course.has_departed) &&
           planned->config.mode == DAO_STEP_PLAN_OFFSETS && !planned->config.trusts_program;
}

/* Tells whether so many steps in a row have changed nothing, or more where there is doubt. */
static bool has_run(const dao_course_t *course, uint64_t run)
{
    for (uint32_t i = 0; i < course->doubt_count && run < PROOF_RUN_MAX; i++) {
        run *= 2;
    }
    return course->stable_run >= run;
}

/* Tells whether a program keeps so well to what was learnt that a plan of it may serve. */
static bool is_proved(dao_planned_t *planned, const dao_script_t *script)
{
    const dao_course_t *course = &planned->course;
    if (!needs_proof(planned) || has_run(course, has_block(planned) ? PROOF_RUN : PROOF_RUN_SAFE)) {
        return true;
    }
    uint64_t largest_bytes = 0;
    for (uint32_t i = 0; i < script->count; i++) {
        largest_bytes = dao_larger(largest_bytes, script->entries[i].most_bytes);
    }
    return has_block(planned) && has_run(course, PROOF_RUN_SAFE) &&
           dao_planned_arena_is_safe(planned, script->alive_bytes, largest_bytes);
}

/* Tells whether what was learnt may serve, as far as the config says. */
static bool is_settled(const dao_planned_t *planned)
{
    const dao_step_plan_config_t *config = &planned->config;
    bool waits = config->stable_count != 0 || config->max_count != 0;
    return !waits || planned->course.stable_run > config->stable_count ||
           (config->max_count != 0 && planned->course.learnt_count > config->max_count);
}

/* Learns what was recorded; a planner is to be started then if planned->learning is there. */
static void learn_and_ask(dao_planned_t *planned)
{
    dao_course_t *course = &planned->course;
    dao_script_t *script;
    bool renews = is_renewal(planned);
    dao_status_t status = learn(planned, renews, &script);
    if (script == NULL) {
        planned->stats.failed_count += status != DAO_OK;
        return;
    }
    planned->stats.learn_count++;
    course->learnt_count++;
    course->stable_run = script->changed_count == 0 ? course->stable_run + 1 : 0;
    course->doubt_count += script->changed_count > 0 && course->learnt_count > WARM_UP_COUNT && !renews;
    course->renewal_count += renews && course->renewal_count < RENEWAL_COUNT_MAX;
    dao_script_destroy(planned->learnt);
    planned->learnt = NULL;
    bool is_last = planned->served.arena_bytes > 0 || has_stopped(planned, 1); /* it has to do */
    bool serves = is_last || is_settled(planned);
    bool is_proving = !is_last && needs_proof(planned) && course->stable_run > 0;
    if (serves && !is_proving) { /* until it may, as far as the config says, every step counts */
        uint32_t gap = 1 + course->learnt_count / LEARN_SLOWER;
        course->next_learn = planned->number + (gap < LEARN_GAP_MAX ? gap : LEARN_GAP_MAX);
    }
    if (!serves || (!is_last && !is_proved(planned, script))) {
        planned->learnt = script;
        return;
    }
    planned->stats.failed_count += learning_create(planned, script) != DAO_OK;
}

/* Works on what is being learnt, or lets others do so. No lock is held; the caller has a reference. */
static void learning_start(dao_planned_t *planned, dao_learning_t *learning)
{
    dao_status_t status = DAO_ERR_THREAD;
    if (planned->config.worker != DAO_STEP_PLAN_WORKER_CALLER) {
        status = dao_planner_start(learning->planner);
    }
    if (status !=
        DAO_OK) { /* the caller is to do it, or there is no thread; what it finds until it fails serves */
        bool is_done;
        status = dao_planner_work(learning->planner, UINT64_MAX, &is_done);
    }
    dao_planned_boundary_lock(planned);
    learning->is_under_way = false;
    learning_release(learning);
    dao_cond_broadcast(&planned->changed);
    dao_planned_boundary_unlock(planned);
}

/* Lets a plan serve that is ready. No step is under way. */
static void learning_adopt(dao_planned_t *planned)
{
    dao_learning_t *learning = planned->learning;
    if (learning == NULL || learning->is_under_way ||
        (learning->planner != NULL && dao_planner_wait(learning->planner, 0) == DAO_ERR_NOT_READY)) {
        return;
    }
    dao_script_t *script = learning->script;
    learning->script = NULL;
    planned->learning = NULL;
    if (planned->course.leaving_until > 0 || learning->is_outdated) {
        dao_script_destroy(script);
    } else if (learning->planner != NULL && dao_script_place(script, learning->planner) != DAO_OK) {
        planned->stats.failed_count++;
        dao_script_destroy(script);
    } else {
        (void)serve(planned, script); /* it has counted the failure; what served before goes on */
    }
    learning_release(learning);
}

void dao_planned_boundary_finish(dao_planned_t *planned)
{
    if (planned->learning != NULL) {
        DAO_ASSERT(!planned->learning->is_under_way && planned->learning->reference_count == 1);
        learning_release(planned->learning);
        planned->learning = NULL;
    }
}

/* ---- giving up ---- */

/* Gives the plan up. Where the arena served little, nothing is learnt for a while; where the program has
   departed from a plan that costs memory, it is learnt anew, and to be proved. */
static void give_up(dao_planned_t *planned)
{
    dao_course_t *course = &planned->course;
    dao_course_t next = {
        .rest = course->rest, .doubt_count = course->doubt_count + 1, .has_departed = course->has_departed};
    if (course->poor_run >= POOR_RUN) {
        next.rest = course->rest == 0 ? REST_FIRST : course->rest < REST_MAX ? 2 * course->rest : REST_MAX;
        next.rest_until = planned->number + next.rest;
    } else {
        next.has_departed = true;
    }
    *course = next;
    if (planned->learning != NULL) {
        planned->learning->is_outdated = true;
    }
    planned->arena_retry = 0; /* what is left of the arena goes as soon as it can */
    planned->arena_gap = 1;
    planned->stats.given_up_count++;
    (void)serve(planned, NULL); /* needs no memory */
}

/* Tells whether anything lives in an arena that is a block. */
static bool is_lived_in(dao_planned_t *planned)
{
    dao_spin_lock(&planned->lock);
    const dao_range_t *range = planned->arena.segment.range;
    bool is_lived_in = range != NULL && dao_range_used(range) > 0;
    dao_spin_unlock(&planned->lock);
    return is_lived_in;
}

/* Gives the plan up once nothing lives in its arena. As long as something does, the arena stays, and wastes
   least where blocks keep to the plan that it is as large as. */
static void leave(dao_planned_t *planned)
{
    dao_course_t *course = &planned->course;
    course->leaving_until =
        course->leaving_until == 0 ? planned->number + LEAVING_MAX : course->leaving_until;
    if (planned->number >= course->leaving_until || !is_lived_in(planned)) {
        give_up(planned);
    }
}

/* ---- begin ---- */

static bool is_recorded(const dao_planned_t *planned)
{
    return planned->is_enabled && planned->number > planned->config.start_step &&
           planned->number > planned->course.rest_until;
}

/* Lanes of threads that have ended are for others, in the order in which these come. */
static void lanes_free_locked(dao_planned_t *planned)
{
    for (uint32_t lane = 0; lane < DAO_LIFETIME_LANE_COUNT; lane++) {
        uint64_t thread = planned->lane_threads[lane];
        planned->lane_threads[lane] = thread != 0 && dao_thread_number_lives(thread) ? thread : 0;
    }
}

static void step_open(dao_planned_t *planned)
{
    planned->number++;
    if (planned->course.leaving_until > 0) {
        leave(planned);
    }
    learning_adopt(planned);
    arena_fit(planned);
    dao_planned_shadow_fit(planned);
    if (!is_recorded(planned) && planned->served.script == NULL && !dao_planned_has_arena(planned)) {
        return;
    }
    planned->fault_count = dao_measure_minor_faults();
    dao_spin_lock(&planned->lock);
    planned->serial = (uint32_t)planned->number;
    dao_lifetimes_t *recording = &planned->recordings[planned->serial & 1];
    dao_lifetimes_clear(recording, planned->serial);
    dao_follow_restart(&planned->served.follow);
    lanes_free_locked(planned);
    planned->now = 0;
    planned->is_steady = planned->course.stable_run >= PROOF_RUN_SAFE;
    planned->others_before = planned->counts.missed_count + planned->counts.unplanned_count;
    planned->stray_count = 0;
    planned->is_astray = false;
    planned->has_grown = false;
    planned->counts = (dao_step_counts_t){0};
    planned->own = (dao_planned_own_t){0};
    planned->refusals = (dao_planned_refusals_t){0};
    atomic_store_explicit(&planned->small_count, 0, memory_order_relaxed);
    atomic_store_explicit(&planned->is_open, planned->is_enabled, memory_order_relaxed);
    dao_spin_unlock(&planned->lock);
}

dao_status_t dao_planned_begin(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    dao_planned_boundary_lock(planned);
    if (planned->depth++ == 0) {
        step_open(planned);
        (void)dao_error_restore(&record); /* what failed on the way is no failure of this call */
    }
    dao_planned_boundary_unlock(planned);
    return DAO_OK;
}

/* ---- end ---- */

/* Reclaims the frees that were retired. No step is open any more. */
static void put_off_carry_out(dao_planned_t *planned)
{
    for (size_t i = 0; i < planned->retired_count; i++) {
        dao_put_off_t *retire = &planned->retire[i];
        dao_status_t status = dao_planned_free_now(planned, retire->address, &retire->fence);
        DAO_ASSERT(status == DAO_OK); /* it lives: nobody else could free it */
        (void)status;
    }
    planned->retired_count = 0;
}

static void counts_add(dao_step_counts_t *sum, const dao_step_counts_t *counts)
{
#define COUNT_ADD(name, text) sum->name += counts->name;
    DAO_STEP_COUNTS_LIST(COUNT_ADD)
#undef COUNT_ADD
}

/* Closes the books of a step. */
static void figures_take(dao_planned_t *planned)
{
    dao_step_plan_stats_t *stats = &planned->stats;
    dao_spin_lock(&planned->lock);
    stats->latest = planned->counts;
    stats->bound_bytes = planned->recordings[planned->serial & 1].bound_bytes;
    planned->course.beside_bytes = planned->own.peak_beside_bytes;
    stats->total_bytes = dao_planned_has_window(planned)
                             ? planned->own.peak_used_bytes
                             : planned->arena.segment.size_bytes + planned->own.peak_beside_bytes;
    dao_spin_unlock(&planned->lock);
    stats->latest.minor_fault_count = dao_measure_minor_faults() - planned->fault_count;
    stats->latest.small_count = atomic_load_explicit(&planned->small_count, memory_order_relaxed);
    counts_add(&stats->all, &stats->latest);
}

/* Makes room for more where a step had too little. Without memory for it the next one lacks it, too. */
static void room_make(dao_planned_t *planned)
{
    uint32_t wanted = 2 * planned->config.allocation_count;
    if (planned->stats.latest.dropped_count == 0 || wanted > DAO_LIFETIME_COUNT_MAX) {
        return;
    }
    dao_lifetimes_t larger[2] = {0};
    if (dao_lifetimes_init(&larger[0], wanted) == DAO_OK &&
        dao_lifetimes_init(&larger[1], wanted) == DAO_OK) {
        dao_spin_lock(&planned->lock);
        for (int i = 0; i < 2; i++) {
            dao_lifetimes_t before = planned->recordings[i];
            planned->recordings[i] = larger[i];
            larger[i] = before;
        }
        (void)dao_block_map_reserve(&planned->tracked, wanted); /* else it grows when it has to */
        dao_spin_unlock(&planned->lock);
        planned->config.allocation_count = wanted;
    }
    dao_lifetimes_finish(&larger[0]);
    dao_lifetimes_finish(&larger[1]);
}

/* Tells whether the program has left the plan in the step that ended, so that the plan costs the place
   memory. */
static bool has_left(dao_planned_t *planned)
{
    const dao_step_counts_t *counts = &planned->stats.latest;
    if (planned->config.trusts_program) {
        return false;
    }
    if (needs_proof(planned) && (planned->is_astray || planned->has_grown)) {
        return true;
    }
    uint64_t other_count = counts->request_count - counts->hit_count;
    return other_count > counts->request_count / LEFT_PART && dao_planned_window_costs(planned);
}

/* Looks at how a step was served; tells whether it should be learnt. */
static bool judge(dao_planned_t *planned)
{
    dao_course_t *course = &planned->course;
    const dao_step_counts_t *counts = &planned->stats.latest;
    bool is_served = planned->served.script != NULL && dao_planned_has_arena(planned);
    if (counts->request_count == 0 || counts->dropped_count > 0) {
        return false;
    }
    uint64_t other_count = counts->request_count - counts->hit_count;
    planned->is_unsure = other_count > counts->request_count / GOOD_PART_REQUESTS;
    bool is_poor = is_served && counts->planned_bytes < counts->requested_bytes / 2;
    course->poor_run = is_poor ? course->poor_run + 1 : 0;
    if (course->leaving_until > 0 || course->poor_run >= POOR_RUN || (is_served && has_left(planned))) {
        leave(planned);
        return false;
    }
    bool is_good =
        !planned->is_unsure && course->beside_bytes <= planned->arena.segment.size_bytes / GOOD_PART_BYTES;
    bool lacks_arena = planned->served.arena_bytes > 0 && !dao_planned_has_arena(planned);
    return !(is_served && is_good) && !lacks_arena && !has_stopped(planned, 0) && is_recorded(planned) &&
           planned->learning == NULL && planned->number >= course->next_learn;
}

/* Ends a step that is open; gives what somebody has to start, with a reference for whom does. */
static dao_learning_t *step_close(dao_planned_t *planned)
{
    dao_spin_lock(&planned->lock);
    atomic_store_explicit(&planned->is_open, false, memory_order_relaxed);
    dao_spin_unlock(&planned->lock);
    put_off_carry_out(planned);
    figures_take(planned);
    if (judge(planned)) {
        learn_and_ask(planned);
    } else if (planned->learnt != NULL && has_stopped(planned, 0)) { /* there will be nothing better */
        dao_script_t *script = planned->learnt;
        planned->learnt = NULL;
        planned->stats.failed_count += learning_create(planned, script) != DAO_OK;
    }
    room_make(planned);
    dao_planned_excess_give(planned);
    dao_planned_shadow_fit(planned);
    if (planned->learning == NULL || !planned->learning->is_under_way ||
        planned->learning->reference_count > 1) {
        return NULL;
    }
    planned->learning->reference_count++;
    return planned->learning;
}

dao_status_t dao_planned_end(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_learning_t *learning = NULL;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    dao_planned_boundary_lock(planned);
    if (planned->depth == 0) {
        dao_planned_boundary_unlock(planned);
        return dao_error(DAO_ERR_INVALID, "%s: a step ends, but none has begun", planned->name);
    }
    if (--planned->depth == 0) {
        planned->stats.step_count++;
        if (atomic_load_explicit(&planned->is_open, memory_order_relaxed)) {
            learning = step_close(planned);
        } else { /* it passed by, or does since its middle */
            planned->stats.latest = (dao_step_counts_t){0};
            planned->stats.bound_bytes = planned->stats.total_bytes = 0;
        }
    }
    dao_planned_boundary_unlock(planned);
    if (learning != NULL) {
        learning_start(planned, learning);
    }
    (void)dao_error_restore(&record); /* what failed on the way is no failure of this call */
    return DAO_OK;
}

/* ---- control ---- */

void dao_planned_enable(dao_allocator_t *allocator, bool is_enabled)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    planned->is_enabled = is_enabled;
    if (!is_enabled && atomic_load_explicit(&planned->is_open, memory_order_relaxed)) {
        dao_spin_lock(&planned->lock);
        atomic_store_explicit(&planned->is_open, false, memory_order_relaxed);
        dao_lifetimes_clear(&planned->recordings[planned->serial & 1], 0); /* half a step is not learnt */
        dao_spin_unlock(&planned->lock);
        put_off_carry_out(planned);
    }
    if (!is_enabled) {
        dao_planned_shadow_fit(planned);
    }
    dao_planned_boundary_unlock(planned);
}

dao_status_t dao_planned_wait(dao_allocator_t *allocator, uint64_t timeout_ns)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    uint64_t now_ns = dao_clock_ns();
    uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
    bool is_late = false;
    dao_planned_boundary_lock(planned);
    dao_learning_t *learning = planned->learning;
    if (learning != NULL) {
        learning->reference_count++;
        while (learning->is_under_way && !is_late) {
            is_late = !dao_cond_wait_until(&planned->changed, &planned->border, until_ns);
        }
        is_late = learning->is_under_way;
        dao_planned_boundary_unlock(planned);
        now_ns = dao_clock_ns();
        if (!is_late && learning->planner != NULL) {
            uint64_t rest_ns = until_ns == UINT64_MAX ? UINT64_MAX
                               : until_ns > now_ns    ? until_ns - now_ns
                                                      : 0;
            is_late = dao_planner_wait(learning->planner, rest_ns) == DAO_ERR_NOT_READY;
        }
        dao_planned_boundary_lock(planned);
        learning_release(learning);
    }
    dao_planned_boundary_unlock(planned);
    return is_late ? dao_error(DAO_ERR_NOT_READY, "%s: a plan is still being made", planned->name) : DAO_OK;
}

/* Refuses what is for the time between steps, while nobody learns. */
static dao_status_t check_idle(const dao_planned_t *planned, const char *what)
{
    if (planned->depth > 0) {
        return dao_error(DAO_ERR_BUSY, "%s: %s within a step", planned->name, what);
    }
    return planned->learning != NULL
               ? dao_error(DAO_ERR_BUSY, "%s: %s while a plan is being made", planned->name, what)
               : DAO_OK;
}

/* Forgets what was learnt, and lets a script serve. */
static dao_status_t start_over(dao_planned_t *planned, dao_script_t *script)
{
    dao_status_t status = serve(planned, script);
    if (status == DAO_OK) {
        dao_script_destroy(planned->learnt);
        planned->learnt = NULL;
        planned->course = (dao_course_t){.learnt_count = script != NULL};
        planned->arena_retry = 0;
        planned->arena_gap = 1;
        dao_spin_lock(&planned->lock);
        dao_lifetimes_clear(&planned->recordings[0], 0);
        dao_lifetimes_clear(&planned->recordings[1], 0);
        dao_spin_unlock(&planned->lock);
    }
    return status;
}

dao_status_t dao_planned_reset(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    learning_adopt(planned);
    dao_status_t status = check_idle(planned, "dao_step_plan_reset()");
    if (status == DAO_OK) {
        status = start_over(planned, NULL);
        dao_planned_shadow_fit(planned);
        (void)dao_planned_arena_give(planned); /* else it goes when it is empty, at a border */
    }
    dao_planned_boundary_unlock(planned);
    return status;
}

dao_status_t dao_planned_save(dao_allocator_t *allocator, dao_write_t write, void *user)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    dao_status_t status = DAO_OK;
    if (planned->depth > 0) {
        status = dao_error(DAO_ERR_BUSY, "%s: dao_step_plan_save() within a step", planned->name);
    } else {
        learning_adopt(planned);
        status = planned->served.script != NULL
                     ? dao_script_write(planned->served.script, write, user)
                     : dao_error(DAO_ERR_NOT_READY, "%s: there is no plan yet", planned->name);
    }
    dao_planned_boundary_unlock(planned);
    return status;
}

dao_status_t dao_planned_load(dao_allocator_t *allocator, const char *text, size_t text_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_script_t *script;
    dao_status_t status = dao_script_read(text, text_bytes, &script);
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", planned->name);
        return status;
    }
    dao_planned_boundary_lock(planned);
    learning_adopt(planned);
    status = check_idle(planned, "dao_step_plan_load()");
    if (status == DAO_OK) {
        status = start_over(planned, script);
    } else {
        dao_script_destroy(script);
    }
    dao_planned_boundary_unlock(planned);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling a plan: in which order things are queued, and who lies where a thing puts its bytes.

   The places of a step are played twice around, since a step ends as it starts: what lies somewhere stays
   there until a thing that needs some of its bytes takes them; then it is on that thing's list of drops. A
   kernel takes the places of its operands that are not there yet, and its workspace.

       things   in A    kernel 0   out B   in C     ...
       drops    -       -          -       B, D              C lands where B and D lay */
#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/executor/learned/course.h"

/* The list of drops at first. */
#define DROPS_AT_FIRST 64u

/* Who lies where. */
typedef struct places {
    const dao_swap_problem_t *problem;
    dao_course_t *course;
    uint64_t *addresses; /* of each role; DAO_COURSE_NOWHERE */
    uint32_t *lying;     /* roles that lie somewhere, in any order */
    uint32_t *positions; /* of each of these roles: its place in `lying` */
    uint32_t lying_count;
    uint32_t drop_count, drop_capacity;
    bool is_noting; /* drops are written down */
    bool has_no_memory;
} places_t;

static void note_drop(places_t *places, uint32_t role)
{
    dao_course_t *course = places->course;
    if (places->drop_count == places->drop_capacity) {
        uint32_t capacity = places->drop_capacity == 0 ? DROPS_AT_FIRST : 2 * places->drop_capacity;
        uint32_t *drops = dao_host_realloc(course->drops, capacity, sizeof(*drops));
        if (drops == NULL) {
            places->has_no_memory = true;
            return;
        }
        course->drops = drops;
        places->drop_capacity = capacity;
    }
    course->drops[places->drop_count++] = role;
}

static void remove_place(places_t *places, uint32_t role)
{
    uint32_t last = places->lying[--places->lying_count];
    places->lying[places->positions[role]] = last;
    places->positions[last] = places->positions[role];
    places->addresses[role] = DAO_COURSE_NOWHERE;
    if (places->is_noting) {
        note_drop(places, role);
    }
}

/* Whoever has some of these bytes leaves. */
static void clear(places_t *places, uint64_t address, uint64_t size_bytes)
{
    for (uint32_t i = places->lying_count; i-- > 0;) {
        uint32_t role = places->lying[i];
        if (places->addresses[role] < address + size_bytes &&
            address < places->addresses[role] + places->problem->tensors[role].size_bytes) {
            remove_place(places, role);
        }
    }
}

static void take_place(places_t *places, uint32_t role, uint64_t address)
{
    if (places->addresses[role] == address) {
        return;
    }
    if (places->addresses[role] != DAO_COURSE_NOWHERE) {
        remove_place(places, role);
    }
    clear(places, address, places->problem->tensors[role].size_bytes);
    places->addresses[role] = address;
    places->positions[role] = places->lying_count;
    places->lying[places->lying_count++] = role;
}

static void play_kernel(places_t *places, uint32_t index, uint32_t *next_use)
{
    const dao_swap_kernel_t *kernel = &places->problem->kernels[index];
    const dao_swap_schedule_t *schedule = places->course->schedule;
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        take_place(places, kernel->uses[i].tensor, schedule->use_address[(*next_use)++]);
    }
    if (kernel->workspace_bytes > 0) {
        clear(places, schedule->workspace_address[index], kernel->workspace_bytes);
    }
}

static void play_step(places_t *places)
{
    dao_course_t *course = places->course;
    uint32_t next_use = 0;
    for (uint32_t i = 0; i < course->order.count; i++) {
        dao_order_thing_t thing = course->order.things[i];
        const dao_swap_copy_t *copy = dao_order_copy(course->schedule, thing);
        course->drop_first[i] = places->drop_count;
        if (copy == NULL) {
            play_kernel(places, thing.index, &next_use);
        } else if (copy->is_in) {
            take_place(places, copy->tensor, copy->address_bytes);
        }
    }
    course->drop_first[course->order.count] = places->drop_count;
}

/* Tensors move as a whole, each direction has its lane, and what is on the device as the step starts is there
   as it ends. */
static bool can_be_followed(const places_t *places)
{
    const dao_course_t *course = places->course;
    for (uint32_t i = 0; i < course->order.count; i++) {
        dao_order_thing_t thing = course->order.things[i];
        const dao_swap_copy_t *copy = dao_order_copy(course->schedule, thing);
        dao_swap_lane_t lane = dao_order_lanes[thing.lane];
        bool is_in_lane = lane == DAO_SWAP_LANE_HOST_IN || lane == DAO_SWAP_LANE_FILE_IN;
        if (copy != NULL && (copy->is_in != is_in_lane || copy->offset_bytes != 0 ||
                             copy->size_bytes != places->problem->tensors[copy->tensor].size_bytes)) {
            return false;
        }
    }
    for (uint32_t role = 0; role < course->role_count; role++) {
        uint64_t start = course->roles[role].start_address;
        if (start != DAO_COURSE_NOWHERE && start != places->addresses[role]) {
            return false;
        }
    }
    return true;
}

static bool places_init(places_t *places, const dao_swap_problem_t *problem, dao_course_t *course)
{
    size_t count = (size_t)problem->tensor_count + 1;
    *places = (places_t){.problem = problem, .course = course};
    places->addresses = dao_host_calloc(count, sizeof(*places->addresses));
    places->lying = dao_host_calloc(count, sizeof(*places->lying));
    places->positions = dao_host_calloc(count, sizeof(*places->positions));
    if (places->addresses == NULL || places->lying == NULL || places->positions == NULL) {
        return false;
    }
    for (uint32_t role = 0; role < problem->tensor_count; role++) {
        places->addresses[role] = DAO_COURSE_NOWHERE;
    }
    return true;
}

static void places_finish(places_t *places)
{
    dao_host_free(places->addresses);
    dao_host_free(places->lying);
    dao_host_free(places->positions);
}

static dao_status_t no_memory(void)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to compile a step's plan");
}

static dao_status_t find_drops(const dao_swap_problem_t *problem, dao_course_t *course)
{
    places_t places;
    dao_status_t status = DAO_OK;
    if (!places_init(&places, problem, course)) {
        status = no_memory();
    } else {
        for (uint32_t role = 0; role < course->role_count; role++) {
            if (course->roles[role].start_address != DAO_COURSE_NOWHERE) {
                take_place(&places, role, course->roles[role].start_address);
            }
        }
        play_step(&places);
        places.is_noting = true;
        play_step(&places);
        status = places.has_no_memory ? no_memory() : DAO_OK;
        if (status == DAO_OK && !can_be_followed(&places)) {
            status = dao_error(DAO_ERR_UNSUPPORTED,
                               "the plan moves parts of tensors or does not end as it starts");
        }
    }
    places_finish(&places);
    return status;
}

static void describe_roles(const dao_swap_problem_t *problem, dao_course_t *course)
{
    const dao_swap_schedule_t *schedule = course->schedule;
    for (uint32_t role = 0; role < course->role_count; role++) {
        course->roles[role] = (dao_course_role_t){.size_bytes = problem->tensors[role].size_bytes,
                                                  .start_address = DAO_COURSE_NOWHERE};
    }
    for (uint32_t i = 0; i < schedule->resident_count; i++) {
        course->roles[schedule->residents[i].tensor].start_address = schedule->residents[i].address_bytes;
    }
    for (uint32_t i = 0; i < course->order.count; i++) {
        const dao_swap_copy_t *copy = dao_order_copy(schedule, course->order.things[i]);
        if (copy != NULL && !copy->is_file) {
            course->roles[copy->tensor].needs_slot = true;
        }
    }
}

/* With a file the host waits for writes, and the plan's times say what should not wait with it. */
static dao_status_t find_order(const dao_swap_problem_t *problem, dao_course_t *course)
{
    const dao_swap_schedule_t *schedule = course->schedule;
    dao_order_times_t times = {.memory = NULL};
    bool has_writes = schedule->copy_count[DAO_SWAP_LANE_FILE_OUT] > 0;
    dao_status_t status = has_writes ? dao_order_times_init(&times, schedule, problem) : DAO_OK;
    if (status == DAO_OK) {
        status = dao_order_init(&course->order, schedule, problem->kernel_count, has_writes ? &times : NULL);
    }
    dao_order_times_finish(&times);
    return status;
}

static dao_status_t compile(const dao_swap_problem_t *problem, dao_course_t *course)
{
    dao_status_t status = find_order(problem, course);
    if (status != DAO_OK) {
        return status;
    }
    course->role_count = problem->tensor_count;
    course->roles = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*course->roles));
    course->drop_first = dao_host_calloc((size_t)course->order.count + 1, sizeof(*course->drop_first));
    course->sequences = dao_host_calloc(2 * (size_t)course->order.count + 1, sizeof(*course->sequences));
    if (course->roles == NULL || course->drop_first == NULL || course->sequences == NULL) {
        return no_memory();
    }
    describe_roles(problem, course);
    return find_drops(problem, course);
}

dao_status_t dao_course_create(const dao_swap_problem_t *problem, bool (*is_cancelled)(void *user),
                               void *user, dao_course_t **out_course)
{
    const dao_swap_plan_config_t whole = {
        .grain = DAO_SWAP_GRAIN_WHOLE, .is_cancelled = is_cancelled, .cancel_user = user};
    dao_swap_bound_t bound;
    dao_course_t *course = dao_host_calloc(1, sizeof(*course));
    if (course == NULL) {
        return no_memory();
    }
    dao_status_t status = dao_swap_find_bound(problem, &bound);
    status = status == DAO_OK ? dao_swap_plan_make(problem, &whole, &course->plan) : status;
    if (status == DAO_OK) {
        course->schedule = dao_swap_plan_schedule(course->plan);
        course->bound_ns = bound.step_ns;
        course->basis = (dao_course_basis_t){
            .compute_ns = bound.compute_ns, .host = problem->host, .file = problem->file};
        status = compile(problem, course);
    }
    if (status != DAO_OK) {
        dao_course_destroy(course);
        return status;
    }
    *out_course = course;
    return DAO_OK;
}

void dao_course_destroy(dao_course_t *course)
{
    if (course == NULL) {
        return;
    }
    dao_order_finish(&course->order);
    dao_host_free(course->drop_first);
    dao_host_free(course->drops);
    dao_host_free(course->sequences);
    dao_host_free(course->roles);
    dao_swap_plan_destroy(course->plan);
    dao_host_free(course);
}

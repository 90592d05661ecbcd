/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling a plan: in which order operations are issued, and which tensors lie where an operation puts
   its bytes.

   The places of a step are played twice around, since a step ends as it starts. A tensor stays at its
   address until an operation needs some of its bytes; then it is on that operation's list of drops. A
   kernel takes the places of its operands that are not there yet, and its workspace.

       operations   in A    kernel 0   out B   in C     ...
       drops        -       -          -       B, D              C lands where B and D were

   A place of a plan with pages is at an address of the arena, or in whole pages of it behind addresses of the
   plan. Two places may be behind different addresses and share a page.

   Invariants: the tensors in `lying` share no byte of the arena, so no page has two stays at a time;
   lying[positions[role]] == role exactly for those with an address; page_roles[page] - 1 is the role in pages
   that has a page, if one has. */
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/plans/plan_follow.h"

/* The list of drops at first. */
#define DROPS_AT_FIRST 64u

/* Which tensor lies where. */
typedef struct places {
    const dao_swap_problem_t *problem;
    dao_compiled_plan_t *plan;
    uint64_t *addresses; /* of each role; DAO_PLAN_NOWHERE */
    uint32_t *lying;     /* roles that lie somewhere, in any order */
    uint32_t *positions; /* of each of these roles: its place in `lying` */
    uint32_t lying_count;
    uint32_t *page_roles; /* of each page of the arena; 0: no tensor in pages has it */
    uint32_t page_max;    /* pages of the arena, a begun one too; 0: the plan has none */
    uint32_t drop_count, drop_capacity;
    bool is_noting; /* drops are written down */
    bool has_no_memory;
} places_t;

static bool is_in_pages(const places_t *places, uint64_t address)
{
    const dao_swap_schedule_t *schedule = places->plan->schedule;
    return schedule->page_bytes != 0 && address >= schedule->paged_begin;
}

/* The pages of the arena behind addresses of the plan's pages. */
static const uint32_t *pages_at(const places_t *places, uint64_t address, uint64_t size_bytes,
                                uint32_t *out_count)
{
    const dao_swap_schedule_t *schedule = places->plan->schedule;
    uint64_t page = (address - schedule->paged_begin) / schedule->page_bytes;
    *out_count = (uint32_t)(dao_round_up(size_bytes, schedule->page_bytes) / schedule->page_bytes);
    DAO_ASSERT((address - schedule->paged_begin) % schedule->page_bytes == 0);
    DAO_ASSERT(page + *out_count <= schedule->page_count);
    return schedule->pages + page;
}

static const uint32_t *pages_of(const places_t *places, uint32_t role, uint32_t *out_count)
{
    return pages_at(places, places->addresses[role], places->problem->tensors[role].size_bytes, out_count);
}

/* Returns true if a tensor in pages has a page that some of these bytes of the arena are in. */
static bool has_paged(const places_t *places, uint64_t address, uint64_t size_bytes)
{
    uint64_t page_bytes = places->plan->schedule->page_bytes;
    for (uint64_t page = address / page_bytes; page <= (address + size_bytes - 1) / page_bytes; page++) {
        if (places->page_roles[page] != 0) {
            return true;
        }
    }
    return false;
}

/* A tensor in pages has all of them; none at an address of the arena reaches into a page of another one. */
static bool has_its_pages(const places_t *places, uint32_t role)
{
    if (!is_in_pages(places, places->addresses[role])) {
        return places->page_max == 0 ||
               !has_paged(places, places->addresses[role], places->problem->tensors[role].size_bytes);
    }
    uint32_t count = 0;
    const uint32_t *pages = pages_of(places, role, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (places->page_roles[pages[i]] != role + 1) {
            return false;
        }
    }
    return true;
}

/* The tensors in `lying` share no byte of the arena, and are exactly those with an address. */
static bool places_are_valid(const places_t *places)
{
    uint32_t count = 0;
    for (uint32_t role = 0; role < places->problem->tensor_count; role++) {
        count += places->addresses[role] != DAO_PLAN_NOWHERE ? 1 : 0;
    }
    for (uint32_t i = 0; i < places->lying_count; i++) {
        uint32_t a = places->lying[i];
        if (places->positions[a] != i || places->addresses[a] == DAO_PLAN_NOWHERE ||
            !has_its_pages(places, a)) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            uint32_t b = places->lying[k];
            if (places->addresses[a] < places->addresses[b] + places->problem->tensors[b].size_bytes &&
                places->addresses[b] < places->addresses[a] + places->problem->tensors[a].size_bytes) {
                return false;
            }
        }
    }
    return count == places->lying_count;
}

static void note_drop(places_t *places, uint32_t role)
{
    dao_compiled_plan_t *plan = places->plan;
    if (places->drop_count == places->drop_capacity) {
        uint32_t capacity = places->drop_capacity == 0 ? DROPS_AT_FIRST : 2 * places->drop_capacity;
        uint32_t *drops = dao_host_realloc(plan->drops, capacity, sizeof(*drops));
        if (drops == NULL) {
            places->has_no_memory = true;
            return;
        }
        plan->drops = drops;
        places->drop_capacity = capacity;
    }
    plan->drops[places->drop_count++] = role;
}

static void set_pages(places_t *places, uint32_t role, uint32_t owner)
{
    uint32_t count = 0;
    const uint32_t *pages = pages_of(places, role, &count);
    for (uint32_t i = 0; i < count; i++) {
        DAO_ASSERT(pages[i] < places->page_max);
        DAO_ASSERT(owner == 0 ? places->page_roles[pages[i]] == role + 1 : places->page_roles[pages[i]] == 0);
        places->page_roles[pages[i]] = owner;
    }
}

static void remove_place(places_t *places, uint32_t role)
{
    DAO_ASSERT(places->lying_count > 0);
    DAO_ASSERT(places->addresses[role] != DAO_PLAN_NOWHERE);
    DAO_ASSERT(places->lying[places->positions[role]] == role);
    if (is_in_pages(places, places->addresses[role])) {
        set_pages(places, role, 0);
    }
    uint32_t last = places->lying[--places->lying_count];
    places->lying[places->positions[role]] = last;
    places->positions[last] = places->positions[role];
    places->addresses[role] = DAO_PLAN_NOWHERE;
    if (places->is_noting) {
        note_drop(places, role);
    }
}

/* Removes the tensors that have these pages of the arena. */
static void clear_paged(places_t *places, uint32_t first_page, uint32_t page_count)
{
    for (uint32_t i = 0; i < page_count; i++) {
        if (places->page_roles[first_page + i] != 0) {
            remove_place(places, places->page_roles[first_page + i] - 1);
        }
    }
}

/* Removes all tensors that have some of these bytes of the arena. */
static void clear(places_t *places, uint64_t address, uint64_t size_bytes)
{
    for (uint32_t i = places->lying_count; i-- > 0;) {
        uint32_t role = places->lying[i];
        if (places->addresses[role] < address + size_bytes &&
            address < places->addresses[role] + places->problem->tensors[role].size_bytes) {
            remove_place(places, role);
        }
    }
    if (places->page_max > 0) {
        uint64_t page_bytes = places->plan->schedule->page_bytes, first_page = address / page_bytes;
        clear_paged(places, (uint32_t)first_page,
                    (uint32_t)((address + size_bytes - 1) / page_bytes - first_page + 1));
    }
}

/* The same for addresses of the plan, which may be of its pages. */
static void clear_place(places_t *places, uint64_t address, uint64_t size_bytes)
{
    if (!is_in_pages(places, address)) {
        clear(places, address, size_bytes);
        return;
    }
    uint64_t page_bytes = places->plan->schedule->page_bytes;
    uint32_t page_count = 0;
    const uint32_t *pages = pages_at(places, address, size_bytes, &page_count);
    for (uint32_t i = 0; i < page_count;) {
        uint32_t run = 1;
        while (i + run < page_count && pages[i + run] == pages[i] + run) {
            run++;
        }
        clear(places, pages[i] * page_bytes, run * page_bytes);
        i += run;
    }
}

static void take_place(places_t *places, uint32_t role, uint64_t address)
{
    if (places->addresses[role] == address) {
        return;
    }
    if (places->addresses[role] != DAO_PLAN_NOWHERE) {
        remove_place(places, role);
    }
    clear_place(places, address, places->problem->tensors[role].size_bytes);
    places->addresses[role] = address;
    if (is_in_pages(places, address)) {
        set_pages(places, role, role + 1);
    }
    places->positions[role] = places->lying_count;
    DAO_ASSERT(places->lying_count < places->problem->tensor_count);
    places->lying[places->lying_count++] = role;
}

static void play_kernel(places_t *places, uint32_t index, uint32_t *next_use)
{
    const dao_swap_kernel_t *kernel = &places->problem->kernels[index];
    const dao_swap_schedule_t *schedule = places->plan->schedule;
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        take_place(places, kernel->uses[i].tensor, schedule->use_address[(*next_use)++]);
    }
    if (kernel->workspace_bytes > 0) {
        clear_place(places, schedule->workspace_address[index], kernel->workspace_bytes);
    }
}

static void play_step(places_t *places)
{
    dao_compiled_plan_t *plan = places->plan;
    uint32_t next_use = 0;
    DAO_ASSERT_HEAVY(places_are_valid(places));
    for (uint32_t i = 0; i < plan->order.count; i++) {
        dao_issue_operation_t operation = plan->order.operations[i];
        const dao_swap_copy_t *copy = dao_issue_order_copy(plan->schedule, operation);
        plan->drop_first[i] = places->drop_count;
        if (copy == NULL) {
            play_kernel(places, operation.index, &next_use);
        } else if (copy->is_in) {
            take_place(places, copy->tensor, copy->address_bytes);
        }
    }
    plan->drop_first[plan->order.count] = places->drop_count;
    DAO_ASSERT_HEAVY(places_are_valid(places));
}

/* Tensors move as a whole, each direction has its stream, and what is on the device as the step starts is
   there as it ends. */
static bool can_be_followed(const places_t *places)
{
    const dao_compiled_plan_t *plan = places->plan;
    for (uint32_t i = 0; i < plan->order.count; i++) {
        dao_issue_operation_t operation = plan->order.operations[i];
        const dao_swap_copy_t *copy = dao_issue_order_copy(plan->schedule, operation);
        dao_swap_stream_t stream = dao_issue_order_streams[operation.stream];
        bool is_in_stream = stream == DAO_SWAP_STREAM_HOST_IN || stream == DAO_SWAP_STREAM_FILE_IN;
        if (copy != NULL && (copy->is_in != is_in_stream || copy->offset_bytes != 0 ||
                             copy->size_bytes != places->problem->tensors[copy->tensor].size_bytes)) {
            return false;
        }
    }
    for (uint32_t role = 0; role < plan->role_count; role++) {
        uint64_t start = plan->roles[role].start_address;
        if (start != DAO_PLAN_NOWHERE && start != places->addresses[role]) {
            return false;
        }
    }
    return true;
}

static bool places_init(places_t *places, const dao_swap_problem_t *problem, dao_compiled_plan_t *plan)
{
    size_t count = (size_t)problem->tensor_count + 1;
    *places = (places_t){.problem = problem, .plan = plan};
    places->addresses = dao_host_calloc(count, sizeof(*places->addresses));
    places->lying = dao_host_calloc(count, sizeof(*places->lying));
    places->positions = dao_host_calloc(count, sizeof(*places->positions));
    if (plan->schedule->page_count > 0) {
        places->page_max = dao_compiled_plan_page_max(plan);
    }
    places->page_roles = dao_host_calloc((size_t)places->page_max + 1, sizeof(*places->page_roles));
    if (places->addresses == NULL || places->lying == NULL || places->positions == NULL ||
        places->page_roles == NULL) {
        return false;
    }
    for (uint32_t role = 0; role < problem->tensor_count; role++) {
        places->addresses[role] = DAO_PLAN_NOWHERE;
    }
    return true;
}

static void places_finish(places_t *places)
{
    dao_host_free(places->addresses);
    dao_host_free(places->lying);
    dao_host_free(places->positions);
    dao_host_free(places->page_roles);
}

static dao_status_t no_memory(void)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to compile a step's plan");
}

static dao_status_t find_drops(const dao_swap_problem_t *problem, dao_compiled_plan_t *plan)
{
    places_t places;
    dao_status_t status = DAO_OK;
    if (!places_init(&places, problem, plan)) {
        status = no_memory();
    } else {
        for (uint32_t role = 0; role < plan->role_count; role++) {
            if (plan->roles[role].start_address != DAO_PLAN_NOWHERE) {
                take_place(&places, role, plan->roles[role].start_address);
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

static void describe_roles(const dao_swap_problem_t *problem, dao_compiled_plan_t *plan)
{
    const dao_swap_schedule_t *schedule = plan->schedule;
    for (uint32_t role = 0; role < plan->role_count; role++) {
        plan->roles[role] = (dao_plan_role_t){.size_bytes = problem->tensors[role].size_bytes,
                                              .start_address = DAO_PLAN_NOWHERE};
    }
    for (uint32_t i = 0; i < schedule->resident_count; i++) {
        plan->roles[schedule->residents[i].tensor].start_address = schedule->residents[i].address_bytes;
    }
    for (uint32_t i = 0; i < plan->order.count; i++) {
        const dao_swap_copy_t *copy = dao_issue_order_copy(schedule, plan->order.operations[i]);
        if (copy != NULL && !copy->is_file) {
            plan->roles[copy->tensor].needs_slot = true;
        }
    }
}

/* With a file the host waits for writes, and the plan's times say what should not wait with it. */
static dao_status_t find_order(const dao_swap_problem_t *problem, dao_compiled_plan_t *plan)
{
    const dao_swap_schedule_t *schedule = plan->schedule;
    dao_issue_order_times_t times = {.memory = NULL};
    bool has_writes = schedule->copy_count[DAO_SWAP_STREAM_FILE_OUT] > 0;
    dao_status_t status = has_writes ? dao_issue_order_times_init(&times, schedule, problem) : DAO_OK;
    if (status == DAO_OK) {
        status = dao_issue_order_init(&plan->order, schedule, problem, has_writes ? &times : NULL);
    }
    dao_issue_order_times_finish(&times);
    return status;
}

static dao_status_t compile(const dao_swap_problem_t *problem, dao_compiled_plan_t *plan)
{
    dao_status_t status = find_order(problem, plan);
    if (status != DAO_OK) {
        return status;
    }
    plan->role_count = problem->tensor_count;
    plan->roles = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*plan->roles));
    plan->first_uses = dao_host_calloc((size_t)problem->kernel_count + 1, sizeof(*plan->first_uses));
    plan->drop_first = dao_host_calloc((size_t)plan->order.count + 1, sizeof(*plan->drop_first));
    plan->sequences = dao_host_calloc(2 * (size_t)plan->order.count + 1, sizeof(*plan->sequences));
    if (plan->roles == NULL || plan->first_uses == NULL || plan->drop_first == NULL ||
        plan->sequences == NULL) {
        return no_memory();
    }
    plan->page_marks =
        dao_host_calloc((size_t)dao_compiled_plan_page_max(plan) + 1, sizeof(*plan->page_marks));
    if (plan->page_marks == NULL) {
        return no_memory();
    }
    describe_roles(problem, plan);
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        plan->first_uses[k + 1] = plan->first_uses[k] + problem->kernels[k].use_count;
    }
    return find_drops(problem, plan);
}

/* Compiles the schedule of a problem, which may be longer than the step's. */
static dao_status_t compile_schedule(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                                     dao_compiled_plan_t *plan)
{
    plan->schedule = schedule;
    plan->basis.host = problem->host;
    plan->basis.file = problem->file;
    return compile(problem, plan);
}

/* Plans the copies alone. */
static dao_status_t make_plain(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config,
                               dao_compiled_plan_t *plan)
{
    dao_swap_bound_t bound;
    dao_status_t status = dao_swap_find_bound(problem, &bound);
    status = status == DAO_OK ? dao_swap_plan_make(problem, config, &plan->swap_plan) : status;
    if (status == DAO_OK) {
        plan->bound_ns = bound.step_ns;
        plan->basis.compute_ns = bound.compute_ns;
        status = compile_schedule(problem, dao_swap_plan_schedule(plan->swap_plan), plan);
    }
    return status;
}

/* Plans copies and runs again. */
static dao_status_t make_with_runs(const dao_swap_problem_t *problem, const dao_recompute_config_t *config,
                                   dao_compiled_plan_t *plan)
{
    dao_recompute_plan_t *made = NULL;
    dao_recompute_bound_t bound;
    dao_status_t status = dao_recompute_find_bound(problem, &bound);
    status = status == DAO_OK ? dao_recompute_plan_make(problem, config, &made) : status;
    if (status != DAO_OK) {
        return status;
    }
    plan->bound_ns = bound.step_ns;
    plan->basis.compute_ns = bound.compute_ns;
    const dao_swap_problem_t *longer = &dao_recompute_plan_step(made)->problem;
    status = compile_schedule(longer, dao_recompute_plan_schedule(made), plan);
    if (status != DAO_OK) {
        dao_recompute_plan_destroy(made);
        return status;
    }
    return dao_plan_runs_init(&plan->runs, made, problem, &plan->order);
}

/* The step with those kernels repeatable that the executor can run again; NULL without memory. */
static dao_swap_kernel_t *find_repeatable(const dao_swap_problem_t *problem, uint32_t *out_count)
{
    dao_swap_kernel_t *kernels = dao_host_calloc(problem->kernel_count, sizeof(*kernels));
    uint32_t *writer_counts = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*writer_counts));
    *out_count = 0;
    if (kernels == NULL || writer_counts == NULL) {
        dao_host_free(kernels);
        dao_host_free(writer_counts);
        return NULL;
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        for (uint32_t i = 0; i < problem->kernels[k].use_count; i++) {
            const dao_swap_use_t *use = &problem->kernels[k].uses[i];
            writer_counts[use->tensor] += use->access != DAO_ACCESS_READ ? 1 : 0;
        }
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        kernels[k] = problem->kernels[k];
        kernels[k].is_repeatable = dao_plan_runs_may_repeat(problem, k, writer_counts);
        *out_count += kernels[k].is_repeatable ? 1 : 0;
    }
    dao_host_free(writer_counts);
    return kernels;
}

static dao_status_t make(const dao_swap_problem_t *problem, const dao_recompute_config_t *config,
                         bool with_runs, dao_compiled_plan_t **out_plan)
{
    dao_compiled_plan_t *plan = dao_host_calloc(1, sizeof(*plan));
    if (plan == NULL) {
        return no_memory();
    }
    dao_status_t status =
        with_runs ? make_with_runs(problem, config, plan) : make_plain(problem, &config->swap, plan);
    if (status != DAO_OK) {
        dao_compiled_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}

dao_status_t dao_compiled_plan_create(const dao_swap_problem_t *problem, const dao_recompute_config_t *config,
                                      dao_compiled_plan_t **out_plan)
{
    dao_recompute_config_t whole = *config;
    whole.swap.granularity = DAO_SWAP_GRANULARITY_WHOLE;
    bool copies = config->mode != DAO_RECOMPUTE_MODE_ONLY;
    uint32_t repeatable_count = 0;
    dao_swap_problem_t repeating = *problem;
    dao_swap_kernel_t *kernels = find_repeatable(problem, &repeatable_count);
    if (kernels == NULL) {
        return no_memory();
    }
    repeating.kernels = kernels;
    dao_status_t status = DAO_ERR_UNSUPPORTED;
    if (!copies || (repeatable_count > 0 && config->swap.work_limit != DAO_COMPILED_PLAN_FIRST)) {
        status = make(&repeating, &whole, true, out_plan);
    }
    if (copies && status == DAO_ERR_UNSUPPORTED) { /* none runs again, or not so that it can be followed */
        status = make(problem, &whole, false, out_plan);
    }
    dao_host_free(kernels);
    return status;
}

void dao_compiled_plan_destroy(dao_compiled_plan_t *plan)
{
    if (plan == NULL) {
        return;
    }
    if (plan->window != NULL && plan->window->map.begin_bytes != 0) {
        plan->window->is_retired = true; /* the arena has it, as long as somebody uses it */
    } else {
        dao_device_window_destroy(plan->window);
    }
    dao_issue_order_finish(&plan->order);
    dao_host_free(plan->first_uses);
    dao_host_free(plan->drop_first);
    dao_host_free(plan->drops);
    dao_host_free(plan->sequences);
    dao_host_free(plan->page_marks);
    dao_host_free(plan->roles);
    dao_plan_runs_finish(&plan->runs);
    dao_swap_plan_destroy(plan->swap_plan);
    dao_host_free(plan);
}

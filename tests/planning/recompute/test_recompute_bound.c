/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a step that copies and runs kernels again: against the best of all schedules of tiny steps,
   its windows against their definition, and where it is known. */
#include "base/report/fault.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/recompute.h>

#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000u

static swap_step_box_t box;

static dao_recompute_bound_t bound_of(void)
{
    dao_recompute_bound_t bound = {0};
    CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, &bound), DAO_OK);
    return bound;
}

static dao_swap_bound_t swap_bound_of(void)
{
    dao_swap_bound_t bound = {0};
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    return bound;
}

static void let_all_repeat(bool may)
{
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].is_repeatable = may;
    }
}

/* Gives a random step a link, a capacity between least and peak, and kernels that may repeat. */
static void set_random(uint64_t *random)
{
    box.problem.host.in_bytes_per_second = NS_PER_S;
    dao_swap_bound_t whole = swap_bound_of();
    box.problem.capacity_bytes = dao_random_between(random, whole.least_capacity_bytes, whole.peak_bytes);
    box.problem.host.duplex = dao_random_below(random, 2) == 0 ? DAO_SWAP_DUPLEX_FULL : DAO_SWAP_DUPLEX_HALF;
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].is_repeatable = dao_random_below(random, 4) != 0;
    }
}

static void without_repeatable_kernels_windows_are_those_of_swapping(void)
{
    uint64_t random = dao_test_seed("windows of swapping", 20260901);
    const swap_step_range_t range = {.tensor_max = 8, .kernel_max = 20, .size_max = 100, .time_max = 9};
    int with_windows = 0;
    for (int round = 0; round < TEST_ROUNDS(400); round++) {
        swap_step_random(&box, &range, &random);
        set_random(&random);
        let_all_repeat(false);
        dao_swap_bound_t swap = swap_bound_of();
        dao_recompute_bound_t bound = bound_of();
        CU_ASSERT_EQUAL(bound.window_ns, swap.window_ns);
        CU_ASSERT_EQUAL(bound.compute_ns, swap.compute_ns);
        CU_ASSERT_EQUAL(bound.window_kernel_count == 0, swap.window_kernel_count == 0);
        with_windows += bound.window_kernel_count != 0;
    }
    CU_ASSERT(with_windows > TEST_ROUNDS(40));
}

static void more_memory_or_runs_again_are_never_slower(void)
{
    uint64_t random = dao_test_seed("more is never slower", 20260902);
    const swap_step_range_t range = {
        .tensor_max = 16, .kernel_max = 24, .size_max = 1000, .time_max = 300, .workspace_max = 100};
    int lower = 0;
    for (int round = 0; round < TEST_ROUNDS(100); round++) {
        swap_step_random(&box, &range, &random);
        set_random(&random);
        dao_swap_bound_t whole = swap_bound_of();
        uint64_t before = UINT64_MAX;
        for (uint64_t i = 0; i <= 4; i++) {
            box.problem.capacity_bytes =
                whole.least_capacity_bytes + (whole.peak_bytes - whole.least_capacity_bytes) * i / 4;
            dao_recompute_bound_t bound = bound_of();
            CU_ASSERT(bound.window_ns <= before && bound.window_ns >= bound.compute_ns);
            CU_ASSERT(bound.window_ns <= swap_bound_of().window_ns);
            lower += bound.window_ns < swap_bound_of().window_ns;
            before = bound.window_ns;
        }
        CU_ASSERT_EQUAL(before, bound_of().compute_ns); /* all fits */
    }
    CU_ASSERT(lower > TEST_ROUNDS(40));
}

static void a_chain_runs_again_what_it_cannot_bring(void)
{
    enum { LAYERS = 50, KEPT = 20, MISSING = LAYERS - KEPT };
    swap_step_chain(&box, LAYERS, 1000, 10);
    box.problem.host.in_bytes_per_second = 10 * (uint64_t)NS_PER_S; /* a copy takes 100 ns, a kernel 10 */
    box.problem.capacity_bytes = KEPT * 1000;
    let_all_repeat(true);
    dao_recompute_bound_t bound = bound_of();
    /* The backward run takes W >= 500 + 10 y and W >= 100 (30 - y). */
    CU_ASSERT(bound.window_ns >= 1000 + 10 * (MISSING * 100 - 500) / 110);
    CU_ASSERT(bound.window_ns <= 1000 + 10 * (MISSING * 100 - 500) / 110 + 20);
    uint64_t greater_ns = bound.pair_ns > bound.window_ns ? bound.pair_ns : bound.window_ns;
    CU_ASSERT_EQUAL(bound.step_ns, bound.cut_ns > greater_ns ? bound.cut_ns : greater_ns);
    let_all_repeat(false);
    CU_ASSERT_EQUAL(bound_of().window_ns, 2 * MISSING * 100);
}

static void an_update_of_what_lives_on_never_repeats(void)
{
    swap_step_chain(&box, 4, 1000, 10);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.uses[k][box.kernels[k].use_count++] = (dao_swap_use_t){k % 2, DAO_ACCESS_READ_WRITE};
    }
    box.tensors[0].is_persistent = box.tensors[1].is_persistent = true;
    box.problem.capacity_bytes = 3000;
    dao_recompute_bound_t without = bound_of();
    let_all_repeat(true);
    dao_recompute_bound_t with = bound_of();
    CU_ASSERT_EQUAL(with.step_ns, without.step_ns);
    CU_ASSERT(with.step_ns > with.compute_ns);
}

/* ---- windows by their definition ---- */

static bool used_by(uint32_t kernel, uint32_t tensor, bool *reads, bool *writes)
{
    *reads = *writes = false;
    for (uint32_t u = 0; u < box.kernels[kernel].use_count; u++) {
        const dao_swap_use_t *use = &box.uses[kernel][u];
        *reads = *reads || (use->tensor == tensor && use->access != DAO_ACCESS_WRITE);
        *writes = *writes || (use->tensor == tensor && use->access != DAO_ACCESS_READ);
    }
    return *reads || *writes;
}

/* Bytes that a kernel may make again in a window, and how long it takes. */
typedef struct maker {
    double ns, all_bytes, bytes;
} maker_t;

static int by_density(const void *a, const void *b)
{
    const maker_t *left = a, *right = b;
    double difference = left->ns * right->all_bytes - right->ns * left->all_bytes;
    return difference < 0 ? -1 : difference > 0;
}

/* The next kernel from `kernel` + 1 on, around the step's end, that uses a tensor, and how. */
static uint32_t next_use(uint32_t kernel, uint32_t tensor, bool *reads, bool *writes)
{
    uint32_t n = box.problem.kernel_count, distance = 1;
    while (!used_by((kernel + distance) % n, tensor, reads, writes)) {
        distance++;
    }
    return distance;
}

static bool lives_on(uint32_t tensor)
{
    bool reads, writes;
    (void)next_use(box.problem.kernel_count - 1, tensor, &reads, &writes);
    return reads || box.tensors[tensor].is_persistent;
}

static bool may_run_again(uint32_t kernel)
{
    bool may = box.kernels[kernel].is_repeatable, reads, writes;
    for (uint32_t t = 0; t < box.problem.tensor_count; t++) {
        may = may && !(used_by(kernel, t, &reads, &writes) && reads && writes && lives_on(t));
    }
    return may;
}

/* Returns true if a kernel reads what `kernel` leaves in a tensor: before the step ends, or the tensor lives
   on. */
static bool is_read_behind(uint32_t kernel, uint32_t tensor)
{
    bool reads, writes;
    uint32_t distance = next_use(kernel, tensor, &reads, &writes);
    return reads && (kernel + distance < box.problem.kernel_count || lives_on(tensor));
}

/* What the writers of a window's contents may make, the kernel that takes least for a byte first. Returns the
   bytes that the window reads of before. */
static double find_makers(uint32_t start, uint32_t count, maker_t makers[32])
{
    uint32_t n = box.problem.kernel_count;
    double need = 0;
    memset(makers, 0, 32 * sizeof(*makers));
    for (uint32_t t = 0; t < box.problem.tensor_count; t++) {
        bool reads = false, writes = false;
        uint32_t first = 0, back = 0;
        double size = (double)box.tensors[t].size_bytes;
        while (first < count && !used_by((start + first) % n, t, &reads, &writes)) {
            first++;
        }
        if (first < count && reads) {
            need += size;
            for (back = 1; back <= n; back++) {
                uint32_t k = (start + n - back) % n;
                if (used_by(k, t, &reads, &writes) && writes) {
                    makers[k].bytes += may_run_again(k) ? size : 0;
                    break;
                }
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            if (used_by(k, t, &reads, &writes) && writes && is_read_behind(k, t)) {
                makers[k].all_bytes += size;
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        makers[k].ns = (double)box.kernels[k].time_ns;
        makers[k].all_bytes = makers[k].all_bytes == 0 ? 1 : makers[k].all_bytes;
    }
    qsort(makers, n, sizeof(*makers), by_density);
    return need;
}

/* Bytes that a window writes, that are read behind it, and that no kernel may make again. */
static double find_rest(uint32_t start, uint32_t count)
{
    uint32_t n = box.problem.kernel_count;
    double rest = 0;
    for (uint32_t t = 0; t < box.problem.tensor_count; t++) {
        bool reads, writes;
        for (uint32_t i = count; i-- > 0;) {
            uint32_t k = (start + i) % n;
            if (used_by(k, t, &reads, &writes) && writes) {
                uint32_t last = i, from = k; /* the use with which the window leaves the tensor */
                bool read_after = true;
                while (last < count && read_after) {
                    read_after = is_read_behind(from, t);
                    last += next_use(from, t, &reads, &writes);
                    from = (start + last) % n;
                }
                rest += read_after && !may_run_again(k) ? (double)box.tensors[t].size_bytes : 0;
                break;
            }
        }
    }
    return rest;
}

/* What a window adds to its kernels, one byte a ns. */
static double added_by_definition(uint32_t start, uint32_t count)
{
    maker_t makers[32];
    double compute_ns = 0, need = find_makers(start, count, makers) - (double)box.problem.capacity_bytes;
    double rest = find_rest(start, count) - (double)box.problem.capacity_bytes;
    bool is_half = box.problem.host.duplex == DAO_SWAP_DUPLEX_HALF;
    rest = rest > 0 ? rest : 0;
    need = need > 0 ? need : 0;
    for (uint32_t i = 0; i < count; i++) {
        compute_ns += (double)box.kernels[(start + i) % box.problem.kernel_count].time_ns;
    }
    double kernels_ns = compute_ns, fixed_ns = is_half ? rest : 0;
    for (uint32_t i = 0; i < box.problem.kernel_count && fixed_ns + need > kernels_ns; i++) {
        double density = makers[i].ns / makers[i].all_bytes;
        double part = (fixed_ns + need - kernels_ns) / (1 + density);
        part = part < makers[i].bytes ? part : makers[i].bytes;
        part = part < need ? part : need;
        need -= part;
        kernels_ns += part * density;
    }
    double least = fixed_ns + need > kernels_ns ? fixed_ns + need : kernels_ns;
    least = rest > least ? rest : least;
    return least - compute_ns;
}

static void windows_are_as_defined(void)
{
    uint64_t random = dao_test_seed("windows are as defined", 20260904);
    const swap_step_range_t range = {.tensor_max = 8, .kernel_max = 20, .size_max = 100, .time_max = 12};
    int with_windows = 0;
    for (int round = 0; round < TEST_ROUNDS(600); round++) {
        swap_step_random(&box, &range, &random);
        set_random(&random);
        uint32_t n = box.problem.kernel_count;
        uint64_t added[20][21], best = 0;
        for (uint32_t start = 0; start < n; start++) {
            for (uint32_t count = 1; count <= n; count++) {
                added[start][count] = (uint64_t)(added_by_definition(start, count) + 1e-9);
            }
        }
        for (uint32_t rotation = 0; rotation < n; rotation++) {
            uint64_t sums[21] = {0};
            for (uint32_t end = 1; end <= n; end++) {
                for (uint32_t begin = 0; begin < end; begin++) {
                    uint64_t sum = sums[begin] + added[(rotation + begin) % n][end - begin];
                    sums[end] = sum > sums[end] ? sum : sums[end];
                }
            }
            best = sums[n] > best ? sums[n] : best;
        }
        dao_recompute_bound_t bound = bound_of();
        with_windows += best != 0;
        CU_ASSERT(bound.window_ns <= bound.compute_ns + best);     /* rounded down, */
        CU_ASSERT(bound.window_ns + n >= bound.compute_ns + best); /* by less than a ns a window */
        CU_ASSERT(bound.window_added_ns <= best);
    }
    CU_ASSERT(with_windows > TEST_ROUNDS(40));
}

/* ---- the fastest of all schedules ---- */

/* A tiny step whose tensors have one byte, over a link that takes some ns a byte. Its contents are named by
   the access that writes them, and by the tensor where none does. Kernels run once in their order, and again
   in between if their inputs are as they were; one content may come in and one go out meanwhile. States are
   explored in the order of time. */
enum { TENSORS = 4, KERNELS = 8, STEPS = 2, CONTENTS = 9, SLOTS = 1 << 20, STATES = 400000, NONE = 15 };
enum { ROUNDS = TEST_ROUNDS(100), FIELD_END = 32 /* of the small fields of a state */ };

typedef struct state {
    uint32_t device, host;     /* contents */
    uint8_t done;              /* kernels that began for the first time */
    uint8_t running, left;     /* kernel that runs, once or again, and its ns left */
    uint8_t in, out;           /* contents on their way; NONE */
    uint8_t in_left, out_left; /* ns */
} state_t;

typedef struct kernel {
    uint32_t reads, writes, consumed; /* contents; those that are changed in place */
    uint8_t time_ns;
    bool may_repeat;
} kernel_t;

typedef struct explorer {
    kernel_t kernels[KERNELS];
    uint8_t writer[CONTENTS]; /* kernel; NONE */
    uint32_t kernel_count, content_count;
    uint8_t copy_ns, capacity;
    bool is_half;
    state_t list[2][STATES];
    size_t count[2];
    uint64_t seen[SLOTS]; /* keys of states, which are never 0 */
    size_t seen_count;
    bool is_full;
} explorer_t;

static explorer_t *explorer;

/* The contents of a tensor, in the order of kernels; a content that no kernel writes has no writer. */
static void add_contents_of(uint32_t tensor)
{
    uint32_t n = box.problem.kernel_count, first = explorer->content_count;
    bool reads, writes, is_first = true, is_kept = box.tensors[tensor].is_persistent;
    for (uint32_t k = 0; k < n; k++) {
        if (used_by(k, tensor, &reads, &writes)) {
            is_kept = is_kept || (is_first && reads);
            is_first = false;
            if (writes) {
                explorer->writer[explorer->content_count] = (uint8_t)k;
                explorer->kernels[k].writes |= 1u << explorer->content_count++;
            }
        }
    }
    uint32_t count = explorer->content_count - first;
    if (count == 0) {
        explorer->writer[explorer->content_count++] = NONE;
    }
    /* What the first kernel finds was written last, in the step before. */
    uint32_t current = count == 0 ? first : first + count - 1, next = first;
    for (uint32_t k = 0; k < n; k++) {
        if (used_by(k, tensor, &reads, &writes)) {
            explorer->kernels[k].reads |= reads ? 1u << current : 0;
            explorer->kernels[k].consumed |= reads && writes ? 1u << current : 0;
            explorer->kernels[k].may_repeat =
                explorer->kernels[k].may_repeat && !(reads && writes && is_kept);
            current = writes ? next++ : current;
        }
    }
}

/* Contents that no kernel writes, and writes: at least as many as there are contents. */
static uint32_t content_count_max(void)
{
    uint32_t count = box.problem.tensor_count;
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        for (uint32_t u = 0; u < box.kernels[k].use_count; u++) {
            count += box.uses[k][u].access != DAO_ACCESS_READ;
        }
    }
    return count;
}

static void explore_box(uint8_t copy_ns)
{
    memset(explorer, 0, sizeof(*explorer));
    explorer->kernel_count = box.problem.kernel_count;
    explorer->capacity = (uint8_t)box.problem.capacity_bytes;
    explorer->copy_ns = copy_ns;
    explorer->is_half = box.problem.host.duplex == DAO_SWAP_DUPLEX_HALF;
    for (uint32_t k = 0; k < explorer->kernel_count; k++) {
        explorer->kernels[k].time_ns = (uint8_t)box.kernels[k].time_ns;
        explorer->kernels[k].may_repeat = box.kernels[k].is_repeatable;
    }
    for (uint32_t t = 0; t < box.problem.tensor_count; t++) {
        add_contents_of(t);
    }
}

static void visit(uint32_t list, state_t state)
{
    const uint64_t fields[] = {state.done, state.running, state.left,    state.in,
                               state.out,  state.in_left, state.out_left};
    uint64_t key = (1u + (uint64_t)state.device) * (1u << CONTENTS) + state.host;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        key = key * FIELD_END + fields[i];
    }
    uint64_t slot = dao_random_mix(key) % SLOTS;
    while (explorer->seen[slot] != 0) {
        if (explorer->seen[slot] == key) {
            return;
        }
        slot = (slot + 1) % SLOTS;
    }
    if (explorer->seen_count == STATES) {
        explorer->is_full = true;
        return;
    }
    explorer->seen[slot] = key;
    explorer->seen_count++;
    explorer->list[list][explorer->count[list]++] = state;
}

static uint32_t count_of(uint32_t contents)
{
    return (uint32_t)__builtin_popcount(contents);
}

/* Bytes of the device that are taken, with that on its way in. */
static uint32_t taken(const state_t *state)
{
    return count_of(state->device) + (state->in != NONE);
}

static uint32_t bit_of(uint8_t content)
{
    return content == NONE ? 0 : 1u << content;
}

/* When a kernel began last before `done` of all kernels had, counted with a step before the first one. */
static uint32_t last_run(uint32_t kernel, uint32_t done)
{
    uint32_t n = explorer->kernel_count, now = done + 2 * n - 1;
    return now - (now - kernel) % n;
}

/* Returns true if what a kernel read when it ran last has not been written since. */
static bool inputs_are_as_they_were(uint32_t kernel, uint32_t done)
{
    uint32_t run = last_run(kernel, done), n = explorer->kernel_count;
    for (uint32_t i = 0; i < explorer->content_count; i++) {
        uint32_t writer = explorer->writer[i];
        if ((explorer->kernels[kernel].reads >> i & 1) != 0 && writer != NONE) {
            uint32_t before = run - 1 - (run - 1 + n - writer) % n; /* its last run before `run` */
            if (last_run(writer, done) != before) {
                return false;
            }
        }
    }
    return true;
}

/* Lets a kernel begin, for the first time or again. */
static void begin_kernel(uint32_t list, state_t state, uint32_t kernel, bool is_again)
{
    const kernel_t *one = &explorer->kernels[kernel];
    uint32_t moving = bit_of(state.in) | bit_of(state.out);
    if ((one->reads & state.device) != one->reads || (one->writes & moving) != 0 ||
        (one->consumed & moving) != 0) {
        return;
    }
    state.device = (state.device & ~one->consumed) | one->writes;
    if (taken(&state) > explorer->capacity) {
        return;
    }
    if (!is_again) {
        state.done++;
        state.host = state.host & ~one->writes;
    }
    state.left = one->time_ns;
    state.running = one->time_ns == 0 ? NONE : (uint8_t)kernel;
    visit(list, state);
}

/* All that may begin at once, or be dropped. */
static void act_at_once(uint32_t list, state_t state)
{
    uint32_t busy = bit_of(state.out), unready = 0;
    if (state.running != NONE) {
        busy |= explorer->kernels[state.running].reads | explorer->kernels[state.running].writes;
        unready = explorer->kernels[state.running].writes;
    } else {
        begin_kernel(list, state, state.done % explorer->kernel_count, false);
        for (uint32_t k = 0; k < explorer->kernel_count; k++) {
            if (explorer->kernels[k].may_repeat && inputs_are_as_they_were(k, state.done) &&
                (explorer->kernels[k].writes & ~state.device) != 0) {
                begin_kernel(list, state, k, true);
            }
        }
    }
    for (uint32_t i = 0; i < explorer->content_count; i++) {
        state_t next = state;
        bool is_link_free = !explorer->is_half || (state.in == NONE && state.out == NONE);
        if ((state.device & ~busy) >> i & 1) {
            next.device = state.device & ~(1u << i);
            visit(list, next);
            next = state;
        }
        if (state.in == NONE && is_link_free && (state.host & ~state.device) >> i & 1 &&
            taken(&state) < explorer->capacity) {
            next.in = (uint8_t)i;
            next.in_left = explorer->copy_ns;
            visit(list, next);
            next = state;
        }
        if (state.out == NONE && is_link_free && (state.device & ~state.host & ~unready) >> i & 1) {
            next.out = (uint8_t)i;
            next.out_left = explorer->copy_ns;
            visit(list, next);
        }
    }
}

static void pass_time(uint32_t list, state_t state)
{
    if (state.left > 0 && --state.left == 0) {
        state.running = NONE;
    }
    if (state.in != NONE && --state.in_left == 0) {
        state.device |= bit_of(state.in);
        state.in = NONE;
    }
    if (state.out != NONE && --state.out_left == 0) {
        state.host |= bit_of(state.out);
        state.out = NONE;
    }
    visit(list, state);
}

/* Least ns for some steps that begin with all in the host; 0 if there are too many states. */
static uint64_t fastest(uint32_t step_count)
{
    uint32_t end = step_count * explorer->kernel_count, now = 0;
    memset(explorer->seen, 0, sizeof(explorer->seen));
    explorer->seen_count = 0;
    explorer->count[0] = explorer->count[1] = 0;
    visit(0,
          (state_t){.host = (1u << explorer->content_count) - 1, .running = NONE, .in = NONE, .out = NONE});
    for (uint64_t time_ns = 0; explorer->count[now] > 0 && !explorer->is_full; time_ns++, now = 1 - now) {
        for (size_t i = 0; i < explorer->count[now]; i++) { /* grows meanwhile */
            const state_t *state = &explorer->list[now][i];
            if (state->done == end && state->running == NONE) {
                return time_ns;
            }
            if (state->done < end) {
                act_at_once(now, *state);
            }
        }
        explorer->count[1 - now] = 0;
        for (size_t i = 0; i < explorer->count[now]; i++) {
            pass_time(1 - now, explorer->list[now][i]);
        }
    }
    return 0;
}

/* A chain forwards and back, each kernel of which may read one more tensor than it has to. */
static void draw_chain(uint64_t *random)
{
    uint32_t layers = 2 + (uint32_t)dao_random_below(random, KERNELS / 2 - 1);
    swap_step_chain(&box, layers, 1, 1);
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].time_ns = dao_random_below(random, 3);
    }
    if (dao_random_below(random, 2) == 0) { /* a weight that each kernel reads, and the last one may update */
        box.tensors[box.problem.tensor_count++] = (dao_swap_tensor_t){.size_bytes = 1, .is_persistent = true};
        for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
            bool updates = k + 1 == box.problem.kernel_count && dao_random_below(random, 2) == 0;
            box.uses[k][box.kernels[k].use_count++] = (dao_swap_use_t){
                box.problem.tensor_count - 1, updates ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_READ};
        }
    }
}

/* A tiny step with the least capacity, or a little more. */
static void draw(const swap_step_range_t *range, uint64_t *random)
{
    do {
        if (dao_random_below(random, 2) == 0) {
            draw_chain(random);
        } else {
            swap_step_random(&box, range, random);
        }
    } while (content_count_max() > CONTENTS);
    set_random(random);
    box.problem.capacity_bytes = swap_bound_of().least_capacity_bytes + dao_random_below(random, 2);
}

static void no_schedule_of_a_tiny_step_is_faster(void)
{
    uint64_t random = dao_test_seed("no schedule is faster", 20260903);
    const swap_step_range_t range = {
        .tensor_max = TENSORS, .kernel_max = KERNELS, .size_max = 1, .time_max = 2};
    explorer = calloc(1, sizeof(*explorer));
    CU_ASSERT_PTR_NOT_NULL_FATAL(explorer);
    int bounded = 0, close = 0, saved = 0, large = 0, by_pairs = 0, by_cuts = 0;
    while (bounded < ROUNDS) {
        draw(&range, &random);
        uint8_t copy_ns = (uint8_t)dao_random_between(&random, 1, 12);
        box.problem.host.in_bytes_per_second = NS_PER_S / copy_ns;
        dao_recompute_bound_t bound = bound_of();
        bool is_raised = bound.cut_ns > bound.window_ns;
        if (bound.step_ns == bound.compute_ns || (bounded % 10 == 9 && !is_raised)) {
            continue; /* a tenth are steps whose windows cuts raise, which are few */
        }
        explore_box(copy_ns);
        uint64_t best_ns = fastest(STEPS);
        bounded++;
        by_cuts += is_raised;
        large += explorer->is_full;
        if (explorer->is_full) {
            continue;
        }
        /* The windows of a step may begin anywhere in it: of one step the kernels alone count. */
        uint64_t least_ns = (STEPS - 1) * bound.step_ns + bound.compute_ns;
        CU_ASSERT(best_ns >= least_ns);
        uint64_t later_ns = bounded % 4 == 0 ? fastest(STEPS + 1) : 0;
        close +=
            later_ns != 0 && later_ns - best_ns - bound.compute_ns <= 2 * (bound.step_ns - bound.compute_ns);
        saved += best_ns < (STEPS - 1) * swap_bound_of().step_ns + bound.compute_ns;
        by_pairs += bound.pair_ns > bound.window_ns;
    }
    printf("%d steps: %d of a fourth add at most twice what the bound does, %d beat that of swapping, %d "
           "bounded by pairs, windows of %d raised by cuts, %d too large\n",
           bounded, close, saved, by_pairs, by_cuts, large);
    CU_ASSERT(close > 0);
    CU_ASSERT(saved > ROUNDS / 20);
    CU_ASSERT(by_pairs > 0);
    CU_ASSERT(by_cuts >= ROUNDS / 10);
    CU_ASSERT(large < ROUNDS / 10);
    free(explorer);
}

static void what_is_no_step_is_refused(void)
{
    dao_recompute_bound_t bound = {.step_ns = 77};
    CU_ASSERT_EQUAL(dao_recompute_find_bound(NULL, &bound), DAO_ERR_INVALID);
    swap_step_chain(&box, 4, 1000, 10);
    CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, &bound), DAO_ERR_INVALID); /* no link */
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.capacity_bytes = 1999;
    CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, &bound), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(bound.step_ns, 77);
}

#if defined(DAO_FAULTS)
static void no_host_memory_is_answered(void)
{
    swap_step_chain(&box, 8, 1000, 10);
    let_all_repeat(true);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.capacity_bytes = 4000;
    uint64_t failed;
    uint32_t points = 0;
    do {
        dao_recompute_bound_t bound = {.step_ns = 77};
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, points++, false);
        dao_status_t status = dao_recompute_find_bound(&box.problem, &bound);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed != 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(bound.step_ns == 77, failed != 0);
    } while (failed != 0);
    CU_ASSERT(points > 10);
}
#endif

static CU_TestInfo tests[] = {
    {"without repeatable kernels windows are those of swapping",
     without_repeatable_kernels_windows_are_those_of_swapping},
    {"more memory or runs again are never slower", more_memory_or_runs_again_are_never_slower},
    {"a chain runs again what it cannot bring", a_chain_runs_again_what_it_cannot_bring},
    {"an update of what lives on never repeats", an_update_of_what_lives_on_never_repeats},
    {"windows are as defined", windows_are_as_defined},
    {"no schedule of a tiny step is faster", no_schedule_of_a_tiny_step_is_faster},
    {"what is no step is refused", what_is_no_step_is_refused},
#if defined(DAO_FAULTS)
    {"no host memory is answered", no_host_memory_is_answered},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"recompute bound", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

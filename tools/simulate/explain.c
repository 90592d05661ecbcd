/* SPDX-License-Identifier: Apache-2.0 */
/* A stall is the time between two kernels. The copies that run meanwhile say why:

       kernel 7 |xxxxxx|                |xxxx| kernel 8
       out         |-----------|        :
       in                  |------------|
                       |out|     in     |       a copy in counts first: it would not run without need

   Last the file counts. What is left over is none of them: kernels and links wait for each other in turn. */
#include "tools/simulate/explain.h"

#include "tools/print/lines.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "tools/options/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORST_COUNT = 10 };

/* What is bought to see what it changes: a tenth more. */
#define BUY_PARTS 10

/* Less than a thousandth of the step is no reason to buy. */
#define WORTH_PARTS 1000

/* ---- stalls ---- */

/* A span's kind as a bit. */
#define KIND_BIT(kind) (1u << (unsigned)(kind))

enum {
    BITS_IN = KIND_BIT(DAO_SIM_SPAN_IN),
    BITS_LINKS = BITS_IN | KIND_BIT(DAO_SIM_SPAN_OUT),
    BITS_ALL = BITS_LINKS | KIND_BIT(DAO_SIM_SPAN_DELAY),
};

/* Time of [begin, end) in which spans of `first` to `last` - 1 run, of these kinds. They are in the order of
   their ends, so that what one leaves uncovered behind it no earlier one covers. */
static uint64_t covered_ns(const dao_simulation_t *simulation, size_t first, size_t last, uint32_t kind_bits,
                           uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t ns = 0;
    for (size_t i = last; i-- > first;) {
        const dao_sim_span_t *copy = &simulation->copies[i];
        uint64_t from_ns = dao_larger(copy->begin_ns, begin_ns);
        uint64_t to_ns = copy->end_ns < end_ns ? copy->end_ns : end_ns;
        if ((kind_bits & KIND_BIT(copy->kind)) != 0 && from_ns < to_ns) {
            ns += to_ns - from_ns;
            end_ns = from_ns;
        }
    }
    return ns;
}

/* What the links do during a stall. Those before `first` are over for good. */
static void cover(const dao_simulation_t *simulation, uint64_t longest_ns, size_t *first, dao_stall_t *stall)
{
    uint64_t begin_ns = stall->begin_ns, end_ns = begin_ns + stall->total_ns;
    while (*first < simulation->copy_count && simulation->copies[*first].end_ns <= begin_ns) {
        (*first)++;
    }
    size_t last = *first; /* what ends later begins later */
    while (last < simulation->copy_count && simulation->copies[last].end_ns < end_ns + longest_ns) {
        last++;
    }
    stall->in_ns = covered_ns(simulation, *first, last, BITS_IN, begin_ns, end_ns);
    uint64_t links_ns = covered_ns(simulation, *first, last, BITS_LINKS, begin_ns, end_ns);
    uint64_t all_ns = covered_ns(simulation, *first, last, BITS_ALL, begin_ns, end_ns);
    stall->out_ns = links_ns - stall->in_ns;
    stall->file_ns = all_ns - links_ns;
}

void dao_find_stalls(const dao_simulation_t *simulation, uint32_t kernel_count, uint32_t step,
                     dao_stall_t *out_stalls)
{
    const dao_sim_span_t *kernels = simulation->kernels + (size_t)step * kernel_count;
    uint64_t end_ns = step > 0 ? kernels[-1].end_ns : 0, longest_ns = 0;
    size_t first = 0;
    for (size_t i = 0; i < simulation->copy_count; i++) {
        longest_ns = dao_larger(longest_ns, simulation->copies[i].end_ns - simulation->copies[i].begin_ns);
    }
    for (uint32_t i = 0; i < kernel_count; i++) {
        out_stalls[i] =
            (dao_stall_t){.kernel = i, .begin_ns = end_ns, .total_ns = kernels[i].begin_ns - end_ns};
        if (out_stalls[i].total_ns > 0) {
            cover(simulation, longest_ns, &first, &out_stalls[i]);
        }
        end_ns = kernels[i].end_ns;
    }
}

static int compare_stalls(const void *a, const void *b)
{
    const dao_stall_t *left = a;
    const dao_stall_t *right = b;
    if (left->total_ns != right->total_ns) {
        return left->total_ns < right->total_ns ? 1 : -1;
    }
    return left->kernel > right->kernel ? 1 : -1;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

enum { LABEL_BYTES = 160, SHARE_BYTES = 48, STALL_INDENT = 9 };

/* `322 "addmm" in encoder.0` of a kernel: its number, its name, if that is another, and its module, if told.
 */
static const char *label(const dao_step_trace_t *trace, uint32_t kernel, char text[LABEL_BYTES])
{
    const char *name = dao_trace_operator_name(trace, kernel);
    size_t module = trace->operators[kernel].module_offset;
    int length = snprintf(text, LABEL_BYTES, "%" PRIu32, kernel);
    if (strcmp(name, text) != 0) {
        length += snprintf(text + length, LABEL_BYTES - (size_t)length, " \"%.40s\"", name);
    }
    if (module != DAO_TRACE_NO_NAME) {
        (void)snprintf(text + length, LABEL_BYTES - (size_t)length, " in %.80s",
                       dao_trace_name(trace, module));
    }
    return text;
}

/* The part of a stall in which only the file was busy; nothing where it never was. */
static const char *file_share(const dao_stall_t *stall, char text[SHARE_BYTES])
{
    (void)snprintf(text, SHARE_BYTES, ", %.1f%% only the file", percent(stall->file_ns, stall->total_ns));
    return stall->file_ns == 0 ? "" : text;
}

static dao_stall_t sum_of(const dao_stall_t *stalls, uint32_t count)
{
    dao_stall_t sum = {0};
    for (uint32_t i = 0; i < count; i++) {
        sum.total_ns += stalls[i].total_ns;
        sum.in_ns += stalls[i].in_ns;
        sum.out_ns += stalls[i].out_ns;
        sum.file_ns += stalls[i].file_ns;
    }
    return sum;
}

static void put_stall(dao_report_t *report, const dao_stall_t *stall)
{
    dao_report_number(report, "stall_s", (double)stall->total_ns / 1e9);
    dao_report_number(report, "stall_in_s", (double)stall->in_ns / 1e9);
    dao_report_number(report, "stall_out_s", (double)stall->out_ns / 1e9);
    dao_report_number(report, "stall_file_s", (double)stall->file_ns / 1e9);
}

/* The module of a kernel, if one is told. */
static void put_kernel(dao_report_t *report, const char *index_key, const char *key,
                       const dao_step_trace_t *trace, uint32_t kernel)
{
    dao_report_count(report, index_key, NULL, kernel);
    dao_report_text(report, key, NULL, dao_trace_operator_name(trace, kernel));
    if (trace->operators[kernel].module_offset != DAO_TRACE_NO_NAME) {
        dao_report_text(report, "module", NULL,
                        dao_trace_name(trace, trace->operators[kernel].module_offset));
    }
}

void dao_explain_stalls(dao_report_t *report, const dao_step_trace_t *trace, dao_stall_t *stalls,
                        uint32_t count)
{
    dao_stall_t sum = sum_of(stalls, count);
    put_stall(report, &sum);
    qsort(stalls, count, sizeof(*stalls), compare_stalls);
    for (uint32_t i = 0; i < count && i < WORST_COUNT && stalls[i].total_ns > 0; i++) {
        dao_report_t item;
        dao_report_begin(&item, true);
        put_kernel(&item, "kernel_index", "kernel", trace, stalls[i].kernel);
        put_stall(&item, &stalls[i]);
        dao_report_item(report, "stalls", &item);
    }
}

static void print_stalls(const dao_step_trace_t *trace, dao_stall_t *stalls, uint32_t count, uint64_t step_ns)
{
    dao_stall_t sum = sum_of(stalls, count);
    char share[SHARE_BYTES];
    (void)printf("\n");
    dao_output_say("no kernel runs in %.3f ms of the last step, %.1f%% of it: %.1f%% copies in, %.1f%% only "
                   "copies out%s",
                   (double)sum.total_ns / 1e6, percent(sum.total_ns, step_ns),
                   percent(sum.in_ns, sum.total_ns), percent(sum.out_ns, sum.total_ns),
                   file_share(&sum, share));
    qsort(stalls, count, sizeof(*stalls), compare_stalls);
    for (uint32_t i = 0; i < count && i < WORST_COUNT && stalls[i].total_ns > 0; i++) {
        char name[LABEL_BYTES];
        char before[LABEL_BYTES + SHARE_BYTES];
        int column = printf("  %10.3f ms, %5.1f%% in, %5.1f%% only out", (double)stalls[i].total_ns / 1e6,
                            percent(stalls[i].in_ns, stalls[i].total_ns),
                            percent(stalls[i].out_ns, stalls[i].total_ns));
        (void)snprintf(before, sizeof(before), "%s, before kernel %s", file_share(&stalls[i], share),
                       label(trace, stalls[i].kernel, name));
        dao_output_words(before, column > 0 ? (size_t)column : 0, STALL_INDENT);
    }
}

/* ---- the bound ---- */

static const char *binding_text(dao_swap_binding_t binding)
{
    switch (binding) {
    case DAO_SWAP_BINDING_COMPUTE:
        return "its kernels";
    case DAO_SWAP_BINDING_IN:
        return "copies to the device";
    case DAO_SWAP_BINDING_OUT:
        return "copies from the device";
    case DAO_SWAP_BINDING_BOTH:
        return "copies both ways over one link";
    }
    return "?";
}

static void print_window(const dao_step_trace_t *trace, const dao_swap_bound_t *bound, uint32_t kernel_count)
{
    if (bound->window_kernel_count == 0) {
        dao_output_say("bound: no window of kernels takes longer than they do themselves");
        return;
    }
    uint32_t last = (bound->window_first_kernel + bound->window_kernel_count - 1) % kernel_count;
    char first_name[LABEL_BYTES], last_name[LABEL_BYTES];
    dao_output_say("bound: kernels %s to %s%s add %.3f ms to theirs: %s fill it",
                   label(trace, bound->window_first_kernel, first_name), label(trace, last, last_name),
                   last < bound->window_first_kernel ? " of the next step" : "",
                   (double)bound->window_added_ns / 1e6, binding_text(bound->window_binding));
    dao_output_say("copies have to be queued %.3f ms ahead, up to %" PRIu32 " kernels",
                   (double)bound->lookahead_ns / 1e6, bound->lookahead_kernels);
}

/* ---- what to buy ---- */

static uint64_t tenth_more(uint64_t value)
{
    return value > UINT64_MAX - value / BUY_PARTS ? value : value + value / BUY_PARTS;
}

/* What is gained, if anything is. */
static uint64_t gain(uint64_t before_ns, uint64_t after_ns)
{
    return before_ns > after_ns ? before_ns - after_ns : 0;
}

/* What a changed step gains of the bound. */
static dao_status_t try_purchase(const dao_swap_problem_t *changed, const dao_swap_bound_t *bound,
                                 uint64_t *out_gain_ns)
{
    dao_swap_bound_t with_it;
    dao_status_t status = dao_swap_find_bound(changed, &with_it);
    *out_gain_ns = status == DAO_OK ? gain(bound->step_ns, with_it.step_ns) : 0;
    return status;
}

static void make_faster(dao_swap_tier_t *tier)
{
    tier->in_bytes_per_second = tenth_more(tier->in_bytes_per_second);
    tier->out_bytes_per_second = tenth_more(tier->out_bytes_per_second);
}

/* What a tenth more of each gains, and the name of what gains most. */
typedef struct purchases {
    uint64_t memory_ns, link_ns, file_ns;
    bool has_file;
    const char *advice;
} purchases_t;

static dao_status_t find_purchases(const dao_swap_problem_t *problem, const dao_swap_bound_t *bound,
                                   purchases_t *out_purchases)
{
    static const char *const names[] = {"memory", "the link", "a faster file"};
    bool has_file = problem->file.in_bytes_per_second != 0;
    dao_swap_problem_t changed[] = {*problem, *problem, *problem};
    uint64_t gains_ns[] = {0, 0, 0}, most_ns = bound->step_ns / WORTH_PARTS;
    const char *advice = has_file ? "none of them" : "neither";
    dao_status_t status = DAO_OK;
    changed[0].capacity_bytes = tenth_more(problem->capacity_bytes);
    make_faster(&changed[1].host);
    make_faster(&changed[2].file);
    for (int i = 0; i < (has_file ? 3 : 2) && status == DAO_OK; i++) {
        status = try_purchase(&changed[i], bound, &gains_ns[i]);
        advice = gains_ns[i] > most_ns ? names[i] : advice;
        most_ns = dao_larger(most_ns, gains_ns[i]);
    }
    *out_purchases = (purchases_t){gains_ns[0], gains_ns[1], gains_ns[2], has_file, advice};
    return status;
}

static dao_status_t print_purchases(const dao_swap_problem_t *problem, const dao_swap_bound_t *bound)
{
    purchases_t found;
    dao_status_t status = find_purchases(problem, bound, &found);
    if (status == DAO_OK) {
        char file[SHARE_BYTES] = "";
        if (found.has_file) {
            (void)snprintf(file, sizeof(file), ", a tenth faster file by %.1f%%",
                           percent(found.file_ns, bound->step_ns));
        }
        dao_output_say(
            "a tenth more memory lowers the bound by %.1f%%, a tenth faster link by %.1f%%%s: buy %s",
            percent(found.memory_ns, bound->step_ns), percent(found.link_ns, bound->step_ns), file,
            found.advice);
    }
    return status;
}

static void print_loss(const dao_swap_bound_t *bound, uint64_t step_ns)
{
    if (step_ns >= bound->step_ns) {
        (void)printf("  the scheme itself loses %.1f%% against the bound\n\n",
                     percent(step_ns - bound->step_ns, bound->step_ns));
    } else { /* a first step has nothing to copy out from one before */
        (void)printf("  the step is %.1f%% below the bound, which is that of steps in a row\n\n",
                     percent(bound->step_ns - step_ns, bound->step_ns));
    }
}

/* Finds the stalls of the last step; the caller frees them. */
static dao_stall_t *make_stalls(const dao_swap_problem_t *problem, const dao_simulation_t *simulation)
{
    dao_stall_t *stalls = dao_host_calloc(problem->kernel_count, sizeof(*stalls));
    if (stalls == NULL) {
        (void)dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to explain %" PRIu32 " kernels",
                        problem->kernel_count);
        return NULL;
    }
    dao_find_stalls(simulation, problem->kernel_count, simulation->step_count - 1, stalls);
    return stalls;
}

dao_status_t dao_explain(const dao_step_trace_t *trace, const dao_swap_problem_t *problem,
                         const dao_swap_bound_t *bound, const dao_simulation_t *simulation)
{
    dao_stall_t *stalls = make_stalls(problem, simulation);
    if (stalls == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    print_stalls(trace, stalls, problem->kernel_count, simulation->step_ns);
    dao_host_free(stalls);
    print_window(trace, bound, problem->kernel_count);
    dao_status_t status = print_purchases(problem, bound);
    if (status == DAO_OK) {
        print_loss(bound, simulation->step_ns);
    }
    return status;
}

/* ---- for programs ---- */

static void put_window(dao_report_t *report, const dao_step_trace_t *trace, const dao_swap_bound_t *bound,
                       uint32_t kernel_count)
{
    if (bound->window_kernel_count == 0) {
        return;
    }
    uint32_t first = bound->window_first_kernel;
    uint32_t last = (first + bound->window_kernel_count - 1) % kernel_count;
    dao_report_count(report, "window_first_index", NULL, first);
    dao_report_text(report, "window_first", NULL, dao_trace_operator_name(trace, first));
    dao_report_count(report, "window_last_index", NULL, last);
    dao_report_text(report, "window_last", NULL, dao_trace_operator_name(trace, last));
    dao_report_number(report, "window_added_s", (double)bound->window_added_ns / 1e9);
    dao_report_text(report, "window_filled_by", NULL, binding_text(bound->window_binding));
    dao_report_number(report, "lookahead_s", (double)bound->lookahead_ns / 1e9);
    dao_report_count(report, "lookahead_kernels", NULL, bound->lookahead_kernels);
}

dao_status_t dao_explain_report(dao_report_t *report, const dao_step_trace_t *trace,
                                const dao_swap_problem_t *problem, const dao_swap_bound_t *bound,
                                const dao_simulation_t *simulation)
{
    purchases_t found = {0};
    dao_stall_t *stalls = make_stalls(problem, simulation);
    dao_status_t status = stalls != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    if (status == DAO_OK) {
        dao_explain_stalls(report, trace, stalls, problem->kernel_count);
        put_window(report, trace, bound, problem->kernel_count);
        status = find_purchases(problem, bound, &found);
    }
    if (status == DAO_OK) {
        dao_report_number(report, "more_memory_gain_s", (double)found.memory_ns / 1e9);
        dao_report_number(report, "faster_link_gain_s", (double)found.link_ns / 1e9);
        if (found.has_file) {
            dao_report_number(report, "faster_file_gain_s", (double)found.file_ns / 1e9);
        }
        dao_report_text(report, "buy", NULL, found.advice);
    }
    dao_host_free(stalls);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `dao fit FILE --memory 8GiB`: does it fit, with what, and how slow? A sentence, the figures behind it, and
   an exit code for scripts. */
#include "tools/base/interrupt.h"
#include "tools/commands.h"
#include "tools/fit/fit_swap.h"
#include "tools/fit/link_device.h"
#include "tools/fit/torch_pool.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/plan/short_plan.h"
#include "tools/print/lines.h"
#include "tools/print/report.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/form/recognise.h"
#include "tools/read/step/read_step.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/report/format.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_BYTES = 1024 };

typedef struct settings {
    uint64_t memory_bytes, reserve_bytes, rate, host_bytes, slow_down;
    const char *step_option; /* one that was given and needs a step; NULL: none was */
    uint32_t device;         /* index into the list of devices */
    const char *batch, *log_device;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {.name = "memory",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, memory_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "memory of the device: 8GiB; without it that of --device"},
    {.name = "reserve",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, reserve_bytes),
     .value = "SIZE",
     .help = "what others take of it: a driver's context takes some 600MiB"},
    {.name = "device",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, device),
     .value = "DEVICE",
     .name_at = dao_link_device_at,
     .help = "its memory and link"},
    DAO_OPTION_LINK(settings_t, rate),
    {.name = "slow-down",
     .type = DAO_OPTION_TYPE_DECIMAL,
     DAO_OPTION_FIELD(settings_t, slow_down),
     .value = "X",
     .least = 1,
     .most = 1000,
     .noun = "factor",
     .preset = "1.05",
     .help = "also say with how much memory a step takes X times its kernels"},
    DAO_OPTION_HOST(settings_t, host_bytes),
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_LOG_DEVICE("of", settings_t, log_device),
    DAO_OPTION_JSON(settings_t, is_json, "print one JSON object"),
    {.name = NULL},
};

/* Options that say how a step swaps. */
static const char *const step_options[] = {"link", "host", "slow-down", NULL};

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    settings_t *settings = user;
    bool has_device = dao_option_is_given(arguments, "device");
    if (settings->memory_bytes == 0 && !has_device) {
        return dao_error(DAO_ERR_INVALID, "--memory SIZE or --device DEVICE is missing");
    }
    settings->memory_bytes = settings->memory_bytes == 0 ? dao_link_devices[settings->device].memory_bytes
                                                         : settings->memory_bytes;
    settings->rate = dao_link_rate(arguments, settings->rate, settings->device);
    settings->step_option = dao_option_first_given(arguments, step_options);
    return settings->reserve_bytes < settings->memory_bytes
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "--reserve leaves nothing of --memory");
}

/* ---- what is found out ---- */

typedef struct answer {
    uint64_t capacity_bytes; /* the memory without the reserve */
    uint64_t peak_bytes, planned_bytes;
    dao_torch_run_t torch;
    uint64_t reserved_bytes; /* what the file says that PyTorch had reserved; 0: nothing */
    bool torch_fits;         /* in the capacity, with what it frees to make room */
    bool has_step, has_times;
    bool swaps;     /* it runs in the capacity */
    bool has_again; /* `again` is told: kernels may run again, and it is slower without */
    bool has_wish;
    bool is_stopped; /* by Ctrl-C: not all was planned, and what is not told is not known */
    dao_fit_swap_t swap;
    dao_fit_point_t here;  /* in the capacity */
    dao_fit_point_t again; /* the same with kernels that run again */
    dao_fit_point_t wish;  /* for the slow-down that was asked for */
} answer_t;

static bool is_fitting(const answer_t *answer)
{
    return answer->planned_bytes <= answer->capacity_bytes;
}

static dao_status_t find_planned(const dao_plan_input_t *lifetimes, uint64_t *out_bytes)
{
    dao_plan_report_t report = {.peak_bytes = 0};
    dao_plan_t *plan = NULL;
    dao_status_t status = dao_short_plan_make(lifetimes, &plan, &report);
    *out_bytes = report.peak_bytes;
    dao_plan_release(plan);
    return status;
}

static dao_status_t find_peak(const dao_plan_input_t *lifetimes, uint64_t *out_bytes)
{
    dao_alloc_trace_t trace;
    dao_status_t status = dao_plan_input_replay(lifetimes, false, &trace);
    if (status == DAO_OK) {
        *out_bytes = trace.peak_bytes;
        dao_alloc_trace_finish(&trace);
    }
    return status;
}

static dao_status_t find_torch(const dao_history_t *history, answer_t *answer)
{
    dao_torch_run_t limited;
    dao_status_t status = dao_torch_pool_run(history, UINT64_MAX, &answer->torch);
    if (status == DAO_OK) {
        status = dao_torch_pool_run(history, answer->capacity_bytes, &limited);
        answer->torch_fits = status == DAO_OK && limited.fits;
    }
    return status;
}

/* Memory without swapping. */
static dao_status_t answer_memory(const dao_plan_input_t *lifetimes, const dao_step_trace_t *trace,
                                  answer_t *answer)
{
    dao_history_t history;
    answer->reserved_bytes = lifetimes->counts.reserved_bytes;
    dao_status_t status = find_peak(lifetimes, &answer->peak_bytes);
    if (status == DAO_OK) {
        status = find_planned(lifetimes, &answer->planned_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    status =
        trace != NULL ? dao_history_of_step(trace, &history) : dao_history_of_lifetimes(lifetimes, &history);
    if (status == DAO_OK) {
        status = find_torch(&history, answer);
        dao_history_finish(&history);
    }
    /* Blocks without a history: how the allocator came to hold them is not told, and what it held is. */
    if (status == DAO_OK && lifetimes->counts.in_window_count == 0 &&
        answer->reserved_bytes > answer->torch.peak_bytes) {
        answer->torch.peak_bytes = answer->reserved_bytes;
        answer->torch_fits = answer->reserved_bytes <= answer->capacity_bytes;
    }
    return status;
}

/* Memory with kernels that run again beside swapping: told where swapping alone makes the step longer, or
   finds no way at all. */
static dao_status_t answer_again(answer_t *answer)
{
    const dao_swap_problem_t *problem = answer->swap.problem;
    bool may_repeat = false;
    for (uint32_t k = 0; k < problem->kernel_count && !may_repeat; k++) {
        may_repeat = problem->kernels[k].is_repeatable;
    }
    if (!may_repeat || !answer->has_times || is_fitting(answer) ||
        (answer->swaps && answer->here.step_ns <= answer->swap.compute_ns)) {
        return DAO_OK;
    }
    dao_status_t status = dao_fit_swap_again_at(&answer->swap, answer->capacity_bytes, &answer->again);
    answer->has_again = status == DAO_OK || (status == DAO_ERR_STOPPED && answer->again.again_count > 0);
    return status == DAO_ERR_LIMIT ? DAO_OK : status;
}

static bool is_asked_to_stop(void *user)
{
    (void)user; /* a process has one Ctrl-C */
    return dao_interrupt_is_asked();
}

/* The same from the capacity on, with swapping alone first. */
static dao_status_t answer_plans(const settings_t *settings, answer_t *answer)
{
    answer->swap.is_cancelled = is_asked_to_stop;
    answer->has_times = answer->swap.compute_ns > 0;
    dao_status_t status = dao_fit_swap_at(&answer->swap, answer->capacity_bytes, &answer->here);
    answer->swaps = status == DAO_OK || (status == DAO_ERR_STOPPED && answer->here.step_ns != UINT64_MAX);
    status = status == DAO_OK || status == DAO_ERR_LIMIT ? answer_again(answer) : status;
    if (status == DAO_OK && answer->has_times) {
        double most_ns =
            (double)answer->swap.compute_ns * (double)settings->slow_down / (double)DAO_OPTION_MILLIONTHS;
        status = dao_fit_swap_for(&answer->swap, (uint64_t)most_ns, &answer->wish);
        answer->has_wish = status == DAO_OK;
        status = status == DAO_ERR_LIMIT ? DAO_OK : status;
    }
    return status;
}

/* Memory with swapping. Until it is known Ctrl-C ends the search, and the command tells what it has. */
static dao_status_t answer_swap(const settings_t *settings, const dao_step_trace_t *trace, answer_t *answer)
{
    dao_step_problem_t step;
    dao_status_t status = dao_step_problem_make(trace, &step);
    if (status != DAO_OK) {
        return status;
    }
    step.problem.page_bytes = DAO_PAGE_BYTES;
    step.problem.host = (dao_swap_tier_t){.in_bytes_per_second = settings->rate,
                                          .latency_ns = DAO_STEP_LATENCY_NS,
                                          .limit_bytes = settings->host_bytes};
    status = dao_fit_swap_init(&answer->swap, trace, &step.problem);
    if (status == DAO_OK) {
        dao_interrupt_watch(DAO_INTERRUPT_ASKS);
        status = answer_plans(settings, answer);
        dao_interrupt_unwatch();
        answer->is_stopped = status == DAO_ERR_STOPPED;
    }
    answer->swap.problem = NULL; /* it goes with the step */
    dao_step_problem_finish(&step);
    return answer->is_stopped ? DAO_OK : status;
}

/* ---- the sentence ---- */

/* By how much longer than its kernels a step takes, in percent. */
static double slower(const answer_t *answer, uint64_t step_ns)
{
    double compute_ns = (double)answer->swap.compute_ns;
    return compute_ns > 0 ? 100 * ((double)step_ns / compute_ns - 1) : 0;
}

DAO_PRINTF(2, 3) static void say(char sentence[SENTENCE_BYTES], const char *format, ...)
{
    size_t used = strlen(sentence);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence + used, SENTENCE_BYTES - used, format, arguments);
    va_end(arguments);
}

static void say_memory(const answer_t *answer, char sentence[SENTENCE_BYTES])
{
    char peak[DAO_UNITS_TEXT_BYTES], planned[DAO_UNITS_TEXT_BYTES], torch[DAO_UNITS_TEXT_BYTES];
    bool is_lower = answer->torch_fits && answer->torch.peak_bytes > answer->capacity_bytes;
    say(sentence,
        "%s: it needs %s if its memory is planned (%s live at the peak), and %s under PyTorch's allocator%s.",
        is_fitting(answer) ? "It fits" : "It does not fit",
        dao_units_format_bytes(answer->planned_bytes, planned),
        dao_units_format_bytes(answer->peak_bytes, peak),
        dao_units_format_bytes(answer->torch.peak_bytes, torch),
        is_lower                                    ? ", or less where that gives back what it caches"
        : is_fitting(answer) && !answer->torch_fits ? ", which does not fit"
                                                    : "");
    if (answer->reserved_bytes > 0) {
        say(sentence, " It had taken %s when the file was written.",
            dao_units_format_bytes(answer->reserved_bytes, peak));
    }
}

/* How much longer a step of the point takes, and than what it cannot be less. */
static void say_point(const answer_t *answer, const dao_fit_point_t *point, char sentence[SENTENCE_BYTES])
{
    say(sentence, " a step then takes %.1f %% longer (no plan can do better than %.1f %%).",
        slower(answer, point->step_ns), slower(answer, point->bound_ns));
}

static void say_swap(const settings_t *settings, const answer_t *answer, char sentence[SENTENCE_BYTES])
{
    char size[DAO_UNITS_TEXT_BYTES], largest[DAO_UNITS_TEXT_BYTES];
    if (!answer->has_step) {
        say(sentence,
            " The file does not say which operator uses what, so whether it fits with swapping is not "
            "known: record a step (docs/formats.md).");
        return;
    }
    if (answer->is_stopped && !answer->swaps) {
        say(sentence, " Whether it fits with swapping or recomputing is not known.");
    } else if (answer->swaps && answer->has_times) {
        say(sentence, " With swapping it fits, within %s;",
            dao_units_format_bytes(answer->here.capacity_bytes, size));
        say_point(answer, &answer->here, sentence);
    } else {
        say(sentence, answer->swaps
                          ? " With swapping it fits; the file has no times, so how slow it is then is "
                            "not known."
                          : " It does not fit with swapping either.");
    }
    if (answer->has_again) {
        say(sentence,
            answer->swaps ? " With recomputing as well" : " With swapping and recomputing it fits;");
        say_point(answer, &answer->again, sentence);
    }
    if (answer->has_wish) {
        say(sentence, " For a step at most %.1f %% longer swapping needs %s.",
            100 * ((double)settings->slow_down / (double)DAO_OPTION_MILLIONTHS - 1),
            dao_units_format_bytes(answer->wish.capacity_bytes + settings->reserve_bytes, size));
    }
    say(sentence, " The largest kernel uses %s: with less than %s nothing helps.",
        dao_units_format_bytes(answer->swap.least_bytes, largest),
        dao_units_format_bytes(answer->swap.least_bytes + settings->reserve_bytes, size));
}

/* ---- the table ---- */

static void report_point(dao_report_t *report, const answer_t *answer)
{
    dao_report_bytes(report, "plan_capacity_bytes", "swapping within", answer->here.capacity_bytes);
    dao_report_time(report, "step_s", "a step", answer->here.step_ns);
    dao_report_time(report, "bound_s", "at least", answer->here.bound_ns);
    if (answer->has_times) {
        double compute_ns = (double)answer->swap.compute_ns;
        dao_report_ratio(report, "slow_down", "step / kernel time",
                         (double)answer->here.step_ns / compute_ns);
        dao_report_ratio(report, "bound_slow_down", NULL, (double)answer->here.bound_ns / compute_ns);
    }
    dao_report_bytes(report, "bytes_in", "copied in", answer->here.in_bytes);
    dao_report_bytes(report, "bytes_out", "copied out", answer->here.out_bytes);
}

static void report_again(dao_report_t *report, const answer_t *answer)
{
    double compute_ns = (double)answer->swap.compute_ns;
    dao_report_time(report, "again_step_s", "a step, recomputing", answer->again.step_ns);
    dao_report_time(report, "again_bound_s", "at least", answer->again.bound_ns);
    dao_report_ratio(report, "again_slow_down", "step / kernel time",
                     (double)answer->again.step_ns / compute_ns);
    dao_report_ratio(report, "again_bound_slow_down", NULL, (double)answer->again.bound_ns / compute_ns);
    dao_report_count(report, "again_count", "kernels run again", answer->again.again_count);
}

static void report_step(dao_report_t *report, const settings_t *settings, const dao_step_trace_t *trace,
                        const answer_t *answer)
{
    dao_report_time(report, "compute_s", "kernels", answer->swap.compute_ns);
    dao_report_bytes(report, "smallest_capacity_bytes", "smallest capacity", answer->swap.least_bytes);
    dao_report_count(report, "largest_operator_index", NULL, answer->swap.largest_kernel);
    dao_report_text(report, "largest_operator", "largest operator",
                    dao_trace_operator_name(trace, answer->swap.largest_kernel));
    if (answer->swaps) {
        report_point(report, answer);
    }
    if (answer->has_again) {
        report_again(report, answer);
    }
    if (answer->has_wish) {
        dao_report_ratio(report, "wanted_slow_down", NULL,
                         (double)settings->slow_down / (double)DAO_OPTION_MILLIONTHS);
        dao_report_bytes(report, "wanted_memory_bytes", "for --slow-down",
                         answer->wish.capacity_bytes + settings->reserve_bytes);
    }
}

static int report_answer(const settings_t *settings, const dao_step_trace_t *trace, const answer_t *answer,
                         int *out_exit)
{
    char sentence[SENTENCE_BYTES] = "";
    dao_report_t report;
    bool fits = is_fitting(answer);
    say_memory(answer, sentence);
    if (!fits) {
        say_swap(settings, answer, sentence);
    }
    if (answer->is_stopped) {
        say(sentence, " Ctrl-C ended the search: this is what was found so far.");
    }
    dao_report_begin(&report, settings->is_json);
    if (!settings->is_json) {
        dao_output_words(sentence, 0, 0);
        (void)printf("\n");
    }
    dao_report_text(&report, "answer", NULL,
                    fits                 ? "fits"
                    : answer->swaps      ? "fits with swapping"
                    : answer->has_again  ? "fits with recomputing"
                    : answer->is_stopped ? "not known"
                                         : "does not fit");
    dao_report_text(&report, "sentence", NULL, sentence);
    dao_report_flag(&report, "stopped", answer->is_stopped ? "stopped" : NULL, answer->is_stopped);
    dao_report_bytes(&report, "memory_bytes", "memory", settings->memory_bytes);
    dao_report_bytes(&report, "reserve_bytes", settings->reserve_bytes > 0 ? "reserve" : NULL,
                     settings->reserve_bytes);
    dao_report_bytes(&report, "capacity_bytes", settings->reserve_bytes > 0 ? "left" : NULL,
                     answer->capacity_bytes);
    dao_report_bytes(&report, "peak_bytes", "peak", answer->peak_bytes);
    dao_report_bytes(&report, "planned_bytes", "planned", answer->planned_bytes);
    dao_report_bytes(&report, "torch_bytes", "PyTorch reserves", answer->torch.peak_bytes);
    dao_report_flag(&report, "torch_fits", "PyTorch fits", answer->torch_fits);
    dao_report_bytes(&report, "reserved_bytes", answer->reserved_bytes > 0 ? "it had reserved" : NULL,
                     answer->reserved_bytes);
    if (answer->has_step) {
        report_step(&report, settings, trace, answer);
    }
    *out_exit = answer->is_stopped                   ? DAO_EXIT_INTERRUPTED
                : fits                               ? DAO_EXIT_OK
                : answer->swaps || answer->has_again ? DAO_EXIT_FITS_SWAPPED
                                                     : DAO_EXIT_FITS_NOT;
    return dao_report_end(&report);
}

/* ---- the command ---- */

static dao_status_t read_file(const char *path, const settings_t *settings, bool *out_has_step,
                              dao_step_trace_t *trace, dao_plan_input_t *lifetimes)
{
    dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
    dao_read_choice_t choice = {.batch = settings->batch, .device = settings->log_device};
    dao_status_t status = dao_recognise_part(path, choice.batch, choice.device, &form);
    *out_has_step = status == DAO_OK && dao_file_form_is_step(form);
    if (status == DAO_OK && !*out_has_step && settings->step_option != NULL) {
        return dao_failure_of(path, dao_link_option_error(settings->step_option, false));
    }
    if (status != DAO_OK || !*out_has_step) {
        return status == DAO_OK ? dao_read_lifetimes(path, &choice, lifetimes) : status;
    }
    status = dao_read_step(path, settings->batch, trace);
    return status == DAO_OK ? dao_failure_of(path, dao_plan_input_of_step(trace, lifetimes)) : status;
}

static dao_status_t run_fit(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    dao_step_trace_t trace;
    dao_plan_input_t lifetimes;
    answer_t *answer = dao_host_calloc(1, sizeof(*answer));
    if (answer == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for an answer");
    }
    dao_step_trace_init(&trace);
    dao_plan_input_init(&lifetimes);
    answer->capacity_bytes = settings->memory_bytes - settings->reserve_bytes;
    dao_status_t status = read_file(arguments->words[0], settings, &answer->has_step, &trace, &lifetimes);
    if (status == DAO_OK) {
        status = dao_failure_of(arguments->words[0],
                                answer_memory(&lifetimes, answer->has_step ? &trace : NULL, answer));
    }
    if (status == DAO_OK && answer->has_step) {
        status = dao_failure_of(arguments->words[0], answer_swap(settings, &trace, answer));
    }
    if (status == DAO_OK && report_answer(settings, &trace, answer, out_exit) != DAO_EXIT_OK) {
        *out_exit = DAO_EXIT_FAILED;
    }
    dao_plan_input_finish(&lifetimes);
    dao_step_trace_finish(&trace);
    dao_host_free(answer);
    return status;
}

#define DEVICE_HELP(name, memory_bytes, rate) " " name

const dao_command_t dao_command_fit = {
    .program = "dao",
    .name = "fit",
    .arguments = "FILE",
    .summary = "say whether a trace fits a device, with what, and how slow",
    .details = "FILE is whatever dao info knows; of a recorded step it is also said how slow it is with\n"
               "swapping, and with operators that run again. Exit code: 0 it fits, 3 with these, 4 it does "
               "not; 1 failure, 2 bad usage; 130 Ctrl-C, which ends the search with what was found.\n"
               "Devices:" DAO_LINK_DEVICE_LIST(DEVICE_HELP),
    .options = options,
    .least_arguments = 1,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_fit,
};

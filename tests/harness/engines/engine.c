/* SPDX-License-Identifier: Apache-2.0 */
/* Running inputs, in this process and in children; the child's place in the list and its points lie in memory
   that both have. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "tests/harness/engines/engine.h"

#include "tests/harness/pairs.h"
#include "tests/harness/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_MAX 300u /* of one input: one that waits for ever ends, one on a busy machine does not */

static const engine_input_t *current;
static const engine_fault_t *first;             /* the fault, until it is armed */
static uint64_t calls_before[FAULT_CALL_COUNT]; /* of the device, that do not count */
static const engine_fault_t *pending;           /* the second fault, until the first one has fired */

const char *engine_point_text(uint32_t point)
{
    return point < DAO_FAULT_COUNT ? dao_fault_text((dao_fault_t)point)
                                   : fault_call_text((fault_call_t)(point - DAO_FAULT_COUNT));
}

static void arm(const engine_fault_t *fault)
{
    if (fault->point < DAO_FAULT_COUNT) {
        dao_fault_arm((dao_fault_t)fault->point, fault->skip, fault->is_persistent);
    } else {
        fault_backend_arm((fault_call_t)(fault->point - DAO_FAULT_COUNT), fault->skip, fault->is_persistent);
    }
}

static uint64_t fired_count(void)
{
    return dao_fault_fired_count() + fault_backend_fired_count();
}

/* Each start of the library wraps the device anew, which disarms it. */
static const dao_backend_ops_t *wrap(const dao_backend_ops_t *ops)
{
    static const fault_config_t nothing;
    const dao_backend_ops_t *wrapped = fault_backend_wrap(ops, &nothing);
    memset(calls_before, 0, sizeof(calls_before));
    if (first != NULL && !current->spares_start) {
        arm(first);
        first = NULL;
    }
    return wrapped;
}

/* What counts begins here. */
static void begin_counting(void)
{
    dao_fault_arm(DAO_FAULT_ANY, INT64_MAX, false); /* none fails; from here on they are counted */
    fault_backend_arm(FAULT_CALL_ANY, INT64_MAX, false);
    for (uint32_t i = 0; i < FAULT_CALL_COUNT; i++) {
        calls_before[i] = fault_backend_calls((fault_call_t)i);
    }
}

static void before_call(const harness_program_t *program, uint32_t op_index, void *user)
{
    (void)program;
    engine_result_t *result = user;
    if (op_index == 0 && current->spares_start) {
        begin_counting();
        if (first != NULL) {
            arm(first);
            first = NULL;
        }
    }
    if (pending != NULL && fired_count() > 0) {
        result->has_fired[0] = true;
        arm(pending);
        pending = NULL;
    }
}

void engine_run(const engine_input_t *input, bool prints, engine_result_t *out_result)
{
    static harness_program_t program;
    harness_decode(input->bytes, input->length, &program);
    *out_result = (engine_result_t){0};
    bool has_faults = input->faults[0].is_set;
    (void)dao_fault_disarm();
    (void)fault_backend_disarm();
    current = input;
    begin_counting();
    first = has_faults ? &input->faults[0] : NULL;
    pending = input->faults[1].is_set ? &input->faults[1] : NULL;
    harness_run_t run = {.has_faults = has_faults,
                         .wrap = has_faults ? wrap : NULL,
                         .before = before_call,
                         .user = out_result,
                         .prints = prints};
    harness_run(&program, &run);
    uint64_t fired = fired_count();
    out_result->has_fired[1] = out_result->has_fired[0] && pending == NULL && fired > 0;
    out_result->has_fired[0] = out_result->has_fired[0] || fired > 0;
    for (uint32_t i = 0; i < ENGINE_POINT_COUNT; i++) {
        out_result->passed[i] = i < DAO_FAULT_COUNT
                                    ? dao_fault_passed_count((dao_fault_t)i)
                                    : fault_backend_calls((fault_call_t)(i - DAO_FAULT_COUNT)) -
                                          calls_before[i - DAO_FAULT_COUNT];
    }
    (void)dao_fault_disarm();
    (void)fault_backend_disarm();
}

/* Small pages: a program touches a few bytes of many. */
static void prepare_child(bool is_quiet)
{
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* else it is slower, and nothing more */
    if (is_quiet) {
        int null = open("/dev/null", O_WRONLY);
        if (null >= 0) {
            (void)dup2(null, STDERR_FILENO);
            (void)close(null);
        }
    }
}

static bool ends_well(pid_t child)
{
    int status = -1;
    if (child <= 0 || waitpid(child, &status, 0) != child) {
        return false;
    }
    if (WIFSIGNALED(status)) {
        (void)printf("ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool engine_run_apart(const engine_input_t *input, bool prints, bool is_quiet)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        engine_result_t result;
        prepare_child(is_quiet);
        (void)alarm(SECONDS_MAX);
        engine_run(input, prints, &result);
        (void)fflush(stdout);
        exit(EXIT_SUCCESS); /* leaks are looked for */
    }
    return ends_well(child);
}

bool engine_run_all(engine_next_t next, engine_done_t done, void *user, engine_input_t *out_failed)
{
    engine_input_t *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return false;
    }
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        prepare_child(false);
        static engine_result_t result;
        for (uint64_t i = 0; next(i, shared, user); i++) {
            (void)alarm(SECONDS_MAX);
            engine_run(shared, false, &result);
            if (done != NULL) {
                done(shared, &result, user);
            }
        }
        (void)fflush(stdout);
        exit(EXIT_SUCCESS);
    }
    bool is_well = ends_well(child);
    *out_failed = *shared;
    (void)munmap(shared, sizeof(*shared));
    return is_well;
}

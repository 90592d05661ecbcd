/* SPDX-License-Identifier: Apache-2.0 */
/* The step that ended last, as a file: its text, names of steps that begin as a known one, times as the
   program says them and as they were measured, and what is refused. */
#include "backends/sim/sim.h"
#include "base/report/fault.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/learned/step_learner.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UNIT (4 * KIB)

enum { WEIGHT, INPUT, HIDDEN, OUTPUT, TENSORS, TEXT_BYTES = 4096 };

static dao_executor_t *executor;
static program_t program;
static bool is_synced; /* behind each kernel, so that the next one is not seen before its turn */

static void begin_with(dao_executor_config_t config)
{
    dao_config_t sim = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    config.capacity_bytes = 2 * TENSORS * UNIT;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    program_init(&program, executor);
    program.cost_ns = 12500;
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
    }
    CU_ASSERT_EQUAL(program_write(&program, WEIGHT), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
}

static void begin(void)
{
    begin_with((dao_executor_config_t){0});
}

static void end(void)
{
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void push(program_kernel_t kernel)
{
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(is_synced ? dao_executor_sync(executor) : DAO_OK, DAO_OK);
}

/* The input is fed, the hidden tensor is dropped within the step, the weight is changed; the last kernel is
   called so. */
static void run_step(const char *last)
{
    CU_ASSERT_EQUAL(program_write(&program, INPUT), DAO_OK);
    push((program_kernel_t){"to hidden",
                            3,
                            {WEIGHT, INPUT, HIDDEN},
                            {DAO_ACCESS_READ, DAO_ACCESS_READ, DAO_ACCESS_WRITE},
                            1000,
                            DAO_OK});
    push((program_kernel_t){"out", 2, {HIDDEN, OUTPUT}, {DAO_ACCESS_READ, DAO_ACCESS_WRITE}, 0, DAO_OK});
    push((program_kernel_t){last, 2, {WEIGHT, OUTPUT}, {DAO_ACCESS_READ_WRITE, DAO_ACCESS_READ}, 0, DAO_OK});
    program_drop(&program, HIDDEN);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT(program_renew(&program, HIDDEN));
}

static const char *read_file(void)
{
    static char text[TEXT_BYTES];
    FILE *file = fopen(dao_test_path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    CU_ASSERT_EQUAL(fclose(file), 0);
    return text;
}

/* `hidden` is the number of the hidden tensor whose name was kept; `us` what each kernel takes. */
static void check_text(const char *text, int hidden, const char *last, const char *us)
{
    char wanted[TEXT_BYTES];
    (void)snprintf(wanted, sizeof(wanted),
                   "dao-step 1\n"
                   "tensor 0 4096 name=tensor%%200\ntensor 1 4096 name=tensor%%201\n"
                   "tensor 2 4096 name=tensor%%20%d\n"
                   "op to%%20hidden %s <0 <1 >2 +workspace:1000 -workspace\n"
                   "tensor 3 4096 name=tensor%%203\nop out %s <2 >3 -2\n"
                   "op %s %s *0 <3\nend\n",
                   hidden, us, us, last, us);
    CU_ASSERT_STRING_EQUAL(text, wanted);
    if (strcmp(text, wanted) != 0) {
        (void)printf("    wanted:\n%s    written:\n%s", wanted, text);
    }
}

/* That the second step is another one is seen as it begins; that the third is, only at its last kernel:
   it was measured as the second one, on a device whose kernels take no time. */
static void names_are_those_of_the_program(void)
{
    begin();
    run_step("update");
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    check_text(read_file(), 2, "update", "12.5");
    run_step("other");
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    check_text(read_file(), 4, "other", "12.5");
    is_synced = true;
    run_step("third");
    is_synced = false;
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    check_text(read_file(), 4, "third", "0");
    end();
}

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

/* A kernel without a name that reads a tensor and writes another one all over. */
static void push_unnamed(uint32_t read, uint32_t written, uint32_t flags)
{
    dao_operand_t operands[] = {{program.tensors[read].handle, DAO_ACCESS_READ},
                                {program.tensors[written].handle, DAO_ACCESS_WRITE}};
    dao_kernel_t kernel = {
        .launch = launch_nothing, .operands = operands, .operand_count = 2, .cost_ns = 3000, .flags = flags};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
}

/* What is written comes to life with its first kernel, unless that reads it; after that it is overwritten. */
static void what_is_written_all_over_and_what_may_run_again_is_told(void)
{
    begin();
    push_unnamed(WEIGHT, OUTPUT, DAO_KERNEL_REPEATABLE);
    push_unnamed(OUTPUT, WEIGHT, 0);
    push_unnamed(WEIGHT, OUTPUT, 0);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    CU_ASSERT_STRING_EQUAL(read_file(),
                           "dao-step 1\n"
                           "tensor 0 4096 name=tensor%200\ntensor 1 4096 name=tensor%203\n"
                           "op kernel 3 pure <0 >1\nop kernel 3 <1 =0\nop kernel 3 <0 =1\nend\n");
    end();
}

static void a_kernel_keeps_its_stream(void)
{
    begin_with((dao_executor_config_t){.stream_count = 2});
    program.stream_index = 1;
    push((program_kernel_t){"beside", 1, {WEIGHT}, {DAO_ACCESS_READ}, 0, DAO_OK});
    program.stream_index = 0;
    run_step("update");
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    const char *text = read_file();
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "op beside 12.5 stream=1 <0\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "op update 12.5 *0 <3\n"));
    end();
}

/* What comes for the second time is measured: the sum of the kernels is then in the file. */
static void times_are_measured(void)
{
    begin();
    for (int i = 0; i < 3; i++) {
        run_step("update");
    }
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    const dao_known_step_t *known = executor->engine.learner->before;
    CU_ASSERT_PTR_NOT_NULL_FATAL(known);
    CU_ASSERT_PTR_NOT_NULL_FATAL(known->kernel_ns);
    char line[64];
    (void)snprintf(line, sizeof(line), "op out %" PRIu64, known->kernel_ns[1] / 1000);
    CU_ASSERT_PTR_NOT_NULL(strstr(read_file(), line));
    end();
}

static void what_cannot_be_written_is_told(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_executor_step_write(NULL, dao_test_path), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, ""), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_ERR_NOT_READY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_executor_step_begin()"));
    run_step("update");
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, "/nowhere/step.dao"), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "/nowhere/step.dao"));
    push((program_kernel_t){"bad", 1, {WEIGHT}, {DAO_ACCESS_READ}, 0, DAO_ERR_INVALID});
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_ERR_NOT_READY);
    end();
    begin_with((dao_executor_config_t){.without_plans = true});
    run_step("update");
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_ERR_UNSUPPORTED);
    end();
}

static void a_full_disk_is_told(void)
{
    begin();
    run_step("update");
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, "/dev/full"), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "cannot write /dev/full: No space left"));
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    end();
}

#if defined(DAO_FAULTS)
/* Without memory for names a step is learnt all the same. */
static void want_of_memory_is_told(void)
{
    begin();
    run_step("update");
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT(dao_fault_disarm() > 0);
    CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    end();
}
#endif

static CU_TestInfo tests[] = {
    {"names are those of the program", names_are_those_of_the_program},
    {"what is written all over, and what may run again, is told",
     what_is_written_all_over_and_what_may_run_again_is_told},
    {"a kernel keeps its stream", a_kernel_keeps_its_stream},
    {"times are measured", times_are_measured},
    {"what cannot be written is told", what_cannot_be_written_is_told},
    {"a full disk is told", a_full_disk_is_told},
#if defined(DAO_FAULTS)
    {"want of memory is told", want_of_memory_is_told},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"step file", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

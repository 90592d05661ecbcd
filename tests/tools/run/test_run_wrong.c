/* SPDX-License-Identifier: Apache-2.0 */
/* A device that loses one bit: whichever copy to the device it happens to, the run sees it, says so and
   fails. Its dao_backend_ops() is taken before the library's own, so that the whole command runs on that
   device. */
#define _GNU_SOURCE
#include "backends/backend.h"
#include "backends/cpu/cpu.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/commands.h"
#include "tools/options/complain.h"
#include "tools/options/program.h"
#include "tools/read/step/read_json_step.h"
#include "tools/run/run_step.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIZE_DIVISOR = 256,
    LOOK_COUNT = 2 + TEST_ROUNDS(14)
}; /* the first copy, the last, and between them */

static dao_backend_ops_t ops;
static dao_step_trace_t trace;
static dao_step_figures_t figures;
static _Atomic int64_t
    copies_left; /* copies to the device before the one that goes wrong; negative: none does */
static _Atomic int64_t copy_count;

/* On the stream, behind the copy. */
static void flip_bit(void *user)
{
    *(unsigned char *)user ^= 1;
}

static dao_status_t copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                         size_t size_bytes)
{
    dao_status_t status = dao_cpu_backend_ops.copy(stream, kind, dst, src, size_bytes);
    if (kind == DAO_COPY_KIND_H2D) {
        atomic_fetch_add(&copy_count, 1);
        if (status == DAO_OK && atomic_fetch_sub(&copies_left, 1) == 0) {
            status = dao_cpu_backend_ops.host_func(stream, flip_bit, (char *)dst + size_bytes - 1);
        }
    }
    return status;
}

const dao_backend_ops_t *dao_backend_ops(void)
{
    ops = dao_cpu_backend_ops;
    ops.copy = copy;
    return &ops;
}

static dao_run_result_t run(int64_t copies_before, dao_run_mode_t mode)
{
    dao_run_result_t result = {0};
    dao_run_config_t config = {.capacity_bytes = figures.peak_bytes / 2,
                               .policy = DAO_POLICY_BELADY,
                               .mode = mode,
                               .is_without_comparison = true};
    atomic_store(&copy_count, 0);
    atomic_store(&copies_left, copies_before);
    CU_ASSERT_EQUAL(dao_run_step(&config, &trace, &result), DAO_OK);
    return result;
}

static void one_wrong_bit_is_seen_wherever_it_is(void)
{
    for (int mode = DAO_RUN_MODE_STEP; mode <= DAO_RUN_MODE_QUEUE; mode++) {
        dao_run_result_t right = run(-1, (dao_run_mode_t)mode);
        int64_t count = atomic_load(&copy_count);
        CU_ASSERT_EQUAL(right.mismatch_count, 0);
        CU_ASSERT_STRING_EQUAL(right.first_mismatch, "");
        CU_ASSERT_TRUE(count > LOOK_COUNT);
        int seen_count = 0;
        for (int64_t i = 0; i < LOOK_COUNT; i++) {
            int64_t wrong = i * (count - 1) / (LOOK_COUNT - 1);
            dao_run_result_t result = run(wrong, (dao_run_mode_t)mode);
            if (atomic_load(&copies_left) >= 0) {
                continue; /* what is moved depends on time: it had fewer copies */
            }
            seen_count++;
            CU_ASSERT_TRUE(result.mismatch_count > 0);
            CU_ASSERT_PTR_NOT_NULL(strstr(result.first_mismatch, "is wrong in"));
            if (result.mismatch_count == 0) {
                (void)printf("    copy %" PRId64 " of %" PRId64 ", mode %d\n", wrong, count, mode);
            }
        }
        CU_ASSERT_TRUE(seen_count > 0);
    }
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    dao_test_write_file(path, text, strlen(text));
}

/* Runs `dao run FOLDER --capacity 1MiB --json` and reads what it prints, on standard output and error. */
static int run_command(char *folder, char *out_text, size_t text_bytes)
{
    char *arguments[] = {folder, "--capacity", "1MiB", "--json"};
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/out", folder);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    int kept_output = dup(STDOUT_FILENO);
    int kept_error = dup(STDERR_FILENO);
    CU_ASSERT_TRUE_FATAL(file >= 0 && kept_output >= 0 && kept_error >= 0);
    (void)fflush(stdout);
    CU_ASSERT_TRUE(dup2(file, STDOUT_FILENO) >= 0 && dup2(file, STDERR_FILENO) >= 0);
    int exit_code = dao_command_execute(&dao_command_run, 4, arguments);
    (void)fflush(stdout);
    CU_ASSERT_TRUE(dup2(kept_output, STDOUT_FILENO) >= 0 && dup2(kept_error, STDERR_FILENO) >= 0);
    ssize_t length = pread(file, out_text, text_bytes - 1, 0);
    out_text[length > 0 ? length : 0] = '\0';
    CU_ASSERT_TRUE(close(file) == 0 && close(kept_output) == 0 && close(kept_error) == 0);
    return exit_code;
}

static void remove_files(const char *folder)
{
    static const char *const names[] = {
        "w.1.tensor_size.json", "w.1.resize_info.json", "w.1.cost_info.json", "w.io_info.json", "out", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        CU_ASSERT_EQUAL(remove(path), 0);
    }
}

static void the_command_says_it_and_fails(void)
{
    char folder[] = "/tmp/dao-run-wrong-XXXXXX";
    char text[4096];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    write_file(folder, "w.1.tensor_size.json", "{\"0\": 1000, \"1\": 2000}");
    write_file(folder, "w.1.resize_info.json", "[[]]");
    write_file(folder, "w.1.cost_info.json", "{\"0\": 0}");
    write_file(folder, "w.io_info.json",
               "[{\"op\":\"a\", \"id\":0, \"inputs\":[0], \"outputs\":[1], \"release\":[]}]");
    atomic_store(&copies_left, -1);
    CU_ASSERT_EQUAL(run_command(folder, text, sizeof(text)), DAO_EXIT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"mismatches\":0,"));
    for (int64_t pass = 0; pass < 4; pass++) { /* warm-up and measured, limited and unlimited */
        atomic_store(&copies_left, pass);
        CU_ASSERT_EQUAL(run_command(folder, text, sizeof(text)), DAO_EXIT_FAILED);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"mismatches\":1,"));
        CU_ASSERT_PTR_NOT_NULL(
            strstr(text, pass < 2 ? "wrong: operator 0" : "wrong: with unlimited memory: operator 0"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"a\": tensor 0 is wrong in 1 of its 125 words"));
    }
    remove_files(folder);
}

static int read_example(void)
{
    if (dao_read_json_step(DAO_TEST_SOURCE_DIR "/examples/traces/mobilenet_v2", NULL, &trace) != DAO_OK) {
        return 1;
    }
    for (size_t i = 0; i < trace.tensor_count; i++) {
        trace.tensors[i].size_bytes = (trace.tensors[i].size_bytes + SIZE_DIVISOR - 1) / SIZE_DIVISOR;
    }
    for (size_t i = 0; i < trace.temporary_count; i++) {
        uint64_t size_bytes = trace.temporaries[i].size_bytes;
        trace.temporaries[i].size_bytes = (size_bytes + SIZE_DIVISOR - 1) / SIZE_DIVISOR;
    }
    return dao_step_trace_pack(&trace) != DAO_OK || dao_step_trace_figures(&trace, &figures) != DAO_OK;
}

static int forget_example(void)
{
    dao_step_trace_finish(&trace);
    return 0;
}

static CU_TestInfo tests[] = {
    {"one wrong bit is seen wherever it is", one_wrong_bit_is_seen_wherever_it_is},
    {"the command says it and fails", the_command_says_it_and_fails},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"run wrong", read_example, forget_example, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `dao-bench gpu` on the loopback driver, as on a device: each of its figures is there, and nothing is left
   behind. */
#define _POSIX_C_SOURCE 200809L /* fileno, setenv */
#include "bench/commands.h"
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"
#include "tools/options/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_BYTES 16384

/* Runs the command, with its standard output in a file. */
static int run(const loopback_settings_t *settings, char out_text[OUTPUT_BYTES])
{
    char copy[] = "--copy", one[] = "1", json[] = "--json";
    char *arguments[] = {copy, one, json, NULL};
    FILE *file = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    loopback_set(settings);
    CU_ASSERT_EQUAL_FATAL(dao_init(NULL), DAO_OK); /* the command finalizes it */
    (void)fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    (void)dup2(fileno(file), STDOUT_FILENO);
    int exit_code = dao_command_execute(&dao_command_bench_gpu, 3, arguments);
    (void)fflush(stdout);
    (void)dup2(saved, STDOUT_FILENO);
    (void)close(saved);
    rewind(file);
    size_t length = fread(out_text, 1, OUTPUT_BYTES - 1, file);
    out_text[length] = '\0';
    (void)fclose(file);
    return exit_code;
}

static void every_figure_has_its_reference(void)
{
    static const char *const references[] = {"plain copies in", "the driver's alloc + free",
                                             "the driver's pool", "a page is taken new",
                                             "copies in of pinned memory"};
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(run(&(loopback_settings_t){.has_no_pools = false}, text), 0);
    for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++) {
        if (strstr(text, references[i]) == NULL) {
            (void)printf("    \"%s\" is missing\n%s\n", references[i], text);
            CU_FAIL("a reference");
        }
    }
}

static void without_pools_there_is_no_figure_of_them(void)
{
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(run(&(loopback_settings_t){.has_no_pools = true}, text), 0);
    CU_ASSERT_PTR_NULL(strstr(text, "the driver's pool"));
}

static CU_TestInfo tests[] = {
    {"every figure has its reference", every_figure_has_its_reference},
    {"without pools there is no figure of them", without_pools_there_is_no_figure_of_them},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    (void)setenv("DAO_CPU_DEVICE_BYTES", "1GiB", 1);
    CU_SuiteInfo suites[] = {{"bench gpu", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is printed, on either stream, between catch_output() and take_output(). */
#ifndef DAO_TESTS_TOOLS_OUTPUT_H
#define DAO_TESTS_TOOLS_OUTPUT_H

#include "tests/support/suite.h"

#include <stdio.h>
#include <unistd.h>

enum { OUTPUT_BYTES = 4096 };

static FILE *output;
static int kept_output, kept_error;

static inline void catch_output(void)
{
    output = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(output);
    (void)fflush(stdout);
    kept_output = dup(STDOUT_FILENO);
    kept_error = dup(STDERR_FILENO);
    CU_ASSERT_TRUE(dup2(fileno(output), STDOUT_FILENO) >= 0 && dup2(fileno(output), STDERR_FILENO) >= 0);
}

static inline void take_output(char out_text[OUTPUT_BYTES])
{
    (void)fflush(stdout);
    CU_ASSERT_TRUE(dup2(kept_output, STDOUT_FILENO) >= 0 && dup2(kept_error, STDERR_FILENO) >= 0);
    CU_ASSERT_TRUE(close(kept_output) == 0 && close(kept_error) == 0);
    rewind(output);
    size_t length = fread(out_text, 1, OUTPUT_BYTES - 1, output);
    out_text[length] = '\0';
    (void)fclose(output);
}

#endif

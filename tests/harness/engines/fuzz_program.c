/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of the harness (tests/harness): an input is a program of calls, which runs against the
   library and the model. */
#include "tests/fuzz/fuzz.h"
#include "tests/harness/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static harness_program_t program;
    static const harness_run_t run;
    harness_decode(data, size_bytes, &program);
    harness_run(&program, &run);
    return 0;
}

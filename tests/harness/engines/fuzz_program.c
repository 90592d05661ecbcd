/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of the harness (tests/harness): an input is a program of calls, which runs against the
   library and the model. Now and then a mutation is a new random program, so that libFuzzer needs no corpus
   to begin with. */
#include "tests/fuzz/fuzz.h"
#include "tests/harness/run.h"

#include <string.h>
#include <sys/prctl.h>

#define NEW_EVERY 16u /* mutations: the rest are libFuzzer's own, of what has reached something new */

/* libFuzzer calls it first. */
int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    (void)argument_count, (void)arguments;
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a program touches a few bytes of many pages */
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static harness_program_t program;
    static const harness_run_t run;
    harness_decode(data, size_bytes, &program);
    harness_run(&program, &run);
    return 0;
}

/* libFuzzer's: its own mutations. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size_bytes, size_t most_bytes);

/* Called by libFuzzer instead of these. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t most_bytes, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size_bytes, size_t most_bytes, unsigned seed)
{
    uint8_t bytes[HARNESS_PROGRAM_BYTES];
    if (seed % NEW_EVERY != 0 && size_bytes > HARNESS_CONFIG_BYTES) {
        return LLVMFuzzerMutate(data, size_bytes, most_bytes);
    }
    size_t length = harness_random_bytes(seed, bytes);
    length = length < most_bytes ? length : most_bytes;
    memcpy(data, bytes, length);
    return length;
}

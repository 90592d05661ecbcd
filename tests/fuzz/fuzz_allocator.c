/* The fuzz target: the first byte of an input picks the part that runs the rest. Linked with libFuzzer by the preset
   "fuzz"; in every other build with fuzz_main.c, as a test. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

const char *fuzz_label = "an input";

void fuzz_fail(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: %s: does not hold: %s\n", file, line, fuzz_label, condition);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_input_t input = {.next = data, .left = size_bytes};
    if (fuzz_byte(&input) % 2 == 0) {
        fuzz_range(&input);
    } else {
        fuzz_caching(&input);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of allocators: the first byte of an input picks the part that runs the rest. Linked with
   libFuzzer by the preset "fuzz"; in every other build with fuzz_main.c, as a test. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_input_t input = {.next = data, .left = size_bytes};
    if (fuzz_byte(&input) % 2 == 0) {
        fuzz_range(&input);
    } else {
        fuzz_device_memory(&input);
    }
    return 0;
}

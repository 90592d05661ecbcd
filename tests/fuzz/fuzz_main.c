/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without libFuzzer, so that every build can: files with inputs, and inputs of random
   bytes.

       fuzz_TARGET COUNT [FILE...]       COUNT random inputs, then the files

   The random inputs have the seeds DAO_TEST_SEED (1 if it is not set) and following; the seed that fails is
   printed. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_BYTES_MAX 4096u
#define INPUT_BYTES_MIN 64u

/* Runs one file; longer ones are cut. */
static bool run_file(const char *path)
{
    uint8_t bytes[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return false;
    }
    size_t size_bytes = fread(bytes, 1, sizeof(bytes), file);
    bool is_read = ferror(file) == 0;
    (void)fclose(file); /* it was only read */
    fuzz_label = path;
    return is_read && LLVMFuzzerTestOneInput(bytes, size_bytes) == 0;
}

/* Runs the input of one seed: short ones as often as long ones. */
static void run_seed(uint64_t seed)
{
    uint8_t bytes[INPUT_BYTES_MAX];
    char label[64];
    (void)snprintf(label, sizeof(label), "DAO_TEST_SEED=%" PRIu64, seed);
    fuzz_label = label;
    uint64_t state = seed;
    size_t most = INPUT_BYTES_MIN << dao_random_next(&state) % 6;
    size_t size_bytes = INPUT_BYTES_MIN + dao_random_next(&state) % most;
    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = (uint8_t)dao_random_next(&state);
    }
    (void)LLVMFuzzerTestOneInput(bytes, size_bytes); /* it gives 0 or stops */
    fuzz_label = "an input";
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t first = dao_test_seed("random inputs, the first of their seeds", 1);
    for (uint64_t i = 0; i < count; i++) {
        run_seed(first + i);
    }
    for (int i = 2; i < argc; i++) {
        if (!run_file(argv[i])) {
            return EXIT_FAILURE;
        }
    }
    (void)printf("%" PRIu64 " random inputs and %d files: nothing was found\n", count,
                 argc > 2 ? argc - 2 : 0);
    return EXIT_SUCCESS;
}

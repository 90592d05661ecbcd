/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. fuzz_allocator: an input is a program, bytes that say which calls are made and
   with what; each part of the target runs it against an allocator and against a slow model that knows what
   must be answered, and also when a request must not fail. fuzz_step_plan: the same for steps that are
   served from plans. The others are readers, of what comes from outside: fuzz_plan_file, fuzz_settings,
   fuzz_lifetimes, fuzz_step and fuzz_nsys. */
#ifndef DAO_TESTS_FUZZ_FUZZ_H
#define DAO_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of an input. */
typedef struct fuzz_input {
    const uint8_t *next;
    size_t left;
} fuzz_input_t;

/* Takes a number below 256 or below 65536; 0 once the input has ended. */
static inline uint32_t fuzz_byte(fuzz_input_t *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->next++;
}

static inline uint32_t fuzz_word(fuzz_input_t *input)
{
    uint32_t high = fuzz_byte(input);
    return high << 8 | fuzz_byte(input);
}

/* What is under test, for messages: a seed or a file. */
extern const char *fuzz_label;

/* Stops the program, as fuzzers want it. */
_Noreturn void fuzz_fail(const char *condition, const char *file, int line);

#define FUZZ_REQUIRE(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

/* The parts of fuzz_allocator: dao_range alone, and dao_caching with pages or with segments. */
void fuzz_range(fuzz_input_t *input);
void fuzz_device_memory(fuzz_input_t *input);

/* libFuzzer's entry: runs one input; gives 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The standalone runner of programs:

       harness_programs --programs N [--seed S] [--pairs]
                                                   N random programs; which pairs of an option and a call they
                                                   made, where one that is missing is a failure
       harness_programs --sweep N [--seed S]       N runs with faults
       harness_programs --sweep-pairs N [--seed S]    N programs with all pairs of faults
       harness_programs --file PATH [--fault POINT:SKIP:PERSISTENT]...    one program, as C

   The first program that fails is shrunk and printed as C. */
#include "tests/harness/engines/engine.h"
#include "tests/harness/pairs.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct seeds {
    uint64_t first, count;
    bool with_pairs;
} seeds_t;

static bool next_program(uint64_t index, engine_input_t *input, void *user)
{
    const seeds_t *seeds = user;
    *input = (engine_input_t){.index = index};
    if (index == seeds->count) {
        if (seeds->with_pairs && harness_pairs_print(false) > 0) {
            (void)printf("a pair was never made\n");
            (void)fflush(stdout);
            exit(EXIT_FAILURE);
        }
        return false;
    }
    input->length = harness_random_bytes(seeds->first + index, input->bytes);
    return true;
}

/* A program that ends well alone needs some that ran before it: the fewest of the powers of two. */
static void report_history(const seeds_t *seeds, uint64_t failed)
{
    static engine_input_t last;
    uint64_t count = 1;
    bool is_found = false;
    while (!is_found && count <= failed) {
        count = count * 2 <= failed ? count * 2 : failed + 1;
        seeds_t tail = {.first = seeds->first + failed + 1 - count, .count = count};
        is_found = !engine_run_all(next_program, NULL, &tail, &last);
    }
    if (is_found) {
        (void)printf("it needs what ran before it; again: harness_programs --programs %llu --seed %llu\n",
                     (unsigned long long)count, (unsigned long long)(seeds->first + failed + 1 - count));
    } else {
        (void)printf("seed %llu: it ended well when it ran again, alone and behind the same programs\n",
                     (unsigned long long)(seeds->first + failed));
    }
}

static int run_programs(uint64_t first, uint64_t count, bool with_pairs)
{
    static engine_input_t failed;
    seeds_t seeds = {.first = first, .count = count, .with_pairs = with_pairs};
    if (engine_run_all(next_program, NULL, &seeds, &failed)) {
        (void)printf("%llu programs from seed %llu: nothing was found\n", (unsigned long long)count,
                     (unsigned long long)first);
        return EXIT_SUCCESS;
    }
    if (failed.index == count) { /* every program ended well: it was a pair */
        return EXIT_FAILURE;
    }
    uint64_t seed = first + failed.index;
    (void)printf("the program of seed %llu failed\n", (unsigned long long)seed);
    if (engine_run_apart(&failed, false, true)) {
        report_history(&seeds, failed.index);
    } else {
        char path[64];
        (void)snprintf(path, sizeof(path), "harness_found_%llu.bin", (unsigned long long)seed);
        engine_report(&failed, path);
    }
    return EXIT_FAILURE;
}

/* Reads "POINT:SKIP:PERSISTENT", as the report of a failure prints it. */
static engine_fault_t read_fault(const char *text)
{
    char *next = NULL;
    engine_fault_t fault = {.is_set = true, .point = (uint32_t)strtoul(text, &next, 10)};
    fault.skip = *next == ':' ? strtoull(next + 1, &next, 10) : 0;
    fault.is_persistent = *next == ':' && next[1] == '1';
    return fault;
}

static int run_file(const char *path, const engine_fault_t faults[2])
{
    static engine_input_t input;
    memcpy(input.faults, faults, sizeof(input.faults));
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return EXIT_FAILURE;
    }
    input.length = fread(input.bytes, 1, sizeof(input.bytes), file);
    (void)fclose(file); /* it was only read */
    return engine_run_apart(&input, true, false) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    uint64_t programs = 0, runs = 0, paired = 0, seed = 1;
    bool with_pairs = false;
    const char *path = NULL;
    engine_fault_t faults[2] = {{0}, {0}};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--pairs") == 0) {
            with_pairs = true;
            continue;
        }
        if (strcmp(argv[i], "--programs") == 0) {
            programs = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--sweep") == 0) {
            runs = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--sweep-pairs") == 0) {
            paired = strtoull(value, NULL, 10);
            runs = UINT64_MAX;
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--file") == 0) {
            path = value;
        } else if (strcmp(argv[i], "--fault") == 0) {
            faults[faults[0].is_set] = read_fault(value);
        } else {
            (void)fprintf(
                stderr,
                "usage: harness_programs [--programs N] [--sweep N] [--sweep-pairs N] [--seed S] [--pairs] "
                "[--file PATH [--fault POINT:SKIP:PERSISTENT]...]\n");
            return EXIT_FAILURE;
        }
        i++;
    }
    if (path != NULL) {
        return run_file(path, faults);
    }
    if (programs > 0 && run_programs(seed, programs, with_pairs) != EXIT_SUCCESS) {
        return EXIT_FAILURE;
    }
    return runs == 0 || engine_sweep(seed, runs, paired) ? EXIT_SUCCESS : EXIT_FAILURE;
}

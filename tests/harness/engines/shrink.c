/* SPDX-License-Identifier: Apache-2.0 */
/* Shrinking. Each attempt is a run in a child process; what still fails, in whichever way, is kept. */
#include "tests/harness/engines/engine.h"

#include <stdio.h>
#include <string.h>

#define ATTEMPT_COUNT_MAX 2000u

typedef struct shrinking {
    engine_input_t *input;
    uint32_t attempt_count;
} shrinking_t;

/* Keeps a smaller input if it still fails. */
static bool try_input(shrinking_t *shrinking, const engine_input_t *smaller)
{
    if (shrinking->attempt_count++ >= ATTEMPT_COUNT_MAX || engine_run_apart(smaller, false, true)) {
        return false;
    }
    *shrinking->input = *smaller;
    return true;
}

static uint32_t op_count_of(const engine_input_t *input)
{
    return input->length > HARNESS_CONFIG_BYTES
               ? (uint32_t)((input->length - HARNESS_CONFIG_BYTES) / HARNESS_OP_BYTES)
               : 0;
}

/* Drops runs of calls: half of them at a time, then ever fewer. */
static void drop_calls(shrinking_t *shrinking)
{
    for (uint32_t run = op_count_of(shrinking->input); run > 0; run /= 2) {
        for (uint32_t at = 0; at + run <= op_count_of(shrinking->input);) {
            engine_input_t smaller = *shrinking->input;
            size_t begin = HARNESS_CONFIG_BYTES + at * HARNESS_OP_BYTES, bytes = run * HARNESS_OP_BYTES;
            memmove(smaller.bytes + begin, smaller.bytes + begin + bytes, smaller.length - begin - bytes);
            smaller.length -= bytes;
            at += try_input(shrinking, &smaller) ? 0 : run;
        }
    }
}

/* Clears every byte that need not be what it is, but those that say which call it is. */
static void clear_bytes(shrinking_t *shrinking)
{
    for (size_t i = 0; i < shrinking->input->length; i++) {
        bool is_call = i >= HARNESS_CONFIG_BYTES && (i - HARNESS_CONFIG_BYTES) % HARNESS_OP_BYTES == 0;
        if (!is_call && shrinking->input->bytes[i] != 0) {
            engine_input_t smaller = *shrinking->input;
            smaller.bytes[i] = 0;
            (void)try_input(shrinking, &smaller);
        }
    }
}

void engine_shrink(engine_input_t *input)
{
    shrinking_t shrinking = {.input = input};
    uint32_t before;
    do {
        before = op_count_of(input);
        drop_calls(&shrinking);
    } while (op_count_of(input) < before && shrinking.attempt_count < ATTEMPT_COUNT_MAX);
    clear_bytes(&shrinking);
    drop_calls(&shrinking);
}

static void print_fault(const engine_fault_t *fault)
{
    if (fault->is_set) {
        (void)printf("/* fault: call %llu of the point \"%s\" fails%s */\n", (unsigned long long)fault->skip,
                     engine_point_text(fault->point), fault->is_persistent ? ", and all behind it" : "");
    }
}

void engine_report(engine_input_t *input, const char *path)
{
    engine_input_t whole = *input;
    if (engine_run_apart(input, false, true)) {
        (void)printf("alone it ends well: it needs what ran before it in the process\n");
    } else {
        engine_shrink(input);
    }
    (void)printf("\n/* shrunk from %u calls to %u */\n", op_count_of(&whole), op_count_of(input));
    print_fault(&input->faults[0]);
    print_fault(&input->faults[1]);
    (void)engine_run_apart(input, true, false); /* it fails again; this time it says what it does */
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        (void)fwrite(input->bytes, 1, input->length, file); /* the report above is what counts */
        (void)fclose(file);
        (void)printf("\n/* again: harness_programs --file %s", path);
        for (int i = 0; i < 2 && input->faults[i].is_set; i++) {
            const engine_fault_t *fault = &input->faults[i];
            (void)printf(" --fault %u:%llu:%d", fault->point, (unsigned long long)fault->skip,
                         fault->is_persistent);
        }
        (void)printf(" */\n");
    }
}

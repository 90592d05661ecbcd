/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/loopback/cases.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MOST  128
#define ERRORS_MOST 64

typedef struct entry {
    const char *call;
    int errors[ERRORS_MOST];
    size_t error_count;
} entry_t;

static entry_t entries[CALLS_MOST];
static size_t entry_count;

static entry_t *entry_of(const char *call)
{
    size_t i = 0;
    while (i < entry_count && strcmp(entries[i].call, call) != 0) {
        i++;
    }
    if (i == CALLS_MOST) {
        abort(); /* there are more calls than this was made for */
    }
    if (i == entry_count) {
        entries[entry_count++].call = call;
    }
    return &entries[i];
}

static bool has_failed_with(const entry_t *entry, int error)
{
    size_t i = 0;
    while (i < entry->error_count && entry->errors[i] != error) {
        i++;
    }
    return i < entry->error_count;
}

void loopback_cases_note(const char *call)
{
    (void)entry_of(call);
}

void loopback_cases_note_failure(const char *call, int error)
{
    entry_t *entry = entry_of(call);
    if (!has_failed_with(entry, error)) {
        if (entry->error_count == ERRORS_MOST) {
            abort();
        }
        entry->errors[entry->error_count++] = error;
    }
}

long loopback_cases_missing(const int *errors, size_t error_count, long *out_count)
{
    long missing_count = 0;
    for (size_t i = 0; i < entry_count; i++) {
        for (size_t k = 0; k < error_count; k++) {
            if (!has_failed_with(&entries[i], errors[k])) {
                (void)printf("    \"%s\" never failed with %d\n", entries[i].call, errors[k]);
                missing_count++;
            }
        }
    }
    *out_count = (long)(entry_count * error_count);
    return missing_count;
}

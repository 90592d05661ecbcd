/* SPDX-License-Identifier: Apache-2.0 */
/* Runs each case of misuse in a process of its own: this program starts itself anew with the case's name. A
   process ends by itself, without a signal; every call has answered as its case says and changed nothing; and
   the library stops as it should.

   usage: test_misuse [NAME]    one case, in this process */
#define _GNU_SOURCE
#include "tests/misuse/misuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SENTINEL_BYTES 4096
#define SENTINEL_VALUE 0x5a
#define PLACE_COUNT    4
#define SENTINEL_COUNT 3 /* at all places but the other device */
#define OUTPUT_BYTES   65536

static const misuse_case_t *const tables[] = {
    misuse_memory_cases, misuse_handle_cases,  misuse_stream_cases, misuse_executor_cases,
    misuse_plan_cases,   misuse_process_cases, misuse_poison_cases};

const dao_place_t misuse_host = {DAO_PLACE_KIND_CPU, 0}, misuse_pinned = {DAO_PLACE_KIND_PINNED, 0},
                  misuse_device = {DAO_PLACE_KIND_DEVICE, 0}, misuse_other = {DAO_PLACE_KIND_DEVICE, 1};

static const dao_place_t places[PLACE_COUNT] = {{DAO_PLACE_KIND_CPU, 0},
                                                {DAO_PLACE_KIND_PINNED, 0},
                                                {DAO_PLACE_KIND_DEVICE, 0},
                                                {DAO_PLACE_KIND_DEVICE, 1}};

/* ---- in the process of a case ---- */

static bool has_begun;
static unsigned char *sentinels[SENTINEL_COUNT];
static dao_stats_t before[PLACE_COUNT];
static long failure_count;

void misuse_need(bool holds, const char *call, int line)
{
    if (!holds) {
        (void)fprintf(stderr, "line %d: %s does not hold: %s: %s\n", line, call,
                      dao_status_name(dao_last_status()), dao_last_message());
        exit(1);
    }
}

void misuse_begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = MISUSE_DEVICE_BYTES}};
    NEED(dao_init(&config) == DAO_OK);
    for (int i = 0; i < SENTINEL_COUNT; i++) {
        sentinels[i] = dao_alloc(places[i], SENTINEL_BYTES);
        NEED(sentinels[i] != NULL);
        memset(sentinels[i], SENTINEL_VALUE, SENTINEL_BYTES); /* a virtual device's memory is the host's */
    }
    has_begun = true;
}

static void stats_read(dao_stats_t *stats)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        NEED(dao_stats_get(places[i], &stats[i]) == DAO_OK);
    }
}

void misuse_before(void)
{
    if (has_begun) {
        stats_read(before);
    }
}

static bool is_unchanged(const dao_stats_t *a, const dao_stats_t *b)
{
    return a->requested_bytes == b->requested_bytes && a->used_bytes == b->used_bytes &&
           a->live_count == b->live_count && a->alloc_count == b->alloc_count &&
           a->free_count == b->free_count && a->limit_bytes == b->limit_bytes &&
           a->shared_bytes == b->shared_bytes && a->imported_bytes == b->imported_bytes;
}

static void failed(const char *call, int line, const char *what)
{
    (void)fprintf(stderr, "line %d: %s: %s\n", line, call, what);
    failure_count++;
}

void misuse_after(const char *call, int line, dao_status_t status, dao_status_t expected, const char *text)
{
    if (status != expected || dao_last_status() != expected) {
        failed(call, line, dao_status_name(status));
        failed(call, line, dao_last_message());
    }
    if (strstr(dao_last_message(), text) == NULL) {
        failed(call, line, dao_last_message());
    }
    if (!has_begun) {
        return;
    }
    dao_stats_t after[PLACE_COUNT];
    stats_read(after);
    for (int i = 0; i < PLACE_COUNT; i++) {
        if (!is_unchanged(&before[i], &after[i])) {
            failed(call, line, "the statistics have changed");
        }
    }
    for (int i = 0; i < SENTINEL_COUNT; i++) {
        for (int j = 0; j < SENTINEL_BYTES; j++) {
            if (sentinels[i][j] != SENTINEL_VALUE) {
                failed(call, line, "another block's bytes have changed");
                break;
            }
        }
    }
}

static int case_run(const misuse_case_t *misuse)
{
    misuse->run();
    for (int i = 0; has_begun && i < SENTINEL_COUNT; i++) {
        NEED(dao_free(places[i], sentinels[i]) == DAO_OK);
    }
    dao_status_t status = dao_finalize();
    if (status != misuse->end && !(misuse->end == DAO_OK && status == DAO_ERR_SHUTDOWN)) {
        failed("dao_finalize()", 0, dao_status_name(status));
        failed("dao_finalize()", 0, dao_last_message());
    }
    return failure_count == 0 ? 0 : 1;
}

static const misuse_case_t *case_find(const char *name)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const misuse_case_t *misuse = tables[i]; misuse->name != NULL; misuse++) {
            if (strcmp(misuse->name, name) == 0) {
                return misuse;
            }
        }
    }
    return NULL;
}

/* ---- in the first process ---- */

/* Starts a case and returns the end of its output. */
static int case_start(const misuse_case_t *misuse, pid_t *out_process)
{
    int files[2];
    NEED(pipe(files) == 0);
    *out_process = fork();
    NEED(*out_process >= 0);
    if (*out_process == 0) {
        char variable[256] = "DAO_TEST=misuse";
        if (misuse->environment != NULL) {
            (void)snprintf(variable, sizeof(variable), "%s", misuse->environment);
        }
        (void)putenv(variable);
        (void)dup2(files[1], STDERR_FILENO);
        (void)close(files[0]);
        (void)close(files[1]);
        (void)execl("/proc/self/exe", "test_misuse", misuse->name, (char *)NULL);
        _exit(127);
    }
    (void)close(files[1]);
    return files[0];
}

static bool case_passes(const misuse_case_t *misuse)
{
    static char output[OUTPUT_BYTES];
    size_t length = 0;
    ssize_t got;
    pid_t process;
    int status = -1, file = case_start(misuse, &process);
    while ((got = read(file, output + length, sizeof(output) - 1 - length)) > 0) {
        length += (size_t)got;
    }
    output[length] = '\0';
    (void)close(file);
    NEED(waitpid(process, &status, 0) == process);
    bool is_said = (misuse->says == NULL || strstr(output, misuse->says) != NULL) &&
                   (misuse->reported == NULL || strstr(output, misuse->reported) != NULL);
    bool has_passed =
        WIFEXITED(status) && (WEXITSTATUS(status) == 0) == (misuse->reported == NULL) && is_said;
    if (!has_passed) {
        (void)printf("FAILED %s: status %#x%s\n%s\n", misuse->name, (unsigned)status,
                     is_said ? "" : ", the log does not say what it should", output);
    }
    return has_passed;
}

int main(int count, char **arguments)
{
    if (count > 1) {
        const misuse_case_t *misuse = case_find(arguments[1]);
        if (misuse == NULL) {
            (void)fprintf(stderr, "there is no case \"%s\"\n", arguments[1]);
            return 2;
        }
        return case_run(misuse);
    }
    unsigned case_count = 0, passed_count = 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const misuse_case_t *misuse = tables[i]; misuse->name != NULL; misuse++) {
            case_count++;
            passed_count += case_passes(misuse) ? 1 : 0;
        }
    }
    (void)printf("misuse: %u cases, a process each; %u passed\n", case_count, passed_count);
    return case_count >= 80 && passed_count == case_count ? 0 : 1; /* as many as were promised */
}
